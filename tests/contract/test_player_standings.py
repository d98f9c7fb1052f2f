"""One player across boards, over HTTP, beside ranks that plain SQL computes from the submissions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.edge.reads import player_standings
from gateway.index import across_boards as index_across_boards
from gateway.index import keys
from gateway.index.across_boards import StandingsReader
from gateway.ledger.standings import across_boards
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import LEDGER_PAGES
from policies.errors import IndexUnavailable
from tests.support.attack import registered
from tests.support.clock import ShiftedClock
from tests.support.harness import Harness, free_port, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.stores import Store
from tests.support.thorough import thoroughly
from tests.support.valkey import ValkeyServer

DAY_S: Final = 86_400
KINDS: Final = ["alltime", "daily", "weekly", "season"]
NAMES: Final = [f"track.t{number:02}" for number in range(12)]
PLAYERS: Final = ["ada", *(f"p{number}" for number in range(9))]
STANDINGS: Final = "/v1/families/track/players/ada/standings"

_RANKS: Final = """
WITH counting AS (
  SELECT board, player, score, received_at_ms, seq, submission_id, row_number() OVER (
    PARTITION BY board, player ORDER BY score DESC, received_at_ms, seq) AS nth
  FROM submissions WHERE state = 'promoted' AND board LIKE 'track.%'
    AND received_at_ms >= {begin_ms} AND received_at_ms < {end_ms}
), ranked AS (
  SELECT board, player, score, submission_id, count(*) OVER (PARTITION BY board) AS total,
    row_number() OVER (PARTITION BY board ORDER BY score DESC, received_at_ms, seq) AS unique_rank,
    rank() OVER (PARTITION BY board ORDER BY score DESC) AS sparse_rank,
    dense_rank() OVER (PARTITION BY board ORDER BY score DESC) AS dense_rank
  FROM counting WHERE nth = 1
)
SELECT board, {kind}_rank, total, score, submission_id FROM ranked
WHERE player = 'ada' AND board NOT IN (SELECT board FROM boards WHERE state = 'deleted') ORDER BY board
"""

Standing = tuple[str, int, int, int, str]


EACH_WITH_THE_FIRST: Final = thoroughly(("valkey", "postgres"), ("cluster", "sqlite"))


@pytest.fixture(params=[("valkey", "sqlite"), ("cluster", "postgres"), *EACH_WITH_THE_FIRST], ids="-".join)
def servers(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def database_server(request: pytest.FixtureRequest, servers: tuple[str, str]) -> Any:
    return request.getfixturevalue("postgres_server") if servers[1] == "postgres" else None


@pytest.fixture
def settings(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    servers: tuple[str, str],
    store: Store,
    valkey_server: ValkeyServer,
) -> Settings:
    families = {"writes": "trusted", "windows": KINDS, "season": "0 0 * * *", "shards": 1}
    policies = (
        a_family(ranks=["sparse", "unique", "dense"], **families),
        a_family("level", writes="trusted", windows=["alltime"]),
        a_policy("solo", writes="trusted", windows=["alltime", "weekly"]),
    )
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=write_policies(tmp_path / "policies", *policies),
        redis_url=request.getfixturevalue(servers[0]).url,
        queue_url=valkey_server.url,
        redis_timeout_ms=5_000,
        ledger_url=store.url,
        bind=f"127.0.0.1:{free_port()}",
    )


@dataclass
class Studio:
    """A game server with a key, and an edge whose clock stands still."""

    harness: Harness
    store: Store
    private: Ed25519PrivateKey

    async def send(self, path: str, body: Any) -> Any:
        answer = await self.harness.as_server(self.private, "eu-1", path, body)
        assert answer.status in {200, 202}, answer.raw
        assert not answer.body.get("refused"), answer.raw
        return answer.body

    async def operate(self, family: str, action: str, *names: str) -> None:
        """Opens boards, or ends them."""
        boards = [
            {"action": action, "board": name} | ({"title": name} if action == "open" else {"reason": "over"})
            for name in names
        ]
        body = {"operation": secrets.token_hex(8), "boards": boards}
        await self.send(f"/v1/families/{family}/boards", body)

    async def play(self, board: str, scores: dict[str, int]) -> None:
        """Writes a score of each player."""
        written = [
            {"action": "write", "operation": secrets.token_hex(8), "player": player, "score": score}
            for player, score in scores.items()
        ]
        await self.send(f"/v1/boards/{board}/entries:batch", written)

    async def get(self, path: str) -> Any:
        answer = await self.harness.get(path)
        assert answer.status == 200, answer.raw
        return answer.body

    async def standings(self, query: str) -> tuple[str, list[Standing]]:
        """The window, and every page of the player's standings."""
        found, cursor = [], ""
        while True:
            page = await self.get(f"{STANDINGS}?{query}{cursor}")
            found += page["standings"]
            if page["next"] is None:
                return page["window"], list(map(facts, found))
            cursor = f"&cursor={page['next']}"

    async def by_sql(self, window: str, kind: str) -> list[Standing]:
        """What SQL says of the submissions that count."""
        begin_ms, end_ms = span_of(window, self.harness.clock())
        rows = await self.store.sql(_RANKS.format(begin_ms=begin_ms, end_ms=end_ms, kind=kind))
        return [tuple(row) for row in rows]

    async def compare(self) -> set[str]:
        """Compares every window and kind of rank with SQL and with the boards' own reads; gives sources."""
        sources = set()
        for window in KINDS:
            for kind in ("sparse", "unique", "dense"):
                expected = await self.by_sql(window, kind)
                for query in (f"window={window}&ranks={kind}", f"window={window}&ranks={kind}&limit=3"):
                    assert expected == (await self.standings(query))[1], (window, kind)
            answer = await self.harness.get(f"{STANDINGS}?window={window}&limit=100")
            sources.add(answer.headers.get("Scoregate-Source", "index"))
            names = ",".join([*NAMES, "track.nobody", "level.a", "solo", "no"])
            on_list = await self.get(f"/v1/players/ada/entries?window={window}&boards={names}")
            by_board = {entry["board"]: entry for entry in on_list["entries"]}
            assert names.split(",") == list(by_board)
            ranked = [facts(by_board[name]["standing"]) for name in NAMES if by_board[name]["standing"]]
            assert await self.by_sql(window, "sparse") == ranked
        return sources


@pytest.fixture
async def studio(settings: Settings, store: Store) -> AsyncIterator[Studio]:
    clock = ShiftedClock()
    clock.stop()
    async with running_harness(settings, clock) as harness:
        yield Studio(harness, store, await registered(harness))


def facts(standing: dict[str, Any]) -> Standing:
    names = ("board", "rank", "total", "score", "submission")
    return tuple(standing[name] for name in names)  # type: ignore[return-value]


def span_of(window: str, now_ms: int) -> tuple[int, int]:
    """The span of the current window of a kind in UTC (Unix ms); seasons are days here."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if window == "alltime":
        return 0, 2**53
    begin = day - timedelta(days=day.weekday()) if window == "weekly" else day
    return int(begin.timestamp() * 1000), int(
        (begin + timedelta(days=7 if window == "weekly" else 1)).timestamp() * 1000
    )


async def made_resident(studio: Studio, names: list[str]) -> None:
    """Has a steward build the index of these boards, which are read for it."""
    steward = studio.harness.steward()
    for name in names:
        await studio.get(f"/v1/boards/{name}/entries")
    while await steward.see_to_cold():
        pass
    for name in names:
        answer = await studio.harness.get(f"/v1/boards/{name}/entries")
        assert None is answer.headers.get("Scoregate-Source"), name


async def test_ranks_across_boards_are_those_of_sql(studio: Studio, monkeypatch: pytest.MonkeyPatch):
    """With ties, in each window, after removals and deletions: by the index, the ledger, or some of each."""
    monkeypatch.setattr(index_across_boards, "BOARDS_PER_CALL", 2)
    random = Random(4711)
    await studio.operate("track", "open", *NAMES)
    await studio.operate("level", "open", "level.a")
    for _ in range(2):
        for name in NAMES[:-1]:
            players = random.sample(PLAYERS, 7) if random.random() < 0.3 else PLAYERS
            await studio.play(name, {player: random.randrange(4) for player in players})
        studio.harness.clock.shift(DAY_S)
    await studio.play("level.a", {"ada": 1})
    for name in NAMES[:8]:
        await studio.play(name, {player: random.randrange(5) for player in random.sample(PLAYERS, 6)})
    assert {"ledger"} == await studio.compare(), "nobody used the boards yet"

    live = NAMES[:7] + NAMES[8:11]
    await made_resident(studio, live)
    await studio.operate("track", "close", NAMES[0], NAMES[1])
    for player, name in (("ada", NAMES[2]), ("p0", NAMES[3]), ("p1", NAMES[4])):
        await studio.send(
            f"/v1/boards/{name}/removals", {"operation": secrets.token_hex(8), "player": player}
        )
    await studio.operate("track", "delete", NAMES[7])
    assert NAMES[2] not in [row[0] for row in await studio.by_sql("alltime", "unique")]
    assert {"index"} == await studio.compare()

    client: Any = studio.harness.edge.index.client
    for name in live[::2]:
        await client.delete(keys.sentinel(name))
    assert {"ledger"} == await studio.compare(), "half of the boards are not whole"
    counted = LEDGER_PAGES.labels("track")
    before = counted._value.get()
    shown = (await studio.standings("limit=100"))[1]
    missing = [standing[0] for standing in shown if standing[0] in live[::2]]
    assert len(missing) < len(shown)
    assert len(missing) == counted._value.get() - before, "the index answers for the others"
    nodes = {"target_nodes": "primaries"} if hasattr(client, "get_primaries") else {}
    await client.flushall(**nodes)
    assert {"ledger"} == await studio.compare()
    with (
        monkeypatch.context() as patch
    ):  # some windows are small, of which two are of one read, and some are not
        patch.setattr(across_boards, "SMALL", 7)
        patch.setattr(player_standings, "ENTRIES_LIMIT", 2)
        assert {"ledger"} == await studio.compare()
    noted = [key for name in NAMES for key in (keys.used(name), keys.wanted(lane_of(name)))]
    assert not any([await client.exists(key) for key in noted]), "no board is brought back into Redis"

    calls = []

    async def away(*_: Any) -> None:
        calls.append(1)
        raise IndexUnavailable("away")

    monkeypatch.setattr(StandingsReader, "standings", away)
    assert {"ledger"} == await studio.compare()
    calls.clear()
    await studio.get(f"{STANDINGS}?limit=100")
    assert [1] == calls, "after the first failure nobody asks the index again"
