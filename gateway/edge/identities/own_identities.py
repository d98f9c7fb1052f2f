"""Lists and unlinks the identities of a player, and gives recovery codes."""

from __future__ import annotations

from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.http.request import player_of, while_good
from gateway.edge.http.responses import json_response
from gateway.edge.identities.recovery_codes import new_recovery_code
from gateway.edge.identities.signing_in import act_of, recovery_identity, stored_or_refused
from gateway.edge.players.friends import charge_profile
from gateway.edge.players.linked_identities import identities_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.identity_answers import RecoveryCode
from gateway.ledger.players import identities as stored
from gateway.ledger.players.identities import Identity
from gateway.ledger.reads import ReadKind
from policies.errors import LastWayIn


async def list_identities(request: web.Request) -> web.Response:
    """Return by what the bearer can sign in, the oldest first."""
    edge, player = request.app[EDGE], (await player_of(request)).subject
    headers = {"Cache-Control": "private, no-store"}
    return json_response(await identities_shown(edge, player), headers=headers)


async def unlink_identity(request: web.Request) -> web.Response:
    """Take an identity from the bearer, and answer 200 with those that are left."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    own = await edge.ledger.read(stored.identities_of(player), ReadKind.PLAYERS)
    named = [each for each in own if each.shown_id == request.match_info["identity"]]
    if not named:
        raise Problem(ProblemType.NOT_FOUND, "you have no such identity")
    await charge_profile(request, player)
    identity = Identity(named[0].provider, named[0].subject_digest)
    try:
        work = stored.unlink(identity, player, act_of(edge, player))
        await edge.ledger.write(while_good(bearer, work))
    except LastWayIn:
        detail = "it is the last by which you can sign in: link another, or make a recovery code, first"
        raise Problem(ProblemType.STATE_CONFLICT, detail) from None
    return await list_identities(request)


async def make_recovery_code(request: web.Request) -> web.Response:
    """Answer 201 with a new recovery code of the bearer, which is shown once. The one of before is void."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    await charge_profile(request, player)
    code = new_recovery_code()
    replacing = stored.replace_recovery(recovery_identity(edge, code), player, act_of(edge, player))
    await stored_or_refused(edge, while_good(bearer, replacing))
    answer = RecoveryCode(player=player, recovery_code=code)
    return json_response(answer, status=201, headers={"Cache-Control": "no-store"})
