"""What the index has to hold: read in pages that follow a primary key, or by name in lists of a fixed length.

A list is padded to `LIST` values by repeating its last one, so that the statement is the same text for any length, on
either database. No statement here leaves a window open: the key of a standing is (board, window, player), and a search
by board and player alone would read the whole board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, bindparam, func, select

from gateway.ledger.records import baseline_from
from gateway.ledger.schema import baselines, events, players, standings, submissions
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.records import Standing, StoredBaseline
from policies.vocabulary import State
from validators.baseline import POPULATION, population_of

SPAN: Final = 10_000
"""Events of all boards that one read walks past at most, however few of them are a board's."""

LIST: Final = 64

_s = submissions.c


def is_listed(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a column is one of the values that `fetch_listed` gives a query."""
    return column.in_([bindparam(f"listed_{number}", type_=column.type) for number in range(LIST)])


STANDING = (
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
    .where(standings.c.board == bindparam("board"), standings.c.window == bindparam("window"))
)
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
_NAMES_LISTED = Query(select(players.c.player, players.c.name).where(is_listed(players.c.player)))
_BASELINES_LISTED = Query(
    select(baselines).where(baselines.c.board == bindparam("board"), is_listed(baselines.c.player))
)
_SUBMISSIONS_LISTED = Query(
    select(_s.submission_id, _s.board, _s.player, _s.state, _s.received_at_ms).where(
        is_listed(_s.submission_id)
    )
)
_BUILDS_LISTED = Query(select(_s.build).where(is_listed(_s.submission_id)).distinct())
_EVENT = select(
    events.c.seq,
    events.c.submission_id,
    events.c.board,
    events.c.player,
    events.c.to_state,
    events.c.at_ms,
)
_EVENTS_AFTER = Query(
    _EVENT.where(
        events.c.seq > bindparam("after"),
        events.c.seq <= bindparam("upto"),
        events.c.board == bindparam("board"),
    )
    .order_by(events.c.seq)
    .limit(bindparam("count"))
)
_NEWEST = Query(select(func.coalesce(func.max(events.c.seq), 0)))
_EVENTS_BEFORE = Query(
    _EVENT.where(events.c.seq < bindparam("before")).order_by(events.c.seq.desc()).limit(bindparam("count"))
)


class BoardEvent(NamedTuple):
    """An event as far as the index cares: what became of whose submission, and when (Unix ms)."""

    seq: int
    submission_id: str
    board: str
    player: str
    to_state: State
    at_ms: int


class BoardChanges(NamedTuple):
    """Some events, and the standings and baselines of their players, of their builds and of all.

    Those up to event `upto` are among them; `is_newest` if that is the newest of all boards.
    """

    events: list[BoardEvent]
    standings: list[Standing]
    baselines: list[StoredBaseline]
    upto: int
    is_newest: bool


class SubmissionSummary(NamedTuple):
    """What the ledger has of a submission id."""

    board: str
    player: str
    state: State
    received_at_ms: int


def live_windows(board: str, *, now_ms: int) -> Operation[dict[str, int]]:
    """When each window of a board expires that has standings and has not expired, by its name."""

    async def work(tx: Transaction) -> dict[str, int]:
        found: dict[str, int] = {}
        after = ""
        while rows := await tx.rows(_NEXT_WINDOW, board=board, after=after):
            [(after, expires_at_ms)] = rows
            if expires_at_ms > now_ms:
                found[after] = expires_at_ms
        return found

    return work


def count_standings(board: str, windows: Sequence[str]) -> Operation[int]:
    """How many standings these windows of a board have together."""

    async def work(tx: Transaction) -> int:
        counts = [await tx.rows(_STANDINGS_COUNT, board=board, window=window) for window in windows]
        return sum(int(rows[0][0]) for rows in counts)

    return work


def standings_after(board: str, window: str, after: str, *, count: int) -> Operation[list[Standing]]:
    """Standings of a window in the order of players, after such a player."""

    async def work(tx: Transaction) -> list[Standing]:
        rows = await tx.rows(_STANDINGS_PAGE, board=board, window=window, after=after, count=count)
        return [Standing(*row) for row in rows]

    return work


def standings_of(board: str, wanted: Mapping[str, Sequence[str]]) -> Operation[list[Standing]]:
    """The standings there are of the wanted players, by window."""

    async def work(tx: Transaction) -> list[Standing]:
        found: list[Row] = []
        for window, whose in wanted.items():
            found += await fetch_listed(tx, _STANDINGS_LISTED, whose, board=board, window=window)
        return [Standing(*row) for row in found]

    return work


def live_standings(board: str, player: str, *, now_ms: int) -> Operation[list[Standing]]:
    """A player's standings in the windows that have not expired."""

    async def work(tx: Transaction) -> list[Standing]:
        windows = await live_windows(board, now_ms=now_ms)(tx)
        return await standings_of(board, {window: [player] for window in windows})(tx)

    return work


def names_of(wanted: Sequence[str]) -> Operation[dict[str, str]]:
    """The display name of each of these players that has one."""

    async def work(tx: Transaction) -> dict[str, str]:
        return {player: name for player, name in await fetch_listed(tx, _NAMES_LISTED, wanted) if name}

    return work


def baselines_for(board: str, wanted: Sequence[str]) -> Operation[list[StoredBaseline]]:
    """The baselines there are of these players and populations."""

    async def work(tx: Transaction) -> list[StoredBaseline]:
        return [baseline_from(row) for row in await fetch_listed(tx, _BASELINES_LISTED, wanted, board=board)]

    return work


def summaries_of(submission_ids: Sequence[str]) -> Operation[dict[str, SubmissionSummary]]:
    """What the ledger has of those of these ids that it knows."""

    async def work(tx: Transaction) -> dict[str, SubmissionSummary]:
        rows = await fetch_listed(tx, _SUBMISSIONS_LISTED, submission_ids)
        return {row[0]: SubmissionSummary(row[1], row[2], State(row[3]), row[4]) for row in rows}

    return work


def changes_after(board: str, seq: int, *, now_ms: int, count: int) -> Operation[BoardChanges]:
    """Events of a board after a sequence number, oldest first, and all that now stands of whom they speak of.

    At most `count` of those among the next SPAN events of all boards, however few are this board's. Of one moment: if
    they go up to the newest event, nothing that happened on the board until then is missing.
    """

    async def work(tx: Transaction) -> BoardChanges:
        [[newest]] = await tx.rows(_NEWEST)
        end = min(seq + SPAN, newest)
        rows = await tx.rows(_EVENTS_AFTER, board=board, after=seq, upto=end, count=count)
        is_cut = len(rows) >= count
        upto = rows[-1][0] if is_cut else max(seq, end)
        is_newest = not is_cut and end == newest
        if not rows:
            return BoardChanges([], [], [], upto, is_newest)
        found = [_event(row) for row in rows]
        players = sorted({each.player for each in found})
        windows = await live_windows(board, now_ms=now_ms)(tx)
        stands = await standings_of(board, dict.fromkeys(windows, players))(tx)
        builds = {
            build
            for (build,) in await fetch_listed(tx, _BUILDS_LISTED, [each.submission_id for each in found])
        }
        subjects = [*players, *map(population_of, sorted(builds)), POPULATION]
        return BoardChanges(found, stands, await baselines_for(board, subjects)(tx), upto, is_newest)

    return work


def events_before(seq: int, *, count: int) -> Operation[list[BoardEvent]]:
    """Events of any board before a sequence number, newest first."""

    async def work(tx: Transaction) -> list[BoardEvent]:
        return [_event(row) for row in await tx.rows(_EVENTS_BEFORE, before=seq, count=count)]

    return work


def _event(row: Row) -> BoardEvent:
    seq, submission_id, board, player, to_state, at_ms = row
    return BoardEvent(seq, submission_id, board, player, State(to_state), at_ms)


async def fetch_listed(tx: Transaction, query: Query, wanted: Sequence[Any], **values: Any) -> list[Row]:
    """What a query with `is_listed` gives for all of these values, a list of them at a time."""
    found: list[Row] = []
    for at in range(0, len(wanted), LIST):
        some = wanted[at : at + LIST]
        padded = {f"listed_{number}": some[min(number, len(some) - 1)] for number in range(LIST)}
        found += await tx.rows(query, **values, **padded)
    return found
