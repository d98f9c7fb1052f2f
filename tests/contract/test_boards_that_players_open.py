"""Boards that players open, in the ledger: once, within the limits of all players together, on each database."""

from __future__ import annotations

import asyncio

import pytest

from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.boards.player_openings import (
    FamilyOpenings,
    OpeningOutcome,
    PlayerOpening,
    open_for_player,
)
from gateway.ledger.ledger import Ledger
from policies.limits import HourlyRate
from policies.opened_board import BoardState, OpenedBoard
from tests.support.ledger import NOON_MS
from tests.support.stores import Store, open_in

TRACKS = FamilyTerms("track", "sha256:tracks", (), frees_names=True)
OPENED, EXISTS = PlayerOpening(OpeningOutcome.OPENED), PlayerOpening(OpeningOutcome.EXISTS)
FULL = PlayerOpening(OpeningOutcome.FULL)


async def opened(
    ledger: Ledger,
    rest: str,
    *,
    per_hour: int = 1000,
    in_all: int = 1000,
    at_ms: int = NOON_MS,
    terms: FamilyTerms = TRACKS,
    player: str = "ada",
) -> PlayerOpening:
    board = OpenedBoard(f"{terms.family}.{rest}", terms.family, rest)
    limits = FamilyOpenings(HourlyRate(per_hour=per_hour), in_all)
    work = open_for_player(terms, limits, board, actor=f"player:{player}", at_ms=at_ms)
    return await ledger.write(work)


async def rows(store: Store) -> tuple[int, int, list[tuple[str, int]]]:
    """How many boards and events there are, and the counts of families."""
    [(boards,)] = await store.sql("SELECT count(*) FROM boards")
    [(events,)] = await store.sql("SELECT count(*) FROM events")
    counts = await store.sql("SELECT family, boards FROM family_openings ORDER BY family")
    return boards, events, [tuple(count) for count in counts]


async def test_a_board_that_is_refused_is_charged_to_nobody(store: Store):
    """What no family allows is an error of ours, and not a board that was opened."""
    async with open_in(store) as ledger:
        stranger = OpenedBoard("car.monza", "track", "Monza")
        limits = FamilyOpenings(HourlyRate(per_hour=1), 1)
        with pytest.raises(ValueError, match="not of the family track"):
            await ledger.write(open_for_player(TRACKS, limits, stranger, actor="player:ada", at_ms=NOON_MS))
        assert (0, 0, []) == await rows(store)


async def test_many_players_open_a_name_once(store: Store):
    """A hundred at once by two edges make one board, one event, one count, and one of them is the actor."""
    async with open_in(store) as one, open_in(store) as other:
        outcomes = await asyncio.gather(
            *(opened(one if at % 2 else other, "monza", player=f"p{at}") for at in range(100))
        )
        [board] = (await one.read(boards_named(["track.monza"]))).values()
    assert 1 == outcomes.count(OPENED)
    assert 99 == outcomes.count(EXISTS)
    assert (1, 1, [("track", 1)]) == await rows(store)
    winner = outcomes.index(OPENED)
    assert ("track.monza", "monza", f"player:p{winner}", NOON_MS, 1) == (
        board.board, board.title, board.opened_by, board.opened_at_ms, board.version,
    )  # fmt: skip


async def test_a_name_that_has_or_had_a_board_is_left_alone(store: Store):
    """Whoever opened it, closed or deleted, and even where names are free; nothing is written or counted."""
    async with open_in(store) as ledger:
        batch = [OpenedBoard(f"track.{rest}", "track", "Studio's") for rest in ("a", "b", "c")]
        await ledger.write(open_boards(TRACKS, batch, actor="server:kart", at_ms=NOON_MS))
        for name, state in (("track.b", BoardState.CLOSED), ("track.c", BoardState.DELETED)):
            await ledger.write(set_states(TRACKS, [name], state, actor="cli", at_ms=NOON_MS))
        before = await rows(store)
        assert [EXISTS] * 3 == [await opened(ledger, rest) for rest in ("a", "b", "c")]
        boards = await ledger.read(boards_named([board.board for board in batch]))
    assert before == await rows(store)
    assert [("Studio's", "open"), ("Studio's", "closed"), ("Studio's", "deleted")] == [
        (boards[board.board].title, boards[board.board].state.value) for board in batch
    ]


async def test_all_players_together_open_so_many_in_an_hour(store: Store):
    """At once, then one in each part of the hour; a refusal says when, and writes nothing. Families count apart."""
    hour_ms = 3_600_000
    async with open_in(store) as ledger:
        for at in range(3):
            assert OPENED == await opened(ledger, f"a{at}", per_hour=3)
        refused = await opened(ledger, "a3", per_hour=3)
        assert PlayerOpening(OpeningOutcome.LIMITED, hour_ms // 3) == refused
        assert (3, 3, [("track", 3)]) == await rows(store)
        assert OPENED == await opened(ledger, "x", per_hour=3, terms=TRACKS._replace(family="level"))
        later_ms = NOON_MS + refused.wait_ms
        early = await opened(ledger, "a3", per_hour=3, at_ms=later_ms - 1)
        assert PlayerOpening(OpeningOutcome.LIMITED, 1) == early
        assert OPENED == await opened(ledger, "a3", per_hour=3, at_ms=later_ms)
        assert OpeningOutcome.LIMITED is (await opened(ledger, "a4", per_hour=3, at_ms=later_ms)).outcome
        for at in range(3):
            assert OPENED == await opened(ledger, f"b{at}", per_hour=3, at_ms=later_ms + hour_ms)
    assert (8, 8, [("level", 1), ("track", 7)]) == await rows(store)


async def test_a_clock_that_ran_ahead_shuts_nobody_out(store: Store):
    """The wait is never longer than an hour's share of the limit."""
    async with open_in(store) as ledger:
        assert OPENED == await opened(ledger, "a", per_hour=2, at_ms=NOON_MS + 86_400_000)
        assert PlayerOpening(OpeningOutcome.LIMITED, 1_800_000) == await opened(ledger, "b", per_hour=2)


async def test_players_open_so_many_boards_in_all(store: Store):
    """However slowly. A deleted board counts on, as its row stays; servers' boards never count."""
    async with open_in(store) as ledger:
        day_ms = 86_400_000
        assert [OPENED, OPENED, FULL] == [
            await opened(ledger, rest, in_all=2, at_ms=NOON_MS + day * day_ms)
            for day, rest in enumerate(("a", "b", "c"))
        ]
        await ledger.write(
            set_states(TRACKS, ["track.a"], BoardState.DELETED, actor="cli", at_ms=NOON_MS + 1)
        )
        assert FULL == await opened(ledger, "c", in_all=2, at_ms=NOON_MS + 4 * day_ms)
        server = open_boards(
            TRACKS, [OpenedBoard("track.c", "track", "C")], actor="server:kart", at_ms=NOON_MS
        )
        assert [BoardOutcome.OPENED] == [result.outcome for result in await ledger.write(server)]
        assert FULL == await opened(ledger, "d", in_all=2, at_ms=NOON_MS + 4 * day_ms)
        assert OPENED == await opened(ledger, "d", in_all=3, at_ms=NOON_MS + 4 * day_ms)
