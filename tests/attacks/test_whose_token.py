"""Tokens at routes that are not for their holders, at each one there is."""

from __future__ import annotations

from dataclasses import replace

from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.routes import ROUTES, Caller
from tests.support.attack import registered
from tests.support.every_route import requests
from tests.support.harness import Harness

FORBIDDEN = (403, "scope-forbidden")
NO_SUCH = {
    "/v1/boards/{board}/join": (409, "state-conflict"),
    "/v1/submissions/{submission}": (404, "not-found"),
}
"""What is said before anybody asks who it is: nobody has to join that board, and there is no such submission."""


async def test_E13_nobody_does_with_one_role_what_is_for_the_other(harness: Harness):
    """A moderator's token opens no run and follows nobody, a player's decides nothing, though each is good elsewhere."""
    private, now_s = await registered(harness), harness.clock() // 1000
    player = Bearer("ada", Role.PLAYER, now_s + 3600)
    tokens = {
        Caller.PLAYER: harness.moderator(),
        Caller.MODERATOR: harness.edge.tokens.mint(player, now_s=now_s),
    }
    told = {}
    for route, request in zip(ROUTES, requests(harness, private), strict=True):
        if route.caller in tokens:
            headers = request.headers | {"Authorization": f"Bearer {tokens[route.caller]}"}
            answer = await harness.send(replace(request, headers=headers))
            told[route.method, route.path] = (answer.status, answer.problem)
    assert {each: NO_SUCH.get(each[1], FORBIDDEN) for each in told} == told
    assert ("POST", "/v1/boards/{board}/runs") in told
