"""How much boards are played of late, beside sums of decaying weights; and where a player stands in a family."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.ledger.boards import plays
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import NEVER_PLAYED
from gateway.ledger.boards.listing import BoardOrder, boards_of_family
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.boards.plays import HALF_LIFE_MS, UNIT, count_plays, plays_with, runs_lately
from gateway.ledger.derived.log import position
from gateway.ledger.standings.across_boards import (
    ranks_in_small_windows,
    ranks_of,
    standings_in_family,
    standings_on,
)
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.shared_records import RankRequest
from gateway.steward import family_boards
from gateway.steward.family_boards import BoardKeeper
from policies.choices import RankKind
from policies.opened_board import BoardState
from policies.vocabulary import Reason, State
from tests.contract.test_boards_of_families import TRACKS, track
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.policies import a_ranking
from tests.support.sealed import Nowhere
from tests.support.stores import Store, open_in

RUNS = st.lists(
    st.lists(st.integers(NOON_MS, NOON_MS + 60 * HALF_LIFE_MS), min_size=1, max_size=5), min_size=1
)


@settings(deadline=None, max_examples=200)
@given(RUNS)
def test_plays_are_the_logarithm_of_the_sum_of_weights(batches: list[list[int]]):
    """In whatever batches runs are counted; against exact powers, whose exponents are whole numbers of a landmark."""
    counted = NEVER_PLAYED
    for batch in batches:
        counted = plays_with(counted, batch)
    every = [at_ms for batch in batches for at_ms in batch]
    whole = [divmod(at_ms - NOON_MS, HALF_LIFE_MS) for at_ms in every]
    weights = sum(2**halves * Fraction(2.0 ** (rest / HALF_LIFE_MS)) for halves, rest in whole)
    expected = NOON_MS / HALF_LIFE_MS + math.log2(weights)
    assert abs(expected - counted / UNIT) < 1e-8 * len(every)
    assert NEVER_PLAYED < counted < 2**63
    assert runs_lately(counted, max(every)) == pytest.approx(
        sum(2.0 ** ((at_ms - max(every)) / HALF_LIFE_MS) for at_ms in every), rel=1e-6
    )


def test_a_board_that_was_never_played_is_last():
    """However long ago another was played."""
    assert NEVER_PLAYED < plays_with(NEVER_PLAYED, [1])
    assert 0.0 == runs_lately(NEVER_PLAYED, NOON_MS)


async def test_runs_on_boards_of_families_are_counted_once(store: Store, monkeypatch: pytest.MonkeyPatch):
    """By when they came; what was rejected at once counts for nothing, and a filtered list has the same order.

    A round asks for another one at once only if it did not come to the end of the log.
    """
    monkeypatch.setattr(plays, "SPAN", 4)
    monkeypatch.setattr(family_boards, "STEPS", 2)
    async with open_in(store) as ledger:
        batch = [track(rest, metadata={"class": "gt3"}) for rest in "abcd"]
        await ledger.write(open_boards(TRACKS, batch, actor="cli", at_ms=NOON_MS))
        played = {"a": [0, 1, 2], "b": [5 * HALF_LIFE_MS], "c": [0]}
        for rest, times in played.items():
            for time_ms in times:
                run = new_submission(f"{rest}-{time_ms}", board=f"track.{rest}", at_ms=NOON_MS + time_ms)
                await ledger.append(run)
        await ledger.append(new_submission("of-a-file"))
        await ledger.append(new_submission("cheat", board="track.d", state=State.REJECTED))
        duties = BoardKeeper(ledger, SimpleNamespace(families={}), clock=lambda: NOON_MS)  # type: ignore[arg-type]
        assert [8, 0] == [await duties.count_plays() for _ in range(2)]
        assert await ledger.read(queries.newest_seq()) == await ledger.read(position(plays.CONSUMER))
        assert 0 == await ledger.write(count_plays())
        for filters in ([], [("class", "gt3")]):
            page = await ledger.read(boards_of_family("track", order=BoardOrder.PLAYED, filters=filters))
            assert ["b", "a", "c", "d"] == [board.rest for board in page.boards]
    stored = dict(await store.sql("SELECT board, plays FROM boards"))
    expected = {
        f"track.{r}": plays_with(NEVER_PLAYED, [NOON_MS + t for t in times]) for r, times in played.items()
    }
    assert expected | {"track.d": NEVER_PLAYED} == stored
    assert stored == dict(await store.sql("SELECT board, plays FROM board_fields"))


async def test_the_steward_closes_boards_whose_time_is_over(store: Store):
    """Also those of a family whose policy is gone; each once."""
    now_ms = [NOON_MS]
    async with open_in(store) as ledger:
        batch = [track("a", closes_at_ms=NOON_MS + 5), track("b", closes_at_ms=NOON_MS + 6), track("c")]
        await ledger.write(open_boards(TRACKS, batch, actor="cli", at_ms=NOON_MS))
        gone = SimpleNamespace(families={})
        duties = BoardKeeper(ledger, gone, clock=lambda: now_ms[0])  # type: ignore[arg-type]
        closed = []
        for now_ms[0] in (NOON_MS + 4, NOON_MS + 5, NOON_MS + 5, NOON_MS + 9):
            closed.append(await duties.close_due())
        assert [0, 1, 0, 1] == closed
        named = await ledger.read(boards_named(["track.a", "track.b", "track.c"]))
        assert [BoardState.CLOSED, BoardState.CLOSED, BoardState.OPEN] == [
            named[name].state for name in sorted(named)
        ]
    assert [("steward", "board-closed")] * 2 == await store.sql(
        "SELECT actor, reason FROM events WHERE seq > 3"
    )


async def test_a_player_stands_on_boards_of_a_family(store: Store, tmp_path):
    """A page at a time, by name; no standing of another family, player, window or without a run is among them."""
    async with open_in(store) as ledger:
        rankings = {}
        for name in ("track.a", "track.b", "track.c", "tracks", "trackz.a", "track-x.a"):
            board = boards.board(tmp_path / name.replace(".", "-"))
            ranking = rankings[name] = a_ranking(board=name)
            on = SimpleNamespace(
                name=name,
                policy=board.policy,
                ranking=ranking,
                digest="d",
                family=None,
                rollups=(),
                opened=None,
            )
            for player, score in (("ada", 100), ("bob", 300 if name == "track.b" else 50)):
                await ledger.append(
                    new_submission(f"{name}-{player}", board=name, player=player, score=score)
                )
                promoted = Decision(
                    f"{name}-{player}",
                    State.PROMOTED,
                    "cli",
                    Reason.APPROVED,
                    NOON_MS,
                    frozenset({State.PENDING}),
                )
                await settle(ledger, Nowhere(), on, [promoted])  # type: ignore[arg-type]
        pages = [
            await ledger.read(standings_in_family("track", "alltime", "ada", after=after, count=2))
            for after in ("", "track.b", "track.c")
        ]
        assert [(["track.a", "track.b"], "track.b"), (["track.c"], None), ([], None)] == [
            ([standing.board for standing in page.standings], page.next) for page in pages
        ]
        assert ([], None) == await ledger.read(standings_in_family("track", "alltime", "eve", count=9))
        listed = await ledger.read(standings_on("ada", {"alltime": ["track.a", "tracks", "track.d"]}))
        assert {"track.a": "track.a-ada", "tracks": "tracks-ada"} == {
            name: standing.submission_id for name, standing in listed.items()
        }
        wanted = [RankRequest(rankings[name], "alltime", RankKind.UNIQUE) for name in ("track.a", "track.b")]
        for ranks in (ranks_of, ranks_in_small_windows):
            entries = await ledger.read(ranks("ada", wanted))
            assert {"track.a": (2, 1, "track.a-ada"), "track.b": (2, 2, "track.b-ada")} == {
                name: entry and (entry.total, entry.rank, entry.submission_id)
                for name, entry in entries.items()
            }
            entries = await ledger.read(ranks("bob", wanted))
            assert [2, 1] == [entry and entry.rank for entry in entries.values()]
            assert {} == await ledger.read(ranks("eve", wanted[:1]))
