"""Puts a group of new submissions into SQLite in a handful of statements, whatever the size of the group."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import orjson
from sqlalchemy import Table

from gateway.ledger.records import NewSubmission, Receipt, receipt_from
from gateway.ledger.schema import events, outbox, recordings, submissions
from policies.vocabulary import State
from validators.judge import RULES_VERSION

CHUNKS: Final = (64, 16, 4, 1)
"""Rows per statement: few sizes, so that every statement is prepared once and found again."""

_KNOWN: Final = (
    "SELECT submission_id, board, player, score, initial_state, nonce, content_digest FROM submissions "
    "WHERE submission_id IN (SELECT value FROM json_each(?))"
)


def append_group(connection: sqlite3.Connection, group: Sequence[NewSubmission]) -> list[Receipt]:
    """One receipt per submission, in order. The caller owns the transaction; nothing is durable before it commits.

    A submission whose id is already there, in the ledger or earlier in the group, changes nothing: its receipt tells
    what stands there instead.
    """
    stored = _known(connection, group)
    receipts: list[Receipt] = []
    fresh: list[NewSubmission] = []
    for new in group:
        known = stored.get(new.submission.submission_id)
        if known is None:
            fresh.append(new)
            known = _receipt_of(new)
            stored[known.submission_id] = known
        elif known.is_new:
            known = known._replace(is_new=False)
        receipts.append(known)
    if fresh:
        _insert_all(connection, fresh)
    return receipts


def _known(connection: sqlite3.Connection, group: Sequence[NewSubmission]) -> dict[str, Receipt]:
    ids = orjson.dumps([new.submission.submission_id for new in group]).decode()
    rows = connection.execute(_KNOWN, (ids,)).fetchall()
    return {row[0]: receipt_from(row) for row in rows}


def _receipt_of(new: NewSubmission) -> Receipt:
    run = new.submission
    return Receipt(
        run.submission_id,
        run.board,
        run.player,
        run.claim.score,
        new.judgement.state,
        new.nonce,
        new.content_digest,
        is_new=True,
    )


def _insert_all(connection: sqlite3.Connection, fresh: Sequence[NewSubmission]) -> None:
    first = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM events").fetchone()[0]
    numbered = list(enumerate(fresh, start=first))
    kept = [(new.recording_digest, new.recording, seq) for seq, new in numbered if new.recording is not None]
    _insert(connection, recordings, kept)
    _insert(connection, submissions, [_submission_row(seq, new) for seq, new in numbered])
    _insert(connection, events, [_event_row(seq, new) for seq, new in numbered])
    pending = [_outbox_row(seq, new) for seq, new in numbered if new.judgement.state is State.PENDING]
    _insert(connection, outbox, pending)


def _insert(connection: sqlite3.Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    for chunk in _chunks(rows):
        connection.execute(
            _insert_statement(table.name, len(table.columns), len(chunk)), tuple(chain(*chunk))
        )


def _chunks(rows: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    at = 0
    for size in CHUNKS:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


@lru_cache(maxsize=64)
def _insert_statement(table: str, columns: int, rows: int) -> str:
    # OR IGNORE is for recordings alone: equal bytes are stored once. Ids of the others were looked up just before.
    # The names are ours, and the values are bound.
    verb = "INSERT OR IGNORE" if table == recordings.name else "INSERT"
    row = f"({', '.join('?' * columns)})"
    return f"{verb} INTO {table} VALUES {', '.join([row] * rows)}"


def _submission_row(seq: int, new: NewSubmission) -> tuple[Any, ...]:
    run, judgement = new.submission, new.judgement
    return (
        seq,
        run.submission_id,
        run.board,
        run.player,
        new.credential,
        new.nonce,
        new.content_digest,
        run.build,
        run.seed,
        run.issued_at_ms,
        run.received_at_ms,
        run.claim.score,
        run.claim.ticks,
        orjson.dumps(run.claim.stats).decode(),
        new.recording_digest,
        new.simulator,
        orjson.dumps([finding.as_dict() for finding in judgement.findings]).decode(),
        judgement.state.value,
        judgement.state.value,
        judgement.reason.value,
        0,
        0,
    )


def _event_row(seq: int, new: NewSubmission) -> tuple[Any, ...]:
    run, judgement = new.submission, new.judgement
    return (
        seq,
        run.submission_id,
        run.board,
        run.player,
        State.RECEIVED.value,
        judgement.state.value,
        "edge",
        judgement.reason.value,
        new.policy_digest,
        RULES_VERSION,
        "{}",
        run.received_at_ms,
    )


def _outbox_row(seq: int, new: NewSubmission) -> tuple[Any, ...]:
    run = new.submission
    return (seq, "verify", run.submission_id, run.board, run.player, run.received_at_ms, 0)
