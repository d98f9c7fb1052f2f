"""Tickets: server-authenticated tokens that bind a run to its board, player, seed, build and time."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import struct
from dataclasses import dataclass
from typing import Final

from gateway.edge.keyring import Keyring

_HEAD: Final = struct.Struct(">B16sQQQBBB32s")
_VERSION: Final = 1
_MAC_BYTES: Final = 32
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
SEED_BITS: Final = 63
"""Seeds are drawn from 63 bits: non-negative in every signed 64-bit column and in `i64`."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the server promised about a run. Times are Unix milliseconds; `simulator` is 32 raw SHA-256 bytes."""

    run: str
    board: str
    player: str
    build: str
    simulator: bytes
    seed: int
    issued_at_ms: int
    expires_at_ms: int


class Tickets:
    """Issues tickets and opens them again. A ticket is the `keyid` of its run's signature."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._mac_key = keyring.derive(b"ticket")
        self._decoy = keyring.derive(b"decoy")

    def issue(self, ticket: Ticket) -> tuple[str, bytes]:
        """The ticket's text and the signing key of its run (32 bytes)."""
        payload = _pack(ticket)
        mac = hmac.digest(self._mac_key, payload, "sha256")
        return base64.urlsafe_b64encode(payload + mac).rstrip(b"=").decode(), self._run_key(payload)

    def open(self, text: str) -> tuple[Ticket | None, bytes]:
        """The ticket and its run's key. A text we never issued gives None and a key that nobody has.

        Both cost the same, so that answers do not tell unknown tickets from wrong signatures.
        """
        raw = _decode(text)
        payload, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        key = self._run_key(payload)
        is_ours = hmac.compare_digest(hmac.digest(self._mac_key, payload, "sha256"), mac)
        ticket = _unpack(payload if is_ours else _DECOY_PAYLOAD)
        return (ticket, key) if is_ours else (None, self._decoy)

    def _run_key(self, payload: bytes) -> bytes:
        return self._keyring.derive(b"run" + payload)


def new_run_id(now_ms: int) -> str:
    """26 characters: 48 bits of time, then 80 random bits, in Crockford's base 32.

    Ids that grow with time keep the ledger's index dense at its right edge.
    """
    number = (now_ms << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def _run_number(run: str) -> bytes:
    number = 0
    for character in run:
        number = number << 5 | _ALPHABET.index(character)
    return number.to_bytes(17, "big")[1:]


def _run_text(raw: bytes) -> str:
    number = int.from_bytes(raw, "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def _pack(ticket: Ticket) -> bytes:
    names = [name.encode("ascii") for name in (ticket.board, ticket.player, ticket.build)]
    head = _HEAD.pack(
        _VERSION,
        _run_number(ticket.run),
        ticket.issued_at_ms,
        ticket.expires_at_ms,
        ticket.seed,
        *map(len, names),
        ticket.simulator,
    )
    return head + b"".join(names)


def _unpack(payload: bytes) -> Ticket | None:
    if len(payload) < _HEAD.size or payload[0] != _VERSION:
        return None
    _, run, issued_at_ms, expires_at_ms, seed, *lengths, simulator = _HEAD.unpack_from(payload)
    names, at = [], _HEAD.size
    for length in lengths:
        names.append(payload[at : at + length].decode("ascii"))
        at += length
    board, player, build = names
    return Ticket(_run_text(run), board, player, build, simulator, seed, issued_at_ms, expires_at_ms)


_DECOY_PAYLOAD: Final = _pack(Ticket("0" * 26, "decoy", "p" + "0" * 20, "decoy", bytes(32), 0, 0, 0))
"""What is unpacked in the place of a ticket that is not ours."""


def _decode(text: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
    # One ticket has one spelling: other trailing bits or characters outside the alphabet would give it several.
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=") == text.encode("ascii", "replace") else b""
