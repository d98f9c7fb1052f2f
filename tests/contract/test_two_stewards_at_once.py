"""Two stewards at one board at the same moment, of which one has lost its leases and does not know: one effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from gateway.catalogue.family_terms import terms_of
from gateway.ledger.archive.reading import archived_page
from gateway.ledger.archive.windows import archived_windows_of
from gateway.ledger.boards.board_life import life_of
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.leases import lane_lease
from gateway.ledger.ledger import Ledger
from gateway.recordings.opening import recordings_of
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.archive import archiving
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.leases import DutyLease, StewardLeases
from gateway.wiring import catalogue_of, open_index, open_ledger
from policies.errors import LeaseLost
from policies.opened_board import BoardState, OpenedBoard
from policies.vocabulary import Reason, State
from tests.support.ledger import NOON_MS, new_submission
from tests.support.policies import a_family, write_policies
from tests.support.stores import Store
from tests.support.valkey import ValkeyServer

BOARD = "track.a"
LANE = lane_lease(lane_of(BOARD))
HOUR_MS = 3_600_000
PLAYERS = 5


class Stalling:
    """A ledger whose writes may be held up before they begin, as by a pause of their process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.writes_left: int | None = None
        self.has_stalled = asyncio.Event()
        self.may_go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def write(self, work: Any) -> Any:
        if self.writes_left == 0:
            self.writes_left = None
            self.has_stalled.set()
            await self.may_go_on.wait()
        elif self.writes_left is not None:
            self.writes_left -= 1
        return await self._ledger.write(work)


class House:
    """A family's board, and stewards that follow one another while each believes in its leases for ever."""

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self.settings = settings
        self.stack = stack
        self.now_ms = NOON_MS
        self.stewards = 0
        self.lost: list[str] = []

    async def steward(self) -> Steward:
        """A steward that takes all leases: by its clock all others are dead, and time stands still for itself."""
        self.stewards += 1
        ahead_ms = self.stewards * HOUR_MS
        ledger = Stalling(await self.stack.enter_async_context(open_ledger(self.settings)))
        index = await self.stack.enter_async_context(open_index(self.settings))
        leases = StewardLeases(ledger, clock=lambda: NOON_MS + ahead_ms, steady=lambda: 0.0)  # type: ignore[arg-type]
        leases.is_kept = True
        lose = leases.lose

        def note(lease: Any) -> None:
            self.lost.append(lease.name)
            lose(lease)

        leases.lose = note  # type: ignore[method-assign]
        await leases.turn()
        assert leases.held(LANE)
        assert leases.held(DutyLease.BOARDS)
        steward = Steward(
            self.settings,
            catalogue_of(self.settings, ledger),  # type: ignore[arg-type]
            ledger,  # type: ignore[arg-type]
            index,
            RqJobs(Redis.from_url(self.settings.redis_url)),
            recordings=recordings_of(self.settings),
            clock=lambda: self.now_ms,
            leases=leases,
        )
        self.stack.push_async_callback(steward._in_ledger.aclose)
        return steward

    async def archive(self, steward: Steward) -> None:
        """Look for windows to archive until a steward finds none, or has lost the lane."""
        steward.catalogue.forget([BOARD])
        while await steward.archive():
            steward.catalogue.forget([BOARD])


@pytest.fixture
async def house(
    tmp_path: Path, valkey: ValkeyServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    for name in ("SLICE", "PLAYERS"):
        monkeypatch.setattr(archiving, name, 2)
    settings = Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", a_family(writes="trusted")),
        redis_url=valkey.url,
        ledger_url=store.url,
        archive_after_s=0,
    )
    async with AsyncExitStack() as stack:
        yield House(settings, stack)


async def stalled(house: House, steward: Steward, work: Any, *, after_writes: int) -> asyncio.Task[Any]:
    """Begin work that stops before a later write, and return it once it stands there."""
    ledger: Any = steward._unfenced_ledger
    ledger.writes_left = after_writes
    steward.catalogue.forget([BOARD])
    begun = asyncio.create_task(work)
    await asyncio.wait_for(ledger.has_stalled.wait(), 60)
    assert not begun.done()
    return begun


async def awakened(steward: Steward, begun: asyncio.Task[Any]) -> None:
    """Let stalled work go on to its end."""
    ledger: Any = steward._unfenced_ledger
    ledger.may_go_on.set()
    with suppress(LeaseLost):
        await begun
    ledger.has_stalled.clear()
    ledger.may_go_on.clear()


async def close(steward: Steward) -> int:
    """Close what is due, as the steward's loop does it."""
    with steward.leases.working(DutyLease.BOARDS) as is_ours:
        return await steward.close_boards() if is_ours else 0


async def archived(ledger: Ledger) -> tuple[int, bool, list[tuple[int, str]]]:
    """The revision in the archive, whether it is withdrawn, and its ranks as readers have them."""
    [window] = await ledger.read(archived_windows_of(BOARD))
    page = await ledger.read(archived_page(BOARD, "alltime", first=0, count=50))
    return (
        window.revision,
        window.is_withdrawn,
        [(each.rank, each.player) for each in page.entries] if page else [],
    )


async def test_one_of_two_stewards_closes_archives_and_withdraws(  # noqa: PLR0915 - one life of a board
    house: House, store: Store
):
    """The later one, to its end, whatever the other was in the middle of; nothing counts that the first goes on to write."""
    first = await house.steward()
    family = first.catalogue.families["track"]
    terms, ledger = terms_of(family), await house.stack.enter_async_context(open_ledger(house.settings))
    opened = OpenedBoard(BOARD, "track", "A", closes_at_ms=NOON_MS + 1_000)
    await ledger.write(open_boards(terms, [opened], actor="server:eu", at_ms=NOON_MS))
    for at in range(PLAYERS):
        await ledger.append(new_submission(f"run-{at}", board=BOARD, player=f"p{at}", score=at))
        pending = frozenset({State.PENDING})
        decision = Decision(f"run-{at}", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, pending)
        await settle(ledger, first.index, family.board(opened), [decision])
    ranks = [(rank, f"p{PLAYERS - rank}") for rank in range(1, PLAYERS + 1)]

    async def life() -> list[str]:
        return [event.reason.value for event in await ledger.read(life_of(BOARD))]

    async def turn(state: BoardState) -> None:
        await ledger.write(set_states(terms, [BOARD], state, actor="cli", at_ms=house.now_ms))

    house.now_ms += 1_000
    begun = await stalled(house, first, close(first), after_writes=0)
    second = await house.steward()
    assert 1 == await close(second)
    await awakened(first, begun)
    assert ["boards"] == house.lost
    assert ["board-opened", "board-closed"] == await life()

    house.now_ms += 1_000
    begun = await stalled(house, second, house.archive(second), after_writes=6)
    [half] = await ledger.read(archived_windows_of(BOARD))
    assert half.stage.is_building
    third = await house.steward()
    await house.archive(third)
    assert (1, False, ranks) == await archived(ledger)
    await awakened(second, begun)
    assert ["boards", LANE] == house.lost
    assert (1, False, ranks) == await archived(ledger)
    assert [(PLAYERS,)] == await store.sql(f"SELECT count(*) FROM archived_entries WHERE board = '{BOARD}'")

    await turn(BoardState.OPEN)
    await turn(BoardState.CLOSED)
    house.now_ms += 20_000
    begun = await stalled(house, third, house.archive(third), after_writes=2)
    fourth = await house.steward()
    await turn(BoardState.OPEN)
    await house.archive(fourth)
    await awakened(third, begun)
    assert ["boards", LANE, LANE] == house.lost
    await house.archive(fourth)
    revision, is_withdrawn, _ = await archived(ledger)
    assert is_withdrawn

    await turn(BoardState.CLOSED)
    house.now_ms += 20_000
    fifth = await house.steward()
    late, in_time = await asyncio.gather(house.archive(fourth), house.archive(fifth), return_exceptions=True)
    assert in_time is None
    assert late is None or isinstance(late, LeaseLost)  # or it came when all was done
    last, is_withdrawn, entries = await archived(ledger)
    assert (False, ranks) == (is_withdrawn, entries)
    assert last > revision
    assert [(PLAYERS,)] == await store.sql(f"SELECT count(*) FROM archived_entries WHERE board = '{BOARD}'")
    assert ["board-opened", "board-closed", *["board-reopened", "board-closed"] * 2] == await life()
