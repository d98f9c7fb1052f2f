"""A ledger on SQLite is copied into PostgreSQL whole or not at all, and goes on there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import signal
import sqlite3
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest
from sqlalchemy import BigInteger, Column, LargeBinary

from gateway.ledger import copying, queries
from gateway.ledger.copying import LedgerNotCopied, copy_ledger
from gateway.ledger.records import ServerKey
from gateway.ledger.schema import metadata
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.sqlite.store import version_at
from gateway.ledger.submissions.operations import ServerRequest
from gateway.settlement.server_operations import perform_all
from gateway.steward.seals.sealing import Sealer
from policies.errors import LedgerTampered, LedgerUnavailable
from policies.loader import Board
from policies.vocabulary import State
from scoregate.backup_files import BackupFailed
from scoregate.commands.backup import back_up
from tests.support import boards
from tests.support.books import CREDENTIAL, KEY_ID, a_write, digest_of
from tests.support.families import open_tracks
from tests.support.game import ROOT
from tests.support.ledger import NOON_MS, new_submission, opened
from tests.support.ports import unserved_port
from tests.support.postgres import OWNER, PostgresServer
from tests.support.sealed import SealedLedger, sealed_ledger
from tests.support.stores import PostgresStore, open_in

LARGEST = 2**63 - 1
ANY_TEXT = "ä\t\n\\N ,\"'€𝄞"
ANY_BYTES = bytes(range(256))
AUDITED = {"events", "submissions", "seals", "boards", "cases", "case_counts"}
"""Tables whose rows have to follow from one another."""

INTERRUPTED = r"was interrupted on \d{4}-\d\d-\d\d, and may be whole; repeat `scoregate ledger copy`"
COPIED = r"this ledger was copied to PostgreSQL on \d{4}-\d\d-\d\d; set SCOREGATE_LEDGER_URL"

COLUMNS = {
    table.name: ", ".join(f'"{column.name}"' for column in table.columns) for table in metadata.sorted_tables
}
"""The columns of each table: a migrated file has later ones at the end."""

Rows = Mapping[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> SealedLedger:
    """A ledger with runs, seals, trusted writes and boards of a family, and with rows in every other table."""
    folder = tmp_path_factory.mktemp("copied")
    return asyncio.run(_filled(folder / "data", boards.board(folder / "policies")))


async def _filled(folder: Path, board: Board) -> SealedLedger:
    sealed = await sealed_ledger(folder, board)
    async with opened(sealed.path) as ledger:
        await open_tracks(ledger, "track.monza", "track.spa", metadata={"author": ANY_TEXT})
        await ledger.write(queries.add_server_key(ServerKey(KEY_ID, bytes(32), ("*",), NOON_MS)))
        await ledger.append(new_submission("held", state=State.HELD))
        write = [a_write("op-1", -7)]
        server = ServerRequest(KEY_ID, CREDENTIAL, "nonce", digest_of(write), NOON_MS)
        await ledger.write(perform_all(board, server, write))
    with closing(sqlite3.connect(sealed.path)) as connection, connection:
        for table in metadata.sorted_tables:
            if table.name not in AUDITED:
                for number in range(3):
                    row = [_extreme(column, number) for column in table.columns]
                    values = ", ".join("?" * len(row))
                    connection.execute(
                        f"INSERT INTO {table.name} ({COLUMNS[table.name]}) VALUES ({values})", row
                    )
    return sealed


def _extreme(column: Column[Any], number: int) -> Any:
    """What a column can hold at most, at least, and of the oddest kind."""
    if isinstance(column.type, BigInteger):
        return (LARGEST - 1, -LARGEST - 1, None if column.nullable else 0)[number]
    if isinstance(column.type, LargeBinary):
        return (ANY_BYTES, bytes([number]), None if column.nullable else b"")[number]
    return (ANY_TEXT, str(number), None if column.nullable else "")[number]


@pytest.fixture
def source(original: SealedLedger, tmp_path: Path) -> SealedLedger:
    return original.copy(tmp_path)


@pytest.fixture
def target(postgres_store: PostgresStore) -> PostgresStore:
    return postgres_store


def url_of(target: PostgresStore) -> str:
    return target.server.url(target.database, OWNER)


async def copied(source: SealedLedger, target: PostgresStore) -> copying.LedgerCopy:
    return await copy_ledger(source.path, url_of(target), lambda: source.keys)


def rows_of(source: SealedLedger) -> Rows:
    with closing(sqlite3.connect(source.path)) as connection:
        return {
            name: sorted(connection.execute(f"SELECT {columns} FROM {name}").fetchall(), key=repr)
            for name, columns in COLUMNS.items()
        }


async def rows_in(target: PostgresStore) -> Rows:
    return {
        name: sorted(await target.sql(f"SELECT {columns} FROM {name}"), key=repr)
        for name, columns in COLUMNS.items()
    }


async def test_every_row_of_every_table_is_copied_but_those_of_stewards(
    source: SealedLedger, empty: PostgresStore
):
    """Numbers of 64 bits, bytes, odd text and NULLs are what they were; the schema is made on the way."""
    before = rows_of(source)
    assert [] == [name for name, rows in before.items() if not rows]
    copy = await copied(source, empty)
    assert {**before, "stewards": []} == await rows_in(empty)
    assert before == rows_of(source)
    assert {name: len(rows) for name, rows in before.items() if name != "stewards"} == copy.rows
    planned = await empty.sql("SELECT reltuples::int FROM pg_class WHERE relname = 'standings'")
    assert [(len(before["standings"]),)] == planned


async def test_M09_the_copy_is_whole_and_goes_on(source: SealedLedger, target: PostgresStore):
    """It is what was sealed, its next event has the next number, and its next seal follows the last one."""
    await copied(source, target)
    newest = len(rows_of(source)["events"])
    async with open_in(target) as ledger:
        before = await audit(ledger, source.keys)
        assert (3, 2, newest) == (before.seals, before.boards, before.events)
        assert not (await ledger.append(new_submission("run-3", player="p0", score=103))).is_new
        assert (await ledger.append(new_submission("next"))).is_new
        assert newest + 1 == await ledger.read(queries.newest_seq())
        sealer = Sealer(source.settings, ledger, clock=lambda: NOON_MS + 10**9)
        while await sealer.step():
            pass
        after = await audit(ledger, source.keys)
        assert (newest + 1, newest + 1) == (after.events, after.sealed_events)


async def test_only_an_empty_database_is_copied_into(
    source: SealedLedger,
    original: SealedLedger,
    target: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    """What is there stays as it is, and is not even migrated; the file goes on as it was."""
    await copied(source, target)
    monkeypatch.delattr(copying, "upgrade_postgres")
    once, second = await rows_in(target), original.copy(tmp_path / "second")
    with pytest.raises(LedgerNotCopied, match="the database is not empty, achievements has rows"):
        await copied(second, target)
    assert once == await rows_in(target)
    async with opened(second.path):
        pass


class Asked(sqlite3.Connection):
    """A connection that says when it is about to wait for a file."""

    asking: ClassVar[SimpleQueue[None]] = SimpleQueue()

    def execute(self, *words: Any) -> sqlite3.Cursor:
        self.asking.put(None)
        return super().execute(*words)


async def test_a_part_that_waits_for_the_end_of_the_copy_does_not_begin_on_the_file(
    source: SealedLedger, target: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    """A unit that restarts by itself: it would accept runs that are in neither of two deployments."""
    connect = partial(sqlite3.connect, factory=Asked)
    began: list[Future[None]] = []

    async def begin() -> None:
        async with opened(source.path):
            pass

    with ThreadPoolExecutor(1) as pool:

        def start_a_part() -> PublicKeys:
            with monkeypatch.context() as patch:
                patch.setattr("gateway.ledger.sqlite.store.sqlite3.connect", connect)
                began.append(pool.submit(asyncio.run, begin()))
                Asked.asking.get(timeout=10)
            return source.keys

        await copy_ledger(source.path, url_of(target), start_a_part)
        with pytest.raises(LedgerUnavailable, match=COPIED):
            await asyncio.wrap_future(began[0])


async def test_a_copied_file_is_refused_by_everything_that_would_go_on_with_it(
    source: SealedLedger, target: PostgresStore, tmp_path: Path
):
    """Parts, commands, the status, a backup, and another copy: with what to do instead."""
    await copied(source, target)
    with pytest.raises(LedgerUnavailable, match=COPIED):
        version_at(source.path)
    with pytest.raises(BackupFailed, match=COPIED):
        back_up(source.settings, tmp_path / "backup")
    assert [] == [*(tmp_path / "backup").iterdir()]
    with pytest.raises(LedgerNotCopied, match=COPIED):
        await copied(source, target)
    with pytest.raises(LedgerUnavailable, match=COPIED):
        async with opened(source.path):
            pass


async def test_a_copy_that_is_killed_while_it_commits_is_finished_by_the_same_command(
    source: SealedLedger, target: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    """Whether PostgreSQL had committed or not; until then no part begins on either ledger."""
    before = {**rows_of(source), "stewards": []}
    for place, ending in (("_one_transaction", killed_at_the_end), ("_mark_whole", killed)):
        await interrupt(source, target, monkeypatch, place, ending)
        assert (place == "_mark_whole") == any((await rows_in(target)).values())
        with pytest.raises(LedgerUnavailable, match=INTERRUPTED):
            async with opened(source.path):
                pass
    monkeypatch.delattr(copying, "_copy_rows")
    copy = await copied(source, target)
    assert (before, len(before["events"])) == (await rows_in(target), copy.audit.events)
    with pytest.raises(LedgerUnavailable, match=COPIED):
        version_at(source.path)


async def interrupt(
    source: SealedLedger, target: PostgresStore, monkeypatch: pytest.MonkeyPatch, place: str, ending: Any
) -> None:
    """Begin a copy, and end it at a place as if the process was killed there."""
    with monkeypatch.context() as patch:
        patch.setattr(copying, place, ending)
        with pytest.raises(Killed):
            await copied(source, target)


class Killed(BaseException):
    """The end of a process."""


def killed(*_: object) -> None:
    raise Killed


@asynccontextmanager
async def killed_at_the_end(connection: Any) -> AsyncIterator[None]:
    await connection.execute("BEGIN")
    yield
    raise Killed


@pytest.mark.parametrize(
    "change",
    [["DELETE FROM progress"], ["ALTER TABLE events DISABLE TRIGGER ALL", "UPDATE events SET at_ms = 0"]],
)
async def test_an_interrupted_copy_is_not_finished_with_another_database(
    source: SealedLedger, target: PostgresStore, monkeypatch: pytest.MonkeyPatch, change: list[str]
):
    """What is in it is not what the file has: the file stays as it is."""
    await interrupt(source, target, monkeypatch, "_mark_whole", killed)
    for statement in change:
        await target.sql(statement)
    with pytest.raises(LedgerNotCopied, match="not empty, and not the copy of this file as it is: "):
        await copied(source, target)
    with pytest.raises(LedgerUnavailable, match=INTERRUPTED):
        version_at(source.path)


async def test_the_page_says_how_to_go_back_to_the_file(source: SealedLedger, target: PostgresStore):
    """Its statement takes the mark away, and nothing else."""
    before = rows_of(source)
    await copied(source, target)
    page = (ROOT / "docs" / "how-to" / "use-postgresql.md").read_text(encoding="utf-8")
    [statement] = re.findall(r'sqlite3 \S+ "(UPDATE .*)"', page)
    with closing(sqlite3.connect(source.path)) as connection, connection:
        connection.execute(statement)
    async with opened(source.path):
        assert before == rows_of(source)


async def test_nothing_is_copied_while_a_part_has_the_ledger_open(
    source: SealedLedger, target: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    """Even at rest; and no part opens it while it is copied."""
    monkeypatch.setattr(copying, "_HELD_S", 0.01)
    async with opened(source.path):
        with pytest.raises(LedgerNotCopied, match="another program has the ledger open: stop every part"):
            await copied(source, target)

    monkeypatch.setattr("gateway.ledger.sqlite.store.CREATED_S", 0.01)
    with copying._held(source.path), pytest.raises(LedgerUnavailable, match="locked"):
        async with opened(source.path):
            pass
    await copied(source, target)


async def test_M09_a_ledger_that_is_not_what_was_sealed_is_not_copied(
    source: SealedLedger, target: PostgresStore
):
    """The fault is named, and the database stays empty."""
    source.tamper("UPDATE submissions SET score = 1 WHERE seq = 4")
    with pytest.raises(LedgerTampered, match="event 4 was changed"):
        await copied(source, target)
    assert set() == {name for name, rows in (await rows_in(target)).items() if rows}


async def test_a_copy_that_fails_leaves_nothing_and_can_be_repeated(
    source: SealedLedger, target: PostgresStore
):
    """Text with a NUL, which PostgreSQL refuses, is in the last table; those before it are undone."""
    source.tamper("INSERT INTO webhooks VALUES ('w', 'a' || char(0), x'00', '', '', 0, 0, NULL)")
    with pytest.raises(LedgerNotCopied, match="0x00; nothing was copied"):
        await copied(source, target)
    assert set() == {name for name, rows in (await rows_in(target)).items() if rows}
    source.tamper("DELETE FROM webhooks WHERE webhook_id = 'w'")
    await copied(source, target)


def test_a_copy_that_is_killed_leaves_nothing_and_can_be_repeated(
    source: SealedLedger, postgres_server: PostgresServer
):
    """Killed after every table that it copied, before the commit."""

    async def killed_and_repeated() -> None:
        async with postgres_server.database() as name:
            target = PostgresStore(postgres_server, name)
            victim = multiprocessing.get_context("fork").Process(
                target=_killed, args=(source, url_of(target))
            )
            victim.start()
            victim.join()
            assert -signal.SIGKILL == victim.exitcode
            assert set() == {name for name, rows in (await rows_in(target)).items() if rows}
            await copied(source, target)
            assert {**rows_of(source), "stewards": []} == await rows_in(target)

    asyncio.run(killed_and_repeated())


def _killed(source: SealedLedger, url: str) -> None:
    """Copy, and die at the last row."""
    copying._PAGE = 1  # type: ignore[misc]
    rows = sum(len(rows) for rows in rows_of(source).values()) - len(rows_of(source)["stewards"])
    numbers = count(1)

    def die_at_the_last(_rows: int) -> None:
        if next(numbers) == rows:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(copy_ledger(source.path, url, lambda: source.keys, advance=die_at_the_last))


async def test_a_ledger_that_was_never_sealed_needs_no_key(tmp_path: Path, target: PostgresStore):
    """A deployment whose steward has not made its key yet can move."""

    def no_key() -> PublicKeys:
        raise AssertionError("asked for")

    async with opened(tmp_path / "ledger.sqlite3") as ledger:
        await ledger.append(new_submission("first"))
    copy = await copy_ledger(tmp_path / "ledger.sqlite3", url_of(target), no_key)
    assert (1, 0) == (copy.audit.events, copy.audit.seals)


async def test_a_file_of_another_version_is_not_copied(source: SealedLedger, target: PostgresStore):
    """The command that migrates it is named."""
    source.tamper("UPDATE alembic_version SET version_num = '0001'")
    migrate = f"run `scoregate ledger migrate --url sqlite:///{source.path}` first"
    with pytest.raises(LedgerNotCopied, match=re.escape(migrate)):
        await copied(source, target)


async def test_a_database_that_does_not_answer_is_named(source: SealedLedger):
    """With what the driver says of it, and without the password."""
    with unserved_port() as port:
        url = f"postgresql://{OWNER}:open-sesame@127.0.0.1:{port}/none"
        with pytest.raises(LedgerNotCopied, match=r"^PostgreSQL: .*(refused|Connect call failed)") as caught:
            await copy_ledger(source.path, url, lambda: source.keys)
    assert "open-sesame" not in str(caught.value)


async def test_a_lost_answer_to_the_commit_is_not_taken_for_a_failure():
    """Nobody knows then whether there is a copy; what a second try says tells."""

    class Lost:
        async def execute(self, statement: str) -> None:
            if statement == "COMMIT":
                raise ConnectionResetError("reset")

        async def fetchval(self, *_: object) -> bool:
            return False

    with pytest.raises(LedgerNotCopied, match="reset; whether the copy was committed is unknown: repeat"):
        async with copying._one_transaction(Lost()):
            pass
