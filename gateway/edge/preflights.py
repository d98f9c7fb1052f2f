"""Preflights: what a browser asks before it sends the request of another origin's page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.http.other_origins import OTHER_ORIGIN, AllowedOrigins
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.route import Caller, Route

ACCEPTED: Final = (
    "Authorization, Content-Digest, Content-Type, If-None-Match, Last-Event-ID, Signature, Signature-Input"
)
"""The fields that pages may send besides those that every page may."""

PREFLIGHT_S: Final = 7200
"""How long a browser may keep the answer to a preflight. Chromium keeps none for longer."""

_PLAYERS: Final = frozenset({Caller.ANYONE, Caller.PLAYER, Caller.RUN})
"""Callers whose requests a page makes. No page has a game server's key, and moderators have the console."""


def add_preflights(app: web.Application, routes: Iterable[Route], origins: AllowedOrigins) -> None:
    """Have the paths that pages may use answer `OPTIONS`, by which browsers ask before they send."""
    methods: dict[str, list[str]] = {}
    for route in routes:
        if route.caller in _PLAYERS and origins.has(route.path):
            methods.setdefault(route.path, []).append(route.method)
    for path, own in methods.items():
        app.router.add_route("OPTIONS", path, _preflight(", ".join(own), origins))


def _preflight(methods: str, origins: AllowedOrigins) -> Handler:
    """Return the handler of a path's `OPTIONS`. It looks at nothing but the fields of the request.

    It is charged to nobody: it costs less than the refusal of an unknown path, and a page that has used up
    its reads may still submit.
    """
    allowed = {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": ACCEPTED,
        "Access-Control-Max-Age": str(PREFLIGHT_S),
    }

    async def answer_preflight(request: web.Request) -> web.Response:
        origin = request.headers.get("Origin")
        if origin is None or "Access-Control-Request-Method" not in request.headers:
            return web.Response(status=204, headers={"Allow": f"{methods}, OPTIONS"})
        if not origins.allows(request.raw_path, origin):
            raise Problem(ProblemType.CSRF, OTHER_ORIGIN)
        headers = dict(allowed)
        # A page of the Internet that the operator names may reach an edge in a private network; not any page.
        is_private = request.headers.get("Access-Control-Request-Private-Network") == "true"
        if is_private and origin in origins.of_path(request.raw_path):
            headers["Access-Control-Allow-Private-Network"] = "true"
        return web.Response(status=204, headers=headers)

    return answer_preflight
