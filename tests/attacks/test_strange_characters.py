"""Characters that no credential and no form of a moderator has: they are refused, and are no fault of the edge."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from gateway.edge.auth.moderator_secrets import TOKEN_PREFIX
from tests.support.harness import Answer, Harness
from tests.support.logins import PASSWORD, admin, logged_in, with_password
from tests.support.raw import exchange

BYTE = "\xff"
"""A byte that is no UTF-8: in a header's text it becomes half a character."""

WHO = "/v1/moderation/session"


async def sent(harness: Harness, line: str, *fields: str, body: bytes = b"") -> Answer:
    """The answer to a request whose fields are bytes as they stand."""
    head = [f"{line} HTTP/1.1", f"Host: {harness.authority}", *fields]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return await exchange(harness.authority, "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    "field",
    [
        f"Authorization: Bearer {TOKEN_PREFIX}{BYTE * 43}",
        f"Authorization: Bearer {BYTE}",
        f"Cookie: __Host-scoregate={BYTE * 43}",
    ],
    ids=["a moderator's token", "a player's token", "a cookie"],
)
async def test_M13_a_credential_that_is_no_text_is_nobodys(harness: Harness, field: str):
    """A byte that is no UTF-8, in a token or in the cookie, is refused as an unknown one."""
    assert 401 == (await sent(harness, f"GET {WHO}", field)).status


async def test_M06_a_forgery_token_that_is_no_text_is_none(harness: Harness):
    """A write whose own token has a byte that is no UTF-8 is refused, and does nothing."""
    await with_password(harness)
    browser = await logged_in(harness)
    fields = (f"Cookie: __Host-scoregate={browser.cookie}", f"Origin: {harness.url}")
    answer = await sent(harness, f"DELETE {WHO}", *fields, f"X-Scoregate-Csrf: {BYTE}")
    assert (403, "csrf") == (answer.status, answer.problem)
    assert 200 == (await browser.ask("GET", "/session")).status


async def test_M13_a_browsers_name_is_kept_in_plain_letters(harness: Harness):
    """A login goes on whatever the browser calls itself; what cannot be printed is left out."""
    name = await with_password(harness)
    body = b'{"name": "%b", "password": "%b"}' % (name.encode(), PASSWORD.encode())
    agent = f"User-Agent: Otter{BYTE} \xc3\xb6 7"
    answer = await sent(harness, f"POST {WHO}", agent, "Content-Type: application/json", body=body)
    assert 201 == answer.status, answer.raw
    browser = await logged_in(harness)
    listed = (await browser.ask("GET", "/sessions")).body["sessions"]
    assert "Otter  7" in {each["browser"] for each in listed}


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"name": "no\0or", "password": PASSWORD}, 400),
        ({"name": "noor", "password": "hidden\0heron 7"}, 400),
        ({"name": "n" * 65, "password": PASSWORD}, 422),
        ({"name": "noor", "password": "p" * 257}, 422),
        ({"name": "noor", "password": PASSWORD, "code": "1" * 17}, 422),
    ],
)
async def test_M13_the_sign_in_page_takes_what_the_api_takes(
    harness: Harness, form: dict[str, str], status: int, monkeypatch: pytest.MonkeyPatch
):
    """NUL and what is too long are refused before they come to a limit's key, a hash or the ledger."""

    async def charge(*_: object) -> None:
        pytest.fail("it was tried")

    monkeypatch.setattr(harness.edge.logins, "charge", charge)
    headers = {"Origin": harness.url, "Content-Type": "application/x-www-form-urlencoded"}
    async with harness.session.post(
        f"{harness.url}/console/sign-in", data=urlencode(form), headers=headers
    ) as answer:
        assert status == answer.status


@pytest.mark.parametrize(
    "path", ["/console/people?after=%00", "/console/queue?settled=%00", "/v1/moderation/trail?moderator=%00"]
)
async def test_no_query_has_a_character_that_databases_refuse(harness: Harness, path: str):
    """NUL is refused in every query: PostgreSQL has no such text."""
    assert 422 == (await sent(harness, f"GET {path}", f"Authorization: Bearer {admin(harness)}")).status
