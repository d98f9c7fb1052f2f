"""A how-to page followed literally: its commands, run with all folders below a temporary one."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from tests.support import boards, preloaded
from tests.support.boards import tiny_claim
from tests.support.clock import ShiftedClock
from tests.support.deployment import Client
from tests.support.harness import Harness, Request, free_port
from tests.support.postgres import PostgresServer, programs

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
PATIENCE_S = 60.0
DATABASE = "db.example:5432"
"""Where the pages have their PostgreSQL."""


def examples(page: str, *headings: str, language: str = "sh") -> list[str]:
    """Return the examples, verbatim, below a heading of a how-to page; its parent headings come first."""
    text = (HOW_TO / page).read_text()
    for heading in headings:
        mark, _, name = heading.partition(" ")
        _, found, text = text.partition(f"\n{heading}\n")
        assert found, f"{page} has no {name}"
        text = re.split(rf"^#{{2,{len(mark)}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


class Machine:
    """Where the commands of a page are run: its folders are below a temporary one, and its ports are ours."""

    def __init__(self, folder: Path, postgres: PostgresServer | None = None) -> None:
        self.folder = folder
        self.postgres = postgres
        """What answers where the pages have their PostgreSQL."""
        self.authority = f"127.0.0.1:{free_port()}"
        self.log = folder / "log.txt"
        self.before = folder / "var" / "lib" / "scoregate"
        self.after = folder / "srv" / "scoregate"
        boards.write_board(folder / "policies")
        self._running: list[subprocess.Popen[bytes]] = []
        self._leaving = ExitStack()
        self._at_hand, self._control = self._leaving.enter_context(preloaded.at_hand(self.environment))

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{programs()}:{os.environ['PATH']}",
            "SCOREGATE_POLICIES_DIR": str(self.folder / "policies"),
            "SCOREGATE_BIND": self.authority,
            "SCOREGATE_RECORDING_INLINE_BYTES": "200",
            "SCOREGATE_RECONCILE_S": "0.2",
            "SCOREGATE_LEASE_S": "1",
            "SCOREGATE_STEWARD_LEASE_S": "2",
            "SCOREGATE_REDISPATCH_S": "0.3",
            "SCOREGATE_LOG_LEVEL": "warning",
        }

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """The script's shell and all that it starts, as one group of processes."""
        placed = self.placed(script)
        with self.log.open("ab") as log:
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", placed],
                env=self.environment | self._at_hand,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                pass_fds=[self._control],
                start_new_session=True,
            )
        self._running.append(shell)
        return shell

    def placed(self, text: str) -> str:
        """The text with the places of this machine in place of the page's."""
        placed = re.sub(r"(?<=[ =])/(backup|var|srv)\b", rf"{self.folder}/\1", text)
        return placed.replace(DATABASE, f"127.0.0.1:{self.postgres.port}") if self.postgres else placed

    async def run(self, script: str) -> None:
        """Returns once the script has ended well."""
        status = await asyncio.to_thread(self.start(script).wait, PATIENCE_S)
        assert 0 == status, self.log.read_text()[-3000:]

    def kill(self) -> None:
        """Ends every process of every script without warning."""
        for shell in self._running:
            parts = children(shell.pid)  # each in a session of its own
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            for part in parts:
                with suppress(ProcessLookupError):
                    os.kill(part, signal.SIGKILL)
            shell.wait()
        self._running.clear()

    def close(self) -> None:
        """Ends every process, and takes the command away."""
        self.kill()
        self._leaving.close()

    async def is_answering(self) -> bool:
        host, port = self.authority.split(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True

    async def is_silent(self) -> bool:
        return not await self.is_answering()


@contextmanager
def machine_in(folder: Path, postgres: PostgresServer | None = None) -> Iterator[Machine]:
    machine = Machine(folder, postgres)
    try:
        yield machine
    finally:
        machine.close()


class Player:
    """A client of the tiny board that keeps what it sent."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent: dict[str, tuple[Request, Any]] = {}

    async def submit(self, points: int, ticks: int, token: str | None = None) -> str:
        run = await self.client.open_run(token)
        claim = tiny_claim(run.info["seed"], points, ticks)
        request = self.client.harness.signed(run, claim, board="tiny", lifetime_s=290)
        answer = await self.client.harness.send(request)
        assert 202 == answer.status, answer.raw
        self.sent[run.id] = (request, answer.body)
        return run.id

    async def board(self) -> Any:
        answer = await self.client.harness.get("/v1/boards/tiny/entries?limit=100")
        assert 200 == answer.status, answer.raw
        return [(each["player"], each["score"], each["submission"]) for each in answer.body["entries"]]


@asynccontextmanager
async def player_on(machine: Machine) -> AsyncIterator[Player]:
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        harness = Harness(None, ShiftedClock(), session, machine.authority)  # type: ignore[arg-type]
        yield Player(Client(harness))


async def submit_until(is_over: asyncio.Event, player: Player) -> list[str]:
    """Submissions, large and small, for as long as the backup is written."""
    done: list[str] = []
    token = await player.client.harness.new_player()
    while not is_over.is_set() or not done:
        done.append(await player.submit(2, 25 + 3000 * (len(done) % 2), token))
    return done


async def board_of(player: Player, entries: int, machine: Machine) -> Any:
    """The board, once it has as many entries."""

    async def is_whole() -> bool:
        return len(await player.board()) == entries

    await wait_until(is_whole, machine)
    return await player.board()


async def wait_until(is_so: Callable[[], Awaitable[bool]], machine: Machine) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await is_so():
        said = machine.log.read_text()[-2000:] if machine.log.exists() else ""
        assert time.monotonic() < deadline, f"it never came about: {said}"
        await asyncio.sleep(0.05)


async def assert_gets_the_stored_answers(player: Player, submission_ids: list[str]) -> None:
    """Whoever sends again what was acknowledged before is told the same."""
    for submission_id in submission_ids:
        request, told = player.sent[submission_id]
        again = await player.client.harness.send(request)
        assert (202, "true") == (again.status, again.headers.get("Idempotency-Replayed"))
        assert told["submission"] == again.body["submission"]
