"""What each role may do: every route of moderators, by everybody who may send it a request."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.moderators import Ability, ModeratorRole
from gateway.edge.http import request
from gateway.edge.routes import ROUTES, Caller, Route
from gateway.index.limits.charging import LocalLimiter
from tests.support.attack import registered
from tests.support.every_route import request_for
from tests.support.harness import Harness

OF_MODERATORS = [route for route in ROUTES if route.caller is Caller.MODERATOR and not route.is_stream]
OF_ONES_SCOPES = {
    "GET /v1/moderation/figures",
    "GET /v1/moderation/trail",
    "GET /v1/moderation/trail.csv",
    "GET /v1/moderation/batches",
    "GET /v1/moderation/queue",
    "GET /v1/moderation/queue/counts",
    "POST /v1/moderation/queue/next",
    "GET /v1/moderation/players",
    "GET /v1/moderation/players/{player}/submissions",
    "GET /v1/moderation/players/{player}/bans",
}
"""Lists that show as much as the scopes of whoever asks have."""
DEPTH = {role: place for place, role in enumerate(ModeratorRole)}
REFUSALS = {(401, "token-invalid"), (403, "scope-forbidden")}


@pytest.fixture(autouse=True)
def attempts_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused here is not logged in the place of what other tests look for."""
    monkeypatch.setattr(request, "_attempts", LocalLimiter())


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


@dataclass
class Door:
    """An edge with a trusted server, before which everybody asks for the same."""

    harness: Harness
    private: Ed25519PrivateKey

    async def told(self, route: Route, token: str) -> tuple[int, str]:
        """The answer to a well-formed request by whoever has the token."""
        sent = request_for(self.harness, self.private, route)
        sent.headers |= {"If-Match": '"1"'} if route.is_conditional else {}
        sent.headers |= {"Authorization": f"Bearer {token}"}
        answer = await self.harness.send(sent)
        return answer.status, answer.problem


@pytest.fixture
async def door(harness: Harness) -> Door:
    return Door(harness, await registered(harness))


def test_every_route_of_moderators_names_its_ability():
    """A route without one would be for nobody to check; others have none."""
    assert [] == [named(route) for route in OF_MODERATORS if not isinstance(route.ability, Ability)]
    assert [] == [named(route) for route in ROUTES if route.caller is not Caller.MODERATOR and route.ability]
    assert [] == [
        named(route)
        for route in ROUTES
        if route.path.startswith("/v1/moderation/")
        and route.caller not in {Caller.MODERATOR, Caller.ACCOUNT}
        and route.path not in {"/v1/moderation/session", "/v1/moderation/invitations/{invitation}"}
    ]


@pytest.mark.parametrize("role", ModeratorRole)
async def test_M01_a_role_does_what_it_may_and_no_more(door: Door, role: ModeratorRole):
    """Each route is for its ability's role and the greater ones; a smaller role is told so."""
    token, wrong = door.harness.moderator(name=f"a-{role}", role=role), {}
    for route in OF_MODERATORS:
        assert route.ability is not None
        answer = await door.told(route, token)
        may = DEPTH[role] >= DEPTH[route.ability.role]
        if (answer in REFUSALS) if may else (answer != (403, "scope-forbidden")):
            wrong[named(route)] = answer
    assert {} == wrong


async def test_M02_a_role_elsewhere_is_none_here(door: Door):
    """To an admin of another board alone, nothing is there but what is of their own boards."""
    token, wrong = door.harness.moderator("elsewhere", name="far", role=ModeratorRole.ADMIN), {}
    for route in OF_MODERATORS:
        status, problem = await door.told(route, token)
        if status != (200 if named(route) in OF_ONES_SCOPES else 404):
            wrong[named(route)] = (status, problem)
    assert {} == wrong
