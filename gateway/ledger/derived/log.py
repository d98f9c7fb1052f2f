"""The log of events as consumers read it, in order, and the position of each consumer.

On either database, sequence numbers follow the order of commits, so no event ever appears before a position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, func, literal_column, select, text
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import BY_MODERATOR, events, outbox, progress, submissions
from gateway.ledger.submission_rows import stats_from
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.moderation import OWN_WORDS
from policies.vocabulary import Reason, State

SPAN: Final = 10_000
"""Most events that one read walks past, however few of them are of submissions."""

ALL_BOARDS: Final = ""
"""The board under which a consumer of all boards keeps its position."""

_e, _s, _p = events.c, submissions.c, progress.c

_EVENT = (
    select(
        _e.seq,
        _e.submission_id,
        _e.board,
        _e.player,
        _e.from_state,
        _e.to_state,
        _e.reason,
        _e.at_ms,
        _s.score,
        _s.achieved_at_ms,
        _s.seq,
        _s.stats,
    )
    .select_from(events.join(submissions, _s.submission_id == _e.submission_id))
    .order_by(_e.seq)
    .limit(bindparam("count"))
)
_AFTER = Query(_EVENT.where(_e.seq > bindparam("after"), _e.seq <= bindparam("upto")))
_OF_BOARD = Query(
    _EVENT.where(
        _e.board == bindparam("board"), _e.seq > bindparam("after"), _e.player != literal_column("''")
    )
)
_BY_MODERATORS = Query(
    select(_e.seq, _e.detail).where(
        text(BY_MODERATOR), _e.seq > bindparam("after"), _e.seq <= bindparam("upto")
    )
)
_PLAYERS = Query(
    select(_s.seq, _s.board, _s.player)
    .where(_s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_POSITION = Query(select(_p.seq).where(_p.consumer == bindparam("consumer"), _p.board == bindparam("board")))
_POSITIONS = Query(select(_p.board, _p.seq).where(_p.consumer == bindparam("consumer")))
_put = insert(progress)
_PUT_POSITION = Query(
    _put.on_conflict_do_update(index_elements=["consumer", "board"], set_={"seq": _put.excluded.seq})
)
_BOARDS = Query(
    select(_e.board, func.max(_e.seq))
    # A board's life says nothing of standings, and a million boards may have been opened.
    .where(_e.seq > bindparam("after"), _e.seq <= bindparam("upto"), _e.player != "")
    .group_by(_e.board)
)
_UNSHOWN = Query(select(func.min(outbox.c.seq)).where(outbox.c.kind == "project"))


class LoggedEvent(NamedTuple):
    """An event of the log with facts of its submission. Times are Unix milliseconds."""

    seq: int
    submission_id: str
    board: str
    player: str
    from_state: State
    to_state: State
    reason: Reason
    at_ms: int
    score: int
    achieved_at_ms: int
    received_seq: int
    stats: Mapping[str, int]

    @property
    def difference(self) -> int:
        """Return 1 if the submission begins to count, -1 if it ceases to, 0 if neither."""
        return (self.to_state is State.PROMOTED) - (self.from_state is State.PROMOTED)

    @property
    def is_move(self) -> bool:
        """Return whether a merge, or its undoing, lets the submission count for another player."""
        is_of_merge = self.reason in {Reason.MERGED, Reason.UNMERGED}
        return is_of_merge and self.to_state is State.PROMOTED


class LogSlice(NamedTuple):
    """Events of submissions, oldest first, the event up to which they are all, and whether it is the newest.

    Events of the lives of boards are passed over, so that a slice may be empty and not the last.
    """

    events: list[LoggedEvent]
    upto: int
    is_newest: bool


def events_after(seq: int, *, count: int) -> Operation[LogSlice]:
    """Return the next slice of the log after a sequence number: at most `count` events of SPAN."""

    async def work(tx: Transaction) -> LogSlice:
        rows, upto, is_newest = await slice_of_log(tx, _AFTER, seq, count)
        return LogSlice([_event(row) for row in rows], upto, is_newest)

    return work


def events_of_board(board: str, after: int, *, count: int) -> Operation[list[LoggedEvent]]:
    """Return the next events of one board's submissions after a sequence number."""

    async def work(tx: Transaction) -> list[LoggedEvent]:
        return [_event(row) for row in await tx.rows(_OF_BOARD, board=board, after=after, count=count)]

    return work


async def slice_of_log(tx: Transaction, query: Query, seq: int, count: int) -> tuple[list[Row], int, bool]:
    """Return rows of a query of the log, the event up to which they are all, and whether it is the newest.

    The query binds `after`, `upto` and `count`; its first column is the event's number.
    """
    # Opening a million boards leaves as many events, which no follower may walk past in one read.
    newest = await newest_seq()(tx)
    end = min(seq + SPAN, newest)
    rows = await tx.rows(query, after=seq, upto=end, count=count)
    upto = int(rows[-1][0]) if len(rows) >= count else max(seq, end)
    return rows, upto, upto >= newest


def messages_of(events: Sequence[LoggedEvent]) -> Operation[dict[int, str]]:
    """Return what a moderator sent to the player with each of these events, if anything, by their numbers.

    That is the name of a template, or OWN_WORDS.
    """

    async def work(tx: Transaction) -> dict[int, str]:
        if not events:
            return {}
        rows = await tx.rows(_BY_MODERATORS, after=events[0].seq - 1, upto=events[-1].seq)
        details = [(seq, orjson.loads(detail)) for seq, detail in rows]
        return {
            int(seq): detail.get("template") or OWN_WORDS for seq, detail in details if detail.get("message")
        }

    return work


def players_after(seq: int, *, count: int) -> Operation[list[tuple[int, str, str]]]:
    """Return (sequence number, board, player) of submissions after a sequence number, on all boards."""

    async def work(tx: Transaction) -> list[tuple[int, str, str]]:
        return [(row[0], row[1], row[2]) for row in await tx.rows(_PLAYERS, after=seq, count=count)]

    return work


def boards_between(after: int, upto: int) -> Operation[dict[str, int]]:
    """Return the boards with events of players in (`after`, `upto`], each with the last of them.

    Rollups are among them: their events have players, though no submissions.
    """

    async def work(tx: Transaction) -> dict[str, int]:
        return {str(board): int(seq) for board, seq in await tx.rows(_BOARDS, after=after, upto=upto)}

    return work


def position(consumer: str, board: str = ALL_BOARDS) -> Operation[int | None]:
    """Return the last event that a consumer has finished with, or None if it never began."""

    async def work(tx: Transaction) -> int | None:
        rows = await tx.rows(_POSITION, consumer=consumer, board=board)
        return int(rows[0][0]) if rows else None

    return work


def positions(consumer: str) -> Operation[dict[str, int]]:
    """Return every position of a consumer, by board."""

    async def work(tx: Transaction) -> dict[str, int]:
        return {board: int(seq) for board, seq in await tx.rows(_POSITIONS, consumer=consumer)}

    return work


def move(consumer: str, seq: int, board: str = ALL_BOARDS) -> Operation[None]:
    """Store the position of a consumer."""

    async def work(tx: Transaction) -> None:
        await tx.run(_PUT_POSITION, consumer=consumer, board=board, seq=seq)

    return work


class ProjectedLog(NamedTuple):
    """The last event up to which the index has everything, and the newest event."""

    upto: int
    newest: int

    @property
    def is_whole(self) -> bool:
        """Whether the index has everything."""
        return self.upto == self.newest


def projected() -> Operation[ProjectedLog]:
    """Return how far the index has the log."""

    async def work(tx: Transaction) -> ProjectedLog:
        [[unshown]] = await tx.rows(_UNSHOWN)
        newest = await newest_seq()(tx)
        return ProjectedLog(newest if unshown is None else min(newest, int(unshown) - 1), newest)

    return work


def _event(row: Row) -> LoggedEvent:
    seq, submission_id, board, player, from_state, to_state, reason, *facts, stats = row
    fields: Any = (
        *(seq, submission_id, board, player, State(from_state), State(to_state), Reason(reason)),
        *facts,
        stats_from(stats),
    )
    return LoggedEvent(*fields)
