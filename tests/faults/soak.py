"""Clients that keep accounts, and processes that die under them: `python -m tests.faults.soak --minutes 30`.

The last line says what was sent, acknowledged, killed and found; the exit status is 1 if a promise was broken. Two
edges, two stewards, two workers and Valkey are killed with SIGKILL in random order and started again; now and then Valkey
comes back empty. With `--postgres` the ledger is a PostgreSQL of its own, which is shut down at once (SIGQUIT) like the others.
The seed decides who dies when; how far the processes have come by then is the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path

import aiohttp
from redis import Redis
from redis.exceptions import RedisError

from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import load_settings
from gateway.wiring import open_ledger
from tests.support import boards
from tests.support.accounts import Accounts, Audit, Book, audit, read_books
from tests.support.boards import tiny_claim
from tests.support.counting import counts
from tests.support.deployment import Client, Deployment, client_of, deployed
from tests.support.harness import Run, free_port
from tests.support.oracle import History, breaches, differences, history_of
from tests.support.postgres import APP, PostgresServer, running_postgres
from tests.support.preloaded import Process
from tests.support.seeds import fault_seed
from tests.support.valkey import running_valkey
from tests.support.world import empty

OURS = ("serve 1", "serve 2", "steward 1", "steward 2", "worker 1", "worker 2")
VICTIMS = (*OURS, "valkey", "valkey's files")
TRIES = 5
PACE_S = 0.1
"""About how long a client waits between two runs: less than a worker can judge, or the end is a queue to be worked off."""
HEAL_S = 60
ACKNOWLEDGED_PER_KILL = 2
"""Nobody else is killed before so many more submissions got through, however slow the machine is."""
SUPERVISED_S = 0.2


class Chaos:
    """A deployment, the clients that play on it, and the one who kills."""

    def __init__(
        self,
        house: Deployment,
        folder: Path,
        chance: random.Random,
        *,
        clients: int,
        postgres: PostgresServer | None = None,
    ) -> None:
        self.house = house
        self.postgres = postgres
        self.victims = VICTIMS if postgres is None else (*VICTIMS, "postgres", "postgres")
        self.chance = chance
        self.other_edge = f"127.0.0.1:{free_port()}"
        self.killed = 0
        self.acknowledged = 0
        self.books = [folder / f"client-{number}.txt" for number in range(clients)]
        self._parts: dict[str, Process] = {}
        self._is_over = asyncio.Event()

    async def run(self, is_enough: Callable[[int], bool], pause_s: tuple[float, float]) -> Audit:
        """Kills until it is enough, which is told how often it was; heals; and balances the accounts."""
        self._parts = {part: self._start(part) for part in OURS}
        supervisor = asyncio.create_task(self._supervise())
        try:
            return await self._played(is_enough, pause_s)
        finally:
            supervisor.cancel()

    async def _supervise(self) -> None:
        """Starts again what ended by itself, as any supervisor does: a part that finds no database when it starts."""
        while True:
            for part, process in self._parts.items():
                if process.poll() is not None:
                    self._parts[part] = self._start(part)
            await asyncio.sleep(SUPERVISED_S)

    def _start(self, part: str) -> Process:
        """A part by its name and number; the second edge listens elsewhere."""
        own = {"bind": self.other_edge} if part == "serve 2" else {}
        return self.house.start(part.split(maxsplit=1)[0], **own)

    async def _played(self, is_enough: Callable[[int], bool], pause_s: tuple[float, float]) -> Audit:
        await self.house.is_answering()
        async with client_of(self.house) as one, client_of(self.house, self.other_edge) as other:
            tokens = [await one.harness.new_player() for _ in self.books]
            pairs = zip(self.books, tokens, strict=True)
            playing = [asyncio.create_task(self._play((one, other), *pair)) for pair in pairs]
            while not is_enough(self.killed):
                await asyncio.sleep(self.chance.uniform(*pause_s))
                await self._until_acknowledged(ACKNOWLEDGED_PER_KILL * (self.killed + 1))
                await self._kill(self.chance.choice(self.victims))
            self._is_over.set()
            await asyncio.gather(*playing)
        return await self._balance()

    async def _until_acknowledged(self, count: int) -> None:
        """Returns once so many submissions got through; or after so long that the balance has to say why not."""
        deadline = time.monotonic() + HEAL_S
        while self.acknowledged < count and time.monotonic() < deadline:  # noqa: ASYNC110 - clients of any number count it
            await asyncio.sleep(0.02)

    async def _kill(self, victim: str) -> None:
        self.killed += 1
        if victim in OURS:
            self._parts[victim].kill()
            self._parts[victim].wait()
            self._parts[victim] = self._start(victim)
        elif victim == "postgres" and self.postgres:
            await asyncio.to_thread(self.postgres.kill)
            await asyncio.to_thread(self.postgres.start)
        elif victim == "valkey":
            self.house.valkey.kill()
            await asyncio.sleep(self.chance.uniform(0, 0.3))
            await asyncio.to_thread(self.house.valkey.start)
        else:
            await asyncio.to_thread(empty, self.house.valkey)

    async def _play(self, clients: Sequence[Client], path: Path, token: str) -> None:
        """Play run after run; each is opened at either edge, and sent to either."""
        book = Book(path)
        while not self._is_over.is_set():
            try:
                run = await random.choice(clients).open_run(token)
            except (aiohttp.ClientError, AssertionError, TimeoutError):
                await asyncio.sleep(0.05)
                continue
            is_acknowledged = await _submit(random.choice(clients), book, run)
            self.acknowledged += is_acknowledged  # apart: another client may count while this one waits
            await asyncio.sleep(self.chance.uniform(0, 2 * PACE_S))
        book.close()

    async def _balance(self) -> Audit:
        settings = load_settings(**self.house.settings)
        policies = [boards.board(self.house.policies).policy]
        async with open_ledger(settings) as ledger:
            await _until_quiet(ledger)
            history = await history_of(ledger)
        is_equal = await self._is_index_equal(history)
        accounts: Accounts = read_books(self.books)
        wrong = breaches(history, policies)
        return audit(accounts, history, wrong, killed=self.killed, is_index_equal=is_equal)

    async def _is_index_equal(self, history: History) -> bool:
        policies = [boards.board(self.house.policies).policy]
        deadline = time.monotonic() + HEAL_S
        with Redis.from_url(self.house.valkey.url) as redis:
            while time.monotonic() < deadline:
                with suppress(RedisError):
                    if not differences(redis, history, policies, wall_clock()):
                        return True
                await asyncio.sleep(0.1)
        return False


async def _submit(client: Client, book: Book, run: Run) -> bool:
    """Whether it was acknowledged: sends the same bytes until there is an answer or patience ends."""
    seed = int(run.info["seed"])
    request = client.harness.signed(run, tiny_claim(seed, points=2 + seed % 20), board="tiny")
    book.note("intent", run.id)
    for _ in range(TRIES):
        try:
            answer = await client.harness.send(request)
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        if answer.status != 503:
            book.note("ok" if answer.status == 202 else "refused", run.id)
            return answer.status == 202
    book.note("unknown", run.id)
    return False


async def _until_quiet(ledger: Ledger) -> None:
    """Returns once nothing is pending any more; or nothing was judged for too long, and what is pending is stuck."""
    waiting, since = -1, time.monotonic()
    while waiting and time.monotonic() < since + HEAL_S:
        pending = (await ledger.read(counts("tiny"))).get("pending", 0)
        if pending != waiting:
            waiting, since = pending, time.monotonic()
        await asyncio.sleep(0.1)


async def soak(
    seconds: float,
    seed: int,
    clients: int,
    *,
    lease_s: float = 6,
    url: str | None = None,
    postgres: PostgresServer | None = None,
) -> Audit:
    """The balance after killing for so long, on a new SQLite file unless another ledger is given."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-soak-")))
        valkey = stack.enter_context(running_valkey())
        if postgres:
            url = postgres.url(await stack.enter_async_context(postgres.database()), APP)
        settings = {"verify_batch": 2, "steward_lease_s": lease_s} | ({"ledger_url": url} if url else {})
        house = stack.enter_context(deployed(folder, valkey, **settings))
        chaos = Chaos(house, folder, random.Random(seed), clients=clients, postgres=postgres)
        until = time.monotonic() + seconds
        return await chaos.run(lambda _: time.monotonic() > until, (0.3, 2.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--lease", type=float, default=6, help="SCOREGATE_STEWARD_LEASE_S of the stewards")
    ledger = parser.add_mutually_exclusive_group()
    ledger.add_argument("--ledger-url", help="another ledger than a new SQLite file; migrated, and empty")
    ledger.add_argument(
        "--postgres", action="store_true", help="a PostgreSQL of its own, killed like the rest"
    )
    given = parser.parse_args()
    seed = fault_seed() if given.seed is None else given.seed
    own = running_postgres() if given.postgres else nullcontext()
    with own as postgres:
        ledgers = {"url": given.ledger_url, "postgres": postgres}
        balance = asyncio.run(
            soak(given.minutes * 60, seed, given.clients, lease_s=given.lease, **ledgers)  # type: ignore[arg-type]
        )
    for what in ("lost", "doubled", "stuck", "strange"):
        for each in getattr(balance, what):
            sys.stdout.write(f"{what}: {each}\n")
    sys.stdout.write(f"{given.minutes:g} min, seed {seed}: {balance}\n")
    return 0 if balance.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
