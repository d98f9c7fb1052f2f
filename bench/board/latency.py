"""Measures a rank, a player's neighbours and the top 100, by size of the board and beside SQL."""

from __future__ import annotations

import random
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from bench.board.filling import fill, pages, player_of, ranking_of
from gateway.index.board_index import BoardIndex

WINDOW: Final = "alltime"
RADIUS: Final = 5
TOP: Final = 100

_AHEAD: Final = """
    SELECT count(*) FROM standings
    WHERE (order_value, member) < (SELECT order_value, member FROM standings WHERE player = ?)
"""
_BESIDE: Final = """
    SELECT player FROM standings
    WHERE (order_value, member) {sign} (SELECT order_value, member FROM standings WHERE player = ?)
    ORDER BY order_value {direction}, member {direction} LIMIT 6
"""
_TOP: Final = "SELECT player, order_value FROM standings ORDER BY order_value, member LIMIT 100"


@dataclass(frozen=True)
class Latency:
    """Times (µs) of a query on a board of one size: the index' median, Valkey's mean, SQL's median."""

    question: str
    entries: int
    index_us: float
    valkey_us: float
    sql_us: float


class Boards:
    """Boards of several sizes in one Valkey, and the same entries in SQLite. Each round measures all."""

    def __init__(self, client: Redis, folder: Path, sizes: Sequence[int], rounds: int, samples: int) -> None:
        self._client = client
        self._sizes = sizes
        self._rounds = rounds
        self._samples = samples
        self._random = random.Random(1)
        self._indexes = {size: BoardIndex(client, ranking_of(board=f"b{size}")) for size in sizes}
        self._tables = {size: sqlite3.connect(folder / f"{size}.sqlite3") for size in sizes}

    async def run(self) -> list[Latency]:
        """Return the latency of every question at every size."""
        for size in self._sizes:
            await fill(self._client, self._indexes[size].ranking, size)
            self._fill_table(size)
            print(f"filled {size:,} entries", flush=True)
        latencies = []
        for question in ("rank", "around", "top"):
            rounds: dict[int, list[tuple[float, float]]] = {size: [] for size in self._sizes}
            for _ in range(self._rounds):
                for size in self._sizes:
                    rounds[size].append(await self._index_us(question, size))
            for size in self._sizes:
                index_us, valkey_us = (statistics.median(times) for times in zip(*rounds[size], strict=True))
                latencies.append(Latency(question, size, index_us, valkey_us, self._sql_us(question, size)))
        return latencies

    def _fill_table(self, size: int) -> None:
        table = self._tables[size]
        table.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-1000000;"
            "CREATE TABLE standings (player TEXT PRIMARY KEY, order_value INTEGER, member TEXT) WITHOUT ROWID"
        )
        for page in pages(self._indexes[size].ranking, WINDOW, size):
            table.executemany(
                "INSERT INTO standings VALUES (?, ?, ?)",
                [(standing.player, standing.order, standing.member) for standing in page],
            )
        table.execute("CREATE INDEX by_place ON standings (order_value, member)")
        table.commit()

    async def _index_us(self, question: str, size: int) -> tuple[float, float]:
        """Return the median of whole calls in one round, and the mean that Valkey reports for its part."""
        ask = self._question(question, self._indexes[size])
        await ask(player_of(0))
        await self._client.config_resetstat()
        took = []
        for _ in range(self._samples):
            player = player_of(self._random.randrange(size))
            began = time.perf_counter()
            await ask(player)
            took.append((time.perf_counter() - began) * 1e6)
        stats: Any = await self._client.info("commandstats")
        return statistics.median(took), float(stats["cmdstat_evalsha"]["usec_per_call"])

    def _question(self, question: str, index: BoardIndex) -> Callable[[str], Awaitable[Any]]:
        return {
            "rank": lambda player: index.around(WINDOW, player, 0),
            "around": lambda player: index.around(WINDOW, player, RADIUS),
            "top": lambda _player: index.page(WINDOW, 0, TOP),
        }[question]

    def _sql_us(self, question: str, size: int) -> float:
        """Return the median of at least ten questions, and as many as fit into two seconds."""
        took: list[float] = []
        while len(took) < 10 or (sum(took) < 2e6 and len(took) < self._samples):
            player = player_of(self._random.randrange(size))
            began = time.perf_counter()
            for sql in self._statements(question):
                self._tables[size].execute(sql, (player,) if "?" in sql else ()).fetchall()
            took.append((time.perf_counter() - began) * 1e6)
        return statistics.median(took)

    def _statements(self, question: str) -> list[str]:
        ahead, behind = _BESIDE.format(sign="<", direction="DESC"), _BESIDE.format(sign=">=", direction="ASC")
        return {"rank": [_AHEAD], "around": [_AHEAD, ahead, behind], "top": [_TOP]}[question]


def growth(latencies: Sequence[Latency], question: str = "rank") -> float:
    """Return the time of a question on the largest board, divided by that on the smallest."""
    by_size = sorted((row for row in latencies if row.question == question), key=lambda row: row.entries)
    return by_size[-1].index_us / by_size[0].index_us
