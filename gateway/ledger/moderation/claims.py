"""Claims: who is in a case, until when, and who left it to others.

A claim is a lease by the clock that all edges share, so it ends by itself. Who writes first has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, or_, select, update
from sqlalchemy import case as sql_case
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.moderation.cases import StoredCase, load_case, note_change
from gateway.ledger.schema import case_passes, cases
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of
from policies.errors import CaseClaimed, CaseForOthers, CaseGone

CLAIM_MS: Final = 20 * 60_000
"""The time for which a moderator has a case after each use of it."""

SKIPPED_MS: Final = 60 * 60_000
"""The time for which a skipped case is not offered to the same moderator again."""

SENIOR_AFTER: Final = 2
"""How many moderators who cannot tell it takes until a case needs a senior."""

EVERYTHING: Final = "*"
"""The scope of all boards."""

_FOR_EVER_MS: Final = 2**53 - 1

_c, _p = cases.c, case_passes.c

_CLAIM = Query(
    update(cases)
    .where(
        _c.submission_id == bindparam("submission"),
        or_(_c.claimed_by == bindparam("moderator"), _c.claimed_until_ms <= bindparam("now_ms")),
    )
    .values(claimed_by=bindparam("moderator"), claimed_until_ms=bindparam("until_ms"))
)
_RELEASE = Query(
    update(cases)
    .where(_c.submission_id == bindparam("submission"), _c.claimed_by == bindparam("moderator"))
    .values(claimed_by="", claimed_until_ms=0)
)
_put = insert(case_passes)
_PASS = Query(
    _put.on_conflict_do_update(
        index_elements=["submission_id", "moderator"],
        set_={
            "until_ms": sql_case(
                (_put.excluded.until_ms > _p.until_ms, _put.excluded.until_ms), else_=_p.until_ms
            ),
            "could_not_tell": func.coalesce(func.nullif(_put.excluded.could_not_tell, 0), _p.could_not_tell),
        },
    )
)
_COULD_NOT_TELL = Query(
    select(func.coalesce(func.sum(_p.could_not_tell), 0)).where(
        _p.submission_id == bindparam("submission_id")
    )
)
_NOTE_DOUBT = Query(
    update(cases)
    .where(_c.submission_id == bindparam("submission"))
    .values(cannot_tell=bindparam("doubts"), needs_senior=bindparam("is_for_seniors"))
)
_PASSED = Query(
    select(_p.submission_id).where(
        is_listed(_p.submission_id), _p.moderator == bindparam("moderator"), _p.until_ms > bindparam("now_ms")
    )
)


class Claimant(NamedTuple):
    """A moderator who asks for cases: the account's name, their own players, and where they are senior."""

    name: str
    players: frozenset[str] = frozenset()
    senior_scopes: frozenset[str] = frozenset()

    def may_have(self, case: StoredCase) -> bool:
        """Return whether the moderator may have a case that nobody is in."""
        is_own = case.player == self.name or case.player in self.players
        is_senior = reaches(self.senior_scopes, case.board)
        return not is_own and not case.is_not_for(self.name) and (not case.needs_senior or is_senior)


def reaches(scopes: frozenset[str], board: str) -> bool:
    """Return whether a board is in one of the scopes: boards, families, or everything."""
    return not scopes.isdisjoint((EVERYTHING, board, label_of(board)))


def claim_case(submission_id: str, claimant: Claimant, *, now_ms: int) -> Operation[StoredCase]:
    """Give a moderator the case of a submission, or more time for it, and return it.

    Raises CaseGone if it does not wait, CaseClaimed if somebody else is in it, and CaseForOthers if this
    moderator may not have it.
    """

    async def work(tx: Transaction) -> StoredCase:
        case = await _case_for(tx, submission_id, claimant, now_ms=now_ms)
        return await _take(tx, case, claimant, now_ms=now_ms)

    return work


def claim_first(
    submission_ids: Sequence[str], claimant: Claimant, *, now_ms: int
) -> Operation[StoredCase | None]:
    """Give a moderator the first of these cases that nobody has, and return it; None if there is none."""

    async def work(tx: Transaction) -> StoredCase | None:
        for submission_id in submission_ids:
            case = await load_case(tx, submission_id)
            if case is not None and is_free(case, claimant, now_ms=now_ms):
                return await _take(tx, case, claimant, now_ms=now_ms)
        return None

    return work


def is_free(case: StoredCase, claimant: Claimant, *, now_ms: int) -> bool:
    """Return whether a moderator may be offered a case: nobody is in it, and nothing is waited for."""
    is_claimed = case.claimed_by != "" and now_ms < case.claimed_until_ms
    return not is_claimed and now_ms >= case.waits_until_ms and claimant.may_have(case)


def renew_claim(submission_id: str, moderator: str, *, now_ms: int) -> Operation[StoredCase | None]:
    """Give the moderator who is in a case more time for it; return it, None if it does not wait."""

    async def work(tx: Transaction) -> StoredCase | None:
        case = await load_case(tx, submission_id)
        if case is None or not case.is_with(moderator, now_ms=now_ms):
            return case
        return await _extend(tx, case, moderator, now_ms=now_ms)

    return work


def release_case(submission_id: str, moderator: str) -> Operation[StoredCase]:
    """Have a moderator leave a case, and return it. Raises CaseGone."""

    async def work(tx: Transaction) -> StoredCase:
        return await _leave(tx, await _waiting(tx, submission_id), moderator)

    return work


def skip_case(submission_id: str, moderator: str, *, now_ms: int) -> Operation[StoredCase]:
    """Have a moderator leave a case and not be offered it for a while; return it. Raises CaseGone."""

    async def work(tx: Transaction) -> StoredCase:
        case = await _waiting(tx, submission_id)
        await _pass(tx, case, moderator, until_ms=now_ms + SKIPPED_MS, could_not_tell=0)
        return await _leave(tx, case, moderator)

    return work


def leave_undecided(submission_id: str, claimant: Claimant, *, now_ms: int) -> Operation[StoredCase]:
    """Note that a moderator cannot tell, have them leave the case, and return it.

    They are not offered it again. After SENIOR_AFTER of them it needs a senior. Raises as `claim_case`.
    """

    async def work(tx: Transaction) -> StoredCase:
        case = await _case_for(tx, submission_id, claimant, now_ms=now_ms)
        await _pass(tx, case, claimant.name, until_ms=_FOR_EVER_MS, could_not_tell=1)
        [[doubts]] = await tx.rows(_COULD_NOT_TELL, submission_id=submission_id)
        needs_senior = int(case.needs_senior or doubts >= SENIOR_AFTER)
        await tx.run(_NOTE_DOUBT, submission=submission_id, doubts=int(doubts), is_for_seniors=needs_senior)
        case = case._replace(cannot_tell=int(doubts), needs_senior=needs_senior)
        return await _leave(tx, case, claimant.name)

    return work


async def passed_by(
    tx: Transaction, submission_ids: Sequence[str], moderator: str, *, now_ms: int
) -> set[str]:
    """Return those of some cases that a moderator left to others, and is not to be offered yet."""
    rows = await fetch_listed(tx, _PASSED, submission_ids, moderator=moderator, now_ms=now_ms)
    return {submission_id for (submission_id,) in rows}


async def _case_for(tx: Transaction, submission_id: str, claimant: Claimant, *, now_ms: int) -> StoredCase:
    case = await _waiting(tx, submission_id)
    if case.is_taken_from(claimant.name, now_ms=now_ms):
        raise CaseClaimed(f"`{case.claimed_by}` is in the case")
    if not claimant.may_have(case):
        raise CaseForOthers(
            "you decided it before" if case.is_not_for(claimant.name) else "it needs a senior"
        )
    return case


async def _waiting(tx: Transaction, submission_id: str) -> StoredCase:
    case = await load_case(tx, submission_id)
    if case is None:
        raise CaseGone
    return case


async def _take(tx: Transaction, case: StoredCase, claimant: Claimant, *, now_ms: int) -> StoredCase:
    if not case.is_with(claimant.name, now_ms=now_ms):
        await note_change(tx, case)
    return await _extend(tx, case, claimant.name, now_ms=now_ms)


async def _extend(tx: Transaction, case: StoredCase, moderator: str, *, now_ms: int) -> StoredCase:
    until_ms = now_ms + CLAIM_MS
    values = {"moderator": moderator, "now_ms": now_ms, "until_ms": until_ms}
    await tx.run(_CLAIM, submission=case.submission_id, **values)
    return case._replace(claimed_by=moderator, claimed_until_ms=until_ms)


async def _leave(tx: Transaction, case: StoredCase, moderator: str) -> StoredCase:
    await tx.run(_RELEASE, submission=case.submission_id, moderator=moderator)
    await note_change(tx, case)
    is_left = case.claimed_by == moderator
    return case._replace(claimed_by="", claimed_until_ms=0) if is_left else case


async def _pass(
    tx: Transaction, case: StoredCase, moderator: str, *, until_ms: int, could_not_tell: int
) -> None:
    await tx.run(
        _PASS,
        submission_id=case.submission_id,
        moderator=moderator,
        until_ms=until_ms,
        could_not_tell=could_not_tell,
    )
