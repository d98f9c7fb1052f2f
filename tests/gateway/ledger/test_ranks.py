"""Windows read from SQL by place: the ranks of a plain sort, with anchors of any age and without."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.ledger.derived.board_duties import BoardDuty, DueDuty, due, noted, strike
from gateway.ledger.sqlite.transaction import SqliteTransaction, drive
from gateway.ledger.standings import across_boards, anchors
from gateway.ledger.standings.across_boards import ranks_in_small_windows, ranks_of
from gateway.ledger.standings.anchors import respace, spacing_of, tend_anchors
from gateway.ledger.standings.noted_moves import drop_anchors
from gateway.ledger.standings.ranks import (
    Slice,
    anchor_rule,
    around_of,
    before_of,
    behind_of,
    just_behind,
    page_of,
)
from gateway.ledger.standings.slots import StandingFold, put_standing, put_standings, read_slot
from gateway.ledger.transaction import Transaction
from gateway.shared_records import RankRequest, Standing
from gateway.steward.index.anchoring import Anchoring
from policies.choices import RankKind, TieBreak
from policies.fields import SortOrder
from policies.ranking import BoardPlace, Ranking
from policies.ties import COMPOSITE_BEGIN_MS
from tests.support.ledger import ledger_in_memory
from tests.support.policies import a_ranking
from tests.support.standings import a_standing
from tests.support.stores import Store, open_in

FIELDS = [{"stat": "kills"}, {"stat": "deaths", "order": "ascending"}]
TIE_BREAKS: dict[str, dict[str, Any]] = {
    "first": {},
    "fields": {"tie_fields": FIELDS},
    "composite": {"tie_resolution_ms": 60_000, "score": {"minimum": -1_000_000, "maximum": 1_000_000}},
}
PLAYERS = [f"p{number}" for number in range(14)]
SMALL = {"SPACING": 2, "LEAST": 3, "FOLDED": 3, "FOLDED_AT_ONCE": 3, "SET_AT_ONCE": 2}


@pytest.fixture(autouse=True)
def _near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anchors so near each other that a handful of standings has many."""
    for name, value in SMALL.items():
        monkeypatch.setattr(anchors, name, value)


@contextmanager
def in_memory() -> Iterator[SqliteTransaction]:
    with closing(ledger_in_memory()) as connection:
        yield SqliteTransaction(connection)


async def put(tx: Transaction, ranking: Ranking, standing: Standing) -> None:
    held = await read_slot(tx, ranking, standing.window, standing.player)
    await put_standing(tx, ranking, standing, held)


def ranked(standings: Sequence[Standing], ranking: Ranking) -> dict[RankKind, list[tuple[str, int]]]:
    """(player, rank) by kind of rank, of a plain sort."""
    line = sorted(
        (BoardPlace(each.order, each.member), each.player) for each in standings if each.score is not None
    )
    groups = [ranking.group("alltime", place) for place, _ in line]
    distinct = list(dict.fromkeys(groups))
    ranks = {
        RankKind.UNIQUE: range(1, len(line) + 1),
        RankKind.SPARSE: [groups.index(group) + 1 for group in groups],
        RankKind.DENSE: [distinct.index(group) + 1 for group in groups],
    }
    return {
        kind: [(player, rank) for (_, player), rank in zip(line, of_kind, strict=True)]
        for kind, of_kind in ranks.items()
    }


async def assert_as_sorted(tx: Transaction, ranking: Ranking, standings: Sequence[Standing]) -> None:
    """Pages from everywhere, neighbours of everybody, and what is behind and ahead of each place."""
    for kind, line in ranked(standings, ranking).items():
        for first in range(len(line) + 2):
            _assert_slice(line, first, await page_of(ranking, "alltime", first, 4, kind)(tx))
        for at, (player, _) in enumerate(line):
            around = await around_of(ranking, "alltime", player, 2, kind)(tx)
            _assert_slice(line, max(0, at - 2), around, upto=at + 3)
            place = BoardPlace(*around.rows[at - around.first][1:3])
            behind = await behind_of(ranking, "alltime", just_behind(place), 3, kind)(tx)
            _assert_slice(line, at + 1, behind, upto=at + 4)
            _assert_slice(
                line, max(0, at - 3), await before_of(ranking, "alltime", place, 3, kind)(tx), upto=at
            )
        away = {each.player for each in standings} - {player for player, _ in line}
        for player in away:
            assert (len(line), 0, 0, ()) == await around_of(ranking, "alltime", player, 2, kind)(tx)
        for player, rank in [*line, *((player, None) for player in away)]:
            expected = {ranking.policy.board: (len(line), rank)} if rank else {}
            for work in (ranks_of, ranks_in_small_windows):
                found = await work(player, [RankRequest(ranking, "alltime", kind)])(tx)
                assert expected == {board: each and each[:2] for board, each in found.items()}


def _assert_slice(
    line: Sequence[tuple[str, int]], first: int, found: Slice, *, upto: int | None = None
) -> None:
    expected = line[first : first + 4 if upto is None else upto]
    assert (len(line), first) == (found.total, found.first)
    assert [player for player, _ in expected] == [row[0] for row in found.rows]
    assert (expected[0][1] if expected else 0) == found.lead


steps = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(PLAYERS),
            st.one_of(st.none(), st.integers(-2, 3)),
            st.sampled_from([0, 1, 70_000, 2**30]),
            st.integers(-1, 1),
        ),
        st.sampled_from(["tend", "tend", "respace", "drop"]),
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize("tie_break", TieBreak)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=steps, order=st.sampled_from(SortOrder))
def test_ranks_are_exact_whatever_moved_since_the_anchors_were_set(
    tie_break: TieBreak, taken: Any, order: SortOrder
):
    """Ranks of every kind, totals and neighbours are those of a sort: with anchors, half of them, old ones, and none."""
    ranking = a_ranking(tie_break=tie_break, order=order, ranks=list(RankKind), **TIE_BREAKS[tie_break])
    held: dict[str, Standing] = {}
    with in_memory() as tx:
        for number, player in enumerate(PLAYERS, start=1):
            held[player] = a_standing(player, number % 5 - 1, COMPOSITE_BEGIN_MS, number, ranking)
            drive(put(tx, ranking, held[player]))
            if (
                number == len(PLAYERS) // 2
            ):  # what comes after it is a move, of which new anchors have to know
                drive(tend_by("tend", ranking)(tx))
        for _ in range(4):
            drive(tend_by("respace", ranking)(tx))
        for number, step in enumerate(taken, start=100):
            if isinstance(step, str):
                drive(tend_by(step, ranking)(tx))
                continue
            player, score, at_ms, kills = step
            stats = {"kills": kills, "deaths": kills % 2}
            held[player] = a_standing(player, score, COMPOSITE_BEGIN_MS + at_ms, number, ranking, stats)
            drive(put(tx, ranking, held[player]))
        drive(assert_as_sorted(tx, ranking, [*held.values()]))


def tend_by(step: str, ranking: Ranking) -> Any:
    async def work(tx: Transaction) -> None:
        if step == "drop":
            await drop_anchors(tx, ranking.policy.board, "alltime")
        elif step == "tend":
            await tend_anchors(ranking, "alltime")(tx)
        else:
            await respace(ranking, "alltime", *await spacing_of(ranking, "alltime")(tx))(tx)

    return work


def test_a_standing_without_a_score_is_of_no_group():
    """Who founds the group at 0 points after another was revoked adds one to the dense ranks behind it."""
    ranking = a_ranking(order=SortOrder.ASCENDING, ranks=list(RankKind))
    held = {
        player: a_standing(player, number, number, number, ranking)
        for number, player in enumerate(PLAYERS, start=1)
    }
    with in_memory() as tx:
        for each in held.values():
            drive(put(tx, ranking, each))
        for step in ("tend", "respace", "respace"):
            drive(tend_by(step, ranking)(tx))
        for number, (player, score) in enumerate([("p8", None), ("p9", 0)], start=100):
            held[player] = a_standing(player, score, number, number, ranking)
            drive(put(tx, ranking, held[player]))
        drive(assert_as_sorted(tx, ranking, [*held.values()]))


def test_two_who_leave_or_found_a_group_in_one_commit_count_it_once():
    """What one has left is no group that the other leaves, and what one has founded is none that the other founds."""
    ranking = a_ranking(ranks=list(RankKind))
    held = {
        player: a_standing(player, 100 - number // 2, number, number, ranking)
        for number, player in enumerate(PLAYERS, start=1)
    }
    with in_memory() as tx:
        for each in held.values():
            drive(put(tx, ranking, each))
        for step in ("tend", "respace", "respace"):
            drive(tend_by(step, ranking)(tx))
        together = [player for player, each in held.items() if each.score == 98]
        assert 2 == len(together)
        for score in (None, 60, 200):
            for number, player in enumerate(together, start=100):
                held[player] = a_standing(player, score, number, number, ranking)
            drive(put_all(tx, ranking, [held[player] for player in together]))
            drive(assert_as_sorted(tx, ranking, [*held.values()]))


async def put_all(tx: Transaction, ranking: Ranking, some: Sequence[Standing]) -> None:
    """As the decisions of one commit do it: all slots are read, and then all are put."""
    folds = [StandingFold(await read_slot(tx, ranking, each.window, each.player), each) for each in some]
    assert all(fold.before.anchors is not None for fold in folds)
    await put_standings(tx, ranking, folds)


async def test_ranks_are_exact_on_either_database(store: Store):
    """The same on SQLite and PostgreSQL, while a steward's rounds keep the anchors: set, folded, spaced, and taken away."""
    ranking = a_ranking(tie_break="fields", tie_fields=FIELDS, ranks=list(RankKind))
    dice = random.Random(7)
    held: dict[str, Standing] = {}
    async with open_in(store) as ledger:
        keeper = Anchoring(ledger, ranking)
        for number in range(1, 121):
            player, score = f"p{dice.randrange(30)}", dice.choice([None, *range(12)])
            stats = {"kills": dice.randrange(2)}
            held[player] = a_standing(player, score, number, number, ranking, stats)
            await ledger.write(lambda tx, one=held[player]: put(tx, ranking, one))
            if not number % 10:
                await keeper.tend("alltime")
        await ledger.read(lambda tx: assert_as_sorted(tx, ranking, [*held.values()]))
        while await keeper.tend("alltime"):
            pass
        await ledger.read(lambda tx: assert_as_sorted(tx, ranking, [*held.values()]))
        assert ([], []) == await ledger.read(spacing_of(ranking, "alltime"))
    assert 5 < len(await store.sql("SELECT * FROM rank_anchors"))


async def test_a_look_at_anchors_is_noted_where_it_may_find_work(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Not of a window too small to have any, so that many small boards make nothing due; one that shrank has its own."""
    monkeypatch.setattr(anchors, "LEAST", 2)
    ranking = a_ranking()
    look = DueDuty(BoardDuty.ANCHOR, ranking.policy.board, "alltime", 5, 1, 1)

    async with open_in(store) as ledger:

        async def noted_with(player: str, score: int | None, seq: int) -> list[DueDuty]:
            standing = a_standing(player, score, seq, seq, ranking)
            await ledger.write(lambda tx: put(tx, ranking, standing))
            await ledger.write(noted([look, look._replace(window="daily:20261123")]))
            rows = await ledger.read(due(BoardDuty.ANCHOR, now_ms=5, count=9))
            await ledger.write(strike(rows))
            return rows

        scores = [("ada", 1), ("bob", 1), ("cy", None)]
        assert [[], [], []] == [await noted_with(*each, seq) for seq, each in enumerate(scores, start=1)]
        assert [look] == await noted_with("cy", 1, 4)
        await ledger.write(tend_anchors(ranking, "alltime"))
        assert [look] == await noted_with("cy", None, 5)


@pytest.mark.parametrize("many", [200, 1600])
def test_a_rank_costs_what_lies_between_two_anchors_whatever_the_size_of_the_window(
    monkeypatch: pytest.MonkeyPatch, many: int
):
    """The steps of SQLite's machine for a rank, a page far down and a total are bounded by the spacing, not by the window."""
    for name, value in {"SPACING": 20, "LEAST": 50, "FOLDED": 10, "SET_AT_ONCE": 1000}.items():
        monkeypatch.setattr(anchors, name, value)
    ranking = a_ranking(ranks=list(RankKind))
    with in_memory() as tx:
        for number in range(many):
            drive(
                put(
                    tx,
                    ranking,
                    a_standing(f"p{number}", number * 7919 % many // 2, number, number + 1, ranking),
                )
            )
        for step in ("tend", "respace", "respace"):
            drive(tend_by(step, ranking)(tx))
        for number in range(8):
            drive(put(tx, ranking, a_standing(f"p{number}", many - number, number, many + number, ranking)))
        asked = [page_of(ranking, "alltime", many // 2, 5, kind) for kind in RankKind] + [
            around_of(ranking, "alltime", f"p{many // 2}", 2, kind) for kind in RankKind
        ]
        costs = [_steps(tx, work) for work in asked]
        assert BOUNDED > max(costs)
        drive(tend_by("drop", ranking)(tx))
        without = [_steps(tx, work) for work in asked]
    assert many == 200 or all(cost > 2 * bounded for cost, bounded in zip(without, costs, strict=True))


@pytest.mark.parametrize("kind", RankKind)
def test_a_window_that_is_not_small_is_not_counted_to_its_end(
    monkeypatch: pytest.MonkeyPatch, kind: RankKind
):
    """Nor past the ties behind the player, nor past players for whom nothing counts any more: another read has its rank."""
    ranking = a_ranking(ranks=list(RankKind))
    work, costs = ranks_in_small_windows("p2", [RankRequest(ranking, "alltime", kind)]), []
    with in_memory() as tx:
        for begin, end in ((0, 60), (60, 900)):
            for number in range(begin, end):
                player, score = (
                    (f"p{number}", 7 if number else 9) if number % 2 == 0 else (f"a{number}", None)
                )
                drive(put(tx, ranking, a_standing(player, score, number, number + 1, ranking)))
            monkeypatch.setattr(across_boards, "SMALL", 29)
            assert {ranking.policy.board: None} == drive(work(tx))
            costs.append(_steps(tx, work))
            monkeypatch.setattr(across_boards, "SMALL", end // 2)
            assert [(end // 2, 2)] == [each and each[:2] for each in drive(work(tx)).values()]
    assert costs[1] < costs[0] + 50


@pytest.mark.parametrize(
    ("kind", "statements"), [(RankKind.UNIQUE, 1), (RankKind.SPARSE, 3), (RankKind.DENSE, 3)]
)
def test_one_statement_ranks_the_boards_that_need_the_same_of_it(
    kind: RankKind, statements: int, monkeypatch: pytest.MonkeyPatch
):
    """Unique ranks need no ties, so one statement gives those of boards that tie differently."""
    rankings = [
        a_ranking(f"b-{name}", tie_break=name, ranks=list(RankKind), **how)
        for name, how in TIE_BREAKS.items()
    ]
    read: list[Any] = []
    original = SqliteTransaction.rows

    async def rows(self: SqliteTransaction, query: Any, /, **values: Any) -> Any:
        read.append(query)
        return await original(self, query, **values)

    with in_memory() as tx:
        for ranking in rankings:
            for seq, player in enumerate(("p1", "p2"), start=1):
                standing = a_standing(player, 7, COMPOSITE_BEGIN_MS + 60_000 * seq, seq, ranking)
                drive(put(tx, ranking, standing))
        monkeypatch.setattr(SqliteTransaction, "rows", rows)
        requests = [RankRequest(ranking, "alltime", kind) for ranking in rankings]
        found = drive(ranks_in_small_windows("p2", requests)(tx))
    rank = 2 if kind is RankKind.UNIQUE else 1
    assert {ranking.policy.board: (2, rank) for ranking in rankings} == {
        board: each and each[:2] for board, each in found.items()
    }
    assert statements == len(read)


def test_a_read_across_boards_is_of_a_bounded_number():
    """More boards than one read may rank are refused before it begins."""
    request = RankRequest(a_ranking(), "alltime", RankKind.UNIQUE)
    for work, limit in ((ranks_in_small_windows, 100), (ranks_of, 25)):
        with pytest.raises(ValueError, match=f"{limit + 1} entries"):
            work("ada", [request] * (limit + 1))


BOUNDED = 4000


def _steps(tx: SqliteTransaction, work: Any) -> int:
    """How many instructions SQLite executes for an operation."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    tx._connection.set_progress_handler(count, 1)
    drive(work(tx))
    tx._connection.set_progress_handler(None, 0)
    return taken


async def test_anchors_of_another_rule_go_with_the_first_write(store: Store):
    """A board whose ties or kinds of rank have changed is counted without anchors until the steward sets new ones."""
    sparse, dense = a_ranking(ranks=["unique"]), a_ranking(ranks=list(RankKind))
    standings = [a_standing(f"p{number}", number // 2, number, number + 1) for number in range(12)]
    async with open_in(store) as ledger:
        for each in standings:
            await ledger.write(lambda tx, one=each: put(tx, sparse, one))
        while await Anchoring(ledger, sparse).tend("alltime"):
            pass
        await ledger.read(lambda tx: assert_as_sorted(tx, dense, standings))
        standings[3] = a_standing("p3", 100, 3, 100)
        await ledger.write(lambda tx: put(tx, dense, standings[3]))
        assert [] == await store.sql("SELECT * FROM rank_anchors")
        while await Anchoring(ledger, dense).tend("alltime"):
            pass
        await ledger.read(lambda tx: assert_as_sorted(tx, dense, standings))
    assert [] != await store.sql("SELECT * FROM rank_anchors")


async def test_anchors_of_another_rule_are_set_anew_though_nothing_is_written(store: Store):
    """The steward's next look drops them and sets others: a window that has come to rest would be counted whole for ever."""
    sparse, dense = a_ranking(ranks=["unique"]), a_ranking(ranks=list(RankKind))
    standings = [a_standing(f"p{number}", number // 2, number, number + 1) for number in range(12)]
    rules = []
    async with open_in(store) as ledger:
        for each in standings:
            await ledger.write(lambda tx, one=each: put(tx, sparse, one))
        for ranking in (sparse, dense):
            while await Anchoring(ledger, ranking).tend("alltime"):
                pass
            [[rule]] = await store.sql("SELECT rule FROM anchored_windows")
            [[count]] = await store.sql("SELECT count(*) FROM rank_anchors")
            rules.append((rule, count > 1))
        await ledger.read(lambda tx: assert_as_sorted(tx, dense, standings))
    assert [(anchor_rule(each), True) for each in (sparse, dense)] == rules
