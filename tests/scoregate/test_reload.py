"""SIGHUP to the parts as the processes they are: no request is lost, and a wrong file changes nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support import boards
from tests.support.deployment import Client, Deployment, client_of, deployed, eventually
from tests.support.ledger import rows
from tests.support.preloaded import Process
from tests.support.valkey import running_valkey

PARTS = ("serve", "steward", "worker")
CLIENTS = 4


class House:
    """A deployment with all its parts, which are told together."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._processes: list[Process] = [deployment.start(part) for part in PARTS]

    def said(self, event: str) -> list[dict[str, Any]]:
        lines = self.deployment.log.read_text().splitlines()
        return [each for each in map(json.loads, lines) if each["event"] == event]

    async def are_up(self) -> None:
        """Returns once each part is at its work; a steward's first is to rebuild what is not there."""
        await self.deployment.is_answering()
        await eventually(
            lambda: len(self.said("started")) == 2 and bool(self.said("index_rebuilt")), self.deployment.log
        )

    async def told(self, event: str) -> list[dict[str, Any]]:
        """What each part logs of this event after a SIGHUP to all of them."""
        before = len(self.said(event))
        for process in self._processes:
            assert process.poll() is None
            process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(self.said(event)) >= before + len(PARTS), self.deployment.log)
        return self.said(event)[before:]

    def write(self, **changes: Any) -> str:
        """The digest of the board as the file says from now on."""
        boards.write_board(self.deployment.policies, **changes)
        return boards.board(self.deployment.policies, **changes).digest

    def digests(self, after: int = 0) -> list[tuple[str, str]]:
        """(actor, policy) of each event, in their order."""
        statement = "SELECT actor, policy FROM events WHERE seq > ? ORDER BY seq"
        return rows(self.deployment.ledger, statement, after)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with running_valkey() as valkey, deployed(folder, valkey, log_level="info") as deployment:
        yield House(deployment)


@pytest.fixture
async def client(house: House) -> AsyncIterator[Client]:
    await house.are_up()
    async with client_of(house.deployment) as client:
        yield client


async def play_until(done: asyncio.Event, client: Client) -> list[str]:
    """The runs of one player who never stops; each answer that is no 2xx fails."""
    token, played = await client.harness.new_player(), []
    while not done.is_set():
        run = await client.submitted(token=token)
        played.append(run.id)
    return played


async def test_policies_change_under_load_without_a_dropped_request(house: House, client: Client):
    """Twice, while players play on: every answer is a 2xx, every run is promoted, and events bear the digest in force."""
    old, done = house.write(), asyncio.Event()
    await house.told("policy_reloaded")
    players = [asyncio.create_task(play_until(done, client)) for _ in range(CLIENTS)]
    await client.submitted()
    for title in ("First", "Second"):
        new = house.write(title=title)
        assert [{"tiny": new}] * len(PARTS) == [
            each["changed"] for each in await house.told("policy_reloaded")
        ]
        await client.submitted()
    done.set()
    played = [each for group in await asyncio.gather(*players) for each in group]

    assert {"promoted"} == set((await house.deployment.settled(*played)).values())
    last = await client.submitted()
    await house.deployment.settled(last.id)
    policies = [policy for _, policy in house.digests()]
    assert (old, new) == (policies[0], policies[-1])
    assert [("replay", new)] == house.digests()[-1:]
    assert 3 == len(set(policies))


async def test_a_wrong_file_keeps_the_old_policies_in_force(house: House, client: Client):
    """Each part says what is wrong and where; after it is mended the parts go on with the new one."""
    good = house.write(title="Good")
    await house.told("policy_reloaded")
    path = house.deployment.policies / "tiny.yaml"
    path.write_text(path.read_text().replace('"maximum_ticks"', '"maximal_ticks"'))
    refused = await house.told("policy_refused")
    run = await client.submitted()
    ready = await client.harness.get("/readyz")
    await house.deployment.settled(run.id)

    assert {"error"} == {each["level"] for each in refused}
    assert all("tiny.yaml:1: replay.maximal_ticks: unknown setting" in each["error"] for each in refused)
    assert (200, False) == (ready.status, ready.body["policies"])
    assert {good} == {policy for _, policy in house.digests()[-2:]}

    mended = house.write(title="Mended")
    await house.told("policy_reloaded")
    run = await client.submitted()
    await house.deployment.settled(run.id)
    assert {mended} == {policy for _, policy in house.digests()[-2:]}
    assert (await client.harness.get("/readyz")).body["policies"] is True


async def test_N03_a_board_is_added_to_every_part(house: House, client: Client):
    """A signal later a run on it is verified by the worker, and the steward keeps its index."""
    boards.write_board(house.deployment.policies, "second")
    changed = [each["changed"] for each in await house.told("policy_reloaded")]
    run = await client.submitted(board="second")

    assert {("second",)} == {tuple(each) for each in changed}
    assert {run.id: "promoted"} == await house.deployment.settled(run.id)
    page = await client.harness.get("/v1/boards/second/entries")
    assert [run.player] == [each["player"] for each in page.body["entries"]]


async def test_what_needs_a_restart_is_refused_by_every_part(house: House, client: Client):
    """The same verdict everywhere, so that no two parts go by different rules."""
    del client
    house.write(windows=["alltime"])
    refused = await house.told("policy_refused")

    assert {
        "needs a restart: board 'tiny': windows was [alltime, daily, weekly, monthly] and is now [alltime]"
    } == {each["error"] for each in refused}
    house.write()
    await house.told("policy_reloaded")
