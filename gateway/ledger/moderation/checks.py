"""Checks: cases that ask again what a colleague has decided, which moderators cannot tell from others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, literal_column, select

from gateway.ledger.moderation.cases import CASE, CaseKind, StoredCase, case_from, load_case
from gateway.ledger.moderation.labels import DecisionLabel, labels_between
from gateway.ledger.moderation.trail import TrailFilter, trail_page
from gateway.ledger.schema import cases
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason

MOST_OPEN: Final = 3
"""Most open checks of a board."""

MOST_IN_ALL: Final = 200
"""Most open checks of all boards: reads that hide them load them all."""

DRAWN_AT_ONCE: Final = 64
"""Labels that one look of a steward passes."""

_REMEMBERED: Final = 20
"""Most of a moderator's newest answers on a player's runs that are looked at for a certain one."""

_NEWEST: Final = 2**63 - 1

_c = cases.c
_IS_CHECK: Final = _c.kind == literal_column("'check'")
_OPEN = Query(CASE.where(_IS_CHECK).order_by(_c.submission_id).limit(bindparam("count")))
_LONGEST = Query(
    select(_c.opened_at_ms, _c.kind)
    .where(_c.label == bindparam("label"))
    .order_by(_c.opened_at_ms)
    .limit(bindparam("count"))
)


class GivenAnswer(NamedTuple):
    """A moderator's answer to a check: its event, and what that keeps of it."""

    seq: int
    detail: Mapping[str, Any]


async def open_checks(tx: Transaction) -> list[StoredCase]:
    """Return all checks that are open."""
    return [case_from(row) for row in await tx.rows(_OPEN, count=MOST_IN_ALL)]


def checks_hidden_from(moderator: str) -> Operation[dict[str, StoredCase]]:
    """Return the open checks, by submission, that this moderator is to take for cases."""

    async def work(tx: Transaction) -> dict[str, StoredCase]:
        return {case.submission_id: case for case in await open_checks(tx) if case.hides_from(moderator)}

    return work


def check_hidden_from(moderator: str, submission_id: str) -> Operation[StoredCase | None]:
    """Return the open check of a submission, if this moderator is to take it for a case."""

    async def work(tx: Transaction) -> StoredCase | None:
        case = await load_case(tx, submission_id)
        return case if case is not None and case.hides_from(moderator) else None

    return work


async def waits_since(tx: Transaction, label: str) -> int | None:
    """Return since when (Unix ms) the oldest case of a policy file waits, checks apart; None without any."""
    rows = await tx.rows(_LONGEST, label=label, count=MOST_IN_ALL + 1)
    return next((int(at_ms) for at_ms, kind in rows if kind != CaseKind.CHECK), None)


def labels_behind(after: int) -> Operation[list[DecisionLabel]]:
    """Return the next labels behind an event."""

    async def work(tx: Transaction) -> list[DecisionLabel]:
        return await labels_between(tx, after, None, count=DRAWN_AT_ONCE)

    return work


def given_answer(submission_id: str, player: str, moderator: str) -> Operation[GivenAnswer | None]:
    """Return a moderator's answer to the check of a submission, None if they gave none lately."""
    reason = Reason.CHECK_ANSWERED.value
    wanted = TrailFilter(frozenset({"*"}), moderator=moderator, reason=reason, player=player)

    async def work(tx: Transaction) -> GivenAnswer | None:
        page = await trail_page(wanted, before=_NEWEST, count=_REMEMBERED)(tx)
        answers = (GivenAnswer(event["seq"], detail_from(event["detail"])) for event in page.events)
        return next((each for each in answers if each.detail.get("submission") == submission_id), None)

    return work
