"""The parts of a deployment as real processes, which a test starts, kills and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from redis import Redis

from tests.support import boards, preloaded
from tests.support.clock import ShiftedClock
from tests.support.harness import Answer, Harness, Run, free_port
from tests.support.ledger import rows
from tests.support.oracle import due_on_board, pending_in_ledger, shown_on_board
from tests.support.preloaded import Process
from tests.support.valkey import ValkeyServer

PATIENCE_S = 60.0

WALL = {"wall_ms": 1_500}
"""A budget shorter than a deployment's lease, but enough for an honest run on a busy machine."""


class Deployment:
    """Processes over one data directory, one Valkey and one folder of policies."""

    def __init__(self, folder: Path, valkey: ValkeyServer, **settings: Any) -> None:
        self.folder = folder
        self.valkey = valkey
        self.policies = folder / "policies"
        self.ledger = folder / "data" / "ledger.sqlite3"
        self.authority = f"127.0.0.1:{free_port()}"
        self.log = folder / "log.txt"
        self.settings = {
            "data_dir": str(folder / "data"),
            "policies_dir": str(self.policies),
            "redis_url": valkey.url,
            "bind": self.authority,
            "reconcile_s": "0.5",
            "redispatch_s": "0.5",
            "lease_s": "2",
            "steward_lease_s": "4",
            "shutdown_pause_s": "0",
            "log_level": "warning",
        } | settings
        self._running: list[Process] = []

    def start(self, part: str, failpoint: str | None = None, *, before: str = "", **settings: Any) -> Process:
        """Start a process of this part; at a failpoint it dies, unless the point names another action.

        `before` is Python that it runs before anything else.
        """
        chosen = self.settings | settings
        environment = {f"SCOREGATE_{name.upper()}": str(value) for name, value in chosen.items()}
        if failpoint:
            environment["SCOREGATE_FAILPOINT"] = failpoint if ":" in failpoint else f"{failpoint}:kill"
        with self.log.open("ab") as log:
            process = preloaded.start(part.split(), os.environ | environment, log, before=before)
        self._running.append(process)
        return process

    def stop_all(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()

    async def is_answering(self) -> None:
        """Returns once the edge takes connections."""
        host, port = self.authority.split(":")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                assert time.monotonic() < deadline, f"the edge does not answer: {_said(self.log)}"
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return

    def states(self) -> dict[str, str]:
        """The state of every submission, as the ledger file has it."""
        return dict(rows(self.ledger, "SELECT submission_id, state FROM submissions"))

    def verdict_events(self) -> dict[str, int]:
        """How many events every submission has after its first."""
        found = rows(
            self.ledger,
            "SELECT submission_id, count(*) FROM events WHERE from_state != 'received' GROUP BY 1",
        )
        return dict(found)

    def reason_of(self, submission_id: str) -> str:
        [[reason]] = rows(
            self.ledger, "SELECT reason FROM submissions WHERE submission_id = ?", submission_id
        )
        return str(reason)

    async def is_shown(self, redis: Redis) -> None:
        """Returns once the tiny board is what the ledger says."""
        policy = boards.board(self.policies).policy
        await eventually(lambda: due_on_board(self.ledger, policy) == shown_on_board(redis, policy), self.log)
        await eventually(
            lambda: not redis.zcard("lb:{201}:tiny:pending") and not pending_in_ledger(self.ledger, "tiny"),
            self.log,
        )

    async def settled(self, *submission_ids: str) -> dict[str, str]:
        """The states of these submissions, once none is pending any more."""
        await eventually(
            lambda: not {self.states().get(each) for each in submission_ids} & {"pending", None}, self.log
        )
        return {each: self.states()[each] for each in submission_ids}


@contextmanager
def deployed(folder: Path, valkey: ValkeyServer, **settings: Any) -> Iterator[Deployment]:
    """A deployment of the tiny board with no part running yet; whatever was started is gone at the end."""
    deployment = Deployment(folder, valkey, **settings)
    boards.write_board(deployment.policies)
    try:
        yield deployment
    finally:
        deployment.stop_all()


class Client:
    """An honest client of a deployment, which may meet an edge that dies."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    async def open_run(self, token: str | None = None, board: str = "tiny") -> Run:
        """A run of the tiny game, of a new player unless a token is given."""
        token = token or await self.harness.new_player()
        answer = await self.harness.post(f"/v1/boards/{board}/runs", {"build": boards.BUILD}, token)
        assert answer.status == 201, answer.raw
        return Run(answer.body, token)

    async def submit(self, run: Run, claim: Any, board: str = "tiny", **signing: Any) -> Answer:
        return await self.harness.submit(run, claim, board=board, **signing)

    async def submitted(self, points: int = 5, board: str = "tiny", **how: Any) -> Run:
        """A run, played and submitted honestly."""
        run = await self.open_run(how.pop("token", None), board)
        answer = await self.submit(run, boards.tiny_claim(run.info["seed"], points, **how), board)
        assert (202, "pending") == (answer.status, answer.body["state"])
        return run


@asynccontextmanager
async def client_of(deployment: Deployment, authority: str = "") -> AsyncIterator[Client]:
    """A client of a deployment's edge, or of another that listens at `authority`."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield Client(Harness(None, ShiftedClock(), session, authority or deployment.authority))  # type: ignore[arg-type]


async def eventually(
    is_so: Callable[[], bool], log: Path | None = None, patience_s: float = PATIENCE_S
) -> None:
    """Returns once something that another process does is done."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"it never came about; the processes said: {_said(log)}"
        await asyncio.sleep(0.02)


def _said(log: Path | None) -> str:
    return log.read_text()[-2000:] if log else ""


async def ended(process: Process) -> int:
    """The exit status of a process, once it has ended."""
    return await asyncio.to_thread(process.wait, PATIENCE_S)


KILLED = -signal.SIGKILL
