"""A stranger who tries to log in to an account uses up its limit on logins, and keeps its owner out of nothing else."""

from __future__ import annotations

from http.cookies import SimpleCookie

import pytest

from gateway.edge.auth.moderator_credentials import COOKIE
from gateway.edge.moderation.logins import ACCOUNT_RATE
from tests.support.harness import Answer, Harness, Request
from tests.support.logins import PASSWORD, attempt, invited, logged_in, with_password


async def used_up(harness: Harness, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have a stranger use up the limit on logins to an account."""

    async def no_work(*_: object) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(harness.edge.logins.passwords, "are_equal", no_work)
        answers = [await attempt(harness, name, "wrong") for _ in range(ACCOUNT_RATE.burst + 2)]
    assert (401, 429) == (answers[0].status, answers[-1].status)


async def accepted(harness: Harness, token: str) -> Answer:
    headers = {"Origin": harness.url, "Content-Type": "application/x-www-form-urlencoded"}
    form = b"password=hidden+heron+7&again=hidden+heron+7"
    request = Request("POST", f"/console/invitations/{token}", form, headers)
    async with harness.session.request(
        "POST", harness.url + request.path, data=form, headers=headers, allow_redirects=False
    ) as answer:
        return Answer(answer.status, answer.headers, await answer.read())


async def test_M13_who_is_invited_gets_in_while_a_stranger_tries(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The invitation itself opens the first session."""
    token = await invited(harness)
    await used_up(harness, monkeypatch, "noor")
    answer = await accepted(harness, token)
    assert (303, "/console/queue") == (answer.status, answer.headers["Location"])
    cookie = SimpleCookie(answer.headers["Set-Cookie"])[COOKIE].value
    who = Request("GET", "/v1/moderation/session", b"", {"Cookie": f"{COOKIE}={cookie}"})
    assert "noor" == (await harness.send(who)).body["moderator"]


async def test_M13_who_is_logged_in_shows_a_password_while_a_stranger_tries(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """And what they show again is limited too, by itself."""
    name = await with_password(harness)
    browser = await logged_in(harness)
    await used_up(harness, monkeypatch, name)
    shown = await browser.ask("POST", "/second-factor", {"password": PASSWORD})
    assert 201 == shown.status, shown.raw
    answers = [
        await browser.ask("POST", "/second-factor", {"password": ""}) for _ in range(ACCOUNT_RATE.burst + 1)
    ]
    assert (401, 429) == (answers[0].status, answers[-1].status)


async def test_M13_who_is_logged_in_shows_a_password_while_a_colleague_fails_behind_the_same_address(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The limit on logins of an address is for logins."""
    await with_password(harness)
    browser = await logged_in(harness)

    async def full(*_: object) -> int:
        return 60_000

    monkeypatch.setattr(harness.edge.logins._by_address, "wait_ms", full)
    assert 429 == (await attempt(harness, "noor")).status
    shown = await browser.ask("POST", "/second-factor", {"password": PASSWORD})
    assert 201 == shown.status, shown.raw
