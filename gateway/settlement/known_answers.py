"""Checks with a known answer: drawn from what moderators decided, answered without any effect, and ended.

A check is a case of a submission that stands as one moderator's decision left it. It shows the submission as
it was before that decision. Its answer is an event of no submission, so nothing that reads or follows the log
of a submission can tell that it was asked about again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import insert

from gateway.ledger import queries
from gateway.ledger.derived import log
from gateway.ledger.moderation.batches import BATCH
from gateway.ledger.moderation.cases import (
    CaseKind,
    StoredCase,
    close_case,
    load_case,
    new_case,
    open_cases,
)
from gateway.ledger.moderation.checks import MOST_IN_ALL, MOST_OPEN, open_checks, waits_since
from gateway.ledger.moderation.labels import DecisionLabel, add_label, load_label
from gateway.ledger.moderation.late_queues import is_late
from gateway.ledger.records import StoredSubmission
from gateway.ledger.schema import events
from gateway.ledger.submissions import work as recorded
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.settlement.case_decisions import CaseRequest, answer_as_theirs
from gateway.settlement.case_history import CaseEvent, CaseHistory, standing_event
from gateway.settlement.decision_records import Decision
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.labelling import label_from
from policies.decision_codes import DecisionCode, DecisionKind
from policies.errors import CaseOvertaken, StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State
from validators.judge import RULES_VERSION

CONSUMER: Final = "checks"
"""Consumer whose progress is the event up to whose label checks were drawn."""

SETTLED_MS: Final = 24 * 3_600_000
"""The time for which a decision has to stand before it is a known answer."""

LATE_MS: Final = 4 * 3_600_000
"""A queue in which a case has waited for so long takes no checks, and loses those that nobody is in."""

LAPSED_MS: Final = 24 * 3_600_000
"""The time after which a check that nobody is in ends by itself."""

STALE_MS: Final = 14 * 24 * 3_600_000
"""The age from which a decision is not asked again.

Its recording then outlives the check: it is kept for `UNDO_DAYS` after the decision.
"""

REASONS: Final = {
    DecisionKind.APPROVE: Reason.APPROVED,
    DecisionKind.REJECT: Reason.REJECTED_BY_MODERATOR,
}
"""The reason for which each answer would have been decided; of others nothing can be compared."""

_KNOWN: Final = {Reason.APPROVED: State.PROMOTED, Reason.REJECTED_BY_MODERATOR: State.REJECTED}

_ADD_EVENT = Query(insert(events))


class AnsweredCheck(NamedTuple):
    """An answer to a check: its event, and what is known; `has_agreed` is None if it says neither."""

    seq: int
    state: State
    known: DecisionLabel
    has_agreed: bool | None


def draw_checks(after: int, upto: int, drawn: Sequence[DecisionLabel], *, now_ms: int) -> Operation[int]:
    """Open checks of these decisions, as far as they can be, and note that all up to `upto` were drawn from.

    Return how many were opened: none if another steward was faster.
    """

    async def work(tx: Transaction) -> int:
        if (await log.position(CONSUMER)(tx) or 0) != after:
            return 0
        opened = 0
        for label in drawn:
            case = await _check_of(tx, label, now_ms=now_ms)
            if case is not None:
                await open_cases([case])(tx)
                opened += 1
        await log.move(CONSUMER, upto)(tx)
        return opened

    return work


async def _check_of(tx: Transaction, label: DecisionLabel, *, now_ms: int) -> StoredCase | None:
    """Return the check that asks again for a decision, None if there can be none now."""
    if now_ms - label.decided_at_ms >= STALE_MS:
        return None
    submission = await queries.load_submission(tx, label.submission_id)
    before = None if submission is None else await _before(tx, label, submission)
    if submission is None or before is None or await load_case(tx, label.submission_id) is not None:
        return None
    digest = submission.recording_digest
    is_gone = digest is not None and await recorded.unknown_recordings([digest])(tx)
    if is_gone or await _is_full(tx, label) or await _is_late(tx, label, now_ms=now_ms):
        return None
    case = new_case(submission, Reason(standing_event(before)["reason"]), now_ms)
    return case._replace(kind=CaseKind.CHECK, not_for=label.moderator, known_seq=label.seq)


async def _before(tx: Transaction, label: DecisionLabel, submission: StoredSubmission) -> CaseHistory | None:
    """Return the events before a decision on a held submission that stands as it left it; None of others.

    Nor may anything have happened since, another moderator have been in the case before, or a batch have
    decided: its items, which moderators read, name what it decided.
    """
    is_answer = label.known_seq is not None or label.overturned_by is not None
    stands = (submission.state, submission.reason) == (_KNOWN.get(label.reason), label.reason)
    if is_answer or not stands or submission.unreadable:
        return None
    history = await queries.history_of(label.submission_id)(tx)
    before = seen_before(history, label.seq)
    is_only = not any(event["actor"].startswith(MODERATOR) for event in before)
    is_newest = history[-1]["seq"] == label.seq and BATCH not in history[-1]["detail"]
    return before if is_newest and is_only and before and before[-1]["to"] == State.HELD else None


async def _is_full(tx: Transaction, label: DecisionLabel) -> bool:
    checks = await open_checks(tx)
    return len(checks) >= MOST_IN_ALL or sum(case.board == label.board for case in checks) >= MOST_OPEN


async def _is_late(tx: Transaction, of: DecisionLabel | StoredCase, *, now_ms: int) -> bool:
    """Return whether cases wait for long, on the board or of its policy file: no time for checks."""
    since_ms = await waits_since(tx, of.label)
    return await is_late(tx, of.board) or (since_ms is not None and now_ms - since_ms >= LATE_MS)


def end_checks(*, now_ms: int) -> Operation[int]:
    """End checks that nobody is in and nobody took for long, or that cases wait behind; return how many."""

    async def work(tx: Transaction) -> int:
        ended, late = 0, dict[str, bool]()
        for case in await open_checks(tx):
            is_old = now_ms - case.opened_at_ms >= LAPSED_MS
            is_free = not case.claimed_by or case.claimed_until_ms <= now_ms
            if is_free and not is_old and case.board not in late:
                late[case.board] = await _is_late(tx, case, now_ms=now_ms)
            if is_free and (is_old or late[case.board]):
                await close_case(tx, case.submission_id)
                ended += 1
        return ended

    return work


def seen_before(history: CaseHistory, known_seq: int) -> CaseHistory:
    """Return the events of a submission that its check shows: those before the known decision."""
    return [event for event in history if event["seq"] < known_seq]


def as_checked(submission: StoredSubmission, case: StoredCase) -> StoredSubmission:
    """Return a submission as its check shows it."""
    return replace(submission, state=State.HELD, reason=Reason(case.reason))


def permitted_answers(
    board: Board, requests: Sequence[CaseRequest]
) -> Operation[list[Decision | StateConflict]]:
    """Return each answer to a check as it would be taken now, or its conflict. Nothing is written."""

    async def permitted(tx: Transaction, request: CaseRequest) -> Decision | StateConflict:
        case = await load_case(tx, request.decision.submission_id)
        seen = None if case is None else await _seen(tx, case)
        if case is None or seen is None:
            return CaseOvertaken()
        return await answer_as_theirs(tx, board, request, case, seen)

    async def work(tx: Transaction) -> list[Decision | StateConflict]:
        return [await permitted(tx, request) for request in requests]

    return work


def answer_check(board: Board, request: CaseRequest) -> Operation[AnsweredCheck | StateConflict]:
    """Take a moderator's decision on a check: note it, compare it with what is known, and end the check.

    The submission stays as it is. Returns the conflict that the decision would have on any other case.
    """

    async def work(tx: Transaction) -> AnsweredCheck | StateConflict:
        submission_id = request.decision.submission_id
        case = await load_case(tx, submission_id)
        seen = None if case is None else await _seen(tx, case)
        if case is None or seen is None:
            return CaseOvertaken()
        decision = await answer_as_theirs(tx, board, request, case, seen)
        if isinstance(decision, StateConflict):
            return decision
        submission = await queries.load_submission(tx, submission_id)
        known = await load_label(tx, case.known_seq)
        assert submission is not None
        assert known is not None
        seq = await _note(tx, board, request.decision, submission, case)
        await close_case(tx, submission_id)
        kind = DecisionKind(request.decision.detail["decision"])
        if kind in REASONS:
            meant = board.policy.moderation.codes_of(kind).get(request.decision.detail["code"])
            event = _answer_event(seq, case, request.decision)
            await add_label(tx, label_of_answer(seen[0], seen[1], event, meant))
        agreed = REASONS[kind] is known.reason if kind in REASONS else None
        return AnsweredCheck(seq, submission.state, known, agreed)

    return work


def _answer_event(seq: int, case: StoredCase, decision: Decision) -> CaseEvent:
    detail = {**decision.detail, "check": True, "submission": case.submission_id}
    detail |= {"known": case.known_seq, "version": decision.newest_event, "opened_at_ms": case.opened_at_ms}
    return {"seq": seq, "actor": decision.actor, "detail": detail, "at_ms": decision.at_ms}


def label_of_answer(
    submission: StoredSubmission, seen: CaseHistory, event: CaseEvent, meant: DecisionCode | None
) -> DecisionLabel:
    """Return the label of an answer to a check. `seen` are the events that it showed."""
    detail = event["detail"]
    as_decided = {**event, "reason": REASONS[DecisionKind(detail["decision"])]}
    label = label_from(submission, seen, as_decided, meant)
    return label._replace(opened_at_ms=detail["opened_at_ms"], known_seq=detail["known"])


async def _seen(tx: Transaction, case: StoredCase) -> tuple[StoredSubmission, CaseHistory] | None:
    """Return what a check shows of its submission; None of another case."""
    submission = await queries.load_submission(tx, case.submission_id)
    if submission is None or case.kind is not CaseKind.CHECK:
        return None
    history = await queries.history_of(case.submission_id)(tx)
    return as_checked(submission, case), seen_before(history, case.known_seq)


async def _note(
    tx: Transaction, board: Board, decision: Decision, submission: StoredSubmission, case: StoredCase
) -> int:
    """Add the event of an answer, which belongs to no submission, and return its number."""
    seq = await queries.newest_seq()(tx) + 1
    values: dict[str, Any] = {"submission_id": "", "board": submission.board, "player": submission.player}
    await tx.run(
        _ADD_EVENT,
        seq=seq,
        **values,
        from_state=submission.state.value,
        to_state=submission.state.value,
        actor=decision.actor,
        reason=Reason.CHECK_ANSWERED.value,
        policy=board.digest,
        rules_version=RULES_VERSION,
        detail=orjson.dumps(_answer_event(seq, case, decision)["detail"]).decode(),
        at_ms=decision.at_ms,
    )
    return seq
