"""What nobody foresaw: one event with an id, at a bounded rate, counted, and whoever met it goes on."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg
import hiredis
import pytest
import structlog
from obstore.exceptions import GenericError
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import MaxConnectionsError, ResponseError
from structlog.testing import capture_logs

from gateway.index.scripts import index_boundary
from gateway.ledger.postgres import transaction as postgres_transaction
from gateway.ledger.postgres.transaction import driver_boundary
from gateway.ledger.sqlite import transaction as sqlite_transaction
from gateway.recordings import directory, objects
from gateway.runtime.boundary import boundary
from gateway.runtime.log_sieve import PER_MINUTE, Sieve, SievedEvents, SievedRecords
from gateway.runtime.telemetry import REPEATED, Event, _LossyStream
from gateway.runtime.unexpected import FaultPlace, report
from gateway.steward import dispatch
from gateway.steward.pauses import LONGEST_BACK_OFF_S, back_off_s
from policies.errors import (
    IndexNotWhole,
    IndexUnavailable,
    LedgerUnavailable,
    QueueUnavailable,
    RecordingsUnavailable,
    StateConflict,
)
from scoregate.processes import LOG_BYTES, Supervisor
from tests.support.harness import Harness
from tests.support.metrics import counts, metric

BELOW = [
    RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
    ConnectionResetError(104, "Connection reset by peer"),
    BrokenPipeError(32, "Broken pipe"),
    ssl.SSLError(1, "bad record"),
    TimeoutError(),
    EOFError(),
    asyncio.IncompleteReadError(b"", 3),
    asyncio.InvalidStateError("invalid state"),
    asyncio.CancelledError(),
    AttributeError("'NoneType' object has no attribute 'write'"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    struct.error("unpack requires a buffer of 8 bytes"),
    json.JSONDecodeError("unexpected end", "", 0),
    ValueError("invalid literal for int()"),
    TypeError("cannot unpack non-iterable NoneType object"),
    IndexError("list index out of range"),
    KeyError("nothing"),
    AssertionError(),
    BufferError("Existing exports of data: object cannot be re-sized"),
]
"""What sockets, event loops and parsers raise under any driver, or over what it returned."""

REDIS = [NoConnection(), MaxConnectionsError(), ResponseError("OOM"), hiredis.ProtocolError("bad reply")]
POSTGRES = [
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    asyncpg.InterfaceError("connection is closed"),
    asyncpg.InternalClientError("got result for unknown protocol state 3"),
    asyncpg.TooManyConnectionsError("sorry, too many clients already"),
]
BOUNDARIES = {
    "redis": (index_boundary, IndexUnavailable, [*BELOW, *REDIS]),
    "postgres": (driver_boundary, LedgerUnavailable, [*BELOW, *POSTGRES]),
    "bucket": (objects._faults, RecordingsUnavailable, [*BELOW, GenericError("bad gateway")]),
    "directory": (directory._faults, RecordingsUnavailable, BELOW),
    "queue": (dispatch._queueing, QueueUnavailable, [*BELOW, *REDIS]),
}


@pytest.mark.parametrize("name", BOUNDARIES)
async def test_F20_whatever_a_driver_raises_is_our_own_error(name: str):
    """Each boundary has one error for all that its drivers raise, and lets our own errors and cancellations pass."""
    boundary, unavailable, errors = BOUNDARIES[name]
    passed = [type(each).__name__ for each in errors if not is_mapped(boundary, unavailable, each)]
    assert [] == passed
    for own in (StateConflict(), IndexNotWhole()):
        with pytest.raises(type(own)), boundary():
            raise own


def is_mapped(boundary, unavailable, error: BaseException) -> bool:
    with pytest.raises(BaseException) as caught, boundary():  # noqa: PT011 - which one is what is asked
        raise error
    if boundary is driver_boundary:  # the database's own answers are told apart later
        return postgres_transaction.is_fault(caught.value)
    return isinstance(caught.value, unavailable)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "TimeoutError"),
        (OSError("no route to host\nand more"), "no route to host"),
        (ValueError("one of ours"), r"ValueError \(event [0-9a-f]{8}-[0-9a-f]{8}\)"),
    ],
    ids=str,
)
def test_F20_what_a_driver_raised_is_said_in_a_line(error: Exception, said: str):
    """Its first line, or what it is called; what nobody foresaw by its event, which tells the rest, and is counted."""
    unforeseen = isinstance(error, ValueError)
    with (
        counts(unforeseen, "scoregate_unexpected_total", place="recordings"),
        pytest.raises(RecordingsUnavailable, match=f"^{said}$") as told,
        boundary(FaultPlace.RECORDINGS, RecordingsUnavailable),
    ):
        raise error
    assert error is told.value.__cause__


DATABASES_FAULTS = (
    asyncpg.exceptions.PostgresConnectionError,
    asyncpg.exceptions.TransactionRollbackError,
    asyncpg.exceptions.InsufficientResourcesError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.PostgresSystemError,
    asyncpg.exceptions.InternalServerError,
    asyncpg.exceptions.ReadOnlySQLTransactionError,
    asyncpg.exceptions.IdleInTransactionSessionTimeoutError,
    asyncpg.exceptions.TransactionTimeoutError,
    asyncpg.exceptions.LockNotAvailableError,
)
"""Errors of PostgreSQL, and all kinds of each, of which no statement is the cause."""


def kinds_of(error: type[BaseException]) -> Iterator[type[BaseException]]:
    yield error
    for kind in error.__subclasses__():
        yield from kinds_of(kind)


def test_F20_postgres_that_fails_is_told_from_a_wrong_statement():
    """By each of its codes: who is told a fault comes again, and whose statement is wrong need not."""
    errors = {kind for kind in kinds_of(asyncpg.PostgresError) if getattr(kind, "sqlstate", None)}
    faults = {kind for kind in errors if issubclass(kind, DATABASES_FAULTS)}
    told = {kind for kind in errors if postgres_transaction.is_fault(kind("said"))}
    assert faults == told
    assert len(errors) > len(faults) > len(DATABASES_FAULTS)


OUR_CODES = {"SQLITE_ERROR", "SQLITE_TOOBIG", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_RANGE"}
ERROR_CODES = {
    "ABORT", "AUTH", "BUSY", "CANTOPEN", "CONSTRAINT", "CORRUPT", "EMPTY", "ERROR", "FORMAT", "FULL", "INTERNAL",
    "INTERRUPT", "IOERR", "LOCKED", "MISMATCH", "MISUSE", "NOLFS", "NOMEM", "NOTADB", "NOTFOUND", "PERM",
    "PROTOCOL", "RANGE", "READONLY", "SCHEMA", "TOOBIG",
}  # fmt: skip
"""SQLite's result codes but for those of success and of warnings (sqlite.org/rescode.html)."""


@pytest.mark.parametrize("extension", [0, 256, 8 * 256])
def test_F20_a_code_of_sqlite_blames_the_statement_or_the_database(extension: int):
    """Whatever kind of it the extended code names."""
    blamed = set()
    for name in ERROR_CODES:
        error = sqlite3.OperationalError()
        error.sqlite_errorcode = getattr(sqlite3, f"SQLITE_{name}") | extension
        blamed |= set() if sqlite_transaction.is_fault(error) else {f"SQLITE_{name}"}
    assert OUR_CODES == blamed


async def test_F20_who_is_cancelled_is_cancelled():
    """A cancellation of our own is no failure of what we were waiting for."""

    async def wait() -> None:
        with index_boundary():
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_F20_sqlite_that_fails_is_told_from_a_wrong_statement(tmp_path: Path):
    """A closed connection, text that is no UTF-8, a file that is none: the ledger's fault. A constraint or a typo: ours."""
    (tmp_path / "none.sqlite3").write_bytes(b"no database at all, but long enough to be looked at" * 40)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a TEXT NOT NULL) STRICT")
    closed = sqlite3.connect(":memory:")
    closed.close()
    faults = [
        raised(closed, "SELECT 1"),
        raised(connection, "SELECT CAST(x'ff' AS TEXT)"),
        raised(sqlite3.connect(tmp_path / "none.sqlite3"), "SELECT * FROM t"),
    ]
    bugs = [
        raised(connection, "INSERT INTO t VALUES (NULL)"),
        raised(connection, "SELEC 1"),
        raised(connection, "SELECT ?"),
    ]
    assert [True] * 3 == [sqlite_transaction.is_fault(each) for each in faults]
    assert [False] * 3 == [sqlite_transaction.is_fault(each) for each in bugs]


def raised(connection: sqlite3.Connection, statement: str) -> Exception:
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(statement).fetchall()
    return caught.value


async def test_F20_what_nobody_foresaw_has_an_id_for_the_user_and_the_log(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A bug is answered with a 500 that names its event; the log has it with its traceback, and a metric counts it."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("one of ours")

    monkeypatch.setattr("gateway.edge.reads.boards.board_info", fail)
    before = counted("request")
    with capture_logs() as logs:
        answer = await harness.get("/v1/boards")
    [event] = [each for each in logs if each["event"] == Event.UNEXPECTED]
    assert (500, "internal-error") == (answer.status, answer.problem)
    assert f"urn:scoregate:event:{event['event_id']}" == answer.body["instance"]
    assert ("/v1/boards", "request") == (event["route"], event["place"])
    assert isinstance(event["exc_info"], ZeroDivisionError)
    assert event["event_id"].startswith(event["fingerprint"])
    assert before + 1 == counted("request")


def counted(place: str) -> float:
    return metric("scoregate_unexpected_total", place=place)


def test_F02_the_same_failure_is_logged_a_few_times_a_minute():
    """Of a thousand alike the log has a handful with their tracebacks, then how many it left out; others are heard."""
    now_s = [0.0]
    sieved = SievedEvents(REPEATED, Sieve(monotonic_s=lambda: now_s[0]))
    with written(sieved) as lines:
        for _ in range(1000):
            fail_at_one_place()
        assert PER_MINUTE == len(lines)
        report(FaultPlace.DUTY, KeyError("another"), duty="seal")
        assert PER_MINUTE + 1 == len(lines)
        now_s[0] = 61.0
        fail_at_one_place()
    assert 1000 - PER_MINUTE == lines[-1]["left_out"]
    assert len({line["event_id"] for line in lines}) == len(lines)


def test_F02_a_failure_is_known_by_the_code_that_raised_it():
    """Whoever called it from far away, it is the same one; another error of the same callers is another."""

    def print_of(raising: Callable[[], None], calls: int) -> str:
        def deeper(left: int) -> None:
            deeper(left - 1) if left else raising()

        with pytest.raises((KeyError, ValueError)) as raised:
            deeper(calls)
        return report(FaultPlace.DUTY, raised.value).partition("-")[0]

    def one() -> None:
        raise KeyError("one")

    def other() -> None:
        raise KeyError("one")

    assert print_of(one, 8) == print_of(one, 9)
    assert 3 == len({print_of(one, 8), print_of(other, 8), print_of(lambda: int("x"), 8)})


def fail_at_one_place() -> None:
    report(FaultPlace.REQUEST, ZeroDivisionError("one of ours"))


@contextmanager
def written(sieved: SievedEvents):
    """The events that get through."""
    lines: list[dict] = []

    def keep(_logger: object, _method: str, event: dict) -> dict:
        lines.append(event)
        raise structlog.DropEvent

    with capture_logs():
        structlog.configure(processors=[sieved, keep])
        yield lines


def test_F02_the_sieve_is_bounded_by_itself():
    """However many things fail, the sieve remembers so many of them."""
    sieve = Sieve()
    for number in range(5000):
        sieve.left_out(number)
    assert len(sieve._seen) <= 256


def test_F02_libraries_are_sieved_too():
    """What aiohttp or asyncio log again and again from one line of theirs is cut down alike."""
    sieved = SievedRecords(Sieve())
    record = logging.LogRecord("asyncio", logging.ERROR, "base_events.py", 1785, "a task failed", None, None)
    assert PER_MINUTE == sum(sieved.filter(record) for _ in range(500))


def test_F02_a_long_log_is_put_aside_and_at_last_let_go(tmp_path: Path):
    """The log of a part that talks is emptied at its limit; three that were put aside are kept, and it goes on writing."""
    parts = Supervisor(tmp_path)
    talk = f"import sys; sys.stdout.write('x' * {LOG_BYTES + 1}); sys.stdout.flush(); sys.stdin.read()"
    log = tmp_path / "talker.log"
    for turn in range(5):
        parts.start("talker", ["python3", "-c", talk], {})
        parts._parts[-1].process.wait()
        log.open("ab").write(str(turn).encode())
        parts.rotate_logs()
    found = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert {"talker.log", "talker.log.1", "talker.log.2", "talker.log.3"} == found.keys()
    assert 0 == found["talker.log"]
    assert b"4" == (tmp_path / "talker.log.1").read_bytes()[-1:]


def test_N12_where_it_is_asked_for_parts_print_to_our_own_output(capfd: pytest.CaptureFixture[str]):
    """With `stdout` there is no file: what a part prints is what the container prints."""
    parts = Supervisor(None)
    parts.start("talker", ["python3", "-c", "import sys; print('out'); print('err', file=sys.stderr)"], {})
    parts._parts[0].process.wait()
    parts.rotate_logs()
    assert {"out", "err"} == set(capfd.readouterr().out.split())


async def test_F20_a_duty_that_fails_as_nobody_foresaw_lives_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The steward tells of it once each time, leaves it alone for longer and longer, and goes on when it is well."""
    steward, calls, is_well = harness.steward(), [], asyncio.Event()

    async def duty() -> int:
        calls.append(1)
        if len(calls) < 4:
            raise ZeroDivisionError
        is_well.set()
        return 0

    with capture_logs() as logs:
        running = asyncio.create_task(steward._for_ever(duty, 0.01))
        async with asyncio.timeout(10):
            await is_well.wait()
        running.cancel()
    assert 3 == sum(each["event"] == Event.UNEXPECTED for each in logs)
    pauses = [back_off_s(failures) for failures in range(40)]
    assert pauses == sorted(pauses)
    assert (0.0, LONGEST_BACK_OFF_S) == (pauses[0], pauses[-1])


async def test_a_duty_without_a_ledger_is_tried_again_at_its_own_pace(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Only what nobody foresaw is left alone for longer: a database that is back is used at once."""
    steward, pauses = harness.steward(), list[float]()

    async def duty() -> int:
        raise LedgerUnavailable

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            raise asyncio.CancelledError

    monkeypatch.setattr(steward.leases, "pause", pause)
    with pytest.raises(asyncio.CancelledError):
        await steward._for_ever(duty, 0.01)
    assert [0.01] * 8 == pauses


@pytest.mark.parametrize("buffering", [-1, 0], ids=["buffered", "unbuffered"])
def test_F20_whoever_logs_on_a_full_disk_goes_on(buffering: int):
    """The line is lost, whether the disk refuses it as it is written or as it is flushed."""
    full = Path("/dev/full").open("wb", buffering=buffering)  # noqa: SIM115 - closing it fails too
    log = structlog.BytesLogger(_LossyStream(full))  # type: ignore[arg-type]
    for _ in range(3):
        log.info(b"a line")
    with suppress(OSError):
        full.close()
