"""What ends while a request's body is on its way: the write looks again, in the transaction that stores it."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from gateway.edge.http.body import read_body
from gateway.edge.moderation import own_account, people
from gateway.ledger.moderation.account_rows import Act
from gateway.ledger.moderation.accounts import account_of, disable_account
from gateway.ledger.moderation.sessions import end_sessions
from tests.support.harness import Harness
from tests.support.logins import PASSWORD, admin, logged_in, with_password


def held_back(monkeypatch: pytest.MonkeyPatch, room: Any, harness: Harness, work: Any) -> None:
    """Have the ledger do something between the head of a request and its body."""

    async def late(request: web.Request, limit: int) -> bytes:
        await harness.edge.ledger.write(work)
        return await read_body(request, limit)

    monkeypatch.setattr(room, "read_body", late)


async def test_M11_an_admin_who_was_disabled_adds_nobody(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Though the head of the request came before."""
    token = admin(harness)
    await with_password(harness, "mara", **{"*": "admin"})
    held_back(monkeypatch, people, harness, disable_account("root", Act("moderator:mara", harness.clock())))
    answer = await harness.post("/v1/moderation/people", {"name": "eve", "grants": {"*": "admin"}}, token)
    assert (409, "state-conflict") == (answer.status, answer.problem)
    assert await harness.edge.ledger.read(account_of("eve")) is None


async def test_M11_an_admin_who_was_disabled_changes_nobody(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """No account gets a role by them."""
    token = admin(harness)
    await with_password(harness, "mara", **{"*": "admin"})
    await with_password(harness, "eve", **{"*": "viewer"})
    held_back(monkeypatch, people, harness, disable_account("root", Act("moderator:mara", harness.clock())))
    path = "/v1/moderation/people/eve"
    seen = (await harness.get(path, token)).headers["ETag"]
    headers = {"Authorization": f"Bearer {token}", "If-Match": seen}
    async with harness.session.put(
        harness.url + path, json={"grants": {"*": "admin"}, "players": []}, headers=headers
    ) as answer:
        assert 409 == answer.status
    account = await harness.edge.ledger.read(account_of("eve"))
    assert account is not None
    assert {"*": "viewer"} == account.grants


async def test_M11_a_session_that_was_ended_issues_no_token(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Or who stole it would go on with the token."""
    name = await with_password(harness)
    browser = await logged_in(harness)
    held_back(monkeypatch, own_account, harness, end_sessions(name, Act("moderator:noor", harness.clock())))
    answer = await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})
    assert (409, "state-conflict") == (answer.status, answer.problem)
    assert [] == (await (await logged_in(harness, name)).ask("GET", "/tokens")).body["tokens"]
