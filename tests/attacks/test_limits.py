"""Getting past the rate limits: by lying about the address, by racing, by breaking Redis, by naming others."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.edge.admission.address import ClientAddresses
from gateway.index.limits.admission import AdmissionRequest
from gateway.index.limits.charging import LocalLimiter
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import REPEATED
from policies.errors import SettingsError
from tests.support.attack import CLAIM, INVALID, a_run, accept, honest, issued, refuse, rows
from tests.support.harness import Answer, Harness, Request, free_port, running_harness
from tests.support.policies import GENEROUS, a_policy, write_policies
from tests.support.raw import RawConnection, as_bytes
from tests.support.valkey import ValkeyServer, running_valkey

SLOW = {"per_minute": 1}
QUOTA = (429, "quota-exceeded")
FARM = "203.0.113.9"


def limited(settings: Settings, **limits: Any) -> Settings:
    """Settings of a deployment whose one board has these limits."""
    folder = write_policies(settings.data_dir / "limited", a_policy("sprint", limits=GENEROUS | limits))
    return settings.model_copy(update={"policies_dir": folder})


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of a process have no time to let anybody in again, however long a busy machine takes."""
    size, _ = LocalLimiter.__init__.__defaults__ or ()
    began_ns = time.monotonic_ns()
    monkeypatch.setattr(LocalLimiter.__init__, "__defaults__", (size, lambda: began_ns))


async def submit_all(harness: Harness, count: int, **ticket: Any) -> list[Answer]:
    """The answers to as many submissions of different runs, sent one after the other."""
    requests = [honest(harness, issued(harness, **ticket), CLAIM) for _ in range(count)]
    return [await harness.send(request) for request in requests]


def forwarded(request: Request, client: str) -> Request:
    """The request as a trusted proxy hands it on for a client."""
    return replace(request, headers=request.headers | {"X-Forwarded-For": client})


def statuses(answers: list[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


SPOOFS = [
    {"X-Forwarded-For": "10.0.0.1"},
    {"X-Forwarded-For": "10.0.0.2, 10.0.0.3"},
    {"X-Forwarded-For": "::ffff:10.0.0.4"},
    {"X-Forwarded-For": "not an address"},
    {"X-Forwarded-For": ""},
    {"X-Real-IP": "10.0.0.5"},
    {"Forwarded": "for=10.0.0.6;proto=https"},
    {"True-Client-IP": "10.0.0.7"},
]


async def test_R01_forwarding_headers_of_strangers_give_no_quota(settings: Settings):
    """Without trusted proxies the limit is on the peer, whatever it says of itself."""
    async with running_harness(limited(settings, address=SLOW | {"burst": len(SPOOFS)})) as harness:
        for number, spoof in enumerate(SPOOFS):
            request = honest(harness, issued(harness, f"p{number}"))
            await accept(harness, replace(request, headers=request.headers | spoof))
        request = honest(harness, issued(harness, "p-last"))
        for spoof in SPOOFS:
            await refuse(harness, replace(request, headers=request.headers | spoof), QUOTA)


async def test_R01_behind_a_trusted_proxy_the_right_most_stranger_counts(settings: Settings):
    """What a client writes itself stands further left and changes nothing; another client has its own quota."""
    settings = limited(settings, address=SLOW | {"burst": 2}).model_copy(
        update={"trusted_proxies": ("127.0.0.0/8",)}
    )
    async with running_harness(settings) as harness:
        for number, lie in enumerate(("9.9.9.1", "9.9.9.2, garbage", "::ffff:9.9.9.3")):
            request = honest(harness, issued(harness, f"p{number}"))
            forwarded = replace(
                request, headers=request.headers | {"X-Forwarded-For": f"{lie}, 198.51.100.7, 127.0.0.2"}
            )
            if number < 2:
                await accept(harness, forwarded)
            else:
                await refuse(harness, forwarded, QUOTA)
        request = honest(harness, issued(harness, "p9"))
        await accept(harness, replace(request, headers=request.headers | {"X-Forwarded-For": "198.51.100.8"}))


FORMS = (
    "198.51.100.7",
    "198.51.100.7:5678",
    "198.51.100.7:1",
    "::ffff:198.51.100.7",
    "[::ffff:198.51.100.7]:99",
    " 198.51.100.7:5678 ",
    "9.9.9.9:1, 198.51.100.7:5678, 127.0.0.2:99",
)
FORMS_OF_IPV6 = (
    "2001:db8::1",
    "[2001:db8::1]",
    "[2001:db8::1]:99",
    "[2001:db8::ffff%eth0]:65535",
    "2001:db8::2",
)
JUNK = (
    "unknown",
    "_hidden",
    "",
    "198.51.100.7:",
    "198.51.100.7:port",
    "198.51.100.7:123456",
    ":5678",
    "[]:1",
    "[198.51.100.7]:1",
    "[2001:db8::1",
    "2001:db8::1]:99",
    "[2001:db8::1]99",
    "198.51.100.7:1:2",
    "for=198.51.100.7",
)


def test_R01_a_proxy_may_write_a_port_behind_the_address() -> None:
    """Only where proxies are trusted; all clients of such a proxy would else share its limits."""
    addresses = ClientAddresses(("127.0.0.0/8",), bytes(32))
    for forms in (FORMS, FORMS_OF_IPV6):
        assert 1 == len({addresses.names("127.0.0.1", (form,)) for form in forms})
        assert addresses.names("127.0.0.1", (forms[0],)) == addresses.names(forms[0], ())
        of_strangers = {addresses.names("192.0.2.9", (form,)) for form in forms}
        assert {addresses.names("192.0.2.9", ())} == of_strangers


def test_R01_what_a_proxy_writes_that_is_no_address_is_logged() -> None:
    """It counts for the proxy, as it did; the line says so without what was written."""
    addresses = ClientAddresses(("127.0.0.0/8",), bytes(32))
    with capture_logs() as events:
        for junk in JUNK:
            assert addresses.names("127.0.0.1", ()) == addresses.names(
                "127.0.0.1", (f"198.51.100.7, {junk}",)
            ), junk
            assert addresses.names("127.0.0.1", ()) == addresses.names(
                "127.0.0.1", (f"{junk}, 127.0.0.3:80",)
            ), junk
    told = [
        {"event": "forwarded_unread", "log_level": "warning", "characters": len(junk)}
        for junk in JUNK
        for _ in "12"
    ]
    assert told == events
    assert "forwarded_unread" in REPEATED


def test_R01_addresses_are_named_by_what_cannot_be_chosen():
    """One subscriber has one name: IPv4 mapped into IPv6 is IPv4, and all of a /64 is one."""
    addresses = ClientAddresses((), bytes(32))
    same = [("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::ffff"), ("fe80::1%eth0", "fe80::2")]
    other = [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8:0:1::1"), ("192.0.2.1", "")]
    for one, two in same:
        assert addresses.name(one, ()) == addresses.name(two, ())
    for one, two in other:
        assert addresses.name(one, ()) != addresses.name(two, ())


def test_R11_the_name_of_an_address_needs_the_key():
    """Another deployment names the same address otherwise: hashing all addresses does not turn a name back."""
    assert ClientAddresses((), bytes(32)).name("192.0.2.1", ()) != ClientAddresses((), b"1" * 32).name(
        "192.0.2.1", ()
    )
    assert re.fullmatch("[0-9a-f]{24}", ClientAddresses((), bytes(32)).name("192.0.2.1", ()))


def test_trusted_proxies_that_are_no_addresses_are_refused_at_start():
    """A wrong proxy setting is told at start, not found out under attack."""
    with pytest.raises(SettingsError, match="SCOREGATE_TRUSTED_PROXIES"):
        ClientAddresses(("10.0.0.1/8",), bytes(32))


async def test_R03_many_accounts_of_one_host_share_the_limit_of_its_address(settings: Settings):
    """A hundred players at one address are let in as often as one; the players of another host go on."""
    settings = limited(settings, address=SLOW | {"burst": 7}).model_copy(
        update={"trusted_proxies": ("127.0.0.0/8",)}
    )
    async with running_harness(settings) as harness:
        farm = [forwarded(honest(harness, issued(harness, f"p{number}")), FARM) for number in range(100)]
        answers = await asyncio.gather(*(harness.send(request) for request in farm))
        assert {202: 7, 429: 93} == statuses(list(answers))
        await accept(harness, forwarded(honest(harness, issued(harness, "p0")), "192.0.2.1"))


async def test_R03_S38_one_account_at_many_hosts_has_the_limit_of_its_player(settings: Settings):
    """A stolen account is no stronger for a hundred addresses in as many networks."""
    settings = limited(settings, player=SLOW | {"burst": 7}).model_copy(
        update={"trusted_proxies": ("127.0.0.0/8",)}
    )
    async with running_harness(settings) as harness:
        stolen = [
            forwarded(honest(harness, issued(harness, "victim")), f"198.18.{number}.1")
            for number in range(100)
        ]
        answers = await asyncio.gather(*(harness.send(request) for request in stolen))
        assert {202: 7, 429: 93} == statuses(list(answers))
        await accept(harness, forwarded(honest(harness, issued(harness, "other")), "198.18.0.1"))


async def test_R06_four_edges_share_one_bucket_exactly(settings: Settings):
    """Of 400 submissions of one player at four edges at once, exactly the burst is accepted."""
    settings = limited(settings, player=SLOW | {"burst": 25})
    async with AsyncExitStack() as stack:
        binds = [{"bind": f"127.0.0.1:{free_port()}"} for _ in range(4)]
        edges = [
            await stack.enter_async_context(running_harness(settings.model_copy(update=bind)))
            for bind in binds
        ]
        sending = [edge.send(honest(edge, issued(edge))) for edge in edges * 100]
        answers = await asyncio.gather(*sending)
        assert {202: 25, 429: 375} == statuses(answers)
        assert 25 == await rows(edges[0])


async def test_R06_both_limits_are_charged_or_neither(settings: Settings):
    """A submission that the address's limit refuses costs its player nothing."""
    settings = limited(settings, player=SLOW | {"burst": 2}, address=SLOW | {"burst": 3})
    async with running_harness(settings) as harness:
        assert {202: 3} == statuses(
            await submit_all(harness, 2, player="a") + await submit_all(harness, 1, player="b")
        )
        refused = await submit_all(harness, 5, player="b")
        assert {429: 5} == statuses(refused)
        left = await harness.edge.of(harness.edge.catalogue.of_files["sprint"]).submission_limits.admit(
            asking("b")
        )
        assert 0 == left.wait_ms


def asking(player: str) -> AdmissionRequest:
    return AdmissionRequest("another", player, "another address")


async def test_R07_a_flood_that_names_a_victim_costs_the_victim_nothing(settings: Settings):
    """Requests that prove nothing charge no player's limit: after a flood under a victim's ticket the victim passes."""
    async with running_harness(limited(settings, player=SLOW | {"burst": 1})) as harness:
        victim = await a_run(harness)
        for _ in range(30):
            await refuse(harness, honest(harness, victim, key=bytes(32)), INVALID)
        await accept(harness, honest(harness, victim))


@pytest.mark.usefixtures("stopped_clock")
async def test_R09_without_redis_each_process_limits_by_itself(settings: Settings):
    """Redis down means limited, never unlimited: the burst passes, durably, and no more."""
    with running_valkey() as own:
        changed = limited(settings, player=SLOW | {"burst": 3}).model_copy(update={"redis_url": own.url})
        async with running_harness(changed) as harness:
            own.kill()
            answers = await submit_all(harness, 10)
            assert {202: 3, 429: 7} == statuses(answers)
            assert 3 == await rows(harness)
            again = await asyncio.gather(
                *(harness.send(honest(harness, issued(harness, "p2"))) for _ in range(20))
            )
            assert {202: 3, 429: 17} == statuses(list(again))


@pytest.mark.usefixtures("stopped_clock")
async def test_R09_without_redis_players_and_runs_are_limited_too(settings: Settings):
    """Creating players and opening runs fall back to this process's own bucket."""
    with running_valkey() as own:
        changed = limited(settings, player=SLOW | {"burst": 2}).model_copy(update={"redis_url": own.url})
        async with running_harness(changed) as harness:
            own.kill()
            token = await harness.new_player()
            opened = [await harness.post("/v1/boards/sprint/runs", {"build": "b-1"}, token) for _ in range(4)]
            assert {201: 2, 429: 2} == statuses(opened)
            made = await asyncio.gather(*(harness.post("/v1/players", {}) for _ in range(130)))
            assert {201: 119, 429: 11} == statuses(list(made))


async def test_R10_every_key_of_a_limit_expires(settings: Settings, valkey: ValkeyServer):
    """However many names are made up, what Redis keeps of them goes by itself."""
    async with running_harness(limited(settings, player=SLOW | {"burst": 5})) as harness:
        await accept(harness, honest(harness, await a_run(harness)))
        await a_run(harness)
        for number in range(20):
            await harness.send(honest(harness, issued(harness, f"p{number}")))
    with valkey.client() as client:
        limits = [key for key in client.scan_iter() if "limit" in key or ":open:" in key]
        assert len(limits) > 20
        assert [] == [key for key in limits if client.pttl(key) == -1]  # no time to live


async def test_R11_answers_tell_the_limit_and_when_to_come_again(settings: Settings):
    """An accepted submission says what is left, a refused one when to come; neither names an address."""
    async with running_harness(limited(settings, player=SLOW | {"burst": 2})) as harness:
        first, second, third = await submit_all(harness, 3)
        assert ('"player";r=1', '"player";q=2;w=120') == (
            first.headers["RateLimit"],
            first.headers["RateLimit-Policy"],
        )
        assert '"player";r=0' == second.headers["RateLimit"]
        assert QUOTA == (third.status, third.problem)
        assert 55 <= int(third.headers["Retry-After"]) <= 60
        assert f'"player";r=0;t={third.headers["Retry-After"]}' == third.headers["RateLimit"]
        assert "127.0.0.1" not in str(third.headers) + third.raw.decode()


async def test_a_resend_costs_the_player_nothing(settings: Settings):
    """A retry of what was accepted is answered when the player's limit is long used up."""
    async with running_harness(limited(settings, player=SLOW | {"burst": 1})) as harness:
        request = honest(harness, issued(harness))
        first = await accept(harness, request)
        await harness.edge.index.drained()
        again = [await harness.send(request) for _ in range(5)]
        assert {first.raw} == {answer.raw for answer in again}
        await refuse(harness, honest(harness, issued(harness)), QUOTA)


async def test_a_run_is_closed_by_its_submission_whatever_becomes_of_it(harness: Harness):
    """A board whose submissions are all held does not run out of open runs: submitting closes one."""
    token = await harness.new_player()
    for _ in range(7):
        run = await harness.open_run(token, "sprint")
        answer = await accept(harness, honest(harness, run))
        assert b'"state":"held"' in answer.raw
        await harness.edge.index.drained()


async def test_a_disconnected_asker_does_not_break_its_batch(settings: Settings):
    """Many ask in one batch and one of them leaves: the others get their answers."""
    async with running_harness(limited(settings)) as harness:
        limits = harness.edge.of(harness.edge.catalogue.of_files["sprint"]).submission_limits
        asked = [asyncio.ensure_future(limits.admit(asking(f"p{number}"))) for number in range(10)]
        await asyncio.sleep(0)
        asked[3].cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [number == 3 for number in range(10)] == [
            isinstance(each, asyncio.CancelledError) for each in answers
        ]


async def test_pipelined_requests_are_each_limited(settings: Settings):
    """A thousand requests in one packet are a thousand requests."""
    async with running_harness(limited(settings, player=SLOW | {"burst": 5})) as harness:
        requests = [as_bytes(honest(harness, issued(harness)), harness.authority) for _ in range(60)]
        async with RawConnection(harness.authority) as connection:
            await connection.send(b"".join(requests))
            answers = [await connection.answer() for _ in requests]
        assert {202: 5, 429: 55} == statuses(answers)
