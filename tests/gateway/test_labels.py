"""Labels on both ledgers: what each decision of a moderator says of a run, and which were overturned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import labels as stored_labels
from gateway.ledger.moderation.labels import (
    DecisionLabel,
    LabelFilter,
    add_label,
    let_stand_again,
    newest_labels,
)
from gateway.settlement.case_decisions import CaseRequest, DecidedCase, decide_on_case, settle_case
from gateway.settlement.decision_records import Decision
from gateway.settlement.label_audit import check_labels
from gateway.settlement.settle import settle
from gateway.settlement.undoing import inverse_of
from policies.choices import Operator
from policies.errors import LedgerTampered
from policies.fields import SortOrder
from policies.vocabulary import Expected, Finding, Reason, Severity, State
from tests.contract.test_learning import Nowhere
from tests.support.banning import Bench, a_ban
from tests.support.books import Books, board_of
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
    assert 4 == await check_labels(ledger)


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
    await ledger.write(lambda tx: let_stand_again(tx, first, by=second))  # it is the third by now
    assert [third, undone, None] == [label["overturned_by"] for label in await labels(store)]
    assert 3 == await check_labels(ledger)


@on_both_ledgers
async def test_what_an_undone_decision_had_overturned_stands_again_also_under_a_ban(
    ledger: Ledger, store: Store
):
    """The ban's own event, which is the newest by then, is no decision."""
    await held(ledger, "run", NOON_MS)
    first = await decide(
        ledger, "run", "reject", State.REJECTED, Reason.REJECTED_BY_MODERATOR, "impossible", NOON_MS + 1
    )
    second = await decide(ledger, "run", "approve", State.PROMOTED, Reason.APPROVED, "plausible", NOON_MS + 2)
    assert [first, second] == [label["seq"] for label in await labels(store)]
    await Bench(ledger, {"tiny": BOARD}, Nowhere()).ban(a_ban("ban", "ada"), at_ms=NOON_MS + 3)
    assert [second, None] == [label["overturned_by"] for label in await labels(store)]
    history = await ledger.read(queries.history_of("run"))
    undo = inverse_of("run", history, actor="moderator:mara", at_ms=NOON_MS + 4, detail={"decision": "undo"})
    assert isinstance(undo, Decision)
    undone = await make(ledger, undo)
    assert [None, undone] == [label["overturned_by"] for label in await labels(store)]
    assert 2 == await check_labels(ledger)


TAMPERINGS = {
    "UPDATE labels SET is_cheat = 0 WHERE seq = 4": "the label of event 4 has another is_cheat than its event: False",
    "UPDATE labels SET moderator = 'noor' WHERE seq = 4": "event 4 has another moderator than its event: noor",
    "UPDATE labels SET findings = '[]' WHERE seq = 3": "event 3 has another findings than its event",
    "UPDATE labels SET opened_at_ms = 7 WHERE seq = 3": "event 3 has another opened_at_ms than its event: 7",
    "UPDATE labels SET overturned_by = 4 WHERE seq = 3": "event 3 has another overturned_by than its event: 4",
    "UPDATE labels SET code = 'fair' WHERE seq = 3": "event 3 has another code than its event: fair",
    "DELETE FROM labels WHERE seq = 3": "the decision of event 3 has no label",
    "UPDATE labels SET seq = 1 WHERE seq = 4": "the label of event 1 is of no moderator's event",
    "UPDATE labels SET seq = 9 WHERE seq = 4": "the decision of event 4 has no label",
    "INSERT INTO labels SELECT 9, submission_id, board, label, build, moderator, reason, code, is_cheat, findings, "
    "opened_at_ms, decided_at_ms, NULL, NULL FROM labels WHERE seq = 4": "the label of event 9 is of no moderator's event",
    "INSERT INTO labels SELECT 5, submission_id, board, label, build, moderator, reason, code, is_cheat, findings, "
    "opened_at_ms, decided_at_ms, NULL, NULL FROM labels WHERE seq = 4": "event 5 is of an event that leaves none",
    "DELETE FROM submissions WHERE seq = 2": "the label of event 4 is of a submission that is not there",
}  # fmt: skip


async def test_the_audit_names_the_first_label_that_is_not_what_its_event_says(
    monkeypatch: pytest.MonkeyPatch,
):
    """Whatever column differs, and a label too many or too few; in pages of one event as in one of all."""
    books = Books(BOARD)
    for number, run in enumerate(("one", "two")):
        found = new_submission(run, state=State.HELD, at_ms=NOON_MS + number)
        finding = Finding(Reason.LATE, 9.0, Expected(at_most=4.0, unit="s"), validator="delay")
        books.append([found._replace(judgement=Judgement(State.HELD, Reason.LATE, (finding,)))])
    for run, kind, to_state, reason, code in (
        ("one", "approve", State.PROMOTED, Reason.APPROVED, "plausible"),
        ("two", "reject", State.REJECTED, Reason.REJECTED_BY_MODERATOR, "impossible"),
        ("one", "hold", State.HELD, Reason.HELD_BY_MODERATOR, "second-look"),
    ):
        detail = {"decision": kind, "code": code}
        asked = Decision(
            run, to_state, "moderator:mara", reason, NOON_MS + 9, frozenset(State), detail=detail
        )
        books.do(decide_on_case(BOARD, CaseRequest(asked)))
    books.connection.execute("DROP TRIGGER submissions_no_delete")  # as who has the file can
    for page in (1, 200):
        monkeypatch.setattr("gateway.settlement.label_audit.PAGE", page)
        assert 2 == await check_labels(books)
        for statement, told in TAMPERINGS.items():
            books.connection.execute("SAVEPOINT tampering")
            books.connection.execute(statement)
            with pytest.raises(LedgerTampered, match=told):
                await check_labels(books)
            books.connection.execute("ROLLBACK TO tampering")


@on_both_ledgers
async def test_labels_of_scopes_that_overlap_come_once_and_a_cut_tells_whole_moments(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    """A family and one of its boards have the same labels; where there are too many, the last moment goes as a whole."""
    boards = ["track.a", "track.b", "solo", "track.a", "tracks.a", "track.a"]
    for seq, (board, at_ms) in enumerate(zip(boards, (1, 2, 2, 3, 3, 3), strict=True), start=1):
        facts = (f"run-{seq}", board, board.partition(".")[0], "b1", "mara", Reason.APPROVED, "plausible")
        label = DecisionLabel(seq, *facts, False, (), 0, at_ms)
        await ledger.write(lambda tx, label=label: add_label(tx, label))

    async def newest(*scopes: str, board: str | None = None) -> tuple[list[int], int, bool]:
        found = await ledger.read(newest_labels(LabelFilter(frozenset(scopes), board, 0, 100)))
        return [each.seq for each in found.labels], found.since_ms, found.is_cut

    assert ([6, 4, 2, 1], 0, False) == await newest("track", "track.a")
    assert ([6, 4, 3, 1], 0, False) == await newest("track.a", "solo")
    assert ([6, 4, 1], 0, False) == await newest("track", board="track.a")
    assert ([6, 5, 4, 3, 2, 1], 0, False) == await newest("*", "track")
    monkeypatch.setattr(stored_labels, "NEWEST", 4)
    assert ([6, 5, 4], 3, True) == await newest("*")
    assert ([6, 4, 2], 2, True) == await newest("track")
