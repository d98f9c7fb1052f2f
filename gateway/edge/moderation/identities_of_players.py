"""Lists the identities of players, and takes some away, as a senior of all boards: they reach all of them."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.auth.moderators import EVERYWHERE, Ability
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.bans import refuse_own_players
from gateway.edge.players.friends import named_player
from gateway.edge.players.linked_identities import identities_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import while_senior
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.players import identities as stored
from gateway.ledger.players.identities import Identity
from gateway.ledger.reads import ReadKind
from gateway.runtime.telemetry import Event, logger

_log = logger()


async def list_identities_of_player(request: web.Request) -> web.Response:
    """Return by what a player can sign in, the oldest first."""
    edge, player = request.app[EDGE], named_player(request)
    await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    return json_response(await identities_shown(edge, player))


async def unlink_identity_of_player(request: web.Request) -> web.Response:
    """Take an identity from a player, be it the last, end all their tokens, and return what is left."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    await refuse_own_players(edge, moderator, player)
    identity = await _named(edge, player, request.match_info["identity"])
    taking = stored.take_away(identity, player, Act(ACTOR + moderator.name, edge.clock()))
    with account_refusals_as_problems():
        ended = await edge.ledger.write(while_senior(moderator.name, taking))
    if ended is None:
        raise _not_found()
    edge.ended_tokens.note(ended)
    _log.info(Event.IDENTITY_UNLINKED, player=player, by=moderator.name, seq=ended.changed_seq)
    return json_response(await identities_shown(edge, player))


async def _named(edge: Edge, player: str, shown_id: str) -> Identity:
    """Return the identity of a player that is shown by this id. Raises `not-found`."""
    own = await edge.ledger.read(stored.identities_of(player), ReadKind.MODERATION)
    for each in own:
        if each.shown_id == shown_id:
            return Identity(each.provider, each.subject_digest)
    raise _not_found()


def _not_found() -> Problem:
    return Problem(ProblemType.NOT_FOUND, "the player has no such identity now; read which there are")
