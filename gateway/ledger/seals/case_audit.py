"""The audit of cases: held submissions and cases are the same, and the counts kept beside them are right."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, func, select, tuple_

from gateway.ledger.ledger import LedgerReads
from gateway.ledger.schema import Int64, Text, case_counts, cases, is_in, submissions
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.errors import LedgerTampered
from policies.vocabulary import State

PAGE: Final = 1_000

_s, _c = submissions.c, cases.c

_HELD = Query(
    select(_s.board, _s.seq, _s.submission_id, _c.kind)
    .select_from(submissions.outerjoin(cases, _c.submission_id == _s.submission_id))
    .where(
        is_in(State.HELD),
        tuple_(_s.board, _s.seq)
        > tuple_(bindparam("after_board", type_=Text), bindparam("after", type_=Int64)),
    )
    .order_by(_s.board, _s.seq)
    .limit(bindparam("count"))
)
_CASES = Query(
    select(_c.submission_id, _c.kind, _s.state)
    .select_from(cases.outerjoin(submissions, _c.submission_id == _s.submission_id))
    .where(_c.submission_id > bindparam("after_id"))
    .order_by(_c.submission_id)
    .limit(bindparam("count"))
)
_COUNTED = Query(select(_c.label, _c.reason, func.count()).group_by(_c.label, _c.reason))
_KEPT = Query(
    select(case_counts.c.label, case_counts.c.reason, case_counts.c.cases).where(case_counts.c.cases != 0)
)


async def check_cases(ledger: LedgerReads) -> int:
    """Count the cases. Raises LedgerTampered unless they are the submissions that are held."""
    place: tuple[str, int] = ("", 0)
    while page := await ledger.read(_held_behind(*place)):
        for board, seq, submission_id, kind in page:
            if kind != State.HELD:
                raise LedgerTampered(f"submission {submission_id} is held, and has no case")
            place = (board, seq)
    count, after = 0, ""
    while page := await ledger.read(_cases_behind(after)):
        for submission_id, kind, state in page:
            if kind == State.HELD and state != State.HELD:
                raise LedgerTampered(f"submission {submission_id} has a case, and is {state or 'not there'}")
            after = submission_id
        count += len(page)
    await ledger.read(_check_counts)
    return count


def _held_behind(board: str, seq: int) -> Operation[list[Row]]:
    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(_HELD, after_board=board, after=seq, count=PAGE)

    return work


def _cases_behind(after: str) -> Operation[list[Row]]:
    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(_CASES, after_id=after, count=PAGE)

    return work


async def _check_counts(tx: Transaction) -> None:
    counted = {(label, reason): count for label, reason, count in await tx.rows(_COUNTED)}
    kept = {(label, reason): count for label, reason, count in await tx.rows(_KEPT)}
    for key in sorted(counted.keys() | kept.keys()):
        if counted.get(key, 0) != kept.get(key, 0):
            found, noted = counted.get(key, 0), kept.get(key, 0)
            raise LedgerTampered(f"{key[0]} has {found} cases for {key[1]}, and {noted} are noted")
