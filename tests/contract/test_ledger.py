"""What every ledger must keep to, whichever database carries it: durability, identity, isolation, append-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import LargeBinary, Text, bindparam, func, insert, literal, select, text

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import NewSubmission
from gateway.ledger.schema import events, players
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Query, Transaction
from policies.errors import LedgerOverloaded, LedgerUnavailable
from policies.vocabulary import State
from tests.support.deployment import eventually
from tests.support.ledger import new_submission
from tests.support.stores import Store, open_in

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
    "achieved_at_ms",
    "details",
    "score",
    "ticks",
    "stats",
    "recording_digest",
    "simulator",
    "runs_opened",
    "runs_submitted",
    "findings",
    "initial_state",
    "board_content",
]


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def commits(ledger: Any) -> list[int]:
    """Fills with the size of each group as it is committed."""
    sizes: list[int] = []
    group_from = ledger._group_from

    def counted(first: Any) -> Any:
        group, is_last = group_from(first)
        sizes.append(len(group))
        return group, is_last

    ledger._group_from = counted
    return sizes


def append_elsewhere(store: Store, new: NewSubmission) -> None:
    """Appends through a ledger of another thread, and returns when it is durable."""

    async def append() -> None:
        async with open_in(store) as other:
            await other.append(new)

    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, append()).result()


async def append_all(ledger: Ledger, news: list[NewSubmission]) -> list[object]:
    return await asyncio.gather(*(ledger.append(new) for new in news), return_exceptions=True)


async def test_an_append_is_durable_with_its_event_its_recording_and_its_outbox_row(
    ledger: Ledger, store: Store
):
    """One append is one row in each table, all under one sequence number."""
    receipt = await ledger.append(new_submission("run-1", score=42))

    assert (True, 42, State.PENDING) == (receipt.is_new, receipt.score, receipt.state)
    assert [(1, "run-1", 42)] == await store.sql("SELECT seq, submission_id, score FROM submissions")
    assert [(1, "received", "pending")] == await store.sql("SELECT seq, from_state, to_state FROM events")
    assert [(1, "verify", "run-1")] == await store.sql("SELECT seq, kind, submission_id FROM outbox")
    assert [(b"a recording",)] == await store.sql("SELECT body FROM recordings")


async def test_of_what_is_refused_at_once_nothing_waits_and_no_recording_is_kept(
    ledger: Ledger, store: Store
):
    """Its facts and its event stay, with the digest of what it sent: a flood of it fills no disk and no queue."""
    refused = new_submission("run-1", state=State.REJECTED, recording=b"a recording")
    await ledger.append(refused)
    await ledger.append(new_submission("run-2", state=State.REJECTED)._replace(reveal_ms=1_000))
    digests = await store.sql("SELECT recording_digest FROM submissions ORDER BY seq")
    assert [(refused.recording_digest,)] * 2 == [(bytes(each),) for (each,) in digests]
    assert [("rejected",)] * 2 == await store.sql("SELECT to_state FROM events ORDER BY seq")
    for table in ("recordings", "commitments", "outbox"):
        assert [(0,)] == await store.sql(f"SELECT count(*) FROM {table}")


async def test_many_appends_share_few_commits(ledger: Ledger, store: Store):
    """What comes while a group is being committed goes into the next one, together."""
    sizes = commits(ledger)
    await ledger.append(new_submission("first"))
    sizes.clear()  # the writer may have waited for it before anybody counted

    receipts = await append_all(ledger, [new_submission(f"run-{n}") for n in range(500)])

    assert 500 == sum(sizes)
    assert len(sizes) <= 10
    assert all(receipt.is_new for receipt in receipts)
    assert [(501, 501)] == await store.sql("SELECT count(*), max(seq) FROM events")


async def test_equal_recordings_are_stored_once(ledger: Ledger, store: Store):
    """Recordings are known by their digest."""
    await append_all(ledger, [new_submission("run-1"), new_submission("run-2")])
    await ledger.append(new_submission("run-3"))
    assert [(1,)] == await store.sql("SELECT count(*) FROM recordings")
    assert [(3,)] == await store.sql("SELECT count(*) FROM submissions")


@pytest.mark.parametrize("is_one_group", [True, False], ids=["inside-a-group", "across-groups"])
async def test_S17_a_second_append_of_an_id_is_told_what_stands_there(
    ledger: Ledger, store: Store, *, is_one_group: bool
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
    assert [(1,)] == await store.sql("SELECT score FROM submissions")
    assert [(1,)] == await store.sql("SELECT count(*) FROM events")


async def test_M09_history_cannot_be_rewritten(ledger: Ledger, store: Store):
    """Whoever has the database open, with whatever program and as whatever role: the triggers refuse."""
    await ledger.append(new_submission("run-1"))
    for statement in (
        "UPDATE events SET actor = 'nobody'",
        "DELETE FROM events",
        "UPDATE recordings SET first_seq = 7",
        "DELETE FROM recordings",
        "DELETE FROM submissions",
        "UPDATE events SET detail = 'nothing'",
        "UPDATE submissions SET player = 'somebody'",
        "UPDATE submissions SET played_by = 'somebody'",
        *(f"UPDATE submissions SET {fact} = {fact}" for fact in FACTS if fact != "player"),
    ):
        with pytest.raises(store.refusals, match="append-only"):
            await store.sql(statement)


async def test_M09_the_facts_are_all_there_are_but_the_state(ledger: Ledger, store: Store):
    """The columns that may change are the four of its state, a fold of the events, and for whom it counts."""
    await ledger.append(new_submission("run-1"))
    columns = await store.columns("submissions")
    assert {"state", "reason", "attempt", "lease_until_ms", "played_by"} == columns - set(FACTS)
    await store.sql("UPDATE submissions SET state = 'held', reason = 'x', attempt = 1, lease_until_ms = 5")
    await store.sql("UPDATE submissions SET played_by = player, player = 'somebody'")


async def test_a_submission_keeps_what_its_board_gave_the_simulator(ledger: Ledger):
    """The content digest of a run's ticket is stored with it; a board without content leaves nothing."""
    for name, content in (("run-1", b"c" * 32), ("run-2", None)):
        await ledger.append(new_submission(name, board_content=content))
        stored = await ledger.read(queries.submission(name))
        assert stored is not None
        assert (content, None) == (stored.board_content, stored.runs_submitted)


async def test_a_failing_operation_undoes_itself_and_not_its_group(ledger: Ledger, store: Store):
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

    first, half_way, taken, last = outcomes[1:]
    assert (None, KeyError, None) == (first, type(half_way), last)
    assert isinstance(taken, store.refusals)
    assert [("ada", "Ada"), ("bob", "Bob")] == await store.sql("SELECT player, name FROM players ORDER BY 1")
    assert ["run-1"] == [row[0] for row in await store.sql("SELECT submission_id FROM submissions")]


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
    ledger: Ledger, store: Store, unstorable: NewSubmission
):
    """It alone fails; its group is stored, and the writer lives on."""
    news = [new_submission("run-1"), unstorable, new_submission("run-2")]
    before, failed, after = await append_all(ledger, news)

    assert (True, True) == (before.is_new, after.is_new)
    assert isinstance(failed, store.refusals)
    assert (await ledger.append(new_submission("run-3"))).is_new
    assert [(3,)] == await store.sql("SELECT count(*) FROM submissions")


async def test_an_operation_that_awaits_something_else_is_refused(ledger: Ledger):
    """It would hold every other writer up; on SQLite nothing would ever wake it."""

    async def sleepy(_tx: Transaction) -> None:
        await asyncio.sleep(0)

    for attempt in (ledger.write, ledger.read):
        with pytest.raises(RuntimeError, match="await nothing but its transaction"):
            await attempt(sleepy)
    assert (await ledger.append(new_submission("run-1"))).is_new


async def test_a_wrong_statement_is_not_taken_for_a_failing_database(ledger: Ledger, store: Store):
    """It is our bug: it reaches its caller as it is, from a write as from a read."""
    wrong = Query(text("SELECT * FROM no_such_table"))

    async def ask(tx: Transaction) -> object:
        return await tx.rows(wrong)

    for attempt in (ledger.write, ledger.read):
        with pytest.raises(store.errors, match="no_such_table"):
            await attempt(ask)


async def test_I09_a_ledger_locked_by_another_program_refuses_in_time_and_then_works_again(store: Store):
    """A write waits for its turn no longer than it may; readers are not held up."""
    async with open_in(store, busy_timeout_s=0.2) as ledger:
        async with store.held_up():
            with pytest.raises(LedgerUnavailable, match="lock"):
                await ledger.append(new_submission("run-1"))
            assert 0 == await ledger.read(queries.newest_seq())
        assert (await ledger.append(new_submission("run-1"))).is_new


async def test_I09_a_short_lock_is_waited_for(store: Store):
    """Another writer's transaction that ends within the time-out costs nobody an error."""
    async with open_in(store, busy_timeout_s=60) as ledger:
        async with store.held_up():
            waiting = asyncio.create_task(ledger.append(new_submission("run-1")))
            await asyncio.sleep(0)
            await eventually(ledger._queue.empty)  # the writer has it, and waits for the lock
            assert not waiting.done()
        assert (await waiting).is_new


async def test_a_queue_that_is_full_refuses_at_once(store: Store):
    """Waiting is bounded: past the limit the ledger says that it is overloaded, and what waits is not harmed."""
    async with open_in(store, queue_limit=3, busy_timeout_s=60) as ledger:
        async with store.held_up():
            first = asyncio.create_task(ledger.append(new_submission("first")))
            await asyncio.sleep(0)
            await eventually(ledger._queue.empty)
            waiting = [asyncio.create_task(ledger.append(new_submission(f"run-{n}"))) for n in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(LedgerOverloaded):
                await ledger.append(new_submission("one too many"))
        receipts = await asyncio.gather(first, *waiting)
    assert [True] * 4 == [receipt.is_new for receipt in receipts]


async def test_writers_of_two_processes_share_one_sequence(store: Store):
    """Whoever else writes: numbers have no gaps and no twins, and one id gives one row."""
    async with open_in(store, busy_timeout_s=60) as one, open_in(store, busy_timeout_s=60) as other:
        news = [new_submission(f"run-{n}") for n in range(200)]
        receipts = await asyncio.gather(*(each.append(new) for new in news for each in (one, other)))

    assert 200 == sum(receipt.is_new for receipt in receipts)
    assert [(200, 200, 200)] == await store.sql("SELECT count(*), count(DISTINCT seq), max(seq) FROM events")


async def test_events_of_two_processes_are_numbered_in_the_order_of_their_commits(store: Store):
    """Whoever takes the next number has seen every event before it."""
    last = Query(select(func.coalesce(func.max(events.c.seq), 0)))
    add = Query(insert(events))

    async def one_more(tx: Transaction) -> int:
        [[seq]] = await tx.rows(last)
        texts = dict.fromkeys(("submission_id", "board", "player", "from_state", "to_state", "actor"), "x")
        facts = {"reason": "x", "policy": "x", "rules_version": 1, "detail": "{}", "at_ms": 1_000_000 - seq}
        await tx.run(add, seq=seq + 1, **texts, **facts)
        return int(seq) + 1

    async def write(ledger: Ledger) -> list[int]:
        return [await ledger.write(one_more) for _ in range(20)]

    async with open_in(store, busy_timeout_s=60) as one, open_in(store, busy_timeout_s=60) as other:
        written = await asyncio.gather(*(write(ledger) for ledger in (one, other) * 4))

    assert all(sorted(numbers) == numbers for numbers in written)
    assert list(range(1, 161)) == sorted(number for numbers in written for number in numbers)


async def test_a_read_sees_one_moment(ledger: Ledger, store: Store):
    """What is committed while a read is under way is not there for it, from its first answer to its last."""
    await ledger.append(new_submission("run-1"))
    newest = queries.newest_seq()

    async def twice(tx: Transaction) -> list[int]:
        before = await newest(tx)
        append_elsewhere(store, new_submission("run-2"))
        return [before, await newest(tx)]

    assert [1, 1] == await ledger.read(twice)
    assert 2 == await ledger.read(newest)


async def test_what_an_operation_reads_is_what_it_wrote(ledger: Ledger):
    """Numbers, bytes, texts and nothing come back as they were given; sums of whole numbers are whole numbers."""
    values = Query(
        select(
            players.c.player,
            func.sum(players.c.created_at_ms).over(),
            func.count().over(),
            literal(b"\x00\xff", LargeBinary),
            bindparam("nothing", type_=Text),
        ).where(players.c.created_at_ms >= bindparam("least"))
    )

    async def work(tx: Transaction) -> object:
        await queries.add_player("ada", "Ä𝄞", now_ms=2**62)(tx)
        return await tx.rows(values, least=-(2**63), nothing=None)

    assert [("ada", 2**62, 1, b"\x00\xff", None)] == await ledger.write(work)
    assert [("ada", 2**62, 1, b"\x00\xff", None)] == await ledger.read(
        lambda tx: tx.rows(values, least=0, nothing=None)
    )


async def test_constants_of_a_statement_stay_where_they_were_written(ledger: Ledger):
    """Databases word a statement differently, and may number its constants differently: none takes another's place."""
    first = select(players.c.player).order_by(players.c.player).limit(1).subquery()
    mixed = Query(select(first.c.player, literal("one"), bindparam("two", type_=Text), literal(3)).limit(4))
    await ledger.write(queries.add_player("ada", "Ada", now_ms=1))

    assert [("ada", "one", "two", 3)] == await ledger.read(lambda tx: tx.rows(mixed, two="two"))


async def test_texts_are_ordered_by_their_bytes(ledger: Ledger):
    """As Python orders them, whatever the locale of the database is: pages of the ledger and of the index agree."""
    names = ["b", "a", "B", "_", "-", "Z9", "z", "a-b", "ab", "0"]
    for each in names:
        await ledger.write(queries.add_player(each, each, now_ms=1))
    ordered = Query(select(players.c.player).order_by(players.c.player))

    assert sorted(names) == [row[0] for row in await ledger.read(lambda tx: tx.rows(ordered))]


async def test_closing_commits_what_is_queued(store: Store):
    """Nothing that was taken is dropped; nothing is taken any more, and nothing is read."""
    ledger = store.ledger()
    await ledger.open()
    waiting = [asyncio.ensure_future(ledger.append(new_submission(f"run-{n}"))) for n in range(700)]
    await asyncio.sleep(0)

    await ledger.close()

    assert [True] * 700 == [receipt.is_new for receipt in await asyncio.gather(*waiting)]
    assert [(700,)] == await store.sql("SELECT count(*) FROM submissions")
    with pytest.raises(LedgerOverloaded):
        await ledger.append(new_submission("late"))
    with pytest.raises(LedgerUnavailable):
        await ledger.read(queries.newest_seq())


async def test_a_caller_that_went_away_takes_nothing_with_it(ledger: Ledger, store: Store):
    """A cancelled append is stored all the same, and its group is answered."""
    gone = asyncio.create_task(ledger.append(new_submission("gone")))
    stays = asyncio.create_task(ledger.append(new_submission("stays")))
    await asyncio.sleep(0)
    gone.cancel()

    assert (await stays).is_new
    assert [("gone",), ("stays",)] == await store.sql("SELECT submission_id FROM submissions ORDER BY seq")


async def test_I23_a_ledger_that_the_next_version_has_widened_still_serves_this_one(
    ledger: Ledger, store: Store
):
    """In a rolling upgrade the tables get their new columns first; what already runs goes on writing and reading."""
    before = await ledger.append(new_submission("before"))
    for table in ("submissions", "events", "outbox", "players", "recordings", "standings", "baselines"):
        await store.sql(f"ALTER TABLE {table} ADD COLUMN of_the_next_version integer")

    after = await ledger.append(new_submission("after"))
    [lease] = await ledger.write(work.lease_all(["before"], now_ms=1, lease_ms=1000))

    assert (True, True) == (before.is_new, after.is_new)
    assert "before" == lease.submission.submission_id
    assert 2 == await ledger.read(queries.newest_seq())
    assert ["after"] == [
        row.submission_id
        for row in await ledger.read(work.due_to_assess(now_ms=2**50, count=9))
        if row.submission_id != "before"
    ]
    assert None is not await ledger.read(queries.receipt("after"))


async def test_a_version_says_whether_anything_was_committed(store: Store, ledger: Ledger):
    """It stays the same while everybody only reads, and each commit changes it, whoever made it."""
    pairs = []
    for _ in range(5):  # PostgreSQL tidies up in transactions of its own
        before = await ledger.version()
        await ledger.read(queries.newest_seq())
        pairs.append((before, await ledger.version()))
    assert any(before == after for before, after in pairs)
    versions = [await ledger.version()]
    await ledger.append(new_submission("own"))
    versions.append(await ledger.version())
    async with open_in(store) as other:
        versions.append(await ledger.version())
        await other.append(new_submission("another's"))
        versions.append(await ledger.version())
    assert versions[0] != versions[1]
    assert versions[2] != versions[3]
