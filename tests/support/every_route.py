"""One well-formed, well-signed request for each route, so that a test can ask for all there is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from typing import Any

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth.signing import Draft, sign_ed25519
from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.routes import ROUTES, Caller, Route
from tests.support.attack import CLAIM, honest, issued
from tests.support.harness import Harness, Request

PATIENCE_S = 20.0

_FILE = b"some octets"
_NAMES = {
    "batch": "0" * 24,
    "digest": hashlib.sha256(_FILE).hexdigest(),
    "family": "track",
    "player": "ada",
    "ban": "0" * 24,
    "segment": "country",
    "session": "0" * 16,
    "token": "0" * 16,
    "identity": "0" * 16,
    "merge": "m" + "0" * 20,
    "invitation": "0" * 43,
    "moderator": "nobody",
    "submission": "0" * 32,
    "view": "mine",
}
_OCTETS = {"Content-Type": "application/octet-stream"}
_JSON = {"Content-Type": "application/json"}


def _operation() -> dict[str, Any]:
    return {"operation": secrets.token_hex(8), "player": "ada"}


def _body(route: Route) -> Any:
    bodies: dict[str, Any] = {
        "NewPlayer": {"name": "Ada"},
        "NewMerge": {"token": "a.b.c"},
        "SignIn": {"provider": "device", "credential": secrets.token_urlsafe(18), "name": "Ada"},
        "WishedName": {"name": "Ada"},
        "NewRun": {"build": "b-1"},
        "NewFriends": {"operation": secrets.token_hex(8), "friends": ["bob"]},
        "NewEntry": _operation() | {"score": 7},
        "NewIncrement": _operation() | {"by": 7},
        "NewJoin": _operation() | {"joined": True},
        "NewMembership": _operation() | {"segments": {"country": "fi"}},
        "NewDeclaration": {"value": "fi"},
        "NewRemoval": _operation(),
        "NewBatch": [{"action": "write"} | _operation() | {"score": 7}],
        "NewBoardOperations": {
            "operation": secrets.token_hex(8),
            "boards": [{"action": "open", "board": "track.monza", "title": "Monza"}],
        },
        "NewOperations": [{"action": "write"} | _operation() | {"score": 7}],
        "PlayerStatement": {"text": "it was me"},
        "NewDecisionBatch": {
            "operation": secrets.token_hex(8),
            "action": "revoke",
            "code": "other",
            "note": "it is wrong",
            "selection": {"board": "vault"},
        },
        "NewDecision": {"code": "other", "note": "it is right"},
        "NewLogin": {"name": "nobody", "password": "no password"},
        "InvitationAccepted": {"password": "hidden heron 7"},
        "NewPassword": {"password": "no password", "new": "hidden heron 7"},
        "PasswordShown": {"password": "no password"},
        "SecondFactorCode": {"code": "000000"},
        "NewToken": {"label": "a program", "password": "no password"},
        "NewModerator": {"name": "noor", "grants": {"*": "viewer"}},
        "ModeratorChange": {"grants": {"*": "viewer"}},
        "NewName": {"was": "Ada", "name": "Bob", "code": "abusive"},
        "NameUndone": {"was": "Ada"},
        "NewView": {"filters": {"min_age_s": "60"}},
        "NewBan": {"operation": secrets.token_hex(8), "board": "other", "code": "cheating"},
    }
    return bodies[route.body.__name__] if route.body else None


def requests(harness: Harness, private: Ed25519PrivateKey, *, player: str = "ada") -> list[Request]:
    """A request for each route by whoever may call it; boards: `sprint` for players, `vault` for servers."""
    return [request_for(harness, private, route, player) for route in ROUTES]


def request_for(harness: Harness, private: Ed25519PrivateKey, route: Route, player: str = "ada") -> Request:
    """A request for one route by whoever may call it."""
    if route.caller is Caller.RUN:
        return honest(harness, issued(harness, player), CLAIM)
    board = "total" if route.path.endswith("increments") else "vault"
    names = _NAMES | {"board": "sprint" if route.path.endswith("/runs") else board}
    path = route.path.format_map(names)
    if route.caller is Caller.PLAYER and "friends" in path:
        path = path.replace("ada", "bob")
    if route.method == "DELETE" and path.endswith("/tokens"):  # whose token no other request has
        path, player = path.replace("ada", "bob"), "bob"
    body = _FILE if route.takes_octets else b"" if route.body is None else json.dumps(_body(route)).encode()
    headers = _OCTETS if route.takes_octets else _JSON if body else {}
    if route.caller is Caller.SERVER:
        headers = _signed_by_server(
            harness, private, route.method, path, body, content_type=(headers or _JSON)["Content-Type"]
        )
    elif route.caller in {Caller.PLAYER, Caller.MODERATOR, Caller.ACCOUNT}:
        headers = headers | {"Authorization": f"Bearer {_token(harness, route.caller, player)}"}
    return Request(route.method, path, body, dict(headers))


def _token(harness: Harness, caller: Caller, player: str) -> str:
    if caller is not Caller.PLAYER:
        return harness.moderator()
    now_s = harness.clock() // 1000
    return harness.edge.tokens.mint(Bearer(player, Role.PLAYER, now_s + 3600), now_s=now_s)


def _signed_by_server(
    harness: Harness, private: Ed25519PrivateKey, method: str, path: str, body: bytes, *, content_type: str
) -> dict[str, str]:
    created = harness.clock() // 1000
    draft = Draft(
        method=method,
        authority=harness.authority,
        path=path,
        body=body,
        created=created,
        expires=created + 60,
        nonce=secrets.token_urlsafe(18),
        keyid="eu-1",
        tag="scoregate-server",
        content_type=content_type,
    )
    return dict(sign_ed25519(private, draft))


async def statuses(harness: Harness, asked: list[Request]) -> dict[str, int]:
    """The status of the answer to each; the body of a live feed is not waited for."""

    async def status_of(request: Request) -> int:
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with harness.session.request(
            request.method,
            harness.url + request.path,
            data=request.body,
            headers=request.headers,
            timeout=timeout,
        ) as answer:
            return answer.status

    found = await asyncio.gather(*map(status_of, asked))
    return {f"{each.method} {each.path}": status for each, status in zip(asked, found, strict=True)}
