"""Changes of a profile are charged to its player, so that nobody makes the ledger write them without end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.edge.routes import ROUTES, Caller
from tests.attacks.test_identities import created, new_key
from tests.support.attack import registered
from tests.support.every_route import request_for
from tests.support.harness import Harness

CHARGED = {
    ("DELETE", "/v1/erasure"),
    ("DELETE", "/v1/friends/{player}"),
    ("DELETE", "/v1/identities/{identity}"),
    ("DELETE", "/v1/merges/{merge}"),
    ("DELETE", "/v1/tokens"),
    ("GET", "/v1/export"),
    ("POST", "/v1/merges"),
    ("POST", "/v1/recovery-code"),
    ("PUT", "/v1/erasure"),
    ("PUT", "/v1/friends/{player}"),
    ("PUT", "/v1/name"),
}


async def test_what_changes_a_profile_is_charged_and_nothing_else(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Who has made too many is refused by each such route, before it does anything, and by no read."""

    async def must_wait(_player: str) -> int:
        return 5_000

    monkeypatch.setattr(harness.edge.profile_limit, "wait_ms", must_wait)
    private, token = (
        await registered(harness),
        str((await created(harness, device_key=new_key())).body["token"]),
    )
    [own] = (await harness.get("/v1/identities", token)).body["identities"]
    refused = set()
    for route in ROUTES:
        if route.caller is Caller.PLAYER and not route.is_stream:
            sent = request_for(harness, private, route)
            sent = replace(
                sent, path=sent.path.replace(f"/identities/{'0' * 16}", f"/identities/{own['identity']}")
            )
            sent.headers |= {"Authorization": f"Bearer {token}"}
            answer = await harness.send(sent)
            if answer.problem == "quota-exceeded":
                assert "5" == answer.headers["Retry-After"]
                refused.add((route.method, route.path))
    assert CHARGED == refused
