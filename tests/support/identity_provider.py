"""A small identity provider of OpenID Connect: it publishes its keys, asks nobody for a password, and can lie."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey
from pydantic import SecretStr

from tests.support.ports import free_port

CLIENT_ID = "scoregate-desk"
CLIENT_SECRET = "a s\u00e9cret+/: of the client"


def ec_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})


def client_settings(provider: SmallProvider) -> dict[str, Any]:
    """The settings of an edge that is a client of the provider."""
    return {
        "oidc_issuer": provider.url,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": SecretStr(CLIENT_SECRET),
        "oidc_name": "Keyhouse",
    }


@dataclass
class SmallProvider:
    """The provider, and what it does otherwise than it should."""

    url: str
    now_s: Callable[[], float]
    key: Any = field(default_factory=lambda: ec_key("one"))
    algorithm: str = "ES256"
    subject: str = "248289761001"
    lies: dict[str, Any] = field(default_factory=dict)
    """Claims in the place of the true ones; None leaves one out."""
    document_lies: dict[str, Any] = field(default_factory=dict)
    token_answer: web.Response | None = None
    held: asyncio.Event | None = None
    """Until it is set, nothing is answered."""
    counts: dict[str, int] = field(default_factory=dict)
    signing: Any = None
    _codes: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._document)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/authorize", self._log_in)
        return app

    def logs_in(self, address: str, **changed: str) -> str:
        """What the address has the browser open when it has been there: the redirect, with code and state."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert address.startswith(f"{self.url}/authorize?"), address
        assert ("code", CLIENT_ID, "S256") == (
            asked["response_type"], asked["client_id"], asked["code_challenge_method"]
        )  # fmt: skip
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe()
        self._codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.url} | changed
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def rotate(self, kid: str = "two") -> None:
        self.key = ec_key(kid)

    async def _document(self, request: web.Request) -> web.Response:
        await self._count("document")
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "RS256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return web.json_response(document | self.document_lies)

    async def _keys(self, request: web.Request) -> web.Response:
        await self._count("keys")
        return web.json_response({"keys": [self.key.as_dict(private=False)]})

    async def _token(self, request: web.Request) -> web.Response:
        await self._count("token")
        if self.token_answer is not None:
            return self.token_answer
        form = await request.post()
        basic = base64.b64encode(f"{CLIENT_ID}:{quote_plus(CLIENT_SECRET)}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {basic}":
            return web.json_response({"error": "invalid_client"}, status=401)
        asked = self._codes.pop(str(form.get("code")), None)
        challenge = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        if (
            asked is None
            or form.get("redirect_uri") != asked["redirect_uri"]
            or _base64(challenge) != asked["code_challenge"]
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(
            {"access_token": "unused", "token_type": "Bearer", "id_token": self.id_token(asked)}
        )

    async def _authorize(self, request: web.Request) -> web.Response:
        """The page on which somebody logs in at the provider."""
        page = '<!doctype html><link rel="icon" href="data:,"><title>Provider</title><form method="post"><button>It is me</button></form>'
        return web.Response(text=page, content_type="text/html")

    async def _log_in(self, request: web.Request) -> web.Response:
        raise web.HTTPSeeOther(self.logs_in(f"{self.url}{request.path_qs}"))

    def id_token(self, asked: Mapping[str, str]) -> str:
        now_s = int(self.now_s())
        claims = {"iss": self.url, "sub": self.subject, "aud": CLIENT_ID, "iat": now_s, "exp": now_s + 300,
                  "nonce": asked["nonce"]}  # fmt: skip
        if "max_age" in asked:
            claims["auth_time"] = now_s
        claims = {name: value for name, value in (claims | self.lies).items() if value is not None}
        return signed(claims, self.signing or self.key, self.algorithm)

    async def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        if self.held:
            await self.held.wait()


def signed(claims: Mapping[str, Any], key: Any, algorithm: str) -> str:
    """A token, by any algorithm: also by none, and by the public key as the secret of an HMAC."""
    header = {"alg": algorithm, "kid": key.kid}
    if algorithm not in {"none", "HS256"}:
        return jwt.encode(header, dict(claims), key, algorithms=[algorithm])
    text = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
    mac = hmac.digest(key.as_pem(private=False), text.encode(), "sha256") if algorithm == "HS256" else b""
    return f"{text}.{_base64(mac)}"


def _base64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


@asynccontextmanager
async def small_provider(now_s: Callable[[], float], host: str = "127.0.0.1") -> AsyncIterator[SmallProvider]:
    """A provider that answers, until the block ends."""
    port = free_port()
    provider = SmallProvider(f"http://{host}:{port}", now_s)
    runner = web.AppRunner(provider.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield provider
    finally:
        if provider.held:
            provider.held.set()
        await runner.cleanup()
