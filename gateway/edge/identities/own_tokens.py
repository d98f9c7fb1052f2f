"""Issues players' tokens, and ends them when a player asks."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.auth.tokens import PLAYER_TOKEN_S, Bearer, Role
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import player_of, while_good
from gateway.edge.http.responses import json_response
from gateway.edge.players.friends import charge_profile
from gateway.edge.wire.identity_answers import PlayerToken
from gateway.ledger.acts import Act
from gateway.ledger.players.token_endings import end_tokens
from gateway.runtime.telemetry import Event, logger

_log = logger()


def token_for(edge: Edge, player: str, *, generation: int) -> str:
    """Return a new token of a player, of the generation that the ledger has for them."""
    now_s = edge.clock() // 1000
    bearer = Bearer(player, Role.PLAYER, now_s + PLAYER_TOKEN_S, generation)
    return edge.tokens.mint(bearer, now_s=now_s)


async def end_own_tokens(request: web.Request) -> web.Response:
    """End all tokens of the bearer, and answer 200 with a new one."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    await charge_profile(request, player)
    work = end_tokens(player, Act(f"player:{player}", edge.clock()))
    ending = await edge.ledger.write(while_good(bearer, work))
    edge.ended_tokens.note(ending)
    _log.info(Event.TOKENS_ENDED, player=player, by="player", seq=ending.changed_seq)
    answer = PlayerToken(player=player, token=token_for(edge, player, generation=ending.generation))
    return json_response(answer, headers={"Cache-Control": "no-store"})
