"""Reads entries of archived windows, each by an index and from one revision.

Every operation reads the window and its entries in one snapshot, so nobody sees a mixture of two revisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, select

from gateway.ledger.archive.windows import ArchivedWindow, load, load_listed
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import archived_entries, archived_windows, players
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.ranking import BoardPlace

_e = archived_entries.c


class ArchivedEntry(NamedTuple):
    """A final standing and its rank in each way of counting. Times are Unix milliseconds."""

    rank: int
    sparse_rank: int
    dense_rank: int
    player: str
    name: str
    score: int
    achieved_at_ms: int
    submission_id: str
    order: int
    member: str


class ArchivedEntries(NamedTuple):
    """An archived window and some of its entries, by rank."""

    window: ArchivedWindow
    entries: list[ArchivedEntry]


_COLUMNS: Final = (
    _e.rank,
    _e.sparse_rank,
    _e.dense_rank,
    _e.player,
    func.coalesce(players.c.name, ""),
    _e.score,
    _e.achieved_at_ms,
    _e.submission_id,
    _e.order_value,
    _e.member,
)
_ENTRIES: Final = (
    select(*_COLUMNS)
    .select_from(archived_entries.outerjoin(players, players.c.player == _e.player))
    .where(
        _e.board == bindparam("board"),
        _e.window == bindparam("window"),
        _e.revision == bindparam("revision"),
    )
)
_PAGE = Query(_ENTRIES.where(_e.rank > bindparam("after"), _e.rank <= bindparam("upto")).order_by(_e.rank))
_PLACE = Query(
    select(_e.order_value, _e.member).where(
        _e.board == bindparam("board"),
        _e.window == bindparam("window"),
        _e.revision == bindparam("revision"),
        _e.rank == bindparam("rank"),
    )
)
_OF_PLAYER = Query(_ENTRIES.where(_e.player == bindparam("player")))
"""One player at a time: for a list of players, SQLite would rather read the whole window."""
_ON_BOARDS = Query(
    select(_e.board, *_COLUMNS)
    .select_from(
        archived_windows.join(
            archived_entries,
            (archived_windows.c.board == _e.board)
            & (archived_windows.c.window == _e.window)
            & (archived_windows.c.revision == _e.revision),
        ).outerjoin(players, players.c.player == _e.player)
    )
    .where(
        is_listed(archived_windows.c.board),
        archived_windows.c.window == bindparam("window"),
        _e.player == bindparam("player"),
    )
)


def archived_page(board: str, window: str, *, first: int, count: int) -> Operation[ArchivedEntries | None]:
    """Return `count` entries from 0-based position `first`; None for a window that is not in the archive.

    A window past its retention has no entries.
    """

    async def work(tx: Transaction) -> ArchivedEntries | None:
        archived = await _readable(tx, board, window)
        return ArchivedEntries(archived, await _page(tx, archived, first, count)) if archived else None

    return work


def archived_around(board: str, window: str, player: str, radius: int) -> Operation[ArchivedEntries | None]:
    """Return a player's entry with `radius` neighbours on each side, or no entries; None as above."""

    async def work(tx: Transaction) -> ArchivedEntries | None:
        archived = await _readable(tx, board, window)
        if archived is None:
            return None
        own = await _of_players(tx, archived, [player])
        if not own:
            return ArchivedEntries(archived, [])
        first = max(0, own[0].rank - 1 - radius)
        return ArchivedEntries(archived, await _page(tx, archived, first, own[0].rank + radius - first))

    return work


def archived_players(board: str, window: str, wanted: Sequence[str]) -> Operation[ArchivedEntries | None]:
    """Return the entries of those of these players who have one, by rank; None as above."""

    async def work(tx: Transaction) -> ArchivedEntries | None:
        archived = await _readable(tx, board, window)
        return ArchivedEntries(archived, await _of_players(tx, archived, wanted)) if archived else None

    return work


def archived_entries_of(
    player: str, wanted: Mapping[str, Sequence[str]]
) -> Operation[dict[str, ArchivedEntries]]:
    """Return a player's entry, or no entries, by name of the board, in windows that the archive shows.

    The boards are listed by window.
    """

    async def work(tx: Transaction) -> dict[str, ArchivedEntries]:
        found: dict[str, ArchivedEntries] = {}
        for window, boards in wanted.items():
            archived = await load_listed(tx, window, boards)
            readable = {each.board: each for each in archived if each.is_readable}
            rows = await fetch_listed(tx, _ON_BOARDS, list(readable), window=window, player=player)
            of_board = {row[0]: ArchivedEntry(*row[1:]) for row in rows}
            found |= {
                board: ArchivedEntries(each, [of_board[board]] if board in of_board else [])
                for board, each in readable.items()
            }
        return found

    return work


def archived_beside(
    board: str, window: str, *, place: BoardPlace, is_behind: bool, is_included: bool, count: int
) -> Operation[ArchivedEntries | None]:
    """Return `count` entries behind or ahead of a place, with or without an entry at it; None as above."""

    async def work(tx: Transaction) -> ArchivedEntries | None:
        archived = await _readable(tx, board, window)
        if archived is None or not archived.is_readable:
            return archived and ArchivedEntries(archived, [])
        ahead = await _count_ahead(tx, archived, place)
        with_it = await _count_ahead(tx, archived, BoardPlace(place.order, place.member + _NEXT))
        if is_behind:
            return ArchivedEntries(
                archived, await _page(tx, archived, ahead if is_included else with_it, count)
            )
        end = with_it if is_included else ahead
        first = max(0, end - count)
        return ArchivedEntries(archived, await _page(tx, archived, first, end - first))

    return work


_NEXT: Final = " "
"""A suffix that sorts behind a member and ahead of any other. No member has a space."""


async def _count_ahead(tx: Transaction, archived: ArchivedWindow, place: BoardPlace) -> int:
    """Return how many entries are ahead of a place, by binary search: ranks are in the order of places."""
    ahead, end = 0, archived.entries
    while ahead < end:
        middle = (ahead + end) // 2
        [(order, member)] = await tx.rows(_PLACE, **_key(archived), rank=middle + 1)
        if BoardPlace(order, member) < place:
            ahead = middle + 1
        else:
            end = middle
    return ahead


async def _readable(tx: Transaction, board: str, window: str) -> ArchivedWindow | None:
    """Return the window if it has a revision, even past its retention, when entries may be missing."""
    archived = await load(tx, board, window)
    return archived if archived and archived.revision else None


async def _page(tx: Transaction, archived: ArchivedWindow, first: int, count: int) -> list[ArchivedEntry]:
    if not archived.is_readable:
        return []
    rows = await tx.rows(_PAGE, **_key(archived), after=first, upto=first + count)
    return _entries(rows)


async def _of_players(
    tx: Transaction, archived: ArchivedWindow, wanted: Sequence[str]
) -> list[ArchivedEntry]:
    rows_of = [await tx.rows(_OF_PLAYER, player=player, **_key(archived)) for player in wanted]
    return sorted(_entries([row for rows in rows_of for row in rows]))


def _key(archived: ArchivedWindow) -> dict[str, object]:
    return {"board": archived.board, "window": archived.window, "revision": archived.revision}


def _entries(rows: Sequence[Row]) -> list[ArchivedEntry]:
    return [ArchivedEntry(*row) for row in rows]
