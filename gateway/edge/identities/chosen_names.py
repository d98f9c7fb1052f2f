"""Renames players as they wish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.context import EDGE, Edge
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
from gateway.ledger.players.own_names import choose_name, would_be_renamed
from gateway.ledger.reads import ReadKind
from gateway.settlement.shown_names import show_name
from policies.errors import NameTaken, NotRenamed

_PRIVATE: Final = {"Cache-Control": "private, no-store"}


async def rename_oneself(request: web.Request) -> web.Response:
    """Answer 200 once the bearer has the name, which every board shows at once."""
    edge, bearer = request.app[EDGE], await player_of(request)
    player = bearer.subject
    name = display_name(parse_body(await read_body(request, SMALL_BODY), WishedName).name)
    await charge_profile(request, player)
    with _refusals_as_problems():
        await _charge_name(edge, player, name)
        work = choose_name(player, name, act_of(edge, player), is_unique=edge.settings.unique_names)
        await edge.ledger.write(while_good(bearer, work))
    # Also if it was done before: the process that did it may have died before it showed the name.
    await show_name(edge.ledger, edge.index, edge.catalogue, player)
    return json_response(NameShown(player=player, name=name), headers=_PRIVATE)


async def _charge_name(edge: Edge, player: str, name: str) -> None:
    """Charge a change of name; not what is refused, nor what changes nothing. Raises `quota-exceeded`."""
    looking = would_be_renamed(player, name, is_unique=edge.settings.unique_names)
    if not await edge.ledger.read(looking, ReadKind.PLAYERS):
        return
    wait_ms = await edge.identities.name_wait_ms(player)
    if wait_ms:
        raise quota_exceeded("name", NAME_RATE, wait_ms)


@contextmanager
def _refusals_as_problems() -> Iterator[None]:
    try:
        yield
    except NotRenamed as refusal:
        raise Problem(ProblemType.STATE_CONFLICT, str(refusal)) from None
    except NameTaken:
        raise Problem(ProblemType.NAME_TAKEN, "choose another name") from None
