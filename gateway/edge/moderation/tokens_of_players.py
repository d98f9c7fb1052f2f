"""Ends all tokens of a player, as a senior of all boards: a token reaches all of them."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.auth.moderators import EVERYWHERE, Ability
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.account_refusals import account_refusals_as_problems
from gateway.edge.moderation.bans import refuse_own_players
from gateway.edge.players.friends import named_player
from gateway.edge.wire.identity_answers import TokensEnded
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import while_senior
from gateway.ledger.moderation.trail import ACTOR
from gateway.ledger.players.token_endings import end_tokens
from gateway.runtime.clock import rfc3339
from gateway.runtime.telemetry import Event, logger

_log = logger()


async def end_tokens_of_player(request: web.Request) -> web.Response:
    """End all tokens of a player, who needs a way to sign in again."""
    edge, player = request.app[EDGE], named_player(request)
    moderator = await moderator_of(request, Ability.OVERRULE, EVERYWHERE)
    await refuse_own_players(edge, moderator, player)
    ending = end_tokens(player, Act(ACTOR + moderator.name, edge.clock()))
    with account_refusals_as_problems():
        ended = await edge.ledger.write(while_senior(moderator.name, ending))
    edge.ended_tokens.note(ended)
    _log.info(Event.TOKENS_ENDED, player=player, by=moderator.name, seq=ended.changed_seq)
    return json_response(TokensEnded(player=player, ended_at=rfc3339(ended.ended_at_ms)))
