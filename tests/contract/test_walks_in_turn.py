"""Walks of stewards over what is due, a few rows at a time: none passes over a row that shares its time or its board."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.ledger.acts import Act
from gateway.ledger.archive import windows
from gateway.ledger.archive.windows import FrozenPolicy, windows_at_work
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.bans import bans_to_end
from gateway.ledger.moderation.batches import due_batches
from gateway.ledger.players.joins import changes_of, put_join
from gateway.ledger.privacy.erasures import erasures_due
from gateway.ledger.schema import anchored_windows, rollup_borders
from gateway.ledger.standings.anchors import anchored_after
from gateway.ledger.standings.rollup_borders import forget_next_borders
from gateway.ledger.transaction import Operation
from gateway.settlement import bans as banning
from gateway.settlement import batches as batching
from gateway.settlement import erasing
from policies.choices import WindowKind
from policies.decision_codes import DecisionKind
from policies.windows import Window
from tests.support.banning import a_ban
from tests.support.batching import a_batch
from tests.support.ledger import NOON_MS
from tests.support.stores import Store, open_in

THREE = ("a", "b", "c")
NOW_MS = NOON_MS + 1
PLACES = [(board, f"daily:2026113{number}") for board in ("one", "two") for number in range(2)]
"""Two windows of each of two boards."""


async def bans(ledger: Ledger) -> tuple[Any, Any]:
    for name in THREE:
        await ledger.write(banning.begin(a_ban(name, name, until_ms=NOON_MS)))
    return [*THREE], walked(ledger, None, lambda last: bans_to_end(last, now_ms=NOW_MS, count=1), "ban_id")


async def batches(ledger: Ledger) -> tuple[Any, Any]:
    for name in THREE:
        await ledger.write(batching.begin(a_batch(name, DecisionKind.REVOKE)))
    return [*THREE], walked(ledger, None, lambda last: due_batches(last, now_ms=NOW_MS, count=1), "batch_id")


async def erasures(ledger: Ledger) -> tuple[Any, Any]:
    for name in THREE:
        await ledger.write(erasing.ask(name, Act("cli:op", NOON_MS), grace_ms=0))
    return [*THREE], walked(ledger, None, lambda last: erasures_due(last, now_ms=NOW_MS, count=1), "player")


async def archives(ledger: Ledger) -> tuple[Any, Any]:
    for board, name in PLACES:
        window = Window(WindowKind.DAILY, name, NOON_MS - 2, NOON_MS - 1)
        await ledger.write(windows.begin(board, window, FrozenPolicy("{}", "digest", "rule")))
    return PLACES, walked(ledger, ("", ""), lambda last: windows_at_work(last, count=1))


async def anchors(ledger: Ledger) -> tuple[Any, Any]:
    rows = [(board, window, "rule") for board, window in PLACES]
    await ledger.write(lambda tx: tx.insert(anchored_windows, rows))
    return PLACES, walked(ledger, ("", ""), lambda last: anchored_after(last, count=1))


async def borders(ledger: Ledger) -> tuple[Any, Any]:
    rows = [("all", board, window, "rule", "{}") for board, window in PLACES]
    await ledger.write(lambda tx: tx.insert(rollup_borders, rows))
    return PLACES, walked(
        ledger, ("", ""), lambda last: forget_next_borders("all", last, count=1), is_write=True
    )


async def joins(ledger: Ledger) -> tuple[Any, Any]:
    for player in THREE:
        for joins_now in (True, False):
            how = {"joins_now": joins_now, "actor": player, "at_ms": NOON_MS}
            await ledger.write(lambda tx, player=player, how=how: put_join(tx, "tiny", player, **how))
    walking = walked(
        ledger,
        ("", 0),
        lambda last: changes_of("tiny", after=last[:2], count=1),
    )
    return [(player, joined) for player in THREE for joined in (1, 0)], _of_joins(walking)


async def _of_joins(walking: Awaitable[list[Any]]) -> list[tuple[str, int]]:
    return [(change.player, change.is_joined) for change in await walking]


async def walked(
    ledger: Ledger,
    last: Any,
    page: Callable[[Any], Operation[Any]],
    name: str | None = None,
    *,
    is_write: bool = False,
) -> list[Any]:
    """What a walk meets that goes on behind each row, by its name if it has one."""
    met: list[Any] = []
    do: Any = ledger.write if is_write else ledger.read
    while rows := await do(page(last)):
        last = rows[-1]
        met += [getattr(row, name) if name else row for row in rows]
    return met


@pytest.mark.parametrize("fill", [bans, batches, erasures, archives, anchors, borders, joins])
async def test_a_walk_meets_each_row_once(store: Store, fill: Callable[[Ledger], Awaitable[tuple[Any, Any]]]):
    """Though all are due at the same instant, or several are of one board or player, and it takes one at a time."""
    async with open_in(store) as ledger:
        expected, walking = await fill(ledger)
        assert expected == await walking
