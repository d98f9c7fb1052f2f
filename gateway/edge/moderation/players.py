"""Shows moderators a player: name, bans, and submissions on their boards."""

from __future__ import annotations

from collections import Counter
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.bans import bans_shown
from gateway.edge.players.friends import named_player
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_players import PlayedSubmission, PlayedSubmissions, PlayerProfile
from gateway.ledger.moderation.player_submissions import SCANNED, RunOfPlayer, name_of_player, runs_of_player
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339
from policies.vocabulary import Reason

PAGE_LIMIT: Final = 100

_NEWEST: Final = 2**63 - 1
_MEANINGS: Final = {reason.value: reason.meaning for reason in Reason}


async def show_player(request: web.Request) -> web.Response:
    """Return a player, as far as the moderator's boards reach."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.READ, None)
    return json_response(await profile_of(edge, moderator, player))


async def profile_of(edge: Edge, moderator: Moderator, player: str) -> PlayerProfile:
    """Return a player as a moderator sees them. Raises `not-found` if their boards have nothing of them."""
    scopes = moderator.scopes(Ability.READ)
    query = runs_of_player(player, scopes, before=_NEWEST, count=SCANNED)
    runs = await edge.ledger.read(query, ReadKind.MODERATION)
    named = await edge.ledger.read(name_of_player(player), ReadKind.MODERATION)
    bans = await bans_shown(edge, moderator, player)
    if not runs.submissions and not bans:
        raise Problem(ProblemType.NOT_FOUND, "the player has nothing on the boards that you may read")
    return PlayerProfile(
        player=player,
        name=named.name if named else None,
        created_at=rfc3339(named.created_at_ms) if named else None,
        states=dict(Counter(run.state for run in runs.submissions)),
        builds=dict(Counter(run.build for run in runs.submissions)),
        boards=dict(Counter(run.board for run in runs.submissions)),
        is_whole=runs.before is None,
        bans=bans,
    )


async def list_submissions(request: web.Request) -> web.Response:
    """Return a page of a player's submissions on the moderator's boards, newest first."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.READ, None)
    scopes = moderator.scopes(Ability.READ)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    listed = ("submissions of", player, sorted(scopes))
    place = edge.cursors.place_in(request, listed)
    before = place[0] if place else _NEWEST
    query = runs_of_player(player, scopes, before=before, count=count)
    runs = await edge.ledger.read(query, ReadKind.MODERATION)
    following = edge.cursors.next_of(listed, None if runs.before is None else (runs.before,))
    shown = [_shown(run) for run in runs.submissions]
    return json_response(PlayedSubmissions(player=player, submissions=shown, next=following))


def _shown(run: RunOfPlayer) -> PlayedSubmission:
    return PlayedSubmission(
        submission=run.submission_id,
        board=run.board,
        score=run.score,
        build=run.build,
        state=run.state,
        reason=run.reason,
        meaning=_MEANINGS.get(run.reason, ""),
        received_at=rfc3339(run.received_at_ms),
    )
