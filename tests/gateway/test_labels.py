"""Labels on both ledgers: what each decision of a moderator says of a run, and which were overturned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.settlement.case_decisions import CaseRequest, DecidedCase, settle_case
from gateway.settlement.settle import Decision, settle
from gateway.settlement.undoing import inverse_of
from policies.choices import Operator
from policies.fields import SortOrder
from policies.vocabulary import Expected, Finding, Reason, Severity, State
from tests.contract.test_learning import Nowhere
from tests.support.books import board_of
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, on_both_ledgers, open_in
from validators.judge import Judgement

BOARD = board_of(Operator.BEST, SortOrder.DESCENDING)
FOUND = [("anomaly", Severity.FLAG), ("anomaly", Severity.NOTE), ("velocity", Severity.NOTE)]


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def held(ledger: Ledger, run: str, at_ms: int) -> None:
    """A run that is held at a time, with some findings."""
    findings = tuple(
        Finding(
            Reason.ANOMALY_PLAYER,
            9.0,
            Expected(at_most=4.0, unit="sds"),
            severity=severity,
            validator=validator,
        )
        for validator, severity in FOUND
    )
    new = new_submission(run, state=State.HELD, at_ms=at_ms)
    await ledger.append(new._replace(judgement=Judgement(State.HELD, Reason.ANOMALY_PLAYER, findings)))


async def make(ledger: Ledger, decision: Decision) -> int:
    outcome = await settle_case(ledger, Nowhere(), BOARD, CaseRequest(decision, may_overrule=True))
    assert isinstance(outcome, DecidedCase), outcome
    return outcome.change.seq


async def decide(
    ledger: Ledger,
    run: str,
    kind: str,
    to_state: State,
    reason: Reason,
    code: str,
    at_ms: int,
    by: str = "mara",
) -> int:
    detail = {"decision": kind, "code": code}
    decision = Decision(run, to_state, f"moderator:{by}", reason, at_ms, frozenset(State), detail=detail)
    return await make(ledger, decision)


async def labels(store: Store) -> list[Mapping[str, Any]]:
    names = (
        "seq, submission_id, board, label, build, moderator, reason, code, is_cheat, findings, "
        "opened_at_ms, decided_at_ms, overturned_by"
    )
    rows = await store.sql(f"SELECT {names} FROM labels ORDER BY seq")
    return [dict(zip(names.split(", "), row, strict=True)) for row in rows]


@on_both_ledgers
async def test_each_decision_leaves_a_label_with_what_it_says_of_the_run(ledger: Ledger, store: Store):
    """Who, of what, why, whether it was a cheat, what was found, and how long the case was open; a question leaves none."""
    await held(ledger, "run", NOON_MS)
    await decide(ledger, "run", "hold", State.HELD, Reason.QUESTION_ASKED, "question", NOON_MS + 10)
    code = "tool-assisted"
    seq = await decide(
        ledger, "run", "reject", State.REJECTED, Reason.REJECTED_BY_MODERATOR, code, NOON_MS + 50
    )
    [label] = await labels(store)
    found = orjson.loads(label.pop("findings"))
    measured = ["anomaly-player", "flag", 9.0, None, 4.0, "sds"]
    assert [["anomaly", *measured], ["anomaly", measured[0], "note", *measured[2:]]] == found[:2]
    assert ("velocity", 3) == (found[2][0], len(found))
    assert label == {
        "seq": seq, "submission_id": "run", "board": "tiny", "label": "tiny", "build": "tiny-1", "moderator": "mara",
        "reason": "rejected-by-moderator", "code": code, "is_cheat": 1, "opened_at_ms": NOON_MS,
        "decided_at_ms": NOON_MS + 50, "overturned_by": None,
    }  # fmt: skip


@on_both_ledgers
async def test_a_label_says_when_its_decision_was_overturned(ledger: Ledger, store: Store):
    """By an undo, which leaves no label, and by a granted appeal, which leaves its own; not by a denied one."""
    await held(ledger, "run", NOON_MS)
    first = await decide(ledger, "run", "approve", State.PROMOTED, Reason.APPROVED, "plausible", NOON_MS + 1)
    history = await ledger.read(queries.history_of("run"))
    undo = inverse_of("run", history, actor="moderator:mara", at_ms=NOON_MS + 2, detail={"decision": "undo"})
    assert isinstance(undo, Decision)
    undone = await make(ledger, undo)
    second = await decide(
        ledger, "run", "reject", State.REJECTED, Reason.REJECTED_BY_MODERATOR, "on-request", NOON_MS + 3
    )
    for at_ms, reason in ((4, Reason.APPEALED), (5, Reason.APPEAL_DENIED)):
        assert [(first, undone), (second, None)] == [
            (label["seq"], label["overturned_by"]) for label in await labels(store)
        ]
        if reason is Reason.APPEALED:
            remark = Decision("run", State.REJECTED, "player", reason, NOON_MS + at_ms, frozenset(State))
            await settle(ledger, Nowhere(), BOARD, [remark])
    denied = await decide(
        ledger, "run", "reject", State.REJECTED, Reason.APPEAL_DENIED, "impossible", NOON_MS + 5, by="noor"
    )
    granted = await decide(
        ledger,
        "run",
        "approve",
        State.PROMOTED,
        Reason.APPEAL_GRANTED,
        "new-evidence",
        NOON_MS + 6,
        by="noor",
    )
    assert [
        (first, 0, NOON_MS, undone),
        (second, None, NOON_MS + 2, granted),
        (denied, 1, NOON_MS + 4, granted),
        (granted, 0, NOON_MS + 4, None),
    ] == [
        (label["seq"], label["is_cheat"], label["opened_at_ms"], label["overturned_by"])
        for label in await labels(store)
    ]


@on_both_ledgers
async def test_a_decision_that_contradicts_the_last_one_overturns_it_until_it_is_undone(
    ledger: Ledger, store: Store
):
    """As a colleague's revocation of what was approved; the approval stands again once that is undone."""
    await held(ledger, "run", NOON_MS)
    first = await decide(ledger, "run", "approve", State.PROMOTED, Reason.APPROVED, "plausible", NOON_MS + 1)
    second = await decide(
        ledger,
        "run",
        "revoke",
        State.REVOKED,
        Reason.REVOKED_BY_MODERATOR,
        "impossible",
        NOON_MS + 2,
        by="noor",
    )
    seen = [(first, second), (second, None)]
    assert seen == [(label["seq"], label["overturned_by"]) for label in await labels(store)]
    history = await ledger.read(queries.history_of("run"))
    undo = inverse_of("run", history, actor="moderator:noor", at_ms=NOON_MS + 3, detail={"decision": "undo"})
    assert isinstance(undo, Decision)
    undone = await make(ledger, undo)
    seen = [(first, None), (second, undone)]
    assert seen == [(label["seq"], label["overturned_by"]) for label in await labels(store)]
    third = await decide(
        ledger, "run", "revoke", State.REVOKED, Reason.REVOKED_BY_MODERATOR, "impossible", NOON_MS + 4
    )
    assert [third, undone, None] == [label["overturned_by"] for label in await labels(store)]
