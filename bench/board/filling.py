"""Fills boards with players, names and scores like a game's, ordered as the fold orders them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

from redis.asyncio import Redis

from gateway.index.generation import Generation
from gateway.shared_records import Standing
from policies.ranking import Ranking, ReachedScore
from policies.windows import FOREVER_MS, window_named
from tests.support.policies import a_ranking

EPOCH_MS: Final = 1_795_132_800_000
"""2026-11-20 00:00 UTC: the time of the first entry; two hundred follow per millisecond."""

PAGE: Final = 2_000
SCORES: Final = 999_983
"""A prime: scores go through all its residues without order, and tie above a million entries."""

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
    """Return the ranking of a board with four windows."""
    return a_ranking(
        board,
        score={"minimum": 0, "maximum": 10**6},
        windows=[name.partition(":")[0] for name in WINDOWS],
        ranks=["unique", "dense"] if has_groups else ["unique", "sparse"],
        **TIE_BREAKS[tie_break],
    )


def player_of(number: int) -> str:
    """Return a player's id as the edge makes it: 21 characters."""
    return "p" + blake2b(b"%d" % number, digest_size=10).hexdigest()


def score_of(number: int) -> int:
    """Return the score of a player."""
    return number * 7_919 % SCORES


def standing_of(ranking: Ranking, window: str, number: int, seq: int, score: int) -> Standing:
    """Return a player's standing in a window."""
    span, player, at_ms = window_named(ranking.policy, window), player_of(number), EPOCH_MS + number // 200
    ties = ranking.ties({"kills": number % 40, "deaths": number % 7})
    submission_id = f"01m7{number:022d}"
    place = ranking.place(span, player, ReachedScore(score, at_ms, seq, submission_id, ties))
    expires_at_ms = span.expires_at_ms or FOREVER_MS
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
    """Yield the standings of a window in pages."""
    for first in range(0, count, PAGE):
        numbers = range(first, min(count, first + PAGE))
        yield [standing_of(ranking, window, number, number + 1, score_of(number)) for number in numbers]


async def fill(client: Redis, ranking: Ranking, count: int, windows: Sequence[str] = WINDOWS[:1]) -> None:
    """Put `count` entries into each of these windows, as a rebuild does."""
    generation = Generation(client, ranking)
    await generation.begin()
    for window in windows:
        for page in pages(ranking, window, count):
            await generation.put_standings(page)
    await generation.swap(windows)
    await generation.finish()
