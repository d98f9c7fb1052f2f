"""Operations on the boards of a family, in one transaction: open, change, close, reopen and delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

from gateway.catalogue.family_terms import terms_of
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, BoardResult
from gateway.ledger.boards.life_changes import change_boards, set_states
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.rollups import note_deletion
from policies.errors import SettingRefused
from policies.family import Family
from policies.opened_board import BoardState, OpenedBoard


@dataclass(frozen=True, slots=True)
class BoardOpening:
    """Opens a board, which its family allows."""

    opened: OpenedBoard

    @property
    def board(self) -> str:
        """Return the board's name."""
        return self.opened.board


@dataclass(frozen=True, slots=True)
class BoardRevision:
    """Gives a board other values for some of its fields. None as `version` means whatever it is now."""

    board: str
    version: int | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BoardTurn:
    """Closes, reopens or deletes a board, and says why."""

    board: str
    state: BoardState
    why: str = ""


FamilyOperation = BoardOpening | BoardRevision | BoardTurn


def perform(
    family: Family, requests: Sequence[FamilyOperation], *, actor: str, at_ms: int
) -> Operation[list[BoardResult]]:
    """Perform operations on boards of a family in their order, and return the outcome of each.

    At most 1,000, all in one commit. Neighbours of one kind share their statements.
    """
    performer = _Performer(family, actor, at_ms)

    async def work(tx: Transaction) -> list[BoardResult]:
        results: list[BoardResult] = []
        for _, group in groupby(requests, key=_kind):
            results += await performer.perform(tx, list(group))
        return results

    return work


def _kind(request: FamilyOperation) -> tuple[object, ...]:
    if isinstance(request, BoardTurn):
        return BoardTurn, request.state, request.why
    return (type(request),)


class _Performer:
    """Performs neighbouring operations of one kind, as an actor."""

    def __init__(self, family: Family, actor: str, at_ms: int) -> None:
        self._family = family
        self._terms = terms_of(family)
        self._actor = actor
        self._at_ms = at_ms

    async def perform(self, tx: Transaction, group: Sequence[FamilyOperation]) -> list[BoardResult]:
        """Perform operations that are all of the kind of the first."""
        match group[0]:
            case BoardOpening():
                opened = [request.opened for request in cast("Sequence[BoardOpening]", group)]
                return await open_boards(self._terms, opened, actor=self._actor, at_ms=self._at_ms)(tx)
            case BoardRevision():
                # One after the other, because two may be about one board.
                return [await self._revise(tx, request) for request in cast("Sequence[BoardRevision]", group)]
            case BoardTurn(state=state, why=why):
                return await self._turn(tx, [request.board for request in group], state, why)

    async def _revise(self, tx: Transaction, request: BoardRevision) -> BoardResult:
        stored = (await load_boards(tx, [request.board])).get(request.board)
        if stored is None:
            return BoardResult(BoardOutcome.UNKNOWN, None)
        version = stored.board.version if request.version is None else request.version
        after = replace(stored.board, **request.values, version=version)
        try:
            self._family.refuse_change(stored.board, after)
        except SettingRefused as refused:
            return BoardResult(BoardOutcome.REFUSED, stored.board, detail_of(refused))
        [result] = await change_boards(self._terms, [after], actor=self._actor, at_ms=self._at_ms)(tx)
        return result

    async def _turn(
        self, tx: Transaction, names: Sequence[str], state: BoardState, why: str
    ) -> list[BoardResult]:
        turned = set_states(self._terms, names, state, actor=self._actor, at_ms=self._at_ms, why=why)
        results = await turned(tx)
        for name, result in zip(names, results, strict=True):
            if state is BoardState.DELETED and result.outcome is BoardOutcome.CHANGED:
                await note_deletion(tx, self._family.rollups, name)
        return results


def detail_of(refused: SettingRefused) -> str:
    """Return what is wrong with a board's setting, by its name."""
    return f"{'.'.join(refused.location)}: {refused}"
