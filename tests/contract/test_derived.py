"""What is derived, on either database: counts, trends, achievements and deliveries, by the same operations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count, islice

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.derived.followers import LogFollower
from gateway.derived.trends import Span, TrendKind, Trends, trend_of
from gateway.derived.webhooks.sources import DecisionEvents
from gateway.ledger.derived import achievements, counts, lane_positions, log, webhooks
from gateway.ledger.derived.achievements import Achievement
from gateway.ledger.derived.webhooks import DeliveryAttempt, DeliveryState, Webhook, WebhookEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Transaction
from gateway.runtime.lanes import LANES, lane_of
from policies.loader import Policies
from policies.vocabulary import State
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def clock() -> int:
    return NOON_MS + 1000


HOOK = Webhook("wh_1", "https://example.com/", b"s" * 32, ("tiny",), ("submission.decided",), 1)


async def test_the_log_is_followed_on_either_database(ledger: Ledger, tmp_path):
    """Attempts are counted and sketched, decisions queued; a second look changes nothing."""
    await ledger.write(webhooks.add_webhook(HOOK))
    followers = [
        LogFollower(ledger, DecisionEvents(clock=clock)),
        LogFollower(ledger, Trends(Catalogue(Policies({"tiny": boards.board(tmp_path)})), clock=clock)),
    ]
    for each in followers:
        await each.step()
    for number in range(3):
        await ledger.append(new_submission(f"run-{number}", player=f"p{number % 2}"))
    await ledger.append(new_submission("held", state=State.HELD))
    assert [4, 4] == [await each.step() for each in followers]
    assert [0, 0] == [await each.step() for each in followers]

    trend = await trend_of(ledger, "tiny", TrendKind.PLAYED, Span.HOUR, now_ms=clock(), count=2)
    assert (4, ["p0", "ada"]) == (trend.total, [each.item for each in trend.leaders])
    assert 4 == await ledger.read(log.position("trends"))
    [queued] = await ledger.read(webhooks.deliveries_of("wh_1", DeliveryState.PENDING, count=9))
    assert b'"state":"held"' in queued.body
    assert None is await ledger.read(log.position("nothing"))


async def test_webhooks_get_no_news_of_what_was_decided_before_the_first_steward(ledger: Ledger):
    """Of an earlier version's log, say: its decisions are no news to anybody by now."""
    await ledger.write(webhooks.add_webhook(HOOK))
    follower = LogFollower(ledger, DecisionEvents(clock=clock))
    await ledger.append(new_submission("old", state=State.HELD))
    while await follower.step():
        pass
    await ledger.append(new_submission("new", state=State.HELD))
    await follower.step()
    [queued] = await ledger.read(webhooks.deliveries_of("wh_1", DeliveryState.PENDING, count=9))
    assert b'"submission":"new"' in queued.body


async def test_counts_add_up_on_either_database(ledger: Ledger):
    """What is added is added to what is there."""

    async def add(tx: Transaction) -> None:
        await counts.add_counts(tx, {"tiny": counts.BoardCounts(3, 2), "vault": counts.BoardCounts(5, 5)})
        await counts.add_counts(tx, {"tiny": counts.BoardCounts(1, -1)})

    await ledger.write(add)
    assert (4, 1) == await ledger.read(counts.counts_of("tiny"))
    await ledger.write(counts.forget_counts)
    assert (0, 0) == await ledger.read(counts.counts_of("tiny"))


async def test_the_first_achievement_stays_on_either_database(ledger: Ledger):
    """A second one of the same window is none; they are read newest first."""
    first = Achievement("tiny", "alltime", "ada", 4, "run-1", 7, NOON_MS)

    async def add(tx: Transaction) -> list[bool]:
        more = [first._replace(rank=1, seq=9), first._replace(window="daily:20261120", seq=8)]
        return [await achievements.add_achievement(tx, each) for each in (first, *more)]

    assert [True, False, True] == await ledger.write(add)
    found = await ledger.read(achievements.achievements_of("ada", before=2**53, after="", count=9))
    assert [(8, 4), (7, 4)] == [(each.seq, each.rank) for each in found]


async def test_a_consumer_of_before_there_were_lanes_goes_on_where_its_slowest_board_was(ledger: Ledger):
    """What another board of the lane had by then comes again; a lane that has a position of its own goes by that."""
    lane = lane_of("tiny")
    names = (f"board-{number}" for number in count())
    ahead, behind = islice((name for name in names if lane_of(name) == lane), 2)
    earlier = {"": 1, ahead: 9, "tiny": 7, behind: 5}
    for board, seq in earlier.items():
        await ledger.write(log.move("heard", seq, board))
    lanes = [lane, lane + 1 if lane + 1 < LANES else 0]
    assert {lane: 5} == await ledger.read(lane_positions.of_lanes("heard", lanes))
    await ledger.write(lane_positions.put("heard", {lane: 6}))
    assert {lane: 6} == await ledger.read(lane_positions.of_lanes("heard", lanes))


async def test_no_position_goes_back(ledger: Ledger):
    """A steward that read the log before another one did tells of less than that one noted."""
    await ledger.write(lane_positions.put("heard", {1: 9, 2: 3, 3: 5}))
    await ledger.write(lane_positions.advance("heard", range(3), 5))
    assert {1: 9, 2: 5, 3: 5} == await ledger.read(lane_positions.of_lanes("heard", range(LANES)))


async def test_deliveries_come_and_go_on_either_database(ledger: Ledger):
    """Queued once, leased once, ended once, pruned in time."""
    await ledger.write(webhooks.add_webhook(HOOK))
    told = [
        WebhookEvent("evt_1", "tiny", "submission.decided", b"{}"),
        WebhookEvent("evt_2", "tiny", "rank.changed", b"{}"),
    ]
    assert [1, 0] == [await ledger.write(lambda tx: webhooks.queue(tx, told, now_ms=5)) for _ in range(2)]

    lease = webhooks.lease_due("wh_1", now_ms=5, until_ms=50, count=9)
    [[leased], none] = [await ledger.write(lease) for _ in range(2)]
    assert (1, []) == (leased.tries, none)
    failed = DeliveryAttempt(leased, DeliveryState.PENDING, 60, "500", is_success=False, is_gone=False)
    assert {"wh_1"} == await ledger.write(webhooks.note_attempts([failed], now_ms=7, disable_after=1))
    assert await ledger.write(webhooks.enable_webhook("wh_1"))
    assert 60 == await ledger.read(webhooks.next_due("wh_1"))

    done = DeliveryAttempt(leased, DeliveryState.DELIVERED, 70, "200", is_success=True, is_gone=False)
    assert set() == await ledger.write(webhooks.note_attempts([done], now_ms=70, disable_after=1))
    late = done._replace(state=DeliveryState.PENDING, at_ms=80, outcome="timeout", is_success=False)
    await ledger.write(webhooks.note_attempts([late], now_ms=75, disable_after=9))  # of a lease that was over
    assert await ledger.read(webhooks.next_due("wh_1")) is None
    assert {} == await ledger.read(webhooks.undelivered())
    prune = webhooks.prune_deliveries("wh_1", DeliveryState.DELIVERED, before_ms=71)
    assert [1, 0] == [await ledger.write(prune) for _ in range(2)]
    assert await ledger.write(webhooks.remove_webhook("wh_1"))
    assert [] == await ledger.read(webhooks.all_webhooks)
