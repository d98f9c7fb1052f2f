"""Cases: submissions that wait for a moderator, opened and closed with the events that hold and end them.

How many there are of each policy file and reason is kept beside them, and a version that each change raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.moderation.late_queues import end_target, set_target
from gateway.ledger.records import NewSubmission, StoredSubmission
from gateway.ledger.schema import Int64, case_counts, case_passes, cases
from gateway.ledger.transaction import OneOf, Operation, Query, Row, Transaction
from gateway.runtime.telemetry import label_of
from policies.vocabulary import Reason, State
from validators.verification_priority import UNASSESSED

HARM_MS: Final = 3_600_000
"""The time that each unit of harm is worth: the greatest harm goes before what has waited 16 hours longer."""


class CaseKind(StrEnum):
    """Why a submission waits for a moderator."""

    HELD = "held"
    APPEAL = "appeal"
    CHECK = "check"
    APPROVAL = "second-approval"


class StoredCase(NamedTuple):
    """A case as the ledger has it now, in the order of its table's columns.

    `seq` is that of its submission, `label` the name of its policy file. `not_for` names the moderators
    who may not have it, with spaces between them.
    """

    submission_id: str
    seq: int
    board: str
    label: str
    player: str
    build: str
    kind: CaseKind
    reason: str
    harm: int
    opened_at_ms: int
    order_key: int
    claimed_by: str = ""
    claimed_until_ms: int = 0
    waits_until_ms: int = 0
    not_for: str = ""
    cannot_tell: int = 0
    needs_senior: int = 0
    known_seq: int = 0

    @property
    def shown_kind(self) -> CaseKind:
        """Return the kind as moderators see it: they cannot tell a check from what is held."""
        return CaseKind.HELD if self.kind is CaseKind.CHECK else self.kind

    def hides_from(self, moderator: str) -> bool:
        """Return whether it is a check, and not one of this moderator's own decision."""
        return self.kind is CaseKind.CHECK and not self.is_not_for(moderator)

    def is_not_for(self, moderator: str) -> bool:
        """Return whether the moderator may not have the case."""
        return moderator in self.not_for.split()

    def is_taken_from(self, moderator: str, *, now_ms: int) -> bool:
        """Return whether somebody else is in the case."""
        return self.claimed_by not in ("", moderator) and now_ms < self.claimed_until_ms

    def is_with(self, moderator: str, *, now_ms: int) -> bool:
        """Return whether this moderator is in the case."""
        return self.claimed_by == moderator and now_ms < self.claimed_until_ms


_c, _n = cases.c, case_counts.c

CASE: Final = select(*cases.columns)

_CASES = Query(CASE.where(OneOf(_c.submission_id, "submission_ids")))
_CLOSE = Query(delete(cases).where(_c.submission_id == bindparam("submission")))
_FORGET_PASSES = Query(delete(case_passes).where(case_passes.c.submission_id == bindparam("submission")))
_put = insert(case_counts)
_COUNT = Query(
    _put.on_conflict_do_update(
        index_elements=["label", "reason"],
        set_={"cases": _n.cases + _put.excluded.cases, "version": _n.version + 1},
    )
)
_IS_UNASSESSED: Final = _c.harm < literal_column("0")  # a bound number would not use the index

_PUT = Query(
    update(cases)
    .where(_c.submission_id == bindparam("submission"))
    .values(
        claimed_by=bindparam("by"),
        claimed_until_ms=bindparam("by_until_ms"),
        waits_until_ms=bindparam("waits_ms"),
        not_for=bindparam("whom_not"),
        needs_senior=bindparam("is_for_seniors"),
    )
)
_UNASSESSED = Query(
    select(_c.seq, _c.submission_id, _c.board)
    .where(_IS_UNASSESSED, _c.seq > bindparam("after", type_=Int64))
    .order_by(_c.seq)
    .limit(bindparam("count"))
)
_ASSESS = Query(
    update(cases)
    .where(_c.submission_id == bindparam("submission"), _IS_UNASSESSED)
    .values(harm=bindparam("assessed"), order_key=_c.opened_at_ms - bindparam("ahead_ms"))
)
_COUNTS = Query(select(_n.label, _n.reason, _n.cases).where(_n.cases > 0).order_by(_n.label, _n.reason))
_VERSIONS = Query(select(_n.label, func.sum(_n.version)).group_by(_n.label))


class UnassessedCase(NamedTuple):
    """A case whose harm nobody has assessed yet."""

    seq: int
    submission_id: str
    board: str


def new_case(submission: StoredSubmission, reason: Reason, at_ms: int) -> StoredCase:
    """Return the case of a submission that waits for a moderator from now on."""
    return _new(submission, submission.seq, reason, at_ms)


def appended_cases(first_seq: int, fresh: Sequence[NewSubmission]) -> list[StoredCase]:
    """Return the cases of those new submissions, numbered from `first_seq`, that are held at once."""
    return [
        _new(new.submission, seq, new.judgement.reason, new.submission.received_at_ms)
        for seq, new in enumerate(fresh, start=first_seq)
        if new.judgement.state is State.HELD
    ]


def _new(run: Any, seq: int, reason: Reason, at_ms: int) -> StoredCase:
    return StoredCase(
        run.submission_id,
        seq,
        run.board,
        label_of(run.board),
        run.player,
        run.build,
        CaseKind.HELD,
        reason.value,
        UNASSESSED,
        at_ms,
        at_ms,
    )


def open_cases(opened: Sequence[StoredCase]) -> Operation[None]:
    """Open cases, none of which is open."""

    async def work(tx: Transaction) -> None:
        await tx.insert(cases, opened)
        for (label, reason), count in Counter((case.label, case.reason) for case in opened).items():
            await _count(tx, label, reason, count)

    return work


async def close_case(tx: Transaction, submission_id: str) -> None:
    """Close the case of a submission, if it has one, with all that was noted on it."""
    case = await load_case(tx, submission_id)
    if case is not None:
        await end_case(tx, case)


async def end_case(tx: Transaction, case: StoredCase) -> None:
    """Close a case that is open, with all that was noted on it."""
    await tx.run(_CLOSE, submission=case.submission_id)
    await tx.run(_FORGET_PASSES, submission=case.submission_id)
    await end_target(tx, case.submission_id)
    await _count(tx, case.label, case.reason, -1)


async def load_case(tx: Transaction, submission_id: str) -> StoredCase | None:
    """Return the case of a submission, None if it does not wait."""
    return (await load_cases(tx, [submission_id])).get(submission_id)


async def load_cases(tx: Transaction, submission_ids: Sequence[str]) -> dict[str, StoredCase]:
    """Return the cases of those of these submissions that wait, by submission."""
    rows = await tx.rows(_CASES, submission_ids=submission_ids)
    return {case.submission_id: case for case in map(case_from, rows)}


def waiting_case(submission_id: str) -> Operation[StoredCase | None]:
    """Return the case of a submission, None if it does not wait."""

    async def work(tx: Transaction) -> StoredCase | None:
        return await load_case(tx, submission_id)

    return work


def case_from(row: Row) -> StoredCase:
    """Return the case of a row."""
    case = StoredCase(*row)
    return case._replace(kind=CaseKind(case.kind))


async def put_case(tx: Transaction, case: StoredCase) -> None:
    """Store who has a case, who may not, and what it waits for."""
    await tx.run(
        _PUT,
        submission=case.submission_id,
        by=case.claimed_by,
        by_until_ms=case.claimed_until_ms,
        waits_ms=case.waits_until_ms,
        whom_not=case.not_for,
        is_for_seniors=case.needs_senior,
    )
    await note_change(tx, case)


async def note_change(tx: Transaction, case: StoredCase) -> None:
    """Raise the version that tells of a change of a case."""
    await _count(tx, case.label, case.reason, 0)


async def _count(tx: Transaction, label: str, reason: str, difference: int) -> None:
    await tx.run(_COUNT, label=label, reason=reason, cases=difference, version=1)


def unassessed_cases(after: UnassessedCase | None, *, count: int) -> Operation[list[UnassessedCase]]:
    """Return the first cases whose harm is not assessed, behind one of them."""
    after_seq = after.seq if after else 0

    async def work(tx: Transaction) -> list[UnassessedCase]:
        return [UnassessedCase(*row) for row in await tx.rows(_UNASSESSED, after=after_seq, count=count)]

    return work


def assess_cases(
    assessed: Sequence[UnassessedCase], harms: Mapping[int, int], targets_ms: Mapping[str, int]
) -> Operation[None]:
    """Store the harm of cases, by the sequence numbers of their submissions, and put them in order by it.

    `targets_ms` has how old a case may grow, for those boards that say so.
    """

    async def work(tx: Transaction) -> None:
        for case in assessed:
            harm = harms[case.seq]
            await tx.run(_ASSESS, submission=case.submission_id, assessed=harm, ahead_ms=harm * HARM_MS)
            if case.board in targets_ms:
                await set_target(tx, case.submission_id, targets_ms[case.board])

    return work


def case_counts_of_labels() -> Operation[dict[str, dict[str, int]]]:
    """Count the cases of each policy file, by reason."""

    async def work(tx: Transaction) -> dict[str, dict[str, int]]:
        counted: dict[str, dict[str, int]] = {}
        for label, reason, count in await tx.rows(_COUNTS):
            counted.setdefault(label, {})[reason] = count
        return counted

    return work


async def queue_versions(tx: Transaction) -> dict[str, int]:
    """Return the version of each policy file's cases: it is higher after each change of one of them."""
    return {label: int(version) for label, version in await tx.rows(_VERSIONS)}
