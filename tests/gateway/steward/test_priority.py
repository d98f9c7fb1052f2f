"""The order in which what waits is verified: what would do most harm first, and nothing for ever last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

from gateway.ledger import queries
from gateway.ledger.judgement import sampling
from gateway.ledger.judgement.promotion_impact import harms_of
from gateway.ledger.judgement.sampling import SampledSubmission
from gateway.ledger.records import OutboxRow
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Query, Transaction
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.dispatch import (
    AGEING_MS,
    MOST_OVERTAKEN_MS,
    QUEUED_JOBS,
    VERIFY_JOB,
    VerificationQueue,
    in_order,
    jobs_of,
    shared_out,
    size_of_jobs,
)
from policies.vocabulary import Expected, Finding, Reason, Severity, State
from tests.support.duty import Duty
from tests.support.ledger import new_submission, rows
from validators.judge import Judgement
from validators.verification_priority import HARMS, UNASSESSED, URGENT


def waiting(
    seq: int, *, harm: int = 0, due_at_ms: int = 0, attempt: int = 0, is_returned: bool = False
) -> OutboxRow:
    return OutboxRow(seq, "verify", f"run-{seq}", "tiny", "ada", due_at_ms, harm, attempt, is_returned)


rows_that_wait = st.lists(
    st.builds(
        waiting,
        st.integers(1, 10**6),
        harm=st.sampled_from(HARMS),
        due_at_ms=st.integers(0, 2 * MOST_OVERTAKEN_MS),
        attempt=st.integers(0, 2),
        is_returned=st.booleans(),
    ),
    max_size=60,
    unique_by=lambda row: row.seq,
)


@given(rows_that_wait)
def test_nothing_is_overtaken_by_what_came_later_than_the_bound(found: list[OutboxRow]):
    """Whatever the harm of the others: what is due `MOST_OVERTAKEN_MS` before them is handed out before them."""
    order = in_order(found)
    for place, row in enumerate(order):
        overtaken_by = order[:place]
        assert all(other.due_at_ms - row.due_at_ms <= MOST_OVERTAKEN_MS for other in overtaken_by)


@given(rows_that_wait)
def test_of_those_that_came_together_the_worst_goes_first(found: list[OutboxRow]):
    """At one moment harm alone decides, and among equals who was first."""
    together = [row for row in found if row.due_at_ms < AGEING_MS]
    order = in_order(together)
    assert all(earlier.priority >= later.priority for earlier, later in pairwise(order))


@given(rows_that_wait, st.integers(1, 16), st.integers(0, 5), st.integers(0, 5))
def test_every_row_is_in_one_job_and_every_job_in_one_lane_that_has_room(
    found: list[OutboxRow], batch: int, main: int, urgent: int
):
    """Batches are full at most, what was leased before is alone, and the urgent queue takes nothing else."""
    rooms = {VerificationQueue.MAIN: main, VerificationQueue.URGENT: urgent}
    jobs = jobs_of(found, batch, has_urgent_queue=urgent > 0)
    assert sorted(row.seq for row in found) == sorted(row.seq for job in jobs for row in job.rows)
    assert all(1 <= len(job.rows) <= batch for job in jobs)
    assert all(len(job.rows) == 1 for job in jobs if any(row.attempt for row in job.rows))

    shared = list(shared_out(jobs, rooms))
    handed = [row.seq for _, job in shared for row in job]
    assert len(handed) == len(set(handed))
    for queue in VerificationQueue:
        assert rooms[queue] >= sum(of is queue for of, _ in shared)
    in_urgent = [row for queue, job in shared for row in job if queue is VerificationQueue.URGENT]
    assert all(row.priority >= URGENT and not row.is_returned for row in in_urgent)


@pytest.mark.parametrize(
    ("due", "main", "urgent", "size"),
    [(5, 4, 0, 16), (64, 4, 0, 16), (256, 16, 4, 16), (256, 8, 0, 32), (256, 4, 0, 64), (256, 1, 0, 64)],
)
def test_jobs_grow_as_the_queue_fills(due: int, main: int, urgent: int, size: int):
    """Workers that wait share what is due; where there is a backlog, a job is as large as it may be."""
    rooms = {VerificationQueue.MAIN: main, VerificationQueue.URGENT: urgent}
    assert size == size_of_jobs(due, rooms, most=64)
    assert min(size, 4) == size_of_jobs(due, rooms, most=4)


@given(st.sampled_from(HARMS), st.integers(1, 4))
def test_nothing_starves_while_the_worst_keeps_coming(harm: int, capacity: int):
    """As much of the greatest harm as can be verified comes in every round: what was there goes within the bound."""
    left = [waiting(0, harm=harm)]
    for turn in range(MOST_OVERTAKEN_MS // AGEING_MS + 1):
        numbers = range(1 + turn * capacity, 1 + (turn + 1) * capacity)
        left += [waiting(n, harm=max(HARMS), due_at_ms=turn * AGEING_MS) for n in numbers]
        left = in_order(left)[capacity:]
    assert waiting(0, harm=harm) not in left


async def harms(duty: Duty) -> dict[str, int]:
    await duty.steward._dispatcher._assess()
    found = rows(
        duty.settings.ledger_path, "SELECT submission_id, priority FROM outbox WHERE kind = 'verify'"
    )
    return dict(found)


@pytest.fixture
def top_of_two(duty: Duty) -> Duty:
    """Ada, bob and cy stand with 30, 20 and 10, and only the first two of a window are its top."""
    verification = duty.board.policy.verification.model_copy(update={"top": 2})
    policy = duty.board.policy.model_copy(update={"verification": verification})
    object.__setattr__(duty.steward.catalogue.of_files["tiny"], "policy", policy)
    return duty


async def stand(duty: Duty, **scores: int) -> None:
    for player, score in scores.items():
        await duty.append(f"{player}-{score}", player=player, score=score)
    await duty.promote(*(f"{player}-{score}" for player, score in scores.items()))


async def test_what_waits_is_ranked_by_what_it_would_do(top_of_two: Duty):
    """Above the second, a newcomer below, an own best below, no best at all; with a flag what counts is worth more."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    for name, player, score in [
        ("top", "cy", 25),
        ("newcomer", "dot", 5),
        ("newcomer-top", "eve", 40),
        ("best", "cy", 15),
        ("nothing", "cy", 9),
    ]:
        await duty.append(name, player=player, score=score)
    finding = Finding(Reason.ANOMALY_PLAYER, 9.0, Expected(at_most=4), severity=Severity.FLAG)
    flagged = new_submission("flagged", player="cy", score=15, at_ms=duty.clock())
    judgement = Judgement(State.PENDING, Reason.ACCEPTED, (finding,))
    await duty.ledger.append(flagged._replace(judgement=judgement))

    assert {
        "top": 4,
        "newcomer": 2,
        "newcomer-top": 8,
        "best": 1,
        "nothing": 0,
        "flagged": 4,
    } == await harms(duty)


class CountedReads:
    """A transaction that counts what is read in it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.count = 0

    async def rows(self, query: Query, **values: Any) -> Any:
        self.count += 1
        return await self._tx.rows(query, **values)


async def test_what_waits_together_is_ranked_as_alone_and_asks_for_each_top_once(top_of_two: Duty):
    """Ten more cost what their own standings cost: their submissions are one read, and the tops are known."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    scores = [5, 9, 11, 15, 19, 20, 21, 25, 30, 31, 40, 41]
    for number, score in enumerate(scores):
        await duty.append(f"of-cy-{number}", player="cy", score=score)
        await duty.append(f"of-{number}", player=f"new-{number}", score=score)
    waiting = await duty.ledger.read(work.due_to_assess(now_ms=duty.clock(), count=99))
    rankings = {"tiny": duty.board.ranking}

    async def assess(tx: Transaction, some: Sequence[OutboxRow]) -> tuple[dict[int, int], int]:
        counted: Any = CountedReads(tx)
        return await harms_of(some, rankings, {"tiny": 2})(counted), counted.count

    async def work_of(some: Sequence[OutboxRow]) -> tuple[dict[int, int], int]:
        return await duty.ledger.read(partial(assess, some=some))

    assert len(waiting) == 2 * len(scores)
    alone = [await work_of([row]) for row in waiting]
    together, reads = await work_of(waiting)
    assert {seq: harm for found, _ in alone for seq, harm in found.items()} == together
    assert len(set(together.values())) > 3
    _, reads_of_half = await work_of(waiting[:12])
    windows = len(duty.board.policy.windows)
    assert 12 * windows == reads - reads_of_half


async def test_a_day_without_a_standing_makes_nobody_a_newcomer(top_of_two: Duty):
    """What counts today alone is worth what it is; who stands in another window is known."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    duty.clock.shift(86_400)
    await stand(duty, ada=31, bob=21)
    await duty.append("today", player="cy", score=5)
    assert {"today": 1} == await harms(duty)


async def test_the_worst_is_handed_out_first_and_the_rest_when_there_is_room(top_of_two: Duty):
    """A backlog of harmless runs, then one that would be first: it is in the first job that is made."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    await duty.append(*(f"run-{n}" for n in range(40)), player="cy", score=1)
    duty.clock.shift(60)
    await duty.append("urgent", player="cy", score=99)
    await duty.steward.dispatch()
    assert "urgent" == duty.queued()[0][0]
    assert 41 == sum(len(job) for job in duty.queued())


def worker_of(duty: Duty, queue: VerificationQueue) -> SimpleWorker:
    rq_queue = Queue(queue.rq_name, connection=duty.redis, serializer=JSONSerializer)
    return SimpleWorker([rq_queue], connection=duty.redis, serializer=JSONSerializer)


def queued(duty: Duty, queue: VerificationQueue) -> list[str]:
    jobs = Queue(queue.rq_name, connection=duty.redis, serializer=JSONSerializer).jobs
    return [each for job in jobs for each in job.args[0]]


async def test_the_urgent_lane_is_used_while_a_worker_serves_it(top_of_two: Duty):
    """Without one all goes the main way; with one what is urgent goes there; with none again, it does not."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    await duty.append("urgent-1", player="cy", score=99)
    await duty.steward.dispatch()
    assert (["urgent-1"], []) == (
        queued(duty, VerificationQueue.MAIN),
        queued(duty, VerificationQueue.URGENT),
    )

    worker = worker_of(duty, VerificationQueue.URGENT)
    worker.register_birth()
    await duty.append("urgent-2", player="cy", score=98)
    await duty.append("harmless", player="cy", score=1)
    await duty.steward.dispatch()
    assert (["urgent-1", "harmless"], ["urgent-2"]) == (
        queued(duty, VerificationQueue.MAIN),
        queued(duty, VerificationQueue.URGENT),
    )

    worker.register_death()
    await duty.append("urgent-3", player="cy", score=97)
    await duty.steward.dispatch()
    assert ["urgent-2"] == queued(duty, VerificationQueue.URGENT)
    assert "urgent-3" in queued(duty, VerificationQueue.MAIN)


async def test_I11_what_a_dead_worker_of_the_urgent_lane_left_goes_the_main_way(top_of_two: Duty):
    """RQ believes in a worker for long after it was killed: what comes again is not left to that."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    worker_of(duty, VerificationQueue.URGENT).register_birth()
    await duty.append("urgent", player="cy", score=99)
    await duty.steward.dispatch()
    assert ["urgent"] == queued(duty, VerificationQueue.URGENT)

    for _ in range(QUEUED_JOBS // 2):  # so that the urgent queue has more room
        duty.queue.enqueue_call(VERIFY_JOB, args=([],))
    duty.clock.shift(31)
    await duty.steward.dispatch()
    assert (["urgent"], ["urgent"]) == (
        queued(duty, VerificationQueue.URGENT),
        queued(duty, VerificationQueue.MAIN),
    )


async def spared(duty: Duty, *names: str) -> list[SampledSubmission]:
    """Runs of cy's that count unverified."""
    await duty.append(*names, player="cy", score=50)
    decisions = [
        Decision(
            each,
            State.PROMOTED,
            "budget",
            Reason.SAMPLED,
            duty.clock(),
            frozenset(State),
            detail={"drawn": 0.5},
        )
        for each in names
    ]
    await settle(duty.ledger, duty.index, duty.board, decisions)
    found = [await duty.ledger.read(queries.submission(each)) for each in names]
    return [
        SampledSubmission(each.seq, each.submission_id, each.board, each.player) for each in found if each
    ]


async def test_what_is_called_in_goes_the_urgent_way_once(top_of_two: Duty):
    """It was received long before it was put up: it comes for the first time all the same. When it returns, it returns."""
    duty = top_of_two
    worker_of(duty, VerificationQueue.URGENT).register_birth()
    found = await spared(duty, "spared")
    duty.clock.shift(3600)
    await duty.ledger.write(sampling.queue_rechecks(found, now_ms=duty.clock()))
    await duty.steward.dispatch()
    assert (["spared"], []) == (queued(duty, VerificationQueue.URGENT), queued(duty, VerificationQueue.MAIN))

    duty.clock.shift(31)
    await duty.steward.dispatch()
    assert ["spared"] == queued(duty, VerificationQueue.MAIN)


async def test_what_a_conviction_left_for_later_is_put_up_by_the_steward(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A slice at a time, until nothing is left; and then never again."""
    monkeypatch.setattr(sampling, "SLICE", 2)
    first, *_ = await spared(duty, *(f"run-{n}" for n in range(5)))
    convicted = first._replace(seq=10**6)
    now_ms = duty.clock()

    async def convict(tx: Transaction) -> None:
        await sampling.queue_players(tx, convicted.board, [sampling.DatedRun(convicted, now_ms)])

    await duty.ledger.write(convict)
    assert [2, 1, 0] == [await duty.steward.recall() for _ in range(3)]
    path = duty.settings.ledger_path
    assert [("recheck", 5)] == rows(
        path, "SELECT kind, count(*) FROM outbox WHERE kind <> 'project' GROUP BY kind"
    )


async def test_I15_more_workers_have_more_lying_ready(duty: Duty):
    """What lies in RQ is first come first served, so it is no more than keeps the workers busy."""
    for _ in range(2):
        worker_of(duty, VerificationQueue.MAIN).register_birth()
    assert 2 * QUEUED_JOBS == (await duty.steward._dispatcher._jobs.rooms())[VerificationQueue.MAIN]


async def test_the_backlog_is_told_by_lane(top_of_two: Duty):
    """How many wait and since when, for what is urgent and for the rest, whether it was looked at or not."""
    duty = top_of_two
    await stand(duty, ada=30, bob=20, cy=10)
    await duty.append("harmless", player="cy", score=1)
    first_ms = duty.clock()
    duty.clock.shift(60)
    await duty.append("urgent", player="cy", score=99)
    assert {"harmless": 0, "urgent": 4} == await harms(duty)
    await duty.append("new", player="cy", score=98)
    assert (UNASSESSED,) in rows(
        duty.settings.ledger_path, "SELECT priority FROM outbox WHERE submission_id = 'new'"
    )
    backlog = await duty.ledger.read(work.backlog())
    assert (2, 1) == (backlog[False].count, backlog[True].count)
    assert pytest.approx(first_ms, abs=30_000) == backlog[False].since_ms
    assert pytest.approx(first_ms + 60_000, abs=30_000) == backlog[True].since_ms
