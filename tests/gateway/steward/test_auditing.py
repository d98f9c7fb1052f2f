"""Which verified runs are simulated again: a uniform sample of each day, drawn once."""

from __future__ import annotations

import asyncio
import random
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.ledger.judgement import audits
from gateway.ledger.judgement.audits import VerifiedSubmission
from gateway.ledger.transaction import Operation
from gateway.runtime.telemetry import Event
from gateway.steward.audits import auditing
from gateway.steward.audits.auditing import AuditDraw, Sample
from gateway.steward.dispatch import AUDIT_JOB, AUDITS_AT_ONCE
from policies.errors import LedgerUnavailable
from policies.replaying import AuditRules, Verification
from policies.vocabulary import State
from tests.support.duty import Duty
from tests.support.ledger import rows

DAY_S = 86_400
SEQS = "SELECT seq FROM outbox WHERE kind = 'audit'"


def draw_of(duty: Duty, **audit: object) -> AuditDraw:
    verification = Verification(audit=AuditRules(**audit))  # type: ignore[arg-type]
    policy = duty.board.policy.model_copy(update={"verification": verification})
    return AuditDraw(duty.ledger, policy, clock=duty.clock, chance=random.Random(1))


def noted(duty: Duty) -> set[str]:
    return {
        row[0]
        for row in rows(duty.settings.ledger_path, "SELECT submission_id FROM outbox WHERE kind = 'audit'")
    }


async def promote(duty: Duty, *names: str) -> None:
    await duty.append(*names)
    await duty.promote(*names)


async def test_what_was_verified_since_the_draw_before_is_drawn_from_once_a_day(duty: Duty):
    """The first look notes the day and nothing else; then each day has its own runs, and held ones are none of them."""
    draw = draw_of(duty, share=1.0, least=0)
    await promote(duty, "before")
    assert 0 == await draw.step()

    await promote(duty, "run-1", "run-2")
    await duty.append("held")
    await duty.promote("held", to_state=State.HELD)
    assert 0 == await draw.step()
    duty.clock.shift(DAY_S)
    with capture_logs() as logs:
        assert 2 == await draw.step()
        assert {"run-1", "run-2"} == noted(duty)
        assert 0 == await draw.step()
    assert [{"event": Event.AUDIT_DRAWN, "board": "tiny", "count": 2, "log_level": "info"}] == logs

    await promote(duty, "run-3")
    duty.clock.shift(DAY_S)
    assert 1 == await draw.step()
    assert {"run-1", "run-2", "run-3"} == noted(duty)


async def test_two_stewards_draw_one_sample(duty: Duty):
    """The second finds the day drawn for, as does one that was started again."""
    first, second = draw_of(duty, share=1.0), draw_of(duty, share=1.0)
    await first.step()
    await promote(duty, "run-1", "run-2", "run-3")
    duty.clock.shift(DAY_S)
    assert [3, 0] == [await first.step(), await second.step()]


async def test_of_two_stewards_that_draw_at_once_one_begins_the_day(duty: Duty):
    """Both saw that the day was not drawn for; the second to write finds that it is, and goes by the first one's seed."""
    draw = draw_of(duty, share=0.5, least=0)
    await draw.step()
    await promote(duty, *(f"run-{n}" for n in range(20)))
    duty.clock.shift(DAY_S)
    claims = [audits.claim(duty.board.name, day=draw._day(), seed=seed) for seed in (1, 2)]
    assert [True, False] == [await duty.ledger.write(each) for each in claims]
    assert 1 == (await duty.ledger.read(audits.draw_of(duty.board.name))).seed

    first, second = draw_of(duty, share=0.5, least=0), draw_of(duty, share=0.5, least=0)
    counts = await asyncio.gather(first.step(), second.step())
    assert sum(counts) == len(noted(duty)) > 0
    assert [0, 0] == [await first.step(), await second.step()]
    assert not await duty.ledger.write(audits.claim(duty.board.name, day=draw._day(), seed=3)), "it is over"


async def test_a_night_of_audits_is_noted_in_slices_and_a_restart_goes_on(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """A steward that ends after the first slice: the next one draws the same sample, and notes what is missing, once."""
    monkeypatch.setattr(auditing, "NOTED_AT_ONCE", 2)
    names = [f"run-{n}" for n in range(20)]
    await draw_of(duty, share=0.4, least=6).step()
    await promote(duty, *names)
    duty.clock.shift(DAY_S)
    draw = draw_of(duty, share=0.4, least=6)
    write, slices = duty.ledger.write, []

    async def ends_after_a_slice(work: Operation[Any]) -> Any:
        slices.append(work)
        if len(slices) == 3:  # the claim of the day, a slice, and no more
            raise LedgerUnavailable
        return await write(work)

    monkeypatch.setattr(duty.ledger, "write", ends_after_a_slice)
    with pytest.raises(LedgerUnavailable):
        await draw.step()
    monkeypatch.undo()
    assert 2 == len(noted(duty))
    begun = await duty.ledger.read(audits.draw_of(duty.board.name))
    expected = {each.submission_id for each in await draw._drawn(begun)}
    done = audits.finish([min(row[0] for row in rows(duty.settings.ledger_path, SEQS))], [])
    await duty.ledger.write(done)

    duty.clock.shift(DAY_S)  # even on the day after: what was begun is ended first
    assert len(expected) - 2 == await draw_of(duty, share=0.4, least=6).step()
    assert len(expected) - 1 == len(noted(duty) & expected) == len(noted(duty))


async def test_a_steward_that_is_late_with_a_slice_notes_nothing_again(duty: Duty):
    """Another has noted it, and a worker may be done with its audits: they are not put up a second time."""
    draw = draw_of(duty, share=1.0)
    await draw.step()
    await promote(duty, "run-1", "run-2")
    duty.clock.shift(DAY_S)
    await duty.ledger.write(audits.claim(duty.board.name, day=draw._day(), seed=1))
    begun = await duty.ledger.read(audits.draw_of(duty.board.name))
    some = await draw._drawn(begun)
    slices = [audits.note(begun, some, is_last=True, now_ms=duty.clock()) for _ in range(2)]
    assert 2 == await duty.ledger.write(slices[0])
    await duty.ledger.write(audits.finish([each.seq for each in some], []))
    assert await duty.ledger.write(slices[1]) is None
    assert set() == noted(duty)


async def test_a_draw_without_audits_is_done(duty: Duty):
    """With both 0 nothing is drawn, and the day after begins where this one ended."""
    draw = draw_of(duty, share=0.0, least=0)
    await draw.step()
    await promote(duty, "run-1")
    duty.clock.shift(DAY_S)
    assert 0 == await draw.step()
    assert (await duty.ledger.read(audits.draw_of(duty.board.name))).is_done


async def test_only_a_few_audits_are_with_workers_at_a_time(duty: Duty):
    """However many were drawn; the next go when one is done, and verdicts go all the while."""
    draw = draw_of(duty, share=1.0)
    await draw.step()
    await promote(duty, *(f"run-{n}" for n in range(AUDITS_AT_ONCE + 3)))
    duty.clock.shift(DAY_S)
    await draw.step()
    assert AUDITS_AT_ONCE == await duty.steward.dispatch()
    assert 0 == await duty.steward.dispatch()
    await duty.append("waits-1", "waits-2")
    assert 2 == await duty.steward.dispatch()

    [[seq]] = rows(duty.settings.ledger_path, "SELECT seq FROM submissions WHERE submission_id = 'run-0'")
    await duty.ledger.write(audits.finish([seq], []))
    assert 1 == await duty.steward.dispatch()


async def test_audits_are_handed_to_workers_until_they_are_done(duty: Duty):
    """As jobs of their own function, the main way, and again when nobody answered."""
    draw = draw_of(duty, share=1.0)
    await draw.step()
    await promote(duty, "run-1", "run-2")
    duty.clock.shift(DAY_S)
    await draw.step()
    assert 2 == await duty.steward.dispatch()
    [job] = duty.queue.jobs
    assert (AUDIT_JOB, ["run-1", "run-2"]) == (job.func_name, job.args[0])

    duty.redis.delete(*duty.redis.keys("rq:*"))
    duty.clock.shift(31)
    assert 2 == await duty.steward.dispatch()


@pytest.mark.parametrize(
    ("at", "zone", "noon_ms", "day"),
    [
        ("03:00", "UTC", 1_763_640_000_000, "2025-11-20"),
        ("12:00", "UTC", 1_763_640_000_000, "2025-11-20"),
        ("12:01", "UTC", 1_763_640_000_000, "2025-11-19"),
        ("12:01", "Europe/Berlin", 1_763_640_000_000, "2025-11-20"),
        ("21:30", "Asia/Tokyo", 1_763_640_000_000, "2025-11-19"),
    ],
)
def test_a_day_begins_at_its_time_in_the_boards_zone(duty: Duty, at: str, zone: str, noon_ms: int, day: str):
    """At noon in UTC: whether the time of the board's day has come there."""
    draw = draw_of(duty, at=at)
    draw._policy = draw._policy.model_copy(update={"time_zone": zone})
    draw._clock = lambda: noon_ms
    assert date.fromisoformat(day).toordinal() == draw._day()


@settings(max_examples=50)
@given(st.integers(0, 200), st.floats(0, 1), st.integers(0, 20), st.integers())
def test_a_sample_has_its_least_and_nothing_twice(runs: int, share: float, least: int, seed: int):
    """As many as there are or `least`, whichever is fewer; more only by the share; each at most once."""
    sample = Sample(AuditRules(share=share, least=least), random.Random(seed))
    for number in range(runs):
        sample.offer(VerifiedSubmission(number, f"run-{number}", "ada"))
    drawn = sample.drawn
    assert len(drawn) == len(set(drawn)) >= min(runs, least)
    assert share > 0 or len(drawn) == min(runs, least)


def test_every_run_has_the_same_chance():
    """Whatever its place in the day: over 4,000 draws of 5 out of 20, each is drawn about 1,000 times."""
    chance = random.Random(7)
    counts = dict.fromkeys((VerifiedSubmission(n, f"run-{n}", "ada") for n in range(20)), 0)
    for _ in range(4_000):
        sample = Sample(AuditRules(share=0.05, least=5), chance)
        for each in counts:
            sample.offer(each)
        for each in sample.drawn:
            counts[each] += 1
    # The standard deviation is 27: six of them are met by a fair sample all but always.
    assert all(840 < count < 1_200 for count in counts.values())
