"""Moderators with passwords, who log in as a browser does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any

from gateway.edge.auth.moderator_credentials import COOKIE
from gateway.edge.auth.moderators import ModeratorRole
from tests.support.harness import Answer, Harness, Request

PASSWORD = "hidden heron 7"


@dataclass
class Browser:
    """A page of the deployment in a moderator's browser: it sends the cookie, the origin and the CSRF token."""

    harness: Harness
    cookie: str
    csrf: str

    async def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> Answer:
        """The answer to a request; a header of None is left out."""
        own: dict[str, str | None] = {
            "Cookie": f"{COOKIE}={self.cookie}",
            "Origin": self.harness.url,
            "Sec-Fetch-Site": "same-origin",
            "X-Scoregate-Csrf": self.csrf,
            "Content-Type": "application/json" if body is not None else None,
        } | headers
        sent = {name: value for name, value in own.items() if value is not None}
        content = b"" if body is None else json.dumps(body).encode()
        return await self.harness.send(Request(method, f"/v1/moderation{path}", content, sent))


def admin(harness: Harness) -> str:
    """The token of an admin."""
    return harness.moderator(name="root", role=ModeratorRole.ADMIN)


async def invited(harness: Harness, name: str = "noor", **grants: str) -> str:
    """The token of the invitation of a new moderator: of every board, if nothing else is said."""
    body = {"name": name, "grants": grants or {"*": "senior"}}
    answer = await harness.post("/v1/moderation/people", body, admin(harness))
    assert answer.status == 201, answer.raw
    return str(answer.body["page"].rpartition("/")[2])


async def with_password(harness: Harness, name: str = "noor", **grants: str) -> str:
    """The name of a new moderator who has set PASSWORD."""
    path = f"/v1/moderation/invitations/{await invited(harness, name, **grants)}"
    answer = await harness.post(path, {"password": PASSWORD})
    assert (200, name) == (answer.status, answer.body["moderator"]), answer.raw
    return name


async def attempt(
    harness: Harness, name: str, password: str = PASSWORD, code: str = "", **headers: str
) -> Answer:
    """The answer to a login."""
    body = json.dumps({"name": name, "password": password, "code": code}).encode()
    own = {"Content-Type": "application/json"} | headers
    return await harness.send(Request("POST", "/v1/moderation/session", body, own))


async def logged_in(harness: Harness, name: str = "noor", code: str = "") -> Browser:
    """The browser of a moderator who has just logged in."""
    answer = await attempt(harness, name, code=code)
    assert answer.status == 201, answer.raw
    return Browser(harness, cookie_of(answer).value, answer.body["csrf"])


def cookie_of(answer: Answer) -> Any:
    """The session's cookie, with its attributes."""
    return SimpleCookie(answer.headers["Set-Cookie"])[COOKIE]
