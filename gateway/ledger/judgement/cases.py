"""The background of a moderator's case: the player's name and scores, and the ranks after an approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, func, select

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.judgement.promotion_impact import is_changed_by, place_with, reached_with, rests_on
from gateway.ledger.records import StoredRecording, StoredSubmission
from gateway.ledger.schema import events, is_in, players, recordings, submissions
from gateway.ledger.standings.ranks import RankedWindow
from gateway.ledger.standings.slots import read_slot
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.ranking import Ranking
from policies.vocabulary import State
from policies.windows import calendar_of

HISTORY: Final = 20
"""Most promoted scores of the player that a case shows, the newest ones."""

_s = submissions.c

_NAME = Query(select(players.c.name).where(players.c.player == bindparam("player")))
_SCORES = Query(
    select(_s.submission_id, _s.score, _s.achieved_at_ms)
    .where(is_in(State.PROMOTED), _s.board == bindparam("board"), _s.player == bindparam("player"))
    .order_by(_s.achieved_at_ms.desc())
    .limit(bindparam("count"))
)
_VERSIONS = Query(
    select(events.c.submission_id, func.max(events.c.seq))
    .where(is_listed(events.c.submission_id))
    .group_by(events.c.submission_id)
)
_RECORDING = Query(
    select(recordings.c.digest, recordings.c.size_bytes, recordings.c.body).where(
        recordings.c.digest == bindparam("digest")
    )
)


class PlayerScore(NamedTuple):
    """A promoted submission of the player."""

    submission_id: str
    score: int
    achieved_at_ms: int


class Background(NamedTuple):
    """The player's name, newest scores, and rank in each window after an approval.

    Players named by a trusted server have no name. A window where the submission would not set the standing
    has no rank, nor has one that is in the archive alone.
    """

    name: str | None
    scores: Sequence[PlayerScore]
    ranks: Mapping[str, int | None]


def background(ranking: Ranking, submission: StoredSubmission, *, now_ms: int) -> Operation[Background]:
    """Return the background of a case, from the ledger as it is now."""

    async def work(tx: Transaction) -> Background:
        name = await tx.rows(_NAME, player=submission.player)
        scores = await tx.rows(_SCORES, board=submission.board, player=submission.player, count=HISTORY)
        calendar = calendar_of(ranking.policy)
        windows = [calendar.at(kind, submission.achieved_at_ms) for kind in ranking.policy.windows]
        # The standings of a window that has expired go, and those that are left would tell a rank too good.
        ranks = {
            window.name: None
            if window.expires_at_ms is not None and window.expires_at_ms <= now_ms
            else await _rank(tx, ranking, window, submission)
            for window in windows
        }
        return Background(name[0][0] if name else None, [PlayerScore(*row) for row in scores], ranks)

    return work


async def _rank(tx: Transaction, ranking: Ranking, window: Any, submission: StoredSubmission) -> int | None:
    """Return the unique rank that a submission has in a window, or would have once it is promoted."""
    slot = await read_slot(tx, ranking, window.name, submission.player)
    ranked = RankedWindow(tx, ranking, window.name)
    if slot.place is not None and rests_on(ranking, slot, submission):
        return await ranked.ahead(slot.place) + 1
    if submission.state is State.PROMOTED:
        return None
    reached = reached_with(ranking, slot, submission)
    if not is_changed_by(ranking, reached, submission):
        return None
    place = place_with(ranking, window, submission, reached)
    is_own_ahead = slot.place is not None and slot.place < place
    return await ranked.ahead(place) + 1 - is_own_ahead


def versions(submission_ids: Sequence[str]) -> Operation[dict[str, int]]:
    """Return the sequence number of each submission's newest event."""

    async def work(tx: Transaction) -> dict[str, int]:
        return {row[0]: row[1] for row in await fetch_listed(tx, _VERSIONS, list(submission_ids))}

    return work


def recording_of(digest: bytes) -> Operation[StoredRecording | None]:
    """Return a recording as the ledger has it, or None."""

    async def work(tx: Transaction) -> StoredRecording | None:
        rows = await tx.rows(_RECORDING, digest=digest)
        return StoredRecording(*rows[0]) if rows else None

    return work
