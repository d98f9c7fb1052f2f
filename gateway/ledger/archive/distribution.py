"""Score distributions of archived windows, found by binary search: ranks are in the order of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson
from sqlalchemy import bindparam, select

from gateway.ledger.archive.reading import ArchivedEntry, archived_players
from gateway.ledger.archive.windows import ArchivedWindow, load
from gateway.ledger.schema import archived_entries
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.shared_records import ScoreDistribution, position_at
from policies.fields import SortOrder

_e = archived_entries.c
_SCORE: Final = Query(
    select(_e.score).where(
        _e.board == bindparam("board"),
        _e.window == bindparam("window"),
        _e.revision == bindparam("revision"),
        _e.rank == bindparam("rank"),
    )
)


class ArchivedDistribution(NamedTuple):
    """An archived window and the distribution of its scores."""

    window: ArchivedWindow
    distribution: ScoreDistribution


class ArchivedStanding(NamedTuple):
    """A player's final entry, how many entries have a better score, and the next better score.

    `entry` is None without one, `next_score` if no score is better.
    """

    window: ArchivedWindow
    entry: ArchivedEntry | None
    better: int = 0
    next_score: int | None = None


def archived_distribution(
    board: str, window: str, scores: Sequence[int], shares: Sequence[int]
) -> Operation[ArchivedDistribution | None]:
    """Return how many entries beat each score, and the score at each share; None if it is not readable."""

    async def work(tx: Transaction) -> ArchivedDistribution | None:
        archived = await load(tx, board, window)
        if archived is None or not archived.is_readable:
            return None
        better = tuple([await _better(tx, archived, score) for score in scores])
        if not (total := archived.entries):
            return ArchivedDistribution(archived, ScoreDistribution(0, better, (), None, None))
        positions = [*(position_at(total, share) for share in shares), 0, total - 1]
        *at, best, worst = [await _score_at(tx, archived, position + 1) for position in positions]
        return ArchivedDistribution(archived, ScoreDistribution(total, better, tuple(at), best, worst))

    return work


def archived_standing(board: str, window: str, player: str) -> Operation[ArchivedStanding | None]:
    """Return a player's final standing; None for a window that is not readable."""

    async def work(tx: Transaction) -> ArchivedStanding | None:
        page = await archived_players(board, window, [player])(tx)
        if page is None or not page.window.is_readable:
            return None
        if not page.entries:
            return ArchivedStanding(page.window, None)
        [entry] = page.entries
        better = await _better(tx, page.window, entry.score)
        following = await _score_at(tx, page.window, better) if better else None
        return ArchivedStanding(page.window, entry, better, following)

    return work


async def _better(tx: Transaction, archived: ArchivedWindow, score: int) -> int:
    """Return how many entries have a better score."""
    sign = 1 if orjson.loads(archived.policy)["order"] == SortOrder.ASCENDING else -1
    ahead, end = 0, archived.entries
    while ahead < end:
        middle = (ahead + end) // 2
        if sign * await _score_at(tx, archived, middle + 1) < sign * score:
            ahead = middle + 1
        else:
            end = middle
    return ahead


async def _score_at(tx: Transaction, archived: ArchivedWindow, rank: int) -> int:
    """Return the score at a rank (from 1) that exists."""
    key = {"board": archived.board, "window": archived.window, "revision": archived.revision}
    [[score]] = await tx.rows(_SCORE, **key, rank=rank)
    return int(score)
