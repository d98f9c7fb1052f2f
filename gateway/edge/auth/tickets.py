"""Tickets, which bind a run to its board, player, seed, build and time, and name its signing key."""

from __future__ import annotations

import base64
import secrets
import struct
from typing import Final, NamedTuple

from gateway.deployment.reference_clock import UNMEASURED_MS
from gateway.edge.auth.keyring import Keyring
from policies.opened_board import NO_CONTENT

_HEAD: Final = struct.Struct(">B26sQQQIIBBB32s")
_VERSION: Final = 1
_VERSION_WITH_CONTENT: Final = 2
"""A ticket has the board's content digest only if the board has content. All others are of version 1, which
edges of before families read, too."""
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_UNKNOWN: Final = 0xFFFFFFFF
"""The stored value of a count that is unknown because the index did not answer."""


class Ticket(NamedTuple):
    """The facts of a run. Times are Unix milliseconds; `simulator` is 32 raw SHA-256 bytes.

    `runs_opened` and `runs_submitted` are the player's runs on the board in the day before. They are counted
    when a run is opened and travel in its ticket, which saves each submission a read of the index.
    `clock_error_ms` is how far the times may be off the time that all edges share. `board_content` is the
    content digest of the board that the run was opened on (`policies.opened_board.content_digest`).
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
    board_content: bytes = NO_CONTENT


class Tickets:
    """The issuer and reader of tickets. A ticket is the `keyid` of its run's signature.

    A ticket has no authenticator: its run's key is derived from its text, so a signature that verifies under
    that key proves that an edge issued this text. Read a ticket only after its signature verified.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def issue(self, ticket: Ticket) -> tuple[str, bytes]:
        """Return the text of a ticket and the signing key of its run (32 bytes)."""
        text = base64.urlsafe_b64encode(_pack(ticket)).rstrip(b"=").decode("ascii")
        return text, self.key(text)

    def key(self, text: str) -> bytes:
        """Return the signing key of a ticket's run. For a text that no edge issued, nobody has the key."""
        return self._keyring.derive(b"run" + text.encode("ascii"))

    def read(self, text: str) -> Ticket:
        """Return the ticket of a text. Raises ValueError for some texts that no edge issued."""
        return _unpack(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def new_run_id(now_ms: int) -> str:
    """Return a new id of 26 characters: 48 bits of time and 80 random bits, in Crockford's base 32."""
    # Ids that grow with time are inserted at the right edge of the ledger's index, which keeps it dense.
    number = (now_ms << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def _pack(ticket: Ticket) -> bytes:
    names = [name.encode("ascii") for name in (ticket.board, ticket.player, ticket.build)]
    has_content = ticket.board_content != NO_CONTENT
    head = _HEAD.pack(
        _VERSION_WITH_CONTENT if has_content else _VERSION,
        ticket.run.encode("ascii"),
        ticket.issued_at_ms,
        ticket.expires_at_ms,
        ticket.seed,
        _count(ticket.runs_opened),
        _count(ticket.runs_submitted),
        *map(len, names),
        ticket.simulator,
    )
    content = ticket.board_content if has_content else b""
    return head + content + b"".join(names) + b"%08x" % ticket.clock_error_ms


def _count(count: int | None) -> int:
    return _UNKNOWN if count is None else min(count, _UNKNOWN - 1)


def _unpack(payload: bytes) -> Ticket:
    if len(payload) < _HEAD.size or payload[0] not in {_VERSION, _VERSION_WITH_CONTENT}:
        raise ValueError("not a ticket of this version")
    _, run, issued_at_ms, expires_at_ms, seed, *counts, board, player, build, simulator = _HEAD.unpack_from(
        payload
    )
    names_at = _HEAD.size + (len(NO_CONTENT) if payload[0] == _VERSION_WITH_CONTENT else 0)
    names, end = payload[names_at:].decode("ascii"), board + player + build
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
        # Earlier versions appended no clock error, since each edge used its own clock.
        int(names[end:], 16) if names[end:] else UNMEASURED_MS,
        payload[_HEAD.size : names_at] or NO_CONTENT,
    )
