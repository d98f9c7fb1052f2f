"""Ranks of each kind, on boards whose own kind is another, and with statistics at their limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.runtime.settings import Settings
from tests.support.attack import registered
from tests.support.groups import by_server
from tests.support.harness import Harness, free_port
from tests.support.policies import EXACT_LIMIT, a_policy, write_policies
from tests.support.valkey import ValkeyServer

BY_KILLS = {
    "tie_break": "fields",
    "tie_fields": [{"stat": "kills"}],
    "score": {"minimum": 0, "maximum": 1000},
}
BOARDS = (
    a_policy("sparse", writes="trusted", ranks=["sparse"]),
    a_policy("parted", writes="trusted", ranks=["sparse"], shards=3),
    a_policy("dense", writes="trusted", ranks=["dense"], **BY_KILLS),
    a_policy("headed", writes="trusted", exact_ranks=10, **BY_KILLS),
)


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", *BOARDS)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def write(harness: Harness, board: str, entries: list[tuple[int, dict[str, int]]]) -> Ed25519PrivateKey:
    """Writes a score with its statistics for p0, p1 and so on; the key of the server that did."""
    private = await registered(harness)
    told = [
        {"action": "write", "operation": f"op-{n}", "player": f"p{n}", "score": score, "stats": stats}
        for n, (score, stats) in enumerate(entries)
    ]
    path = f"/v1/boards/{board}/entries/batch"
    answer = await harness.send(by_server(harness, private, "POST", path, told))
    assert 200 == answer.status, answer.raw
    return private


@pytest.mark.parametrize("board", ["sparse", "parted"])
async def test_a_board_without_unique_ranks_answers_every_read(harness: Harness, board: str):
    """Pages, neighbours, entries, percentiles and histograms, in one part and in three."""
    await write(harness, board, [(9, {}), (9, {}), (7, {}), (5, {})])
    base = f"/v1/boards/{board}"
    page = await harness.get(f"{base}/entries?limit=3")
    assert [1, 1, 3] == [each["rank"] for each in page.body["entries"]]
    behind = await harness.get(f"{base}/entries?cursor={page.body['next']}")
    assert [(4, "p3")] == [(each["rank"], each["player"]) for each in behind.body["entries"]]
    assert 4 == len((await harness.get(f"{base}/entries/p2/around")).body["entries"])
    entry = (await harness.get(f"{base}/entries/p2")).body
    assert (3, 50.0) == (entry["rank"], entry["percentile"])
    percentiles = (await harness.get(f"{base}/percentiles?at=0,100")).body["percentiles"]
    assert [5, 9] == [each["score"] for each in percentiles]
    assert 4 == (await harness.get(f"{base}/distribution?bins=1")).body["bins"][0]["count"]


async def test_dense_ranks_outlast_comparing_with_a_statistic_at_its_limit(harness: Harness):
    """The steward leaves the group of 2^53 - 1 where it is, which is ahead of every other."""
    await write(harness, "dense", [(5, {"kills": EXACT_LIMIT}), (5, {"kills": 3}), (5, {})])
    before = await harness.get("/v1/boards/dense/entries")
    steward = harness.steward()
    assert 0 == sum([await steward.reconcile() for _ in range(20)])
    after = await harness.get("/v1/boards/dense/entries")
    assert [(1, "p0"), (2, "p1"), (3, "p2")] == [
        (each["rank"], each["player"]) for each in after.body["entries"]
    ]
    assert before.body == after.body


async def test_a_statistic_at_its_limit_is_not_taken_for_below_the_head(harness: Harness):
    """On a board that keeps its first ranks, whose place begins with a minus stands there with its rank."""
    tail = [(number, {"kills": 1}) for number in range(130)]
    private = await write(harness, "headed", [(1000, {"kills": EXACT_LIMIT}), *tail])
    entry = (await harness.get("/v1/boards/headed/entries/p0")).body
    assert (1, 131, 100.0, 0.0) == tuple(
        entry[name] for name in ("rank", "total", "percentile", "percentile_error")
    )
    body = {"operation": "gone", "player": "p0"}
    path = "/v1/boards/headed/removals"
    gone = by_server(harness, private, "POST", path, body)
    assert 200 == (await harness.send(gone)).status
    page = (await harness.get("/v1/boards/headed/entries?limit=1")).body
    assert (130, "p130") == (page["total"], page["entries"][0]["player"])
