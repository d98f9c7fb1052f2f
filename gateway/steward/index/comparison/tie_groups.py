"""The groups of tied entries that dense ranks count: each exists exactly as long as it has an entry."""

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
    """A group of tied entries in a window, as bytes from Redis."""

    window: str
    member: bytes


class TieGroups:
    """The tie groups of every window, on boards that keep them. They follow from the entries alone."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._ranking = view.index.ranking

    def walks(self) -> Sequence[Walk]:
        """Return the walks through the entries, and through the groups."""
        return (self._from_entries, self._from_groups) if self._ranking.keeps_groups else ()

    async def _from_entries(self, count: int) -> Subjects:
        for window in await self._view.windows():
            for zset in self._view.zsets(window):
                async with aclosing(self._view.inspection.scored_members(zset, count)) as slices:
                    async for entries in slices:
                        groups = {self._group(window, member, score) for member, score in entries}
                        yield [TieGroup(window, group) for group in groups if group]

    async def _from_groups(self, count: int) -> Subjects:
        for window in await self._view.windows():
            key = keys.groups(self._view.board, window)
            async with aclosing(self._view.inspection.members(key, count)) as slices:
                async for members in slices:
                    yield [TieGroup(window, member) for member in members]

    async def compare(self, subjects: Sequence[TieGroup]) -> list[Difference]:
        """Return the groups that are missing, or that have no entry."""
        wrong: list[TieGroup] = []
        for window, groups in _by_window(subjects).items():
            are_right = await self._are_right(window, groups)
            wrong += [
                TieGroup(window, group)
                for group, is_right in zip(groups, are_right, strict=True)
                if not is_right
            ]
        return [
            Difference(
                self._view.board,
                Kind.WRONG_GROUP,
                window=group.window,
                index=printable(group.member),
                subject=group,
            )
            for group in wrong
        ]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Add the groups that have entries, and remove those that have none."""
        for window, groups in _by_window([difference.subject for difference in differences]).items():
            await self._are_right(window, groups, is_mended=True)

    async def _are_right(
        self, window: str, groups: Sequence[bytes], *, is_mended: bool = False
    ) -> list[bool]:
        return await self._view.inspection.check_groups(self._ranking, window, groups, is_mended=is_mended)

    def _group(self, window: str, member: bytes, score: float) -> bytes | None:
        text = text_of(member)
        if text is None or not score.is_integer():
            return None  # a forged member: its removal removes its group
        order, ties = self._ranking.group(window, BoardPlace(int(score), text))
        return f"{order} {ties}".encode()


def _by_window(subjects: Sequence[TieGroup]) -> dict[str, list[bytes]]:
    by_window: dict[str, dict[bytes, None]] = defaultdict(dict)
    for window, member in subjects:
        by_window[window][member] = None
    return {window: list(members) for window, members in by_window.items()}
