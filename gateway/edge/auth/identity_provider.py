"""Logins through an identity provider: the code flow of OpenID Connect Core 1.0, with PKCE (RFC 7636).

Only deployments that have a provider import this: it loads authlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError

from gateway.edge.auth.login_attempts import LoginAttempt
from gateway.edge.auth.provider_documents import ProviderDocuments, ProviderEndpoints
from gateway.edge.auth.published_keys import verified
from gateway.ledger.moderation.account_rows import ProviderIdentity, is_subject
from gateway.runtime.settings import Settings
from policies.errors import IdentityRefused

TOKEN_LENGTH: Final = 16_384
CODE_LENGTH: Final = 4_096

LATEST_S: Final = 2**40
"""The last second that we take as a time."""

_OK: Final = 200
_FORM: Final = "application/x-www-form-urlencoded"


class ProvenIdentity(NamedTuple):
    """Who somebody is to the provider, and when they last proved it there (Unix ms); 0 if it does not say."""

    identity: ProviderIdentity
    proven_at_ms: int


class IdentityProvider:
    """The provider that the settings name."""

    def __init__(self, settings: Settings) -> None:
        assert settings.oidc_issuer
        assert settings.oidc_client_id
        self.issuer = settings.oidc_issuer
        self.documents = ProviderDocuments(self.issuer)
        self._client_id = settings.oidc_client_id
        secret = settings.oidc_client_secret
        self._secret = secret.get_secret_value() if secret else None
        self._skew_s = settings.clock_skew_s

    async def login_address(self, attempt: LoginAttempt, redirect: str) -> str:
        """Return where a browser goes to log in. Raises ProviderUnavailable."""
        again = {"prompt": "login", "max_age": "0"} if attempt.is_again else {}
        return str(
            prepare_grant_uri(
                (await self.documents.endpoints()).authorization,
                client_id=self._client_id,
                response_type="code",
                redirect_uri=redirect,
                scope="openid",
                state=attempt.state,
                nonce=attempt.nonce,
                code_challenge=create_s256_code_challenge(attempt.verifier),
                code_challenge_method="S256",
                **again,
            )
        )

    async def check_sender(self, issuer: str | None) -> None:
        """Raise IdentityRefused for an answer that another provider sent (RFC 9207)."""
        is_needed = (await self.documents.endpoints()).names_itself
        if (issuer is None and is_needed) or issuer not in {None, self.issuer}:
            raise IdentityRefused("issuer")

    async def identity_of(
        self, code: str, attempt: LoginAttempt, redirect: str, *, now_ms: int
    ) -> ProvenIdentity:
        """Return who has logged in there. Raises IdentityRefused, ProviderUnavailable."""
        token = await self._token_of(code, attempt, redirect)
        claims = self._checked(await verified(token, self.documents), attempt, now_ms // 1000)
        proven_at_s = claims.get("auth_time") or 0
        if not 0 <= proven_at_s <= LATEST_S:  # which neither NaN nor infinity is
            raise IdentityRefused("auth_time")
        began_at_s = attempt.began_at_ms // 1000
        if attempt.is_again and proven_at_s < began_at_s - self._skew_s:
            raise IdentityRefused("auth_time")
        if not is_subject(claims["sub"]):
            raise IdentityRefused("sub")
        identity = ProviderIdentity(self.issuer, claims["sub"])
        return ProvenIdentity(identity, min(int(proven_at_s * 1000), now_ms))

    async def _token_of(self, code: str, attempt: LoginAttempt, redirect: str) -> str:
        if not 0 < len(code) <= CODE_LENGTH or not code.isascii():
            raise IdentityRefused("code")
        endpoints = await self.documents.endpoints()
        body = prepare_token_request(
            "authorization_code", code=code, redirect_uri=redirect, code_verifier=attempt.verifier
        )
        client = self._client(endpoints)
        url, headers, body = client.prepare("POST", endpoints.token, {"Content-Type": _FORM}, body)
        status, answer = await self.documents.post(url, body, headers)
        token = answer.get("id_token")
        if status != _OK:
            raise IdentityRefused("client" if answer.get("error") == "invalid_client" else "code")
        if not isinstance(token, str) or len(token) > TOKEN_LENGTH:
            raise IdentityRefused("id_token")
        return token

    def _client(self, endpoints: ProviderEndpoints) -> ClientAuth:
        """Return what adds our id and secret to a request: encoded in a header (RFC 6749, section 2.3.1)."""
        if self._secret is None:
            return ClientAuth(self._client_id, None, "none")
        if endpoints.takes_secret_in_body:
            return ClientAuth(self._client_id, self._secret, "client_secret_post")
        return ClientAuth(quote_plus(self._client_id), quote_plus(self._secret), "client_secret_basic")

    def _checked(self, token: jwt.Token, attempt: LoginAttempt, now_s: int) -> Mapping[str, Any]:
        options: Any = {"iss": {"value": self.issuer}, "aud": {"value": self._client_id}}
        wanted = {"nonce": attempt.nonce, "client_id": self._client_id}
        claims = CodeIDToken(token.claims, token.header, options, wanted)
        try:
            claims.validate(now=now_s, leeway=self._skew_s)
        except JoseError as error:
            raise IdentityRefused(str(getattr(error, "claim", None) or error.error)) from None
        except (ValueError, TypeError):
            raise IdentityRefused("claims") from None
        return dict(claims)
