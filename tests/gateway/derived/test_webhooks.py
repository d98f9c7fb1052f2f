"""Webhooks: what is told, signed by the standard, at least once, and not for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from email.utils import formatdate

import pytest
from structlog.testing import capture_logs

from gateway.derived.webhooks.sender import (
    DEAD_KEPT_MS,
    DELIVERED_KEPT_MS,
    LONGEST_PAUSE_MS,
    PRUNE_MS,
    pause_ms,
)
from gateway.index import keys
from gateway.ledger import queries
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import DeliveryState
from gateway.runtime.clock import rfc3339
from gateway.runtime.settings import Settings
from policies.errors import LedgerUnavailable
from policies.vocabulary import Reason, State
from tests.gateway.derived.conftest import SECRET
from tests.gateway.derived.test_guard import Rebinding
from tests.support.derived import catch_up
from tests.support.metrics import counts
from tests.support.receiver import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(SECRET) as running:
        yield running


def changed(settings: Settings, **changes: object) -> Settings:
    return Settings(**settings.model_dump() | changes)


ATTEMPTS = "scoregate_webhook_deliveries_total"


async def owed_a_decision(stage, receiver, *settings):
    """An endpoint at the receiver, and what will send it the decision that was just made."""
    endpoint = await stage.webhook(receiver.url, types=("submission.decided",))
    derivations = stage.derivations(*settings)
    await catch_up(derivations)
    await stage.score("ada", 5)
    return endpoint, derivations


async def deliver(derivations) -> None:
    """Derives what there is, and delivers what is due."""
    await catch_up(derivations)
    await derivations.sender.step()
    await derivations.sender.idle()


async def hook(stage, webhook_id: str):
    [found] = [
        each for each in await stage.ledger.read(webhooks.all_webhooks) if each.webhook_id == webhook_id
    ]
    return found


async def test_a_promotion_is_told_signed_and_once(stage, receiver):
    """Decision, standings, ranks and achievements of every window, each verified by the standard's own library."""
    await stage.webhook(receiver.url)
    derivations = stage.derivations()
    await deliver(derivations)
    submission = await stage.score("ada", 5)
    await deliver(derivations)
    await deliver(stage.derivations())

    assert {"submission.decided": 1} | dict.fromkeys(
        ("standing.changed", "rank.changed", "achievement.reached"), 2
    ) == {each: receiver.types().count(each) for each in receiver.types()}
    assert all(each.is_signed for each in receiver.received)
    assert len(receiver.received) == len({each.id for each in receiver.received})
    [standing] = [
        each.data
        for each in receiver.received
        if each.type == "standing.changed" and each.data["window"] == "alltime"
    ]
    assert standing | {"seq": 0} == {
        "board": "tiny",
        "window": "alltime",
        "player": "ada",
        "name": "ada",
        "score": 5,
        "rank": 1,
        "was_score": None,
        "was_rank": None,
        "submission": submission,
        "seq": 0,
    }


async def test_an_endpoint_is_told_what_it_asked_for(stage):
    """By type and by board."""
    decided = await stage.webhook(types=("submission.decided",))
    appeals = await stage.webhook(types=("submission.appealed",))
    cases = await stage.webhook(types=("case.held",))
    elsewhere = await stage.webhook(boards=("other",))
    ranks = await stage.webhook(boards=("tiny", "other"), types=("rank.changed",))
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.score("ada", 5)
    await stage.score("ada", 6)
    await stage.decide(await stage.receive("bob", 1), State.REJECTED)
    asked = await stage.receive("cy", 1)
    await stage.decide(asked, State.HELD)
    await stage.decide(asked, State.HELD, Reason.QUESTION_ASKED)
    rejected = await stage.receive("dee", 1)
    await stage.decide(rejected, State.REJECTED)
    await stage.decide(rejected, State.REJECTED, Reason.APPEALED)
    await catch_up(derivations)
    [case] = await stage.queued(cases)  # and no second one for what was remarked on it
    assert ("case.held", "cy") == (case.type, json.loads(case.body)["data"]["player"])
    [appeal] = await stage.queued(appeals)
    assert ("submission.appealed", "dee") == (appeal.type, json.loads(appeal.body)["data"]["player"])
    assert ["submission.decided"] * 5 == [each.type for each in await stage.queued(decided)]
    assert [] == await stage.queued(elsewhere)
    assert ["rank.changed"] * 2 == [each.type for each in await stage.queued(ranks)]  # of two windows, once


async def test_every_event_says_what_happened_to_whom_and_when(stage, receiver):
    """All of it, by the name that the player has, with what was before, and of a reason its class alone."""
    await stage.webhook(receiver.url)
    await stage.ledger.write(queries.add_player("ada", "Ada L.", now_ms=stage.clock()))
    derivations = stage.derivations()
    await deliver(derivations)
    first = await stage.score("ada", 5)
    ahead = await stage.score("bob", 7)
    best = await stage.score("ada", 9)
    await stage.decide(best, State.REVOKED, Reason.REVOKED_BY_MODERATOR)
    await deliver(derivations)

    alltime = [each for each in receiver.received if each.data.get("window", "alltime") == "alltime"]
    told = sorted((each.type, *map(str, (each.data["seq"], each.timestamp)), each.data) for each in alltime)
    assert sorted(expected(stage, first, ahead, best)) == told


def expected(stage, first: str, ahead: str, best: str):
    """What there is to be told of the four decisions, from the events and from when the stream has their changes."""
    decided = stage.rows("SELECT seq, at_ms FROM events WHERE to_state != 'pending' ORDER BY seq")
    shown = {
        int(fields["seq"]): int(stream_id.split("-")[0])
        for stream_id, fields in stage.redis.xrange(keys.changes("tiny"))
        if fields["window"] == "alltime"
    }
    ada, bob = {"player": "ada", "name": "Ada L."}, {"player": "bob", "name": "bob"}
    facts = [
        # who, submission, score, rank, score before, rank before, state, state before, reason, submission that stands
        (ada, first, 5, 1, None, None, "promoted", "pending", "none", first),
        (bob, ahead, 7, 1, None, None, "promoted", "pending", "none", ahead),
        (ada, best, 9, 1, 5, 2, "promoted", "pending", "none", best),
        (ada, best, 5, 2, 9, 1, "revoked", "promoted", "moderation", first),
    ]
    for (seq, at_ms), fact in zip(decided, facts, strict=True):
        who, of, score, rank, was_score, was_rank, state, was_state, reason, standing = fact
        at = {"board": "tiny", "seq": seq}
        ranks = at | who | {"window": "alltime", "rank": rank, "was_rank": was_rank, "submission": standing}
        scores = ranks | {"score": score, "was_score": was_score}
        decision = at | {"submission": of, "player": who["player"], "score": 9 if of == best else score}
        decision |= {"state": state, "was_state": was_state, "reason": reason, "message": None}
        moments = str(seq), rfc3339(shown[seq])
        yield "standing.changed", *moments, scores
        yield "rank.changed", *moments, ranks
        yield "submission.decided", str(seq), rfc3339(at_ms), decision
        if was_rank is None:
            reached = at | {"player": who["player"], "window": "alltime", "rank": rank, "submission": of}
            yield "achievement.reached", str(seq), rfc3339(at_ms), reached


async def test_a_player_who_stands_no_more_has_neither_score_nor_rank(stage):
    """What was there is told, and nothing is told in its place."""
    endpoint = await stage.webhook(types=("standing.changed", "rank.changed"))
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.decide(await stage.score("ada", 5), State.REVOKED, Reason.REVOKED_BY_MODERATOR)
    await catch_up(derivations)
    last = [json.loads(each.body) for each in await stage.queued(endpoint)]
    gone = [each["data"] for each in last if each["data"]["was_rank"] == 1]
    assert 4 == len(gone)  # of two windows, standing and rank
    assert {(None, None, 5)} == {
        (each["score"], each["rank"], each["was_score"]) for each in gone if "score" in each
    }


async def test_a_player_is_told_no_more_of_a_reason_than_the_player_is(stage):
    """The evidence stays with the moderators; the class of the reason is what the player's own client gets."""
    endpoint = await stage.webhook(types=("submission.decided",))
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.score("ada", 5)
    await catch_up(derivations)
    [told] = await stage.queued(endpoint)
    assert b'"reason":"none"' in told.body


async def test_a_decision_tells_the_class_of_its_message_and_never_the_text(stage):
    """The name of a template, or `own`; of anybody but a moderator, and of a run that a ban revokes, nothing."""
    endpoint = await stage.webhook(types=("submission.decided",))
    derivations = stage.derivations()
    await catch_up(derivations)
    secret, by = "we saw 184 a second", "moderator:jo"
    for number, (actor, reason, detail) in enumerate(
        [
            (by, Reason.REJECTED_BY_MODERATOR, {"message": secret, "template": "tools"}),
            (by, Reason.REJECTED_BY_MODERATOR, {"message": secret, "template": None, "note": secret}),
            (by, Reason.REJECTED_BY_MODERATOR, {"message": None, "template": None, "note": secret}),
            ("replay", Reason.DIVERGED, {"message": secret}),
            (by, Reason.BANNED, {"message": secret, "template": None}),
        ]
    ):
        run, to_state = await stage.receive(f"p{number}", 5), State.REJECTED
        if reason is Reason.BANNED:
            await stage.decide(run)
            to_state = State.REVOKED
        await stage.decide(run, to_state, reason, actor=actor, detail=detail)
    await catch_up(derivations)
    bodies = [each.body for each in await stage.queued(endpoint)]
    told = [json.loads(body)["data"] for body in bodies if b'"state":"promoted"' not in body]
    assert ["tools", "own", None, None, None] == [
        each["message"] for each in sorted(told, key=lambda each: each["player"])
    ]
    assert not any(secret.encode() in body for body in bodies)


async def test_a_failure_is_tried_again_later_with_the_same_id(stage, receiver):
    """With pauses that grow, and a fresh timestamp, so that the signature is good each time."""
    endpoint, derivations = await owed_a_decision(stage, receiver)
    receiver.status = 500
    for tries in (1, 2, 3):
        await deliver(derivations)
        assert 0 == await derivations.sender.step()  # not due yet
        [waiting] = await stage.queued(endpoint)
        assert waiting.due_at_ms == await derivations.sender.next_due()
        assert (tries, "500") == (waiting.tries, waiting.outcome)
        pause = waiting.due_at_ms - stage.clock()
        assert 4 ** (tries - 1) * 1_500 < pause <= 4 ** (tries - 1) * 5_000
        stage.clock.shift(pause / 1000 + 1)
    assert 3 == (await hook(stage, endpoint.webhook_id)).failures
    assert 1 == len({each.id for each in receiver.received})

    receiver.status = 204
    await deliver(derivations)
    [done] = await stage.queued(endpoint, DeliveryState.DELIVERED)
    assert (4, "204", 0) == (done.tries, done.outcome, (await hook(stage, endpoint.webhook_id)).failures)


async def test_what_was_tried_often_enough_is_dead_and_can_be_tried_again(stage, receiver):
    """It stays to be seen, with what was answered last."""
    endpoint, derivations = await owed_a_decision(
        stage, receiver, changed(stage.settings, webhook_attempts=2)
    )
    receiver.status = 404
    with counts(1, ATTEMPTS, outcome="failed"), counts(1, ATTEMPTS, outcome="dead"):
        for _ in range(3):
            await deliver(derivations)
            stage.clock.shift(30)
    [dead] = await stage.queued(endpoint, DeliveryState.DEAD)
    assert (2, 2, "404") == (len(receiver.received), dead.tries, dead.outcome)

    assert 1 == await stage.ledger.write(webhooks.retry_dead(endpoint.webhook_id, now_ms=stage.clock()))
    await deliver(derivations)
    [again] = await stage.queued(endpoint)  # it has all of its attempts again, not the last one
    assert (3, 1) == (len(receiver.received), again.tries)
    receiver.status = 200
    stage.clock.shift(30)
    with counts(1, ATTEMPTS, outcome="delivered"):
        await deliver(derivations)
    assert 1 == len(await stage.queued(endpoint, DeliveryState.DELIVERED))


@pytest.mark.parametrize(
    ("status", "settings_of"), [(410, {}), (500, {"webhook_disable_after": 1})], ids=["gone", "failing"]
)
async def test_an_endpoint_that_is_gone_or_fails_on_and_on_is_disabled(stage, receiver, status, settings_of):
    """Nothing is queued for it any more, until it is enabled again; then what was left is delivered."""
    endpoint, derivations = await owed_a_decision(stage, receiver, changed(stage.settings, **settings_of))
    receiver.status = status
    with capture_logs() as logs:
        await deliver(derivations)
    assert (await hook(stage, endpoint.webhook_id)).disabled_at_ms is not None
    assert [("webhook_disabled", "error", endpoint.webhook_id, str(status))] == [
        (each["event"], each["log_level"], each["webhook"], each["outcome"]) for each in logs
    ]

    await stage.score("bob", 6)
    stage.clock.shift(3600)
    await deliver(derivations)
    assert 1 == len(receiver.received)

    receiver.status = 200
    assert await stage.ledger.write(webhooks.enable_webhook(endpoint.webhook_id))
    await deliver(derivations)
    assert ["ada"] * 2 == [each.data["player"] for each in receiver.received]


async def test_an_endpoint_that_is_disabled_gets_nothing_of_what_was_due_at_the_same_time(stage, receiver):
    """The rest of the queue waits as what comes later does: it would be tried in vain, and be dead when somebody enables it."""
    endpoint, derivations = await owed_a_decision(
        stage, receiver, changed(stage.settings, webhook_concurrency=1)
    )
    for player in ("bob", "cyd"):
        await stage.score(player, 6)
    receiver.status = 410
    await deliver(derivations)
    assert (await hook(stage, endpoint.webhook_id)).disabled_at_ms is not None
    assert 1 == len(receiver.received)
    assert [0, 0, 1] == sorted(each.tries for each in await stage.queued(endpoint))


@pytest.mark.parametrize(
    ("status", "header", "least_s", "most_s"),
    [(429, "600", 600, 600), (503, "99999999", 86_400, 86_400), (503, "soon", 2, 5), (404, "600", 2, 5)],
)
async def test_an_endpoint_that_asks_to_be_left_alone_is(stage, receiver, status, header, least_s, most_s):
    """Retry-After is honoured where it means something, up to a day."""
    endpoint, derivations = await owed_a_decision(stage, receiver)
    receiver.status, receiver.headers = status, {"Retry-After": header}
    before_ms = stage.clock()
    await deliver(derivations)
    [waiting] = await stage.queued(endpoint)
    assert least_s * 1000 <= waiting.due_at_ms - before_ms <= most_s * 1000 + (stage.clock() - before_ms)


async def test_an_endpoint_that_always_asks_for_a_second_is_left_alone_for_longer_each_time(stage, receiver):
    """What it asks for makes a pause longer and never shorter: it would use up all attempts within a minute."""
    endpoint, derivations = await owed_a_decision(stage, receiver)
    stage.clock.stop()
    receiver.status, receiver.headers = 503, {"Retry-After": "1"}
    for tries in (1, 2, 3):
        await deliver(derivations)
        [waiting] = await stage.queued(endpoint)
        assert pause_ms(tries, 1) <= waiting.due_at_ms - stage.clock() <= pause_ms(tries, 0)
        stage.clock.shift((waiting.due_at_ms - stage.clock()) / 1000)


async def test_an_endpoint_may_name_the_moment_until_which_it_is_left_alone(stage, receiver):
    """Retry-After as a date; one that is over, or that no calendar has, asks for nothing."""
    endpoint, derivations = await owed_a_decision(stage, receiver)
    stage.clock.stop()
    stage.clock.shift(-(stage.clock() % 1000) / 1000)  # dates have whole seconds
    receiver.status = 503
    pauses_s = []
    for away_s in (900, -900, 10**7, None):
        asked = "Fri, 99 Nov 2026 25:00:00 GMT"
        if away_s is not None:
            asked = formatdate(stage.clock() / 1000 + away_s, usegmt=True)
        receiver.headers = {"Retry-After": asked}
        await deliver(derivations)
        [waiting] = await stage.queued(endpoint)
        pauses_s.append((waiting.due_at_ms - stage.clock()) / 1000)
        stage.clock.shift(int(pauses_s[-1]) + 1)
    assert (900, 86_400) == (pauses_s[0], pauses_s[2])
    assert 10 <= pauses_s[1] <= 20
    assert 160 <= pauses_s[3] <= 320


async def test_an_endpoint_is_sent_what_it_is_to_know_and_no_cookie_of_its_own(stage, receiver):
    """Who sends it and as what; nothing that an answer says comes back with the next delivery. Each connection asks for the address."""
    port = receiver.url.rpartition(":")[2].partition("/")[0]
    resolver = Rebinding(["127.0.0.1"])
    await stage.webhook(f"http://hooks.internal:{port}/hook", types=("submission.decided",))
    settings = changed(stage.settings, webhook_hosts=("hooks.internal",), webhook_concurrency=1)
    derivations = stage.derivations(settings, resolver=resolver)
    await catch_up(derivations)
    receiver.headers = {"Set-Cookie": "a=b", "Connection": "close"}
    for player in ("ada", "bob"):
        await stage.score(player, 5)
    await deliver(derivations)
    sent = [each.headers for each in receiver.received]
    told = [(each["content-type"], each["user-agent"].split("/")[0], each.get("cookie")) for each in sent]
    assert [("application/json", "Scoregate", None)] * 2 == told
    assert 2 == resolver.asked


async def test_deliveries_to_an_endpoint_that_is_being_told_begin_once(stage, receiver):
    """A step while an endpoint is slow leaves it to those that are on their way, and counts for how many one began."""
    await stage.webhook(receiver.url, types=("submission.decided",))
    derivations = stage.derivations(changed(stage.settings, webhook_concurrency=1))
    await catch_up(derivations)
    assert 0 == await derivations.sender.step()
    for player in ("ada", "bob"):
        await stage.score(player, 5)
    await catch_up(derivations)
    receiver.held.clear()
    assert 1 == await derivations.sender.step()
    await receiver.arrived(1)
    assert 0 == await derivations.sender.step()
    assert await derivations.sender.next_due() <= stage.clock()  # for what waits, not what is on its way
    receiver.held.set()
    await derivations.sender.idle()
    assert 0 == await derivations.sender.step()
    assert await derivations.sender.next_due() is None
    assert (2, 1) == (len(receiver.received), receiver.most_at_once)


@pytest.mark.parametrize(
    ("failure", "event"),
    [(LedgerUnavailable("the disk is full"), "ledger_unavailable"), (ZeroDivisionError(), "unexpected")],
    ids=["ledger", "unexpected"],
)
async def test_a_delivery_that_cannot_be_written_down_is_one_that_comes_again(
    stage, receiver, monkeypatch: pytest.MonkeyPatch, failure: Exception, event: str
):
    """The log says so, the endpoints go on by themselves, and once the lease is over it is told again, by the same id."""
    endpoint, derivations = await owed_a_decision(stage, receiver)
    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr(webhooks, "note_attempts", Failing(failure))
        await deliver(derivations)
        assert 0 == await derivations.sender.step()  # nothing is due while it is leased
    [told] = [each for each in logs if each["event"] == event]
    assert {"part": "webhooks", "webhook": endpoint.webhook_id}.items() & told.items()
    stage.clock.shift(46)
    await deliver(derivations)
    assert (2, 1) == (len(receiver.received), len({each.id for each in receiver.received}))


class Failing:
    """Whatever is asked of it fails so."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def __call__(self, *_: object, **__: object) -> None:
        raise self._failure


async def test_no_redirect_is_followed(stage, receiver):
    """It would lead past every check of where webhooks may go."""
    endpoint, derivations = await owed_a_decision(stage, receiver)
    receiver.status, receiver.headers = 307, {"Location": receiver.url}
    await deliver(derivations)
    [waiting] = await stage.queued(endpoint)
    assert (1, "307") == (len(receiver.received), waiting.outcome)


async def test_an_endpoint_that_does_not_answer_holds_up_no_other(stage, receiver):
    """Each has its own task, and its attempts end by the time-out."""
    stuck = await stage.webhook(receiver.url, types=("submission.decided",))
    async with receiving(SECRET) as other:
        await stage.webhook(other.url, types=("submission.decided",))
        derivations = stage.derivations(changed(stage.settings, webhook_timeout_s=0.3))
        await catch_up(derivations)
        await stage.score("ada", 5)
        receiver.held.clear()
        await deliver(derivations)
        assert 1 == len(other.received)
    [waiting] = await stage.queued(stuck)
    assert "timeout" == waiting.outcome


async def test_no_more_go_at_once_than_are_allowed(stage, receiver):
    """Of many deliveries that are due for one endpoint; in the end all of them arrive."""
    await stage.webhook(receiver.url, types=("submission.decided",))
    derivations = stage.derivations(changed(stage.settings, webhook_concurrency=3))
    await catch_up(derivations)
    for number in range(10):
        await stage.score(f"p{number}", number)
    await catch_up(derivations)
    receiver.held.clear()
    await derivations.sender.step()
    await receiver.arrived(3)
    receiver.held.set()
    await derivations.sender.idle()
    assert (10, 3) == (len(receiver.received), receiver.most_at_once)


async def test_what_a_steward_that_died_had_in_hand_is_delivered_by_another(stage, receiver):
    """Once the lease is over; the receiver knows the repetition by its id."""
    await stage.webhook(receiver.url, types=("submission.decided",))
    dies, lives = stage.derivations(), stage.derivations()
    await catch_up(dies)
    await stage.score("ada", 5)
    await catch_up(dies)
    receiver.held.clear()
    await dies.sender.step()
    await receiver.arrived(1)
    await dies.aclose()
    receiver.held.set()

    for shift_s in (0, 31):  # half a minute after its time-out it may still be writing down what came of it
        stage.clock.shift(shift_s)
        await deliver(lives)
        assert 1 == len(receiver.received)
    stage.clock.shift(15)
    await deliver(lives)
    assert [True, True] == [each.is_signed for each in receiver.received]
    assert 1 == len({each.id for each in receiver.received})


async def test_two_stewards_deliver_each_once(stage, receiver):
    """What one has leased the other leaves."""
    await stage.webhook(receiver.url, types=("submission.decided",))
    several = [stage.derivations(), stage.derivations()]
    await catch_up(several[0])
    for number in range(12):
        await stage.score(f"p{number}", number)
    await asyncio.gather(*(deliver(each) for each in several))
    assert 12 == len(receiver.received) == len({each.id for each in receiver.received})


async def test_nothing_is_lost_with_redis_and_nothing_told_twice(stage, receiver):
    """The stream is gone with what was in it: the standings come from the ledger, without their ranks."""
    await stage.webhook(receiver.url, types=("standing.changed",))
    derivations = stage.derivations()
    await deliver(derivations)
    await stage.score("ada", 5)
    await deliver(derivations)
    await stage.score("bob", 7)
    stage.redis.flushall()
    await deliver(derivations)
    await deliver(derivations)
    told = [(each.data["player"], each.data["window"], each.data["rank"]) for each in receiver.received]
    assert [("ada", 1), ("bob", None)] == sorted((p, r) for p, w, r in told if w == "alltime")
    assert 4 == len(told)


async def test_what_was_delivered_is_forgotten_in_time(stage, receiver):
    """Delivered ones after three days, dead ones after thirty."""
    endpoint, derivations = await owed_a_decision(
        stage, receiver, changed(stage.settings, webhook_attempts=1)
    )
    await deliver(derivations)
    receiver.status = 500
    await stage.score("bob", 5)
    await deliver(derivations)
    left = []
    for shift_ms in (DELIVERED_KEPT_MS + PRUNE_MS, DEAD_KEPT_MS):
        stage.clock.shift(shift_ms / 1000)
        await deliver(derivations)
        states = (DeliveryState.DELIVERED, DeliveryState.DEAD)
        left.append([len(await stage.queued(endpoint, each)) for each in states])
    assert [[0, 1], [0, 0]] == left


async def test_removing_an_endpoint_takes_what_it_was_to_be_told(stage):
    """And removing it again finds nothing."""
    endpoint = await stage.webhook()
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.score("ada", 5)
    await catch_up(derivations)
    removals = [await stage.ledger.write(webhooks.remove_webhook(endpoint.webhook_id)) for _ in range(2)]
    assert [True, False] == removals
    assert [(0,)] == stage.rows("SELECT count(*) FROM deliveries")


def test_pauses_grow_to_a_day_and_no_two_are_alike():
    """By four each time, and chance takes off up to half."""
    assert [5_000, 20_000, 80_000] == [pause_ms(tries, 0) for tries in (1, 2, 3)]
    assert [2_500, 10_000] == [pause_ms(tries, 1) for tries in (1, 2)]
    assert LONGEST_PAUSE_MS == pause_ms(9, 0) == pause_ms(100, 0)
