"""Measures durable submissions per second of the ledger, beside the same ledger with one row per transaction.

    python -m bench.ledger [--seconds 3] [--rounds 3] [--only sqlite|postgres]

In one process, 1, 64 and 512 writers append their own submissions (with a recording of 400 bytes) and wait
until each is durable. The ledger is an SQLite file (WAL, synchronous=FULL) or a PostgreSQL from the wheel on
this machine (fsync on). The other side is the same ledger with at most one write per transaction. Rounds
alternate, each on its own database. Prints medians and rows per commit; the last line is `ratio R`: group
commit over one row per transaction, 64 writers, SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from gateway.ledger.ledger import Ledger
from gateway.ledger.postgres import store as postgres
from gateway.ledger.records import NewSubmission
from gateway.ledger.sqlite import store as sqlite
from gateway.ledger.writes import GROUP_LIMIT
from policies.vocabulary import Claim, Reason, State
from tests.support.postgres import APP, PostgresServer, running_postgres
from validators.judge import Judgement
from validators.submission import Submission

WRITERS: Final = (1, 64, 512)
RECORDING: Final = bytes(range(200)) * 2


@dataclass
class CommitRate:
    """The rate of one round."""

    per_second: float
    rows_per_commit: float


class Commits:
    """Counts committed groups from outside the ledger."""

    def __init__(self) -> None:
        self.count = 0
        sqlite.commit_group = self._counted(sqlite.commit_group)  # type: ignore[attr-defined]
        postgres.commit_group = self._counted(postgres.commit_group)  # type: ignore[attr-defined]

    def _counted(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count += 1
            return commit(*arguments)

        return counted


def a_run(number: int) -> NewSubmission:
    """Return a run of one of a thousand players."""
    now_ms = time.time_ns() // 1_000_000
    recording = RECORDING + number.to_bytes(8, "big")
    submission_id = f"01m7waegd9j58mvpamxk{number:08d}"
    claim = Claim(number % 100_000, 3_600, {"best_combo": 5, "motes": 80, "near_misses": 4})
    player, has_recording = f"p{number % 1000}", True
    run = Submission(submission_id, "arcade", player, "arcade-1", 7, now_ms, now_ms, claim, has_recording)
    digest = hashlib.sha256(recording).digest()
    return NewSubmission(
        submission=run,
        judgement=Judgement(State.PENDING, Reason.ACCEPTED),
        credential=f"run:{submission_id}",
        nonce=f"nonce-{number:016d}",
        content_digest=digest,
        recording=recording,
        recording_digest=digest,
        recording_bytes=len(recording),
        simulator="sha256:" + "0" * 64,
        policy_digest="sha256:" + "0" * 64,
    )


async def rate_of(ledger: Ledger, writers: int, seconds: float, commits: Commits) -> CommitRate:
    """Return the rate at which writers append, each waiting for its own row, within `seconds`."""
    numbers = count()
    end = time.perf_counter() + seconds
    done = 0

    async def write() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await ledger.append(a_run(next(numbers)))
            done += 1

    await ledger.append(a_run(next(numbers)))  # so that nothing is prepared during the round
    before, started = commits.count, time.perf_counter()
    await asyncio.gather(*(write() for _ in range(writers)))
    return CommitRate(done / (time.perf_counter() - started), done / (commits.count - before))


@asynccontextmanager
async def fresh(server: PostgresServer | None, group_limit: int) -> AsyncIterator[Ledger]:
    """Open an empty ledger."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with server.database() if server else nullcontext("") as name:
            ledger: Ledger = (
                postgres.PostgresLedger(SecretStr(server.url(name, APP)), group_limit=group_limit)
                if server
                else sqlite.SqliteLedger(Path(folder) / "ledger.sqlite3", group_limit=group_limit)
            )
            await ledger.open()
            try:
                yield ledger
            finally:
                await ledger.close()


async def compare(server: PostgresServer | None, options: argparse.Namespace, commits: Commits) -> float:
    """Print a line for each number of writers, and return the ratio at 64."""
    ratios = {}
    for writers in WRITERS:
        rounds: dict[int, list[CommitRate]] = {GROUP_LIMIT: [], 1: []}
        for _ in range(options.rounds):
            for limit, rates in rounds.items():
                async with fresh(server, limit) as ledger:
                    rates.append(await rate_of(ledger, writers, options.seconds, commits))
        grouped, single = (median(rates) for rates in rounds.values())
        ratios[writers] = grouped.per_second / single.per_second
        print(
            f"{'postgres' if server else 'sqlite':8} {writers:4} writers: {grouped.per_second:9.0f}/s, "
            f"{grouped.rows_per_commit:6.1f} rows per commit; "
            f"one row per transaction {single.per_second:7.0f}/s; ratio {ratios[writers]:.2f}"
        )
    return ratios[64]


def median(rates: list[CommitRate]) -> CommitRate:
    """Return the medians of several rounds."""
    return CommitRate(
        statistics.median(rate.per_second for rate in rates),
        statistics.median(rate.rows_per_commit for rate in rates),
    )


def main() -> None:
    """Print the rates, and the ratio last."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", choices=["sqlite", "postgres"])
    options = arguments.parse_args()
    commits = Commits()
    ratio = 0.0
    if options.only != "sqlite":
        with running_postgres(is_durable=True) as server:
            ratio = asyncio.run(compare(server, options, commits))
    if options.only != "postgres":
        ratio = asyncio.run(compare(None, options, commits))
    print(f"ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
