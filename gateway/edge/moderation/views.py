"""Saved views of the queue: each moderator's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import TEXT_BODY, read_body
from gateway.edge.http.request import moderator_credential, parse_body
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.queue import queue_request
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_queue import NewView, SavedView, SavedViewList
from gateway.ledger.moderation import saved_views
from gateway.ledger.reads import ReadKind
from policies.errors import ViewsFull

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


async def list_views(request: web.Request) -> web.Response:
    """Return the moderator's saved views, by name."""
    moderator = (await moderator_credential(request)).moderator
    return _listed(await views_of(request.app[EDGE], moderator))


async def show_view(request: web.Request) -> web.Response:
    """Return one of the moderator's saved views."""
    moderator, name = (await moderator_credential(request)).moderator, request.match_info["view"]
    views = await views_of(request.app[EDGE], moderator)
    if name not in views:
        raise Problem(ProblemType.NOT_FOUND, "there is no saved view of this name")
    return json_response(SavedView(name=name, filters=views[name]))


async def put_view(request: web.Request) -> web.Response:
    """Save the filters of a queue under a name, in place of what has it already."""
    new = parse_body(await read_body(request, TEXT_BODY), NewView)
    moderator = await _writer_of(request)
    return _listed(await save_view(request.app[EDGE], moderator, request.match_info["view"], new.filters))


async def delete_view(request: web.Request) -> web.Response:
    """Remove a saved view of the moderator's."""
    moderator = await _writer_of(request)
    return _listed(await remove_view(request.app[EDGE], moderator, request.match_info["view"]))


async def _writer_of(request: web.Request) -> Moderator:
    """Return whose views a request changes. Raises `scope-forbidden` for a token that may only read."""
    credential = await moderator_credential(request)
    if credential.token is not None and credential.token.ability == Ability.READ:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, f"the token has the ability `{Ability.READ}` alone")
    return credential.moderator


async def views_of(edge: Edge, moderator: Moderator) -> saved_views.SavedViews:
    """Return the saved views of a moderator."""
    return await edge.ledger.read(saved_views.saved_views(moderator.name), ReadKind.MODERATION)


async def save_view(
    edge: Edge, moderator: Moderator, name: str, filters: Mapping[str, str]
) -> saved_views.SavedViews:
    """Save a view.

    Raises `schema-violation` for a name or filters that cannot be, `not-found` for a board out of reach, and
    `state-conflict` if there may be no more.
    """
    if not _NAME.fullmatch(name):
        detail = "the name: expected 1 to 40 characters of `a-z`, `0-9` and `-`, the first of which is no `-`"
        raise Problem(ProblemType.SCHEMA_VIOLATION, detail)
    queue_request(filters, moderator)
    try:
        return await edge.ledger.write(saved_views.save_view(moderator.name, name, filters))
    except ViewsFull as full:
        raise Problem(ProblemType.STATE_CONFLICT, str(full)) from None


async def remove_view(edge: Edge, moderator: Moderator, name: str) -> saved_views.SavedViews:
    """Remove a view, if it is there."""
    return await edge.ledger.write(saved_views.remove_view(moderator.name, name))


def _listed(views: saved_views.SavedViews) -> web.Response:
    shown = [SavedView(name=name, filters=filters) for name, filters in views.items()]
    return json_response(SavedViewList(views=shown))
