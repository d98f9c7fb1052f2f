"""`board refold` killed in the middle: what it has not folded is not shown, and a second one goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from gateway.runtime.failpoints import VARIABLE
from gateway.runtime.settings import Settings, load_settings
from tests.gateway.edge.test_families import SCORE, Studio, follow_rules, opening
from tests.support.attack import registered
from tests.support.harness import Harness, free_port, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.preloaded import finished
from tests.support.stores import Store, on_both_if_thorough
from tests.support.valkey import ValkeyServer

PLAYERS = 150
"""More than fit into one transaction of a refold."""


def write_all(folder: Path, **changes: Any) -> Path:
    """A board of its own, and a rollup whose family stays as it is."""
    return write_policies(
        folder,
        a_policy("vault", writes="trusted", **changes),
        a_family(writes="trusted", score=SCORE),
        {"board": "world", "title": "World", "rollup": {"family": "track"}, **changes},
    )


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer, store: Store) -> Settings:
    return load_settings(
        data_dir=tmp_path / "data",
        policies_dir=write_all(tmp_path / "policies"),
        redis_url=valkey.url,
        ledger_url=store.url,
        bind=f"127.0.0.1:{free_port()}",
    )


async def write_scores(studio: Studio, board: str, times: int) -> None:
    """One score for each player of a board, no two alike."""
    entries = [
        {
            "action": "write",
            "operation": f"{board[-5:].replace('.', '-')}-{at}",
            "player": f"p{at:03}",
            "score": times * at,
        }
        for at in range(1, PLAYERS + 1)
    ]
    done = await studio.harness.as_server(
        studio.private, "eu-1", f"/v1/boards/{board}/entries:batch", entries
    )
    assert (200, 0) == (done.status, done.body["refused"]), done.raw


async def shown(harness: Harness, board: str) -> list[tuple[int, str, int]] | str:
    """All entries of a board as readers get them, or why they get none."""
    found: list[tuple[int, str, int]] = []
    for offset in range(0, PLAYERS, 100):
        answer = await harness.get(f"/v1/boards/{board}/entries?limit=100&offset={offset}")
        if answer.status != 200:
            return answer.problem
        found += [(entry["rank"], entry["player"], entry["score"]) for entry in answer.body["entries"]]
    return found


async def by_sql(store: Store, board: str) -> list[tuple[int, str, int]]:
    """The same from the promoted runs alone, the lowest score first; a rollup adds them up."""
    rows = await store.sql(
        "SELECT row_number() OVER (ORDER BY sum(score)), player, sum(score) FROM submissions "
        f"WHERE state = 'promoted' AND (board = '{board}' OR '{board}' = 'world' AND board LIKE 'track.%') "
        "GROUP BY player ORDER BY 1"
    )
    return [(int(rank), str(player), int(score)) for rank, player, score in rows]


@on_both_if_thorough
async def test_a_refold_that_was_killed_is_done_by_the_next_one(settings: Settings, store: Store):
    """Of a rollup and of a board of its own: half of it is folded, and nobody reads it; then a steward notes it, and SQL says the same."""
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.done(opening("a"), opening("b"))
        for board, times in (("vault", 3), ("track.a", 1), ("track.b", 2)):
            await write_scores(studio, board, times)
        await follow_rules(harness)
        assert PLAYERS == len(await shown(harness, "vault")) == len(await shown(harness, "world"))
    write_all(settings.policies_dir, order="ascending")
    environment = os.environ | {
        "SCOREGATE_DATA_DIR": str(settings.data_dir),
        "SCOREGATE_POLICIES_DIR": str(settings.policies_dir),
        "SCOREGATE_REDIS_URL": settings.redis_url,
        "SCOREGATE_LEDGER_URL": store.url,
    }
    async with running_harness(settings) as harness:
        for board in ("vault", "world"):
            killed = finished(["board", "refold", board], environment | {VARIABLE: "inside-refold:kill"})
            assert -signal.SIGKILL == killed.returncode, killed.stderr
            rules = await store.sql(f"SELECT count(*) FROM standings WHERE board = '{board}' GROUP BY rule")
            assert [50, 100] == sorted(int(count) for (count,) in rules)
            harness.edge.outdated._looked_s = float("-inf")
            assert "board-rebuilding" == await shown(harness, board)
            done = finished(["board", "refold", board], environment)
            assert 0 == done.returncode, done.stderr
            assert f"{board}: looked at {PLAYERS} players, changed 50 standings" in done.stdout
            assert "board-rebuilding" == await shown(harness, board)
        await follow_rules(harness)
        for board in ("vault", "world"):
            assert await by_sql(store, board) == await shown(harness, board)
