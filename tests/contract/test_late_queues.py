"""Late queues on each database: told once, and again only once no case of the board is late any more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import DeliveryState, Webhook
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.cases import (
    CaseKind,
    UnassessedCase,
    assess_cases,
    close_case,
    load_case,
    open_cases,
    put_case,
)
from gateway.ledger.moderation.late_queues import LateQueue, count_late, late_queues_of
from gateway.runtime.clock import rfc3339
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all
from gateway.steward import target_keeping
from gateway.steward.target_keeping import TargetKeeper
from policies.choices import Operator
from policies.fields import SortOrder
from policies.vocabulary import Reason, State
from tests.support.books import board_of
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in

TINY = board_of(Operator.BEST, SortOrder.DESCENDING)
TARGET_MS = 60_000
HOOK = Webhook("wh_1", "https://example.com/", b"s" * 32, ("*",), ("queue.late",), NOON_MS)


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        await running.write(webhooks.add_webhook(HOOK))
        yield running


async def wait(ledger: Ledger, name: str, at_ms: int = NOON_MS, board: str = "tiny") -> None:
    """A case that waits from then on, and has its deadline."""
    receipt = await ledger.append(new_submission(name, board=board, state=State.HELD, at_ms=at_ms))
    assert receipt
    case = await ledger.read(lambda tx: load_case(tx, name))
    assert case is not None
    if name == "check":
        await ledger.write(lambda tx: close_case(tx, name))
        await ledger.write(open_cases([case._replace(kind=CaseKind.CHECK)]))
    unassessed = UnassessedCase(case.seq, name, board)
    await ledger.write(assess_cases([unassessed], {case.seq: 0}, {"tiny": TARGET_MS, "track.a": TARGET_MS}))


async def told(ledger: Ledger) -> list[tuple[str, str]]:
    found = await ledger.read(webhooks.deliveries_of("wh_1", DeliveryState.PENDING, count=100))
    data = [json.loads(each.body)["data"] for each in found]
    return sorted((each["late_at"], each["submission"]) for each in data)


def keeper(ledger: Ledger, after_ms: int) -> TargetKeeper:
    """A steward's duty, as it begins again after each restart."""
    return TargetKeeper(ledger, clock=lambda: NOON_MS + after_ms)


async def test_a_late_queue_is_told_once_until_it_has_recovered(ledger: Ledger):
    """By the first case that passes the target, whatever restarts; the last one that is decided ends it."""
    for number, name in enumerate(("a", "b")):
        await wait(ledger, name, NOON_MS + number)
    await wait(ledger, "elsewhere", board="other")
    assert NOON_MS + TARGET_MS == await keeper(ledger, 0).next_due()
    steps = [
        await keeper(ledger, after_ms).step() for after_ms in (TARGET_MS - 1, TARGET_MS, TARGET_MS, 10**6)
    ]
    assert [0, 1, 0, 1] == steps
    first = (rfc3339(NOON_MS + TARGET_MS), "a")
    late = [LateQueue("tiny", "tiny", NOON_MS + TARGET_MS)]
    assert ([first], late) == (await told(ledger), await ledger.read(late_queues_of(frozenset({"*"}), None)))
    assert [] == await ledger.read(late_queues_of(frozenset({"other"}), None))
    await ledger.write(lambda tx: close_case(tx, "a"))
    await wait(ledger, "c", NOON_MS + 10)
    assert (1, 1) == (await keeper(ledger, 10**6).step(), await ledger.read(count_late))
    assert [first] == await told(ledger)
    for name in ("b", "c"):
        await ledger.write(lambda tx, name=name: close_case(tx, name))
    assert (0, None) == (await ledger.read(count_late), await keeper(ledger, 0).next_due())
    await wait(ledger, "d", NOON_MS + 20)
    assert 1 == await keeper(ledger, 10**6).step()
    assert [first, (rfc3339(NOON_MS + TARGET_MS + 20), "d")] == await told(ledger)


async def test_what_waits_for_its_player_is_not_late_and_no_check_is(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    """The deadline is put off to the end of the question; a step notes so many deadlines and no more."""
    for name in ("asked", "check"):
        await wait(ledger, name, board="track.a")
    case = await ledger.read(lambda tx: load_case(tx, "asked"))
    assert case is not None
    await ledger.write(lambda tx: put_case(tx, case._replace(waits_until_ms=NOON_MS + 10 * TARGET_MS)))
    assert (1, []) == (await keeper(ledger, TARGET_MS).step(), await told(ledger))
    assert NOON_MS + 10 * TARGET_MS == await keeper(ledger, 0).next_due()
    for number in range(3):
        await wait(ledger, f"w{number}", NOON_MS + 10 * TARGET_MS)
    monkeypatch.setattr(target_keeping, "SLICE", 2)
    assert [2, 2, 0] == [await keeper(ledger, 20 * TARGET_MS).step() for _ in range(3)]
    assert ["asked", "w0"] == sorted(submission for _, submission in await told(ledger))


async def test_an_answer_ends_the_time_for_which_a_deadline_is_put_off(ledger: Ledger):
    """The case was late but for the question, so it is late from the answer on, and not from the end of its time."""
    await wait(ledger, "asked")
    asked, answered = "moderator:mia", "player"
    for actor, reason, detail, after_ms in (
        (asked, Reason.QUESTION_ASKED, {"answer_by_ms": NOON_MS + 10 * TARGET_MS}, 0),
        (answered, Reason.QUESTION_ANSWERED, {}, 2 * TARGET_MS),
    ):
        decision = Decision(
            "asked", State.HELD, actor, reason, NOON_MS + after_ms, frozenset({State.HELD}), detail=detail
        )
        await ledger.write(_decide_all(TINY, [decision]))
        assert 1 == await keeper(ledger, after_ms or TARGET_MS).step()
    assert [(rfc3339(NOON_MS + 2 * TARGET_MS), "asked")] == await told(ledger)


async def test_an_answer_before_a_deadline_leaves_that_where_it_is(ledger: Ledger):
    """Nothing was put off by then: who answers fast makes no case late before its time."""
    await wait(ledger, "asked")
    for actor, reason, detail, after_ms in (
        ("moderator:mia", Reason.QUESTION_ASKED, {"answer_by_ms": NOON_MS + 10 * TARGET_MS}, 0),
        ("player", Reason.QUESTION_ANSWERED, {}, TARGET_MS // 2),
    ):
        decision = Decision(
            "asked", State.HELD, actor, reason, NOON_MS + after_ms, frozenset({State.HELD}), detail=detail
        )
        await ledger.write(_decide_all(TINY, [decision]))
    assert 0 == await keeper(ledger, TARGET_MS - 1).step()
    assert 1 == await keeper(ledger, TARGET_MS).step()
    assert [(rfc3339(NOON_MS + TARGET_MS), "asked")] == await told(ledger)
