"""The groups of tied entries that dense ranks are counted by: each there as long as an entry is of it, and no longer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from typing import NamedTuple

from gateway.index import keys
from gateway.steward.index.comparison.difference import (
    BoardView,
    Difference,
    Kind,
    Subjects,
    Walk,
    printable,
    text_of,
)
from policies.ranking import BoardPlace


class TieGroup(NamedTuple):
    """A group of a window, by the bytes that stand in Redis."""

    window: str
    member: bytes


class TieGroups:
    """The groups of every window, on boards that keep them. They follow from the entries, so the ledger is not asked."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._ranking = view.index.ranking

    def walks(self) -> Sequence[Walk]:
        """Through the entries, and through the groups."""
        return (self._from_entries, self._from_groups) if self._ranking.keeps_groups else ()

    async def _from_entries(self, count: int) -> Subjects:
        for window in await self._view.windows():
            for held in self._view.zsets(window):
                async with aclosing(self._view.inspection.placed(held, count)) as slices:
                    async for placed in slices:
                        found = {self._group(window, member, score) for member, score in placed}
                        yield [TieGroup(window, each) for each in found if each]

    async def _from_groups(self, count: int) -> Subjects:
        for window in await self._view.windows():
            held = keys.groups(self._view.board, window)
            async with aclosing(self._view.inspection.members(held, count)) as slices:
                async for members in slices:
                    yield [TieGroup(window, member) for member in members]

    async def compare(self, subjects: Sequence[TieGroup]) -> list[Difference]:
        """TieGroups that are missing, or that no entry is of."""
        found: list[Difference] = []
        for window, groups in _by_window(subjects).items():
            for group, is_right in zip(groups, await self._look(window, groups), strict=True):
                if not is_right:
                    subject = TieGroup(window, group)
                    found.append(
                        Difference(
                            self._view.board,
                            Kind.WRONG_GROUP,
                            window=window,
                            index=printable(group),
                            subject=subject,
                        )
                    )
        return found

    async def repair(self, found: Sequence[Difference]) -> None:
        """Adds and takes out what the entries ask for."""
        for window, groups in _by_window([each.subject for each in found]).items():
            await self._look(window, groups, is_mended=True)

    async def _look(self, window: str, groups: Sequence[bytes], *, is_mended: bool = False) -> list[bool]:
        return await self._view.inspection.are_groups(self._ranking, window, groups, is_mended=is_mended)

    def _group(self, window: str, member: bytes, score: float) -> bytes | None:
        text = text_of(member)
        if text is None or not score.is_integer():
            return None  # a forged member: it goes, and its group with it
        order, ties = self._ranking.group(window, BoardPlace(int(score), text))
        return f"{order} {ties}".encode()


def _by_window(subjects: Sequence[TieGroup]) -> dict[str, list[bytes]]:
    found: dict[str, dict[bytes, None]] = defaultdict(dict)
    for window, member in subjects:
        found[window][member] = None
    return {window: list(members) for window, members in found.items()}
