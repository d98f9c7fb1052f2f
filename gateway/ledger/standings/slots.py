"""Slots of standings, one for each window and player: what they hold, and what is put into them."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from sqlalchemy import and_, bindparam, literal_column, select

from gateway.ledger.schema import anchored_windows, standings
from gateway.ledger.standings.noted_moves import note_move
from gateway.ledger.standings.rollups import Share, ShareChange
from gateway.ledger.transaction import Cells, OneOf, Query, Transaction
from gateway.shared_records import Standing
from policies.ranking import BoardPlace, Ranking, ReachedScore

_FOLDED: Final = (
    "score",
    "achieved_at_ms",
    "achieved_seq",
    "submission_id",
    "expires_at_ms",
    "seq",
    "order_value",
    "member",
    "rule",
)

_at: Final[dict[str, Any]] = {"board": bindparam("board"), "window": bindparam("window")}
_one = select(literal_column("1").label("one")).subquery()
_HELD = Query(
    select(anchored_windows.c.rule.label("anchors"), *(standings.c[name] for name in _FOLDED)).select_from(
        _one.outerjoin(
            anchored_windows, and_(*(anchored_windows.c[name] == _at[name] for name in _at))
        ).outerjoin(
            standings,
            and_(
                *(standings.c[name] == _at[name] for name in _at), standings.c.player == bindparam("player")
            ),
        )
    )
)


_ANCHORED = Query(
    select(anchored_windows.c.window, anchored_windows.c.rule).where(
        anchored_windows.c.board == bindparam("board"), OneOf(anchored_windows.c.window, "windows")
    )
)
_HELD_BY = Query(
    select(standings.c.window, standings.c.player, *(standings.c[name] for name in _FOLDED)).where(
        standings.c.board == bindparam("board"),
        OneOf(standings.c.window, "windows"),
        OneOf(standings.c.player, "of_players"),
    )
)


class SlotContent(NamedTuple):
    """A slot before a change: the rule of the window's anchors, if any, and the player's standing, if any."""

    anchors: str | None
    score: int | None
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str
    expires_at_ms: int
    seq: int
    order: int
    member: str
    rule: str

    @property
    def place(self) -> BoardPlace | None:
        """The place of the standing; None if nothing counts."""
        return None if self.score is None else BoardPlace(self.order, self.member)

    @property
    def share(self) -> Share:
        """The standing as a share of a rollup."""
        return Share(self.score, self.achieved_at_ms, self.achieved_seq, self.submission_id)


class StandingFold(NamedTuple):
    """A fold of a player's standing in a window, and what the slot had before it."""

    before: SlotContent
    standing: Standing

    @property
    def share(self) -> ShareChange:
        """The change as one of a share of a rollup."""
        now = self.standing
        after = Share(now.score, now.achieved_at_ms, now.achieved_seq, now.submission_id)
        return ShareChange(now.player, now.name, self.before.share, after)

    @property
    def place(self) -> BoardPlace | None:
        """The place of the standing; None if nothing counts."""
        return place_of(self.standing)

    @property
    def is_changed(self) -> bool:
        """Return whether the slot has another content than before, or had none."""
        now = self.standing
        after = (
            now.score,
            now.achieved_at_ms,
            now.achieved_seq,
            now.submission_id,
            now.expires_at_ms,
            self.before.seq,
            now.order,
            now.member,
            now.rule,
        )
        return self.before[1:] != after


def held_in(ranking: Ranking, slot: SlotContent) -> ReachedScore | None:
    """Return what the standing in a slot says that its player reached; None if nothing counts."""
    if slot.score is None:
        return None
    ties = slot.member[: ranking.tie_digits]
    return ReachedScore(slot.score, slot.achieved_at_ms, slot.achieved_seq, slot.submission_id, ties)


def place_of(standing: Standing) -> BoardPlace | None:
    """Return the place of a standing; None if nothing counts."""
    return None if standing.score is None else BoardPlace(standing.order, standing.member)


async def read_slot(tx: Transaction, ranking: Ranking, window: str, player: str) -> SlotContent:
    """Return the content of a player's slot in a window."""
    [row] = await tx.rows(_HELD, board=ranking.policy.board, window=window, player=player)
    return SlotContent(*row)


async def read_slots(
    tx: Transaction, ranking: Ranking, wanted: AbstractSet[tuple[str, str]]
) -> dict[tuple[str, str], SlotContent]:
    """Return the contents of slots, (window, player)."""
    board, windows = ranking.policy.board, sorted({window for window, _ in wanted})
    anchors: dict[str, str] = dict(await tx.rows(_ANCHORED, board=board, windows=windows))
    of_players = sorted({player for _, player in wanted})
    held = await tx.rows(_HELD_BY, board=board, windows=windows, of_players=of_players)
    contents = {(window, player): content for window, player, *content in held}
    nothing = [None] * len(_FOLDED)
    return {slot: SlotContent(anchors.get(slot[0]), *contents.get(slot, nothing)) for slot in wanted}


async def put_standings(tx: Transaction, ranking: Ranking, folds: Sequence[StandingFold]) -> None:
    """Store standings in their slots, which no two share, and note the moves for the anchors."""
    # Whether a group of ties has others is asked of the standings, so one moves before the next is noted.
    anchored = [fold for fold in folds if fold.before.anchors is not None]
    for fold in anchored:
        await put_standing(tx, ranking, fold.standing, fold.before)
    others = [fold for fold in folds if fold.before.anchors is None]
    await tx.put(standings, [_row_of(fold.standing) for fold in others])


async def put_standing(tx: Transaction, ranking: Ranking, standing: Standing, slot: SlotContent) -> None:
    """Store a standing in its slot, which had this content before, and note the move for the anchors."""
    now = place_of(standing)
    await note_move(tx, ranking, (standing.window, standing.player), slot.place, now, slot.anchors)
    await tx.put(standings, [_row_of(standing)])


def _row_of(standing: Standing) -> Cells:
    """Return the row of `standings` that keeps a standing."""
    return (
        standing.board,
        standing.window,
        standing.player,
        standing.score,
        standing.achieved_at_ms,
        standing.achieved_seq,
        standing.submission_id,
        standing.expires_at_ms,
        standing.seq,
        standing.order,
        standing.member,
        standing.rule,
    )
