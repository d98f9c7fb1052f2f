"""Measures latency beside SQL, bytes per entry, reads beside bare aiohttp, and promotions beside ZADD.

    python -m bench.board [--quick] [--only latency,memory,http,promotions]

There is one Valkey without an append-only file, and boards are filled as by a rebuild. Ten million entries
take some 6 GiB in Valkey and 2 GiB of disk for SQLite. The load is `wrk` (Debian package) in its own process.
Sides of a comparison take turns in the same run. Prints tables in Markdown; the last line is `ratio R`, for
the top 100 by HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from bench.board import memory, promotions
from bench.board.http import Load, Rounds, median_cpu_us, median_ratio
from bench.board.latency import Boards, growth
from bench.load import LoadRound
from gateway.index.connection import connect
from tests.support.valkey import ValkeyServer, running_valkey

PARTS: Final = ("latency", "memory", "promotions", "http")
GROWTH_GOAL: Final = 1.6
BYTES_PER_ENTRY: Final = 800
"""Bytes of an entry of the largest board and its row in SQLite, to know beforehand whether it fits."""


def main() -> None:
    """Run the requested measurements."""
    arguments = _arguments()
    if "http" in arguments.only and not shutil.which("wrk"):
        sys.exit("bench.board needs wrk: apt-get install wrk")
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if "latency" in arguments.only and free < sum(arguments.sizes) * BYTES_PER_ENTRY:
        sys.exit(
            f"{free >> 30} GiB of memory are free: too little for {max(arguments.sizes):,} entries; "
            "see --sizes"
        )
    with tempfile.TemporaryDirectory(prefix="sgb-") as folder, running_valkey() as valkey:
        asyncio.run(_run(Path(folder), valkey, arguments))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.board")
    parser.add_argument(
        "--quick", action="store_true", help="small boards and short rounds, to see that it works"
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(PARTS), help=", ".join(PARTS)
    )
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="length of a round by HTTP")
    parser.add_argument("--connections", type=int, default=128)
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(PARTS):
        parser.error(f"--only: no such part: {', '.join(unknown)}")
    is_quick = arguments.quick
    arguments.sizes = arguments.sizes or ([1_000, 5_000] if is_quick else [10_000, 1_000_000, 10_000_000])
    arguments.rounds = arguments.rounds or (1 if is_quick else 5)
    arguments.seconds = arguments.seconds or (1 if is_quick else 6)
    arguments.samples = 100 if is_quick else 2_000
    arguments.entries = 2_000 if is_quick else 100_000
    arguments.promotions = 500 if is_quick else 20_000
    return arguments


async def _run(folder: Path, valkey: ValkeyServer, arguments: argparse.Namespace) -> None:
    client = connect(valkey.url, timeout_ms=10_000)
    await client.config_set("appendonly", "no")
    try:
        for part in PARTS:
            if part in arguments.only:
                await client.flushall()
                await _MEASURES[part](client, folder, valkey, arguments)
    finally:
        await client.aclose()


async def _latency(client: Redis, folder: Path, _valkey: ValkeyServer, arguments: argparse.Namespace) -> None:
    latencies = await Boards(client, folder, arguments.sizes, arguments.rounds, arguments.samples).run()
    rows = [
        (
            latency.question,
            f"{latency.entries:,}",
            *(f"{us:,.0f} µs" for us in (latency.index_us, latency.valkey_us, latency.sql_us)),
        )
        for latency in latencies
    ]
    _print(("question", "entries", "index, median", "in Valkey, mean", "SQL, median"), rows)
    print(
        f"\none rank, largest to smallest: {growth(latencies):.2f} (the goal: at most {GROWTH_GOAL})",
        flush=True,
    )


async def _memory(client: Redis, _folder: Path, _valkey: ValkeyServer, arguments: argparse.Namespace) -> None:
    rows = [
        (size.tie_break, "yes" if size.has_groups else "no", f"{size.alone:.0f}", f"{size.in_four:.0f}")
        for size in await memory.measure(client, arguments.entries)
    ]
    head = ("tie-break", "dense ranks", "bytes per player, `alltime`", "bytes per player, four windows")
    _print(head, rows)


async def _promotions(
    client: Redis, _folder: Path, _valkey: ValkeyServer, arguments: argparse.Namespace
) -> None:
    bare, index = await promotions.measure(client, arguments.entries, arguments.promotions, arguments.rounds)
    _print(
        ("into four windows", "per second", "ratio"),
        [("bare `ZADD`", f"{bare:,.0f}", ""), ("promotion", f"{index:,.0f}", f"{index / bare:.3f}")],
    )


async def _http(client: Redis, folder: Path, valkey: ValkeyServer, arguments: argparse.Namespace) -> None:
    load = Load(arguments.rounds, arguments.seconds, arguments.connections, arguments.entries)
    readings = await Rounds(folder, valkey.url, valkey.pid, load).run(client)
    rows = []
    for reading, size, rounds in readings:
        bare, edge, ratio = median_ratio(rounds)
        failed = sum(edge_round.errors for _, edge_round in rounds)
        changes = f"{reading.writes_per_s} a second" if reading.writes_per_s else "none"
        rows.append(
            (
                reading.name,
                changes,
                f"{size:,}",
                f"{bare:,.0f}",
                f"{edge:,.0f}",
                f"**{ratio:.3f}**",
                *_cpu_times(rounds, arguments.seconds),
                str(failed),
            )
        )
    times = ("bare, CPU", "edge, CPU", "Valkey, CPU")
    _print(("read", "changes", "bytes", "bare aiohttp", "edge", "ratio", *times, "not 200"), rows)
    print(f"\nratio {median_ratio(readings[0][2])[2]:.3f}", flush=True)


def _cpu_times(rounds: list[tuple[LoadRound, LoadRound]], seconds: int) -> list[str]:
    """Return the processor time of a read in the bare server, in the edge and in Valkey."""
    bare, edge = ([pair[side] for pair in rounds] for side in (0, 1))
    times_us = (
        median_cpu_us(bare, "server", seconds),
        median_cpu_us(edge, "server", seconds),
        median_cpu_us(edge, "valkey", seconds),
    )
    return [f"{time_us:.0f} µs" for time_us in times_us]


_MEASURES: Final[dict[str, Any]] = {
    "latency": _latency,
    "memory": _memory,
    "promotions": _promotions,
    "http": _http,
}


def _print(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
