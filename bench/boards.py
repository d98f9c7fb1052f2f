"""Measures what a deployment costs that has many boards, and what the first use of one of them costs.

    python -m bench.boards [--boards 1,1000,100000] [--only sqlite|postgres] [--used 10000]

For each number, a family's boards are opened in batches in an empty ledger. An edge, a steward and a worker
then start beside a Valkey that knows nothing. Measured are: the rate of opening, the time until the edge
listens, the memory (PSS) of each part, its processor time while nobody comes, the first read of boards that
were never played and the second one, the first run on such boards from its ticket to its 202, and a page of
the family's boards from the middle of each order in the ledger. Then a trusted server's ten entries are
written to each of `--used` boards, Redis knows nothing of them, and each is read until it is built there;
memory and idle time follow again, with a page of the boards on which one of the players stands.

PostgreSQL takes ten times as long as SQLite to write entries one after the other. So there only a sample of
the boards gets them that way, which states the rate. More boards are used on a second deployment of its own:
the same boards and entries are written to an SQLite file, `scoregate ledger copy` takes them to a new
database, the parts start on that and seal it, and the boards are read and measured as above.

The parts count as idle once every event is sealed and shown, and every board that was used is built. The last
line is `ratio R`: the median of a first read with the most boards over that with the fewest.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp
from pydantic import TypeAdapter
from redis.asyncio import Redis
from scoregate_client import ScoregateClient

from bench.family_deployment import FamilyDeployment, database, family_deployment
from bench.running_parts import RunningParts, running_parts
from gateway.edge.servers.server_requests import operation_of
from gateway.edge.wire.bodies import BatchedEntry
from gateway.index import keys
from gateway.ledger.boards.board_opening import BATCH_LIMIT, open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.listing import BoardOrder, boards_of_family
from gateway.ledger.copying import copy_ledger
from gateway.ledger.derived import log
from gateway.ledger.ledger import Ledger
from gateway.ledger.queries import add_server_key
from gateway.ledger.records import ServerKey
from gateway.ledger.seals.chain import newest_seal
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.submissions.operations import ServerRequest
from gateway.ledger.submissions.work import strike_projected
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import wall_clock
from gateway.runtime.lanes import LANES
from gateway.settlement.server_operations import ServerOperation, perform_all
from gateway.wiring import open_ledger
from policies.loader import Board, load_policies
from policies.opened_board import OpenedBoard
from tests.support.clock import ShiftedClock
from tests.support.deployment import Client
from tests.support.harness import Harness
from tests.support.postgres import APP, OWNER, PostgresServer, running_postgres
from tests.support.valkey import running_valkey

FAMILY: Final = "track"
PLAYER: Final = "player-"
SAMPLES: Final = 30
ENTRIES: Final = 10
WRITERS: Final = 2
BOARDS_AT_ONCE: Final = 20
"""Boards in one transaction: some 200 entries, which other writes wait for."""

SAMPLE: Final = 200
"""Boards that get their entries on PostgreSQL; more are written to SQLite, and copied."""

WANTED: Final = 4_096
"""Boards that are read before it is looked which of them are in the index: 16 for each lane."""

SETTLE_S: Final = 8.0
"""Time for a steward to claim its lanes, before it counts as idle."""

REST_S: Final = 7200.0
"""Longest time for a steward to seal and show what was written."""

_OPERATION: Final[TypeAdapter[BatchedEntry]] = TypeAdapter(BatchedEntry)


@dataclass(frozen=True)
class Span:
    """Median and longest of some times (ms)."""

    median_ms: float
    longest_ms: float

    def __str__(self) -> str:
        return f"{self.median_ms:.1f} ms, {self.longest_ms:.1f} ms"


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
    parser.add_argument("--used", type=int, default=10_000, help="boards that get ten entries each")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="span in which the idle parts are watched"
    )
    return parser.parse_args()


def _measure(count: int, server: PostgresServer | None, arguments: argparse.Namespace) -> Span:
    """Measure a deployment of so many boards, print a row for each thing, and return the first reads."""
    used = min(arguments.used, count)
    sample = used if server is None else min(used, SAMPLE)
    with _deployment(server) as deployment:
        rate = asyncio.run(_opened(deployment, count))
        print(f"\n| {count:,} boards | |\n|---|---|\n| opened per second | {rate:,.0f} |", flush=True)
        with _running(deployment) as parts:
            _rows_of_rest(deployment, parts, arguments.seconds)
            reads = asyncio.run(_first_uses(deployment, count))
            took_s = asyncio.run(_in_use(deployment, sample))
            _row(f"{sample:,} boards get ten entries each, per second", f"{sample / took_s:,.0f} boards")
            _rows_of_use(deployment, parts, sample, arguments.seconds)
    if server is not None and used > sample:
        with _deployment(server) as deployment:
            asyncio.run(_copied(deployment, count, used))
            with _running(deployment) as parts:
                _rows_of_rest(deployment, parts, arguments.seconds)
                _rows_of_use(deployment, parts, used, arguments.seconds)
    return reads


@contextmanager
def _deployment(server: PostgresServer | None) -> Iterator[FamilyDeployment]:
    """Yield a deployment that has nothing yet."""
    with (
        tempfile.TemporaryDirectory(prefix="sgb-") as folder,
        running_valkey() as valkey,
        database(server) as name,
    ):
        yield family_deployment(FAMILY, Path(folder), valkey, server.url(name, APP) if server else None)


@contextmanager
def _running(deployment: FamilyDeployment) -> Iterator[RunningParts]:
    """Run the parts, once the edge listens."""
    port, log = deployment.settings.bind_address[1], deployment.folder / "log.txt"
    valkey = {"valkey": deployment.valkey.pid}
    with running_parts(deployment.environment, port, valkey, log) as parts:
        _row("the edge listens after", f"{parts.start_s:.2f} s")
        yield parts


async def _copied(deployment: FamilyDeployment, count: int, used: int) -> None:
    """Fill the database of a deployment by a copy of an SQLite file with these boards and entries."""
    in_file = deployment.settings.model_copy(update={"ledger_url": None})
    filling = replace(deployment, settings=in_file)
    await _opened(filling, count)
    took_s = await _in_use(filling, used)
    _row(f"{used:,} boards get ten entries each on SQLite, per second", f"{used / took_s:,.0f} boards")
    began = time.perf_counter()
    url = deployment.environment["SCOREGATE_LEDGER_URL"].replace(APP, OWNER, 1)
    copy = await copy_ledger(in_file.ledger_path, url, PublicKeys)  # no steward has sealed anything
    took_s, rows = time.perf_counter() - began, sum(copy.rows.values())
    _row("they are copied to PostgreSQL, and verified", f"{took_s:.1f} s, {rows / took_s:,.0f} rows/s")
    in_file.ledger_path.unlink()


def _rows_of_use(deployment: FamilyDeployment, parts: RunningParts, used: int, seconds: float) -> None:
    took_s = asyncio.run(_shown(deployment, used))
    _row("they are read, and built in an empty index, per second", f"{used / took_s:,.0f} boards")
    _rows_of_rest(deployment, parts, seconds)
    pages = asyncio.run(_standings_pages(deployment))
    _row(f"a page of a player's standings across {used:,} boards", pages)


def _rows_of_rest(deployment: FamilyDeployment, parts: RunningParts, seconds: float) -> None:
    began = time.perf_counter()
    asyncio.run(_rest(deployment))
    _row("everything is sealed, shown and built after", f"{time.perf_counter() - began:.1f} s")
    time.sleep(SETTLE_S)
    _row("memory (PSS)", ", ".join(f"{name} {mib:.0f} MiB" for name, mib in parts.memory_mib().items()))
    shares = parts.idle_cpu(seconds)
    _row("idle, share of a core", ", ".join(f"{name} {share:.1%}" for name, share in shares.items()))


def _row(what: str, value: object) -> None:
    print(f"| {what} | {value} |", flush=True)


def _name(number: int) -> str:
    return f"{FAMILY}.b{number:07d}"


async def _opened(deployment: FamilyDeployment, count: int) -> float:
    """Open the boards in batches, and return how many per second."""
    family = load_policies(deployment.settings.policies_dir).families[FAMILY]
    terms = FamilyTerms(FAMILY, family.digest)
    async with open_ledger(deployment.settings) as ledger:
        began = time.perf_counter()
        for first in range(0, count, BATCH_LIMIT):
            numbers = range(first, min(count, first + BATCH_LIMIT))
            batch = [_board(number) for number in numbers]
            results = await ledger.write(open_boards(terms, batch, actor="server:bench", at_ms=wall_clock()))
            assert {BoardOutcome.OPENED} == {result.outcome for result in results}
        return count / (time.perf_counter() - began)


def _board(number: int) -> OpenedBoard:
    return OpenedBoard(_name(number), FAMILY, f"Track {number}", {"author": f"author-{number % 977}"})


async def _first_uses(deployment: FamilyDeployment, count: int) -> Span:
    """Print what the first use of boards takes, of different ones for each kind of use."""
    step = max(1, count // (2 * SAMPLES))
    names = [_name(number % count) for number in range(0, 2 * SAMPLES * step, step)]
    async with aiohttp.ClientSession() as session:
        client = Client(Harness(None, ShiftedClock(), session, deployment.authority))  # type: ignore[arg-type]
        await client.harness.get("/livez")
        read = [lambda name=name: _read(client, name) for name in names[:SAMPLES]]
        first, second = await _timed(read), await _timed(read)
        _row("first read, median and longest", first)
        _row("second read", second)
        token = await client.harness.new_player()
        play = [lambda name=name: client.submitted(board=name, token=token) for name in names[SAMPLES:]]
        _row("first run, from its ticket to 202", await _timed(play))
    async with open_ledger(deployment.settings) as ledger:
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


async def _rest(deployment: FamilyDeployment) -> None:
    """Wait until every event is sealed, and every board that was used is built in the index.

    Raises TimeoutError after REST_S.
    """
    wanted = [keys.wanted(lane) for lane in range(LANES)]
    async with (
        open_ledger(deployment.settings) as ledger,
        Redis.from_url(deployment.valkey.url) as redis,
        asyncio.timeout(REST_S),
    ):
        while True:
            projected, seal = await ledger.read(log.projected()), await ledger.read(newest_seal())
            is_sealed = projected.newest == (seal.last_seq if seal else 0)
            if is_sealed and projected.is_whole and not await redis.exists(*wanted):
                return
            await asyncio.sleep(0.5)


async def _standings_pages(deployment: FamilyDeployment) -> Span:
    """Return the times of pages of a player's standings in the family, one after the other, over HTTP."""
    async with ScoregateClient(f"http://{deployment.authority}") as client:
        took_ms: list[float] = []
        cursor = None
        for _ in range(SAMPLES):
            began = time.perf_counter()
            page = await client.standings(FAMILY, f"{PLAYER}0", cursor=cursor)
            took_ms.append((time.perf_counter() - began) * 1000)
            assert page.standings
            cursor = page.next
        return Span(statistics.median(took_ms), max(took_ms))


async def _in_use(deployment: FamilyDeployment, used: int) -> float:
    """Have a trusted server write ten entries to each of so many boards, and return how long that took (s).

    They are written to the ledger, several boards in a transaction, as if they had been shown in a Redis that
    was emptied since.
    """
    family = load_policies(deployment.settings.policies_dir).families[FAMILY]
    firsts = iter(range(0, used, BOARDS_AT_ONCE))

    def written(first: int) -> Operation[None]:
        async def work(tx: Transaction) -> None:
            for number in range(first, min(used, first + BOARDS_AT_ONCE)):
                operations = _operations(family.board(_board(number)), number)
                _, changes = await perform_all(*operations)(tx)
                await strike_projected([change.seq for change in changes])(tx)

        return work

    async with open_ledger(deployment.settings) as ledger:
        await ledger.write(add_server_key(ServerKey("bench", bytes(32), ("*",), wall_clock())))

        async def write() -> None:
            for first in firsts:
                await ledger.write(written(first))

        began = time.perf_counter()
        await asyncio.gather(*(write() for _ in range(WRITERS)))
        return time.perf_counter() - began


async def _shown(deployment: FamilyDeployment, used: int) -> float:
    """Read each board until it is in the index, and return how long that took for all of them (s)."""
    left = [_name(number) for number in range(used)]
    began = time.perf_counter()
    async with (
        aiohttp.ClientSession() as session,
        Redis.from_url(deployment.valkey.url) as redis,
        asyncio.timeout(REST_S),
    ):
        client = Client(Harness(None, ShiftedClock(), session, deployment.authority))  # type: ignore[arg-type]
        while left:
            names = iter(left[:WANTED])

            async def read(names: Iterator[str] = names) -> None:
                for name in names:
                    await _read(client, name)

            await asyncio.gather(*(read() for _ in range(WRITERS)))
            await _nearly_built(redis)
            async with redis.pipeline(transaction=False) as pipe:
                for name in left[:WANTED]:
                    pipe.exists(keys.sentinel(name))
                is_shown = await pipe.execute()
            left = [name for name, is_in in zip(left, is_shown, strict=False) if not is_in] + left[WANTED:]
    return time.perf_counter() - began


async def _nearly_built(redis: Redis) -> None:
    """Wait until few boards are left that wait to be built."""
    while True:
        async with redis.pipeline(transaction=False) as pipe:
            for lane in range(LANES):
                pipe.zcard(keys.wanted(lane))
            if sum(await pipe.execute()) < WANTED // 16:
                return
        await asyncio.sleep(0.1)


def _operations(board: Board, number: int) -> tuple[Board, ServerRequest, list[ServerOperation]]:
    """Return ten writes to a board as one request."""
    digest = hashlib.sha256(board.name.encode()).digest()
    server = ServerRequest("bench", "server:bench", f"nonce-{number}", digest, wall_clock())
    bodies = [_OPERATION.validate_python(_entry(number, rank)) for rank in range(ENTRIES)]
    return board, server, [operation_of(board, server, body) for body in bodies]


def _entry(number: int, rank: int) -> dict[str, Any]:
    return {
        "action": "write",
        "operation": f"{number}-{rank}",
        "player": f"{PLAYER}{rank}",
        "score": number % 1000 + rank,
    }


if __name__ == "__main__":
    main()
