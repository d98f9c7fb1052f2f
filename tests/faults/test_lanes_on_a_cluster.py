"""A family's boards on a real Redis Cluster: a primary that is lost in the middle of promotions, and what an edge connects to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.edge.reads.board_reader import BoardReader
from gateway.index.connection import connect_blocking
from gateway.index.feed.events import Interest
from gateway.index.feed.live_feed import LiveFeed
from gateway.index.inspection import Inspection
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.ledger import Ledger
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.index.check import check
from gateway.steward.index.comparison.difference import BoardView
from gateway.wiring import open_index, open_ledger
from policies.choices import RankKind
from policies.errors import IndexUnavailable
from policies.loader import Board, load_policies
from policies.ranking import Ranking
from policies.vocabulary import Reason, State
from tests.support.clock import ShiftedClock
from tests.support.cluster import MASTERS, REPLICATED, ValkeyCluster
from tests.support.families import open_tracks, write_family
from tests.support.ledger import new_submission, rows
from tests.support.thorough import IS_THOROUGH
from tests.support.valkey import ValkeyServer

BOARDS, RUNS = (60, 6) if IS_THOROUGH else (24, 4)
"""Boards of the family, and runs on each."""

READ, FOLLOWED = (1_000, 300) if IS_THOROUGH else (400, 120)

PATIENCE_S = 90.0


class Tracks:
    """A steward of a family whose index is on the cluster."""

    def __init__(self, steward: Steward, ledger: Ledger, clock: ShiftedClock, path: Path) -> None:
        self.steward, self.ledger, self.clock, self.path = steward, ledger, clock, path
        self.index = steward.index

    async def open(self, count: int) -> list[Board]:
        names = [f"track.b{at}" for at in range(count)]
        for at in range(0, count, 500):
            await open_tracks(self.ledger, *names[at : at + 500])
        return [*(await self.steward.catalogue.boards(names)).values()]

    async def play(self, board: Board, number: int) -> None:
        """A run that is promoted once it is stored, whatever becomes of Redis."""
        run = f"{board.name}-{number}"
        facts = {"player": f"p{number}", "score": 1 + number % 3, "at_ms": self.clock()}
        await self.ledger.append(new_submission(run, board=board.name, recording=None, **facts))
        decision = Decision(run, State.PROMOTED, "replay", Reason.VERIFIED, self.clock(), frozenset(State))
        await settle(self.ledger, self.index, board, [decision])

    async def is_mended(self, boards: Sequence[Board]) -> bool:
        """Do a round of the steward's duties, and return whether all boards are shown."""
        self.clock.shift(10)
        try:
            for duty in (self.steward.project, self.steward.reconcile, self.steward.see_to_cold):
                await duty()
            return all([await self.is_shown(board) for board in boards])
        except IndexUnavailable:
            return False  # until the client has looked for the nodes again

    async def is_shown(self, board: Board) -> bool:
        """Whether the whole board is in the index, and nothing differs from the ledger."""
        index = self.index.of(board)
        view = BoardView(self.ledger, index, Inspection(index.client, board.name), board.policy, self.clock)
        if not await view.inspection.is_whole():
            return False
        checked = await check(view, is_repaired=False, in_flight_s=0)
        return (checked.differences, checked.failure) == ((), None)


@pytest.fixture
async def tracks(tmp_path: Path, cluster: ValkeyCluster, valkey: ValkeyServer) -> AsyncIterator[Tracks]:
    async with stewarding(tmp_path, cluster.url, valkey.url) as made:
        yield made


@asynccontextmanager
async def stewarding(folder: Path, url: str, queue_url: str) -> AsyncIterator[Tracks]:
    write_family(folder / "policies", windows=["alltime", "daily"])
    settings = Settings(
        data_dir=folder / "data",
        policies_dir=folder / "policies",
        redis_url=url,
        queue_url=queue_url,
        redis_timeout_ms=500,
    )
    queue, clock = Redis.from_url(queue_url), ShiftedClock()
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        policies = load_policies(settings.policies_dir)
        catalogue = Catalogue(policies, lambda names: ledger.read(boards_named(names)), limit=2 * READ)
        parts = {"recordings": recordings_of(settings), "clock": clock}
        yield Tracks(
            Steward(settings, catalogue, ledger, index, RqJobs(queue), **parts),
            ledger,
            clock,
            settings.ledger_path,
        )
    queue.close()


async def test_a_primary_that_is_lost_amid_promotions_on_many_boards_loses_and_doubles_nothing(
    tracks: Tracks, cluster: ValkeyCluster
):
    """Each run is promoted once by the ledger, and every board of every lane shows what the ledger says afterwards."""
    boards = await tracks.open(BOARDS)
    master, replica = cluster.master_of(REPLICATED), cluster.replica
    lost = [board for board in boards if cluster.master_of(board.name) is master]
    assert 0 < len(lost) < BOARDS
    is_half_done = asyncio.Event()

    async def play(board: Board) -> None:
        for number in range(RUNS):
            await tracks.play(board, number)
            if board is boards[0] and number == RUNS // 2:
                is_half_done.set()

    async with asyncio.TaskGroup() as group:
        for board in boards:
            group.create_task(play(board))
        await is_half_done.wait()
        master.kill()
        await asyncio.to_thread(cluster.await_takeover, replica)
    await tracks.index.drained()

    async with asyncio.timeout(PATIENCE_S):
        while not await tracks.is_mended(boards):
            pass
    promotions = "SELECT count(*), count(DISTINCT submission_id) FROM events WHERE to_state = 'promoted'"
    assert [(BOARDS * RUNS, BOARDS * RUNS)] == rows(tracks.path, promotions)
    shown = [await tracks.index.of(board).page("alltime", 0, 2 * RUNS) for board in lost]
    assert {RUNS} == {page.total for page in shown}
    assert {RUNS} == {len({entry.player for entry in page.entries}) for page in shown}


async def test_an_edge_connects_to_nodes_and_not_to_boards(tracks: Tracks, cluster: ValkeyCluster):
    """Hundreds of boards, read and followed, take as many connections as a few, and spread over the nodes."""
    boards = await tracks.open(READ)
    blocking = connect_blocking(cluster.url)

    async def ranking_of(_name: str) -> Ranking:
        return boards[0].ranking

    feed = LiveFeed(blocking, ranking_of)
    feed.start()
    counted = []
    async with AsyncExitStack() as stack:
        for read, followed in ((30, range(30)), (READ, range(30, FOLLOWED))):
            for board in boards[:read]:
                index = tracks.index.of(board)
                index.guard()
                await BoardReader(index, tracks.ledger).page("alltime", 0, 10, RankKind.UNIQUE)
            for at in followed:
                await stack.enter_async_context(feed.listen(boards[at].name, Interest()))
            for at in followed[::10]:
                await tracks.play(boards[at], read)
            counted.append([connections(node) for node in masters(cluster)])
    await feed.stop()
    await blocking.aclose()
    spread = Counter(cluster.master_of(board.name).port for board in boards)
    assert MASTERS == len(spread)
    assert all(READ / MASTERS * 0.75 < count < READ / MASTERS * 1.25 for count in spread.values())
    assert all(after <= before + 4 for before, after in zip(*counted, strict=True))
    assert max(counted[1]) < 20


def masters(cluster: ValkeyCluster) -> list[Redis]:
    return [node.redis for node in cluster.nodes if node.role() == "master"]


def connections(node: Redis) -> int:
    """How many clients a node has, but for replicas and the one that asks."""
    return sum(client["flags"] == "N" for client in node.client_list()) - 1
