"""Folds boards anew whose policy ranks by another rule than the one under which they were folded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.rules_in_force import rule_in_force
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.index.inspection import Inspection
from gateway.ledger.derived.board_duties import boards_with_standings
from gateway.ledger.derived.folded_rules import (
    BegunFold,
    RuleInForce,
    begin_fold,
    end_fold,
    has_other_rule,
    mark_all,
    noted_rules,
)
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.steward.archive.refold import refold_board
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import RebuildRefused
from policies.loader import Board
from policies.opened_board import names_of_family

SLICE: Final = 64
"""Boards of a family whose names are read at once."""


@dataclass(slots=True)
class _Progress:
    """How far a fold is: what was built stays good as long as its mark does."""

    fold: BegunFold
    is_folded: bool = False
    built: str = ""
    refused: list[Board] = field(default_factory=list)


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
        self._noted: Mapping[str, int] = {}
        self._progress: dict[str, _Progress] = {}

    async def step(self) -> int:
        """Follow the rule of the next board of a file or family that has another one; return how many.

        Raises LedgerUnavailable, IndexUnavailable and RebuildRefused. What failed is tried again last.
        """
        if not self._changed:
            self._changed = await self._look()
        while self._changed:
            if await self._has_followed(self._changed.pop(0)):
                return 1
        return 0

    async def _look(self) -> list[str]:
        """Return what is not noted under its rule, families before their rollups; mark what has no policy.

        While its file is gone nobody folds it, so it is folded once the file is back.
        """
        self._noted, policies = (await self._ledger.read(noted_rules())).numbers, self._catalogue.policies
        rollups = [name for name, board in policies.boards.items() if board.policy.rollup]
        names = [*policies.families, *(policies.boards.keys() - rollups), *rollups]
        rules = {name: rule for name in names if (rule := rule_in_force(policies, name))}
        if gone := [name for name, number in self._noted.items() if number > 0 and name not in rules]:
            await self._ledger.write(mark_all(gone))
        return [name for name, rule in rules.items() if self._noted.get(name) != rule.number]

    async def _has_followed(self, name: str) -> bool:
        """Fold and build what has a name, and note its rule; return False if there was nothing to fold."""
        rule = rule_in_force(self._catalogue.policies, name)
        if rule is None or await self._was_never_outdated(rule):
            return False
        progress = self._progress.pop(name, None)
        fold = await self._ledger.write(begin_fold(rule, progress.fold if progress else None))
        if fold is None:
            return False
        if progress is None or progress.fold != fold:
            progress = _Progress(fold)
        self._progress[name] = progress
        if not progress.is_folded:
            await self._fold_all(name)
            progress.is_folded = True
        await self._build_all(progress)
        del self._progress[name]
        return await self._ledger.write(end_fold(fold))

    async def _was_never_outdated(self, rule: RuleInForce) -> bool:
        """Note what was never noted and needs no fold, and return whether it is such."""
        if rule.family or rule.name in self._noted or await self._is_outdated(rule.name):
            return False
        return await self._ledger.write(end_fold(BegunFold(rule, None)))

    async def _fold_all(self, name: str) -> None:
        own = self._catalogue.of_files.get(name)
        if own and own.policy.rollup:
            await self._fold(own)
            return
        async for board in self._outdated(name):
            await self._fold(board)

    async def _is_outdated(self, name: str) -> bool:
        async with aclosing(self._outdated(name)) as outdated:
            return await anext(outdated, None) is not None

    async def _outdated(self, name: str) -> AsyncGenerator[Board, None]:
        """Yield the boards of a file or family that have standings of another rule."""
        async for board in self._boards(name):
            if await self._ledger.read(has_other_rule(board.ranking)):
                yield board

    async def _boards(self, name: str, after: str = "") -> AsyncIterator[Board]:
        """Yield the boards of a file or family after a name, in order."""
        if board := self._catalogue.of_files.get(name):
            if name > after:
                yield board
            return
        first, beyond = names_of_family(name)
        after = max(after, first)
        while names := await self._ledger.read(boards_with_standings(after, beyond, count=SLICE)):
            boards = await self._catalogue.boards(names)
            for found in names:
                if found in boards:
                    yield boards[found]
            after = names[-1]

    async def _build_all(self, progress: _Progress) -> None:
        """Build boards that were not built since they were folded. Those that others build come last."""
        async for board in self._boards(progress.fold.rule.name, progress.built):
            try:
                await self._build(board)
            except RebuildRefused:
                progress.refused.append(board)
            progress.built = board.name
        while progress.refused:
            await self._build(progress.refused[0])
            del progress.refused[0]

    async def _fold(self, board: Board) -> None:
        policy, clock = board.policy, self._clock
        family = self._catalogue.families.get(policy.rollup.family) if policy.rollup else None
        await refold_board(self._ledger, policy, clock=clock, tell=lambda _count: None, family=family)

    async def _build(self, board: Board) -> None:
        if not await self._is_cold(board):
            await Rebuilder(self._ledger, self._index.of(board), board.policy, clock=self._clock).rebuild()

    async def _is_cold(self, board: Board) -> bool:
        """Return whether Redis has nothing of a board, and nobody builds it from what was read before."""
        index = self._index.of(board)
        if await Inspection(index.client, board.name).facts([keys.lease(board.name)]):
            return False
        state = await index.residency.state()
        return state.is_cold or (board.family is not None and not state.is_whole)
