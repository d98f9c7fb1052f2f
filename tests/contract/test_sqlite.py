"""What a ledger on SQLite must keep to beside the contract: its file, its lock, its disk, its thread."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from gateway.ledger import queries
from gateway.ledger.reads import ReadKind
from gateway.ledger.sqlite import transaction
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.ledger.sqlite.writer import SqliteWriter
from gateway.ledger.transaction import Query, Transaction
from policies.errors import LedgerUnavailable
from tests.support.ledger import is_intact, new_submission, opened, rows

DUMP = "SELECT name, sql FROM sqlite_schema ORDER BY name"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteLedger]:
    async with opened(path) as running:
        yield running


async def test_closing_gives_every_file_back(path: Path):
    """Also those of the connections that read: whoever opens and closes ledgers all day runs out of none."""
    async with opened(path) as ledger:
        for kind in ReadKind:
            await ledger.read(queries.newest_seq(), kind)
        assert len(ReadKind) < len(open_files(path))
    assert [] == open_files(path)


async def test_a_version_is_told_without_opening_the_file(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
):
    """It is asked on the event loop, which must wait for nobody's lock."""

    def refused(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(sqlite3, "connect", refused)
    assert await ledger.version() == await ledger.version()


async def test_a_ledger_that_is_not_open_has_no_version(path: Path):
    """Whoever asks is told, and no connection is made that nobody closes."""
    with pytest.raises(LedgerUnavailable):
        await SqliteLedger(path).version()
    assert [] == open_files(path)


async def test_a_file_that_is_no_database_is_left_alone(path: Path):
    """It is not open any more, however long somebody looks at the error."""
    await asyncio.to_thread(path.write_bytes, b"no database" * 1000)
    with pytest.raises(LedgerUnavailable) as raised:
        await SqliteLedger(path).open()
    assert [] == open_files(path), raised


async def test_every_commit_is_on_the_disk_before_it_is_told(ledger: SqliteLedger, path: Path):
    """Of the connection that writes, also in a file that exists: FULL syncs the log of each commit."""
    with closing(ledger._create()) as connection:
        pragmas = [
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("synchronous", "journal_mode")
        ]
    assert [(2,), ("wal",)] == pragmas


async def test_what_is_deleted_is_overwritten_whatever_is_the_default(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
):
    """Debian builds SQLite so that it overwrites, others do not; what is erased may stay in no page of the file."""
    real = sqlite3.connect

    def leaving(*where: Any, **how: Any) -> sqlite3.Connection:
        connection = real(*where, **how)
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", leaving)
    with closing(ledger._create()) as connection:
        assert (1,) == connection.execute("PRAGMA secure_delete").fetchone()


def open_files(path: Path) -> list[str]:
    """What this process has open of a file and of those beside it."""
    links = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [each for each in links if each.startswith(str(path))]


async def append_all(ledger, news):
    return await asyncio.gather(*(ledger.append(new) for new in news), return_exceptions=True)


async def test_I18_nothing_is_acknowledged_into_a_file_that_is_not_there_any_more(path: Path):
    """SQLite goes on in a file that was moved or deleted; once that is back, so is the ledger."""
    elsewhere = path.with_name("elsewhere")
    async with opened(path) as ledger:
        await ledger.append(new_submission("before"))
        await asyncio.to_thread(path.rename, elsewhere)
        with pytest.raises(LedgerUnavailable, match="moved, deleted or replaced"):
            await ledger.append(new_submission("meanwhile"))
        await asyncio.to_thread(path.touch)  # as another part that starts would make one
        with pytest.raises(LedgerUnavailable, match="moved, deleted or replaced"):
            await ledger.append(new_submission("beside"))
        await asyncio.to_thread(elsewhere.replace, path)
        await ledger.append(new_submission("after"))
    assert [("after",), ("before",)] == sorted(rows(path, "SELECT submission_id FROM submissions"))


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "IMMEDIATE"])
async def test_who_starts_waits_for_another_who_creates_the_ledger(path: Path, lock: str):
    """On a busy machine that takes longer than any write may. SQLite itself waits for the first lock alone."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute(f"BEGIN {lock}")
        ledger = SqliteLedger(path, busy_timeout_s=0.05)
        opening = asyncio.create_task(ledger.open())
        done, _ = await asyncio.wait([opening], timeout=0.5)
        assert not done
        other.execute("COMMIT")
    await opening
    assert 0 == await ledger.read(queries.newest_seq())
    await ledger.close()


async def test_tables_are_strict(ledger: SqliteLedger, path: Path):
    """A value of the wrong type is refused, not converted; a score past 2^53 - 1 as well."""
    del ledger
    strict = rows(
        path,
        "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%' "
        "AND name <> 'alembic_version'",
    )
    assert [] == [name for name, is_strict in strict if not is_strict]
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            "INSERT INTO players (player, name, created_at_ms) VALUES ('ada', 'Ada', 'yesterday')"
        )


async def test_I18_a_full_disk_refuses_the_whole_group_and_leaves_nothing_half_written(path: Path):
    """Everybody in the group is told that the ledger cannot; what was there before is intact, and reading goes on."""
    async with opened(path) as ledger:
        await ledger.append(new_submission("kept"))
        await ledger.write(_limit)
        news = [new_submission(f"run-{n}", recording=bytes([n]) * 60_000) for n in range(20)]
        outcomes = await append_all(ledger, news)
        stored = {row[0] for row in rows(path, "SELECT submission_id FROM submissions")}

        assert {LedgerUnavailable} == {type(outcome) for outcome in outcomes}
        assert {"kept"} == stored
        assert [(1,)] == rows(path, "SELECT count(*) FROM recordings")
        assert 1 == await ledger.read(queries.newest_seq())
        await ledger.write(_unlimit)
        assert (await ledger.append(news[0])).is_new
    assert is_intact(path)


async def test_I18_a_disk_that_is_full_for_one_operation_is_full_for_its_group(path: Path):
    """The database's own failure is nobody's alone: an acknowledgement beside it could not be trusted."""
    async with opened(path) as ledger:
        await ledger.append(new_submission("kept"))
        await ledger.write(_limit)
        outcomes = await asyncio.gather(
            ledger.append(new_submission("small")),
            ledger.write(queries.add_player("ada", "A" * 60_000, now_ms=1)),
            return_exceptions=True,
        )
        assert [LedgerUnavailable, LedgerUnavailable] == [type(outcome) for outcome in outcomes]
        assert [("kept",)] == rows(path, "SELECT submission_id FROM submissions")
        assert (await ledger.append(new_submission("small"))).is_new


async def test_I18_what_no_turn_mends_is_refused_at_once(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writers wait for another program's turn to end, and not where a file beside the ledger cannot be opened."""
    async with opened(path):
        pass
    waits: list[float] = []
    monkeypatch.setattr(transaction, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waits.append))
    blocked = path.with_name(f"{path.name}-wal")
    blocked.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            async with SqliteWriter(connection, patience_s=0.1).transaction():
                pass
        assert [] == waits
    blocked.rmdir()
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                async with SqliteWriter(connection, patience_s=0.1).transaction():
                    pass
        assert waits


async def _limit(tx: Transaction) -> None:
    [[pages]] = await tx.rows(Query(text("PRAGMA page_count")))
    await tx.rows(Query(text(f"PRAGMA max_page_count = {pages + 2}")))


async def _unlimit(tx: Transaction) -> None:
    await tx.rows(Query(text("PRAGMA max_page_count = 1000000")))


@pytest.fixture(params=["a-directory", "no-database", "half-rubbish"])
def unopenable(request: pytest.FixtureRequest, path: Path) -> Path:
    if request.param == "a-directory":
        path.mkdir()
    elif request.param == "no-database":
        path.write_bytes(b"not a database, certainly" * 100)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                "CREATE TABLE events (seq INTEGER PRIMARY KEY, x TEXT); PRAGMA journal_mode=WAL"
            )
        path.write_bytes(path.read_bytes()[:200] + b"\x55" * (path.stat().st_size - 200))
    return path


async def test_I09_a_ledger_that_cannot_be_opened_is_unavailable(unopenable: Path):
    """Starting fails with what is wrong, not with a traceback; nothing is left running."""
    with pytest.raises(LedgerUnavailable):
        async with opened(unopenable):
            pass


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_is_gone_does_not_break_the_writer(path: Path):
    """Whoever closes the loop without closing the ledger loses the answer, not the row, and no thread dies of it."""
    ledger = SqliteLedger(path)

    async def abandon() -> None:
        await ledger.open()
        task = asyncio.ensure_future(ledger.append(new_submission("run-1")))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(abandon())
    ledger._queue.put(None)
    assert ledger._writer is not None
    ledger._writer.join(5)
    assert [("run-1",)] == rows(path, "SELECT submission_id FROM submissions")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "schema version 9999, this scoregate reads"),
        ("UPDATE alembic_version SET version_num = 'a1b2c3d4e5f6'", "schema version a1b2c3d4e5f6"),
        ("DROP TABLE alembic_version", "not a ledger"),
    ],
)
async def test_a_file_of_another_version_or_kind_is_refused_at_start(path: Path, statement, said):
    """It is not written to, and the error names the file."""
    async with opened(path):
        pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    before = rows(path, DUMP)

    with pytest.raises(LedgerUnavailable, match=f"{path}: .*{said}"):
        async with opened(path):
            pass
    assert before == rows(path, DUMP)
