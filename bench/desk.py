"""Measures what moderators wait for, with few and with a hundred thousand cases in the queue.

    python -m bench.desk [--cases 1000 20000 100000] [--samples 100] [--ledgers sqlite postgres]

Held submissions of three board files and a family of ten boards are written to a ledger, in the order of some
months, and assessed as a steward does. Then each page is asked for over HTTP, from the same process: p50 and
p99 of the time until the whole answer is there, for each number of cases. `GET /livez` says
what HTTP alone takes. A page looks at no more than a bounded number of rows, which a small
queue does not have: so the ratio compares the two largest numbers, by the fastest tenth of the answers, which
other work on the machine disturbs least.
Then come the statements that were sent on SQLite, with the index that each uses, and how many rows its
largest answer had. Prints the greatest ratio of a page last.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg
from pydantic import SecretStr
from scoregate_client import ServerClient
from sqlalchemy import update

from bench.board.filling import player_of
from gateway.edge.auth.moderator_credentials import COOKIE
from gateway.edge.auth.moderators import ModeratorRole
from gateway.ledger.moderation.cases import HARM_MS
from gateway.ledger.postgres.transaction import PostgresTransaction
from gateway.ledger.records import NewSubmission
from gateway.ledger.schema import cases
from gateway.ledger.sqlite.transaction import SqliteTransaction
from gateway.ledger.transaction import Query
from gateway.runtime.settings import Settings
from policies.vocabulary import Claim, Reason, State
from tests.support import plans
from tests.support.attack import registered
from tests.support.desk import FAR_OUTSIDE, TOO_FAST, session_of, staff
from tests.support.harness import Harness, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.ports import free_port
from tests.support.postgres import running_postgres
from tests.support.valkey import ValkeyServer, running_valkey
from validators.judge import Judgement
from validators.submission import Submission

GROUP: Final = 500
DAY_MS: Final = 86_400_000
SPAN_MS: Final = 90 * DAY_MS
"""The time in which the cases came in."""

LEVELS: Final = tuple(f"track.b{number}" for number in range(10))
BOARDS: Final = ("sprint", "solo", "duel", *LEVELS)
REASONS: Final = (Reason.ANOMALY_PLAYER, Reason.VELOCITY_POINTS, Reason.ANOMALY_POPULATION)
RARE: Final = Reason.REVIEW_REQUIRED
"""The reason of one case in five thousand: a page that is filtered by it finds none among the first."""

BUSY: Final = "p_busy"
"""A player with one case in fifty."""

QUEUE: Final = "/v1/moderation/queue"
FILTERS: Final = {
    "no filter": "",
    "board": "?board=sprint",
    "family": "?family=track",
    "reason": f"?reason={REASONS[0].value}",
    "reason, rare": f"?reason={RARE.value}",
    "player": f"?player={BUSY}",
    "build": "?build=b-2",
    "kind": "?kind=held",
    "kind, none": "?kind=appeal",
    "min_age_s": "?min_age_s=2592000",
    "all together": f"?board=sprint&reason={REASONS[0].value}&build=b-2&min_age_s=86400",
}

_HARM: Final = cases.c.seq * 7 % 17
_ASSESS: Final = Query(
    update(cases).where(cases.c.harm < 0).values(harm=_HARM, order_key=cases.c.opened_at_ms - _HARM * HARM_MS)
)
"""Assesses all new cases at once: between no harm and the greatest."""

Ask = Callable[[], Awaitable[None]]


class Times(NamedTuple):
    """How long a page took (ms). Other work on the machine disturbs the fastest tenth least."""

    fast: float
    p50: float
    p99: float


class Noted:
    """The statements of a page, and the most rows that each gave at once."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Query, int]] = defaultdict(dict)
        self.page = ""

    def forget(self) -> None:
        """Begin anew."""
        self.rows.clear()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note each statement that either database is asked for."""
        kinds: tuple[Any, ...] = (SqliteTransaction, PostgresTransaction)
        before = [kind.rows for kind in kinds]
        for kind, rows in zip(kinds, before, strict=True):
            kind.rows = self._noted(rows)
        try:
            yield
        finally:
            for kind, rows in zip(kinds, before, strict=True):
                kind.rows = rows

    def _noted(self, rows: Callable[..., Awaitable[list[Any]]]) -> Callable[..., Awaitable[list[Any]]]:
        async def noted(transaction: Any, query: Query, /, **values: Any) -> list[Any]:
            found = await rows(transaction, query, **values)
            seen = self.rows[self.page]
            seen[query] = max(seen.get(query, 0), len(found))
            return found

        return noted


def a_case(number: int, now_ms: int) -> NewSubmission:
    """Return a held submission; those of higher numbers came later."""
    at_ms = now_ms - SPAN_MS + number * SPAN_MS // 200_000
    submission_id = f"01m7waegd9j58mvpamxk{number:08d}"
    player = BUSY if number % 50 == 0 else player_of(number // 3)
    reason = RARE if number % 5_000 == 4_999 else REASONS[number % len(REASONS)]
    claim = Claim(number * 7_919 % 100_000, 3_600, {})
    board, build = BOARDS[number % len(BOARDS)], f"b-{number % 5}"
    return NewSubmission(
        submission=Submission(
            submission_id, board, player, build, number, at_ms - 60_000, at_ms, claim, has_recording=False
        ),
        judgement=Judgement(State.HELD, reason, (FAR_OUTSIDE, TOO_FAST)),
        credential="bench",
        nonce=submission_id,
        content_digest=submission_id.encode(),
        recording=None,
        recording_digest=None,
        recording_bytes=0,
        simulator="",
        policy_digest="sha256:bench",
    )


async def fill(harness: Harness, first: int, end: int) -> None:
    """Append the cases of these numbers, and assess them."""
    ledger, now_ms = harness.edge.ledger, harness.clock()
    for begin in range(first, end, GROUP):
        numbers = range(begin, min(end, begin + GROUP))
        await asyncio.gather(*(ledger.append(a_case(number, now_ms)) for number in numbers))
    await ledger.write(lambda tx: tx.run(_ASSESS))


async def pages_of(harness: Harness, cookie: str) -> dict[str, Ask]:
    """Return what asks for each page, by its name."""
    everything = harness.moderator(role=ModeratorRole.SENIOR)
    one_board = harness.moderator("track.b3", name="jo", role=ModeratorRole.MODERATOR)
    as_person = {"Cookie": f"{COOKIE}={cookie}"}
    waiting = (await harness.get(QUEUE, everything)).body["cases"]
    case = next(case for case in waiting if case["player"] != BUSY)
    submission, player = case["submission"], case["player"]

    def get(path: str, headers: Mapping[str, str]) -> Ask:
        async def ask() -> None:
            async with harness.session.get(harness.url + path, headers=headers) as response:
                body = await response.read()
                assert response.status == 200, body

        return ask

    def by(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    api = {f"queue, {name}": QUEUE + query for name, query in FILTERS.items()} | {
        "counts": f"{QUEUE}/counts",
        "case": f"/v1/moderation/cases/{submission}",
        "what surrounds it": f"/v1/moderation/cases/{submission}/surroundings",
        "player": f"/v1/moderation/players/{player}",
        "player, busy": f"/v1/moderation/players/{BUSY}",
        "figures": "/v1/moderation/figures",
    }
    console = {
        "console: queue": "/console/queue",
        "console: case": f"/console/cases/{submission}",
        "console: player": f"/console/players/{player}",
        "console: figures": "/console/figures",
    }
    return {
        "livez": get("/livez", {}),
        **{name: get(path, by(everything)) for name, path in api.items()},
        "queue, of one board": get(QUEUE, by(one_board)),
        "counts, of one board": get(f"{QUEUE}/counts", by(one_board)),
        **{name: get(path, as_person) for name, path in console.items()},
    }


async def next_s(harness: Harness) -> float:
    """Return the seconds that it takes to be given a case, which is left again."""
    token = harness.moderator(role=ModeratorRole.SENIOR)
    headers = {"Authorization": f"Bearer {token}"}
    began = time.perf_counter()
    async with harness.session.post(f"{harness.url}{QUEUE}/next", headers=headers) as response:
        case = (await response.json())["case"]
    took_s = time.perf_counter() - began
    release = f"{harness.url}/v1/moderation/cases/{case['submission']}/release"
    async with harness.session.post(release, headers=headers) as response:
        assert response.status == 200
    return took_s


async def measure(harness: Harness, noted: Noted, samples: int) -> dict[str, Times]:
    """Return the times of each page."""
    pages = await pages_of(harness, (await session_of(harness, "noor")).token)
    found = {}
    for name, ask in pages.items():
        noted.page = name
        await ask()
        found[name] = _times([await _seconds(ask) for _ in range(samples)])
    noted.page = "next case"
    await next_s(harness)
    found["next case"] = _times([await next_s(harness) for _ in range(samples)])
    noted.page = ""
    return found


async def _seconds(ask: Ask) -> float:
    began = time.perf_counter()
    await ask()
    return time.perf_counter() - began


def _times(seconds: Sequence[float]) -> Times:
    ordered = sorted(seconds)
    fast, p99 = (ordered[len(ordered) * share // 100] for share in (10, 99))
    return Times(1_000 * fast, 1_000 * statistics.median(ordered), 1_000 * p99)


@asynccontextmanager
async def desk_at(folder: Path, valkey: ValkeyServer, ledger_url: str | None) -> AsyncIterator[Harness]:
    """Run an edge with its boards, and people."""
    policies = [a_policy(name, writes="open") for name in BOARDS[:3]]
    settings = Settings(
        data_dir=folder / "data",
        policies_dir=write_policies(folder / "policies", *policies, a_family(writes="trusted")),
        redis_url=valkey.url,
        bind=f"127.0.0.1:{free_port()}",
        ledger_url=SecretStr(ledger_url) if ledger_url else None,
        read_budget_ms=1_000_000,
        log_level="warning",
    )
    async with running_harness(settings) as harness:
        async with ServerClient(harness.url, "eu-1", await registered(harness)) as server:
            await server.open_boards("track", "op", [{"board": name, "title": name} for name in LEVELS])
        await staff(harness, {"noor": {"*": "senior"}})
        yield harness


async def compare(folder: Path, valkey: ValkeyServer, url: str | None, options: argparse.Namespace) -> float:
    """Print the times of each page, and return the greatest ratio."""
    noted, filled = Noted(), 0
    measured: list[dict[str, Times]] = []
    async with desk_at(folder, valkey, url) as harness:
        for count in options.cases:
            began = time.perf_counter()
            await fill(harness, filled, count)
            filled = count
            print(f"{count} cases, filled in {time.perf_counter() - began:.0f} s", flush=True)
            if url is not None:
                await _analyze(url)
            noted.forget()
            with noted.noting():
                measured.append(await measure(harness, noted, options.samples))
    print(" " * 24, *(f"{count:>9} p50      p99" for count in options.cases), "   ratio  (ms)")
    ratios = {name: times.fast / measured[-2][name].fast for name, times in measured[-1].items()}
    for name, ratio in ratios.items():
        print(
            f"{name:24}",
            *(f"{each[name].p50:13.1f}{each[name].p99:9.1f}" for each in measured),
            f"{ratio:8.2f}",
        )
    if url is None:
        _print_plans(folder / "data" / "ledger.sqlite3", noted)
    return max(ratios.values())


async def _analyze(url: str) -> None:
    """Have PostgreSQL count its rows: the servers of measurements do not do so by themselves."""
    connection = await asyncpg.connect(url)
    await connection.execute("ANALYZE")
    await connection.close()


def _print_plans(path: Path, noted: Noted) -> None:
    """Print each statement with the indexes that SQLite searches for it, and the most rows that it gave."""
    names = {id(query): name for name, query in plans.statements().items()}
    rows: dict[Query, int] = {}
    for seen in noted.rows.values():
        for query, count in seen.items():
            rows[query] = max(count, rows.get(query, 0))
    with sqlite3.connect(path) as connection:
        for query, count in sorted(rows.items(), key=lambda each: -each[1]):
            values = dict.fromkeys(re.findall(r":(\w+)", query.sqlite))
            steps = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", values).fetchall()
            searched = [step for *_, step in steps if step.startswith(("SEARCH", "SCAN"))]
            print(f"{names.get(id(query), '?'):44}{count:6} rows  {'; '.join(searched)}")


def main() -> None:
    """Print the times on each database, and the greatest ratio last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", nargs="+", type=int, default=[1_000, 20_000, 100_000])
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--ledgers", nargs="+", default=["sqlite", "postgres"])
    options = parser.parse_args()
    ratios = []
    for kind in options.ledgers:
        print(f"\n{kind}")
        with tempfile.TemporaryDirectory(prefix="sgb-") as folder, running_valkey() as valkey:
            ratios.append(_measure_on(kind, Path(folder), valkey, options))
    print(f"ratio {max(ratios):.2f}")


def _measure_on(kind: str, folder: Path, valkey: ValkeyServer, options: argparse.Namespace) -> float:
    if kind == "sqlite":
        return asyncio.run(compare(folder, valkey, None, options))
    with running_postgres() as server:

        async def in_a_database() -> float:
            async with server.database() as name:
                return await compare(folder, valkey, server.url(name), options)

        return asyncio.run(in_a_database())


if __name__ == "__main__":
    main()
