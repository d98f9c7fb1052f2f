"""The work on batches, in bounded steps: selecting, previewing, deciding, reversing, forgetting.

Each step begins where the batch stands in the ledger, so that any process can go on after the death of
another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import batch_items, batches
from gateway.ledger.moderation.batch_items import FIRST, ItemOutcome, ItemScore, LeftOut
from gateway.ledger.moderation.batches import Batch, BatchState
from gateway.ledger.moderation.podiums import podiums_gained, podiums_lost
from gateway.ledger.moderation.selections import SelectedSlice, Selection, next_slice
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.batch_slices import SLICE, decide_slice
from gateway.settlement.batches import (
    KEPT_MS,
    LIMIT,
    ON_BOARDS,
    entered,
    has_work,
    move_of,
)
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.settle import Projection, project
from policies.loader import Board
from policies.readable_windows import readable_windows
from policies.vocabulary import State

AT_ONCE: Final = 4
"""Steps that are made before a moderator has an answer. A steward goes on with the others."""

NAMED: Final = 100
"""Boards and podiums of a preview that are named; all are counted."""

COMPARED: Final = 1_000
"""Items of a board that one read compares with podiums."""

FORGOTTEN: Final = 1_000
"""Items of an abandoned batch that one step removes."""


class BatchSteps:
    """Works on batches. Its methods raise LedgerUnavailable; what was done by then stays.

    The catalogue of an edge does not know deleted boards: `is_edge` leaves batches with such to stewards.
    That of a command is read anew, so that it `waits_for_boards` no longer.
    """

    def __init__(
        self,
        ledger: Ledger,
        index: Projection,
        catalogue: Catalogue,
        *,
        clock: Clock,
        is_edge: bool = False,
        waits_for_boards: bool = True,
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue
        self._clock = clock
        self._is_edge = is_edge
        self._waits_for_boards = waits_for_boards

    async def follow(self, batch_id: str, *, steps: int = AT_ONCE) -> Batch | None:
        """Make up to some steps, and return the batch as it is then; None once it is forgotten."""
        for _ in range(steps):
            if not await self.step(batch_id):
                break
        return await self._ledger.read(batches.batch(batch_id), ReadKind.MODERATION)

    async def step(self, batch_id: str) -> bool:
        """Make one step, and return whether the next is due."""
        batch = await self._ledger.read(batches.batch(batch_id), ReadKind.MODERATION)
        if batch is None or not has_work(batch, now_ms=self._clock()):
            return False
        match batch.state:
            case BatchState.SELECTING:
                await self._preview(batch)
            case BatchState.APPLYING | BatchState.REVERSING:
                return await self._decide(batch)
            case _:
                await self._ledger.write(_let_go(batch, now_ms=self._clock()))
        return True

    async def _preview(self, batch: Batch) -> None:
        if batch.place and batch.place[0] == ON_BOARDS:
            return await self._compare(batch, batch.place[1])
        selection = selection_of(batch)
        selected = await self._ledger.read(next_slice(selection, batch.place), ReadKind.MODERATION)
        may_repeat = selection.may_repeat(batch.place)
        await self._ledger.write(_take(batch, selected, may_repeat=may_repeat, now_ms=self._clock()))
        return None

    async def _compare(self, batch: Batch, after: str) -> None:
        """Compare the items on the next board with its podiums, or end the preview."""
        name = await self._ledger.read(_next_board(batch, after), ReadKind.MODERATION)
        if name is None:
            now_ms = self._clock()
            preview = entered(
                batch, BatchState.PREVIEWED, now_ms=now_ms, due_at_ms=now_ms + KEPT_MS, place=()
            )
            return await self._ledger.write(_store(batch, preview))
        board = await self._catalogue.board(name)
        items, in_cases, podiums = await self._compare_board(batch, name, board)
        found = {"board": name, "items": items}
        known = _with_board(batch.preview, found, podiums, in_cases)
        known = _with_left_out(known, LeftOut.NO_POLICY, 0 if board else items)
        compared = replace(batch, place=(ON_BOARDS, name), preview=known)
        return await self._ledger.write(_store(batch, compared))

    async def _compare_board(
        self, batch: Batch, name: str, board: Board | None
    ) -> tuple[int, int, list[str]]:
        """Return how many items on a board wait, in how many cases of them a colleague is, and the podiums.

        Those are the windows whose podium the batch would change. The items come in pages; only what begins
        to count is kept, of which a moderator's batch has no more than LIMIT.
        """
        move, now_ms = move_of(batch), self._clock()
        moderator = batch.actor.removeprefix(MODERATOR)
        windows = list(readable_windows(board.policy, now_ms)) if board else []
        items, in_cases, after = 0, 0, -1
        added: list[ItemScore] = []
        podiums: set[str] = set()
        while page := await self._page(batch, name, after):
            after = page[-1].seq
            waiting = [item for item in page if item.outcome == ItemOutcome.WAITING]
            items += len(waiting)
            in_cases += sum(item.is_in_case_of_another(moderator, now_ms=now_ms) for item in waiting)
            if move.to_state is State.PROMOTED:
                added += waiting
            elif board and move.from_state is State.PROMOTED:
                left = [window for window in windows if window.name not in podiums]
                lost = podiums_lost(board.ranking, left, waiting)
                podiums.update(await self._ledger.read(lost, ReadKind.MODERATION))
        if board and added:
            gained = podiums_gained(board.ranking, windows, added)
            podiums.update(await self._ledger.read(gained, ReadKind.MODERATION))
        return items, in_cases, [window.name for window in windows if window.name in podiums]

    async def _page(self, batch: Batch, board: str, after: int) -> list[ItemScore]:
        page = batch_items.scores_on(batch.batch_id, board, after=after, count=COMPARED)
        return await self._ledger.read(page, ReadKind.MODERATION)

    async def _decide(self, batch: Batch) -> bool:
        board, seq = batch.place
        items = await self._ledger.read(
            batch_items.items_of(batch.batch_id, (board, seq), count=SLICE), ReadKind.MODERATION
        )
        names = {item.board for item in items}
        boards = await self._catalogue.boards(names)
        if self._is_edge and len(boards) < len(names):
            return False
        now_ms, waits = self._clock(), self._waits_for_boards
        decided = decide_slice(batch, items, boards, now_ms=now_ms, waits_for_boards=waits)
        changes = await self._ledger.write(decided)
        reach(Point.AFTER_SETTLE)
        for name, changes_of_board in changes.items():
            if changes_of_board:
                await project(self._ledger, self._index, boards[name], changes_of_board)
        return True


def selection_of(batch: Batch) -> Selection:
    """Return the selection of a moderator's batch."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in batch.selection.items()
    }
    return Selection(state=move_of(batch).from_state, scopes=batch.scopes, upto=batch.begin_seq, **values)


def _take(batch: Batch, selected: SelectedSlice, *, may_repeat: bool, now_ms: int) -> Operation[None]:
    """Store the items of a slice, as far as the batch may have them, and where the selection goes on."""

    async def work(tx: Transaction) -> None:
        if not await _is_unchanged(tx, batch):
            return
        items = selected.items
        if may_repeat and items:
            items = await batch_items.new_items(tx, batch.batch_id, items, most=LIMIT)
        await batch_items.add_items(tx, batch.batch_id, items[: max(0, LIMIT - batch.items)])
        await batches.change(tx, _taken(batch, selected, batch.items + len(items), now_ms))

    return work


def _taken(batch: Batch, selected: SelectedSlice, count: int, now_ms: int) -> Batch:
    """Return a batch that has so many items with a slice."""
    preview = _with_left_out(batch.preview, LeftOut.NOT_YOURS, selected.own)
    taken = replace(batch, looked_at=batch.looked_at + selected.looked_at, items=count, preview=preview)
    if count > LIMIT:
        return entered(taken, BatchState.REFUSED, now_ms=now_ms, due_at_ms=now_ms + KEPT_MS, place=())
    return replace(taken, place=(ON_BOARDS, "") if selected.place is None else selected.place)


def _store(batch: Batch, changed: Batch) -> Operation[None]:
    async def work(tx: Transaction) -> None:
        if await _is_unchanged(tx, batch):
            await batches.change(tx, changed)

    return work


async def _is_unchanged(tx: Transaction, batch: Batch) -> bool:
    """Return whether no other process went on with a batch since it was read, and nobody turned it round."""
    now = await batches.load_batch(tx, batch.batch_id)
    read = (batch.version, batch.place, batch.due_at_ms)
    return now is not None and (now.version, now.place, now.due_at_ms) == read


def _next_board(batch: Batch, after: str) -> Operation[str | None]:
    async def work(tx: Transaction) -> str | None:
        return await batch_items.next_board(tx, batch.batch_id, after)

    return work


def _with_board(
    preview: Mapping[str, Any], found: Mapping[str, Any], windows: list[str], in_cases: int
) -> dict[str, Any]:
    """Return a preview with one more board: those with most items are named, and the first podiums."""
    boards = [*preview.get("boards", ()), found]
    podiums = [*preview.get("podiums", ()), *({"board": found["board"], "window": each} for each in windows)]
    return {
        **preview,
        "boards": sorted(boards, key=lambda each: (-each["items"], each["board"]))[:NAMED],
        "in_cases": preview.get("in_cases", 0) + in_cases,
        "board_count": preview.get("board_count", 0) + 1,
        "podiums": podiums[:NAMED],
        "podium_count": preview.get("podium_count", 0) + len(windows),
    }


def _with_left_out(preview: Mapping[str, Any], reason: LeftOut, count: int) -> dict[str, Any]:
    """Return a preview that counts so many more submissions as left out for a reason."""
    left_out = dict(preview.get("left_out", {}))
    if count:
        left_out[reason.value] = left_out.get(reason.value, 0) + count
    return {**preview, "left_out": left_out}


def _let_go(batch: Batch, *, now_ms: int) -> Operation[None]:
    """Remove the next items of a batch that was abandoned or has expired, and at last itself."""

    async def work(tx: Transaction) -> None:
        if not await _is_unchanged(tx, batch):
            return
        items = await batch_items.load_items(tx, batch.batch_id, FIRST, count=FORGOTTEN)
        await batch_items.remove_items(tx, batch.batch_id, items)
        if len(items) < FORGOTTEN:
            await batches.forget(tx, batch.batch_id)
        elif batch.state is not BatchState.ABANDONED:
            await batches.change(tx, entered(batch, BatchState.ABANDONED, now_ms=now_ms, due_at_ms=now_ms))

    return work
