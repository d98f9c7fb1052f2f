"""Players by tokens that an issuer signed: a studio's own, or the ID tokens of platforms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from joserfc.jwk import KeySet

from gateway.edge.auth.provider_documents import LONGEST, KeptDocument, ProviderCalls
from gateway.edge.auth.published_keys import keys_of, verified
from gateway.edge.identities.provider import ShownSubject
from policies.errors import IdentityRefused, ProviderUnavailable

TOKEN_LENGTH: Final = 16_384

LATEST_S: Final = 2**40
"""The last second that we take as a time."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token has to say: one of these issuers and audiences, signed by one of these algorithms.

    Times may be off by `skew_s`; with `max_age_s` it was issued no longer ago. With `is_once`, one that has
    an id (`jti`) is good once.
    """

    issuers: tuple[str, ...]
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    skew_s: int
    max_age_s: int | None = None
    is_once: bool = True


class IssuersKeys:
    """The keys of an issuer, from an address or a file, kept and bounded.

    While they cannot be read, those of before are used for `stale_s`.
    """

    def __init__(
        self, place: str, *, stale_s: float, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._place = place
        self._calls = ProviderCalls()
        self._kept = KeptDocument(self._read, monotonic_s, stale_s=stale_s)

    async def keys(self, *, is_new: bool = False) -> KeySet:
        """Return the keys; with `is_new`, those of a moment ago. Raises ProviderUnavailable.

        Only one waits for new keys: forged tokens, which name any key, hold up nobody.
        """
        if is_new and self._kept.is_reading:
            raise ProviderUnavailable("new keys are being read")
        return await self._kept.get(is_new=is_new)

    async def _read(self) -> KeySet:
        if "://" in self._place:
            return keys_of(await self._calls.read(self._place))
        return keys_of(await asyncio.to_thread(_document_in, Path(self._place)))


class SignedTokens:
    """A provider whose credentials are tokens of an issuer."""

    def __init__(self, rules: TokenRules, keys: IssuersKeys) -> None:
        self._rules = rules
        self._keys = keys

    async def show(self, credential: str, *, now_s: float) -> ShownSubject:
        """Return the subject of a token. Raises IdentityRefused, ProviderUnavailable."""
        if len(credential) > TOKEN_LENGTH or not credential.isascii():
            raise IdentityRefused("signature")
        claims = (await verified(credential, self._keys, self._rules.algorithms)).claims
        self._check_parties(claims)
        expires_at_s = self._check_times(claims, now_s)
        subject, token_id = claims.get("sub"), claims.get("jti")
        if not isinstance(subject, str):
            raise IdentityRefused("sub")
        if not self._rules.is_once or token_id is None:
            return ShownSubject(subject)
        return ShownSubject(subject, f"{claims['iss']} {token_id!r}", expires_at_s + self._rules.skew_s)

    def _check_parties(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if claims.get("iss") not in self._rules.issuers:
            raise IdentityRefused("iss")
        if not isinstance(audiences, list) or not set(self._rules.audiences) & {
            each for each in audiences if isinstance(each, str)
        }:
            raise IdentityRefused("aud")
        # OpenID Connect Core 1.0, section 3.1.3.7: a token for several says for whom it was issued.
        if claims.get("azp") not in [None, *self._rules.audiences] and len(audiences) > 1:
            raise IdentityRefused("azp")

    def _check_times(self, claims: Mapping[str, Any], now_s: float) -> float:
        """Return when a token expires (Unix seconds). Raises IdentityRefused."""
        skew_s, max_age_s = self._rules.skew_s, self._rules.max_age_s
        expires_at_s, issued_at_s = _time(claims, "exp"), _time(claims, "iat")
        if expires_at_s <= now_s - skew_s:
            raise IdentityRefused("exp")
        if issued_at_s > now_s + skew_s or (
            max_age_s is not None and issued_at_s < now_s - skew_s - max_age_s
        ):
            raise IdentityRefused("iat")
        if claims.get("nbf") is not None and _time(claims, "nbf") > now_s + skew_s:
            raise IdentityRefused("nbf")
        return expires_at_s


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_S:
        raise IdentityRefused(name)
    return value


def _document_in(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file. Raises ProviderUnavailable."""
    try:
        with path.open("rb") as file:
            document = orjson.loads(file.read(LONGEST))
    except (OSError, ValueError) as error:
        raise ProviderUnavailable(f"{path}: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise ProviderUnavailable(f"{path}: expected an object")
    return document
