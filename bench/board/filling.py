"""Boards with as many entries as asked for: players, names and scores like those of a game, placed as the fold places them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

from redis.asyncio import Redis

from gateway.index.generation import Generation
from gateway.records import Standing
from policies.ranking import Ranking, ReachedScore
from policies.windows import FOREVER_MS, window_named
from tests.support.policies import a_ranking

EPOCH_MS: Final = 1_795_132_800_000
"""2026-11-20 00:00 UTC: entries are reached from then on, two hundred a millisecond."""

PAGE: Final = 2_000
SCORES: Final = 999_983
"""A prime: scores go through all residues of it, so that they come in no order, and above a million entries they tie."""

WINDOWS: Final = ("alltime", "daily:20261120", "weekly:2026W47", "monthly:202611")
BOARD: Final = "bench"

TIE_BREAKS: Final[dict[str, dict[str, Any]]] = {
    "first": {},
    "composite": {"tie_break": "composite", "tie_resolution_ms": 86_400_000},
    "fields": {
        "tie_break": "fields",
        "tie_fields": [{"stat": "kills"}, {"stat": "deaths", "order": "ascending"}],
    },
}


def ranking_of(tie_break: str = "first", *, has_groups: bool = False, board: str = BOARD) -> Ranking:
    """The ranking of a board with four windows."""
    return a_ranking(
        board,
        score={"minimum": 0, "maximum": 10**6},
        windows=[name.partition(":")[0] for name in WINDOWS],
        ranks=["unique", "dense"] if has_groups else ["unique", "sparse"],
        **TIE_BREAKS[tie_break],
    )


def player_of(number: int) -> str:
    """A player's id, as the edge makes them: 21 characters."""
    return "p" + blake2b(b"%d" % number, digest_size=10).hexdigest()


def score_of(number: int) -> int:
    """The score of a player."""
    return number * 7_919 % SCORES


def standing_of(ranking: Ranking, window: str, number: int, seq: int, score: int) -> Standing:
    """What a player has in a window."""
    found, player, at_ms = window_named(ranking.policy, window), player_of(number), EPOCH_MS + number // 200
    ties = ranking.ties({"kills": number % 40, "deaths": number % 7})
    submission_id = f"01m7{number:022d}"
    place = ranking.place(found, player, ReachedScore(score, at_ms, seq, submission_id, ties))
    expires_at_ms = found.expires_at_ms or FOREVER_MS
    return Standing(
        ranking.policy.board,
        window,
        player,
        f"Player {number}",
        score,
        at_ms,
        seq,
        submission_id,
        expires_at_ms,
        seq,
        place.order,
        place.member,
        ranking.rule,
    )


def pages(ranking: Ranking, window: str, count: int) -> Iterator[list[Standing]]:
    """The standings of a window, some at a time."""
    for first in range(0, count, PAGE):
        numbers = range(first, min(count, first + PAGE))
        yield [standing_of(ranking, window, each, each + 1, score_of(each)) for each in numbers]


async def fill(client: Redis, ranking: Ranking, count: int, windows: Sequence[str] = WINDOWS[:1]) -> None:
    """Puts so many entries into each of these windows, by the way of a rebuild."""
    generation = Generation(client, ranking)
    await generation.begin()
    for window in windows:
        for page in pages(ranking, window, count):
            await generation.put_standings(page)
    await generation.swap(windows)
    await generation.finish()
