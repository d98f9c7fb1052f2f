"""What submissions that wait would do to their board, told from its standings as they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.queries import load_submission
from gateway.ledger.records import OutboxRow, StoredSubmission
from gateway.ledger.schema import standings
from gateway.ledger.standings.folds import CountChange, SlotContent, read_slot, with_one_more
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.fields import SortOrder
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT, Severity
from policies.windows import calendar_of
from validators.verification_priority import PromotionImpact, expected_harm

_st = standings.c
_at: Final[dict[str, Any]] = {"board": bindparam("board"), "window": bindparam("window")}
_LAST_OF_TOP = Query(
    select(_st.order_value, _st.member)
    .where(_st.board == _at["board"], _st.window == _at["window"], _st.score.is_not(None))
    .order_by(_st.order_value, _st.member)
    .offset(bindparam("before"))
    .limit(1)
)


class _InWindow(NamedTuple):
    """What a submission would do in one window; `gain` None where its player has no standing there."""

    counts: bool
    enters_top: bool
    gain: int | None


async def prospect_of(
    tx: Transaction, ranking: Ranking, found: StoredSubmission, top: int
) -> PromotionImpact:
    """What a submission would do if it was promoted now; its board's top are the first `top` of each window.

    The gain is that over the best of the player's standings: the best of a day says little where another says more.
    """
    calendar = calendar_of(ranking.policy)
    ahead = [
        await _in_window(tx, ranking, calendar.at(kind, found.achieved_at_ms), found, top)
        for kind in ranking.policy.windows
    ]
    gains = [each.gain for each in ahead if each.gain is not None]
    return PromotionImpact(
        counts=any(each.counts for each in ahead),
        enters_top=any(each.enters_top for each in ahead),
        is_newcomer=not gains,
        gain=max(0, min(gains, default=0)),
    )


async def _in_window(
    tx: Transaction, ranking: Ranking, window: Any, found: StoredSubmission, top: int
) -> _InWindow:
    held = await read_slot(tx, ranking, window.name, found.player)
    reached = reached_with(ranking, held, found)
    if reached.submission_id != found.submission_id:
        return _InWindow(counts=False, enters_top=False, gain=_gain(ranking, held, reached.score))
    place = place_with(ranking, window, found, reached)
    # What it takes the place of may be ahead of it (`latest`), and goes.
    is_own_ahead = held.place is not None and held.place < place
    last = await tx.rows(_LAST_OF_TOP, board=found.board, window=window.name, before=top - 1 + is_own_ahead)
    return _InWindow(
        counts=True,
        enters_top=not last or place < BoardPlace(*last[0]),
        gain=_gain(ranking, held, reached.score),
    )


def reached_with(ranking: Ranking, held: SlotContent, found: StoredSubmission) -> ReachedScore:
    """Return what the player of a submission would stand at in a window if it was promoted."""
    counted = CountChange(
        1, found.submission_id, found.seq, found.achieved_at_ms, found.claim.score, found.claim.stats
    )
    return with_one_more(ranking, held, counted)


def place_with(ranking: Ranking, window: Any, found: StoredSubmission, reached: ReachedScore) -> BoardPlace:
    """Return where that would stand; a sum past what a board can show stands at its end."""
    score = max(-SCORE_LIMIT, min(SCORE_LIMIT, reached.score))
    return ranking.place(window, found.player, reached._replace(score=score))


def _gain(ranking: Ranking, held: SlotContent, score: int) -> int | None:
    if held.score is None:
        return None
    difference = score - held.score
    return -difference if ranking.policy.order is SortOrder.ASCENDING else difference


def prospect(ranking: Ranking, found: StoredSubmission, top: int) -> Operation[PromotionImpact]:
    """What one submission would do to its board."""

    async def work(tx: Transaction) -> PromotionImpact:
        return await prospect_of(tx, ranking, found, top)

    return work


def harms_of(
    rows: Sequence[OutboxRow], rankings: Mapping[str, Ranking], tops: Mapping[str, int]
) -> Operation[dict[int, int]]:
    """The expected harm of each submission that these rows are of, by the rows' sequence numbers.

    A board without a ranking has no standings that could suffer: 0.
    """

    async def work(tx: Transaction) -> dict[int, int]:
        harms = dict.fromkeys((row.seq for row in rows), 0)
        for row in rows:
            found = await load_submission(tx, row.submission_id)
            if found and row.board in rankings:
                ahead = await prospect_of(tx, rankings[row.board], found, tops[row.board])
                harms[row.seq] = expected_harm(ahead, is_flagged=is_flagged(found))
        return harms

    return work


def is_flagged(found: StoredSubmission) -> bool:
    """Whether something was found that asks for more than a note."""
    return any(each.severity is not Severity.NOTE for each in found.findings)
