"""Rollups in the ledger: exact beside SQL over the standings, whatever changes on the boards of the family."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.queries import newest_seq
from gateway.ledger.standings import rollup_borders, rollup_history, rollup_points
from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.standings.rollup_moves import borders_of
from gateway.ledger.standings.rollup_points import RollupChange, changes_due, note_change
from gateway.ledger.transaction import Transaction
from gateway.settlement.decision_records import Decision
from gateway.settlement.rollups import follow_change, note_deletions
from gateway.settlement.settle import _decide_all, receive
from gateway.shared_records import Change
from gateway.steward import rollups as rollup_keeping
from gateway.steward.archive import refold_points
from gateway.steward.archive.refold import refold_board
from gateway.steward.failures import Failures
from policies.choices import WindowKind
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.model import Policy
from policies.opened_board import BoardState, OpenedBoard
from policies.vocabulary import Claim, Reason, State
from policies.windows import window_at
from tests.support import boards
from tests.support.archives import Shelf
from tests.support.books import Books
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere
from tests.support.thorough import examples
from tests.support.waits import Counting

SEASONS = {"windows": ["alltime", "season"], "season": "0 0 1 * *"}
MONTH_MS = 31 * 86_400_000
TRACKS = ("track.a", "track.b", "track.c")
TAKES = ("sum", "best", "count")


def rollup_board(take: str, order: str = "descending", **rollup: Any) -> Board:
    """A rollup of the family `track`."""
    settings_of = {"family": "track", "take": take, **rollup}
    policy = {"board": f"all-{take}", "title": take, "order": order, "rollup": settings_of} | SEASONS
    return Board(Policy.model_validate(policy), f"sha256:{take}", {})


@lru_cache(maxsize=8)
def family(operator: str, order: str, *, is_composite: bool = False) -> dict[str, Board]:
    """The boards of the family, each with all rollups."""
    rollups = tuple(rollup_board(take, order) for take in TAKES)
    most = 1_000 if is_composite else 2**40
    ties = {"tie_break": "composite", "tie_resolution_ms": 3_600_000} if is_composite else {}
    with tempfile.TemporaryDirectory() as folder:
        score = {"minimum": -most, "maximum": most}
        track = boards.board(Path(folder), operator=operator, order=order, score=score, **ties, **SEASONS)
    return {
        name: dataclasses.replace(
            track, policy=track.policy.model_copy(update={"board": name}), rollups=rollups
        )
        for name in TRACKS
    }


class Game:
    """A ledger with the boards of a family, and runs on them."""

    def __init__(self, tracks: dict[str, Board]) -> None:
        self.tracks = tracks
        self.books = Books(tracks["track.a"])
        self.rollups = tracks["track.a"].rollups
        self.runs: dict[str, Board] = {}
        self.counting: set[str] = set()

    def play(self, track: str, player: str, score: int, month: int) -> None:
        """A run that waits for its verdict."""
        name = f"run-{len(self.runs)}"
        at_ms = NOON_MS + month * MONTH_MS + len(self.runs) % 3
        new = new_submission(name, player=player, at_ms=at_ms, score=score, recording=None)
        run = new.submission._replace(claim=Claim(score, 1), board=track)
        self.books.do(lambda tx: receive(tx, new._replace(submission=run)))
        self.runs[name] = self.tracks[track]

    def turn(self, *names: str) -> list[Change]:
        """Promote runs of one board, or revoke those that count, in one transaction."""
        decisions = [
            Decision(
                name,
                State.REVOKED if name in self.counting else State.PROMOTED,
                "replay",
                Reason.VERIFIED,
                NOON_MS + 1,
                frozenset(State),
            )
            for name in names
        ]
        _, changes = self.books.do(_decide_all(self.runs[names[0]], decisions))
        self.counting ^= set(names)
        return changes

    def delete(self, name: str) -> None:
        """The board is deleted, as a trusted server has it."""
        terms = FamilyTerms("track", "sha256:track")
        opened = OpenedBoard(name, "track", "Track")

        async def work(tx: Transaction) -> None:
            await open_boards(terms, [opened], actor="cli", at_ms=NOON_MS)(tx)
            await set_states(terms, [name], BoardState.DELETED, actor="cli", at_ms=NOON_MS)(tx)
            await note_deletions(tx, self.rollups, {name: await newest_seq()(tx)})

        self.books.do(work)

    def standings(self, rollup: Board) -> dict[tuple[str, str], tuple[Any, ...]]:
        """What stands on a rollup: score, and when and with what it was reached, by window and player."""
        rows = self.books.rows(
            'SELECT "window", player, score, achieved_at_ms, achieved_seq, submission_id FROM standings '
            f"WHERE board = '{rollup.name}' AND score IS NOT NULL"
        )
        return {row[:2]: row[2:] for row in rows}

    def expected(self, rollup: Board) -> dict[tuple[str, str], tuple[Any, ...]]:
        """The same by plain SQL over the standings of the family's boards."""
        take = rollup.policy.rollup.take.value
        best = "score DESC" if rollup.policy.order.value == "descending" else "score ASC"
        order = (
            f"{best}, achieved_at_ms, achieved_seq"
            if take == "best"
            else "achieved_at_ms DESC, achieved_seq DESC"
        )
        value = {"sum": "sum(score) OVER slot", "count": "count(*) OVER slot", "best": "score"}[take]
        rows = self.books.rows(
            f'SELECT "window", player, value, achieved_at_ms, achieved_seq, submission_id FROM ('
            f'SELECT *, {value} AS value, row_number() OVER (PARTITION BY "window", player ORDER BY {order}) AS n '
            "FROM standings WHERE board LIKE 'track.%' AND score IS NOT NULL "
            'WINDOW slot AS (PARTITION BY "window", player)) WHERE n = 1'
        )
        return {row[:2]: row[2:] for row in rows}


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("play"),
            st.sampled_from(TRACKS),
            st.sampled_from(["ada", "bob"]),
            st.integers(-3, 3),
            st.integers(0, 1),
        ),
        st.tuples(st.just("turn"), st.integers(0, 11), st.integers(0, 11)),
    ),
    max_size=24,
)


@pytest.mark.parametrize("order", ["descending", "ascending"])
@pytest.mark.parametrize("operator", ["best", "latest", "sum"])
@settings(max_examples=examples(15), deadline=None)
@given(steps=STEPS)
def test_a_rollup_is_what_sql_says_of_the_standings(operator: str, order: str, steps: list[tuple[Any, ...]]):
    """After every promotion and revocation, several in one transaction too, in both windows."""
    game = Game(family(operator, order))
    for kind, *step in steps:
        if kind == "play":
            game.play(*step)
        else:
            names = [f"run-{number}" for number in dict.fromkeys(step) if f"run-{number}" in game.runs]
            same = [name for name in names if game.runs[name] is game.runs[names[0]]]
            if same:
                game.turn(*same)
        for rollup in game.rollups:
            assert game.expected(rollup) == game.standings(rollup)


def test_a_change_of_a_rollup_is_an_event_and_has_to_be_shown():
    """One event of the rollup, under the number of its standing, and one row of the outbox; none if it stays."""
    game = Game(family("best", "descending"))
    game.play("track.a", "ada", 3, 0)
    [own, *rolled] = game.turn("run-0")
    assert {"all-sum", "all-best", "all-count"} == {change.board for change in rolled}
    assert [own.seq + 1, own.seq + 2, own.seq + 3] == [change.seq for change in rolled]
    for change in rolled:
        [event] = game.books.rows(
            "SELECT submission_id, board, player, from_state, to_state, actor, reason, detail FROM events "
            f"WHERE seq = {change.seq}"
        )
        said = f'{{"of":"track.a","event":{own.seq}}}'
        assert ("", change.board, "ada", "promoted", "promoted", "rollup", "rolled-up", said) == event
        assert [("project", "")] == game.books.rows(
            f"SELECT kind, submission_id FROM outbox WHERE seq = {change.seq}"
        )
        assert {change.seq} == {standing.seq for standing in change.standings}
        assert ["alltime", "season:"] == sorted(standing.window[:7] for standing in change.standings)
    game.play("track.a", "ada", 1, 0)
    assert ["track.a"] == [change.board for change in game.turn("run-1")]


def test_a_rollup_that_is_new_counts_what_was_there_before():
    """A player's first change after it was added is folded from all boards of the family."""
    game = Game(family("best", "descending"))
    without = {name: dataclasses.replace(track, rollups=()) for name, track in game.tracks.items()}
    for number, track in enumerate(TRACKS):
        game.play(track, "ada", 2 + number, 0)
    game.runs["run-0"] = without["track.a"]
    game.runs["run-1"] = without["track.b"]
    for name in ("run-0", "run-1"):
        assert 1 == len(game.turn(name))
    game.turn("run-2")
    for rollup in game.rollups:
        assert game.expected(rollup) == game.standings(rollup)


def test_a_rollup_of_another_rule_is_folded_anew():
    """After a change of its policy a player's first change is added to nothing that stood by the old one."""
    game = Game(family("best", "descending"))
    for number, track in enumerate(TRACKS):
        game.play(track, "ada", 2 + number, 0)
    game.turn("run-0")
    game.turn("run-1")
    policy = rollup_board("count").policy.model_copy(update={"board": "all-sum"})
    changed = dataclasses.replace(rollup_board("count"), policy=policy)
    game.runs["run-2"] = dataclasses.replace(game.runs["run-2"], rollups=(changed,))
    game.turn("run-2")
    assert 3 == game.standings(changed)["alltime", "ada"][0]
    assert game.expected(changed) == game.standings(changed)


def test_a_rollup_takes_nothing_from_boards_with_similar_names():
    """`track` has neither `tracks.a` nor `track-2.a` nor a board of its own that is called `track`."""
    tracks = family("best", "descending")
    strangers = {
        name: dataclasses.replace(
            tracks["track.a"], policy=tracks["track.a"].policy.model_copy(update={"board": name}), rollups=()
        )
        for name in ("track", "track-2.a", "tracks.a", "trac.k")
    }
    game = Game(tracks | strangers)
    for number, name in enumerate(strangers):
        game.play(name, "ada", 9, 0)
        game.turn(f"run-{number}")
    game.play("track.b", "ada", 2, 0)
    game.turn("run-4")
    assert {"alltime": 2} == {
        window: score
        for (window, _), (score, *_) in game.standings(game.rollups[0]).items()
        if window == "alltime"
    }


SCALE = (10, 6, 3)
PLAYERS = ("ada", "bob", "cyd", "dot")


@lru_cache(maxsize=2)
def scored_family(order: str) -> dict[str, Board]:
    """The boards of the family, with a rollup of points."""
    rollup = rollup_board("points", order, points=list(SCALE))
    return {
        name: dataclasses.replace(track, rollups=(rollup,)) for name, track in family("best", order).items()
    }


def compare(game: Game) -> list[Change]:
    """What a steward does with the boards whose ranks may have changed."""
    changes = []
    rollups = {rollup.name: rollup for rollup in game.rollups}
    while found := game.books.do(changes_due(count=100)):
        for due in found:
            ranking = game.tracks[due.board].ranking
            rollup = rollups[due.rollup]
            [wanted] = game.books.do(borders_of(rollup.ranking, [(ranking, due.window)]))
            changes += game.books.do(follow_change(rollup, ranking, due, wanted, at_ms=NOON_MS + 2))
    return changes


def expected_points(game: Game) -> dict[tuple[str, str], int]:
    """The sum of the points of each player's ranks, by SQL over the standings."""
    ranks = game.books.rows(
        'SELECT "window", player, row_number() OVER (PARTITION BY board, "window" ORDER BY order_value, member) '
        "FROM standings WHERE board LIKE 'track.%' AND score IS NOT NULL"
    )
    points: dict[tuple[str, str], int] = {}
    for window, player, rank in ranks:
        if rank <= len(SCALE):
            points[window, player] = points.get((window, player), 0) + SCALE[rank - 1]
    return points


POINT_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("play"),
            st.sampled_from(TRACKS),
            st.sampled_from(PLAYERS),
            st.integers(-3, 3),
            st.integers(0, 1),
        ),
        st.tuples(st.just("turn"), st.integers(0, 15)),
        st.just(("compare",)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("order", ["descending", "ascending"])
@settings(max_examples=examples(30), deadline=None)
@given(steps=POINT_STEPS)
def test_points_are_what_sql_says_of_the_ranks(order: str, steps: list[tuple[Any, ...]]):
    """Once a steward has compared the boards, and no later than that."""
    game = Game(scored_family(order))
    for kind, *step in steps:
        if kind == "play":
            game.play(*step)
        elif kind == "compare":
            compare(game)
        elif f"run-{step[0]}" in game.runs:
            game.turn(f"run-{step[0]}")
    compare(game)
    [rollup] = game.rollups
    assert expected_points(game) == {slot: score for slot, (score, *_) in game.standings(rollup).items()}
    assert [] == compare(game)
    assert [] == game.books.rows("SELECT * FROM rollup_changes")


def test_the_event_of_points_names_the_change_of_the_board_that_gave_them():
    """As that of every other change of a rollup does: who asks why their points have changed is led to the run."""
    game = Game(scored_family("descending"))
    game.play("track.a", "ada", 3, 0)
    [own, *_] = game.turn("run-0")
    told = {
        game.books.rows(f"SELECT player, reason, detail FROM events WHERE seq = {change.seq}")[0]
        for change in compare(game)
    }
    assert {("ada", "rolled-up", f'{{"of":"track.a","event":{own.seq}}}')} == told


def test_a_change_during_a_comparison_is_compared_again():
    """A change is done with only under the number under which it was read."""
    game = Game(scored_family("descending"))
    game.play("track.a", "ada", 3, 0)
    game.turn("run-0")
    [stale, *_] = game.books.do(changes_due(count=100))
    game.play("track.a", "bob", 4, 0)
    game.turn("run-1")
    game.books.do(follow_change(game.rollups[0], game.tracks["track.a"].ranking, stale, {}, at_ms=NOON_MS))
    assert stale.window in {change.window for change in game.books.do(changes_due(count=100))}


def test_boards_that_change_all_the_time_keep_no_other_waiting(monkeypatch: pytest.MonkeyPatch):
    """A steward goes on behind the slice before, and begins again at the end."""
    monkeypatch.setattr(rollup_keeping, "SLICE", 2)
    game = Game(scored_family("descending"))
    ledger: Any = SimpleNamespace(read=game.books.read, write=game.books.read)

    async def unknown(_name: str) -> None:
        return None  # so that a change is followed by being dropped

    catalogue: Any = SimpleNamespace(board=unknown, families={})
    keeper = rollup_keeping.RollupKeeper(ledger, Nowhere(), catalogue, Failures(), clock=lambda: NOON_MS)
    left = []
    for seq, boards_changed in enumerate(("abcde", "abc", "abc", "abc", "abc", "", "ab", "a"), start=1):
        for name in boards_changed:
            change = RollupChange("all-points", f"track.{name}", "alltime", seq)
            game.books.do(lambda tx, change=change: note_change(tx, change))
        asyncio.run(keeper.step())
        waiting = game.books.rows("SELECT board FROM rollup_changes ORDER BY 1")
        left.append("".join(row[0][-1] for row in waiting))
    assert ["cde", "abe", "abc", "c", "ab", "", "", ""] == left, "the last came behind its back"


@pytest.mark.parametrize("in_slice", [1, 2, 64])
def test_a_window_that_keeps_failing_is_named_though_others_of_its_board_do_not(
    in_slice: int, monkeypatch: pytest.MonkeyPatch
):
    """Its failure is logged once a minute, and is over once a whole round went without one."""
    monkeypatch.setattr(rollup_keeping, "SLICE", in_slice)
    game = Game(scored_family("descending"))
    ledger: Any = SimpleNamespace(read=game.books.read, write=game.books.read)
    failing = {"all-points"}

    async def unknown_unless_failing(name: str) -> None:
        if name in failing:
            raise IndexUnavailable("away")

    def note(seq: int) -> None:
        for rollup in ("all-best", "all-points", "all-sum"):
            change = RollupChange(rollup, "track.a", "alltime", seq)
            game.books.do(lambda tx, change=change: note_change(tx, change))

    catalogue: Any = SimpleNamespace(board=unknown_unless_failing, families={})
    failures = Failures()
    keeper = rollup_keeping.RollupKeeper(ledger, Nowhere(), catalogue, failures, clock=lambda: NOON_MS)
    named = []
    with capture_logs() as logs:
        for seq in range(1, 5):
            note(seq)
            for _ in range(4):
                asyncio.run(keeper.step())
            named.append(failures.now())
            assert NOON_MS == asyncio.run(keeper.next_due())  # a steward does not rest while a window waits
    assert [("roll_up:track.a",)] * 4 == named
    assert 1 == len([each for each in logs if each["event"] == "duty_failed"])
    failing.clear()
    for _ in range(4):
        asyncio.run(keeper.step())
    assert () == failures.now()
    assert asyncio.run(keeper.next_due()) is None


def test_players_beyond_the_scale_and_worse_runs_cost_no_comparison():
    """A run that leaves a standing where it is notes nothing."""
    game = Game(scored_family("descending"))
    game.play("track.a", "ada", 3, 0)
    game.play("track.a", "ada", 1, 0)
    game.turn("run-0")
    compare(game)
    game.turn("run-1")
    assert [] == game.books.rows("SELECT * FROM rollup_changes")


@pytest.mark.parametrize("take", ["sum", "points"])
def test_a_rollup_without_seasons_takes_nothing_from_seasons(take: str):
    """It has only the windows that its own policy names."""
    settings_of = {"family": "track", "take": take} | ({"points": [3, 1]} if take == "points" else {})
    plain = {"board": "ever", "title": "Ever", "rollup": settings_of}
    rollup = Board(Policy.model_validate(plain), "sha256:ever", {})
    tracks = family("best", "descending")
    game = Game({name: dataclasses.replace(track, rollups=(rollup,)) for name, track in tracks.items()})
    game.play("track.a", "ada", 5, 0)
    game.turn("run-0")
    compare(game)
    assert {("alltime", "ada"): 5 if take == "sum" else 3} == {
        slot: score for slot, (score, *_) in game.standings(rollup).items()
    }


def stands(game: Game) -> dict[str, dict[str, int]]:
    """The scores of each rollup's window `alltime`, by player."""
    return {
        rollup.name: {
            player: score
            for (window, player), (score, *_) in game.standings(rollup).items()
            if window == "alltime"
        }
        for rollup in game.rollups
    }


def test_what_a_process_remembers_of_a_deleted_board_moves_no_rollup():
    """Neither a promotion nor a comparison brings back a board that others have deleted, in one take or another."""
    tracks = family("best", "descending")
    points = rollup_board("points", points=[10, 6, 3])
    remembered = {
        name: dataclasses.replace(track, rollups=(*track.rollups, points)) for name, track in tracks.items()
    }
    game = Game(remembered)
    game.play("track.a", "ada", 7, 0)
    game.play("track.b", "ada", 5, 0)
    for run in ("run-0", "run-1"):
        game.turn(run)
    compare(game)
    assert {"all-sum": 12, "all-best": 7, "all-count": 2, "all-points": 20} == {
        rollup: scores["ada"] for rollup, scores in stands(game).items()
    }
    game.delete("track.a")
    compare(game)
    game.play("track.a", "ada", 9, 0)
    game.play("track.a", "bob", 9, 0)
    for run in ("run-2", "run-3"):
        assert ["track.a"] == [change.board for change in game.turn(run)]
    compare(game)
    expected = {"all-sum": 5, "all-best": 5, "all-count": 1, "all-points": 10}
    assert {rollup: {"ada": score} for rollup, score in expected.items()} == stands(game)


def test_a_deletion_undoes_what_was_noted_for_a_board_before_it():
    """A run whose ranks were not compared yet gives no points any more, and its note is done with."""
    game = Game(scored_family("descending"))
    game.play("track.a", "ada", 7, 0)
    game.turn("run-0")
    game.delete("track.a")
    compare(game)
    assert {"all-points": {}} == stands(game)
    assert [] == game.books.rows("SELECT * FROM rollup_points")
    assert [] == game.books.rows("SELECT * FROM rollup_changes")


def test_a_board_that_a_process_takes_for_deleted_counts_while_it_is_not():
    """Its name was opened again, or the deletion was read from a database that has lost it since."""
    game = Game(family("best", "descending"))
    track = game.tracks["track.a"]
    gone = OpenedBoard("track.a", "track", "A", state=BoardState.DELETED)
    game.tracks = {**game.tracks, "track.a": dataclasses.replace(track, opened=gone)}
    game.play("track.a", "ada", 7, 0)
    game.turn("run-0")
    assert {"all-sum": {"ada": 7}, "all-best": {"ada": 7}, "all-count": {"ada": 1}} == stands(game)


def test_a_board_follows_another_scale_however_it_was_compared_before(monkeypatch: pytest.MonkeyPatch):
    """From ranks to percentiles and others and back, a slice at a time; points never differ from what stands."""
    for module in (rollup_points, rollup_borders):
        monkeypatch.setattr(module, "MOVES", 2)
    tracks = family("best", "descending")
    game = Game(tracks)
    scales: list[tuple[dict[str, Any], dict[str, int]]] = [
        ({"points": [9, 8, 7, 6, 5]}, {"p4": 9, "p3": 8, "p2": 7, "p1": 6, "p0": 5}),
        ({"percentiles": [{"at": 80, "points": 4}, {"at": 41, "points": 1}]}, {"p4": 4, "p3": 4, "p2": 1}),
        ({"percentiles": [{"at": 81, "points": 3}, {"at": 41, "points": 1}]}, {"p4": 3, "p3": 1, "p2": 1}),
        ({"points": [2]}, {"p4": 2}),
        ({"points": [9, 8, 7, 6, 5]}, {"p4": 9, "p3": 8, "p2": 7, "p1": 6, "p0": 5}),
        ({"percentiles": [{"at": 81, "points": 3}]}, {"p4": 3}),
    ]
    for number in range(5):
        game.play("track.a", f"p{number}", number, 0)
        game.turn(f"run-{number}")
    for scale, expected in scales:
        game.rollups = (rollup_board("points", **scale),)
        game.books.do(lambda tx: note_change(tx, RollupChange("all-points", "track.a", "alltime", 1)))
        compare(game)
        assert {"all-points": expected} == stands(game)
        assert sorted(expected.items()) == game.books.rows(
            "SELECT player, points FROM rollup_points ORDER BY player"
        )


FIVE = {"p4": 3, "p3": 1, "p2": 1}


def test_a_player_whom_two_borders_pass_at_once_loses_the_points_of_both():
    """Others leave, and the fourth of five is below every percentile; what another board gave stays."""
    points = rollup_board("points", percentiles=[{"at": 60, "points": 100}, {"at": 50, "points": 50}])
    tracks = {
        name: dataclasses.replace(track, rollups=(points,))
        for name, track in family("best", "descending").items()
    }
    game = Game(tracks)
    for number in range(10):
        game.play("track.a", f"p{number}", 20 - number, 0)
    game.play("track.b", "p3", 1, 0)
    for run in list(game.runs):
        game.turn(run)
    compare(game)
    assert (200, 50) == tuple(stands(game)["all-points"][player] for player in ("p3", "p5"))
    game.turn(*(f"run-{number}" for number in range(5, 10)))
    compare(game)
    assert {"p0": 100, "p1": 100, "p2": 100, "p3": 100} == stands(game)["all-points"]


BY_PERCENTILE = {"percentiles": [{"at": 81, "points": 3}, {"at": 41, "points": 1}]}


def five_players(rollup: Board, *, is_composite: bool = False) -> Game:
    """A game in which p0 to p4 have scores of 0 to 40 on one board, and their points by a rollup's policy."""
    tracks = family("best", "descending", is_composite=is_composite)
    game = Game({name: dataclasses.replace(track, rollups=(rollup,)) for name, track in tracks.items()})
    opened = [OpenedBoard("track.a", "track", "A")]
    game.books.do(open_boards(FamilyTerms("track", "sha256:track"), opened, actor="cli", at_ms=NOON_MS))
    for number in range(5):
        game.play("track.a", f"p{number}", 10 * number, 0)
        game.turn(f"run-{number}")
    compare(game)
    return game


@pytest.mark.parametrize(
    "others", [BY_PERCENTILE | {"percentiles": [{"at": 0, "points": 7}]}, {"points": [9, 8]}]
)
def test_a_run_by_a_process_of_another_policy_is_compared_again(others: dict[str, Any]):
    """A worker that has not loaded an edited rollup yet neither takes points for good nor keeps them from anybody."""
    game = five_players(rollup_board("points", **BY_PERCENTILE))
    assert {"all-points": FIVE} == stands(game)
    today, game.tracks = (
        game.tracks,
        {
            name: dataclasses.replace(track, rollups=(rollup_board("points", **others),))
            for name, track in game.tracks.items()
        },
    )
    for number, (player, score) in enumerate((("p3", 35), ("p0", 25)), start=5):
        game.play("track.a", player, score, 0)
        game.turn(f"run-{number}")
    game.tracks = today
    compare(game)
    assert {"all-points": {"p4": 3, "p3": 1, "p0": 1}} == stands(game)
    assert [("p0", 1), ("p3", 1), ("p4", 3)] == game.books.rows(
        "SELECT player, points FROM rollup_points WHERE \"window\" = 'alltime' ORDER BY player"
    )


def test_a_run_by_a_process_of_another_policy_is_compared_again_though_its_player_stays_where_they_are():
    """On a board whose places have no number of a run, an equal one takes the place of the first, and its points."""
    game = five_players(rollup_board("points", **BY_PERCENTILE), is_composite=True)
    before, today = stands(game), game.tracks
    for _ in range(2):
        game.play("track.a", "p3", 30, 0)
    game.turn("run-6")  # of the same instant as run-3
    compare(game)
    others = BY_PERCENTILE | {"percentiles": [{"at": 0, "points": 7}]}
    rollups = (rollup_board("points", **others),)
    game.runs["run-3"] = dataclasses.replace(today["track.a"], rollups=rollups)
    game.turn("run-3")
    compare(game)
    assert before == stands(game)


def test_borders_are_made_void_once():
    """A change by other rules is noted when it ends them, and not with each run until a steward has stored new ones."""
    game = five_players(rollup_board("points", **BY_PERCENTILE))
    change = RollupChange("all-points", "track.a", "alltime", 1)
    assert [True, False] == [
        game.books.do(lambda tx: rollup_borders.forget_borders(tx, change)) for _ in range(2)
    ]


def test_a_verdict_notes_all_windows_of_a_rollup_by_rank_at_once():
    """It waits for one statement to note them, and for one that makes their borders void, however many they are."""

    def statements(**windows: Any) -> int:
        settings_of = {"family": "track", "take": "points", "points": [3, 1]}
        policy = {"board": "all-points", "title": "T", "rollup": settings_of} | windows
        rollup = Board(Policy.model_validate(policy), "d", {})
        tracks = family("best", "descending")
        game = Game({name: dataclasses.replace(track, rollups=(rollup,)) for name, track in tracks.items()})
        game.play("track.a", "ada", 5, 0)
        counting: Any = Counting(game.books.tx)
        game.books.tx = counting
        game.turn("run-0")
        return int(counting.statements)

    assert statements() == statements(**SEASONS)


def test_a_run_after_the_borders_were_looked_for_is_followed_by_itself(monkeypatch: pytest.MonkeyPatch):
    """The transaction that moves them looks for none, so that no writer waits for that; the run stays noted."""
    game = five_players(rollup_board("points", **BY_PERCENTILE))
    [rollup], ranking = game.rollups, game.tracks["track.a"].ranking
    game.play("track.a", "p5", 50, 0)
    game.turn("run-5")
    [due] = [each for each in game.books.do(changes_due(count=100)) if each.window == "alltime"]
    [wanted] = game.books.do(borders_of(rollup.ranking, [(ranking, "alltime")]))
    game.play("track.a", "p0", 60, 0)
    game.turn("run-6")
    with monkeypatch.context() as patch:
        patch.delattr(RankedWindow, "places_at")
        game.books.do(follow_change(rollup, ranking, due, wanted, at_ms=NOON_MS))
    compare(game)
    assert {"all-points": {"p0": 3, "p5": 3, "p4": 1, "p3": 1}} == stands(game)


@pytest.mark.parametrize(("most", "steps_of"), [(2, (4, 2)), (1, (8, 4))])
def test_what_borders_have_passed_has_its_points_after_every_step(
    monkeypatch: pytest.MonkeyPatch, most: int, steps_of: tuple[int, int]
):
    """In both directions, some players at a step where borders pass more: a run that comes between relies on it."""
    for module in (rollup_points, rollup_borders):
        monkeypatch.setattr(module, "MOVES", most)
    game = five_players(rollup_board("points", **BY_PERCENTILE))
    [rollup], ranking = game.rollups, game.tracks["track.a"].ranking
    worse = [f"run-{number}" for number in range(5, 15)]
    for number in range(5, 15):
        game.play("track.a", f"p{number}", -number, 0)
    for expected in steps_of:  # they come, and leave
        game.turn(*worse)
        steps = 0
        while due := [each for each in game.books.do(changes_due(count=100)) if each.window == "alltime"]:
            [wanted] = game.books.do(borders_of(rollup.ranking, [(ranking, "alltime")]))
            game.books.do(follow_change(rollup, ranking, due[0], wanted, at_ms=NOON_MS))
            assert points_by_borders(game) == dict(
                game.books.rows("SELECT player, points FROM rollup_points WHERE \"window\" = 'alltime'")
            )
            steps += 1
        assert steps == expected


def points_by_borders(game: Game) -> dict[str, int]:
    """The points of all who stand ahead of a stored border, by the best of them."""
    [[stored]] = game.books.rows("SELECT borders FROM rollup_borders WHERE \"window\" = 'alltime'")
    borders = {int(share): tuple(place) for share, place in json.loads(stored).items()}
    points = {100 * each["at"]: each["points"] for each in BY_PERCENTILE["percentiles"]}
    assert borders.keys() == points.keys()
    places = game.books.rows(
        "SELECT player, order_value, member FROM standings "
        "WHERE board = 'track.a' AND \"window\" = 'alltime' AND score IS NOT NULL"
    )
    ahead = {
        player: [points[share] for share, border in borders.items() if tuple(place) < border]
        for player, *place in places
    }
    return {player: max(some) for player, some in ahead.items() if some}


def test_a_fold_anew_takes_no_points_that_a_steward_gave_meanwhile(monkeypatch: pytest.MonkeyPatch):
    """Its borders are from before a run that was followed while it folded: the board is compared once more."""
    game = five_players(rollup_board("points", **BY_PERCENTILE))
    slots = refold_points._slots

    async def slots_and_then_a_run(*arguments: Any) -> Any:
        read = await slots(*arguments)
        game.play("track.a", "p5", -10, 0)
        game.turn("run-5")
        compare(game)
        return read

    monkeypatch.setattr(refold_points, "_slots", slots_and_then_a_run)
    fold_anew(game, game.rollups[0])
    compare(game)
    assert {"all-points": {"p4": 3, "p3": 3, "p2": 1, "p1": 1}} == stands(game)


@pytest.mark.parametrize("settings_of", [{"points": [9, 8]}, BY_PERCENTILE])
def test_writers_wait_for_a_few_windows_of_a_fold_anew_that_changes_nothing(settings_of: dict[str, Any]):
    """All are compared, some in each transaction, which takes some dozens of statements."""
    game = five_players(rollup_board("points", **settings_of))
    compare(game)
    [rollup], ranking = game.rollups, game.tracks["track.a"].ranking
    window = window_at(rollup.policy, WindowKind.ALLTIME, NOON_MS)
    [wanted] = game.books.do(borders_of(rollup.ranking, [(ranking, window.name)]))
    seq = game.books.do(newest_seq())
    slots: Any = [refold_points._Slot(ranking, window, wanted, seq)] * 20
    left, statements = [], []
    while slots:
        before = len(statements)
        game.books.connection.set_trace_callback(statements.append)
        slots, moved = game.books.do(refold_points._compare(rollup.ranking, slots))
        game.books.connection.set_trace_callback(None)
        assert (0, True) == (moved, len(statements) - before < 50)
        left.append(len(slots))
    assert [12, 4, 0] == left


@pytest.mark.parametrize("is_played", [False, True])
@pytest.mark.parametrize("between", [{"points": [9, 8]}, {"take": "sum"}])
def test_a_policy_that_returns_to_its_percentiles_gives_their_points_again(
    between: dict[str, Any], *, is_played: bool
):
    """After ranks or sums, by which players moved past borders that still stand in the ledger."""
    game = five_players(rollup_board("points", **BY_PERCENTILE))
    settings_of = {"family": "track", "take": "points", **between}
    other = Board(
        Policy.model_validate({"board": "all-points", "title": "T", "rollup": settings_of} | SEASONS), "d", {}
    )
    for rollup in (other, game.rollups[0]):
        game.tracks = {
            name: dataclasses.replace(track, rollups=(rollup,)) for name, track in game.tracks.items()
        }
        fold_anew(game, rollup)
        if rollup is other and is_played:
            game.play("track.a", "p0", 35, 0)
            game.turn("run-5")
    compare(game)
    assert {"all-points": {"p4": 3, "p0": 1, "p3": 1} if is_played else FIVE} == stands(game)


@pytest.mark.parametrize("in_read", [1, 3, 100])
def test_a_rollup_as_it_stood_reads_its_family_alone(in_read: int, monkeypatch: pytest.MonkeyPatch):
    """In slices of its own events, whatever else the log has, and without the boards that were deleted by then."""
    monkeypatch.setattr(rollup_history, "SLICE", in_read)
    monkeypatch.setattr(rollup_history, "BOARDS", 1)
    game = Game(family("best", "descending"))
    for number in range(40):
        game.books.append([new_submission(f"other-{number}", recording=None)])
    for track, player in (("track.a", "ada"), ("track.a", "bob"), ("track.b", "ada"), ("track.c", "ada")):
        game.play(track, player, 5, 0)
    game.turn("run-0", "run-1")
    game.turn("run-2")
    game.turn("run-3")
    game.delete("track.c")
    reads = []

    async def read(work: Any, _: Any = None) -> Any:
        reads.append(work)
        return game.books.do(work)

    [rollup] = [rollup for rollup in game.rollups if rollup.name == "all-sum"]
    track = game.tracks["track.a"]
    ledger: Any = SimpleNamespace(read=read)
    folded: Any = SimpleNamespace(name="track", template=track.policy, ranking_of=lambda _: track.ranking)
    window = window_at(rollup.policy, WindowKind.ALLTIME, NOON_MS)
    as_of = rollup_history.rollup_as_of(ledger, rollup.ranking, folded, window, NOON_MS + 1)
    assert [("ada", 10), ("bob", 5)] == [each[:2] for each in asyncio.run(as_of)]
    of_family = 8  # four runs, each received and promoted
    assert 1 + of_family // in_read + 1 + 3 == len(reads)


def fold_anew(game: Game, rollup: Board) -> None:
    """What a steward does once its rollup has another policy."""
    track = game.tracks["track.a"]
    folded: Any = SimpleNamespace(name="track", template=track.policy, ranking_of=lambda _: track.ranking)
    ledger: Any = SimpleNamespace(read=game.books.read, write=game.books.read)
    folding = refold_board(ledger, rollup.policy, clock=lambda: NOON_MS, tell=lambda _: None, family=folded)
    asyncio.run(folding)


@pytest.mark.parametrize("take", [*TAKES, "points"])
def test_final_ranks_of_a_season_are_those_of_the_rollup(take: str):
    """Frozen once it is over, and again after a verdict that comes late, as a new revision."""
    rollup = rollup_board(take, **({"points": list(SCALE)} if take == "points" else {}))
    tracks = {
        name: dataclasses.replace(track, rollups=(rollup,))
        for name, track in family("best", "descending").items()
    }
    game = Game(tracks)
    shelf = game.books = Shelf(rollup)
    for number, (track, player) in enumerate(
        [("track.a", "ada"), ("track.b", "ada"), ("track.a", "bob"), ("track.b", "cyd"), ("track.b", "dot")]
    ):
        game.play(track, player, 3 + number, 0)
    season = window_at(rollup.policy, WindowKind.SEASON, NOON_MS).name
    for revision, runs in ((1, ("run-0", "run-1", "run-2", "run-3")), (2, ("run-4",)), (3, ("run-1",))):
        for run in runs:
            game.turn(run)
        compare(game)
        shelf.clock.shift(40 * 86_400 if revision == 1 else 60)
        shelf.settle_down()
        archived = shelf.archived(season)
        assert archived
        assert revision == archived.revision
        ranks = {player: (score, run) for *_, player, score, run in shelf.ranks(season)}
        stands = {
            player: (score, run)
            for (window, player), (score, _, _, run) in game.standings(rollup).items()
            if window == season
        }
        assert stands == ranks
