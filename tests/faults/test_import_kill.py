"""An import that is killed, or whose gateway is, goes on where it ended; in the end the board is what it would have been."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from gateway.runtime.failpoints import Point
from tests.clients.faulty import Canned, Cut, Fault
from tests.support.deployment import KILLED, PATIENCE_S, client_of, deployed, ended
from tests.support.harness import free_port
from tests.support.killed_imports import BATCH, WRITES, End, Imports, importing
from tests.support.policies import a_policy, write_policies
from tests.support.seeds import fault_seed
from tests.support.thorough import examples
from tests.support.valkey import ValkeyServer, running_valkey

ROWS = 460
KILLS = examples(3)
CALM, ROUGH = "calm", "rough"
SLICE = 40

Rows = list[tuple[str, int, int]]
"""Player, score, and a time (seconds) or a place."""


def some_rows(chance: random.Random, *, players: int = ROWS) -> Rows:
    """Rows with many equal scores; one in a hundred is above the board's highest score."""
    who = chance.sample(range(players), ROWS) if players >= ROWS else chance.choices(range(players), k=ROWS)
    return [
        (f"p{player}", chance.randrange(30) if chance.random() > 0.01 else 5_000, chance.randrange(600))
        for player in who
    ]


def pages(records: list[dict[str, Any]], wrapped: Callable[[list[dict[str, Any]]], Any]) -> str:
    bounds = [*range(0, len(records), 30), len(records)]
    return "".join(json.dumps(wrapped(records[first:last])) + "\n" for first, last in pairwise(bounds))


def at(second: int) -> str:
    return f"2024-03-01T10:{second // 60:02}:{second % 60:02}Z"


def csv(folder: Path, chance: random.Random, _: ValkeyServer) -> list[str]:
    """Several rows of a player, with times that are equal too."""
    lines = [f"{player},{score},{at(second)}" for player, score, second in some_rows(chance, players=90)]
    (folder / "scores.csv").write_text("\n".join(["player,score,reached", *lines]))
    return ["scores.csv", "--time-column", "reached"]


def zset(_: Path, chance: random.Random, valkey: ValkeyServer) -> list[str]:
    with Redis.from_url(valkey.url.replace("db=0", "db=1")) as client:
        client.zadd("lb:old", {f"user:{player}": score for player, score, _ in some_rows(chance)})
    return [f"unix://{valkey.socket}?db=1", "--key", "lb:old", "--member-prefix", "user:"]


def nakama(folder: Path, chance: random.Random, _: ValkeyServer) -> list[str]:
    records = [
        {"owner_id": player, "score": str(score), "subscore": str(score % 3), "update_time": at(second)}
        for player, score, second in some_rows(chance)
    ]
    (folder / "records.json").write_text(pages(records, lambda some: {"records": some, "next_cursor": "g"}))
    return ["records.json", "--from", "nakama"]


def playfab(folder: Path, chance: random.Random, _: ValkeyServer) -> list[str]:
    listed = sorted(some_rows(chance), key=lambda row: -row[1])
    records = [
        {"PlayFabId": row[0], "StatValue": row[1], "Position": place} for place, row in enumerate(listed)
    ]
    (folder / "playfab.json").write_text(pages(records, lambda some: {"data": {"Leaderboard": some}}))
    return ["playfab.json", "--from", "playfab"]


def steam(folder: Path, chance: random.Random, _: ValkeyServer) -> list[str]:
    listed = sorted(some_rows(chance), key=lambda row: -row[1])
    records = [{"steamID": row[0], "score": row[1], "rank": rank} for rank, row in enumerate(listed, 1)]
    text = pages(records, lambda some: {"leaderboardEntryInformation": {"leaderboardEntries": some}})
    (folder / "steam.json").write_text(text)
    return ["steam.json", "--from", "steam"]


SOURCES = (csv, zset, nakama, playfab, steam)


def _end_of(source: Callable[..., list[str]]) -> str:
    return f"-{source.__name__}"


@pytest.fixture
async def imports(tmp_path: Path) -> AsyncIterator[Imports]:
    """Imports into an edge and a steward, with nothing on the boards."""
    port = free_port()
    with running_valkey() as valkey, deployed(tmp_path, valkey) as house:
        house.settings["hosts"] = f"{house.authority},127.0.0.1:{port}"
        rules: dict[str, Any] = {
            "writes": "trusted",
            "windows": ["alltime", "monthly"],
            "score": {"minimum": 0, "maximum": 1_000},
        }
        names = (f"{which}{end}" for which in (CALM, ROUGH) for end in ("", *map(_end_of, SOURCES)))
        write_policies(house.policies, *(a_policy(board, **rules) for board in names))
        async with client_of(house) as client, importing(house, client.harness, port) as imports:
            yield imports


async def ended_alike(imports: Imports, calm_board: str = CALM, rough_board: str = ROUGH) -> None:
    """Both boards have the same submissions, show the same, and have the same rows refused."""
    assert ROWS == imports.rows_done(calm_board) == imports.rows_done(rough_board)
    assert imports.refusals(calm_board) == imports.refusals(rough_board)
    stored = imports.stored(rough_board)
    assert imports.stored(calm_board) == stored
    assert {"promoted"} == {row[4] for row in stored}
    calm = await imports.shown(calm_board)
    assert len({row[0] for row in stored}) == len(calm)
    assert calm == await imports.shown(rough_board)


class Sent:
    """The operations that were sent, in the order in which they first were."""

    def __init__(self) -> None:
        self._first: list[str] = []

    def add(self, done: int, run: End) -> None:
        """A run that began when so many rows were done: it sends the next ones, and none before."""
        if run.sent or run.status != KILLED:  # a run may die before it has said anything
            assert (f"goes on after row {done}\n" in run.errors) == (done > 0)
        at = done
        for number, operations in enumerate(run.sent):
            repeats = number > 0 and operations == run.sent[number - 1]
            at -= len(operations) if repeats else 0
            assert self._first[at : at + BATCH] in ([], operations)
            self._first[at : at + BATCH] = operations
            at += len(operations)

    def all_once(self) -> None:
        assert ROWS == len(self._first) == len(set(self._first))


async def run_to_its_end(imports: Imports, words: list[str], board: str) -> float:
    """Import without a fault, and return the seconds that it took."""
    began_s = time.monotonic()
    end = await imports.run(words, board)
    assert 1 == end.status, end.errors
    assert f"{len(imports.stored(board))} written, " in end.said
    return time.monotonic() - began_s


async def killed_again_and_again(
    imports: Imports, words: list[str], board: str, within_s: float, chance: random.Random
) -> End:
    """The run that was not killed, after those that were; every run went on where the one before ended."""
    sent, kills = Sent(), 0
    while True:
        done = imports.rows_done(board)
        running = imports.start(words, board)
        if kills < KILLS:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(running.process.wait, chance.uniform(0, within_s))
            running.process.kill()
        run = await running.end(imports.proxy)
        sent.add(done, run)
        if run.status != KILLED:
            sent.all_once()
            return run
        kills += 1


async def test_an_import_that_is_killed_again_and_again_leaves_the_board_of_one_that_was_not(
    imports: Imports,
) -> None:
    """Of each source, at any moment: no score, time or refusal differs, nobody stands twice, no run begins anew."""
    chance = random.Random(fault_seed())
    imports.house.start("serve")
    await imports.house.is_answering()
    for source in SOURCES:
        words = source(imports.folder, chance, imports.house.valkey)
        calm, rough = (f"{board}{_end_of(source)}" for board in (CALM, ROUGH))
        took_s = await run_to_its_end(imports, words, calm)
        run = await killed_again_and_again(imports, words, rough, took_s, chance)
        assert 1 == run.status, run.errors
        assert run.said.startswith(f"{len(imports.stored(calm))} written, ")
        await ended_alike(imports, calm, rough)


BEFORE_THE_CHECKPOINT = (Point.AFTER_IMPORTED_BATCH, Point.AFTER_REFUSALS, Point.INSIDE_CHECKPOINT)

STEPS = (
    (Point.INSIDE_COPY, 0, 0),
    (Point.INSIDE_COPY, 0, 0),
    (Point.AFTER_COPY, 0, 0),
    *((point, BATCH, 0) for point in BEFORE_THE_CHECKPOINT for _ in range(2)),
    (Point.AFTER_CHECKPOINT, BATCH, BATCH),
    (Point.AFTER_CHECKPOINT, BATCH, 2 * BATCH),
)
"""Where an import dies, one after the other; how many rows it has sent by then, and how many are done."""


async def test_an_import_that_dies_at_any_of_its_steps_goes_on_from_the_step_before(imports: Imports) -> None:
    """A copy that was not done is made anew, and a batch whose end was not noted is sent once more."""
    words = zset(imports.folder, random.Random(fault_seed()), imports.house.valkey)
    imports.house.start("serve")
    await imports.house.is_answering()
    await run_to_its_end(imports, words, CALM)
    sent = Sent()
    for point, rows_sent, rows_done in STEPS:
        done = imports.rows_done(ROUGH)
        run = await imports.run(words, ROUGH, point)
        assert (KILLED, "") == (run.status, run.said)
        sent.add(done, run)
        assert (point, rows_sent, rows_done) == (point, sum(map(len, run.sent)), imports.rows_done(ROUGH))
    run = await imports.run(words, ROUGH)
    sent.add(2 * BATCH, run)
    assert 1 == run.status
    sent.all_once()
    await ended_alike(imports)


async def test_an_import_whose_gateway_dies_says_so_and_goes_on(imports: Imports) -> None:
    """Half of a batch is in the ledger then, and on no board: the command says how to go on, which writes the rest."""
    house = imports.house
    words = csv(imports.folder, random.Random(fault_seed()), house.valkey)
    dying = house.start("serve", Point.AFTER_SETTLE, before=SMALL_SLICES)
    await house.is_answering()
    run = await imports.run(words, ROUGH, attempts=2)
    assert (KILLED, 1, "") == (await ended(dying), run.status, run.said)
    assert "once that is mended, the same command goes on" in run.errors
    assert 0 < len(imports.stored(ROUGH)) <= SLICE
    assert 0 == imports.rows_done(ROUGH)
    house.start("serve")
    await house.is_answering()
    await run_to_its_end(imports, words, ROUGH)
    await run_to_its_end(imports, words, CALM)
    await shown_by_the_steward(imports)
    await ended_alike(imports)


SMALL_SLICES = f"import gateway.settlement.server_operations as it\nit.SLICE = {SLICE}"
"""Has a batch be several transactions."""


async def shown_by_the_steward(imports: Imports) -> None:
    """Return once a steward has shown what edges that were killed did not."""
    imports.house.start("steward")
    calm = await imports.shown(CALM)
    async with asyncio.timeout(PATIENCE_S):
        while calm != await imports.shown(ROUGH):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.1)


FAULTS: tuple[Fault, ...] = (
    Cut.BEFORE,
    Cut.AFTER,
    Canned(503, headers={"Retry-After": "0"}),
    b"HTTP/1.1 200",
)


async def test_an_import_outlives_its_gateway_and_lost_answers(imports: Imports) -> None:
    """Edges die at any moment and come back, answers and requests are lost: one run, and the same board."""
    house, chance = imports.house, random.Random(fault_seed())
    words = csv(imports.folder, chance, house.valkey)
    edge = house.start("serve")
    await house.is_answering()
    took_s = await run_to_its_end(imports, words, CALM)
    running = imports.start(words, ROUGH)
    for fault in FAULTS:
        imports.proxy.on(WRITES, fault)
        await asyncio.sleep(chance.uniform(0, took_s))
        edge.kill()
        await asyncio.to_thread(edge.wait)
        edge = house.start("serve")
        await house.is_answering()
    sent, run = Sent(), await running.end(imports.proxy)
    sent.add(0, run)
    assert 1 == run.status, run.errors
    sent.all_once()
    assert len(run.sent) > len(range(0, ROWS, BATCH))
    await shown_by_the_steward(imports)
    await ended_alike(imports)
