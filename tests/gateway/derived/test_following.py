"""Consumer groups on the stream of changes: every change has its effect once, whoever dies and whatever is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

import orjson
import pytest
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.derived import change_followers, followers
from gateway.derived import derivations as derivations_of_stewards
from gateway.derived.change_followers import ChangeFollower
from gateway.derived.followers import standings_since
from gateway.derived.webhooks import sources
from gateway.index import keys
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger import queries
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.derived import lane_positions, log
from gateway.runtime.lanes import LANES, lane_of
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, project
from policies.loader import Board, Policies
from policies.opened_board import OpenedBoard
from policies.vocabulary import Reason, State
from tests.support.derived import catch_up
from tests.support.feeds import entry
from tests.support.metrics import counts, metric

STREAM = keys.changes("tiny")
LANE = lane_of("tiny")


class Heard:
    """A consumer that remembers what it was told."""

    name = "heard"

    def __init__(self) -> None:
        self.told: list[tuple[str, int | None, int | None]] = []
        self.recovered: list[int] = []
        self.is_dead = False

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        if self.is_dead:
            raise ConnectionError("died before its effect")
        self.told += [(each.player, each.score, each.rank) for each in mutations if each.window == "alltime"]

    async def recover(self, boards: Sequence[Board], since: Mapping[str, int]) -> None:
        self.recovered += [since[board.name] for board in boards]


def follower(
    stage, consumer: Heard, *, steward: str = "one", left_ms: int = 0, look_s: float = 0
) -> ChangeFollower:
    catalogue = Catalogue(Policies({"tiny": stage.board}))
    options = {"steward": steward, "clock": stage.clock, "left_ms": left_ms, "look_s": look_s}
    return ChangeFollower(stage.ledger, stage.index.client, catalogue, consumer, **options)


async def position(stage) -> int:
    """The position of the consumer in the lane of the board."""
    return (await stage.ledger.read(lane_positions.of_lanes("heard", [LANE])))[LANE]


def pending(stage, group: str = "heard") -> int:
    return stage.redis.xpending(STREAM, group)["pending"]


async def test_a_group_begins_from_the_ledger_and_then_hears_every_change_once(stage):
    """The first step catches up, those after it take entries and acknowledge them."""
    await stage.score("before", 1)
    heard = Heard()
    one = follower(stage, heard)
    head = (await stage.ledger.read(log.projected())).upto
    assert 1 == await one.step()
    assert [head] == heard.recovered

    await stage.score("ada", 5)
    await stage.score("bob", 7)
    assert 4 == await one.step()
    assert [("ada", 5, 1), ("bob", 7, 1)] == heard.told
    assert (0, 0) == (await one.step(), pending(stage))


async def test_a_new_consumer_marks_all_lanes_in_a_few_calls_also_if_redis_lacks_the_script(stage):
    """Hundreds of lanes cost a start as few round trips as one would; a pipeline is read in one or a few parts."""
    one = follower(stage, Heard())
    stage.redis.script_flush()
    asked = stage.redis.info("stats")["total_reads_processed"]
    await one.step()
    assert LANES // 8 > stage.redis.info("stats")["total_reads_processed"] - asked
    assert LANES == len(stage.redis.keys(keys.group_mark("*", "heard")))


async def test_redis_is_asked_nothing_until_the_ledger_has_more(stage):
    """All that is on the streams follows from an event; what is on them before it is shown is looked for again."""
    heard = Heard()
    one = follower(stage, heard, look_s=60)
    await stage.score("ada", 5)
    for _ in range(3):
        await one.step()
    heard.told.clear()
    asked = stage.redis.info("stats")["total_commands_processed"]
    await one.step()
    assert 1 == stage.redis.info("stats")["total_commands_processed"] - asked, "that of the question itself"

    await stage.score("bob", 7)
    await one.step()
    assert [("bob", 7, 1)] == heard.told
    of_cy, of_dee = [
        await stage.ledger.write(_decided_only(stage, await stage.receive(player, 8)))
        for player in ("cy", "dee")
    ]
    for (_, changes), told in ((of_cy, ("cy", 8, 1)), (of_dee, ("dee", 8, 2))):
        await one.step()
        await one.step()
        assert await project(stage.ledger, stage.index, stage.board, changes)
        await one.step()
        assert told == heard.told[-1]


async def test_how_far_behind_a_consumer_is_can_be_seen(stage, monkeypatch: pytest.MonkeyPatch):
    """Of the changes what is still on the stream, of the log what was there before the step; nothing once it has all."""
    monkeypatch.setattr(change_followers, "STREAM_SLICE", 3)
    one = follower(stage, Heard())
    derivations = stage.derivations()
    await one.step()
    await catch_up(derivations)
    await stage.score("ada", 5)
    await stage.score("bob", 7)  # each in two windows
    seen = []
    for _ in range(3):
        await one.step()
        await derivations.follow_log()
        lags = [metric("scoregate_derived_lag", consumer=each) for each in ("heard", "statistics")]
        seen.append(lags)
    assert [[1, 4], [0, 0], [0, 0]] == seen


async def behind_by_four(stage, monkeypatch: pytest.MonkeyPatch):
    """Derivations with four slices left, of which a turn has three."""
    for module in (followers, derivations_of_stewards):
        monkeypatch.setattr(module, "LOG_SLICE", 2)
    monkeypatch.setattr(derivations_of_stewards, "SLICES", 3)
    derivations = stage.derivations()
    await catch_up(derivations)
    for number in range(4):
        await stage.score(f"p{number}", number)
    return derivations


async def test_a_backlog_of_the_log_is_followed_for_some_slices_in_a_turn(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """A turn ends in a pause, and one after each slice would be most of the time; one for ever would hold the lease."""
    derivations = await behind_by_four(stage, monkeypatch)
    consumers = len(derivations.of_log)
    assert [6 * consumers, 2 * consumers, 0] == [await derivations.follow_log() for _ in range(3)]


async def test_a_consumer_with_a_backlog_is_not_held_up_by_those_without(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """One that begins again has as many slices in a turn as if the others had begun again too."""
    derivations = await behind_by_four(stage, monkeypatch)
    _behind, *others = derivations.of_log.values()
    for each in others:
        while await each.step():
            pass
    assert [6, 2, 0] == [await derivations.follow_log() for _ in range(3)]


async def test_a_turn_ends_once_nobody_has_a_whole_slice_left(stage, monkeypatch: pytest.MonkeyPatch):
    """Without news a steward looks at the log once for each consumer, and not as often as a backlog would take."""
    derivations = await behind_by_four(stage, monkeypatch)
    await catch_up(derivations)
    looks: list[object] = []
    read = stage.ledger.read

    async def counted(query):
        looks.append(query)
        return await read(query)

    monkeypatch.setattr(stage.ledger, "read", counted)
    assert 0 == await derivations.follow_log()
    assert len(derivations.of_log) == len(looks)


async def test_nothing_is_made_for_webhooks_while_there_are_none(stage, monkeypatch: pytest.MonkeyPatch):
    """No message is written, and after a loss no board is read, for endpoints that do not exist."""

    def made(*_: object, **__: object) -> None:
        raise AssertionError("for nobody")

    for name in ("events_of", "standings_since"):
        monkeypatch.setattr(sources, name, made)
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.score("ada", 5)
    assert await derivations.follow_log()
    await sources.StandingEvents(stage.ledger, clock=stage.clock).recover([stage.board], {"tiny": 0})


async def test_two_stewards_share_the_changes(stage):
    """Each entry goes to one of them."""
    one, two = Heard(), Heard()
    ours = [follower(stage, one, left_ms=60_000), follower(stage, two, steward="two", left_ms=60_000)]
    for each in ours:
        await each.step()
    for number in range(20):
        await stage.score(f"p{number}", number)
    while sum(await asyncio.gather(*(each.step() for each in ours))):
        pass
    assert sorted((f"p{n}", n) for n in range(20)) == sorted(each[:2] for each in one.told + two.told)


async def test_what_a_consumer_that_died_left_is_taken_over(stage):
    """It read an entry and had no effect: another has it, after the time that it may lie."""
    dead, alive = Heard(), Heard()
    left, taking = follower(stage, dead), follower(stage, alive, steward="two")
    await left.step()
    await stage.score("ada", 5)
    dead.is_dead = True
    with pytest.raises(ConnectionError):
        await left.step()
    assert 2 == pending(stage)

    await taking.step()
    assert [("ada", 5, 1)] == alive.told
    assert 0 == pending(stage)


async def test_what_is_not_left_long_enough_stays_with_its_consumer(stage):
    """A slow consumer keeps its entries while their time lasts."""
    dead, alive = Heard(), Heard()
    left, waiting = follower(stage, dead), follower(stage, alive, steward="two", left_ms=600_000)
    await left.step()
    await stage.score("ada", 5)
    dead.is_dead = True
    with pytest.raises(ConnectionError):
        await left.step()
    await waiting.step()
    assert [] == alive.told


async def test_no_position_is_noted_past_what_another_steward_holds(stage):
    """It has had no effect yet: once the stream is lost, who catches up begins before it."""
    dead, alive = Heard(), Heard()
    holding, idle = follower(stage, dead), follower(stage, alive, steward="two", left_ms=600_000)
    await holding.step()
    known = await position(stage)
    await stage.score("ada", 5)
    dead.is_dead = True
    with pytest.raises(ConnectionError):
        await holding.step()
    assert 0 == await idle.step()
    assert known == await position(stage)
    stage.redis.delete(STREAM)
    await idle.step()
    assert ([known], []) == (alive.recovered, alive.told)
    assert known < await position(stage)


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda redis: redis.flushall(), id="emptied"),
        pytest.param(lambda redis: redis.delete(STREAM), id="stream-deleted"),
        pytest.param(lambda redis: redis.xgroup_destroy(STREAM, "heard"), id="group-destroyed"),
        pytest.param(lambda redis: redis.xtrim(STREAM, maxlen=1, approximate=False), id="trimmed"),
    ],
)
async def test_a_loss_is_noticed_and_caught_up_from_the_ledger(stage, lose, monkeypatch: pytest.MonkeyPatch):
    """From the event up to which everything had its effect; afterwards the group goes on as before."""
    monkeypatch.setattr(change_followers, "QUIET_MS", 0)
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    await stage.score("ada", 5)
    await one.step()
    await one.step()  # finds nothing more, and notes it
    known = await position(stage)
    assert await stage.ledger.read(log.projected()) == (known, known)

    await stage.score("bob", 7)
    await stage.score("cy", 8)
    lose(stage.redis)
    heard.recovered.clear()
    heard.told.clear()
    with counts(1, "scoregate_derived_rebuilds_total", consumer="heard"), capture_logs() as logs:
        await one.step()
    assert ([known], []) == (heard.recovered, heard.told)
    assert [("changes_missed", "heard", known)] == [
        (each["event"], each["consumer"], each["since"]) for each in logs
    ]

    assert 0 == await one.step()
    await stage.score("dee", 9)
    await one.step()
    assert ["dee"] == [each[0] for each in heard.told]
    assert [known] == heard.recovered


async def test_what_a_lost_stream_would_have_told_are_the_newest_standings_since(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """Of each window and player the last, in the order of the log, by name, as they are now; ranks and what was before are lost."""
    monkeypatch.setattr(followers, "CHANGED_SLICE", 1)
    await stage.ledger.write(queries.add_player("ada", "Ada", now_ms=stage.clock()))
    for player in ("ada", "bob", "cy"):
        await stage.score(player, 5)
    since = await stage.ledger.read(queries.newest_seq())
    await stage.score("bob", 6)
    revoked = await stage.score("dee", 9)
    best = await stage.score("ada", 7)
    await stage.score("cy", 4)  # changes nothing: the standing is that of the event before
    await stage.score("bob", 8)
    await stage.decide(revoked, State.REVOKED)
    now_ms = stage.clock()
    told = await standings_since(stage.ledger, "tiny", since, now_ms=now_ms)
    events = stage.rows(
        "SELECT e.seq, s.player FROM events e JOIN submissions s USING (submission_id) ORDER BY 1"
    )
    newest = {player: seq for seq, player in events if seq > since}
    last = [each for each in told if each.window == "alltime"]
    assert [("ada", 7), ("bob", 8), ("dee", None)] == [(each.player, each.score) for each in last]
    assert [newest[each.player] for each in last] == [each.seq for each in last]
    assert [each.seq for each in told] == sorted(each.seq for each in told)
    assert 2 * len(last) == len(told)  # the day's beside them
    facts = (last[0].at_ms, last[0].name, last[0].submission_id, last[2].submission_id)
    assert (now_ms, "Ada", best, "") == facts
    assert {(None, None, None)} == {(each.rank, each.was_score, each.was_rank) for each in told}


async def test_entries_that_were_trimmed_before_they_were_acknowledged_are_a_loss(stage):
    """The group was given them, their consumer died, and there is nothing left to give to another."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    await stage.score("ada", 5)
    heard.is_dead = True
    with pytest.raises(ConnectionError):
        await one.step()
    heard.is_dead = False
    heard.recovered.clear()
    stage.redis.xtrim(STREAM, maxlen=0, approximate=False)
    while await one.step():
        pass
    assert 1 == len(heard.recovered)


async def test_boards_are_caught_up_in_parts(stage, monkeypatch: pytest.MonkeyPatch):
    """However many changed in one slice of the log; each once."""
    monkeypatch.setattr(change_followers, "RECOVERED_AT_ONCE", 2)
    one = follower(stage, Heard())
    changed = {f"b{number}": number + 1 for number in range(5)}

    async def boards_between(_tx: object) -> dict[str, int]:
        return changed

    monkeypatch.setattr(log, "boards_between", lambda _after, _upto: boards_between)
    parts = [names async for names in one._changed_boards({}, range(LANES), 5)]
    assert [["b0", "b1"], ["b2", "b3"], ["b4"]] == parts


async def test_the_position_of_a_lane_that_always_has_changes_goes_on(stage, monkeypatch: pytest.MonkeyPatch):
    """Every step finds some, so the lane is never at rest; what another steward holds keeps the position back."""
    monkeypatch.setattr(change_followers, "QUIET_MS", 0)
    heard = Heard()
    one = follower(stage, heard, left_ms=600_000)
    await one.step()
    positions = []
    for number in range(3):
        await stage.score(f"p{number}", number)
        newest = (await stage.ledger.read(log.projected())).upto
        await one.step()
        positions.append(await position(stage) == newest)
    assert [True] * 3 == positions
    await stage.score("ada", 5)
    dead = Heard()
    dead.is_dead = True
    known = await position(stage)
    with pytest.raises(ConnectionError):
        await follower(stage, dead, steward="two", left_ms=600_000).step()
    await stage.score("bob", 7)
    await one.step()
    assert "bob" == heard.told[-1][0]
    assert known == await position(stage)


async def test_a_lane_with_more_changes_than_a_step_takes_keeps_its_position(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """What is still on the stream has had no effect yet."""
    monkeypatch.setattr(change_followers, "QUIET_MS", 0)
    monkeypatch.setattr(change_followers, "STREAM_SLICE", 3)
    one = follower(stage, Heard())
    await one.step()
    await one.step()
    known = await position(stage)
    await stage.score("ada", 5)
    await stage.score("bob", 7)  # each in two windows
    assert 3 == await one.step()
    assert known == await position(stage)
    assert 1 == await one.step()
    assert (await stage.ledger.read(log.projected())).upto == await position(stage)


async def test_the_first_changes_of_a_lane_are_heard_or_caught_up(stage):
    """The group is made with them. If they are trimmed before that, the ledger has them."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    known = await position(stage)
    await stage.score("ada", 5)
    stage.redis.xtrim(STREAM, maxlen=1, approximate=False)
    await one.step()
    assert ([known], []) == (heard.recovered, heard.told)


async def test_a_loss_in_one_lane_leaves_the_boards_of_others_alone(stage):
    """Only boards of the lane that lost something are computed again."""
    await stage.score("ada", 5)
    heard, other = Heard(), (LANE + 1) % LANES
    one = follower(stage, heard)
    await one.step()
    heard.recovered.clear()
    await stage.ledger.write(lane_positions.put("heard", {other: 0}))
    stage.redis.delete(keys.group_mark(other, "heard"))
    assert 1 == await one.step()
    assert [] == heard.recovered


async def test_a_loss_costs_nothing_for_boards_that_were_only_opened(stage):
    """A million boards may be open. What their lives say is no change that a consumer could have missed."""
    await stage.score("ada", 5)
    before = await stage.ledger.read(queries.newest_seq())
    terms, opened = FamilyTerms("track", "digest"), [OpenedBoard("track.spa", "track", "Spa")]
    await stage.ledger.write(open_boards(terms, opened, actor="server:eu", at_ms=1))
    newest = await stage.ledger.read(queries.newest_seq())
    assert before < newest
    assert {"tiny": before} == await stage.ledger.read(log.boards_between(0, newest))


async def test_trimming_what_everybody_had_is_no_loss(stage):
    """The stream is bounded: what is trimmed in the course of things was read long before."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    heard.recovered.clear()
    for number in range(5):
        await stage.score(f"p{number}", number)
        await one.step()
        stage.redis.xtrim(STREAM, maxlen=1, approximate=False)
    assert 5 == len(heard.told)
    assert [] == heard.recovered


async def test_a_loss_stays_noticed_until_it_is_made_good(stage):
    """Who notices and dies over the catching up leaves it to the next."""
    await stage.score("ada", 5)
    heard = Heard()
    one = follower(stage, heard)

    async def dies(_board: Board, _since: int) -> None:
        raise ConnectionError

    heard.recover = dies  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        await one.step()
    again = Heard()
    await follower(stage, again, steward="two").step()
    assert 1 == len(again.recovered)


async def test_a_loss_that_somebody_noticed_and_died_over_is_made_good_by_the_next(stage):
    """The group goes on behind what was trimmed, so nothing but the mark says that something is missing."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    known = await position(stage)
    for player in ("ada", "bob"):
        await stage.score(player, 5)
    stage.redis.xtrim(STREAM, maxlen=1, approximate=False)

    async def dies(_boards: Sequence[Board], _since: Mapping[str, int]) -> None:
        raise ConnectionError

    heard.recover = dies  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        await one.step()
    again = Heard()
    await follower(stage, again, steward="two").step()
    assert [known] == again.recovered


async def test_a_loss_within_one_millisecond_is_noticed(stage):
    """Redis numbers the entries of a millisecond; those of a busy lane differ in nothing else."""
    one = follower(stage, Heard())
    rebuilds = partial(metric, "scoregate_derived_rebuilds_total", consumer="heard")
    await one.step()

    async def add(*numbers: int, kept: int) -> float:
        for number in numbers:
            stage.redis.xadd(STREAM, {"board": "none"}, id=f"9000000000000-{number}")
        stage.redis.xtrim(STREAM, maxlen=kept, approximate=False)
        await one.step()
        return rebuilds()

    before = rebuilds()
    assert before == await add(1, kept=1) == await add(2, 3, kept=3)
    assert before + 1 == await add(4, 10, kept=1)


async def test_nobody_is_given_more_at_once_than_they_ask_for(stage):
    """Entries that others left count as well."""
    one = follower(stage, Heard())
    await one.step()
    for player in ("ada", "bob"):
        await stage.score(player, 5)  # each in two windows
    given = [len((await one.group(LANE).take(count, left_ms=0)).entries) for count in (2, 3, 3, 9)]
    assert [2, 3, 3, 4] == given


async def test_entries_that_nobody_of_ours_wrote_are_passed_over(stage):
    """They say nothing, and are acknowledged, or they would come for ever."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    stage.redis.xadd(STREAM, {"seq": "none", "window": "alltime"})
    await one.step()
    assert ([], 0) == (heard.told, pending(stage))


async def test_what_is_done_is_acknowledged_though_the_consumer_dies_over_another_board(stage):
    """Else it would be told again for as long as that board fails."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    stage.redis.xadd(STREAM, {"seq": "none", "window": "alltime"})  # of no board: there is nothing to do
    await stage.score("ada", 5)
    heard.is_dead = True
    with pytest.raises(ConnectionError):
        await one.step()
    assert 2 == pending(stage)


async def test_I26_a_change_that_somebody_copies_into_another_lane_is_not_heard_again(stage):
    """A lane tells of its own boards alone; the copy is acknowledged, or it would come for ever."""
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    await stage.score("ada", 5)
    other = keys.lane_changes((LANE + 1) % LANES)
    for _, fields in stage.redis.xrange(STREAM):
        stage.redis.xadd(other, fields)
    while await one.step():
        pass
    assert [("ada", 5, 1)] == heard.told
    assert (0, 0) == (
        stage.redis.xinfo_groups(other)[0]["lag"],
        stage.redis.xpending(other, "heard")["pending"],
    )


async def test_a_position_is_not_noted_past_what_the_index_does_not_show_yet(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """A decision whose projection is still to come is behind no position: a loss in between would lose it."""
    monkeypatch.setattr(change_followers, "QUIET_MS", 0)
    heard = Heard()
    one = follower(stage, heard)
    await one.step()
    await stage.score("ada", 5)
    waits = await stage.receive("bob", 7)
    await stage.ledger.write(_decided_only(stage, waits))
    while await one.step():
        pass
    unshown = stage.rows("SELECT min(seq) FROM outbox WHERE kind = 'project'")[0][0]
    assert unshown - 1 == await position(stage)


def _decided_only(stage, submission_id: str):
    """The decision without what follows its commit."""
    decision = Decision(
        submission_id, State.PROMOTED, "replay", Reason.VERIFIED, stage.clock(), frozenset(State)
    )
    return _decide_all(stage.board, [decision])


async def test_consumers_that_left_nothing_are_forgotten_and_no_others(stage):
    """Every steward that starts is a new consumer; one that holds entries stays until they were taken over."""
    empty, holding = follower(stage, Heard(), steward="empty"), Heard()
    await empty.step()
    await empty.step()
    await stage.score("ada", 5)
    holding.is_dead = True
    with pytest.raises(ConnectionError):
        await follower(stage, holding, steward="holding").step()
    await asyncio.sleep(0.01)  # so long they are silent
    newest = follower(stage, Heard(), steward="new").group(LANE)
    assert () == (await newest.take(9, left_ms=600_000, gone_ms=5)).entries
    assert {"holding", "new"} == {each["name"] for each in stage.redis.xinfo_consumers(STREAM, "heard")}


async def test_the_log_has_its_effect_once_whoever_follows_it(stage):
    """Several stewards at once, and again after a crash between reading and writing: every event counts once."""
    for number in range(12):
        await stage.score(f"p{number % 3}", number)
    several = [stage.derivations() for _ in range(3)]
    await asyncio.gather(*(catch_up(each) for each in several))
    await stage.score("late", 1)
    await asyncio.gather(*(catch_up(each) for each in several))
    assert [("tiny", 13, 13)] == stage.rows("SELECT board, attempts, promoted FROM board_counts")


EVE = {name: str(value) for name, value in entry("eve", 9_000, board="tiny").items()}
FORGED = {
    "a submission that there is not": EVE,
    "another player's submission": EVE | {"submission": "run-1"},
    "a submission that does not count": EVE | {"player": "idle", "submission": "run-2"},
    "a score of nothing": EVE | {"submission": ""},
    "an order that no board has": EVE | {"order": "9" * 30},
    "a number that no event has": EVE | {"seq": "9" * 30},
    "a rank that is none": EVE | {"rank": "-1"},
    "ids that no database takes": EVE | {"submission": "\0", "player": "ev\0e"},
    "bytes that are no text": EVE | {"player": b"\xff"},
    "half of an entry": {"player": "eve"},
}


@pytest.mark.parametrize("taken_back", [State.HELD, State.REJECTED, State.REVOKED])
async def test_what_counted_for_a_moment_is_heard_and_not_taken_for_forged(stage, taken_back: State):
    """A moderator took it back before anybody followed the stream."""
    endpoint = await stage.webhook(types=("standing.changed",))
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.decide(await stage.score("ada", 5), taken_back)
    with capture_logs() as logs:
        await catch_up(derivations)
    assert [] == [each for each in logs if each["event"] == "changes_forged"]
    scores = [orjson.loads(each.body)["data"]["score"] for each in await stage.queued(endpoint)]
    assert {5, None} == set(scores)


UNREADABLE = {"a number that no event has", "an order that no board has", "a rank that is none"}
UNREADABLE |= {"ids that no database takes", "bytes that are no text", "half of an entry"}
IS_LOGGED = {
    forged: [] if forged in UNREADABLE else [("webhooks", "tiny", 1), ("achievements", "tiny", 1)]
    for forged in FORGED
}
"""What the log says of it: an entry that is none says nothing of anybody."""


@pytest.mark.parametrize("forged", FORGED)
async def test_I26_a_forged_entry_has_no_effect_and_stops_nothing(stage, forged: str):
    """What somebody adds to the stream is passed over: nothing for ever comes of it, and the changes after it are heard."""
    endpoint = await stage.webhook(types=("standing.changed", "rank.changed", "achievement.reached"))
    derivations = stage.derivations()
    await catch_up(derivations)
    assert ("run-1", "run-2") == (await stage.score("ada", 5), await stage.receive("idle", 1))
    await catch_up(derivations)
    before = len(await stage.queued(endpoint))
    stage.redis.xadd(STREAM, FORGED[forged])
    await stage.score("bob", 7)
    with capture_logs() as logs:
        await catch_up(derivations)
    assert IS_LOGGED[forged] == [
        (each["consumer"], each["board"], each["count"]) for each in logs if each["event"] == "changes_forged"
    ]
    assert {"ada", "bob"} == {player for (player,) in stage.rows("SELECT player FROM achievements")}
    told = {orjson.loads(each.body)["data"]["player"] for each in await stage.queued(endpoint)}
    assert (before > 0, {"ada", "bob"}) == (True, told)
    assert 0 == pending(stage, "achievements") == pending(stage, "webhooks")
