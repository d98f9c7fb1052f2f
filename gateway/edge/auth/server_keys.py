"""The registered trusted servers, read from the ledger and cached for a short time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.edge.auth.signatures import load_server_public_key
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from policies.opened_board import family_named_by

EVERY_BOARD: Final = "*"
"""The name for all boards, future ones too; no board can have it."""

REFRESH_S: Final = 2.0
"""The longest time until a registered key works and a revoked key is unknown."""


@dataclass(frozen=True, slots=True)
class TrustedServer:
    """A server that may write to some boards."""

    key_id: str
    public_key: Ed25519PublicKey
    boards: tuple[str, ...]

    def may_write(self, board: str) -> bool:
        """Return whether the key is registered for this board, for its family, or for all (`*`)."""
        return EVERY_BOARD in self.boards or board in self.boards or family_named_by(board) in self.boards

    def may_open(self, family: str) -> bool:
        """Return whether the key is registered for all boards of a family, which it then opens and ends."""
        return EVERY_BOARD in self.boards or family in self.boards


class ServerKeys:
    """Trusted servers by key id. Fails closed: without the ledger no key is found once the cache is old."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._servers: dict[str, TrustedServer] = {}
        self._read_at = -REFRESH_S

    async def find(self, key_id: str) -> TrustedServer | None:
        """Return the server with this key, or None. Raises LedgerUnavailable."""
        if time.monotonic() - self._read_at >= REFRESH_S:
            stored = await self._ledger.read(queries.all_server_keys(), ReadKind.REQUESTS)
            self._servers = {
                key.key_id: TrustedServer(key.key_id, load_server_public_key(key.public_key), key.boards)
                for key in stored.values()
                if key.revoked_at_ms is None
            }
            self._read_at = time.monotonic()
        return self._servers.get(key_id)
