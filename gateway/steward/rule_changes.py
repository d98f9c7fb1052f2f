"""Folds boards anew whose policy ranks by another rule than the one under which they were folded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.rules_in_force import number_in_force
from gateway.index.board_index import Index
from gateway.ledger.derived.board_duties import boards_with_standings
from gateway.ledger.derived.folded_rules import (
    FOLDING,
    boards_of_other_rules,
    note_rules,
    noted_rules,
)
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.steward.archive.refold import refold_board
from gateway.steward.index.rebuild import Rebuilder
from policies.loader import Board
from policies.opened_board import names_of_family

SLICE: Final = 64
"""Boards whose standings are looked at in one read."""


class RuleKeeper:
    """The duty to fold everything once under its rule, and to note the rule. Readers wait for the note.

    It may be killed anywhere, and then begins again: what is folded already costs a look. Boards are built
    only once all are folded, and again after a failure: what is folded does not tell what is built.
    """

    def __init__(self, ledger: Ledger, index: Index, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue
        self._clock = clock
        self._changed: list[str] = []
        self._folded: dict[str, int] = {}

    async def step(self) -> int:
        """Follow the rule of the next board of a file or family that has another one; return how many.

        Raises LedgerUnavailable, IndexUnavailable and RebuildRefused. What failed is tried again last.
        """
        if not self._changed:
            self._changed = await self._look()
        if not self._changed:
            return 0
        await self._follow(self._changed.pop(0))
        return 1

    async def _look(self) -> list[str]:
        """Note what was never noted and needs no fold; return the rest, families before their rollups."""
        noted, policies = (await self._ledger.read(noted_rules())).numbers, self._catalogue.policies
        rollups = [name for name, board in policies.boards.items() if board.policy.rollup]
        names = [*policies.families, *(policies.boards.keys() - rollups), *rollups]
        numbers = {name: number_in_force(policies, name) for name in names}
        changed = [name for name in names if noted.get(name) != numbers[name]]
        fresh = [name for name in changed if name not in noted and name not in rollups]
        settled = [name for name in fresh if not await self._is_outdated(name)]
        if settled:
            await self._ledger.write(note_rules({name: numbers[name] or FOLDING for name in settled}))
        return [name for name in changed if name not in settled]

    async def _follow(self, name: str) -> None:
        number = number_in_force(self._catalogue.policies, name)
        if number is None:
            return
        if self._folded.get(name) != number:
            await self._fold_all(name)
            self._folded[name] = number
        async for slice_ in self._slices(name):
            for board in slice_.values():
                await self._build(board)
        await self._ledger.write(note_rules({name: number}))
        del self._folded[name]

    async def _fold_all(self, name: str) -> None:
        own = self._catalogue.of_files.get(name)
        rollup = own if own and own.policy.rollup else None
        is_noted = name in (await self._ledger.read(noted_rules())).numbers
        if is_noted or not rollup:  # a rollup that is new has nothing that could be read wrongly
            await self._ledger.write(note_rules({name: FOLDING}))
        if rollup:
            await self._fold(rollup)
            return
        async for board in self._outdated(name):
            await self._fold(board)

    async def _is_outdated(self, name: str) -> bool:
        async with aclosing(self._outdated(name)) as outdated:
            return await anext(outdated, None) is not None

    async def _outdated(self, name: str) -> AsyncGenerator[Board, None]:
        """Yield the boards of a file or family that have standings of another rule."""
        async for slice_ in self._slices(name):
            rankings = [board.ranking for board in slice_.values()]
            for outdated in await self._ledger.read(boards_of_other_rules(rankings)):
                yield slice_[outdated]

    async def _slices(self, name: str) -> AsyncIterator[Mapping[str, Board]]:
        if board := self._catalogue.of_files.get(name):
            yield {name: board}
            return
        after, beyond = names_of_family(name)
        while names := await self._ledger.read(boards_with_standings(after, beyond, count=SLICE)):
            yield await self._catalogue.boards(names)
            after = names[-1]

    async def _fold(self, board: Board) -> None:
        policy, clock = board.policy, self._clock
        family = self._catalogue.families.get(policy.rollup.family) if policy.rollup else None
        await refold_board(self._ledger, policy, clock=clock, tell=lambda _count: None, family=family)

    async def _build(self, board: Board) -> None:
        if not await self._is_cold(board):
            await Rebuilder(self._ledger, self._index.of(board), board.policy, clock=self._clock).rebuild()

    async def _is_cold(self, board: Board) -> bool:
        """Return whether Redis has nothing of a board, so that nobody can read it from there."""
        state = await self._index.of(board).residency.state()
        return state.is_cold or (board.family is not None and not state.is_whole)
