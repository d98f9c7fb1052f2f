"""The log of an SQLite file: it is begun anew however many read, and no read or write fails for it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.ledger.sqlite import write_ahead_log
from gateway.ledger.sqlite.store import SqliteLedger
from tests.support.ledger import new_submission

LIMIT = 256 * 1024


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead_log, "LIMIT_BYTES", LIMIT)
    monkeypatch.setattr(write_ahead_log, "LOOK_S", 0.0)
    monkeypatch.setattr(write_ahead_log, "AGAIN_S", 0.0)


@contextmanager
def reading(path: Path, *, readers: int, hold_s: float) -> Iterator[list[str]]:
    """Have some read all the time, each beginning while others are in the middle of it; yield what failed."""
    is_over, failed = False, list[str]()

    def read(number: int) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            time.sleep(number * hold_s / readers)
            while not is_over:
                try:
                    connection.execute("BEGIN")
                    connection.execute("SELECT count(*) FROM events").fetchone()
                    time.sleep(hold_s)
                    connection.execute("COMMIT")
                except sqlite3.Error as error:
                    failed.append(str(error))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield failed
    finally:
        is_over = True
        for thread in threads:
            thread.join()


def length_of(log: Path) -> int:
    return log.stat().st_size


async def written(ledger: SqliteLedger, log: Path, *, times: int) -> list[int]:
    """Store runs one after the other; return how long the log was after each."""
    lengths = []
    for number in range(times):
        await ledger.append(new_submission(f"run-{number}"))
        lengths.append(length_of(log))
    return lengths


async def test_the_log_stays_short_while_somebody_reads_at_every_moment(tmp_path: Path):
    """Nobody who reads or writes notices: SQLite begins it anew only when nobody reads."""
    path = tmp_path / "ledger.sqlite3"
    ledger = SqliteLedger(path)
    await ledger.open()
    with reading(path, readers=3, hold_s=0.03) as failed:
        lengths = await written(ledger, tmp_path / "ledger.sqlite3-wal", times=150)
    await ledger.close()
    assert [] == failed
    emptied = next(at for at, length in enumerate(lengths) if length < LIMIT)
    assert emptied < 10, "of what made the tables"
    assert max(lengths[emptied:]) < 2 * LIMIT


async def test_a_long_read_holds_up_no_write_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The log grows meanwhile, and is emptied after it."""
    monkeypatch.setattr(write_ahead_log, "PATIENCE_MS", 20)
    path, log = tmp_path / "ledger.sqlite3", tmp_path / "ledger.sqlite3-wal"
    ledger = SqliteLedger(path)
    await ledger.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM events").fetchone()
        lengths = await written(ledger, log, times=60)
        assert max(lengths) > LIMIT
        connection.execute("COMMIT")
    await ledger.append(new_submission("last"))
    await ledger.append(new_submission("after it"))
    assert length_of(log) < LIMIT
    await ledger.close()
