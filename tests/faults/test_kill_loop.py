"""Several clients, and parts killed at random under them: at the end every submission is accounted for."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from redis import Redis

from tests.support import boards
from tests.support.boards import tiny_claim
from tests.support.deployment import Client, Deployment, client_of, deployed, eventually
from tests.support.harness import Run
from tests.support.ledger import is_intact, rows
from tests.support.oracle import due_on_board, pending_in_ledger, shown_on_board
from tests.support.valkey import ValkeyServer, running_valkey

SEED = 20_261_120
KILLS = 10
CLIENTS = 4
PARTS = ("serve", "steward", "worker", "valkey")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Deployment]:
    with running_valkey() as valkey, deployed(tmp_path, valkey, verify_batch=2) as deployment:
        boards.write_board(deployment.policies, budget={"wall_ms": 500})
        yield deployment


class Accounts:
    """What the clients know: which runs were acknowledged, and which they gave up on without an answer."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self.refused: list[tuple[int, bytes]] = []
        self.is_over = asyncio.Event()


async def play_on(client: Client, accounts: Accounts, token: str) -> None:
    """Opens runs and submits them, each with the same bytes until there is an answer or patience ends."""
    while not accounts.is_over.is_set():
        try:
            run = await client.open_run(token)
        except (aiohttp.ClientError, AssertionError, TimeoutError):
            await asyncio.sleep(0.05)
            continue
        await submit_until_answered(client, accounts, run)


async def submit_until_answered(client: Client, accounts: Accounts, run: Run) -> None:
    request = client.harness.signed(
        run, tiny_claim(run.info["seed"], points=2 + int(run.info["seed"]) % 20), board="tiny"
    )
    for _ in range(5):
        try:
            answer = await client.harness.send(request)
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        if answer.status == 202:
            accounts.acknowledged.add(run.id)
            return
        if answer.status != 503:
            accounts.refused.append((answer.status, answer.raw))
    accounts.unknown.add(run.id)


async def kill_at_random(
    house: Deployment, parts: dict[str, subprocess.Popen[bytes]], chance: random.Random
) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.2, 0.7))
        part = chance.choice(PARTS)
        if part == "valkey":
            house.valkey.kill()
            await asyncio.sleep(chance.uniform(0, 0.3))
            await asyncio.to_thread(house.valkey.start)
        else:
            parts[part].kill()
            parts[part].wait()
            parts[part] = house.start(part)


def is_healed(house: Deployment, valkey: ValkeyServer) -> bool:
    policy = boards.board(house.policies).policy
    with Redis.from_url(valkey.url) as redis:
        shown = shown_on_board(redis, policy)
        pending = redis.zcard("lb:{tiny}:pending")
    return not pending and due_on_board(house.ledger, policy) == shown


async def test_I10_I11_whatever_is_killed_the_accounts_balance(house: Deployment):
    """Every ok once in the ledger, every unknown at most once, all terminal by one verdict, the board the ledger's."""
    parts = {part: house.start(part) for part in PARTS if part != "valkey"}
    await house.is_answering()
    accounts = Accounts()
    async with client_of(house) as client:
        tokens = [await client.harness.new_player() for _ in range(CLIENTS)]
        playing = [asyncio.create_task(play_on(client, accounts, token)) for token in tokens]
        await kill_at_random(house, parts, random.Random(SEED))
        accounts.is_over.set()
        await asyncio.gather(*playing)
    await eventually(lambda: not pending_in_ledger(house.ledger, "tiny"), house.log)
    await eventually(lambda: is_healed(house, house.valkey), house.log)

    stored = [row[0] for row in rows(house.ledger, "SELECT submission_id FROM submissions")]
    assert [] == accounts.refused
    assert len(accounts.acknowledged) > 20
    assert len(set(stored)) == len(stored)
    assert set() == accounts.acknowledged - set(stored)
    assert set() == set(stored) - accounts.acknowledged - accounts.unknown
    assert {"promoted"} == set(house.states().values())
    assert dict.fromkeys(stored, 1) == house.verdict_events()
    assert is_intact(house.ledger)
