"""What it costs the ledger to know who sends a request of a moderator, and whose reads it waits beside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.edge.auth.moderator_secrets import TOKEN_PREFIX
from gateway.edge.moderation import logins
from gateway.ledger.reads import ReadKind
from policies.limits import Rate
from tests.support.harness import Harness, Request
from tests.support.logins import admin, attempt, invited, logged_in, with_password
from tests.support.standstill import standstill

WHO = "/v1/moderation/session"


@pytest.fixture
def read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that the edge reads from now on."""
    names: list[str] = []
    plain: Callable[..., Awaitable[Any]] = harness.edge.ledger.read

    async def noting(work: Any, *kind: Any) -> Any:
        names.append(work.__qualname__.partition(".")[0])
        return await plain(work, *kind)

    monkeypatch.setattr(harness.edge.ledger, "read", noting)
    return names


async def test_M13_a_slow_read_of_a_moderator_keeps_nobody_out(harness: Harness):
    """While all places of moderators' reads are taken, sessions, tokens and logins are known as before."""
    name, token = await with_password(harness), admin(harness)
    browser = await logged_in(harness)
    with standstill() as held_up:

        async def slow(_tx: Any) -> None:  # in a thread of the ledger's
            held_up.stand()

        held = [asyncio.ensure_future(harness.edge.ledger.read(slow, ReadKind.MODERATION)) for _ in range(2)]
        await held_up.reached()
        async with asyncio.timeout(4):
            assert 200 == (await browser.ask("GET", "/session")).status
            assert 200 == (await harness.get(WHO, token)).status
            assert 201 == (await attempt(harness, name)).status
    await asyncio.gather(*held)


async def test_M13_what_cannot_be_a_credential_is_not_looked_for(harness: Harness, read: list[str]):
    """Only 43 characters of base64url may be a cookie's, and a token's behind its prefix."""
    for secret in ("x", "A" * 42, "A" * 44, "A" * 42 + "!"):
        assert 401 == (await harness.get(WHO, TOKEN_PREFIX + secret)).status
        asked = Request("GET", WHO, b"", {"Cookie": f"__Host-scoregate={secret}"})
        assert 401 == (await harness.send(asked)).status
    assert [] == read
    assert 401 == (await harness.get(WHO, TOKEN_PREFIX + "A" * 43)).status
    assert ["token_of"] == read


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"X-Scoregate-Csrf": "A" * 43}])
async def test_M13_a_foreign_write_is_refused_before_its_session_is_looked_for(
    harness: Harness, read: list[str], headers: dict[str, str]
):
    """Another site cannot have a visitor's browser cost the ledger anything."""
    await with_password(harness)
    browser = await logged_in(harness)
    read.clear()
    assert 403 == (await browser.ask("DELETE", "/session", **headers)).status
    assert [] == read


async def test_M13_a_request_reads_its_credential_once(harness: Harness, read: list[str]):
    """Also the page that asks for it in each of its parts; by a session as by a token."""
    await invited(harness)
    token = admin(harness)
    await with_password(harness, "lena", **{"*": "admin"})
    browser = await logged_in(harness, "lena")
    page = f"{harness.url}/console/people/noor"
    read.clear()
    async with harness.session.get(page, headers={"Authorization": f"Bearer {token}"}) as answer:
        assert 200 == answer.status
    async with harness.session.get(page, headers={"Cookie": f"__Host-scoregate={browser.cookie}"}) as answer:
        assert 200 == answer.status
    assert (1, 1) == (read.count("token_of"), read.count("session_of"))


async def test_M13_the_page_of_an_invitation_is_limited_as_its_answer_is(
    harness: Harness, read: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Who asks for invitations again and again is refused without a reading, whichever way they ask."""
    monkeypatch.setattr(logins, "ADDRESS_RATE", Rate(per_minute=1, burst=1))
    limited = logins.AddressLimit(harness.edge.index.client, logins.ADDRESS_RATE, logins.keys.login_address)
    monkeypatch.setattr(harness.edge.logins, "_by_address", limited)
    path = "/console/invitations/nothing"
    assert 404 == (await harness.get(path)).status
    read.clear()
    headers = {"Origin": harness.url, "Content-Type": "application/x-www-form-urlencoded"}
    assert 429 == (await harness.get(path)).status
    for form in (b"password=a&again=b", b"password=hidden+heron+7&again=hidden+heron+7"):
        assert 429 == (await harness.send(Request("POST", path, form, headers))).status
    assert [] == read
