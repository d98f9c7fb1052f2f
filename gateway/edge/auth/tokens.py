"""Bearer tokens of players, which are signed JWTs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from gateway.edge.auth.keyring import Keyring

PLAYER_TOKEN_S: Final = 365 * 24 * 3600

_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_ISSUER: Final = "scoregate"


class Role(StrEnum):
    """The role of a token's holder."""

    PLAYER = "player"


@dataclass(frozen=True, slots=True)
class Bearer:
    """The holder of a valid token.

    `generation` is how often all tokens of the player had been ended when it was issued; None for a token
    that does not say, of an earlier release or of the studio's own making.
    """

    subject: str
    role: Role
    expires_at_s: int
    generation: int | None = None
    issued_at_s: int = 0


class Tokens:
    """The issuer and checker of tokens, under a key derived from the master key."""

    def __init__(self, keyring: Keyring) -> None:
        self._key = OctKey.import_key(keyring.derive(b"token"))
        self._claims = lru_cache(maxsize=4096)(self._decode)

    def mint(self, bearer: Bearer, *, now_s: int) -> str:
        """Return a token for a bearer, issued now."""
        claims: dict[str, Any] = {
            "iss": _ISSUER,
            "sub": bearer.subject,
            "role": bearer.role.value,
            "iat": now_s,
            "exp": bearer.expires_at_s,
        }
        if bearer.generation is not None:
            claims["gen"] = bearer.generation
        return jwt.encode(_HEADER, claims, self._key)

    def check(self, token: str, *, now_s: float) -> Bearer | None:
        """Return the bearer of a token, or None if the token is invalid or has expired."""
        bearer = self._claims(token)
        return bearer if bearer and now_s < bearer.expires_at_s else None

    def _decode(self, token: str) -> Bearer | None:
        try:
            claims: Mapping[str, Any] = jwt.decode(token, self._key, algorithms=["HS256"]).claims
            if claims["iss"] != _ISSUER:
                return None
            generation = claims.get("gen")
            return Bearer(
                claims["sub"],
                Role(claims["role"]),
                int(claims["exp"]),
                None if generation is None else int(generation),
                int(claims.get("iat", 0)),
            )
        except (JoseError, ValueError, KeyError, TypeError):
            return None
