"""Several stewards as real processes: killed, stopped beyond their leases and woken, added, and killed at random."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.deployment.presence import PartKind, PartReport, parts_there
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.transaction import Transaction
from gateway.runtime.lanes import LANES
from gateway.runtime.settings import load_settings
from gateway.settlement.decision_records import SettledDecision, trusted
from gateway.settlement.settle import decide, fold, receive
from gateway.steward.leases import LEASE_NAMES, DutyLease
from gateway.steward.seals.sealing import seal_key_of
from gateway.wiring import open_ledger
from tests.support import boards
from tests.support.deployment import PATIENCE_S, Client, Deployment, client_of, deployed, eventually
from tests.support.ledger import new_submission
from tests.support.oracle import breaches, history_of
from tests.support.preloaded import Process
from tests.support.seeds import fault_seed
from tests.support.stores import Store, on_both_if_thorough
from tests.support.thorough import IS_THOROUGH
from tests.support.valkey import ValkeyServer

TAKEN_OVER_S = 10.0
"""Promised of leases of 6 s. They are shorter here, so that a busy machine does not fail the test."""

KILLS = 8 if IS_THOROUGH else 4
DAY_MS = 86_400_000
WINDOWS = ["daily", "alltime"]


@pytest.fixture
def house(tmp_path: Path, valkey: ValkeyServer, store: Store) -> Iterator[Deployment]:
    settings = {"ledger_url": store.url, "seal_s": 0.2, "archive_after_s": 0, "steward_lease_s": 4}
    with deployed(tmp_path / "house", valkey, **settings) as deployment:
        boards.write_board(deployment.policies, windows=WINDOWS)
        yield deployment


@pytest.fixture
async def client(house: Deployment) -> AsyncIterator[Client]:
    async with client_of(house) as client:
        for part in ("serve", "worker"):
            house.start(part)
        await house.is_answering()
        yield client


async def owners(store: Store) -> dict[str, int]:
    """How many leases each registered steward has; those of nobody under no name."""
    rows = await store.sql(
        "SELECT coalesce(stewards.steward, ''), count(*) FROM leases "
        "LEFT JOIN stewards ON stewards.steward = leases.owner GROUP BY 1"
    )
    return {owner: int(count) for owner, count in rows}


async def shared_by(store: Store, count: int, within_s: float = PATIENCE_S) -> None:
    """Returns once so many stewards have all leases, and none more than its fair share of lanes and duties."""
    until = time.monotonic() + within_s
    fair = -(-LANES // count) - (-len(DutyLease) // count)
    while "" in (shares := await owners(store)) or len(shares) != count or max(shares.values()) > fair:
        assert time.monotonic() < until, shares
        await asyncio.sleep(0.05)
    assert len(LEASE_NAMES) == sum(shares.values())


async def stewards_there(house: Deployment) -> list[PartReport]:
    reports = await parts_there(load_settings(**house.settings))
    return [part for part in reports if part.kind is PartKind.STEWARD]


async def with_duty(house: Deployment, duty: str) -> int:
    """The process whose report says that it has the duty."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if pids := [part.pid for part in await stewards_there(house) if duty in part.duties]:
            return pids[0]
        await asyncio.sleep(0.05)
    raise AssertionError("nobody has it")


async def until_sealed(store: Store) -> float:
    """How long it took until every event has its seal (s)."""
    began = time.monotonic()
    while (
        await store.sql(
            "SELECT max(seq) FROM events HAVING max(seq) > (SELECT coalesce(max(last_seq), 0) FROM seals)"
        )
    ) != []:
        assert time.monotonic() < began + PATIENCE_S
        await asyncio.sleep(0.05)
    return time.monotonic() - began


@on_both_if_thorough
async def test_what_a_killed_steward_did_goes_on_elsewhere_within_ten_seconds(
    house: Deployment, client: Client, store: Store
):
    """A newcomer takes its share first; then the one that dispatches and seals dies, and both go on."""
    stewards = {house.start("steward")}
    await shared_by(store, 1)
    stewards.add(house.start("steward"))
    await shared_by(store, 2)
    [victim] = [each for each in stewards if each.pid == await with_duty(house, "dispatch")]
    victim.kill()
    victim.wait()
    died = time.monotonic()
    run = await client.submitted()
    await promoted(store, run.id)
    assert TAKEN_OVER_S > time.monotonic() - died
    await shared_by(store, 1, within_s=TAKEN_OVER_S - (time.monotonic() - died))
    await until_sealed(store)
    assert TAKEN_OVER_S > time.monotonic() - died
    assert '"steward_dead"' in house.log.read_text()


async def promoted(store: Store, submission_id: str) -> None:
    """Returns once the submission counts."""
    until = time.monotonic() + 30
    while not await verdicts(store, submission_id):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


@on_both_if_thorough
async def test_nothing_counts_that_a_steward_writes_once_it_was_followed(
    house: Deployment, client: Client, store: Store
):
    """Stopped right before its first write, it wakes when another has done that work, and is refused."""
    house.settings["steward_lease_s"] = "2"
    sleeper = house.start("steward", "before-fenced-write:stop")
    await eventually(lambda: is_stopped(sleeper), house.log)
    [asleep] = await owners(store)
    house.start("steward")
    await shared_by(store, 1)
    run = await client.submitted()
    await promoted(store, run.id)
    await until_sealed(store)
    assert asleep not in await owners(store)
    before = await positions(store)
    assert [] == refusals(house)
    sleeper.send_signal(signal.SIGCONT)
    await eventually(lambda: (asleep, 1) in refusals(house), house.log)
    await shared_by(store, 2)
    after = await positions(store)
    assert [] == [name for name, position in before.items() if after[name] < position]
    [[attempts]] = await store.sql("SELECT attempts FROM board_counts WHERE board = 'tiny'")
    assert 1 == attempts


def refusals(house: Deployment) -> list[tuple[str, int]]:
    """The stewards whose writes were refused, and under which epoch."""
    lines = [json.loads(line) for line in house.log.read_text().splitlines() if line.startswith("{")]
    return [
        (line["steward"], line["epoch"])
        for line in lines
        if line["event"] == "leases_lost" and "epoch" in line
    ]


async def positions(store: Store) -> dict[str, int]:
    return {
        f"{name} {board}": int(seq)
        for name, board, seq in await store.sql(
            "SELECT consumer, board, seq FROM progress WHERE consumer <> 'agenda-policy'"
        )
    }


def is_stopped(process: Process) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@on_both_if_thorough
async def test_whichever_of_three_stewards_dies_everything_ends_once(
    house: Deployment, client: Client, store: Store
):
    """Every submission has one verdict, one chain of seals covers all, and yesterday is archived right, and once."""
    house.settings["steward_lease_s"] = "1"
    await scored_yesterday(house)
    chance = random.Random(fault_seed())
    stewards = [house.start("steward") for _ in range(3)]
    runs = []
    for _ in range(KILLS):
        runs.append(await client.submitted(points=chance.randint(2, 9)))
        victim = chance.randrange(len(stewards))
        stewards[victim].kill()
        stewards[victim].wait()
        stewards[victim] = house.start("steward")
        await asyncio.sleep(chance.uniform(0, 0.8))
    await shared_by(store, 3)
    for run in runs:
        await promoted(store, run.id)
    await until_sealed(store)
    await archived(store)
    settings = load_settings(**house.settings)
    key = seal_key_of(settings, is_made=False)
    async with open_ledger(settings) as ledger:
        report = await audit(ledger, PublicKeys(key.public_key))
        history = await history_of(ledger)
    assert 0 == report.unsealed_events
    assert [] == list(breaches(history, [boards.board(house.policies, windows=WINDOWS).policy]))
    assert [1] * KILLS == [await verdicts(store, run.id) for run in runs]


async def scored_yesterday(house: Deployment) -> None:
    """Three players, whose scores counted on the day before, when nobody looked."""
    board = boards.board(house.policies, windows=WINDOWS)
    at_ms = int(time.time() * 1000) - DAY_MS
    async with open_ledger(load_settings(**house.settings)) as ledger:
        for number in range(3):
            name = f"s{number}"
            new = new_submission(name, player=f"p{number}", score=number, at_ms=at_ms, recording=None)

            async def work(tx: Transaction, new: Any = new, name: str = name) -> None:
                await receive(tx, new)
                outcome = await decide(tx, board, trusted(name, "server:eu", at_ms))
                assert isinstance(outcome, SettledDecision)
                await fold(tx, board, [outcome])

            await ledger.write(work)


async def archived(store: Store) -> None:
    """Returns once yesterday is archived: one revision of the three entries, in order."""
    deadline = time.monotonic() + 30
    entries: list[tuple[object, ...]] = []
    while time.monotonic() < deadline and len(entries) < 3:
        await asyncio.sleep(0.1)
        entries = await store.sql(
            "SELECT w.revision, player FROM archived_windows w JOIN archived_entries e ON e.board = w.board "
            'AND e."window" = w."window" AND e.revision = w.revision ORDER BY rank'
        )
    assert [(1, "p2"), (1, "p1"), (1, "p0")] == entries


async def verdicts(store: Store, submission_id: str) -> int:
    [[count]] = await store.sql(
        f"SELECT count(*) FROM events WHERE submission_id = '{submission_id}' AND to_state = 'promoted'"
    )
    return int(count)
