"""The ways in which a deployment is read: whole, without Redis, after it was emptied, on a cluster, from the archive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.oracle.boards import draw_policies
from tests.oracle.calendars import Span
from tests.oracle.driver import Driver, HandClock
from tests.oracle.reads import Comparison, Report
from tests.oracle.stores import Stores
from tests.support.harness import free_port, running_harness

BOARDS = 5
ROUNDS = 3
SPANS = 2
"""Windows of each board that are looked at in one comparison, drawn from all that can be read."""

UNHURRIED = {"read_budget_ms": 1_000_000, "redis_timeout_ms": 5_000}
"""Reads are not limited by their cost, and nothing is late because the machine is busy."""

DAY_S = 86_400
PATIENCE_ROUNDS = 5_000
QUIET_ROUNDS = 10

Mode = Callable[["Game"], Coroutine[Any, Any, None]]


class Game:
    """One deployment, what is sent to it, and what it is compared with."""

    def __init__(self, driver: Driver, comparison: Comparison, operations: int, stores: Stores) -> None:
        self.driver = driver
        self.comparison = comparison
        self.harness = driver.harness
        self.operations = operations
        self.stores = stores
        self.steward = driver.harness.steward()

    async def write(self) -> None:
        """A part of the history."""
        await self.driver.run(self.operations // ROUNDS)

    async def compare(self, *, is_whole: bool = True) -> None:
        """Every read of the windows that the index has."""
        now_ms = self.driver.now_ms
        await self.comparison.compare(self._spans(lambda span: span.forgotten_ms > now_ms), is_whole=is_whole)

    async def compare_archived(self) -> None:
        """Every read of the windows that are over."""
        now_ms = self.driver.now_ms
        await self.comparison.compare(self._spans(lambda span: span.end_ms < now_ms))

    def _spans(self, is_asked: Callable[[Span], bool]) -> dict[str, list[Span]]:
        boards = self.driver.oracle.policies
        found = {board: [span for span in self.driver.spans(board) if is_asked(span)] for board in boards}
        random = self.comparison.random
        return {board: random.sample(spans, min(SPANS, len(spans))) for board, spans in found.items()}

    async def rebuild(self) -> None:
        """The steward's rounds, until it finds nothing to repair for some."""
        quiet = 0
        for _ in range(PATIENCE_ROUNDS):
            done = await self.steward.reconcile() + await self.steward.keep_tails()
            quiet = 0 if done else quiet + 1
            if quiet > QUIET_ROUNDS:
                return
        raise AssertionError("the index is never whole")

    async def archive(self) -> None:
        """The steward's rounds, until every window that is over is archived as the ledger has it now."""
        for _ in range(4):
            while await self.steward.archive():
                pass
            self.harness.clock.shift(60)


async def with_the_index(game: Game) -> None:
    """All reads of current windows, and of those over that the index still has."""
    for _ in range(ROUNDS):
        await game.write()
        await game.compare()


async def after_emptying(game: Game) -> None:
    """Right after Redis is emptied nothing is wrong, and once the boards are rebuilt nothing is missing."""
    for _ in range(ROUNDS - 1):
        await game.write()
    await asyncio.to_thread(game.stores.empty)
    await game.compare(is_whole=False)
    await game.write()
    await game.compare(is_whole=False)
    await game.rebuild()
    await game.compare()


async def from_archives(game: Game) -> None:
    """Windows that are over, archived; and what comes late is in their next revisions."""
    for _ in range(ROUNDS):
        await game.write()
        game.harness.clock.shift(DAY_S)
        await game.archive()
        await game.compare_archived()


async def with_the_ledger_alone(game: Game) -> None:
    """Redis is gone: what is written meanwhile is read all the same, but for what is made in Redis."""
    await game.write()
    await asyncio.to_thread(game.stores.stop)
    for _ in range(ROUNDS - 1):
        await game.write()
        await game.compare(is_whole=False)


async def while_cold(game: Game) -> None:
    """Boards that left Redis are read from the ledger, and come back to where they were."""
    for _ in range(ROUNDS):
        await game.write()
        game.harness.clock.shift(2 * 3600)
        for _ in range(BOARDS + 1):
            await game.steward.see_to_cold()
        await game.compare(is_whole=False)
        for _ in range(BOARDS + 1):
            await game.steward.see_to_cold()
        await game.rebuild()
        await game.compare()


MODES: dict[str, Mode] = {
    mode.__name__: mode
    for mode in (with_the_index, after_emptying, from_archives, with_the_ledger_alone, while_cold)
}


async def play(stores: Stores, mode: Mode, *, seed: int, operations: int, report: Report) -> int:
    """How many operations were acknowledged by a deployment of boards that the seed draws, in this mode."""
    random = Random(seed)
    policies = draw_policies(random, stores.folder / "policies", BOARDS, first=seed * BOARDS)
    places = {"policies_dir": stores.folder / "policies", "data_dir": stores.folder / "data"}
    told = places | {"bind": f"127.0.0.1:{free_port()}"} | UNHURRIED
    async with running_harness(stores.settings.model_copy(update=told), HandClock()) as harness:
        driver = await Driver.begin(harness, policies, random)
        comparison = Comparison(driver, random, f"seed {seed}, {mode.__name__}", report)
        await mode(Game(driver, comparison, operations, stores))
        return driver.operations
