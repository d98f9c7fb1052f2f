"""Tokens that a provider signed (JWT, RFC 7519), by the public keys that it publishes and no other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey, import_key

from policies.errors import IdentityRefused, ProviderUnavailable

ALGORITHMS: Final[Mapping[str, str]] = {
    "RS256": "RSA",
    "PS256": "RSA",
    "ES256": "EC",
    "ES384": "EC",
    "EdDSA": "OKP",
    "Ed25519": "OKP",
}
"""The algorithms that a provider may sign with, by the kind of key: none with a secret, and never `none`."""

KEYS_LIMIT: Final = 64
RSA_BITS: Final = 2048
"""The smallest RSA key that counts (RFC 7518, section 3.3)."""

_PUBLIC_KEYS: Final = (RSAKey, ECKey, OKPKey)


class PublishedKeys(Protocol):
    """The keys of a provider, as they were read lately."""

    async def keys(self, *, is_new: bool = False) -> KeySet:
        """Return the keys; with `is_new`, those of a moment ago. Raises ProviderUnavailable."""
        ...


def keys_of(document: Mapping[str, Any]) -> KeySet:
    """Return the usable keys of a key set (JWKS, RFC 7517). Raises ProviderUnavailable."""
    published = document.get("keys")
    if not isinstance(published, list):
        raise ProviderUnavailable("the identity provider publishes no keys")
    return KeySet([key for each in published[:KEYS_LIMIT] if (key := _usable(each))])


async def verified(
    token: str, published: PublishedKeys, algorithms: Collection[str] = tuple(ALGORITHMS)
) -> jwt.Token:
    """Return what a token says whose signature holds, reading the keys again for one of a new key.

    Raises IdentityRefused, ProviderUnavailable.
    """
    try:
        header = jws.extract_compact(token.encode()).headers()
        algorithm, kid = str(header.get("alg")), header.get("kid")
        if algorithm not in algorithms:
            raise IdentityRefused("alg")
        key = _key_for(await published.keys(), algorithm, kid) or _key_for(
            await published.keys(is_new=True), algorithm, kid
        )
        if key is None:
            raise IdentityRefused("key")
        return jwt.decode(token, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError, RecursionError):
        raise IdentityRefused("signature") from None


def _key_for(keys: KeySet, algorithm: str, kid: object) -> Any:
    """Return the key that a token names, or the only one of its kind if it names none; None without it."""
    fitting = [key for key in keys.keys if key.key_type == ALGORITHMS[algorithm]]
    named = [key for key in fitting if kid is None or key.kid == kid]
    return named[0] if len(named) == 1 else None


def _usable(published: object) -> RSAKey | ECKey | OKPKey | None:
    """Return a key with which a provider may sign; None for a secret one, a short one, or one to encrypt."""
    if not isinstance(published, dict) or published.get("use", "sig") != "sig":
        return None
    try:
        key = import_key(published)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if not isinstance(key, _PUBLIC_KEYS):
        return None
    is_short = isinstance(key, RSAKey) and key.public_key.key_size < RSA_BITS
    return None if is_short else key
