"""Play histories against the oracle for some minutes, one seed after another, and print every answer that differs.

The exit status is 1 if one did.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from gateway.runtime.telemetry import configure_logging
from tests.oracle.modes import MODES, play
from tests.oracle.reads import Report
from tests.oracle.stores import Stores, in_a_folder, on_a_cluster, on_one_server
from tests.support.cluster import running_cluster
from tests.support.postgres import running_postgres
from tests.support.valkey import running_valkey


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="no history begins after that")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first history; each next one has the next"
    )
    parser.add_argument("--operations", type=int, default=300, help="steps of each history")
    parser.add_argument("--mode", choices=sorted(MODES), action="append", help="all of them unless given")
    parser.add_argument("--cluster", action="store_true", help="on PostgreSQL and a Redis Cluster")
    parser.add_argument("--shown", type=int, default=3, help="differences of one history that are printed")
    given = parser.parse_args()
    configure_logging("error")
    report = Report()
    asyncio.run(_play_all(given, report))
    return 1 if report.differences else 0


async def _play_all(given: argparse.Namespace, report: Report) -> None:
    until_s = time.monotonic() + 60 * given.minutes
    seed, operations = given.seed, 0
    with ExitStack() as stack:
        servers = (
            [
                stack.enter_context(running_cluster()),
                await asyncio.to_thread(stack.enter_context, running_postgres()),
            ]
            if given.cluster
            else []
        )
        while time.monotonic() < until_s:
            for name in given.mode or MODES:
                before = len(report.differences)
                async with _stores(servers) as stores:
                    how = {"seed": seed, "operations": given.operations, "report": report}
                    operations += await play(stores, MODES[name], **how)
                told = report.differences[before:][: given.shown]
                _say([*told, f"seed {seed}, {name}: so far {operations} operations, {report}"])
            seed += 1


@asynccontextmanager
async def _stores(servers: list) -> AsyncIterator[Stores]:
    """Fresh stores for one history."""
    with running_valkey() as valkey:
        async with in_a_folder() as folder:
            if not servers:
                yield on_one_server(valkey, folder)
                return
            cluster, postgres = servers
            await asyncio.to_thread(cluster.mend)
            cluster.empty()
            async with on_a_cluster(cluster, postgres, valkey, folder) as stores:
                yield stores


def _say(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
