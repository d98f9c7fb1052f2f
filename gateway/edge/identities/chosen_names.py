"""Renames players as they wish."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.context import EDGE
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.request import parse_body, player_of, while_good
from gateway.edge.http.responses import json_response
from gateway.edge.identities.identity_parts import NAME_RATE
from gateway.edge.identities.signing_in import act_of
from gateway.edge.players.friends import charge_profile
from gateway.edge.players.names import display_name
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.identity_answers import NameShown
from gateway.edge.wire.identity_bodies import WishedName
from gateway.ledger.players.own_names import choose_name
from gateway.settlement.shown_names import show_name
from policies.errors import NameTaken, NotRenamed

_PRIVATE: Final = {"Cache-Control": "private, no-store"}


async def rename_oneself(request: web.Request) -> web.Response:
    """Answer 200 once the bearer has the name, which every board shows at once."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    name = display_name(parse_body(await read_body(request, SMALL_BODY), WishedName).name)
    await charge_profile(request, player)
    wait_ms = await edge.identities.name_wait_ms(player)
    if wait_ms:
        raise quota_exceeded("name", NAME_RATE, wait_ms)
    work = choose_name(player, name, act_of(edge, player), is_unique=edge.settings.unique_names)
    try:
        await edge.ledger.write(while_good(bearer, work))
    except NotRenamed as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    except NameTaken:
        raise Problem(ProblemType.NAME_TAKEN, "choose another name") from None
    # Also if it was done before: the process that did it may have died before it showed the name.
    await show_name(edge.ledger, edge.index, edge.catalogue, player)
    return json_response(NameShown(player=player, name=name), headers=_PRIVATE)
