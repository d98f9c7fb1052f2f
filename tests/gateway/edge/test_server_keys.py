"""What a server's key opens: the boards, families or everything that it was registered for, and nothing like them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.auth import server_keys
from gateway.edge.auth.server_keys import EVERY_BOARD, ServerKeys, TrustedServer
from gateway.ledger.records import ServerKey
from policies.errors import LedgerUnavailable

PUBLIC = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()


def server(*boards: str) -> TrustedServer:
    return TrustedServer("key", PUBLIC, boards)


@pytest.mark.parametrize(
    ("registered", "board", "is_allowed"),
    [
        (("arcade",), "arcade", True),
        (("arcade",), "arcade2", False),
        (("arcade",), "arcad", False),
        (("track",), "track.monza", True),
        (("track",), "tracks.monza", False),
        (("track",), "track", True),
        (("track.monza",), "track.monza", True),
        (("track.monza",), "track.spa", False),
        (("track.monza",), "track", False),
        (("spa", "track.monza"), "track.monza", True),
        ((EVERY_BOARD,), "track.monza", True),
        (("daily", EVERY_BOARD), EVERY_BOARD, True),
        (("daily",), EVERY_BOARD, False),
        ((), "arcade", False),
    ],
)
def test_a_key_writes_to_what_it_is_registered_for(
    registered: tuple[str, ...], board: str, *, is_allowed: bool
) -> None:
    """A board by its name, each board of a family by the family's, and everything by `*` alone."""
    assert is_allowed == server(*registered).may_write(board)


@pytest.mark.parametrize(
    ("registered", "is_allowed"),
    [
        (("track",), True),
        ((EVERY_BOARD,), True),
        (("track.monza",), False),
        (("tracks",), False),
        ((), False),
    ],
)
def test_a_key_of_one_board_opens_none_beside_it(registered: tuple[str, ...], *, is_allowed: bool) -> None:
    """Only one of the whole family does, or of everything."""
    assert is_allowed == server(*registered).may_open("track")


class Ledger:
    """The keys that are registered now, or none if it is away."""

    def __init__(self) -> None:
        self.keys: Mapping[str, ServerKey] | None = {}

    async def read(self, *_: Any) -> Mapping[str, ServerKey]:
        if self.keys is None:
            raise LedgerUnavailable
        return self.keys


async def test_a_key_is_known_until_it_is_revoked_and_not_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is used for its time; after it, without the ledger, no key is good."""
    assert 2.0 == server_keys.REFRESH_S, "as the reference of the commands says"
    now_s, ledger = [100.0], Ledger()
    monkeypatch.setattr(server_keys.time, "monotonic", lambda: now_s[0])
    known = ServerKeys(ledger)  # type: ignore[arg-type]
    stored = ServerKey("key", PUBLIC.public_bytes_raw(), ("arcade",), 1, None)
    assert await known.find("key") is None
    ledger.keys = {"key": stored}
    now_s[0] += server_keys.REFRESH_S
    found = await known.find("key")
    assert found == server("arcade")
    assert await known.find("other") is None
    ledger.keys = {"key": replace(stored, revoked_at_ms=5)}
    now_s[0] += server_keys.REFRESH_S - 0.001
    assert found == await known.find("key")
    now_s[0] += 0.001
    assert await known.find("key") is None
    ledger.keys, now_s[0] = None, now_s[0] + server_keys.REFRESH_S
    with pytest.raises(LedgerUnavailable):
        await known.find("key")
