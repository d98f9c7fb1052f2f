"""Opens boards of families, up to a thousand in one commit, each with an outcome of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Self, TypeVar

from sqlalchemy import select

from gateway.ledger.boards.board_batch import BoardBatch
from gateway.ledger.boards.board_differences import differences
from gateway.ledger.boards.board_rows import (
    BoardOutcome,
    BoardResult,
    FamilyTerms,
    LifeChange,
    StoredBoard,
    content_of,
    detail_text,
)
from gateway.ledger.boards.field_filters import values_of
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import (
    archived_windows,
    boards,
    events,
    is_in,
    standings,
    submissions,
)
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.clock import rfc3339
from policies.errors import SettingRefused
from policies.opened_board import BoardState, OpenedBoard, family_named_by
from policies.vocabulary import State

T = TypeVar("T")

BATCH_LIMIT: Final = 1_000
"""Most boards of one batch, so that other writes wait no longer for its commit than for a full group's."""

TAKEN_BY_DELETED: Final = (
    "a deleted board has the name: open the board under another name, or let the policy free the names of "
    "deleted boards (`names_free_after_delete`)"
)
TAKEN_BY_PLAYED: Final = "a deleted board that was played has the name: open the board under another name"

_OPENINGS = Query(select(events.c.seq, events.c.detail).where(is_listed(events.c.seq)))
_s = submissions.c
_TRACES: Final = (
    *(
        select(_s.seq).where(is_in(state), _s.board == boards.c.board).limit(1)
        for state in (State.PENDING, State.HELD, State.PROMOTED)
    ),
    *(
        select(table.c.window)
        .where(table.c.board == boards.c.board)
        .order_by(*table.primary_key.columns)
        .limit(1)
        for table in (standings, archived_windows)
    ),
)
"""Finds what keeps a name to its first board: a run that counts or may yet, a standing, an archive."""
# Scalars with a limit, since PostgreSQL may read a whole table for EXISTS.
_TRACED = Query(
    select(boards.c.board, *(trace.correlate(boards).scalar_subquery() for trace in _TRACES)).where(
        is_listed(boards.c.board)
    )
)


def open_boards(
    terms: FamilyTerms, batch: Sequence[OpenedBoard], *, actor: str, at_ms: int
) -> Operation[list[BoardResult]]:
    """Open boards of a family, all in one commit, and return the outcome of each, in order.

    Their family allows them (`Family.refuse`). A board is opened, the same already, in conflict with what has
    its name, or refused. Their versions, states, times of opening and actors are set here. Raises ValueError
    for more than BATCH_LIMIT boards.
    """
    if len(batch) > BATCH_LIMIT:
        raise ValueError(f"{len(batch)} boards are more than {BATCH_LIMIT}")

    async def work(tx: Transaction) -> list[BoardResult]:
        boards = await BoardBatch.begin(tx, terms, [board.board for board in batch], actor, at_ms)
        openings = await BatchOpenings.begin(boards, [board.board for board in batch])
        results = [openings.open(board) for board in batch]
        await boards.store()
        return results

    return work


def in_batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield items in lists of at most BATCH_LIMIT."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH_LIMIT)):
        yield batch


class BatchOpenings:
    """The openings of a batch of boards, with what the ledger has to say about their names."""

    def __init__(self, batch: BoardBatch, first_contents: dict[int, str], traced: Collection[str]) -> None:
        """`first_contents` are what boards were opened with, by the events that opened them.

        `traced` are the boards on which something was played that is, or may yet be, part of them.
        """
        self._batch = batch
        self._first_contents = first_contents
        self._traced = traced

    @classmethod
    async def begin(cls, batch: BoardBatch, names: Sequence[str]) -> Self:
        """Read what is known of those of these boards that were ever opened."""
        known = [batch.boards[name] for name in dict.fromkeys(names) if name in batch.boards]
        first_contents = await fetch_listed(batch.tx, _OPENINGS, [stored.opened_seq for stored in known])
        # Nothing is played while a batch is under way, so this holds until its end.
        names_to_free = [stored.board.board for stored in known] if batch.terms.frees_names else []
        found = await fetch_listed(batch.tx, _TRACED, names_to_free)
        traced = {name for name, *traces in found if any(trace is not None for trace in traces)}
        return cls(batch, dict(first_contents), traced)

    def open(self, request: OpenedBoard) -> BoardResult:
        """Open one board, if its name is free."""
        terms = self._batch.terms
        if refusal := _refusal(request, terms):
            return BoardResult(BoardOutcome.REFUSED, None, refusal)
        stored = self._batch.boards.get(request.board)
        if stored is None:
            return self._open(request, 1)
        if stored.board.state is not BoardState.DELETED:
            return self._compare(request, stored)
        if not terms.frees_names:
            return BoardResult(BoardOutcome.CONFLICT, None, TAKEN_BY_DELETED)
        if request.board in self._traced:
            return BoardResult(BoardOutcome.CONFLICT, None, TAKEN_BY_PLAYED)
        # The version goes on, so that no reader of the deleted board takes the new one for it.
        return self._open(request, stored.board.version + 1)

    def _compare(self, request: OpenedBoard, stored: StoredBoard) -> BoardResult:
        """Return whether a board is what it is to be: as it is now, or as it was opened."""
        # A request that is sent again, after the board was changed, is not another board.
        content = detail_text(content_of(request))
        known = {detail_text(content_of(stored.board)), self._first_contents.get(stored.opened_seq)}
        if content in known:
            return BoardResult(BoardOutcome.SAME, stored.board)
        return BoardResult(BoardOutcome.CONFLICT, stored.board, differences(stored.board, request))

    def _open(self, request: OpenedBoard, version: int) -> BoardResult:
        batch = self._batch
        if request.closes_at_ms is not None and request.closes_at_ms <= batch.at_ms:
            return BoardResult(BoardOutcome.REFUSED, None, past_closing(batch.at_ms))
        board = replace(
            request,
            state=BoardState.OPEN,
            version=version,
            opened_at_ms=batch.at_ms,
            opened_by=batch.actor,
            opened_seq=batch.next_seq,
        )
        detail = content_of(board)
        stored = batch.put(board, LifeChange.OPENED, detail)
        self._first_contents[stored.opened_seq] = detail_text(detail)
        return BoardResult(BoardOutcome.OPENED, board)


def past_closing(at_ms: int) -> str:
    """Return why a board may not get a `closes_at` that is over, as of a time (Unix ms)."""
    return f"closes_at: is past, by our clock it is {rfc3339(at_ms)}; give a later time"


def _refusal(request: OpenedBoard, terms: FamilyTerms) -> str:
    """Return why no board of the family may be so, empty if it may."""
    if {request.family, family_named_by(request.board)} != {terms.family}:
        return f"board: it is not of the family {terms.family}"
    return unfilterable(request, terms)


def unfilterable(board: OpenedBoard, terms: FamilyTerms) -> str:
    """Return why a board's metadata gives too much to filter by, empty if it does not."""
    try:
        values_of(board.metadata, terms.fields)
    except SettingRefused as error:
        return f"{'.'.join(error.location)}: {error}"
    return ""
