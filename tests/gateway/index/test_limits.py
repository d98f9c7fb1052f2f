"""The rate limits by themselves: never more than burst + rate x time, on the real script and in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from gateway.index import keys
from gateway.index.limits.admission import Admission, AdmissionRequest, SubmissionLimits
from gateway.index.limits.charging import KeyedLimit, LocalLimiter
from gateway.index.limits.refusals import LocalCounts
from gateway.index.limits.transfer_limit import TransferLimit, TransferQuota
from gateway.index.scripts import script_source
from gateway.shared_records import StoredBaseline
from policies.errors import IndexUnavailable
from policies.limits import Limits, Rate, RefusalLimits
from tests.support.valkey import ValkeyServer
from validators.baseline import EMPTY, PromotedScore, running_baseline_of
from validators.submission import History

rates = st.builds(Rate, per_minute=st.integers(1, 10_000_000), burst=st.integers(1, 50))
fast_rates = st.builds(Rate, per_minute=st.integers(60_000, 10_000_000), burst=st.integers(1, 20))


def most(rate: Rate, elapsed_us: int) -> int:
    """Cells that may pass in this time: the burst, and one for each whole interval."""
    return rate.burst + elapsed_us * rate.per_minute // 60_000_000


@given(rate=rates, steps=st.lists(st.integers(0, 5_000_000), min_size=1, max_size=200))
def test_R04_the_local_bucket_never_gives_more_than_burst_and_rate(rate: Rate, steps: Sequence[int]):
    """Over any stretch of time, however it is asked, at most burst + rate x time pass."""
    now_us = [10**12]
    limiter = LocalLimiter(now_ns=lambda: now_us[0] * 1000)
    admitted: list[int] = []
    for step in steps:
        now_us[0] += step
        if limiter.charge(("who", rate)) == [0]:
            admitted.append(now_us[0])
    for first in range(0, len(admitted), 7):
        for last in range(first, len(admitted), 5):
            assert last - first + 1 <= most(rate, admitted[last] - admitted[first])


@given(rate=rates)
def test_R04_the_local_bucket_gives_the_burst_and_then_the_rate(rate: Rate):
    """What is allowed is given: the burst at once, then one cell an interval, after the wait that was told."""
    now_us = [10**12]
    limiter = LocalLimiter(now_ns=lambda: now_us[0] * 1000)
    assert [[0]] * rate.burst == [limiter.charge(("who", rate)) for _ in range(rate.burst)]
    [wait_ms] = limiter.charge(("who", rate))
    assert 0 < wait_ms <= rate.interval_us / 1000 + 1
    now_us[0] += rate.interval_us
    assert [0] == limiter.charge(("who", rate))


def test_the_local_bucket_charges_all_or_nothing_and_forgets_the_longest_unused():
    """A refusal by one key charges no other; memory is bounded by the number of keys."""
    limiter = LocalLimiter(size=3, now_ns=lambda: 10**15)
    rate = Rate(per_minute=1, burst=1)
    assert [0] == limiter.charge(("a", rate))
    assert 0 in limiter.charge(("a", rate), ("b", rate))
    assert [0] == limiter.charge(("b", rate))
    for each in "cdef":
        assert [0] == limiter.charge((each, rate))
    assert [0] == limiter.charge(("a", rate))


def test_who_makes_up_names_makes_the_local_bucket_forget_nobody_who_is_still_asking():
    """Else a new name for each request would be a way past one's own address' limit, and past its refusals."""
    limiter = LocalLimiter(size=3, now_ns=lambda: 10**15)
    counts = LocalCounts(size=3, now_ns=lambda: 10**15)
    rate = Rate(per_minute=1, burst=3)
    for number in range(3):
        assert [0, 0] == limiter.charge(("address", rate), (f"player-{number}", rate))
        counts.note("address", 1, 60_000)
        counts.note(f"player-{number}", 1, 60_000)
    assert limiter.charge(("address", rate)) > [0]
    assert counts.wait_ms("address") > 0
    assert 0 == counts.wait_ms("player-0")


ASK_MANY = (
    script_source("_gcra")
    + """
-- The limit's own functions, called `count` times in one script; the clock then stands still.
local limit, passed = { us = tonumber(ARGV[1]), burst = tonumber(ARGV[2]), kib_us = 0, kib_burst = 0 }, 0
for _ = 1, tonumber(ARGV[3]) do
  local wait, _, tat, kib_tat = gcra(KEYS[1], limit, 1)
  if wait == 0 then
    charge(KEYS[1], tat, kib_tat)
    passed = passed + 1
  end
end
return { passed, string.format('%.0f', now_us) }
"""
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rate=fast_rates, calls=st.lists(st.integers(1, 60), min_size=2, max_size=12))
def test_R04_the_script_never_gives_more_than_burst_and_rate(
    valkey: ValkeyServer, rate: Rate, calls: Sequence[int]
):
    """The same on the real script and Redis' own clock, at rates where rounding would show."""
    with valkey.client() as client:
        client.flushall()
        gives = client.register_script(ASK_MANY)
        seen = [gives(keys=["limit"], args=[rate.interval_us, rate.burst, count]) for count in calls]
    passed = [count for count, _ in seen]
    times = [int(at) for _, at in seen]
    for first in range(len(seen)):
        for last in range(first, len(seen)):
            assert sum(passed[first : last + 1]) <= most(rate, times[last] - times[first])
    assert min(calls[0], rate.burst) == passed[0]


def test_R04_a_window_boundary_gives_no_second_burst(valkey: ValkeyServer):
    """There are no windows to straddle: after a full burst, a moment later only what has flowed back fits."""
    with valkey.client() as client:
        gives = client.register_script(ASK_MANY)
        rate = Rate(per_minute=60, burst=10)
        assert 10 == gives(keys=["limit"], args=[rate.interval_us, rate.burst, 100])[0]
        assert 0 == gives(keys=["limit"], args=[rate.interval_us, rate.burst, 100])[0]


def asking(number: int, player: str = "ada") -> AdmissionRequest:
    return AdmissionRequest(f"run-{number}", player, "address")


LIMITS = Limits(player=Rate(per_minute=1, burst=5), address=Rate(per_minute=1, burst=8))


async def test_R06_many_at_once_get_exactly_the_burst(client: Redis):
    """Of a hundred asked in the same moment, in several batches, exactly the burst is admitted."""
    limits = SubmissionLimits(client, "b", LIMITS)
    answers = await asyncio.gather(*(limits.admit(asking(number)) for number in range(600)))
    assert 5 == sum(answer.admission is Admission.ADMITTED for answer in answers)
    assert [4, 3, 2, 1, 0] == [answer.left for answer in answers[:5]]
    assert all(answer.wait_ms > 0 for answer in answers if answer.admission is Admission.PLAYER_LIMITED)


async def test_the_script_and_the_local_bucket_say_the_same(client: Redis, valkey: ValkeyServer):
    """With and without Redis the same submissions pass, and the same limit is named to the others."""
    players = ["ada"] * 7 + ["bea"] * 5
    with_redis = SubmissionLimits(client, "b", LIMITS)
    alone = SubmissionLimits(client, "b", LIMITS)
    for number, player in enumerate(players):
        one = await with_redis.admit(asking(number, player))
        two = alone._admit_locally(asking(number, player))
        assert one.admission is two.admission


async def test_what_is_larger_than_a_burst_takes_all_of_it(client: Redis):
    """A submission that could never fit is taken by whoever has sent nothing, with Redis and without; then they wait."""
    limits = SubmissionLimits(
        client, "b", LIMITS.model_copy(update={"player_kib": Rate(per_minute=1, burst=4)})
    )
    large = [asking(number)._replace(kib=9) for number in range(2)]
    told = [await limits.admit(each) for each in large], [limits._admit_locally(each) for each in large]
    due = [Admission.ADMITTED, Admission.PLAYER_BYTES_LIMITED]
    assert [due, due] == [[each.admission for each in some] for some in told]
    assert all(0 < waits.wait_ms <= 4 * 60_000 for _, waits in told)


def a_baseline(subject: str, *scores: int) -> StoredBaseline:
    known = running_baseline_of(
        (PromotedScore(at, at, score) for at, score in enumerate(scores)), 32
    ).baseline
    return StoredBaseline(
        "b", subject, known.count, known.mean, known.squares, 7, known.scores, known.lowest, known.highest
    )


async def test_who_is_let_past_comes_with_what_is_known(client: Redis):
    """The player's baseline, the board's, and that of the build each of a group played; EMPTY where there is none."""
    stored = [a_baseline(subject, *scores) for subject, *scores in
              [("ada", 5, -3), ("", 1, 2, 3), ("@b1", 4), ("@b2", 2**53 - 1)]]  # fmt: skip
    await client.hset(
        keys.baselines("b"), mapping={keys.baseline_field(e): keys.baseline_value(e) for e in stored}
    )
    ada, board, first, second = (each.known for each in stored)
    await client.set(keys.sentinel("b"), "1")
    limits = SubmissionLimits(client, "b", LIMITS)
    asked = [("ada", "b1"), ("bea", "b2"), ("bea", "b3"), ("ada", "b1")]
    told = await asyncio.gather(
        *(
            limits.admit(AdmissionRequest(f"run-{n}", player, "address", build))
            for n, (player, build) in enumerate(asked)
        )
    )
    due = [(ada, first), (EMPTY, second), (EMPTY, EMPTY), (ada, first)]
    assert [History(player, board, build) for player, build in due] == [each.history for each in told]


async def test_V06_an_index_that_was_emptied_makes_nobody_a_newcomer(client: Redis):
    """Until it is whole again the history is the ledger's to tell: what Redis has lost is not what nobody did."""
    await client.hset(keys.baselines("b"), "ada", keys.baseline_value(a_baseline("ada", 5, 6)))
    limits = SubmissionLimits(client, "b", LIMITS)
    emptied = await limits.admit(asking(1))
    await client.set(keys.sentinel("b"), "1")
    whole = await limits.admit(asking(2))
    assert [Admission.ADMITTED] * 2 == [emptied.admission, whole.admission]
    assert (None, 2) == (emptied.history, whole.history.player.count)


@pytest.mark.parametrize("value", ["", "1 2 3.0", "1 2 3.0 4.0 x 6 7", "1 2 3.0 4.0 5 6 7,,8", "nonsense"])
async def test_an_unreadable_baseline_leaves_the_answer_to_the_ledger(client: Redis, value: str):
    """Who may pass does so, without a history from the index."""
    await client.set(keys.sentinel("b"), "1")
    await client.hset(keys.baselines("b"), "*", value)
    told = await SubmissionLimits(client, "b", LIMITS).admit(asking(1))
    assert Admission.ADMITTED is told.admission
    assert (None if value else History()) == told.history


async def test_R10_a_limit_without_a_clock_to_wait_for_expires(client: Redis):
    """A key lives as long as it means something and no longer."""
    limit = KeyedLimit(client, Rate(per_minute=60, burst=2), lambda who: f"limit:{who}")
    assert [0, 0] == [await limit.wait_ms("a") for _ in range(2)]
    assert 900 < await limit.wait_ms("a") <= 1000
    assert 1000 < await client.pttl("limit:a") <= 2001


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_refused_transfer_names_the_quota_without_room(
    client: Redis, monkeypatch: pytest.MonkeyPatch, *, is_away: bool
):
    """Of several the first, in transfers or in KiB, whichever takes longer. A refused transfer costs nothing."""
    limit = TransferLimit(client)
    if is_away:
        monkeypatch.setattr(limit._charges, "_script", away)
    few, many = Rate(per_minute=1, burst=2), Rate(per_minute=60, burst=1000)
    ours = TransferQuota("ours", "{t}:ours", requests=few, kib=many)
    theirs = TransferQuota("theirs", "{t}:theirs", requests=many, kib=Rate(per_minute=1, burst=5))

    async def refusal(kib: int, *quotas: TransferQuota) -> tuple[str, bool] | None:
        refused = await limit.charge(kib * 1024, *quotas)
        assert refused is None or 0 < refused.wait_ms <= 300_000
        return refused and (refused.quota.name, refused.is_of_kib)

    assert [None, ("theirs", True)] == [await refusal(4, ours, theirs) for _ in range(2)]
    assert None is await refusal(0, ours, theirs)
    assert ("ours", False) == await refusal(1, ours, theirs)
    assert ("theirs", True) == await refusal(1, theirs, ours)


async def away(*_: Any) -> Any:
    raise IndexUnavailable("away")


@pytest.mark.parametrize("per_minute", [1, 7, 59, 60, 61, 999_983, 10_000_000])
def test_an_interval_is_whole_and_never_short(per_minute: int):
    """Rounding is towards fewer."""
    assert Rate(per_minute=per_minute, burst=1).interval_us * per_minute >= 60_000_000


async def test_F17_refusals_of_others_behind_an_address_stop_no_known_player(client: Redis):
    """Who has a score that counts, and no refusal, goes on; newcomers and those with a refusal of their own wait."""
    few = RefusalLimits(player=5, address=3, window_s=600)
    limits = SubmissionLimits(client, "b", ADMITTING.model_copy(update={"refused": few}))
    for known in ("ada", "bea"):
        await client.hset(keys.baselines("b"), known, keys.baseline_value(a_baseline(known, 5)))
    for stranger in ("p1", "p2", "bea"):
        await limits.note_refusal(stranger, "address")
    answers = [await limits.admit(asking(n, player)) for n, player in enumerate(("ada", "bea", "new"))]
    assert [Admission.ADMITTED, Admission.ABNORMAL, Admission.ABNORMAL] == [
        each.admission for each in answers
    ]


ADMITTING = Limits(player=Rate(per_minute=60, burst=3), address=Rate(per_minute=600, burst=30))


@pytest.mark.parametrize("ahead_s", [3600, 86_400 * 400])
async def test_F07_a_clock_that_was_ahead_keeps_nobody_waiting(client: Redis, ahead_s: int):
    """Arrival times of a clock that was ahead count as a whole burst from now, in every script that limits."""
    seconds, _ = await client.time()
    ahead_us = (seconds + ahead_s) * 1_000_000
    own = ["player:ada", "address:address", "network:"]
    for key in (*(f"lb:{{249}}:b:limit:{each}" for each in own), "limit:a"):
        await client.set(key, f"{ahead_us} {ahead_us}")
    limits = SubmissionLimits(client, "b", ADMITTING)
    refused = await limits.admit(asking(1))
    assert 0 < refused.wait_ms <= 1000
    limit = KeyedLimit(client, Rate(per_minute=6, burst=2), lambda who: f"limit:{who}")
    assert 0 < await limit.wait_ms("a") <= 10_000


async def test_F07_refusals_of_a_clock_that_was_ahead_end_with_their_window(client: Redis):
    """Who was limited by a clock that was ahead waits for a window at most."""
    seconds, _ = await client.time()
    await client.set(keys.refusals("b", "player", "ada"), f"0 {(seconds + 10**7) * 1000} 20")
    refused = await SubmissionLimits(client, "b", ADMITTING).admit(asking(1))
    assert (Admission.ABNORMAL, ADMITTING.refused.window_s * 1000) == (refused.admission, refused.wait_ms)


async def test_F07_what_was_written_before_bytes_were_limited_is_still_read(client: Redis):
    """A key of the version before has one time, that of requests."""
    seconds, micros = await client.time()
    await client.set("lb:{249}:b:limit:player:ada", f"{(seconds + 2) * 1_000_000 + micros}")
    told = await SubmissionLimits(client, "b", ADMITTING).admit(asking(1))
    assert (Admission.ADMITTED, 0) == (told.admission, told.left)


ASKED = """
redis.call('SET', KEYS[1], ARGV[1])
local limit = limit_of(1000000, 3, 1000, 64)
local wait, kib_wait, tat, kib_tat = gcra(KEYS[1], limit, 2)
charge(KEYS[1], tat, kib_tat)
return {wait, kib_wait, left(tat, limit.us, limit.burst), redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
"""
NOW_US = 1_800_000_000_123_457


@pytest.mark.parametrize(
    ("ahead_us", "told", "kept_ahead_us", "life_ms"),
    [
        # Who was away for a day has the burst and no more: what was not used does not add up.
        ((-86_400_000_000, -86_400_000_000), (0, 0, 2), (1_000_000, 2_000), 1_001),
        # Half of one has flowed back: what is left is told in whole ones.
        ((500_000, 10_000), (0, 0, 1), (1_500_000, 12_000), 1_501),
        # The last of the burst fits to the microsecond; one microsecond more has to be waited for.
        ((2_000_000, 62_000), (0, 0, 0), (3_000_000, 64_000), 3_001),
        ((2_000_001, 62_001), (1, 1, 0), (3_000_001, 64_001), 3_002),
        # A clock that was ahead counts as a whole burst.
        ((10**10, 10**10), (1_000_000, 2_000, 0), (4_000_000, 66_000), 4_001),
    ],
)
def test_M18_the_bucket_is_exact_to_the_microsecond(
    valkey: ValkeyServer,
    ahead_us: tuple[int, int],
    told: tuple[int, int, int],
    kept_ahead_us: tuple[int, int],
    life_ms: int,
):
    """The waits, what is left, and what is kept: sixteen digits, for as long as they mean something and not less."""
    moment = f"{{{NOW_US // 10**6}, {NOW_US % 10**6}}}"
    script = script_source("_gcra").replace("redis.call('TIME')", moment) + ASKED
    stored = " ".join(str(NOW_US + each) for each in ahead_us)
    with valkey.client() as client:
        *answer, kept, lives_ms = client.eval(script, 1, "limit", stored)
    assert told == tuple(answer)
    assert kept_ahead_us == tuple(int(each) - NOW_US for each in kept.split())
    assert life_ms - 100 <= lives_ms <= life_ms
