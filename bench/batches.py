"""Measures batches of decisions: what a second of a steward's work selects, previews, decides and reverses.

    python -m bench.batches [--items 100000] [--ledgers sqlite postgres]

Held submissions of one board are written to a ledger, those of each player together being ten. One batch
selects all of them, though a moderator's may have 10,000, and is previewed, applied (which promotes them and
folds standings and baselines) and reversed, step by step as a steward does it, alone and without Redis.
Prints submissions per second, the processor time of this process for each (which other work on the machine
does not change; on PostgreSQL the server's comes on top), the longest step, and the most memory by then.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from gateway.ledger.ledger import Ledger
from gateway.ledger.records import NewSubmission
from gateway.settlement import batch_steps
from gateway.settlement.batch_steps import BatchSteps
from gateway.settlement.batches import apply, begin, reverse
from policies.decision_codes import DecisionKind
from policies.vocabulary import Claim, State
from tests.support import boards
from tests.support.batching import MODERATOR, Boards, a_batch
from tests.support.ledger import NOON_MS, new_submission
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.sealed import Nowhere
from tests.support.stores import PostgresStore, SqliteStore, Store, open_in

GROUP: Final = 500
RUNS: Final = 10
"""Submissions of each player."""


def _held(number: int, items: int) -> NewSubmission:
    player = f"p{number % max(1, items // RUNS)}"
    new = new_submission(
        f"run-{number:08}", player=player, recording=None, state=State.HELD, at_ms=NOON_MS + number
    )
    return new._replace(submission=new.submission._replace(claim=Claim(number % 997, 25, {})))


async def _measure(ledger: Ledger, folder: Path, items: int) -> None:
    for first in range(0, items, GROUP):
        numbers = range(first, min(first + GROUP, items))
        await asyncio.gather(*(ledger.append(_held(number, items)) for number in numbers))
    now_ms = NOON_MS + items
    catalogue: Any = Boards({"tiny": boards.board(folder)})
    steps = BatchSteps(ledger, Nowhere(), catalogue, clock=lambda: now_ms)
    await ledger.write(begin(a_batch("all", DecisionKind.APPROVE)))
    await _timed("select and preview", steps, items)
    batch = await steps.follow("all", steps=0)
    assert batch is not None
    assert (items, "previewed") == (batch.items, batch.state.value)
    await ledger.write(apply("all", version=batch.version, by=MODERATOR, now_ms=now_ms))
    await _timed("apply", steps, items)
    await ledger.write(reverse("all", by=MODERATOR, now_ms=now_ms))
    await _timed("reverse", steps, items)
    batch = await steps.follow("all", steps=0)
    assert batch is not None
    assert {"reversed": items} == batch.outcomes


async def _timed(part: str, steps: BatchSteps, items: int) -> None:
    begun_s, longest_s, count, cpu_s = time.perf_counter(), 0.0, 0, time.process_time()
    while True:
        step_s = time.perf_counter()
        if not await steps.step("all"):
            break
        count += 1
        longest_s = max(longest_s, time.perf_counter() - step_s)
    took_s = time.perf_counter() - begun_s
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu_ms = (time.process_time() - cpu_s) / items * 1000
    speed = f"{part:20}{items / took_s:10,.0f} submissions/s  {count:6} steps"
    cost = f"{cpu_ms:6.2f} ms of processor  longest {longest_s * 1000:6.0f} ms"
    print(f"{speed}  {cost}  {memory_mib:5.0f} MiB", flush=True)


async def _measure_on(store: Store, items: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sgb-") as folder:
        async with open_in(store) as ledger:
            await _measure(ledger, Path(folder), items)


async def _on_postgres(server: PostgresServer, items: int) -> None:
    async with server.database() as name:
        await _measure_on(PostgresStore(server, name), items)


def main() -> None:
    """Print the figures of each database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--ledgers", nargs="+", default=["sqlite", "postgres"])
    options = parser.parse_args()
    setattr(batch_steps, "LIMIT", options.items)  # noqa: B010 - to see what larger ones would cost
    for kind in options.ledgers:
        print(f"\n{kind}, {options.items:,} submissions", flush=True)
        if kind == "sqlite":
            with tempfile.TemporaryDirectory(prefix="sgb-") as folder:
                asyncio.run(_measure_on(SqliteStore(Path(folder) / "ledger.sqlite3"), options.items))
        else:
            with running_postgres(is_durable=True) as server:
                asyncio.run(_on_postgres(server, options.items))


if __name__ == "__main__":
    main()
