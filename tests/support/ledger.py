"""Submissions for tests of the ledger, and direct reads of its database."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import cache
from pathlib import Path
from typing import Any

from gateway.ledger.definition import create_schema
from gateway.ledger.records import NewSubmission
from gateway.ledger.sqlite.store import SqliteLedger
from policies.vocabulary import Claim, Reason, State
from validators.judge import Judgement
from validators.submission import Submission

NOON_MS = 1_763_640_000_000  # 2025-11-20T12:00:00Z


def new_submission(
    submission_id: str,
    *,
    board: str = "tiny",
    player: str = "ada",
    score: int = 100,
    state: State = State.PENDING,
    at_ms: int = NOON_MS,
    recording: bytes | None = b"a recording",
    content: bytes = b"a body",
    **facts: Any,
) -> NewSubmission:
    run = Submission(
        submission_id,
        board,
        player,
        facts.get("build", "tiny-1"),
        facts.get("seed", 7),
        at_ms - 1000,
        at_ms,
        Claim(score, 25, {"moves": 3}),
        recording is not None,
    )
    return NewSubmission(
        run,
        Judgement(state, Reason.ACCEPTED),
        credential=facts.get("credential", f"run:{submission_id}"),
        nonce=f"nonce-of-{submission_id}",
        content_digest=hashlib.sha256(content).digest(),
        recording=recording,
        recording_digest=hashlib.sha256(recording).digest() if recording is not None else None,
        recording_bytes=len(recording or b""),
        simulator=facts.get("simulator", "sha256:" + "0" * 64),
        policy_digest="sha256:policy",
        board_content=facts.get("board_content"),
    )


@asynccontextmanager
async def opened(path: Path, **settings: Any) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(path, **settings)
    await ledger.open()
    try:
        yield ledger
    finally:
        await ledger.close()


def ledger_in_memory() -> sqlite3.Connection:
    """A copy of an empty ledger: to make its tables anew takes ten times as long."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_empty_ledger())
    return connection


@cache
def _empty_ledger() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection)
        return connection.serialize()


def rows(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """What another program sees in the file."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        return connection.execute(statement, values).fetchall()


def is_intact(path: Path) -> bool:
    return rows(path, "PRAGMA integrity_check") == [("ok",)]
