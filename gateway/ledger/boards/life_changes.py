"""Changes boards of families: what they say and may narrow, and whether they are open, closed or deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.ledger.boards.board_batch import BoardBatch
from gateway.ledger.boards.board_differences import NEVER_CHANGE
from gateway.ledger.boards.board_opening import BATCH_LIMIT, past_closing, unfilterable
from gateway.ledger.boards.board_rows import (
    CHANGING,
    UNKNOWN_BOARD,
    WHY,
    BoardOutcome,
    BoardResult,
    FamilyTerms,
    LifeChange,
    content_changes,
    keeps_its_content,
)
from gateway.ledger.transaction import Operation, Transaction
from policies.opened_board import BoardState, OpenedBoard

CLOSED_SINCE: Final = "closes_at: a closed board's is when it closed; reopen the board first"

STAYS_DELETED: Final = "a deleted board stays deleted: open another board"

_TURNS: Final[Mapping[tuple[BoardState, BoardState], LifeChange]] = {
    (BoardState.OPEN, BoardState.CLOSED): LifeChange.CLOSED,
    (BoardState.CLOSED, BoardState.OPEN): LifeChange.REOPENED,
    (BoardState.OPEN, BoardState.DELETED): LifeChange.DELETED,
    (BoardState.CLOSED, BoardState.DELETED): LifeChange.DELETED,
}
"""The changes of state that boards may go through. Opening a deleted board's name again makes a new board."""


def set_states(
    terms: FamilyTerms,
    names: Sequence[str],
    state: BoardState,
    *,
    actor: str,
    at_ms: int,
    is_due: bool = False,
    why: str = "",
) -> Operation[list[BoardResult]]:
    """Close, reopen or delete boards of a family, all in one commit, and return the outcome of each.

    With `is_due` only boards are closed whose `closes_at_ms` has come; others are the same. Raises ValueError
    for more than BATCH_LIMIT boards.
    """
    if len(names) > BATCH_LIMIT:
        raise ValueError(f"{len(names)} boards are more than {BATCH_LIMIT}")

    async def work(tx: Transaction) -> list[BoardResult]:
        boards = await BoardBatch.begin(tx, terms, names, actor, at_ms)
        results = [turn(boards, name, state, why, is_due=is_due) for name in names]
        await boards.store()
        return results

    return work


def change(batch: BoardBatch, before: OpenedBoard, request: OpenedBoard) -> BoardResult:
    """Change what one board of a batch says and may narrow. Its family allows what it becomes.

    The `version` of the request must be the board's. A board that is so already is the same, whatever its
    version, because the request may have been sent again.
    """
    if not keeps_its_content(before, request):
        return BoardResult(BoardOutcome.REFUSED, before, NEVER_CHANGE)
    after = replace(before, **{name: getattr(request, name) for name in CHANGING}, version=before.version + 1)
    changed = content_changes(before, after)
    if not changed:
        return BoardResult(BoardOutcome.SAME, before)
    # Metadata that stays may have more values than the fields of a later policy may have.
    refusal = unfilterable(after, batch.terms) if "metadata" in changed else ""
    if refusal := refusal or _refusal_of_end(before, after, batch.at_ms):
        return BoardResult(BoardOutcome.REFUSED, before, refusal)
    if request.version != before.version:
        return BoardResult(BoardOutcome.CONFLICT, before, _outdated(before, request))
    batch.put(after, LifeChange.CHANGED, changed)
    return BoardResult(BoardOutcome.CHANGED, after)


def turn(
    batch: BoardBatch,
    name: str,
    state: BoardState,
    why: str = "",
    *,
    is_due: bool = False,
    times: tuple[int, int] | None = None,
) -> BoardResult:
    """Close, reopen or delete one board of a batch.

    `times` (Unix ms) are when the schedule of its family wants the board to open and close.
    """
    stored = batch.of_family(name)
    if stored is None:
        return UNKNOWN_BOARD
    before = stored.board
    is_early = is_due and (before.closes_at_ms is None or before.closes_at_ms > batch.at_ms)
    if before.state is state or is_early:
        return BoardResult(BoardOutcome.SAME, before)
    reason = _TURNS.get((before.state, state))
    if reason is None:
        return BoardResult(BoardOutcome.REFUSED, before, STAYS_DELETED)
    after = _turned(before, state, batch.at_ms, times)
    batch.put(after, reason, content_changes(before, after) | ({WHY: why} if why else {}))
    if state is BoardState.CLOSED:
        batch.archive(after)
    else:
        batch.withdraw(after)
    return BoardResult(BoardOutcome.CHANGED, after)


def _refusal_of_end(before: OpenedBoard, after: OpenedBoard, at_ms: int) -> str:
    if after.closes_at_ms == before.closes_at_ms:
        return ""
    if before.state is BoardState.CLOSED:
        return CLOSED_SINCE
    is_past = after.closes_at_ms is not None and after.closes_at_ms <= at_ms
    return f"{past_closing(at_ms)}, or close the board" if is_past else ""


def _outdated(before: OpenedBoard, request: OpenedBoard) -> str:
    return (
        f"version: the board has version {before.version} by now, and the change is based on "
        f"{request.version}: see whether it still makes sense, and send it with {before.version}"
    )


def _turned(before: OpenedBoard, state: BoardState, at_ms: int, times: tuple[int, int] | None) -> OpenedBoard:
    """Return the board in another state. A closed board's `closes_at_ms` is when it closed.

    Closing loses the times of a board. Reopened before the end of its schedule's time, it has that again.
    """
    opens_at_ms, closes_at_ms = before.opens_at_ms, before.closes_at_ms
    is_over = closes_at_ms is not None and closes_at_ms <= at_ms
    if state is BoardState.OPEN and is_over:
        closes_at_ms = None
        if times is not None and at_ms < times[1]:
            opens_at_ms, closes_at_ms = times
    if state is BoardState.CLOSED and not is_over:
        closes_at_ms = at_ms
        if opens_at_ms is not None and opens_at_ms >= closes_at_ms:
            opens_at_ms = None  # it closed before it was to open
    return replace(
        before, state=state, opens_at_ms=opens_at_ms, closes_at_ms=closes_at_ms, version=before.version + 1
    )
