"""Measures what a deployment costs that has many boards, and what the first use of one of them costs.

    python -m bench.boards [--boards 1,1000,100000] [--only sqlite|postgres] [--used 1000]

For each number, a family's boards are opened in batches in an empty ledger. An edge, a steward and a worker
then start beside a Valkey that knows nothing. Measured are: the rate of opening, the time until the edge
listens, the memory (PSS) of each part, its processor time while nobody comes, the first read of boards that
were never played and the second one, the first run on such boards from its ticket to its 202, a page of the
family's boards from the middle of each order in the ledger, and the same memory and idle time again after
`--used` boards got ten entries each from a trusted server. The last line is `ratio R`: the median of a first
read with the most boards over that with the fewest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scoregate_client import ServerClient

from bench.running_parts import RunningParts, running_parts
from gateway.ledger.boards.board_opening import BATCH_LIMIT, open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.listing import BoardOrder, boards_of_family
from gateway.ledger.ledger import Ledger
from gateway.ledger.queries import add_server_key
from gateway.ledger.records import ServerKey
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import open_ledger
from policies.loader import load_policies
from policies.opened_board import OpenedBoard
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.deployment import Client
from tests.support.harness import Harness
from tests.support.ports import free_port
from tests.support.postgres import APP, PostgresServer, running_postgres
from tests.support.valkey import ValkeyServer, running_valkey

FAMILY: Final = "track"
SAMPLES: Final = 30
ENTRIES: Final = 10
WRITERS: Final = 16
SETTLE_S: Final = 8.0
"""Time for a steward to claim its lanes, before it counts as idle."""


@dataclass(frozen=True)
class Span:
    """Median and longest of some times (ms)."""

    median_ms: float
    longest_ms: float

    def __str__(self) -> str:
        return f"{self.median_ms:.1f} ms, {self.longest_ms:.1f} ms"


@dataclass(frozen=True)
class Place:
    """A deployment that is measured: its settings, how they look in the environment, and its servers."""

    settings: Settings
    environment: Mapping[str, str]
    valkey: ValkeyServer
    folder: Path

    @property
    def authority(self) -> str:
        """Return the host and port of the edge."""
        return self.settings.bind


def main() -> None:
    """Run the measurement."""
    arguments = _arguments()
    counts = [int(each) for each in arguments.boards.split(",")]
    for store in ("sqlite", "postgres"):
        if arguments.only in (None, store):
            print(f"\n## {store}", flush=True)
            with running_postgres(is_durable=True) if store == "postgres" else nullcontext() as server:
                reads = [_measure(count, server, arguments) for count in counts]
            print(f"\nratio {reads[-1].median_ms / reads[0].median_ms:.3f}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--boards", default="1,1000,100000", help="numbers of boards")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--used", type=int, default=1000, help="boards that get ten entries each")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="span in which the idle parts are watched"
    )
    return parser.parse_args()


def _measure(count: int, server: PostgresServer | None, arguments: argparse.Namespace) -> Span:
    """Measure a deployment of so many boards, print a row for each thing, and return the first reads."""
    with (
        tempfile.TemporaryDirectory(prefix="sgb-") as folder,
        running_valkey() as valkey,
        _database(server) as name,
    ):
        place = _place(Path(folder), valkey, server.url(name, APP) if server else None)
        rate = asyncio.run(_opened(place, count))
        print(f"\n| {count:,} boards | |\n|---|---|\n| opened per second | {rate:,.0f} |", flush=True)
        port, log = place.settings.bind_address[1], place.folder / "log.txt"
        with running_parts(place.environment, port, {"valkey": valkey.pid}, log) as parts:
            return _measure_running(place, parts, count, arguments)


def _measure_running(place: Place, parts: RunningParts, count: int, arguments: argparse.Namespace) -> Span:
    _row("the edge listens after", f"{parts.start_s:.2f} s")
    time.sleep(SETTLE_S)
    _rows_of_rest(parts, arguments.seconds)
    reads = asyncio.run(_first_uses(place, count))
    used = min(arguments.used, count)
    took_s = asyncio.run(_in_use(place, used))
    _row(f"{used:,} boards get ten entries each, per second", f"{used / took_s:,.0f} boards")
    time.sleep(SETTLE_S)
    _rows_of_rest(parts, arguments.seconds)
    return reads


def _rows_of_rest(parts: RunningParts, seconds: float) -> None:
    _row("memory (PSS)", ", ".join(f"{name} {mib:.0f} MiB" for name, mib in parts.memory_mib().items()))
    shares = parts.idle_cpu(seconds)
    _row("idle, share of a core", ", ".join(f"{name} {share:.1%}" for name, share in shares.items()))


def _row(what: str, value: object) -> None:
    print(f"| {what} | {value} |", flush=True)


@contextmanager
def _database(server: PostgresServer | None) -> Iterator[str]:
    """Yield the name of an empty database, which is dropped afterwards."""
    if server is None:
        yield ""
        return
    with asyncio.Runner() as runner:
        database = server.database()
        name = runner.run(database.__aenter__())
        try:
            yield name
        finally:
            runner.run(database.__aexit__(None, None, None))


def _place(folder: Path, valkey: ValkeyServer, ledger_url: str | None) -> Place:
    """Write the policy of the family, and return the deployment of it."""
    file = boards.write_board(folder / "policies", FAMILY, limits=_WIDE, cold_after_h=24)
    policy: dict[str, Any] = json.loads(file.read_text())
    policy["family"] = policy.pop("board")
    file.write_text(json.dumps(policy))
    chosen = {
        "data_dir": str(folder / "data"),
        "policies_dir": str(folder / "policies"),
        "redis_url": valkey.url,
        "bind": f"127.0.0.1:{free_port()}",
        "shutdown_pause_s": "0",
        "read_budget_ms": "1000000",
        "log_level": "warning",
    } | ({"ledger_url": ledger_url} if ledger_url else {})
    environment = {f"SCOREGATE_{name.upper()}": value for name, value in chosen.items()}
    return Place(Settings(**chosen), environment, valkey, folder)  # type: ignore[arg-type]


_WIDE: Final = {
    "player": {"per_minute": 1_000_000, "burst": 100_000},
    "address": {"per_minute": 1_000_000, "burst": 100_000},
    "open_runs": 1000,
}


def _name(number: int) -> str:
    return f"{FAMILY}.b{number:07d}"


async def _opened(place: Place, count: int) -> float:
    """Open the boards in batches, and return how many per second."""
    family = load_policies(place.settings.policies_dir).families[FAMILY]
    terms = FamilyTerms(FAMILY, family.digest)
    async with open_ledger(place.settings) as ledger:
        began = time.perf_counter()
        for first in range(0, count, BATCH_LIMIT):
            numbers = range(first, min(count, first + BATCH_LIMIT))
            batch = [_board(number) for number in numbers]
            results = await ledger.write(open_boards(terms, batch, actor="server:bench", at_ms=wall_clock()))
            assert {BoardOutcome.OPENED} == {result.outcome for result in results}
        return count / (time.perf_counter() - began)


def _board(number: int) -> OpenedBoard:
    return OpenedBoard(_name(number), FAMILY, f"Track {number}", {"author": f"author-{number % 977}"})


async def _first_uses(place: Place, count: int) -> Span:
    """Print what the first use of boards takes, of different ones for each kind of use."""
    step = max(1, count // (2 * SAMPLES))
    names = [_name(number % count) for number in range(0, 2 * SAMPLES * step, step)]
    async with aiohttp.ClientSession() as session:
        client = Client(Harness(None, ShiftedClock(), session, place.authority))  # type: ignore[arg-type]
        await client.harness.get("/livez")
        read = [lambda name=name: _read(client, name) for name in names[:SAMPLES]]
        first, second = await _timed(read), await _timed(read)
        _row("first read, median and longest", first)
        _row("second read", second)
        token = await client.harness.new_player()
        play = [lambda name=name: client.submitted(board=name, token=token) for name in names[SAMPLES:]]
        _row("first run, from its ticket to 202", await _timed(play))
    async with open_ledger(place.settings) as ledger:
        for order in BoardOrder:
            _row(f"a page of the family's boards by {order.value}", await _pages(ledger, order, count))
    return first


async def _read(client: Client, name: str) -> None:
    answer = await client.harness.get(f"/v1/boards/{name}/entries?limit=25")
    assert answer.status == 200, answer.raw


async def _pages(ledger: Ledger, order: BoardOrder, count: int) -> Span:
    """Return the times of pages one after the other; the first is read before, and not counted."""
    page = await ledger.read(boards_of_family(FAMILY, order=order, count=100))
    assert len(page.boards) == min(count, 100)
    took_ms = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        page = await ledger.read(boards_of_family(FAMILY, order=order, after=page.next, count=100))
        took_ms.append((time.perf_counter() - began) * 1000)
    return Span(statistics.median(took_ms), max(took_ms))


async def _timed(uses: Sequence[Callable[[], Awaitable[Any]]]) -> Span:
    """Return how long each of these takes, one after the other."""
    took_ms = []
    for use in uses:
        began = time.perf_counter()
        await use()
        took_ms.append((time.perf_counter() - began) * 1000)
    return Span(statistics.median(took_ms), max(took_ms))


async def _in_use(place: Place, used: int) -> float:
    """Write ten entries to each of so many boards as a trusted server, and return how long that took (s)."""
    numbers = iter(range(used))
    async with _server_client(place) as server:

        async def write() -> None:
            for number in numbers:
                await server.write_batch(_name(number), [_entry(number, place) for place in range(ENTRIES)])

        began = time.perf_counter()
        await asyncio.gather(*(write() for _ in range(WRITERS)))
        return time.perf_counter() - began


def _entry(number: int, place: int) -> dict[str, Any]:
    return {
        "action": "write",
        "operation": f"{number}-{place}",
        "player": f"player-{place}",
        "score": number % 1000 + place,
    }


@asynccontextmanager
async def _server_client(place: Place) -> AsyncIterator[ServerClient]:
    """Register a server's key, and yield its client once the edge knows it."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    async with open_ledger(place.settings) as ledger:
        await ledger.write(add_server_key(ServerKey("bench", public, ("*",), wall_clock())))
    await asyncio.sleep(3)  # edges read keys anew within two seconds
    async with ServerClient(f"http://{place.authority}", "bench", key) as server:
        yield server


if __name__ == "__main__":
    main()
