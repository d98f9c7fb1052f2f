"""What may come in: how much, from how wide a network, how often it may be refused, and what is left of it then."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from gateway.runtime.settings import Settings
from tests.attacks.test_limits import QUOTA, SLOW, limited, statuses
from tests.support.attack import CLAIM, accept, honest, issued, refuse
from tests.support.harness import Answer, Harness, Request, running_harness
from tests.support.policies import GENEROUS, a_policy, write_policies
from tests.support.valkey import running_valkey

ABNORMAL = (429, "abnormal-usage-detected")
IMPOSSIBLE = {"points_per_second": 1, "slack_s": 0.001}


def with_recording(kib: int, **claim: Any) -> dict[str, Any]:
    """A claim with a recording of so many KiB."""
    return CLAIM | {"recording": base64.b64encode(bytes(1024 * kib)).decode()} | claim


def from_address(request: Request, address: str) -> Request:
    """The request as a trusted proxy hands it on."""
    return replace(request, headers=request.headers | {"X-Forwarded-For": address})


def proxied(settings: Settings) -> Settings:
    return settings.model_copy(update={"trusted_proxies": ("127.0.0.0/8",)})


def stored(harness: Harness, query: str) -> list[Any]:
    with closing(sqlite3.connect(harness.edge.settings.ledger_path)) as ledger:
        return ledger.execute(query).fetchall()


@pytest.mark.parametrize("inline_bytes", [0, 65_536])
async def test_F04_what_is_rejected_at_once_leaves_a_digest_and_no_bytes(
    settings: Settings, inline_bytes: int
):
    """Neither a row nor a file has the recording of a claim that sanity rejects; of the honest one beside it, one has."""
    folder = write_policies(
        settings.data_dir / "own", a_policy("sprint", limits=GENEROUS, velocity=IMPOSSIBLE)
    )
    changed = {"policies_dir": folder, "recording_inline_bytes": inline_bytes}
    async with running_harness(settings.model_copy(update=changed)) as harness:
        rejected = await accept(harness, honest(harness, issued(harness), with_recording(30)))
        assert "rejected" == rejected.body["state"]
        assert [(1,)] == stored(
            harness, "SELECT count(*) FROM submissions WHERE recording_digest IS NOT NULL"
        )
        assert [] == stored(harness, "SELECT 1 FROM recordings UNION ALL SELECT 1 FROM commitments")
        assert [] == harness.edge.recordings.large.page("", 10)
        kept = await accept(
            harness, honest(harness, issued(harness, age_s=500), with_recording(30, score=1, ticks=0))
        )
        assert "held" == kept.body["state"]
        assert [(30 * 1024,)] == stored(harness, "SELECT size_bytes FROM recordings")


@pytest.mark.parametrize("with_redis", [True, False])
async def test_F04_bytes_are_limited_like_requests(settings: Settings, with_redis: bool):
    """By player, by address and by network, with Redis and without: 429 that names the quota and when to come again."""
    quotas = {
        "player_kib": SLOW | {"burst": 100},
        "address_kib": SLOW | {"burst": 150},
        "network_kib": SLOW | {"burst": 220},
    }
    with running_valkey() as own:
        changed = proxied(limited(settings, **quotas)).model_copy(update={"redis_url": own.url})
        async with running_harness(changed) as harness:
            if not with_redis:
                own.kill()
            answers = [
                await harness.send(
                    from_address(honest(harness, issued(harness, player), with_recording(kib)), address)
                )
                for player, kib, address in [
                    ("a", 45, "192.0.2.1"),  # 60 KiB in base64, and some
                    ("a", 45, "192.0.2.1"),  # more than the player's 100
                    ("b", 45, "192.0.2.1"),
                    ("c", 45, "192.0.2.1"),  # more than the address' 150
                    ("c", 45, "192.0.2.2"),
                    ("d", 45, "192.0.2.3"),  # more than the network's 220
                    ("d", 1, "192.0.2.3"),
                    ("d", 45, "192.0.3.3"),  # another network
                ]
            ]
        told = [each.headers.get("RateLimit", "").partition(";")[0] for each in answers if each.status == 429]
        assert [202, 429, 202, 429, 202, 429, 202, 202] == [each.status for each in answers]
        assert ['"player-bytes"', '"address-bytes"', '"network-bytes"'] == told
        assert '"player-bytes";q=102400;qu="content-bytes";w=6000' == answers[1].headers["RateLimit-Policy"]
        assert QUOTA[1] == answers[1].problem
        assert 0 < int(answers[1].headers["Retry-After"]) <= 60 * 60


@pytest.mark.parametrize(
    "limits", [{"address": SLOW | {"burst": 4}}, {"address_kib": SLOW | {"burst": 20}}], ids=str
)
async def test_M03_a_resend_is_charged_to_its_address(settings: Settings, limits: dict[str, Any]):
    """Known ids are no way to flood: the address pays for each resend, in requests and in bytes."""
    async with running_harness(limited(settings, **limits)) as harness:
        request = honest(harness, issued(harness), with_recording(3))  # 5 KiB with its claim
        await accept(harness, request)
        await harness.edge.index.drained()
        again = [await harness.send(request) for _ in range(6)]
        assert [202] * 3 + [429] * 3 == [each.status for each in again]


async def test_F06_a_site_is_one_client_however_many_prefixes_it_has(settings: Settings):
    """Players are created from as many /64 as one likes, and from one /48 no more than a network may."""
    changed = proxied(limited(settings, network=SLOW | {"burst": 5}))
    async with running_harness(changed) as harness:
        sites = [f"2001:db8:1:{number:x}::1" for number in range(1000)]

        async def create(address: str) -> int:
            headers = {"X-Forwarded-For": address}
            async with harness.session.post(
                f"{harness.url}/v1/players", json={}, headers=headers
            ) as response:
                return response.status

        names = [harness.edge.addresses.names(each, ()) for each in sites]
        began_s = time.monotonic()
        waits_ms = [await harness.edge.player_limit.wait_ms(*each) for each in names]
        most = 120 * 8 + 8 * (time.monotonic() - began_s) + 1
        assert 120 * 8 <= waits_ms.count(0) <= most
        assert 429 in await asyncio.gather(*map(create, sites[-40:]))
        assert 201 == await create("2001:db8:2::1")
        answers = [
            await harness.send(from_address(honest(harness, issued(harness, f"p{number}")), address))
            for number, address in enumerate(sites[:6])
        ]
        assert {202: 5, 429: 1} == statuses(answers)
        assert '"network"' == answers[-1].headers["RateLimit"].partition(";")[0]


async def submit(harness: Harness, player: str, score: int) -> Answer:
    return await harness.send(honest(harness, issued(harness, player), {"score": score, "ticks": 60}))


@pytest.mark.parametrize("with_redis", [True, False])
async def test_F17_who_feels_for_the_bound_is_limited(settings: Settings, with_redis: bool):
    """A search for the bound ends after a few refusals; other players go on, and what was refused is never said."""
    with running_valkey() as own:
        policy = a_policy(
            "sprint",
            score={"minimum": 0, "maximum": 777_777, "step": 1},
            limits=GENEROUS | {"refused": {"player": 6, "address": 12, "window_s": 600}},
        )
        folder = write_policies(settings.data_dir / "own", policy)
        changed = {"policies_dir": folder, "redis_url": own.url, "trusted_proxies": ("127.0.0.0/8",)}
        async with running_harness(settings.model_copy(update=changed)) as harness:
            if not with_redis:
                own.kill()
            lowest, highest, answers = 0, 2**53 - 1, []
            while lowest < highest and (not answers or answers[-1].status != 429):
                middle = (lowest + highest + 1) // 2
                answers.append(await submit(harness, "prober", middle))
                lowest, highest = (
                    (lowest, middle - 1) if answers[-1].problem == "bounds-violation" else (middle, highest)
                )
            assert highest > 10 * 777_777
            assert 6 == [each.problem for each in answers].count("bounds-violation")
            assert ABNORMAL == (answers[-1].status, answers[-1].problem)
            assert 590 <= int(answers[-1].headers["Retry-After"]) <= 600
            assert 202 == (await submit(harness, "honest", 5)).status
            for number in range(6):
                await submit(harness, f"p{number}", 777_778)
            assert ABNORMAL == ((last := await submit(harness, "honest", 6)).status, last.problem)
            elsewhere = from_address(honest(harness, issued(harness, "honest")), "192.0.2.1")
            assert 202 == (await harness.send(elsewhere)).status


async def test_F17_what_a_prober_submits_later_says_so(settings: Settings):
    """Once the limit is over, the player's submissions carry the finding, and nobody else's does."""
    policy = a_policy(
        "sprint",
        score={"minimum": 0, "maximum": 1000, "step": 1},
        limits=GENEROUS | {"refused": {"player": 3, "window_s": 1}},
    )
    folder = write_policies(settings.data_dir / "own", policy)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        for _ in range(3):
            assert "bounds-violation" == (await submit(harness, "prober", 1001)).problem
        key = "lb:{183}:sprint:refused:player:prober"
        count, until_ms, before = (await harness.edge.index.client.get(key)).split()
        assert ("0", "3") == (count, before)
        await harness.edge.index.client.set(key, f"{count} {int(until_ms) - 10_000} {before}", px=60_000)
        for player in ("prober", "honest"):
            assert 202 == (await submit(harness, player, 7)).status
        reasons = stored(
            harness, "SELECT player, instr(findings, 'limits-probed') > 0 FROM submissions ORDER BY seq"
        )
        assert [("prober", 1), ("honest", 0)] == reasons


async def test_F17_rejections_at_once_count_too(settings: Settings):
    """Rows of rejected claims are bounded by player, and by address whoever plays there."""
    policy = a_policy(
        "sprint", velocity=IMPOSSIBLE, limits=GENEROUS | {"refused": {"player": 3, "address": 5}}
    )
    folder = write_policies(settings.data_dir / "own", policy)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        answers = [await submit(harness, player, 500) for player in "aaaabbbbcc"]
        assert [202, 202, 202, 429, 202, 202, 429, 429, 429, 429] == [each.status for each in answers]
        assert [(5,)] == stored(harness, "SELECT count(*) FROM submissions")


async def test_F17_a_rejected_run_that_is_sent_again_counts_once(settings: Settings):
    """A client that has no answer sends it until it has one, also while Redis is away and knows nothing of the run."""
    policy = a_policy(
        "sprint", velocity=IMPOSSIBLE, limits=GENEROUS | {"refused": {"player": 3, "address": 3}}
    )
    folder = write_policies(settings.data_dir / "own", policy)
    with running_valkey() as own:
        changed = {"policies_dir": folder, "redis_url": own.url}
        async with running_harness(settings.model_copy(update=changed)) as harness:
            own.kill()
            request = honest(harness, issued(harness), {"score": 500, "ticks": 60})
            answers = [await harness.send(request) for _ in range(5)]
            assert [202] * 5 == [each.status for each in answers]
            assert {"rejected"} == {each.body["state"] for each in answers}
            assert 202 == (await submit(harness, "p1", 500)).status


async def test_an_honest_player_is_refused_as_before(settings: Settings):
    """One impossible claim is refused by itself and limits nobody."""
    async with running_harness(limited(settings)) as harness:
        impossible = honest(harness, issued(harness), {"score": -1, "ticks": 60})
        await refuse(harness, impossible, (422, "bounds-violation"))
        await accept(harness, honest(harness, issued(harness)))
