"""Trusted servers from the command line: registering their keys, listing them, and taking them back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final

from gateway.edge.auth.signatures import load_server_public_key
from gateway.index.board_index import Index
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import SERVER_CREDENTIAL, ServerKey, StoredSubmission
from gateway.records import Change
from gateway.runtime.clock import Clock, wall_clock
from gateway.runtime.settings import Settings
from gateway.settlement.settle import Decision, settle
from gateway.wiring import load_policies, open_index, open_ledger
from policies.errors import SettingsError
from policies.loader import Board
from policies.vocabulary import Reason, State
from scoregate.existing import existing_ledger

OPERATOR: Final = "operator"
"""The actor of what is done from the command line."""

SPAN: Final = 10_000
"""Sequence numbers that one read walks past at most, however few are of what is looked for."""

SLICE: Final = 100
"""Submissions per transaction: the ledger takes other writes in between."""


@dataclass(slots=True)
class Quarantine:
    """What a stolen key has done: submissions that count no more, those without a policy to settle by, and what it took back."""

    revoked: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    taken_back: list[str] = field(default_factory=list)

    def by_what(self) -> Iterator[tuple[str, list[str]]]:
        """Submissions under what became of them."""
        yield "quarantined", self.revoked
        yield "taken-back-by-the-key", self.taken_back
        yield "left", self.left


async def register(settings: Settings, key_id: str, public_key: str, boards: tuple[str, ...]) -> None:
    """Writes the key into the ledger. Raises SettingsError if it is no key, or the id is taken by another."""
    try:
        raw = base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError("--public-key: expected 32 bytes in base64") from None
    load_server_public_key(raw)
    async with open_ledger(settings) as ledger:
        known = (await ledger.read(queries.all_server_keys())).get(key_id)
        if known and known.revoked_at_ms is not None:
            raise SettingsError(f"{key_id} was revoked; register the new key under a new id")
        if known and (known.public_key, known.boards) != (raw, boards):
            raise SettingsError(f"{key_id} is registered already, with another key or other boards")
        if known is None:
            await ledger.write(queries.add_server_key(ServerKey(key_id, raw, boards, wall_clock())))


async def all_keys(settings: Settings) -> list[ServerKey]:
    """Every registered key, by its id."""
    async with existing_ledger(settings) as ledger:
        return list((await ledger.read(queries.all_server_keys())).values())


async def revoke(
    settings: Settings, key_id: str, *, compromised_since_ms: int | None = None, clock: Clock = wall_clock
) -> Quarantine:
    """Takes the key back, and with a time also all that it wrote since then and that still counts.

    Safe to repeat. Raises SettingsError for a key that was never registered.
    """
    async with existing_ledger(settings) as ledger:
        if key_id not in await ledger.read(queries.all_server_keys()):
            raise SettingsError(f"{key_id} is not registered")
        await ledger.write(queries.revoke_server_key(key_id, now_ms=clock()))
        if compromised_since_ms is None:
            return Quarantine()
        boards = load_policies(settings)
        async with open_index(settings, boards) as index:
            return await _quarantine(
                ledger, index, boards, key_id, since_ms=compromised_since_ms, clock=clock
            )


async def _quarantine(
    ledger: Ledger, index: Index, boards: Mapping[str, Board], key_id: str, *, since_ms: int, clock: Clock
) -> Quarantine:
    done = Quarantine()
    credential = SERVER_CREDENTIAL + key_id
    async for page in _written(ledger, credential, since_ms):
        for board, group in groupby(sorted(page, key=lambda each: each.board), key=lambda each: each.board):
            ids = [each.submission_id for each in group]
            if board in boards:
                decisions = [_suspicion(each, key_id, clock()) for each in ids]
                settled = await settle(ledger, index, boards[board], decisions)
                done.revoked += [each.submission_id for each in settled if isinstance(each, Change)]
            else:
                done.left += ids
    async for taken_back in _taken_back(ledger, credential, since_ms):
        done.taken_back += taken_back
    return done


def _suspicion(submission_id: str, key_id: str, at_ms: int) -> Decision:
    counting = frozenset({State.PROMOTED})
    reason = Reason.KEY_COMPROMISED
    return Decision(submission_id, State.REVOKED, OPERATOR, reason, at_ms, counting, detail={"key": key_id})


async def _written(
    ledger: Ledger, credential: str, since_ms: int
) -> AsyncIterator[Sequence[StoredSubmission]]:
    """What counts of what the key wrote, in slices."""
    for begin in range(0, await ledger.read(queries.newest_seq()), SPAN):
        after, upto = begin, begin + SPAN
        while page := await ledger.read(
            queries.counting_submissions(credential, since_ms=since_ms, after=after, upto=upto, count=SLICE)
        ):
            yield page
            after = page[-1].seq


async def _taken_back(ledger: Ledger, credential: str, since_ms: int) -> AsyncIterator[list[str]]:
    """The submissions that the key revoked, in slices."""
    for begin in range(0, await ledger.read(queries.newest_seq()), SPAN):
        after, upto = begin, begin + SPAN
        while page := await ledger.read(
            queries.revocations_by(credential, since_ms=since_ms, after=after, upto=upto, count=SLICE)
        ):
            yield [submission_id for _, submission_id in page]
            after = page[-1][0]


def moment_of(text: str) -> int:
    """Unix milliseconds of an RFC 3339 time. Raises SettingsError for any other text, or a time without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SettingsError(f"expected a time with a zone, such as 2026-11-20T14:00:00Z, got {text!r}")
    return int(moment.timestamp() * 1000)
