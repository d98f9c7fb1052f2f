"""Shows a player the state of a submission."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderator_credentials import has_credential
from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_credential, player_of
from gateway.edge.http.responses import (
    IN_GOOD_STANDING,
    NO_CASE,
    PlayersCase,
    json_response,
    submission_status,
)
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.own_view import reader_for
from gateway.edge.wire.moderation_decisions import AppealShown, QuestionShown
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.moderation.bans import bans_of, is_shadow
from gateway.ledger.moderation.cases import StoredCase
from gateway.ledger.moderation.checks import check_hidden_from
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.runtime.clock import rfc3339
from gateway.settlement.case_history import (
    CaseHistory,
    appeal_until_ms,
    appealed_decision,
    denial_of_appeal,
    message_to_player,
    open_question,
    reason_without_bans,
    without_bans,
)
from gateway.settlement.known_answers import as_checked, seen_before
from policies.loader import Board
from policies.vocabulary import Reason, State

BANS: Final = 100
"""Bans of a player that are looked at, the newest."""

_WITH_CASES: Final = frozenset({State.HELD, State.REJECTED, State.REVOKED})
_TOLD: Final = frozenset({Reason.APPROVED, Reason.REINSTATED, Reason.APPEAL_GRANTED})
"""States and reasons of submissions of which a moderator may have told their player something."""


async def show_submission(request: web.Request) -> web.Response:
    """Return the state of a submission, to its player and the board's moderators."""
    edge, moderator = request.app[EDGE], await _moderator(request)
    query = queries.submission(request.match_info["submission"])
    submission = await edge.ledger.read(query, ReadKind.PLAYERS)
    if submission is None or not await _may_see(request, moderator, submission):
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    board = await edge.catalogue.board(submission.board)
    check = await _check(edge, moderator, submission)
    if check is not None:
        submission = as_checked(submission, check)
    elif submission.reason is Reason.BANNED and moderator is None:
        submission = await _to_its_player(edge, submission)
    rank = await _rank(request, board, submission)
    divergent_tick = await _divergent_tick(edge, board, submission)
    reveal_by_ms = await _reveal_by_ms(edge, submission)
    case = await _case(edge, board, submission, check)
    return json_response(submission_status(submission, rank, divergent_tick, reveal_by_ms, case))


async def _check(edge: Edge, moderator: Moderator | None, submission: StoredSubmission) -> StoredCase | None:
    """Return the check of a submission that hides its state from the moderator who asks, if one does."""
    if moderator is None:
        return None
    query = check_hidden_from(moderator.name, submission.submission_id)
    return await edge.ledger.read(query, ReadKind.MODERATION)


async def _to_its_player(edge: Edge, submission: StoredSubmission) -> StoredSubmission:
    """Return a submission that a ban revokes; as if it counted, if its player must not notice the ban."""
    # The ledger says so: this edge may not have heard of the ban yet.
    stored = await edge.ledger.read(bans_of(submission.player, count=BANS), ReadKind.PLAYERS)
    if not is_shadow(stored, submission.board):
        return submission
    history = await edge.ledger.read(queries.history_of(submission.submission_id), ReadKind.PLAYERS)
    return replace(submission, state=State.PROMOTED, reason=reason_without_bans(history))


async def _case(
    edge: Edge, board: Board | None, submission: StoredSubmission, check: StoredCase | None
) -> PlayersCase:
    """Return what the player sees of the case; nothing while no moderator can have said anything."""
    if board is None or (submission.state not in _WITH_CASES and submission.reason not in _TOLD):
        return NO_CASE
    history: CaseHistory = await edge.ledger.read(
        queries.history_of(submission.submission_id), ReadKind.PLAYERS
    )
    if check is not None:
        history = seen_before(history, check.known_seq)
    if submission.reason is not Reason.BANNED:
        history = without_bans(history)
    return PlayersCase(
        message_to_player(history), _question(history), _appeal(history, board, now_ms=edge.clock())
    )


def _question(history: CaseHistory) -> QuestionShown | None:
    asked = open_question(history)
    if asked is None:
        return None
    return QuestionShown(
        text=asked["detail"]["message"],
        asked_at=rfc3339(asked["at_ms"]),
        answer_by=rfc3339(asked["detail"]["answer_by_ms"]),
    )


def _appeal(history: CaseHistory, board: Board, *, now_ms: int) -> AppealShown | None:
    if appealed_decision(history):
        return AppealShown(state="open")
    if denial_of_appeal(history):
        return AppealShown(state="denied")
    until_ms = appeal_until_ms(history, board.policy.moderation.appeal_days)
    if until_ms is None or now_ms > until_ms:
        return None
    return AppealShown(state="possible", until=rfc3339(until_ms))


async def _moderator(request: web.Request) -> Moderator | None:
    """Return the moderator who sent the request, None if a player did. Raises `token-invalid`."""
    if has_credential(request):
        return (await moderator_credential(request)).moderator
    await player_of(request)
    return None


async def _may_see(request: web.Request, moderator: Moderator | None, submission: StoredSubmission) -> bool:
    if moderator is not None:
        return moderator.may(Ability.READ, submission.board)
    return (await player_of(request)).subject in submission.players


async def _reveal_by_ms(edge: Edge, submission: StoredSubmission) -> int | None:
    """Return the deadline of a requested recording; None if none is requested."""
    if submission.recording_digest is None or submission.state not in IN_GOOD_STANDING:
        return None
    commitment = await edge.ledger.read(reveals.commitment(submission.seq), ReadKind.PLAYERS)
    return commitment.due_at_ms if commitment else None


async def _rank(request: web.Request, board: Board | None, submission: StoredSubmission) -> int | None:
    """Return the all-time rank of a promoted submission's player, None without one that is known now."""
    edge = request.app[EDGE]
    if submission.state is not State.PROMOTED or board is None or await edge.outdated.has(board.name):
        return None
    reader = await reader_for(request, board, "alltime")
    try:
        kind = reader.index.ranking.policy.ranks[0]
        page, _ = await reader.around("alltime", submission.player, 0, kind)
    except Problem:
        return None
    return page.entries[0].rank if page.entries else None


async def _divergent_tick(edge: Edge, board: Board | None, submission: StoredSubmission) -> int | None:
    """Return the first checkpoint at which the replay differed, if players of this build may know."""
    build = board and board.policy.builds.get(submission.build)
    if submission.reason is not Reason.DIVERGED or not build or not build.tells_divergence:
        return None
    history = await edge.ledger.read(queries.history_of(submission.submission_id), ReadKind.PLAYERS)
    ticks = (event["detail"].get("first_divergent_tick") for event in reversed(history))
    return next((tick for tick in ticks if isinstance(tick, int)), None)
