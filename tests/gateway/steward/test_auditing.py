"""Which verified runs are simulated again: a uniform sample of each day, drawn once."""

from __future__ import annotations

import random
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import audits
from gateway.steward.auditing import AuditDraw, Sample
from gateway.steward.dispatch import AUDIT_JOB
from policies.replaying import Audit, Verification
from policies.vocabulary import State
from tests.support.duty import Duty
from tests.support.ledger import rows

DAY_S = 86_400


def draw_of(duty: Duty, **audit: object) -> AuditDraw:
    verification = Verification(audit=Audit(**audit))  # type: ignore[arg-type]
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
    assert 2 == await draw.step()
    assert {"run-1", "run-2"} == noted(duty)
    assert 0 == await draw.step()

    await promote(duty, "run-3")
    duty.clock.shift(DAY_S)
    assert 1 == await draw.step()
    assert {"run-1", "run-2", "run-3"} == noted(duty)


async def test_two_stewards_draw_one_sample(duty: Duty):
    """What is drawn stands in the ledger in one commit with the day: a restart or a second steward changes nothing."""
    first, second = draw_of(duty, share=1.0), draw_of(duty, share=1.0)
    await first.step()
    await promote(duty, "run-1", "run-2", "run-3")
    duty.clock.shift(DAY_S)
    assert [3, 0] == [await first.step(), await second.step()]


async def test_of_two_stewards_that_drew_at_once_one_notes_its_sample(duty: Duty):
    """Both saw that the day was not drawn for; the second to write finds that it is."""
    await promote(duty, "run-1", "run-2")
    draws = [
        audits.draw(duty.board.name, [each], day=5, upto=9, now_ms=duty.clock())
        for each in ("run-1", "run-2")
    ]
    assert [1, 0] == [await duty.ledger.write(each) for each in draws]
    assert {"run-1"} == noted(duty)


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
    sample = Sample(Audit(share=share, least=least), random.Random(seed))
    for number in range(runs):
        sample.offer(f"run-{number}")
    drawn = sample.drawn
    assert len(drawn) == len(set(drawn)) >= min(runs, least)
    assert share > 0 or len(drawn) == min(runs, least)


def test_every_run_has_the_same_chance():
    """Whatever its place in the day: over 4,000 draws of 5 out of 20, each is drawn about 1,000 times."""
    chance = random.Random(7)
    counts = dict.fromkeys((f"run-{n}" for n in range(20)), 0)
    for _ in range(4_000):
        sample = Sample(Audit(share=0.05, least=5), chance)
        for each in counts:
            sample.offer(each)
        for each in sample.drawn:
            counts[each] += 1
    # The standard deviation is 27: six of them are met by a fair sample all but always.
    assert all(840 < count < 1_200 for count in counts.values())
