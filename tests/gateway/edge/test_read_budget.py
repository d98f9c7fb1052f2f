"""What a caller's reads may cost, in CPU time of ours and in bytes of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from gateway.edge.live import sse, websocket
from gateway.edge.moderation import figures
from gateway.edge.reads import read_budget
from gateway.edge.reads.read_budget import ReadBudget
from gateway.index.feed.events import FeedEvent
from gateway.index.feed.newest_events import NewestEvents, coalesced
from gateway.index.groups import circle_memory
from gateway.index.groups.circle_memory import CircleMemory
from gateway.ledger.reads import BY_READER, READER, ReadKind, ReadQueue
from gateway.runtime import metering
from gateway.runtime.metering import METER, CostMeter, metered, on_account, thread_on_account
from gateway.runtime.settings import Settings
from tests.gateway.edge.test_friends import SCORES, among, bring
from tests.support.attack import registered
from tests.support.charges import busy, draw_dearly, noted_charges
from tests.support.groups import BOARDS, fill, ranks
from tests.support.harness import Answer, Harness, Request, free_port, running_harness
from tests.support.policies import arcade_policy, write_policies
from tests.support.valkey import ValkeyServer


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", arcade_policy(), *BOARDS),
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        trusted_proxies=("127.0.0.1",),
    )


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is used up does not come back, however long a busy machine takes to use it up."""
    monkeypatch.setitem(ReadBudget.__init__.__kwdefaults__, "clock", lambda: 1_000.0)


async def read_from(harness: Harness, address: str, path: str = "/v1/boards/vault/entries") -> Answer:
    return await harness.send(Request("GET", path, b"", {"X-Forwarded-For": address}))


@pytest.mark.usefixtures("no_time")
async def test_F08_a_caller_whose_reads_cost_too_much_has_to_wait(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """429 with when to come again, for that address alone; health is asked for free, and a feed counts as well."""
    monkeypatch.setattr(read_budget, "SAVED_S", 2)
    async with running_harness(settings.model_copy(update={"read_budget_ms": 1})) as harness:
        while (answer := await read_from(harness, "192.0.2.1")).status == 200:
            pass
        assert (429, "quota-exceeded") == (answer.status, answer.problem)
        assert answer.headers["RateLimit"] == f'"reads";r=0;t={answer.headers["Retry-After"]}'
        assert '"reads"' in answer.headers["RateLimit-Policy"]
        refused = [
            await read_from(harness, "192.0.2.1", f"/v1/boards/vault/{each}") for each in ("live", "windows")
        ]
        assert [429, 429] == [each.status for each in refused]
        assert 200 == (await read_from(harness, "192.0.2.1", "/livez")).status
        assert 200 == (await read_from(harness, "192.0.2.2")).status


@pytest.mark.usefixtures("no_time")
async def test_F06_a_site_has_few_budgets_for_all_its_addresses(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """A /48 that asks from a fresh /64 each time has to wait as well, for pages of documentation too; others read on."""
    monkeypatch.setattr(read_budget, "SAVED_S", 2)
    async with running_harness(settings.model_copy(update={"read_budget_ms": 1})) as harness:
        for number in range(200):
            answer = await read_from(harness, f"2001:db8:1:{number:x}::1")
            if answer.status == 429:
                break
        assert (429, "quota-exceeded") == (answer.status, answer.problem)
        pages = [await read_from(harness, "2001:db8:1:ffff::1", path) for path in ("/", "/openapi.json")]
        assert [429, 429] == [each.status for each in pages]
        assert 200 == (await read_from(harness, "2001:db8:2::1")).status


def test_F08_a_bucket_fills_by_its_share_and_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    """Half a second of work a second: what is over comes back with time; of too many callers the oldest is forgotten."""
    now = [1000.0]
    budget = ReadBudget(0.5, clock=lambda: now[0])
    budget.charge("ada", 1e6 * (read_budget.SAVED_S / 2 + 1))
    assert (2.0, 0.0) == (budget.wait_s("ada"), budget.wait_s("bob"))
    now[0] += 1.5
    assert 0.5 == budget.wait_s("ada")
    monkeypatch.setattr(read_budget, "CALLERS", 3)
    for number in range(5):
        budget.charge(f"p{number}", 1)
    assert (3, 0.0) == (len(budget), budget.wait_s("ada"))


@pytest.mark.parametrize(
    "come_again", [lambda budget: budget.charge("ada", 0), lambda budget: budget.wait_s("ada")]
)
def test_F08_who_reads_on_is_not_forgotten_for_those_who_come(
    monkeypatch: pytest.MonkeyPatch, come_again: Any
):
    """Of more callers than are remembered it is not the one that came first and is charged, or refused, between them."""
    monkeypatch.setattr(read_budget, "CALLERS", 3)
    budget = ReadBudget(0.5, clock=lambda: 1000.0)
    budget.charge("ada", 1e6 * (read_budget.SAVED_S / 2 + 1))
    for number in range(5):
        budget.charge(f"p{number}", 1)
        come_again(budget)
    assert (3, 2.0) == (len(budget), budget.wait_s("ada"))


def test_F08_who_was_away_for_long_has_saved_no_more_than_there_is_to_save():
    """A day without reads is worth half a minute of them, like any pause that is longer than that."""
    now = [1000.0]
    budget = ReadBudget(0.5, clock=lambda: now[0])
    budget.charge("ada", 1)
    now[0] += 86_400
    budget.charge("ada", 1e6 * (read_budget.SAVED_S / 2 + 1))
    assert 2.0 == budget.wait_s("ada")


@pytest.mark.usefixtures("no_time")
async def test_F08_networks_and_players_have_budgets_too(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """A /48 has so many shares though each of its /64s has its own; a player has one from wherever they come."""
    monkeypatch.setattr(read_budget, "SAVED_S", 2)
    monkeypatch.setattr(read_budget, "NETWORK_TIMES", 2)
    async with running_harness(settings.model_copy(update={"read_budget_ms": 1})) as harness:
        status, number = 200, 0
        while status == 200:
            number += 1
            status = (await read_from(harness, f"2001:db8:1:{number:x}::1")).status
        assert (429, 200) == (status, (await read_from(harness, "2001:db8:2::1")).status)

        player = {"Authorization": f"Bearer {await harness.new_player()}"}
        status, number = 200, 0
        while status == 200:
            number += 1
            request = Request(
                "GET", "/v1/boards/vault/entries", b"", player | {"X-Forwarded-For": f"10.{number}.0.1"}
            )
            status = (await harness.send(request)).status
        assert (429, 200) == (status, (await read_from(harness, f"10.{number}.0.1")).status)


@pytest.mark.usefixtures("no_time")
async def test_F08_a_read_pays_for_what_it_took_however_short(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """Where nothing is declared for a route, and nothing may be saved, the time of the first read is the second one's wait."""
    monkeypatch.setattr(read_budget, "SAVED_S", 0)
    monkeypatch.setattr(read_budget, "declared_us", lambda *_: 0)
    async with running_harness(settings) as harness:
        answers = [
            await read_from(harness, address) for address in ("192.0.2.1", "192.0.2.1", "198.51.100.1")
        ]
        assert [200, 429, 200] == [each.status for each in answers]


async def test_F08_what_runs_is_charged_before_it_ends(monkeypatch: pytest.MonkeyPatch):
    """A feed that goes on for hours pays as it goes; all of it in the end, and once."""
    monkeypatch.setattr(metering, "CHARGED_NS", 1_000)
    charged: list[float] = []
    meter = CostMeter(charged.append)

    async def feed() -> int:
        for _ in range(3):
            sum(range(10_000))
            await asyncio.sleep(0)
        return len(charged)

    assert 3 == await metered(feed(), meter)
    meter.settle()
    assert meter.ns == pytest.approx(1_000 * sum(charged))


async def test_F08_only_what_runs_is_measured():
    """Waiting costs nothing, work does, and what is raised or cancelled inside comes out."""
    meter = CostMeter()

    async def work() -> str:
        await asyncio.sleep(0.2)
        sum(range(200_000))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.sleep(1)
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        await metered(work(), meter)
    assert 0 < meter.ns < 150_000_000


async def test_F08_work_in_tasks_and_threads_of_its_own_is_on_account():
    """That of a task without a meter is nobody's."""

    async def work() -> int:
        await asyncio.sleep(0)
        return busy(10)

    meter = CostMeter()
    assert 10 == await asyncio.create_task(on_account(work()))
    METER.set(meter)
    assert 10 == await asyncio.create_task(on_account(work()))
    assert 10_000_000 <= meter.ns < 20_000_000
    assert 10 == await thread_on_account(busy, 10)
    await asyncio.sleep(0)
    assert 20_000_000 <= meter.ns < 40_000_000


async def test_F08_who_asks_for_the_newest_events_pays_for_reading_the_others():
    """A task of its own reads what they come from."""

    async def past() -> AsyncIterator[list[FeedEvent]]:
        busy(10)
        return
        yield

    meter = CostMeter()
    METER.set(meter)
    assert [] == [each async for each in coalesced(past(), NewestEvents())]
    assert 10_000_000 <= meter.ns


@pytest.fixture
def charged_us(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What readers were charged."""
    return noted_charges(monkeypatch)


@pytest.mark.parametrize("way", ["live", "live/websocket"])
async def test_F08_who_follows_pays_for_catching_up(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, charged_us: list[float], way: str
):
    """Reading the past of a feed is done in tasks of its own, over each of the two ways."""

    class Dear:
        end = position = None

        def __init__(self) -> None:
            self.events = self.past()

        async def past(self) -> AsyncIterator[list[FeedEvent]]:
            await asyncio.sleep(0)
            busy(40)
            return
            yield

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncIterator[Dear]:
        yield Dear()

    module = websocket if way.endswith("websocket") else sse
    monkeypatch.setattr(module, "open_feed", opened)
    url = f"{harness.url}/v1/boards/vault/{way}"
    async with aiohttp.ClientSession() as client:
        if module is sse:
            async with client.get(url) as answer:
                await answer.read()
        else:
            async with client.ws_connect(url, protocols=(websocket.PROTOCOL,)) as socket:
                await socket.receive()
    assert 40_000 <= sum(charged_us) < 80_000


async def test_F08_a_page_is_paid_by_the_first_who_waits_for_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, charged_us: list[float]
):
    """It is drawn in a task of its own, since others may wait for it as well."""
    draw_dearly(monkeypatch, 20)
    assert 200 == (await read_from(harness, "192.0.2.1")).status
    assert 20_000 <= sum(charged_us) < 60_000


async def test_F08_a_listener_pays_for_what_it_is_sent(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, charged_us: list[float]
):
    """Over a WebSocket a task of its own writes the messages."""

    async def told(*_: Any, **__: Any) -> AsyncIterator[list[FeedEvent]]:
        yield []

    @asynccontextmanager
    async def opened(*_: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(position="1-0", end=None)

    monkeypatch.setattr(websocket, "with_heartbeats", told)
    monkeypatch.setattr(websocket, "open_feed", opened)
    monkeypatch.setattr(websocket, "position_message", lambda _: str(busy(40)))
    async with aiohttp.ClientSession() as client:
        url = f"{harness.url}/v1/boards/vault/live/websocket"
        async with client.ws_connect(url, protocols=(websocket.PROTOCOL,)) as socket:
            assert "40" == (await socket.receive()).data
            await socket.receive()
    assert 40_000 <= sum(charged_us) < 80_000


async def test_F08_figures_are_paid_by_the_moderator_who_asks(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, charged_us: list[float]
):
    """They are computed in a thread, which takes processor time as well."""
    computed = figures.figures_of

    def dear(*what: Any) -> Any:
        busy(20)
        return computed(*what)

    monkeypatch.setattr(figures, "figures_of", dear)
    assert 200 == (await harness.get("/v1/moderation/figures", harness.moderator())).status
    assert 20_000 <= sum(charged_us) < 80_000


async def test_F01_the_ledger_knows_whose_read_waits(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """A client by its address, as limits name it; a moderator by their name, since colleagues share an address."""
    readers: set[tuple[ReadKind, str]] = set()
    enter = ReadQueue.enter

    async def noted(queue: ReadQueue) -> None:
        readers.add((queue._kind, READER.get()))
        await enter(queue)

    monkeypatch.setattr(ReadQueue, "enter", noted)
    await read_from(harness, "192.0.2.1", "/v1/boards/vault/details?submissions=none")
    await read_from(harness, "192.0.2.1", "/v1/players/ada/achievements")
    await harness.get("/v1/moderation/queue", harness.moderator(name="mara"))
    address = harness.edge.addresses.names("127.0.0.1", ("192.0.2.1",)).address
    by_kind = {kind: reader for kind, reader in readers if kind in BY_READER}
    assert {address, "moderator mara"} == set(by_kind.values()), readers


async def test_F08_windows_that_hold_nothing_build_nothing(harness: Harness):
    """A page among 500 friends of each of many days on which nobody played: right, and not a key more in Redis."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    assert 200 == (await bring(harness, key, "p1", [f"f{number}" for number in range(499)] + ["p2"])).status
    assert [(1, "p2", 8), (2, "p1", 9)] == ranks(await among(harness, "p1"))
    client = harness.edge.index.client
    before = await client.dbsize()
    today = datetime.fromtimestamp(harness.clock() / 1000, UTC)
    for days in range(1, 21):
        window = f"daily:{today + timedelta(days=days):%Y%m%d}"
        answer = await among(harness, "p1", f"&window={window}")
        assert (200, 0, []) == (answer.status, answer.body["total"], answer.body["entries"])
    assert before >= await client.dbsize()


async def test_F08_circles_are_bounded_and_read_without_them(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Where no circle may be kept, the same page comes of looking each friend up, and nothing is left in Redis."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    assert 200 == (await bring(harness, key, "p5", ["p2", "p7"])).status
    of_three = 3 * circle_memory.BYTES_EACH
    monkeypatch.setattr(circle_memory, "MOST_BYTES", of_three - 1)
    expected = [(1, "p7", 3), (2, "p5", 5), (3, "p2", 8)]
    assert expected == ranks(await among(harness, "p5"))
    assert [] == [each async for each in harness.edge.index.client.scan_iter("*circle*")]
    monkeypatch.setattr(circle_memory, "MOST_BYTES", of_three)
    assert expected == ranks(await among(harness, "p5"))
    assert [] != [each async for each in harness.edge.index.client.scan_iter("*circle*")]


def test_F08_a_player_has_so_many_circles(monkeypatch: pytest.MonkeyPatch):
    """Per player and in all; what has expired makes room."""
    now = [0.0]
    memory = CircleMemory(10, clock=lambda: now[0])
    taken = [memory.takes(f"k{number}", "ada", 10) for number in range(circle_memory.MOST_OF_ONE + 1)]
    assert [True] * circle_memory.MOST_OF_ONE + [False] == taken
    assert memory.takes("k0", "ada", 10)
    monkeypatch.setattr(circle_memory, "MOST_BYTES", 60 * circle_memory.BYTES_EACH)
    assert [True, False] == [memory.takes("b1", "bob", 20), memory.takes("b2", "bob", 20)]
    now[0] = 10.0
    assert [True, True] == [memory.takes("k9", "ada", 20), memory.takes("b2", "bob", 40)]


def test_F08_what_has_expired_of_a_player_makes_room_for_as_many_and_no_more():
    """Circles end one by one: each leaves room for one, and of a player without any nothing is remembered."""
    now = [0.0]
    memory = CircleMemory(10, clock=lambda: now[0])
    for number in range(circle_memory.MOST_OF_ONE):
        now[0] = float(number)
        assert memory.takes(f"k{number}", "ada", 1)
    now[0] = 10.0
    asked = ("k1", "k8", "k9", "k8")
    assert [True, True, False, True] == [memory.takes(key, "ada", 1) for key in asked]
    now[0] = 30.0
    assert memory.takes("b", "bob", 1)
    assert ({"bob": 1}, {"b"}, 1) == (memory._of_player, memory._keys, len(memory._circles))
