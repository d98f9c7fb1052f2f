"""Who is in a case: claims it, leaves it, skips it, or cannot tell."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import Edge
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.cases import case_of
from gateway.edge.moderation.queue import claim_shown, claimant_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_queue import CaseHolding
from gateway.ledger.moderation import claims
from gateway.ledger.moderation.cases import StoredCase
from gateway.ledger.moderation.claims import Claimant
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Operation
from policies.errors import CaseClaimed, CaseForOthers, CaseGone


async def claim(request: web.Request) -> web.Response:
    """Give the moderator the case for a while, or more time for it."""
    edge, _, submission, moderator = await case_of(request, Ability.DECIDE)
    return json_response(await hold_case(edge, submission, moderator))


async def release(request: web.Request) -> web.Response:
    """Have the moderator leave the case."""
    edge, _, submission, moderator = await case_of(request, Ability.DECIDE)
    return json_response(await _held(edge, claims.release_case(submission.submission_id, moderator.name)))


async def skip(request: web.Request) -> web.Response:
    """Have the moderator leave the case to others: it is not offered to them again for a while."""
    edge, _, submission, moderator = await case_of(request, Ability.DECIDE)
    skipping = claims.skip_case(submission.submission_id, moderator.name, now_ms=edge.clock())
    return json_response(await _held(edge, skipping))


async def cannot_tell(request: web.Request) -> web.Response:
    """Note that the moderator cannot tell, and have them leave the case to others."""
    edge, _, submission, moderator = await case_of(request, Ability.DECIDE)
    claimant = await claimant_of(edge, moderator)
    _refuse_own(submission, claimant)
    leaving = claims.leave_undecided(submission.submission_id, claimant, now_ms=edge.clock())
    return json_response(await _held(edge, leaving))


async def hold_case(edge: Edge, submission: StoredSubmission, moderator: Moderator) -> CaseHolding:
    """Give a moderator a case for a while.

    Raises `state-conflict` if it does not wait, `case-claimed` if somebody else is in it, and
    `self-approval` or `scope-forbidden` if this moderator may not have it.
    """
    claimant = await claimant_of(edge, moderator)
    _refuse_own(submission, claimant)
    return await _held(edge, claims.claim_case(submission.submission_id, claimant, now_ms=edge.clock()))


def _refuse_own(submission: StoredSubmission, claimant: Claimant) -> None:
    if submission.players & claimant.players:
        raise Problem(ProblemType.SELF_APPROVAL, "you cannot decide on your own submission")


async def _held(edge: Edge, work: Operation[StoredCase]) -> CaseHolding:
    try:
        case = await edge.ledger.write(work)
    except CaseClaimed as claimed:
        raise Problem(ProblemType.CASE_CLAIMED, str(claimed)) from None
    except CaseGone as gone:
        raise Problem(ProblemType.STATE_CONFLICT, str(gone)) from None
    except CaseForOthers as refusal:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, str(refusal)) from None
    return CaseHolding(
        submission=case.submission_id,
        claim=claim_shown(case, now_ms=edge.clock()),
        cannot_tell=case.cannot_tell,
        needs_senior=bool(case.needs_senior),
    )
