"""Boards of families while everything runs: opened, played and read on several edges, with less memory than boards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis

from gateway.catalogue.catalogue import TRUSTED_S
from gateway.index import keys
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.wiring import catalogue_of, open_index, open_ledger, open_recordings
from policies.opened_board import BoardState
from replay.simulators.sandbox import Sandbox
from replay.worker.verifier import Verifier
from tests.support.boards import BUILD, tiny_claim
from tests.support.clock import ShiftedClock
from tests.support.families import open_tracks, turn_tracks, write_family
from tests.support.harness import Answer, Harness, Run, free_port, running_harness
from tests.support.postgres import APP, PostgresServer
from tests.support.stores import Store, on_both_if_thorough, on_both_ledgers
from tests.support.valkey import ValkeyServer

PATIENCE_S = 8.0
"""How long a busy machine may take for what takes milliseconds."""


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer, store: Store) -> Settings:
    return settings_of(tmp_path, valkey, store.url)


def settings_of(tmp_path: Path, valkey: ValkeyServer, ledger_url: str) -> Settings:
    """A deployment that has nothing but one family."""
    write_family(tmp_path / "policies")
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        redis_timeout_ms=5_000,
        ledger_url=SecretStr(ledger_url),
        bind=f"127.0.0.1:{free_port()}",
    )


@asynccontextmanager
async def two_edges(settings: Settings, **others: Any) -> AsyncIterator[tuple[Harness, Harness]]:
    clock = ShiftedClock()
    beside = settings.model_copy(update={"bind": f"127.0.0.1:{free_port()}", **others})
    async with running_harness(settings, clock) as one, running_harness(beside, clock) as other:
        yield one, other


async def opened(edge: Harness, board: str, token: str) -> Answer:
    return await edge.post(f"/v1/boards/{board}/runs", {"build": BUILD}, token)


async def played(edge: Harness, board: str, token: str, points: int = 5) -> tuple[Run, Answer]:
    answer = await opened(edge, board, token)
    assert 201 == answer.status, answer.raw
    run = Run(answer.body, token)
    edge.clock.shift(1)
    return run, await edge.submit(run, tiny_claim(run.info["seed"], points), board=board)


@asynccontextmanager
async def apart(settings: Settings, edge: Harness) -> AsyncIterator[tuple[Steward, Verifier]]:
    """A steward and a worker with their own connections and catalogues."""
    queue = Redis.from_url(settings.jobs_url)
    with Sandbox() as sandbox:
        async with (
            open_ledger(settings) as ledger,
            open_index(settings) as index,
            open_recordings(settings) as recordings,
        ):
            common: dict[str, Any] = {"recordings": recordings, "clock": edge.clock}
            parts = catalogue_of(settings, ledger), ledger, index
            yield (
                Steward(settings, *parts, RqJobs(queue), **common),
                Verifier(settings, *parts, sandbox, **common),
            )
    queue.close()


async def ranks(edge: Harness, board: str) -> list[tuple[int, int]]:
    answer = await edge.get(f"/v1/boards/{board}/entries")
    assert 200 == answer.status, answer.raw
    return [(entry["rank"], entry["score"]) for entry in answer.body["entries"]]


@on_both_ledgers
async def test_a_board_that_is_opened_is_played_and_read_at_once_on_every_edge(settings: Settings):
    """No restart, no file, and nothing of it anywhere before: it is judged and shown as any other."""
    async with two_edges(settings) as (one, other), apart(settings, one) as (_, verifier):
        token = await one.new_player()
        assert 404 == (await opened(one, "track.monza", token)).status
        assert ["opened"] == await open_tracks(one.edge.ledger, "track.monza")
        first, answer = await played(one, "track.monza", token)
        second, again = await played(other, "track.monza", await other.new_player("Bob"), points=7)
        assert [202, 202] == [answer.status, again.status]
        assert [[], []] == [await ranks(edge, "track.monza") for edge in (one, other)]
        assert 2 == await verifier.verify_all([first.id, second.id])
        assert [(1, 7), (2, 5)] == await ranks(one, "track.monza") == await ranks(other, "track.monza")
        state = await other.get(f"/v1/submissions/{first.id}", token)
        assert ("promoted", 2) == (state.body["state"], state.body["rank"])
        assert {"boards": [], "next": None} == (await one.get("/v1/boards")).body
        assert 200 == (await one.ready()).status
        assert "track.monza" not in await one.metrics()


@on_both_if_thorough
async def test_more_boards_than_are_kept_lose_nothing(settings: Settings):
    """Fifty boards played side by side by edges that keep eight, settled by a steward and a worker that keep two."""
    few_at_once = asyncio.Semaphore(16)  # a slow machine would refuse the last of a hundred for their age

    async def in_turn(request: Awaitable[Answer]) -> Answer:
        async with few_at_once:
            return await request

    names = [f"track.n{number:02}" for number in range(50)]
    few = settings.model_copy(update={"boards_in_memory": 8})
    async with two_edges(few, boards_in_memory=8) as edges:
        one, other = edges
        await open_tracks(one.edge.ledger, *names)
        tokens = [await one.new_player(), await other.new_player("Bob")]
        turns = [
            (edge, name, token, points)
            for name in names
            for edge, token, points in zip(edges, tokens, (5, 7), strict=True)
        ]
        answers = await asyncio.gather(
            *(in_turn(opened(edge, name, token)) for edge, name, token, _ in turns)
        )
        runs = [Run(answer.body, token) for answer, (_, _, token, _) in zip(answers, turns, strict=True)]
        one.clock.shift(1)
        accepted = await asyncio.gather(
            *(
                in_turn(edge.submit(run, tiny_claim(run.info["seed"], points), board=name))
                for run, (edge, name, _, points) in zip(runs, turns, strict=True)
            )
        )
        assert {202} == {answer.status for answer in accepted}
        assert all(8 >= len(edge.edge.parts.cache) for edge in edges)
        for edge in edges:
            await edge.edge.index.drained()
        pending = {submission for name in names for submission in await pending_of(one, name)}
        ids = [run.id for run in runs]
        assert set(ids) == pending
        fewer = settings.model_copy(update={"boards_in_memory": 2})
        async with apart(fewer, one) as (steward, verifier):
            await steward.dispatch()
            for at in range(0, len(ids), 16):
                await verifier.verify_all(ids[at : at + 16])
            one.clock.shift(5)
            while await steward.project():
                pass
            assert (2, 2) == (len(verifier._index.cache), len(verifier._catalogue.cache))
        assert [[(1, 7), (2, 5)]] * 50 == [await ranks(other, name) for name in names]
        assert {"promoted"} == {await one.state_of(submission) for submission in ids}


async def pending_of(edge: Harness, board: str) -> Sequence[str]:
    return await edge.edge.index.client.zrange(keys.pending(board), 0, -1)


@on_both_if_thorough
async def test_a_board_lives_the_same_on_every_edge(settings: Settings):
    """Not open yet, open, closed, open again and deleted: new runs at once or within two seconds; what is under way lands."""
    async with two_edges(settings) as (one, other), apart(settings, one) as (_, verifier):
        ledger, token = one.edge.ledger, await one.new_player()
        await open_tracks(ledger, "track.soon", opens_at_ms=one.clock() + 60_000)
        await open_tracks(ledger, "track.over", closes_at_ms=one.clock() + 90_000)
        refused = await opened(one, "track.soon", token)
        assert (403, "board-closed") == (refused.status, refused.problem)
        under_way = Run((await opened(one, "track.over", token)).body, token)
        one.clock.shift(100)
        assert 201 == (await opened(other, "track.soon", token)).status
        refused = await opened(other, "track.over", token)
        assert (403, "board-closed") == (refused.status, refused.problem)

        landing = Run((await opened(one, "track.soon", token)).body, token)
        await turn_tracks(ledger, ["track.soon"], BoardState.CLOSED)
        await eventually(one, other, "track.soon", token, (403, "board-closed"))
        one.clock.shift(1)
        for run, board in ((under_way, "track.over"), (landing, "track.soon")):
            answer = await other.submit(run, tiny_claim(run.info["seed"]), board=board)
            assert 202 == answer.status, answer.raw
        await turn_tracks(ledger, ["track.soon"], BoardState.OPEN)
        await eventually(one, other, "track.soon", token, (201, ""))
        await turn_tracks(ledger, ["track.soon"], BoardState.DELETED)
        await eventually(one, other, "track.soon", token, (404, "not-found"))
        assert [404, 404] == [
            (await edge.get("/v1/boards/track.soon/entries")).status for edge in (one, other)
        ]
        assert 2 == await verifier.verify_all([under_way.id, landing.id])
        assert "promoted" == await one.state_of(landing.id)
        assert [(1, 5)] == await ranks(other, "track.over")


async def eventually(one: Harness, other: Harness, board: str, token: str, expected: tuple[int, str]) -> None:
    """Both edges answer a run so, within two seconds of the wall clock and what two requests take."""
    began_s = time.monotonic()
    answers: list[tuple[int, str]] = []
    while answers != [expected] * 2:
        assert time.monotonic() - began_s < 2 + PATIENCE_S, answers
        answers = [
            (answer.status, answer.problem)
            for answer in [await opened(edge, board, token) for edge in (one, other)]
        ]
        await asyncio.sleep(0.05)


async def test_without_its_ledger_an_edge_serves_the_boards_that_it_knows(
    valkey: ValkeyServer, mortal: PostgresServer, tmp_path: Path
):
    """PostgreSQL is killed: what was read is still shown from Redis; what was not is refused as an outage, and not as nothing."""
    async with mortal.database() as name:
        settings = settings_of(tmp_path, valkey, mortal.url(name, APP))
        async with running_harness(settings) as edge:
            await open_tracks(edge.edge.ledger, "track.known", "track.unknown")
            known = await edge.edge.catalogue.board("track.known")
            assert known
            await edge.edge.index.client.set(keys.sentinel("track.known"), "1")
            assert [] == await ranks(edge, "track.known")
            mortal.kill()
            edge.edge.catalogue._clock = lambda: time.monotonic() + TRUSTED_S
            assert [] == await ranks(edge, "track.known")
            answers = [
                await edge.get(f"/v1/boards/{board}/entries") for board in ("track.unknown", "other.none")
            ]
            assert [503, 404] == [answer.status for answer in answers]
            mortal.mend()
