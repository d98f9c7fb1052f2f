"""Digests of identities: who somebody is to a provider, so that only whoever has the master key can tell."""

from __future__ import annotations

import hmac

from gateway.ledger.players.identities import Identity


class IdentityDigests:
    """Digests under a key derived from the master key. With another master key nobody is known again."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def identity(self, provider: str, subject: str) -> Identity:
        """Return the identity of a subject, which is a secret of a device or a person's id at a provider."""
        return Identity(provider, self._digest(provider, subject))

    def of_credential(self, provider: str, credential_id: str) -> bytes:
        """Return the digest by which a credential that is good once is remembered."""
        return self._digest(f"once {provider}", credential_id)

    def _digest(self, kind: str, text: str) -> bytes:
        return hmac.digest(self._key, f"{kind}\0{text}".encode(), "sha256")
