"""What each answer to a submission charges, to whom, and for how long it is remembered: by the real scripts."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.connection import connect
from gateway.index.limits.admission import Admission, AdmissionRequest, SubmissionLimits
from gateway.index.limits.charging import AddressLimit, KeyedLimit
from gateway.index.limits.refusals import MEMORY_MS, LocalCounts, RefusalCounts
from policies.limits import NETWORK_SHARE, Limits, Rate, RefusalLimits
from tests.support.ports import unserved_port

MINUTE_US = 60_000_000
OF_THREE = Rate(per_minute=1, burst=3)
LIMITS = Limits(
    player=OF_THREE,
    player_kib=OF_THREE,
    address=OF_THREE,
    address_kib=OF_THREE,
    network=OF_THREE,
    network_kib=OF_THREE,
    refused=RefusalLimits(player=2, address=100, window_s=600),
)
ASKING = AdmissionRequest("run-1", "ada", "home", network="street", kib=2)
KEYS = {"player": "ada", "address": "home", "network": "street"}
FULL, FULL_OF_KIB = (3, 0), (0, 3)
ALL, PLACES, NOBODY = ["player", "address", "network"], ["address", "network"], list[str]()

CASES: dict[str, tuple[dict[str, Any], Admission, list[str]]] = {
    "who sent nothing": ({}, Admission.ADMITTED, ALL),
    "a resend of what is pending": ({"pending": 1}, Admission.KNOWN, PLACES),
    "a resend of what is settled": ({"settled": 1}, Admission.KNOWN, PLACES),
    "a resend of a player without more": ({"pending": 1, "player": (3, 3)}, Admission.KNOWN, PLACES),
    "a resend of a player with refusals": ({"pending": 1, "refused": 1}, Admission.KNOWN, PLACES),
    "a resend from a full address": ({"pending": 1, "address": FULL}, Admission.ADDRESS_LIMITED, NOBODY),
    "a resend from a full network": ({"pending": 1, "network": FULL}, Admission.NETWORK_LIMITED, NOBODY),
    "all is full": (dict.fromkeys(ALL, (3, 3)) | {"refused": 1}, Admission.NETWORK_LIMITED, NOBODY),
    "the address is full": (
        {"address": (3, 3), "player": (3, 3), "network": FULL_OF_KIB},
        Admission.ADDRESS_LIMITED,
        NOBODY,
    ),
    "the bytes of the network": (
        {"network": FULL_OF_KIB, "address": FULL_OF_KIB, "player": (3, 3)},
        Admission.NETWORK_BYTES_LIMITED,
        NOBODY,
    ),
    "the bytes of the address": (
        {"address": FULL_OF_KIB, "player": (3, 3), "refused": 1},
        Admission.ADDRESS_BYTES_LIMITED,
        NOBODY,
    ),
    "refused too often": ({"refused": 1, "player": (3, 3)}, Admission.ABNORMAL, NOBODY),
    "the player is full": ({"player": (3, 3)}, Admission.PLAYER_LIMITED, NOBODY),
    "the bytes of the player": ({"player": FULL_OF_KIB}, Admission.PLAYER_BYTES_LIMITED, NOBODY),
}
"""What there was before, the answer, and who is charged one request and its two KiB."""


async def arrivals(client: Redis, now_us: int) -> dict[str, tuple[int, int]]:
    """Requests and KiB that each key is ahead of a moment, in whole ones."""
    found = {}
    for kind, who in KEYS.items():
        requests, kib = map(
            int, (await client.get(keys.limit("b", kind, who)) or f"{now_us} {now_us}").split()
        )
        found[kind] = (round((requests - now_us) / MINUTE_US), round((kib - now_us) / MINUTE_US))
    return found


async def set_up(client: Redis, before: dict[str, Any]) -> int:
    """Redis as it was before, and its time (µs)."""
    seconds, micros = await client.time()
    now_us = seconds * 1_000_000 + micros
    for kind, who in KEYS.items():
        if ahead := before.get(kind):
            times = " ".join(str(now_us + each * MINUTE_US) for each in ahead)
            await client.set(keys.limit("b", kind, who), times)
    for kind, key in (("pending", keys.pending("b")), ("settled", keys.settled("b"))):
        if kind in before:
            await client.zadd(key, {ASKING.submission_id: 1})
    if "refused" in before:
        await client.set(keys.refusals("b", "player", "ada"), f"0 {seconds * 1000 + 300_000} 4")
    return now_us


@pytest.mark.parametrize("case", CASES)
async def test_every_answer_charges_those_whom_it_names_and_nobody_who_is_refused(client: Redis, case: str):
    """Player, address and network of who is let past; the places alone of a resend, whatever the player has left."""
    before, admission, charged = CASES[case]
    now_us = await set_up(client, before)
    due = await arrivals(client, now_us)
    told = await SubmissionLimits(client, "b", LIMITS).admit(ASKING)
    for each in charged:
        requests, kib = due[each]
        due[each] = requests + 1, kib + 2
    assert (admission, due) == (told.admission, await arrivals(client, now_us))
    is_let_past = admission in {Admission.ADMITTED, Admission.KNOWN}
    assert is_let_past == (told.wait_ms == 0)
    assert (2 if admission is Admission.ADMITTED else 0) == told.left


async def test_who_had_too_many_refusals_is_remembered_for_a_month(client: Redis):
    """Others for a window; a refusal after the limit counts anew, and shortens no memory."""
    counts, player = RefusalCounts(client, "b", LIMITS.refused), keys.refusals("b", "player", "ada")
    told = []
    for _ in range(4):
        is_limited = await counts.note("ada", "home")
        count, _, before = (await client.get(player)).split()
        days = await client.pttl(player) / 86_400_000
        told.append((is_limited, int(count), int(before), round(days)))
    month = MEMORY_MS / 86_400_000
    assert [(False, 1, 0, 0), (True, 0, 2, month), (False, 1, 2, month), (True, 0, 4, month)] == told
    assert 0 < await client.pttl(keys.refusals("b", "address", "home")) <= 600_000


async def test_refusals_are_counted_in_a_window_that_begins_with_the_first(client: Redis):
    """A later one does not make it longer: a few a day never add up to a limit; one that lasts too long is cut."""
    counts = RefusalCounts(client, "b", RefusalLimits(player=3, address=100, window_s=600))
    player, seen = keys.refusals("b", "player", "ada"), []
    for left_ms in (None, 60_000, 10**12):
        if left_ms:
            await client.pexpire(player, left_ms)
        is_limited = await counts.note("ada", "home")
        seen.append((is_limited, (await client.get(player)).split()[0], await client.pttl(player) // 1000))
        if left_ms == 60_000:
            await client.set(player, "1 0 0")
    assert [(False, "1"), (False, "2"), (False, "2")] == [each[:2] for each in seen]
    assert all(
        most - 10 <= life_s <= most for (*_, life_s), most in zip(seen, (600, 60, 600), strict=True)
    ), seen


async def test_what_was_refused_before_is_told_once_the_limit_is_over(client: Redis):
    """Who may go on goes on with what is remembered; while the limit lasts, the answer says for how long."""
    limits = SubmissionLimits(client, "b", LIMITS)
    await set_up(client, {"refused": 1})
    limited = await limits.admit(ASKING)
    await client.set(keys.refusals("b", "player", "ada"), "1 5 4")
    over = await limits.admit(ASKING)
    assert (Admission.ABNORMAL, 4, Admission.ADMITTED, 4) == (
        limited.admission,
        limited.refusals,
        over.admission,
        over.refusals,
    )
    assert 200_000 < limited.wait_ms <= 300_000


async def test_a_key_is_kept_until_all_that_was_sent_has_flowed_back(client: Redis):
    """The bytes too, where those take longer than the requests: else who waits a little has all of them again."""
    slow = Rate(per_minute=1, burst=4)
    quick = dict.fromkeys(ALL, Rate(per_minute=60, burst=4))
    limits = SubmissionLimits(client, "b", Limits(**quick, **{f"{each}_kib": slow for each in ALL}))
    assert Admission.ADMITTED is (await limits.admit(ASKING)).admission
    lives_ms = [await client.pttl(keys.limit("b", kind, who)) for kind, who in KEYS.items()]
    assert all(60_000 < each <= 120_001 for each in lives_ms)


ONE_FULL = {
    "player": Admission.PLAYER_LIMITED,
    "player_kib": Admission.PLAYER_BYTES_LIMITED,
    "address": Admission.ADDRESS_LIMITED,
    "address_kib": Admission.ADDRESS_BYTES_LIMITED,
    "network": Admission.NETWORK_LIMITED,
    "network_kib": Admission.NETWORK_BYTES_LIMITED,
}


@pytest.mark.parametrize("full", ONE_FULL)
async def test_each_limit_is_one_of_its_own_with_redis_and_without(client: Redis, full: str):
    """The player, the address and the network, by requests and by KiB: the one that is used up is named, with how long to wait."""
    wide = Rate(per_minute=1, burst=9)
    rates = dict.fromkeys(ONE_FULL, wide) | {full: Rate(per_minute=2, burst=2 if "kib" in full else 1)}
    limits = SubmissionLimits(client, "b", Limits(**rates))
    asked = [ASKING._replace(submission_id=f"run-{number}") for number in range(2)]
    answers = [[await limits.admit(each) for each in asked], [limits._admit_locally(each) for each in asked]]
    for first, second in answers:
        assert (Admission.ADMITTED, ONE_FULL[full]) == (first.admission, second.admission)
        units = 2 if "kib" in full else 1
        assert (units - 1) * 30_000 < second.wait_ms <= units * 30_000


async def test_without_redis_this_process_limits_and_counts_refusals():
    """An address and its network, a key, and who was refused too often: by the same numbers, as long as it lasts."""
    with unserved_port() as port:
        nowhere = connect(f"redis://127.0.0.1:{port}/0", timeout_ms=100)
        one = Rate(per_minute=1, burst=1)
        of_address = AddressLimit(nowhere, one, lambda network, address: f"limit:{{{network}}}:{address}")
        waits = [await of_address.wait_ms(f"a{number}", "street") for number in range(NETWORK_SHARE + 1)]
        assert [0] * NETWORK_SHARE == waits[:-1]
        assert 0 < waits[-1] <= 60_000 // NETWORK_SHARE + 1
        assert 0 == await of_address.wait_ms("b0", "elsewhere")
        assert 0 < await of_address.wait_ms("b0", "elsewhere") <= 60_000
        keyed = KeyedLimit(nowhere, one, lambda who: f"limit:{who}")
        assert [True, False, True] == [await keyed.wait_ms(who) == 0 for who in ("ada", "ada", "bob")]

        limits = SubmissionLimits(nowhere, "b", LIMITS)
        assert [False, True] == [await limits.note_refusal("ada", "home") for _ in range(2)]
        refused, other = await limits.admit(ASKING), await limits.admit(ASKING._replace(player="bob"))
        assert (Admission.ABNORMAL, Admission.ADMITTED) == (refused.admission, other.admission)
        assert 500_000 < refused.wait_ms <= 600_000
        await nowhere.aclose()


def test_refusals_that_a_process_counts_are_those_of_a_window():
    """What is over counts no more, neither towards the limit nor as one; after the limit it is counted anew."""
    now_ms = [10**9]
    counts = LocalCounts(now_ns=lambda: now_ms[0] * 1_000_000)
    told = []
    for after_ms in (0, 60_000, 59_999, 1, 59_998, 1, 0):
        now_ms[0] += after_ms
        told.append(
            (counts.note("ada", 2, 60_000) if after_ms > 1 or not told else None, counts.wait_ms("ada"))
        )
    due = [(False, 0), (False, 0), (True, 60_000), (None, 59_999), (False, 1), (None, 0), (None, 0)]
    assert due == told
    assert counts.note("ada", 2, 60_000)  # the second of the window that began with the one after the limit
