"""Answers about an archived window: each is a look by index into one revision, and says which.

Every operation reads the window and its entries in one snapshot, so that nobody sees two revisions mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import bindparam, func, select

from gateway.ledger.archive.windows import ArchivedWindow, load
from gateway.ledger.schema import archived_entries, players
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.ranking import BoardPlace

_e = archived_entries.c


class ArchivedEntry(NamedTuple):
    """A final rank, in each way of counting, with the standing that it is of. Times are Unix milliseconds."""

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
    """A window of the archive, and some of its entries by rank."""

    window: ArchivedWindow
    entries: list[ArchivedEntry]


_ENTRIES: Final = (
    select(
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
"""One at a time: of a list of players SQLite thinks that reading the whole window is less work."""


def archived_page(board: str, window: str, *, first: int, count: int) -> Operation[ArchivedEntries | None]:
    """`count` entries from 0-based position `first`; None for a window that the archive does not have.

    A window that is not kept any more has no entries.
    """

    async def work(tx: Transaction) -> ArchivedEntries | None:
        found = await _readable(tx, board, window)
        return ArchivedEntries(found, await _page(tx, found, first, count)) if found else None

    return work


def archived_around(board: str, window: str, player: str, radius: int) -> Operation[ArchivedEntries | None]:
    """A player's entry with `radius` neighbours on each side, no entries for a player without one; None as above."""

    async def work(tx: Transaction) -> ArchivedEntries | None:
        found = await _readable(tx, board, window)
        if found is None:
            return None
        own = await _of_players(tx, found, [player])
        if not own:
            return ArchivedEntries(found, [])
        first = max(0, own[0].rank - 1 - radius)
        return ArchivedEntries(found, await _page(tx, found, first, own[0].rank + radius - first))

    return work


def archived_players(board: str, window: str, wanted: Sequence[str]) -> Operation[ArchivedEntries | None]:
    """The entries there are of these players, by rank; None as above."""

    async def work(tx: Transaction) -> ArchivedEntries | None:
        found = await _readable(tx, board, window)
        return ArchivedEntries(found, await _of_players(tx, found, wanted)) if found else None

    return work


def archived_beside(
    board: str, window: str, *, place: BoardPlace, is_behind: bool, is_included: bool, count: int
) -> Operation[ArchivedEntries | None]:
    """`count` entries behind a place or ahead of it, with the one that may stand there or without; None as above."""

    async def work(tx: Transaction) -> ArchivedEntries | None:
        found = await _readable(tx, board, window)
        if found is None or not found.is_readable:
            return found and ArchivedEntries(found, [])
        ahead = await _count_ahead(tx, found, place)
        with_it = await _count_ahead(tx, found, BoardPlace(place.order, place.member + _NEXT))
        if is_behind:
            return ArchivedEntries(found, await _page(tx, found, ahead if is_included else with_it, count))
        end = with_it if is_included else ahead
        first = max(0, end - count)
        return ArchivedEntries(found, await _page(tx, found, first, end - first))

    return work


_NEXT: Final = " "
"""Behind a member and ahead of any other: no member has it."""


async def _count_ahead(tx: Transaction, found: ArchivedWindow, place: BoardPlace) -> int:
    """How many entries are ahead of a place. Ranks are in the order of places, so it is searched for by halves."""
    ahead, end = 0, found.entries
    while ahead < end:
        middle = (ahead + end) // 2
        [(order, member)] = await tx.rows(_PLACE, **_whose(found), rank=middle + 1)
        if BoardPlace(order, member) < place:
            ahead = middle + 1
        else:
            end = middle
    return ahead


async def _readable(tx: Transaction, board: str, window: str) -> ArchivedWindow | None:
    """The window, also one that is not kept any more, whose entries may be going."""
    found = await load(tx, board, window)
    return found if found and found.revision else None


async def _page(tx: Transaction, found: ArchivedWindow, first: int, count: int) -> list[ArchivedEntry]:
    if not found.is_readable:
        return []
    rows = await tx.rows(_PAGE, **_whose(found), after=first, upto=first + count)
    return _entries(rows)


async def _of_players(tx: Transaction, found: ArchivedWindow, wanted: Sequence[str]) -> list[ArchivedEntry]:
    found_of = [await tx.rows(_OF_PLAYER, player=each, **_whose(found)) for each in wanted]
    return sorted(_entries([row for rows in found_of for row in rows]))


def _whose(found: ArchivedWindow) -> dict[str, object]:
    return {"board": found.board, "window": found.window, "revision": found.revision}


def _entries(rows: Sequence[Row]) -> list[ArchivedEntry]:
    return [ArchivedEntry(*row) for row in rows]
