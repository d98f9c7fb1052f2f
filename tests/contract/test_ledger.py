"""What every ledger must keep to, whichever database carries it: durability, identity, isolation, append-only."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from gateway.ledger import queries
from gateway.ledger.group import Write
from gateway.ledger.records import NewSubmission
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.transaction import Query, Transaction
from policies.errors import LedgerOverloaded, LedgerUnavailable
from policies.vocabulary import State
from tests.support.deployment import eventually
from tests.support.ledger import is_intact, new_submission, opened, rows

FACTS = [
    "seq",
    "submission_id",
    "board",
    "player",
    "credential",
    "nonce",
    "content_digest",
    "build",
    "seed",
    "issued_at_ms",
    "received_at_ms",
    "score",
    "ticks",
    "stats",
    "recording_digest",
    "simulator",
    "findings",
    "initial_state",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteLedger]:
    async with opened(path) as running:
        yield running


def commits(ledger: SqliteLedger) -> list[int]:
    """Fills with the size of each group as it is committed."""
    sizes: list[int] = []
    taken = ledger._next_group

    def counted() -> tuple[list[Write], bool]:
        group, is_last = taken()
        if group:
            sizes.append(len(group))
        return group, is_last

    ledger._next_group = counted  # type: ignore[method-assign]
    return sizes


async def append_all(ledger: SqliteLedger, news: list[NewSubmission]) -> list[object]:
    return await asyncio.gather(*(ledger.append(new) for new in news), return_exceptions=True)


async def test_an_append_is_durable_with_its_event_its_recording_and_its_outbox_row(
    ledger: SqliteLedger, path: Path
):
    """One append is one row in each table, all under one sequence number."""
    receipt = await ledger.append(new_submission("run-1", score=42))

    assert (True, 42, State.PENDING) == (receipt.is_new, receipt.score, receipt.state)
    assert [(1, "run-1", 42)] == rows(path, "SELECT seq, submission_id, score FROM submissions")
    assert [(1, "received", "pending")] == rows(path, "SELECT seq, from_state, to_state FROM events")
    assert [(1, "verify", "run-1")] == rows(path, "SELECT seq, kind, submission_id FROM outbox")
    assert [(b"a recording",)] == rows(path, "SELECT body FROM recordings")


async def test_many_appends_share_few_commits(ledger: SqliteLedger, path: Path):
    """What comes while a group is being committed goes into the next one, together."""
    sizes = commits(ledger)
    await ledger.append(new_submission("first"))  # the writer already waits for it, uncounted

    receipts = await append_all(ledger, [new_submission(f"run-{n}") for n in range(500)])

    assert 500 == sum(sizes)
    assert len(sizes) <= 10
    assert all(receipt.is_new for receipt in receipts)
    assert [(501, 501)] == rows(path, "SELECT count(*), max(seq) FROM events")


async def test_equal_recordings_are_stored_once(ledger: SqliteLedger, path: Path):
    """Recordings are known by their digest."""
    await append_all(ledger, [new_submission("run-1"), new_submission("run-2")])
    await ledger.append(new_submission("run-3"))
    assert [(1,)] == rows(path, "SELECT count(*) FROM recordings")
    assert [(3,)] == rows(path, "SELECT count(*) FROM submissions")


@pytest.mark.parametrize("is_one_group", [True, False], ids=["inside-a-group", "across-groups"])
async def test_S17_a_second_append_of_an_id_is_told_what_stands_there(
    ledger: SqliteLedger, path: Path, *, is_one_group: bool
):
    """The first content under an id stays; the receipt of any other tells of the first."""
    news = [
        new_submission("run-1", score=1, content=b"one"),
        new_submission("run-1", score=2, content=b"two"),
    ]
    if is_one_group:
        first, second = await append_all(ledger, news)
    else:
        first, second = await ledger.append(news[0]), await ledger.append(news[1])

    assert (True, False) == (first.is_new, second.is_new)
    assert (1, first.content_digest) == (second.score, second.content_digest)
    assert [(1,)] == rows(path, "SELECT score FROM submissions")
    assert [(1,)] == rows(path, "SELECT count(*) FROM events")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET actor = 'nobody'",
        "DELETE FROM events",
        "UPDATE recordings SET body = x'00'",
        "DELETE FROM recordings",
        "DELETE FROM submissions",
        *(f"UPDATE submissions SET {fact} = {fact}" for fact in FACTS),
    ],
)
async def test_M09_history_cannot_be_rewritten(ledger: SqliteLedger, path: Path, statement: str):
    """Whoever has the file open, with whatever program: the triggers refuse."""
    await ledger.append(new_submission("run-1"))
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        connection.execute(statement)


async def test_M09_the_facts_are_all_there_are_but_the_state(ledger: SqliteLedger, path: Path):
    """The columns of a submission that may change are the four of its state, which is a fold of the events."""
    await ledger.append(new_submission("run-1"))
    columns = {row[1] for row in rows(path, "PRAGMA table_info(submissions)")}
    assert {"state", "reason", "attempt", "lease_until_ms"} == columns - set(FACTS)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE submissions SET state = 'held', reason = 'x', attempt = 1, lease_until_ms = 5"
        )


async def test_tables_are_strict(ledger: SqliteLedger, path: Path):
    """A value of the wrong type is refused, not converted; a score past 2^53 - 1 as well."""
    del ledger
    strict = rows(
        path, "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'"
    )
    assert [] == [name for name, is_strict in strict if not is_strict]
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO players VALUES ('ada', 'Ada', 'yesterday')")


async def test_a_failing_operation_undoes_itself_and_not_its_group(ledger: SqliteLedger, path: Path):
    """What an operation raises is its caller's alone; its neighbours in the commit stay."""

    async def half(tx: Transaction) -> None:
        await queries.add_player("half", "Half", now_ms=1)(tx)
        raise KeyError("half way")

    outcomes = await asyncio.gather(
        ledger.append(new_submission("run-1")),
        ledger.write(queries.add_player("ada", "Ada", now_ms=1)),
        ledger.write(half),
        ledger.write(queries.add_player("ada", "Other", now_ms=1)),
        ledger.write(queries.add_player("bob", "Bob", now_ms=1)),
        return_exceptions=True,
    )

    assert [None, KeyError, sqlite3.IntegrityError, None] == [type(o) if o else o for o in outcomes[1:]]
    assert [("ada", "Ada"), ("bob", "Bob")] == rows(path, "SELECT player, name FROM players ORDER BY 1")
    assert ["run-1"] == [row[0] for row in rows(path, "SELECT submission_id FROM submissions")]


@pytest.mark.parametrize(
    "unstorable",
    [
        new_submission("bad", score=2**53),
        new_submission("bad", score=2**64),
        new_submission("bad", player="lone\ud800surrogate"),
        new_submission("bad", at_ms=2**63),
    ],
    ids=["constraint", "too-large", "surrogate", "time"],
)
async def test_an_append_that_cannot_be_stored_harms_nobody_else(
    ledger: SqliteLedger, path: Path, unstorable: NewSubmission
):
    """It alone fails; its group is stored, and the writer lives on."""
    news = [new_submission("run-1"), unstorable, new_submission("run-2")]
    before, failed, after = await append_all(ledger, news)

    assert (True, True) == (before.is_new, after.is_new)
    assert isinstance(failed, sqlite3.IntegrityError | OverflowError | UnicodeEncodeError)
    assert (await ledger.append(new_submission("run-3"))).is_new
    assert [(3,)] == rows(path, "SELECT count(*) FROM submissions")


async def test_an_operation_that_awaits_something_else_is_refused(ledger: SqliteLedger):
    """An operation runs in the writer's thread, where nothing would ever wake it."""

    async def sleepy(_tx: Transaction) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="await nothing but its transaction"):
        await ledger.write(sleepy)
    assert (await ledger.append(new_submission("run-1"))).is_new


async def test_a_wrong_statement_is_not_taken_for_a_failing_database(ledger: SqliteLedger):
    """It is our bug: it reaches its caller as it is, from a write as from a read."""
    wrong = Query(text("SELECT * FROM no_such_table"))

    async def ask(tx: Transaction) -> object:
        return await tx.rows(wrong)

    for attempt in (ledger.write, ledger.read):
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await attempt(ask)


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
        assert 1 == await ledger.read(queries.head())
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


async def _limit(tx: Transaction) -> None:
    [[pages]] = await tx.rows(Query(text("PRAGMA page_count")))
    await tx.rows(Query(text(f"PRAGMA max_page_count = {pages + 2}")))


async def _unlimit(tx: Transaction) -> None:
    await tx.rows(Query(text("PRAGMA max_page_count = 1000000")))


async def test_I09_a_ledger_locked_by_another_program_refuses_in_time_and_then_works_again(path: Path):
    """A write waits for its turn no longer than it may; readers are not held up."""
    async with opened(path, busy_timeout_s=0.2) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as intruder:
            intruder.execute("BEGIN IMMEDIATE")
            started = asyncio.get_running_loop().time()
            with pytest.raises(LedgerUnavailable, match="locked"):
                await ledger.append(new_submission("run-1"))
            assert asyncio.get_running_loop().time() - started < 1.0
            assert 0 == await ledger.read(queries.head())
            intruder.execute("ROLLBACK")
        assert (await ledger.append(new_submission("run-1"))).is_new


async def test_I09_a_short_lock_is_waited_for(path: Path):
    """Another writer's transaction that ends within the time-out costs nobody an error."""
    async with opened(path, busy_timeout_s=5) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as intruder:
            intruder.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(ledger.append(new_submission("run-1")))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            intruder.execute("ROLLBACK")
            assert (await waiting).is_new


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


async def test_a_queue_that_is_full_refuses_at_once(path: Path):
    """Waiting is bounded: past the limit the ledger says that it is overloaded, and what waits is not harmed."""
    async with opened(path, queue_limit=3, busy_timeout_s=5) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as intruder:
            intruder.execute("BEGIN IMMEDIATE")
            first = asyncio.create_task(ledger.append(new_submission("first")))
            await asyncio.sleep(0)
            await eventually(ledger._queue.empty)  # the writer has it, and waits for the lock
            waiting = [asyncio.create_task(ledger.append(new_submission(f"run-{n}"))) for n in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(LedgerOverloaded):
                await ledger.append(new_submission("one too many"))
            intruder.execute("ROLLBACK")
        receipts = await asyncio.gather(first, *waiting)
    assert [True] * 4 == [receipt.is_new for receipt in receipts]


async def test_closing_commits_what_is_queued(path: Path):
    """Nothing that was taken is dropped; nothing is taken any more."""
    ledger = SqliteLedger(path)
    await ledger.open()
    waiting = [asyncio.ensure_future(ledger.append(new_submission(f"run-{n}"))) for n in range(700)]
    await asyncio.sleep(0)

    await ledger.close()

    assert [True] * 700 == [receipt.is_new for receipt in await asyncio.gather(*waiting)]
    assert [(700,)] == rows(path, "SELECT count(*) FROM submissions")
    with pytest.raises(LedgerOverloaded):
        await ledger.append(new_submission("late"))


async def test_a_caller_that_went_away_takes_nothing_with_it(ledger: SqliteLedger, path: Path):
    """A cancelled append is stored all the same, and its group is answered."""
    gone = asyncio.create_task(ledger.append(new_submission("gone")))
    stays = asyncio.create_task(ledger.append(new_submission("stays")))
    await asyncio.sleep(0)
    gone.cancel()

    assert (await stays).is_new
    assert [("gone",), ("stays",)] == rows(path, "SELECT submission_id FROM submissions ORDER BY seq")


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
    [("PRAGMA user_version=99", "schema version 99"), ("CREATE TABLE notes (text)", "not a ledger")],
)
async def test_a_file_of_another_version_or_kind_is_refused_at_start(tmp_path, statement, said):
    """It is not written to, and the error names the file."""
    path = tmp_path / "ledger.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    with pytest.raises(LedgerUnavailable, match=f"{path}: .*{said}"):
        await SqliteLedger(path).open()
