"""The impact that waiting submissions would have on their boards, as the standings are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import bindparam, select

from gateway.ledger.queries import replay_findings, submissions_listed
from gateway.ledger.records import StoredSubmission
from gateway.ledger.schema import is_in, standings, submissions
from gateway.ledger.standings.counting import CountChange, with_one_more
from gateway.ledger.standings.slots import SlotContent, read_slot
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.choices import Operator
from policies.fields import SortOrder
from policies.ranking import BoardPlace, Ranking, ReachedScore
from policies.vocabulary import SCORE_LIMIT, Finding, Severity, State
from policies.windows import calendar_of
from validators.verification_priority import PromotionImpact, expected_harm

_ADDING: Final = frozenset({Operator.SUM, Operator.COUNT})

_st = standings.c
_at: Final[dict[str, Any]] = {"board": bindparam("board"), "window": bindparam("window")}
_LAST_OF_TOP = Query(
    select(_st.order_value, _st.member)
    .where(_st.board == _at["board"], _st.window == _at["window"], _st.score.is_not(None))
    .order_by(_st.order_value, _st.member)
    .offset(bindparam("before"))
    .limit(1)
)

_s = submissions.c
_OTHERS = Query(
    select(_s.submission_id)
    .where(
        is_in(State.PROMOTED),
        _s.board == bindparam("board"),
        _s.player == bindparam("player"),
        _s.achieved_at_ms >= bindparam("begin"),
        _s.achieved_at_ms < bindparam("end"),
        _s.submission_id != bindparam("submission"),
    )
    .limit(1)
)


class WaitingRow(Protocol):
    """A submission that waits for a worker or a moderator."""

    @property
    def seq(self) -> int:
        """The number of its row."""
        ...

    @property
    def submission_id(self) -> str:
        """The submission's id."""
        ...

    @property
    def board(self) -> str:
        """The board's name."""
        ...


class _WindowImpact(NamedTuple):
    """The impact on one window. `gain` is None if the player has no standing there."""

    counts: bool
    enters_top: bool
    gain: int | None


class TopPlaces:
    """The last places of boards' tops, each read once: submissions that wait together ask for the same."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._read: dict[tuple[str, str, int], BoardPlace | None] = {}

    async def last(self, board: str, window: str, before: int) -> BoardPlace | None:
        """Return the place that follows so many others in a window; None if there are no more."""
        where = board, window, before
        if where not in self._read:
            rows = await self._tx.rows(_LAST_OF_TOP, board=board, window=window, before=before)
            self._read[where] = BoardPlace(*rows[0]) if rows else None
        return self._read[where]


async def impact_in(
    tx: Transaction,
    ranking: Ranking,
    submission: StoredSubmission,
    top: int,
    places: TopPlaces | None = None,
) -> PromotionImpact:
    """Return the impact of promoting a submission now.

    The top of its board are the first `top` of each window. One that a standing rests on already, as a check
    may ask about, has the impact that it had before, but for its gain: that is 0 if others count beside it.

    The gain is the smallest of all windows, over the player's best standing: a first score of the day means
    little to a player whose best of all time is better.
    """
    calendar, places = calendar_of(ranking.policy), places or TopPlaces(tx)
    impacts = [
        await _in_window(tx, ranking, calendar.at(kind, submission.achieved_at_ms), submission, top, places)
        for kind in ranking.policy.windows
    ]
    gains = [impact.gain for impact in impacts if impact.gain is not None]
    return PromotionImpact(
        counts=any(impact.counts for impact in impacts),
        enters_top=any(impact.enters_top for impact in impacts),
        is_newcomer=not gains,
        gain=max(0, min(gains, default=0)),
    )


async def _in_window(
    tx: Transaction,
    ranking: Ranking,
    window: Any,
    submission: StoredSubmission,
    top: int,
    places: TopPlaces,
) -> _WindowImpact:
    slot = await read_slot(tx, ranking, window.name, submission.player)
    if slot.place is not None and rests_on(ranking, slot, submission):
        place, is_own_ahead = slot.place, True
        gain = 0 if await _has_others(tx, window, submission) else None
    else:
        reached = reached_with(ranking, slot, submission)
        gain = _gain(ranking, slot, reached.score)
        if not is_changed_by(ranking, reached, submission):
            return _WindowImpact(counts=False, enters_top=False, gain=gain)
        place = place_with(ranking, window, submission, reached)
        is_own_ahead = slot.place is not None and slot.place < place
    # The standing that it replaces may be ahead of it (`latest`), and goes, as its own does.
    last = await places.last(submission.board, window.name, top - 1 + is_own_ahead)
    return _WindowImpact(counts=True, enters_top=last is None or place < last, gain=gain)


async def _has_others(tx: Transaction, window: Any, submission: StoredSubmission) -> bool:
    """Return whether others of the player count in a window beside a submission."""
    rows = await tx.rows(
        _OTHERS,
        board=submission.board,
        player=submission.player,
        begin=window.begin_ms,
        end=window.end_ms,
        submission=submission.submission_id,
    )
    return bool(rows)


def rests_on(ranking: Ranking, slot: SlotContent, submission: StoredSubmission) -> bool:
    """Return whether a standing rests on a submission already: a sum does on all that count."""
    if ranking.policy.operator in _ADDING and submission.state is State.PROMOTED:
        return True
    return slot.submission_id == submission.submission_id


def is_changed_by(ranking: Ranking, reached: ReachedScore, submission: StoredSubmission) -> bool:
    """Return whether a standing is another one with a submission: to a sum each adds, the newest or not."""
    return ranking.policy.operator in _ADDING or reached.submission_id == submission.submission_id


def reached_with(ranking: Ranking, slot: SlotContent, submission: StoredSubmission) -> ReachedScore:
    """Return the score that the player would reach in a window if the submission was promoted."""
    counted = CountChange(
        1,
        submission.submission_id,
        submission.seq,
        submission.achieved_at_ms,
        submission.claim.score,
        submission.claim.stats,
    )
    return with_one_more(ranking, slot, counted)


def place_with(
    ranking: Ranking, window: Any, submission: StoredSubmission, reached: ReachedScore
) -> BoardPlace:
    """Return the place of a reached score. A sum beyond the limits of scores takes the place of the limit."""
    score = max(-SCORE_LIMIT, min(SCORE_LIMIT, reached.score))
    return ranking.place(window, submission.player, reached._replace(score=score))


def _gain(ranking: Ranking, slot: SlotContent, score: int) -> int | None:
    if slot.score is None:
        return None
    difference = score - slot.score
    return -difference if ranking.policy.order is SortOrder.ASCENDING else difference


def impact_of(ranking: Ranking, submission: StoredSubmission, top: int) -> Operation[PromotionImpact]:
    """Return the impact of one submission on its board."""

    async def work(tx: Transaction) -> PromotionImpact:
        return await impact_in(tx, ranking, submission, top)

    return work


def harms_of(
    rows: Sequence[WaitingRow],
    rankings: Mapping[str, Ranking],
    tops: Mapping[str, int],
    *,
    with_replays: bool = False,
) -> Operation[dict[int, int]]:
    """Return the expected harm of each row's submission, by the rows' sequence numbers.

    The harm is 0 on a board without a ranking, which has no standings to suffer. `with_replays` the findings
    of replays count too.
    """

    async def work(tx: Transaction) -> dict[int, int]:
        harms = dict.fromkeys((row.seq for row in rows), 0)
        ids = [row.submission_id for row in rows] if with_replays else []
        found = await replay_findings(ids)(tx)
        waiting = await submissions_listed([row.submission_id for row in rows])(tx)
        places = TopPlaces(tx)
        for row in rows:
            submission = waiting.get(row.submission_id)
            if submission and row.board in rankings:
                impact = await impact_in(tx, rankings[row.board], submission, tops[row.board], places)
                flagged = is_flagged((*submission.findings, *found.get(row.submission_id, ())))
                harms[row.seq] = expected_harm(impact, is_flagged=flagged)
        return harms

    return work


def is_flagged(findings: Sequence[Finding]) -> bool:
    """Return whether a finding is more than a note."""
    return any(finding.severity is not Severity.NOTE for finding in findings)
