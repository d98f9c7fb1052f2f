"""Shows a player the state of a submission."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from gateway.edge.auth.moderator_credentials import has_credential
from gateway.edge.auth.moderators import Ability
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_credential, player_of
from gateway.edge.http.responses import IN_GOOD_STANDING, json_response, submission_status
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from policies.loader import Board
from policies.vocabulary import Reason, State


async def show_submission(request: web.Request) -> web.Response:
    """Return the state of a submission, to its player and the board's moderators."""
    edge, may_see = request.app[EDGE], await _reader(request)
    query = queries.submission(request.match_info["submission"])
    submission = await edge.ledger.read(query, ReadKind.PLAYERS)
    if submission is None or not may_see(submission):
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    board = await edge.catalogue.board(submission.board)
    rank = await _rank(edge, board, submission)
    divergent_tick = await _divergent_tick(edge, board, submission)
    reveal_by_ms = await _reveal_by_ms(edge, submission)
    return json_response(submission_status(submission, rank, divergent_tick, reveal_by_ms))


async def _reader(request: web.Request) -> Callable[[StoredSubmission], bool]:
    """Return whether who sent the request may see a submission. Raises `token-invalid`."""
    if has_credential(request):
        moderator = (await moderator_credential(request)).moderator
        return lambda submission: moderator.may(Ability.READ, submission.board)
    player = player_of(request).subject
    return lambda submission: submission.player == player


async def _reveal_by_ms(edge: Edge, submission: StoredSubmission) -> int | None:
    """Return the deadline of a requested recording; None if none is requested."""
    if submission.recording_digest is None or submission.state not in IN_GOOD_STANDING:
        return None
    commitment = await edge.ledger.read(reveals.commitment(submission.seq), ReadKind.PLAYERS)
    return commitment.due_at_ms if commitment else None


async def _rank(edge: Edge, board: Board | None, submission: StoredSubmission) -> int | None:
    """Return the all-time rank of a promoted submission's player, None without one that is known now."""
    if submission.state is not State.PROMOTED or board is None or await edge.outdated.has(board.name):
        return None
    reader = edge.of(board).reader
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
