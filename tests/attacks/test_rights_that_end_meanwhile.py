"""What ends while a request's body is on its way: the write looks again, in the transaction that stores it."""

from __future__ import annotations

import json
from base64 import b32decode
from typing import Any

import pytest
from aiohttp import web

from gateway.edge.auth.second_factors import code_at
from gateway.edge.http.body import read_body
from gateway.edge.moderation import decisions, own_account, people, renames, views
from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import account_of, change_account, disable_account
from gateway.ledger.moderation.sessions import end_sessions
from tests.attacks.test_moderation import a_held_run
from tests.support.harness import Harness, Request
from tests.support.logins import PASSWORD, admin, logged_in, with_password


def meanwhile(monkeypatch: pytest.MonkeyPatch, harness: Harness, work: Any) -> None:
    """Have the ledger do something right before the next write, whose request was let in already."""
    ledger, write = harness.edge.ledger, harness.edge.ledger.write

    async def late(wanted: Any) -> Any:
        monkeypatch.setattr(ledger, "write", write)
        await write(work)
        return await write(wanted)

    monkeypatch.setattr(ledger, "write", late)


def held_back(monkeypatch: pytest.MonkeyPatch, room: Any, harness: Harness, work: Any) -> None:
    """Have the ledger do something between the head of a request and its body."""

    async def late(request: web.Request, limit: int) -> bytes:
        await harness.edge.ledger.write(work)
        return await read_body(request, limit)

    monkeypatch.setattr(room, "read_body", late)


async def test_M11_who_was_disabled_decides_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Though the head of the request came before; nor do they rename, or save a view."""
    run = await a_held_run(harness)
    seen = await harness.as_seen(f"/v1/moderation/cases/{run.id}/approve", harness.moderator())
    named = {"was": "Ada", "name": "Eve", "code": "abusive"}
    for room, method, path, body in (
        (decisions, "POST", f"/cases/{run.id}/approve", {"code": "plausible"}),
        (renames, "POST", f"/players/{run.player}/rename", named),
        (views, "PUT", "/views/mine", {"filters": {"board": "sprint"}}),
    ):
        name = f"noor.{method}.{len(path)}".lower()
        bearer = {
            "Authorization": f"Bearer {harness.moderator(name=name)}",
            "Content-Type": "application/json",
        }
        held_back(monkeypatch, room, harness, disable_account(name, Act("operator", harness.clock())))
        sent = Request(method, f"/v1/moderation{path}", json.dumps(body).encode(), bearer | seen)
        answer = await harness.send(sent)
        assert (path, 401, "token-invalid") == (path, answer.status, answer.problem)
    assert "held" == await harness.state_of(run.id)


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


async def test_M11_an_admin_who_is_none_any_more_ends_nothing_of_others(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Neither sessions nor a token, nor those of a player, though they were an admin when the request was let in."""
    admin(harness)
    await with_password(harness, "eve", **{"*": "viewer"})
    browser = await logged_in(harness, "eve")
    token = (await browser.ask("POST", "/tokens", {"label": "a program", "password": PASSWORD})).body
    act = Act("moderator:root", harness.clock())
    ways = ("/people/eve/sessions", f"/people/eve/tokens/{token['token']}", "/players/p1/tokens")
    for number, path in enumerate(ways):
        name = await with_password(harness, f"mara{number}", **{"*": "admin"})
        admins = await logged_in(harness, name)
        ends = change_account(name, act, grants={"*": "viewer"}, players=())
        meanwhile(monkeypatch, harness, ends)
        answer = await admins.ask("DELETE", path)
        assert (path, 409, "state-conflict") == (path, answer.status, answer.problem)
    assert 200 == (await browser.ask("GET", "/session")).status
    assert 200 == (await harness.get("/v1/moderation/session", token["text"])).status


async def test_M11_a_session_that_was_ended_changes_no_way_in(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Not the password, and no second factor: each looks again where it writes."""
    name = await with_password(harness)
    seen = await harness.edge.ledger.read(account_of(name))
    assert seen is not None
    begun = (await (await logged_in(harness)).ask("POST", "/second-factor", {"password": PASSWORD})).body
    code = code_at(b32decode(begun["secret"]), harness.clock())
    for method, path, body in (
        ("PUT", "/password", {"password": PASSWORD, "new": "other otter 8"}),
        ("POST", "/second-factor", {"password": PASSWORD}),
        ("POST", "/second-factor/confirm", {"code": code}),
        ("POST", "/second-factor/remove", {"password": PASSWORD}),
    ):
        browser = await logged_in(harness)
        meanwhile(monkeypatch, harness, end_sessions(name, Act("moderator:root", harness.clock())))
        answer = await browser.ask(method, path, body)
        assert (path, 409, "state-conflict") == (path, answer.status, answer.problem)
    left = await harness.edge.ledger.read(account_of(name))
    assert left is not None
    assert (seen.password, False) == (left.password, left.has_second_factor)
    assert left.second_factor is not None, "what was begun before is still there"
