"""Tickets: they bind a run to its board, player, seed, build and time, and name the key that proves it."""

from __future__ import annotations

import base64
import secrets
import struct
from typing import Final, NamedTuple

from gateway.deployment.reference_clock import UNMEASURED_MS
from gateway.edge.auth.keyring import Keyring

_HEAD: Final = struct.Struct(">B26sQQQIIBBB32s")
_VERSION: Final = 1
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_UNKNOWN: Final = 0xFFFFFFFF
"""What stands in a ticket for a count that the index could not tell."""

SEED_BITS: Final = 63
"""Seeds are drawn from 63 bits: non-negative in every signed 64-bit column and in `i64`."""


class Ticket(NamedTuple):
    """What the server promised about a run. Times are Unix milliseconds; `simulator` is 32 raw SHA-256 bytes.

    `runs_opened` and `runs_submitted` are how many the player had on the board in the day before: they are counted in
    the index when a run is opened, and travel in its ticket, so that a submission asks for nothing more.
    `clock_error_ms` is how far the times may be off the time that all edges share.
    """

    run: str
    board: str
    player: str
    build: str
    simulator: bytes
    seed: int
    issued_at_ms: int
    expires_at_ms: int
    runs_opened: int | None = None
    runs_submitted: int | None = None
    clock_error_ms: int = 0


class Tickets:
    """Issues tickets and reads them again. A ticket is the `keyid` of its run's signature.

    A ticket carries no authenticator of its own: its run's key is derived from its text, so a signature that verifies
    under that key proves that we issued this very text. Read one only after its signature verified.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def issue(self, ticket: Ticket) -> tuple[str, bytes]:
        """The ticket's text and the signing key of its run (32 bytes)."""
        text = base64.urlsafe_b64encode(_pack(ticket)).rstrip(b"=").decode("ascii")
        return text, self.key(text)

    def key(self, text: str) -> bytes:
        """The signing key of the run of a ticket. For a text we never issued it is a key that nobody has."""
        return self._keyring.derive(b"run" + text.encode("ascii"))

    def read(self, text: str) -> Ticket:
        """What a ticket says. Raises ValueError for a text that we never issued, where that shows."""
        return _unpack(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def new_run_id(now_ms: int) -> str:
    """26 characters: 48 bits of time, then 80 random bits, in Crockford's base 32.

    Ids that grow with time keep the ledger's index dense at its right edge.
    """
    number = (now_ms << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def _pack(ticket: Ticket) -> bytes:
    names = [name.encode("ascii") for name in (ticket.board, ticket.player, ticket.build)]
    head = _HEAD.pack(
        _VERSION,
        ticket.run.encode("ascii"),
        ticket.issued_at_ms,
        ticket.expires_at_ms,
        ticket.seed,
        _count(ticket.runs_opened),
        _count(ticket.runs_submitted),
        *map(len, names),
        ticket.simulator,
    )
    return head + b"".join(names) + b"%08x" % ticket.clock_error_ms


def _count(known: int | None) -> int:
    return _UNKNOWN if known is None else min(known, _UNKNOWN - 1)


def _unpack(payload: bytes) -> Ticket:
    if len(payload) < _HEAD.size or payload[0] != _VERSION:
        raise ValueError("not a ticket of this version")
    _, run, issued_at_ms, expires_at_ms, seed, *counts, board, player, build, simulator = _HEAD.unpack_from(
        payload
    )
    names, end = payload[_HEAD.size :].decode("ascii"), board + player + build
    opened, submitted = (None if count == _UNKNOWN else count for count in counts)
    return Ticket(
        run.decode("ascii"),
        names[:board],
        names[board : board + player],
        names[board + player : end],
        simulator,
        seed,
        issued_at_ms,
        expires_at_ms,
        opened,
        submitted,
        int(names[end:], 16)
        if names[end:]
        else UNMEASURED_MS,  # an edge of before issued it by its own clock
    )
