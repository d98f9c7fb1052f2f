"""Top-ten achievements: recorded from what the boards show, and the same when folded from the log alone."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.derived import achievements as folding
from gateway.derived import join_history
from gateway.derived.achievements import TOP_RANKS, reached_by_log
from gateway.derived.join_history import JoinHistory
from gateway.index import keys
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.derived.achievements import achievements_of
from gateway.ledger.derived.folded_rules import BegunFold, RuleInForce, end_fold, mark_all, rule_number
from gateway.ledger.players.joins import JoinChange
from gateway.ledger.reads import ReadKind
from gateway.runtime.lanes import lane_of
from gateway.settlement.decision_records import Decision
from gateway.settlement.joins import set_joined, show_joined
from gateway.settlement.settle import _decide_all, project, settle
from gateway.steward.index.rebuild import Rebuilder
from policies.loader import Policies
from policies.vocabulary import Reason, State
from tests.support.derived import catch_up
from tests.support.ledger import new_submission
from tests.support.thorough import seeds

STEPS = 45


def recorded(stage) -> set[tuple[Any, ...]]:
    columns = '"window", player, rank, submission_id, seq, at_ms'
    return set(stage.rows(f"SELECT {columns} FROM achievements"))


async def by_log(stage) -> set[tuple[Any, ...]]:
    return {tuple(each[1:]) async for each in reached_by_log(stage.ledger, stage.board.policy)}


async def test_the_first_ten_of_each_window_are_recorded_once(stage):
    """The eleventh is not; who comes in later is, with the rank they came in with, behind their equals; who falls out stays recorded."""
    derivations = stage.derivations()
    await catch_up(derivations)
    for number in range(11):
        await stage.score(f"p{number}", 100 - number)
    await stage.score("late", 95)
    await stage.score("late", 1000)
    await catch_up(derivations)
    ranks = {player: rank for window, player, rank, *_ in recorded(stage) if window == "alltime"}
    assert {f"p{number}": number + 1 for number in range(TOP_RANKS)} | {"late": 7} == ranks
    assert 22 == len(recorded(stage))


async def test_no_rank_is_told_or_recorded_of_a_board_that_is_folded_anew(stage):
    """Its standings are of two orders; changes are told as those from the ledger, without ranks, and ranks come back with it."""
    derivations = stage.derivations()
    await catch_up(derivations)
    webhook = await stage.webhook()
    mark = await stage.ledger.write(mark_all(["tiny"]))
    await stage.score("ada", 100)
    await catch_up(derivations)
    assert set() == recorded(stage)
    told = [orjson.loads(each.body)["data"] for each in await stage.queued(webhook)]
    assert {"ada"} == {each["player"] for each in told}
    assert {None} == {each.get("rank") for each in told}
    await stage.ledger.write(end_fold(BegunFold(RuleInForce("tiny", rule_number(stage.board.ranking)), mark)))
    await stage.score("bob", 50)
    await catch_up(stage.derivations())
    assert {("bob", 2)} == {(player, rank) for _, player, rank, *_ in recorded(stage)}


async def test_who_is_among_the_first_of_a_board_that_is_not_whole_has_reached_it(stage):
    """Its changes are told without ranks: the ledger has them. The eleventh has reached nothing, nor has who is gone."""
    derivations = stage.derivations()
    await catch_up(derivations)
    endpoint = await stage.webhook(types=("achievement.reached",))
    await stage.score("before", 1000)
    await catch_up(derivations)
    stage.redis.delete(keys.sentinel("tiny"))
    for number in range(TOP_RANKS):
        await stage.score(f"p{number}", 100 - number)
    await stage.decide(await stage.score("gone", 500), State.REVOKED)
    await catch_up(derivations)
    expected = {(f"p{number}", number + 2) for number in range(TOP_RANKS - 1)} | {("before", 1)}
    assert expected == {row[1:3] for row in recorded(stage)}
    assert 2 * len(expected) == len(recorded(stage)) == len(await stage.queued(endpoint))
    events = dict(stage.rows("SELECT seq, at_ms FROM events WHERE to_state = 'promoted'"))
    assert {row[5] for row in recorded(stage)} == {events[row[4]] for row in recorded(stage)}


async def test_only_the_changes_that_were_told_are_achievements(stage):
    """Others among the first ten of a board that is not whole came there by changes of their own, whenever those are told."""
    await stage.score("other", 7)
    outdated = OutdatedBoards(stage.ledger, Catalogue(Policies({"tiny": stage.board})), ReadKind.DUTIES)
    consumer = folding.Achievements(stage.ledger, outdated, clock=stage.clock)
    submission = await stage.score("ada", 5)
    [[seq]] = stage.rows(
        f"SELECT seq FROM events WHERE submission_id = '{submission}' AND to_state = 'promoted'"
    )
    told = Mutation(1, seq, "alltime", "ada", "", submission, 5, None, None, None)
    await consumer.take(stage.board, [told, replace(told, window="daily:1970-01-01")])
    assert [("alltime", "ada", 2)] == [row[:3] for row in recorded(stage)]


async def test_a_change_that_a_build_overtakes_is_an_achievement(stage):
    """Settled before its board is built in an empty Redis, and shown after it: it is recorded, and told once."""
    derivations = stage.derivations()
    await catch_up(derivations)
    endpoint = await stage.webhook()
    stage.redis.delete(keys.sentinel("tiny"))
    submission = await stage.receive("ada", 5)
    decision = Decision(
        submission, State.PROMOTED, "replay", Reason.VERIFIED, stage.clock(), frozenset(State)
    )
    _, changes = await stage.ledger.write(_decide_all(stage.board, [decision]))
    index = stage.index.of(stage.board)
    await Rebuilder(stage.ledger, index, stage.board.policy, clock=stage.clock).rebuild()
    assert await project(stage.ledger, stage.index, stage.board, changes)
    await catch_up(derivations)
    assert {("ada", 1, submission)} == {row[1:4] for row in recorded(stage)}
    types = [each.type for each in await stage.queued(endpoint)]
    assert [1, 2, 2] == [
        types.count(each) for each in ("submission.decided", "standing.changed", "achievement.reached")
    ]


async def test_an_achievement_bears_the_event_it_was_reached_with(stage):
    """Its time is that of the decision, not of whoever looked."""
    derivations = stage.derivations()
    await catch_up(derivations)
    submission = await stage.score("ada", 5)
    stage.clock.shift(500)
    await catch_up(derivations)
    [event] = stage.rows("SELECT seq, at_ms FROM events WHERE to_state = 'promoted'")
    [found, _] = await stage.ledger.read(achievements_of("ada", before=2**53, after="", count=9))
    assert (submission, *event) == (found.submission_id, found.seq, found.at_ms)


async def test_who_falls_makes_room_for_the_eleventh_and_no_other(stage):
    """A standing among the first that gets worse brings in who was behind them; the next one is eleventh."""
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.score("p0", 1)
    high = await stage.score("p0", 100)
    for number in range(1, TOP_RANKS + 1):
        await stage.score(f"p{number}", 100 - number)
    await stage.decide(high, State.REVOKED)
    await stage.score("new", 50)
    await catch_up(derivations)
    assert {f"p{number}" for number in range(TOP_RANKS)} == {player for _, player, *_ in recorded(stage)}
    assert await by_log(stage) == recorded(stage)


@pytest.mark.parametrize(
    "policy",
    [
        {"windows": ["alltime", "daily"]},
        {"windows": ["alltime"], "order": "ascending"},
        {"windows": ["alltime", "daily"], "operator": "latest"},
        {"windows": ["alltime"], "operator": "sum"},
        {"windows": ["alltime"], "operator": "count"},
        {"windows": ["alltime", "daily"], "tie_break": "composite", "tie_resolution_ms": 60_000},
    ],
    ids=["best", "ascending", "latest", "sum", "count", "composite"],
)
@pytest.mark.parametrize("seed", seeds(4))
async def test_what_the_stream_gives_is_what_the_log_gives(
    stage, policy, seed, monkeypatch: pytest.MonkeyPatch
):
    """Scores, bans and pardons in any order, ties, stewards that die with entries, a stream that is lost in between."""
    monkeypatch.setattr(folding, "LOG_SLICE", 7)
    rng = random.Random(seed)
    derivations = stage.derivations()
    await catch_up(derivations)
    known: dict[str, str] = {}
    for _ in range(STEPS):
        chance = rng.random()
        if chance < 0.75 or not known:
            submission = await stage.score(f"p{rng.randrange(16)}", rng.randrange(20))
            known[submission] = "promoted"
        else:
            submission = rng.choice(sorted(known))
            state = State.REVOKED if known[submission] == "promoted" else State.PROMOTED
            await stage.decide(submission, state)
            known[submission] = state.value
        if rng.random() < 0.15:
            await _die_with_entries(stage)
        if rng.random() < 0.3:
            await catch_up(derivations)
        if rng.random() < 0.03:
            stage.redis.delete(keys.changes("tiny"))
    await catch_up(derivations)
    assert await by_log(stage) == recorded(stage)
    assert len(recorded(stage)) >= TOP_RANKS


async def _die_with_entries(stage) -> None:
    """A steward is given some entries, and is never heard of again."""
    dying = stage.derivations().of_changes["achievements"].group(lane_of("tiny"))
    await dying.take(3, left_ms=600_000)


async def test_a_rebuild_adds_what_is_missing_and_changes_nothing(stage):
    """What was recorded stays as it is, and nobody is told of it again."""
    derivations = stage.derivations()
    await catch_up(derivations)
    for number in range(5):
        await stage.score(f"p{number}", number)
    await catch_up(derivations)
    before = recorded(stage)
    await derivations.rebuild("achievements")
    assert await catch_up(derivations)
    assert before == recorded(stage) == await by_log(stage)


async def test_what_was_reached_before_it_was_followed_is_recorded_and_told_to_nobody(stage):
    """A deployment that begins to derive sends no news of the past; what a lost stream had is told all the same."""
    endpoint = await stage.webhook(types=("achievement.reached",))
    await stage.score("ada", 5)
    derivations = stage.derivations()
    await catch_up(derivations)
    assert ({"ada"}, []) == ({row[1] for row in recorded(stage)}, await stage.queued(endpoint))

    await stage.score("bob", 7)
    stage.redis.delete(keys.changes("tiny"))
    await catch_up(derivations)
    assert {"ada", "bob"} == {row[1] for row in recorded(stage)}
    told = [orjson.loads(each.body)["data"]["player"] for each in await stage.queued(endpoint)]
    assert ["bob", "bob"] == told


@pytest.mark.parametrize("statement", ["UPDATE achievements SET rank = 1", "DELETE FROM achievements"])
async def test_an_achievement_is_kept_for_ever(stage, statement):
    """Not even our own code can take one back."""
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.score("ada", 5)
    await catch_up(derivations)
    with closing(sqlite3.connect(stage.settings.ledger_path)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)


@pytest.mark.parametrize("policy", [{"windows": ["alltime", "daily"], "joins": "required"}])
async def test_achievements_are_of_those_who_are_on_a_board_to_be_joined(stage):
    """Who is not on it has none, nor takes a rank from those who are; who joins has one with their next score among the first."""
    derivations = stage.derivations()
    await catch_up(derivations)

    async def turn(player: str, *, joins_now: bool) -> None:
        stage.clock.shift(0.01)
        change = set_joined(stage.board, player, joins_now=joins_now, actor="test", now_ms=stage.clock())
        await stage.ledger.write(change)
        await show_joined(stage.ledger, stage.index.of(stage.board), player, now_ms=stage.clock())
        stage.clock.shift(0.01)

    for number in range(TOP_RANKS):
        await stage.score(f"out{number}", 100)
    await turn("ada", joins_now=True)
    await stage.score("ada", 1)
    await turn("out0", joins_now=True)  # stands ahead from now on, by what they did before
    await catch_up(derivations)
    assert {("ada", 1)} == {row[1:3] for row in recorded(stage)}
    await stage.score("out0", 101)
    await turn("ada", joins_now=False)
    await stage.score("ada", 200)
    await turn("bob", joins_now=True)
    await stage.score("bob", 50)
    await catch_up(derivations)
    assert {("ada", 1), ("out0", 1), ("bob", 2)} == {row[1:3] for row in recorded(stage)}
    assert await by_log(stage) == recorded(stage)


@pytest.mark.parametrize("policy", [{"windows": ["alltime", "daily"], "joins": "required"}])
@pytest.mark.parametrize("seed", seeds(2))
async def test_the_log_gives_what_the_stream_gives_where_players_join_and_leave(
    stage, seed, monkeypatch: pytest.MonkeyPatch
):
    """Scores, bans, joins and leaves in any order, and a stream that is lost in between."""
    monkeypatch.setattr(join_history, "PAGE", 3)
    rng = random.Random(seed)
    derivations = stage.derivations()
    await catch_up(derivations)
    for _ in range(STEPS):
        stage.clock.shift(0.01)
        player = f"p{rng.randrange(14)}"
        if rng.random() < 0.4:
            joins_now = rng.random() < 0.7
            change = set_joined(stage.board, player, joins_now=joins_now, actor="test", now_ms=stage.clock())
            await stage.ledger.write(change)
            await show_joined(stage.ledger, stage.index.of(stage.board), player, now_ms=stage.clock())
        else:
            await stage.score(player, rng.randrange(20))
        if rng.random() < 0.3:
            await catch_up(derivations)
        if rng.random() < 0.03:
            stage.redis.delete(keys.changes("tiny"))
    await catch_up(derivations)
    assert await by_log(stage) == recorded(stage) != set()


def test_who_was_on_a_board_is_told_for_every_moment():
    """From each change on, and before the oldest that is kept as that one found them; nobody else ever was."""
    changes = [JoinChange("ada", 1, 1, 10), JoinChange("bob", 1, 0, 20), JoinChange("ada", 2, 0, 30)]
    history = JoinHistory(sorted(changes, key=lambda change: change.player))
    moments = (9, 10, 19, 20, 29, 30)
    told = {
        player: [history.was_on_board(player, at_ms) for at_ms in moments] for player in ("ada", "bob", "cy")
    }
    assert {
        "ada": [False, True, True, True, True, False],
        "bob": [True, True, True, False, False, False],
        "cy": [False] * 6,
    } == told
    spans = [(0, 9), (9, 10), (10, 19), (10, 20), (20, 30), (30, 99)]
    assert [False, True, False, False, True, False] == [history.has_changed({"ada"}, *each) for each in spans]
    assert history.has_changed({"ada", "bob"}, 10, 20)


async def test_a_loss_is_made_good_from_each_boards_own_events(stage, monkeypatch: pytest.MonkeyPatch):
    """In slices, and however many other boards and lives of boards the log has."""
    monkeypatch.setattr(folding, "LOG_SLICE", 3)
    reads = []
    events_of_board = folding.log.events_of_board

    def counted(board: str, after: int, *, count: int) -> Any:
        reads.append(board)
        return events_of_board(board, after, count=count)

    monkeypatch.setattr(folding.log, "events_of_board", counted)
    lost, places = {}, {"tiny": stage.board}
    for number in range(3):
        name = f"other-{number}"
        places[name] = replace(stage.board, policy=stage.board.policy.model_copy(update={"board": name}))
        for rank in range(2):
            run = f"{name}-{rank}"
            facts = {"board": name, "player": f"p{rank}", "score": 9 - rank, "at_ms": stage.clock()}
            await stage.ledger.append(new_submission(run, recording=None, **facts))
            decision = Decision(
                run, State.PROMOTED, "replay", Reason.VERIFIED, stage.clock(), frozenset(State)
            )
            await settle(stage.ledger, stage.index, places[name], [decision])
        lost[name] = 0
    boards = [places[name] for name in lost]
    outdated = OutdatedBoards(stage.ledger, Catalogue(Policies(places)), ReadKind.DUTIES)
    consumer = folding.Achievements(stage.ledger, outdated, clock=stage.clock)
    await consumer.recover(boards, lost)
    assert [name for name in lost for _ in range(2)] == reads  # four events each
    found = stage.rows(
        "SELECT board, player, rank FROM achievements WHERE \"window\" = 'alltime' ORDER BY 1, 2"
    )
    assert [(name, f"p{rank}", rank + 1) for name in lost for rank in range(2)] == found


async def test_after_a_loss_only_what_is_missing_is_written_some_at_a_time(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """Most is recorded: a write for each achievement would take hours with a hundred thousand boards."""
    monkeypatch.setattr(folding, "RECORDED_AT_ONCE", 3)
    for number in range(2):
        await stage.score(f"p{number}", 9 - number)
    outdated = OutdatedBoards(stage.ledger, Catalogue(Policies({"tiny": stage.board})), ReadKind.DUTIES)
    consumer, writes, write = (
        folding.Achievements(stage.ledger, outdated, clock=stage.clock),
        [],
        stage.ledger.write,
    )

    async def counted(work: Any) -> Any:
        writes.append(work)
        return await write(work)

    monkeypatch.setattr(stage.ledger, "write", counted)
    for expected in (2, 2):  # four achievements, the second time none
        await consumer.recover([stage.board], {"tiny": 0})
        assert expected == len(writes)
        assert await by_log(stage) == recorded(stage)
