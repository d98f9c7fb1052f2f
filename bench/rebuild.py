"""Measures entries per second of a rebuild from the ledger, beside a bare pipelined ZADD loop.

    python -m bench.rebuild [--standings 1000000] [--ledger-url postgresql://...]

The ledger has one board with `--standings` standings in its all-time window, each with a player's name and a
baseline. The rebuild is that of `scoregate board rebuild`: the whole board, beside the live keys, swapped at
the end, while nothing else runs. The bare loop puts the same members with the same scores into one ZSET, a
command each, in pipelines as long as a page of the rebuild. Rounds alternate, and medians are compared. Then
the rebuild's own first commands are sent again from memory: what Valkey alone can do with them.
Prints the peak of this process' resident memory on the way; the last line is `ratio R`.

With `--ledger-url` it writes to that ledger: give it one of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hiredis import pack_command
from redis import Redis
from sqlalchemy import text

from bench.hot_paths import TOGETHER, Perform
from gateway.index import generation
from gateway.index.cluster import Client
from gateway.index.transactions import Command, transact
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.index.rebuild import PAGE, Rebuilder
from gateway.wiring import load_policies, open_index, open_ledger
from policies.windows import FOREVER_MS
from tests.support.boards import write_board
from tests.support.valkey import running_valkey

BOARD = "bench"
FILL = 50_000
"""Rows per transaction of the filling."""

PRIME = 999_983
"""Scores go through all its residues, without order and with few ties."""

REPLAYED = 200
"""Transactions that are sent again from memory: a few hundred bytes for each of their rows."""

EPOCH_MS = 1_763_640_000_000


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--standings", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ledger-url", help="its own ledger; by default a temporary SQLite file")
    arguments = parser.parse_args()
    gc.freeze()  # as a steward does: no collection looks at what was imported
    with tempfile.TemporaryDirectory(prefix="sgb-") as folder, running_valkey() as valkey:
        write_board(Path(folder) / "policies", BOARD, windows=["alltime"])
        settings = Settings(
            data_dir=Path(folder) / "data",
            policies_dir=Path(folder) / "policies",
            redis_url=valkey.url,
            redis_timeout_ms=10_000,
            ledger_url=arguments.ledger_url,
        )
        bare, rebuilt = asyncio.run(_rounds(settings, arguments.standings, arguments.rounds))
    print(f"bare ZADD {bare:10.0f} entries per second")
    print(f"rebuild   {rebuilt:10.0f} entries per second")
    print(f"ratio {rebuilt / bare:.3f}")


async def _rounds(settings: Settings, count: int, rounds: int) -> tuple[float, float]:
    """Return the entries per second of the bare loop and of the rebuild: medians of alternating rounds."""
    boards = load_policies(settings)
    bare, rebuilt = [], []
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        for first in range(0, count, FILL):
            await ledger.write(_filled(first, min(count, first + FILL)))
        for _ in range(rounds):
            bare.append(_bare(Redis.from_url(settings.redis_url), count))
            tell = _MemoryReport(count).count_rows
            rebuilder = Rebuilder(
                ledger, index.of(boards[BOARD]), boards[BOARD].policy, clock=wall_clock, tell=tell
            )
            rebuilt.append(await _rebuild(rebuilder))
        replayed = await _replayed(Redis.from_url(settings.redis_url), rebuilder)
        print(f"Valkey alone, the same commands: {replayed:.0f} entries per second")
        shown = (await index.of(boards[BOARD]).page("alltime", 0, 1)).total
    if shown != count:
        sys.exit(f"the board shows {shown} standings of {count}")
    return statistics.median(bare), statistics.median(rebuilt)


async def _rebuild(rebuilder: Rebuilder) -> float:
    """Return the entries per second of one rebuild."""
    began = time.perf_counter()
    result = await rebuilder.rebuild()
    took_s = time.perf_counter() - began
    print(f"built {result.standings} standings and {result.baselines} baselines in {took_s:.1f} s")
    return result.standings / took_s


async def _replayed(client: Redis, rebuilder: Rebuilder) -> float:
    """Return the entries per second of Valkey with the first transactions of a rebuild, sent from memory."""
    packed: list[tuple[bytes, int, int]] = []

    async def noting(target: Client, key: str, commands: Sequence[Command]) -> list[Any]:
        if len(packed) < REPLAYED:
            placed = sum(len(each) // 2 - 1 for each in commands if each[0] == "ZADD")
            wire = b"".join(map(pack_command, (("MULTI",), *commands, ("EXEC",))))
            packed.append((wire, len(commands) + 2, placed))
        return await transact(target, key, commands)

    with patch.object(generation, "transact", noting):
        await rebuilder.rebuild()
    connection: Any = client.connection_pool.get_connection()
    began = time.perf_counter()
    for wire, replies, _ in packed:
        connection.send_packed_command([wire])
        for _ in range(replies):
            connection.read_response()
    took_s = time.perf_counter() - began
    client.connection_pool.release(connection)
    client.close()
    return sum(placed for _, _, placed in packed) / took_s


@asynccontextmanager
async def rebuilding(settings: Settings) -> AsyncIterator[Perform]:
    """Rebuild a board of `TOGETHER` pages as often as there are so many units, each of a page."""
    write_board(settings.policies_dir, BOARD, windows=["alltime"])
    boards = load_policies(settings)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        await ledger.write(_filled(0, TOGETHER * PAGE))

        async def perform(units: int) -> None:
            for _ in range(0, units, TOGETHER):
                policy = boards[BOARD].policy
                await Rebuilder(ledger, index.of(boards[BOARD]), policy, clock=wall_clock).rebuild()

        yield perform


def _bare(client: Redis, count: int) -> float:
    """Return the entries per second of the bare loop."""
    began = time.perf_counter()
    for first in range(0, count, PAGE):
        pipe = client.pipeline(transaction=False)
        for score, member in _entries(first, min(count, first + PAGE)):
            pipe.execute_command("ZADD", "bare", score, member)  # type: ignore[no-untyped-call]
        pipe.execute()
    rate = count / (time.perf_counter() - began)
    client.flushall()
    client.close()
    return rate


def _entries(first: int, end: int) -> Iterator[tuple[int, str]]:
    for number in range(first, end):
        score = number * 7_919 % PRIME
        yield -score, f"{EPOCH_MS + number:012x}{number:010x}:p{number}"


class _MemoryReport:
    """Prints this process' peak memory at the start, and at a tenth, half and all of the rows."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._built = 0
        self._steps = [0.1, 0.5, 1.0]
        _print_peak(0)

    def count_rows(self, count: int) -> None:
        """Count rows that were built."""
        self._built += count
        while self._steps and self._built >= self._steps[0] * self._total:
            _print_peak(self._steps.pop(0))


def _print_peak(share: float) -> None:
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory at {share:4.0%}: {peak_kib / 1024:.0f} MiB")


def _filled(first: int, end: int) -> Operation[None]:
    """Write rows `first` to `end`, which the database makes itself, in SQL for both databases."""
    numbers = (
        f"WITH RECURSIVE numbers (n) AS (SELECT CAST({first} AS BIGINT) "  # noqa: S608 - our own numbers
        f"UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {end})"
    )
    score, player = f"n * 7919 % {PRIME}", "'p' || CAST(n AS TEXT)"
    # Fixed width in decimal digits is as good here as in hex, which no function makes on both databases.
    member = f"CAST({10**11} + n AS TEXT) || CAST({10**9} + n AS TEXT) || ':' || {player}"
    standing = (
        f"'{BOARD}', 'alltime', {player}, {score}, {EPOCH_MS} + n, n, 's' || CAST(n AS TEXT), "
        f"{FOREVER_MS}, n, -({score}), {member}, 'rule'"
    )
    recent = (
        f"'[[' || CAST({EPOCH_MS} + n AS TEXT) || ',' || CAST(n AS TEXT) || ',' "
        f"|| CAST({score} AS TEXT) || ']]'"
    )
    baseline = (
        f"'{BOARD}', {player}, 1, CAST({score} AS TEXT), CAST(({score}) * ({score}) AS TEXT), "
        f"{recent}, {score}, {score}, n"
    )
    columns = {
        "players (player, name, created_at_ms)": f"{player}, 'Player ' || CAST(n AS TEXT), {EPOCH_MS}",
        'standings (board, "window", player, score, achieved_at_ms, achieved_seq, submission_id, '
        "expires_at_ms, seq, order_value, member, rule)": standing,
        "baselines (board, player, count, total, total_of_squares, recent, lowest, highest, seq)": baseline,
    }
    statements = [
        Query(text(f"INSERT INTO {table} {numbers} SELECT {values} FROM numbers"))  # noqa: S608 - our own
        for table, values in columns.items()
    ]

    async def work(tx: Transaction) -> None:
        for statement in statements:
            await tx.run(statement)

    return work


if __name__ == "__main__":
    main()
