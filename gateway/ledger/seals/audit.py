"""The audit of a ledger: it compares everything with the seals, with one seal in memory at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from sqlalchemy import and_, bindparam, func, literal_column, select

from gateway.ledger.boards.board_life import check_boards
from gateway.ledger.ledger import LedgerReads
from gateway.ledger.schema import events, submissions
from gateway.ledger.seals import chain
from gateway.ledger.seals.case_audit import check_cases
from gateway.ledger.seals.chain import LOWEST, NOTHING, PAGE, Leaf, Seal
from gateway.ledger.seals.erased import erased_leaves
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.errors import LedgerTampered, LedgerUnavailable, SettingsError
from policies.vocabulary import REMARKS


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The counts of an audit without a fault. `boards` are those of families.

    `erased_events` differ from what was sealed, as events of erasures say. Whoever can write to the ledger
    can write such events too: the operator knows how many there should be.
    """

    events: int
    seals: int
    sealed_events: int
    submissions: int
    boards: int = 0
    erased_events: int = 0

    @property
    def unsealed_events(self) -> int:
        """Return how many events have no seal yet."""
        return self.events - self.sealed_events


_s = submissions.c
_first, _last = events.alias("first_event"), events.alias("last_event")
_NUMBER: Final = events.c.seq + literal_column("0")
_newest = (
    select(func.max(_NUMBER))
    .where(
        events.c.submission_id == _s.submission_id,
        events.c.reason.not_in([literal_column(f"'{reason.value}'") for reason in sorted(REMARKS)]),
    )
    .scalar_subquery()
)
"""The newest event that is no remark: it says how the submission stands.

Of the number itself, a database without statistics would look for the greatest from the log's end.
"""
_latest = events.alias("latest_event")
_newest_of_all = select(func.max(_NUMBER)).where(events.c.submission_id == _s.submission_id).scalar_subquery()
"""The newest event, remarks too: its player is for whom the submission counts."""
_STATES = Query(
    select(
        _s.seq,
        _s.submission_id,
        _s.state,
        _s.reason,
        _first.c.submission_id,
        _last.c.to_state,
        _last.c.reason,
        _s.player,
        _latest.c.player,
    )
    .select_from(
        submissions.outerjoin(_first, and_(_first.c.seq == _s.seq, _first.c.seq >= bindparam("begin")))
        .outerjoin(_last, _last.c.seq == _newest)
        .outerjoin(_latest, _latest.c.seq == _newest_of_all)
    )
    .where(_s.seq >= bindparam("begin"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)


async def audit(ledger: LedgerReads, keys: PublicKeys) -> AuditReport:
    """Audit the ledger, and return what it has. Raises LedgerTampered with the first fault.

    The audit compares events with their seals in order, looks for gaps in the unsealed ones, and compares the
    states of submissions with their last events and their cases, and boards of families with all of theirs.
    """
    try:
        return await _audit(ledger, keys)
    except ValueError as error:  # a number in the place of text
        raise _unreadable(error) from None
    except LedgerUnavailable as error:
        if _is_no_text(error.__cause__):
            raise _unreadable(error) from None
        raise


def _is_no_text(error: BaseException | None) -> bool:
    """Return whether Python's module met text that is no UTF-8.

    Unlike SQLite's own errors, this one has no code.
    """
    return isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")


def _unreadable(error: Exception) -> LedgerTampered:
    return LedgerTampered(f"a row cannot be read: {error}")


async def _audit(ledger: LedgerReads, keys: PublicKeys) -> AuditReport:
    leaves = chain.leaves_from(ledger, LOWEST)
    count, sealed_to, previous, erased = 0, 0, NOTHING, 0
    async for seal in chain.seals_after(ledger):
        _check_seal(seal, sealed_to, previous, keys)
        erased += await _check_events(ledger, seal, leaves)
        count, sealed_to, previous = count + 1, seal.last_seq, seal.digest
    newest = await _check_unsealed(leaves, sealed_to)
    states = await _check_states(ledger)
    await check_cases(ledger)
    return AuditReport(newest, count, sealed_to, states, await check_boards(ledger), erased)


async def check_checkpoints(ledger: LedgerReads, keys: PublicKeys, lines: Iterable[bytes]) -> int:
    """Count the exported checkpoints. Raises LedgerTampered if the ledger lacks one.

    Raises SettingsError for a line that is no checkpoint signed by one of the keys, because that proves
    nothing.
    """
    count = 0
    for count, line in enumerate(lines, start=1):
        checkpoint = read_checkpoint(line, keys, f"line {count} of the heads")
        if await ledger.read(chain.seal_at(checkpoint.first_seq)) != checkpoint:
            raise LedgerTampered(f"{checkpoint}, which was exported, is not in the ledger")
    return count


def read_checkpoint(line: bytes, keys: PublicKeys, where: str) -> Seal:
    """Return the checkpoint of an exported line. Raises SettingsError."""
    try:
        checkpoint = Seal.model_validate_json(line)
    except ValidationError:
        raise SettingsError(f"{where}: is not a head") from None
    if not checkpoint.is_signed_by_any(keys):
        raise SettingsError(f"{where}: is not signed by the key")
    return checkpoint


def _check_seal(seal: Seal, sealed_to: int, previous: bytes, keys: PublicKeys) -> None:
    """Raise LedgerTampered if this is not the next link of the chain."""
    if not _is_signed(seal, keys):
        raise LedgerTampered(f"{seal} is not signed by the key: it was changed, or another key made it")
    if seal.first_seq != sealed_to + 1 or seal.last_seq < seal.first_seq:
        raise LedgerTampered(f"the seal of the events from {sealed_to + 1} on is missing; next is {seal}")
    if seal.previous != previous:
        raise LedgerTampered(f"{seal} does not follow the seal before it")


def _is_signed(seal: Seal, keys: PublicKeys) -> bool:
    try:
        return seal.is_signed_by_any(keys)
    except (ValueError, TypeError):  # a column of another type, which we never write
        return False


async def _check_events(ledger: LedgerReads, seal: Seal, leaves: AsyncIterator[Leaf]) -> int:
    """Return how many events were erased. Raises LedgerTampered for the first that is not what was sealed."""
    digests = await ledger.read(chain.sealed_leaves(seal))
    if digests is None:
        raise LedgerTampered(f"the leaves kept with {seal} were changed")
    erased = 0
    for seq, digest in enumerate(digests, start=seal.first_seq):
        leaf = await _next_of(leaves, seq)
        if leaf is None:
            raise LedgerTampered(f"event {seq} was removed")
        if leaf.digest == digest:
            continue
        if not await _is_erased(ledger, leaf, digest):
            raise LedgerTampered(f"event {seq} was changed, or the facts of the submission that it begins")
        erased += 1
    return erased


async def _is_erased(ledger: LedgerReads, leaf: Leaf, sealed: bytes) -> bool:
    """Return whether an erasure, which an event of its own tells of, left this of what was sealed."""
    return (sealed, leaf.digest) in await ledger.read(erased_leaves(leaf.seq))


async def _check_unsealed(leaves: AsyncIterator[Leaf], sealed_to: int) -> int:
    """Return the last sequence number. Raises LedgerTampered for a gap: no crash leaves one."""
    seq = sealed_to
    while (leaf := await _next_of(leaves, seq + 1)) is not None:
        seq = leaf.seq
        if leaf.lacks_facts:
            raise LedgerTampered(f"the submission that event {seq} begins was removed")
    return seq


async def _next_of(leaves: AsyncIterator[Leaf], expected_seq: int) -> Leaf | None:
    """Return the next leaf, or None after the last.

    Raises LedgerTampered if its number is not the expected one.
    """
    leaf = await anext(leaves, None)
    if leaf is not None and leaf.seq > expected_seq:
        raise LedgerTampered(f"event {expected_seq} was removed")
    if leaf is not None and leaf.seq < expected_seq:
        raise LedgerTampered(f"event {leaf.seq} was inserted")
    return leaf


async def _check_states(ledger: LedgerReads) -> int:
    """Count the submissions. Raises LedgerTampered for one whose state differs from its last event."""
    count, begin = 0, LOWEST
    while page := await ledger.read(_states_page(begin)):
        for row in page:
            _check_state(row)
        count, begin = count + len(page), page[-1][0] + 1
    return count


def _check_state(row: Row) -> None:
    seq, submission_id, state, reason, first_id, to_state, to_reason, player, of_event = row
    if first_id != submission_id:
        raise LedgerTampered(f"submission {submission_id} was inserted: event {seq} does not begin it")
    if (state, reason) != (to_state, to_reason):
        raise LedgerTampered(
            f"submission {submission_id} (event {seq}) stands as {state} for {reason}, "
            f"but its last event says {to_state} for {to_reason}"
        )
    if player != of_event:
        raise LedgerTampered(
            f"submission {submission_id} (event {seq}) counts for {player}, "
            f"but its last event says for {of_event}"
        )


def _states_page(begin: int) -> Operation[list[Row]]:
    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(_STATES, begin=begin, count=PAGE)

    return work
