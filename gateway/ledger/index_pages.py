"""Contents of the index as the ledger has them: in pages by primary key, or in lists of a fixed length.

A list is padded to `LIST` values by repeating its last one, so that the statement has the same text for any
length, on either database. Every statement on standings names a window: their key is (board, window, player),
and a search by board and player alone would read the whole board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, bindparam, func, literal_column, select

from gateway.ledger.records import baseline_from
from gateway.ledger.schema import baselines, events, outbox, players, standings, submissions
from gateway.ledger.transaction import OneOf, Operation, Query, Row, Transaction
from gateway.shared_records import Standing, StoredBaseline
from policies.vocabulary import State
from validators.baseline import POPULATION, population_of

LIST: Final = 64
"""Values in the list of a statement."""

_s = submissions.c


def is_listed(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a column is one of the values that `fetch_listed` binds."""
    return column.in_([bindparam(f"listed_{number}", type_=column.type) for number in range(LIST)])


STANDING_OF_BOARD = (
    select(
        standings.c.board,
        standings.c.window,
        standings.c.player,
        func.coalesce(players.c.name, ""),
        standings.c.score,
        standings.c.achieved_at_ms,
        standings.c.achieved_seq,
        standings.c.submission_id,
        standings.c.expires_at_ms,
        standings.c.seq,
        standings.c.order_value,
        standings.c.member,
        standings.c.rule,
    )
    .select_from(standings.outerjoin(players, players.c.player == standings.c.player))
    .where(standings.c.board == bindparam("board"))
)
STANDING = STANDING_OF_BOARD.where(standings.c.window == bindparam("window"))
_STANDINGS_PAGE = Query(
    STANDING.where(standings.c.player > bindparam("after"))
    .order_by(standings.c.player)
    .limit(bindparam("count"))
)
_STANDINGS_LISTED = Query(STANDING.where(is_listed(standings.c.player)))
_STANDINGS_COUNT = Query(
    select(func.count())
    .select_from(standings)
    .where(standings.c.board == bindparam("board"), standings.c.window == bindparam("window"))
)
_NEXT_WINDOW = Query(
    select(standings.c.window, standings.c.expires_at_ms)
    .where(standings.c.board == bindparam("board"), standings.c.window > bindparam("after"))
    .order_by(standings.c.window, standings.c.player)
    .limit(1)
)
_NAMES_LISTED = Query(select(players.c.player, players.c.name).where(OneOf(players.c.player, "of_players")))
_BASELINES_LISTED = Query(
    select(baselines).where(baselines.c.board == bindparam("board"), is_listed(baselines.c.player))
)
_SUBMISSIONS_LISTED = Query(
    select(_s.submission_id, _s.board, _s.player, _s.state, _s.received_at_ms).where(
        is_listed(_s.submission_id)
    )
)
_ONCE_PROMOTED = Query(
    select(events.c.submission_id)
    .where(is_listed(events.c.submission_id), events.c.to_state == State.PROMOTED.value)
    .distinct()
)
_BUILDS_LISTED = Query(select(_s.build).where(is_listed(_s.submission_id)).distinct())
_IS_OF_PLAYER: Final = events.c.player != literal_column("''")
_EVENT = select(
    events.c.seq,
    events.c.submission_id,
    events.c.board,
    events.c.player,
    events.c.to_state,
    events.c.at_ms,
)
_EVENTS_AFTER = Query(
    _EVENT.where(events.c.board == bindparam("board"), events.c.seq > bindparam("after"), _IS_OF_PLAYER)
    .order_by(events.c.seq)
    .limit(bindparam("count"))
)
_UNSHOWN_AFTER = Query(
    select(events.c.seq, events.c.player)
    .select_from(events.join(outbox, outbox.c.seq == events.c.seq))
    .where(
        events.c.board == bindparam("board"),
        events.c.seq > bindparam("after"),
        events.c.seq <= bindparam("upto"),
        _IS_OF_PLAYER,
        outbox.c.kind == "project",
    )
    .order_by(events.c.seq)
    .limit(bindparam("count"))
)
_NEWEST = Query(select(func.coalesce(func.max(events.c.seq), 0)))
_EVENTS_BEFORE = Query(
    _EVENT.where(events.c.board == bindparam("board"), events.c.seq < bindparam("before"), _IS_OF_PLAYER)
    .order_by(events.c.seq.desc())
    .limit(bindparam("count"))
)


class BoardEvent(NamedTuple):
    """An event as far as the index cares: whose submission changed to which state, and when (Unix ms)."""

    seq: int
    submission_id: str
    board: str
    player: str
    to_state: State
    at_ms: int


class BoardChanges(NamedTuple):
    """Events of a board up to `upto`, with the standings and baselines that they may have changed.

    `is_newest` tells that the board has no event after `upto`.
    """

    events: list[BoardEvent]
    standings: list[Standing]
    baselines: list[StoredBaseline]
    upto: int
    is_newest: bool


class UnshownStandings(NamedTuple):
    """Standings that nobody has shown yet, by the events up to `upto` that changed them, oldest first."""

    standings: list[Standing]
    upto: int


_HAS_COUNTED: Final = frozenset({State.PROMOTED, State.REVOKED})
_MAY_HAVE_COUNTED: Final = frozenset({State.HELD, State.REJECTED})
"""States in which only its events tell whether a submission ever counted."""


class SubmissionSummary(NamedTuple):
    """The state of a submission, where it belongs, and whether it counts or ever did."""

    board: str
    player: str
    state: State
    received_at_ms: int
    has_counted: bool


def live_windows(board: str, *, now_ms: int) -> Operation[dict[str, int]]:
    """Return when each live window of a board expires (Unix ms), by name.

    Only windows with standings are included.
    """

    async def work(tx: Transaction) -> dict[str, int]:
        windows: dict[str, int] = {}
        after = ""
        while rows := await tx.rows(_NEXT_WINDOW, board=board, after=after):
            [(after, expires_at_ms)] = rows
            if expires_at_ms > now_ms:
                windows[after] = expires_at_ms
        return windows

    return work


def has_standings(board: str) -> Operation[bool]:
    """Return whether anybody ever had an entry on a board, in a window whose standings are still kept."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.rows(_NEXT_WINDOW, board=board, after=""))

    return work


def count_standings(board: str, windows: Sequence[str]) -> Operation[int]:
    """Count the standings of these windows of a board together."""

    async def work(tx: Transaction) -> int:
        counts = [await tx.rows(_STANDINGS_COUNT, board=board, window=window) for window in windows]
        return sum(int(rows[0][0]) for rows in counts)

    return work


def standings_after(board: str, window: str, after: str, *, count: int) -> Operation[list[Standing]]:
    """Return standings of a window in the order of players, after player `after`."""

    async def work(tx: Transaction) -> list[Standing]:
        rows = await tx.rows(_STANDINGS_PAGE, board=board, window=window, after=after, count=count)
        return [Standing(*row) for row in rows]

    return work


def standings_of(board: str, wanted: Mapping[str, Sequence[str]]) -> Operation[list[Standing]]:
    """Return the standings of the wanted players, who are listed by window."""

    async def work(tx: Transaction) -> list[Standing]:
        rows: list[Row] = []
        for window, listed in wanted.items():
            rows += await fetch_listed(tx, _STANDINGS_LISTED, listed, board=board, window=window)
        return [Standing(*row) for row in rows]

    return work


def live_standings(board: str, player: str, *, now_ms: int) -> Operation[list[Standing]]:
    """Return a player's standings in the windows that have not expired."""

    async def work(tx: Transaction) -> list[Standing]:
        windows = await live_windows(board, now_ms=now_ms)(tx)
        return await standings_of(board, {window: [player] for window in windows})(tx)

    return work


def names_of(wanted: Sequence[str]) -> Operation[dict[str, str]]:
    """Return the display name of each of these players that has one."""

    async def work(tx: Transaction) -> dict[str, str]:
        return {player: name for player, name in await tx.rows(_NAMES_LISTED, of_players=wanted) if name}

    return work


def baselines_for(board: str, wanted: Sequence[str]) -> Operation[list[StoredBaseline]]:
    """Return the baselines of these players and populations, where they exist."""

    async def work(tx: Transaction) -> list[StoredBaseline]:
        return [baseline_from(row) for row in await fetch_listed(tx, _BASELINES_LISTED, wanted, board=board)]

    return work


def summaries_of(submission_ids: Sequence[str]) -> Operation[dict[str, SubmissionSummary]]:
    """Return a summary of each of these submissions that is stored, by id."""

    async def work(tx: Transaction) -> dict[str, SubmissionSummary]:
        rows = await fetch_listed(tx, _SUBMISSIONS_LISTED, submission_ids)
        states = {submission_id: State(state) for submission_id, _, _, state, _ in rows}
        counted = {each for each, state in states.items() if state in _HAS_COUNTED}
        unsure = [each for each, state in states.items() if state in _MAY_HAVE_COUNTED]
        counted |= {each for (each,) in await fetch_listed(tx, _ONCE_PROMOTED, unsure)}
        return {
            each: SubmissionSummary(board, player, states[each], received_at_ms, each in counted)
            for each, board, player, _, received_at_ms in rows
        }

    return work


def changes_after(board: str, seq: int, *, now_ms: int, count: int) -> Operation[BoardChanges]:
    """Return events of a board after a sequence number, oldest first, with what their players have now.

    At most `count` events are returned. Everything is of one moment: if there are no more events, nothing
    that happened on the board until then is missing.
    """

    async def work(tx: Transaction) -> BoardChanges:
        [[newest]] = await tx.rows(_NEWEST)
        rows = await tx.rows(_EVENTS_AFTER, board=board, after=seq, count=count)
        is_cut = len(rows) >= count
        upto = rows[-1][0] if is_cut else max(seq, newest)
        if not rows:
            return BoardChanges([], [], [], upto, is_newest=True)
        board_events = [_event(row) for row in rows]
        players = sorted({event.player for event in board_events})
        windows = await live_windows(board, now_ms=now_ms)(tx)
        current = await standings_of(board, dict.fromkeys(windows, players))(tx)
        ids = [event.submission_id for event in board_events]
        builds = {build for (build,) in await fetch_listed(tx, _BUILDS_LISTED, ids)}
        subjects = [*players, *map(population_of, sorted(builds)), POPULATION]
        learnt = await baselines_for(board, subjects)(tx)
        return BoardChanges(board_events, current, learnt, upto, not is_cut)

    return work


def unshown_standings(
    board: str, after: int, *, upto: int, now_ms: int, count: int
) -> Operation[UnshownStandings]:
    """Return the live standings that at most `count` unshown events in (`after`, `upto`] have left.

    A standing is that of the event that changed it last.
    """

    async def work(tx: Transaction) -> UnshownStandings:
        rows = await tx.rows(_UNSHOWN_AFTER, board=board, after=after, upto=upto, count=count)
        reached_seq = rows[-1][0] if len(rows) >= count else upto
        if not rows:
            return UnshownStandings([], reached_seq)
        seqs, players = {seq for seq, _ in rows}, sorted({player for _, player in rows})
        windows = await live_windows(board, now_ms=now_ms)(tx)
        current = await standings_of(board, dict.fromkeys(windows, players))(tx)
        unshown = [standing for standing in current if standing.seq in seqs]
        return UnshownStandings(sorted(unshown, key=lambda standing: standing.seq), reached_seq)

    return work


def events_before(board: str, seq: int, *, count: int) -> Operation[list[BoardEvent]]:
    """Return at most `count` events of a board before a sequence number, newest first."""

    async def work(tx: Transaction) -> list[BoardEvent]:
        return [_event(row) for row in await tx.rows(_EVENTS_BEFORE, board=board, before=seq, count=count)]

    return work


def _event(row: Row) -> BoardEvent:
    seq, submission_id, board, player, to_state, at_ms = row
    return BoardEvent(seq, submission_id, board, player, State(to_state), at_ms)


def listed(values: Sequence[Any]) -> dict[str, Any]:
    """Return what `is_listed` binds for at most LIST values, at least one."""
    return {f"listed_{number}": values[min(number, len(values) - 1)] for number in range(LIST)}


async def fetch_listed(tx: Transaction, query: Query, wanted: Sequence[Any], **values: Any) -> list[Row]:
    """Return the rows of a query with `is_listed` for all of these values, a list of them at a time."""
    rows: list[Row] = []
    for at in range(0, len(wanted), LIST):
        rows += await tx.rows(query, **values, **listed(wanted[at : at + LIST]))
    return rows
