"""A page of columns makes the same board as showing each change: for every tie-break, layout and kind of rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.generation import Generation, ShardedGeneration, generation_of
from gateway.index.shards import board_index
from gateway.shared_records import BaselinePage, Change, Standing, StandingPage, StoredBaseline
from policies.ranking import Ranking
from policies.vocabulary import State
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

KINDS = ["unique", "sparse", "dense"]
TODAY, END_MS = "daily:20301120", 1_921_449_600_000
RANKINGS = {
    "first": a_ranking(ranks=KINDS),
    "ascending": a_ranking(order="ascending"),
    "composite": a_ranking(
        windows=["alltime", "daily"],
        tie_break="composite",
        tie_resolution_ms=60_000,
        score={"minimum": 0, "maximum": 1000},
        ranks=KINDS,
    ),
    "fields": a_ranking(
        tie_break="fields",
        tie_fields=[{"stat": "deaths"}],
        stats={"deaths": {"minimum": 0, "maximum": 9}},
        ranks=KINDS,
    ),
    "ranges": a_ranking(ranges=[20, 60], ranks=KINDS),
    "shards": a_ranking(shards=3),
}
FACTS: tuple[tuple[Any, ...], ...] = (
    (7, 0, 0.0, 0.0, None, None, ()),
    (8, 3, 1 / 3, 2e22, -5, 0, (-5, 0, 7)),
)


def stood(ranking: Ranking, window: str) -> list[Standing]:
    """Players with ties, with and without a name, and of whom one has nothing that counts."""
    standings = []
    for seq in range(1, 25):
        score = None if seq % 8 == 0 else seq * 37 % 5 * 20
        each = a_standing(f"p{seq}", score, seq, seq, ranking, {"deaths": seq % 3}, window)
        expires_at_ms = END_MS if window == TODAY else each.expires_at_ms
        standings.append(replace(each, name=each.name if seq % 3 else "", expires_at_ms=expires_at_ms))
    return standings


async def content(client: Redis, board: str) -> dict[str, Any]:
    """Each key that a board is read from, with what it holds and when it expires."""
    found: dict[str, Any] = {}
    passing = {keys.stem(board) + name for name in ("pending", "settled", "whole", "version", "changes")}
    for key in {each async for each in client.scan_iter(match="lb:*") if "/" in each or board in each}:
        kind = await client.type(key)
        if (
            key in passing
            or kind == "stream"
            or key.endswith((":whole", ":relayed", ":residents", ":wanted"))
        ):
            continue
        held = await (client.zrange(key, 0, -1, withscores=True) if kind == "zset" else client.hgetall(key))
        found[key] = (kind, held, await client.pexpiretime(key))
    return found


async def rebuilt(client: Redis, ranking: Ranking, windows: dict[str, list[Standing]]) -> None:
    """Build the windows in pages, and put them in place."""
    generation: Generation | ShardedGeneration = generation_of(board_index(client, ranking))
    await generation.begin()
    for window, standings in windows.items():
        for first in range(0, len(standings), 7):
            page = StandingPage.of(standings[first : first + 7])
            await generation.put_page(window, standings[0].expires_at_ms, page)
        await generation.put_page(window, standings[0].expires_at_ms, StandingPage.of([]))
    await generation.put_baseline_page(BaselinePage(["ada", ""], FACTS))
    await generation.put_baseline_page(BaselinePage([], []))
    await generation.swap(list(windows))
    await generation.finish()


@pytest.mark.parametrize("name", RANKINGS)
async def test_a_board_of_pages_is_the_board_of_its_changes(client: Redis, name: str):
    """Byte for byte: places, slots, names, groups, baselines and ends of windows."""
    ranking = RANKINGS[name]
    windows = {window: stood(ranking, window) for window in ("alltime", TODAY)}
    index = board_index(client, ranking)
    for each in (standing for of_window in windows.values() for standing in of_window):
        await index.project(Change(each.seq, "", "b", each.player, State.PROMOTED, (each,)))
    baselines = tuple(
        StoredBaseline("b", subject, count, mean, squares, seq, scores, lowest, highest)
        for subject, (seq, count, mean, squares, lowest, highest, scores) in zip(
            ("ada", ""), FACTS, strict=True
        )
    )
    await index.project(Change(99, "", "b", "ada", State.PROMOTED, (), baselines))
    projected = await content(client, "b")
    await client.flushall()
    await rebuilt(client, ranking, windows)
    assert projected == await content(client, "b")
    assert 4 < len(projected)
