"""An edge, a steward and a worker that replays, in a thread of this process, behind a faulty proxy."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scoregate_client import ScoregateClient, ServerClient

from gateway.ledger.records import OutboxRow
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import QUEUED_JOBS, VerificationQueue
from replay.simulators.sandbox import Sandbox
from tests.clients.faulty import Exchange, FaultyProxy
from tests.support import boards
from tests.support.attack import registered
from tests.support.families import write_family
from tests.support.harness import Harness, free_port, running_harness
from tests.support.ledger import rows
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.valkey import running_valkey

Result = TypeVar("Result")

PATIENCE_S = 30.0
REVEALED = {"top": 2, "beats_best_by": 10, "share": 0.0, "reveal_s": 3600}
BRIEF_S = 30
"""How long a run of the board `brief` may be submitted."""

SERVER = "eu-1"
"""The key id of a trusted server."""

ASSET = bytes(range(256)) * 40
"""The file of the board `track.spa`."""


class Jobs:
    """A queue of jobs that the worker beside it takes at once."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def rooms(self) -> Mapping[VerificationQueue, int]:
        return dict.fromkeys(VerificationQueue, QUEUED_JOBS)

    async def put(self, queue: VerificationQueue, jobs: Sequence[Sequence[OutboxRow]]) -> bool:
        self.ids += [row.submission_id for job in jobs for row in job]
        return True


class Stage:
    """The gateway as clients see it, and hands to turn it with from another thread."""

    def __init__(self, harness: Harness, proxy: FaultyProxy, authority: str, key: Ed25519PrivateKey) -> None:
        self.harness = harness
        self.proxy = proxy
        self.authority = authority
        self.url = f"http://{authority}"
        self.key = key
        """With which the server `SERVER` signs."""
        self.faults: list[BaseException] = []
        """What went wrong in the worker."""
        self._loop = asyncio.get_running_loop()
        self._stirred = asyncio.Event()
        self._rests = asyncio.Event()
        self._jobs = Jobs()
        proxy.answered = self._stir

    def call(self, what: Coroutine[Any, Any, Result]) -> Result:
        """What comes of it in the loop of the edge."""
        future: Future[Result] = asyncio.run_coroutine_threadsafe(what, self._loop)
        return future.result(PATIENCE_S)

    def settled(self, submission: str) -> str:
        """The state of a submission once the worker is done."""
        self.rest()
        return str(self.call(self.harness.state_of(submission)))

    def rest(self) -> None:
        """Return once the worker has nothing left of what the edge has answered so far."""
        self.call(self._rests.wait())
        assert [] == self.faults

    def runs_of(self, player: str) -> list[tuple[str, str]]:
        """Board and state of every submission that the ledger has of a player."""
        ledger = self.harness.edge.settings.data_dir / "ledger.sqlite3"
        return rows(ledger, "SELECT board, state FROM submissions WHERE player = ? ORDER BY 1, 2", player)

    def submit_beside(self, board: str, points: int) -> str:
        """A run of somebody else that has come to count; the player."""

        async def submitted() -> str:
            async with ScoregateClient(self.url) as other:
                player = await other.create_player("Bob")
                run = await other.open_run(board, boards.BUILD)
                played = boards.tiny_play(run.seed, points)
                await other.submit(run, played.score, played.ticks, played.stats, played.recording)
                return player.player

        player = self.call(submitted())
        self.rest()
        return player

    async def work(self, sandbox: Sandbox) -> None:
        """Verify what comes, for ever, whenever the edge has answered something that writes."""
        steward = self.harness.steward(jobs=self._jobs)  # type: ignore[arg-type]
        while True:
            if not self._stirred.is_set():
                self._rests.set()
            await self._stirred.wait()
            self._stirred.clear()
            try:
                while await steward.dispatch() and self._jobs.ids:
                    ids, self._jobs.ids = self._jobs.ids, []
                    await self.harness.verify(*ids, sandbox=sandbox)
            except Exception as error:  # noqa: BLE001 - the test in whose time it was says so
                self.faults.append(error)

    def _stir(self, exchange: Exchange) -> None:
        if not exchange.line.startswith("GET"):
            self._rests.clear()
            self._stirred.set()


def claim(seed: str, points: int = 5) -> dict[str, Any]:
    """The arguments of an honest `submit` of a run with this seed, which scores so many points."""
    played = boards.tiny_play(seed, points)
    return {
        "score": played.score,
        "ticks": played.ticks,
        "stats": [[name, value] for name, value in played.stats.items()],
        "recording": base64.b64encode(played.recording).decode(),
    }


@contextmanager
def running_stage(folder: Path) -> Iterator[Stage]:
    """The stage, until the block ends."""
    started: Future[tuple[Stage, asyncio.Event]] = Future()
    thread = threading.Thread(target=_run, args=(folder, started), name="stage")
    thread.start()
    stage, over = started.result(PATIENCE_S)
    try:
        yield stage
    finally:
        stage._loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)


def _run(folder: Path, started: Future[tuple[Stage, asyncio.Event]]) -> None:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(folder, started))
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)


async def _serve(folder: Path, started: Future[tuple[Stage, asyncio.Event]]) -> None:
    _write_boards(folder / "policies")
    authority, port = f"127.0.0.1:{free_port()}", free_port()
    with running_valkey() as valkey, Sandbox() as sandbox:
        settings = Settings(
            data_dir=folder / "data",
            policies_dir=folder / "policies",
            redis_url=valkey.url,
            bind=authority,
            hosts=(f"127.0.0.1:{port}", authority),
        )
        async with running_harness(settings) as harness:
            key = await _open_tracks(harness)
            proxy = FaultyProxy(settings.bind_address)
            stage = Stage(harness, proxy, f"127.0.0.1:{port}", key)
            server = await asyncio.start_server(proxy.serve, "127.0.0.1", port)
            worker = asyncio.create_task(stage.work(sandbox))
            over = asyncio.Event()
            started.set_result((stage, over))
            await over.wait()
            server.close()
            await proxy.end()
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker


def _write_boards(folder: Path) -> None:
    segments = {"segments": ["country"], "self_declared": ["country"]}
    boards.write_board(folder, **segments)
    boards.write_board(folder, "pages")
    write_policies(folder, a_policy("vault", writes="trusted"), arcade_policy())
    boards.write_board(folder, "brief", run_lifetime_s=BRIEF_S)
    boards.write_board(folder, "careful", verification=REVEALED)
    write_family(folder, metadata_filters={"country": "text"})


async def _open_tracks(harness: Harness) -> Ed25519PrivateKey:
    """Open two boards of the family, one of them with parameters and an asset, and return the server's key."""
    key = await registered(harness, SERVER)
    async with ServerClient(harness.url, SERVER, key) as server:
        asset = await server.store_asset("track", ASSET)
        opened = [
            {"board": "track.monza", "title": "Monza", "metadata": {"country": "it"}},
            {"board": "track.spa", "title": "Spa", "parameters": {"laps": 3}, "asset": asset},
        ]
        outcomes = await server.open_boards("track", "season-1", opened)
        assert ["opened", "opened"] == [outcome.status for outcome in outcomes], outcomes
    return key
