"""Shows moderators what surrounds a case: its place among others, and what it has in common with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import Edge
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.cases import case_of
from gateway.edge.moderation.hidden_checks import first_hidden, hidden_checks, shown_as_held
from gateway.edge.problems import Problem
from gateway.edge.reads.distribution import histogram_with
from gateway.edge.reads.player_standings import longest_window
from gateway.edge.wire.moderation_surroundings import (
    CaseSurroundings,
    EarlierDecision,
    SharedTrait,
    SimilarSubmission,
    SubmissionBeside,
)
from gateway.edge.wire.read_models import Distribution
from gateway.ledger import queries
from gateway.ledger.index_pages import names_of
from gateway.ledger.moderation.surroundings import PastDecision, SubmissionInBrief, surroundings
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.runtime.clock import rfc3339
from policies.errors import IndexUnavailable
from policies.loader import Board
from policies.vocabulary import Finding, Reason

BINS: Final = 24
NAMED_LIMIT: Final = 20
"""Most submissions that findings name which are shown."""
OTHERS: Final = 20
"""Most other submissions of the player that are shown."""

_MEANINGS: Final = {reason.value: reason.meaning for reason in Reason}


async def show_surroundings(request: web.Request) -> web.Response:
    """Return what surrounds a case."""
    edge, board, submission, moderator = await case_of(request)
    return json_response(await read_surroundings(edge, board, submission, moderator))


async def read_surroundings(
    edge: Edge, board: Board, submission: StoredSubmission, moderator: Moderator
) -> CaseSurroundings:
    """Return what surrounds a case, as far as the moderator's boards reach. Raises LedgerUnavailable."""
    submission_id = submission.submission_id
    replayed = await edge.ledger.read(queries.replay_findings([submission_id]), ReadKind.MODERATION)
    findings = [*submission.findings, *replayed.get(submission_id, ())]
    named = list(dict.fromkeys(other for finding in findings for other in finding.others))[:NAMED_LIMIT]
    scopes = moderator.scopes(Ability.READ)
    checks = await hidden_checks(edge, moderator)
    hidden = first_hidden(checks)
    found = await edge.ledger.read(
        surroundings(submission_id, submission.player, named, scopes=scopes, count=OTHERS, hidden=hidden),
        ReadKind.MODERATION,
    )
    names = await edge.ledger.read(names_of([each.player for each in found.named]), ReadKind.MODERATION)
    distribution, beaten = await _distribution(edge, board, submission)
    return CaseSurroundings(
        submission=submission_id,
        distribution=distribution,
        beaten=beaten,
        similar=[
            SimilarSubmission(
                **_brief(each),
                name=names.get(each.player),
                has_same_recording=each.recording_digest == submission.recording_digest,
                shares=_shared(findings, each.submission_id),
            )
            for each in shown_as_held(found.named, checks)
        ],
        others=[SubmissionBeside(**_brief(each)) for each in shown_as_held(found.others, checks)],
        decisions=[decision_shown(decision) for decision in found.decisions],
    )


async def _distribution(
    edge: Edge, board: Board, submission: StoredSubmission
) -> tuple[Distribution | None, int | None]:
    """Return how scores spread in the board's longest window, and how many this one beats or equals."""
    window = longest_window(board.policy, edge.clock())
    try:
        return await histogram_with(edge, board, window, submission.claim.score, bins=BINS)
    except (Problem, IndexUnavailable):
        return None, None  # a board that is being rebuilt keeps nobody from deciding


def _brief(each: SubmissionInBrief) -> dict[str, Any]:
    return {
        "submission": each.submission_id,
        "board": each.board,
        "player": each.player,
        "score": each.score,
        "build": each.build,
        "state": each.state,
        "reason": each.reason,
        "meaning": _MEANINGS.get(each.reason, ""),
        "received_at": rfc3339(each.received_at_ms),
    }


def _shared(findings: Sequence[Finding], other: str) -> list[SharedTrait]:
    return [
        SharedTrait(
            reason=finding.reason.value,
            meaning=finding.reason.meaning,
            value=finding.value,
            unit=finding.expected.unit,
            detail=dict(finding.detail),
        )
        for finding in findings
        if other in finding.others
    ]


def decision_shown(decision: PastDecision) -> EarlierDecision:
    """Return a decision as an answer."""
    return EarlierDecision(
        submission=decision.submission_id,
        board=decision.board,
        moderator=decision.actor.removeprefix(ACTOR),
        state=decision.to_state,
        reason=decision.reason,
        meaning=_MEANINGS.get(decision.reason, ""),
        detail={name: value for name, value in decision.detail.items() if name != "findings"},
        at=rfc3339(decision.at_ms),
    )
