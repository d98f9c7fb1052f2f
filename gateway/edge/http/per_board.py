"""Parts of an edge that there is one of for each board: made when a board is first asked for, not before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from policies.loader import Board

T = TypeVar("T")


class PerBoard(Mapping[str, T], Generic[T]):
    """A part for each board that `needs` it, by the board's name."""

    def __init__(
        self,
        boards: Mapping[str, Board],
        make: Callable[[Board], T],
        *,
        needs: Callable[[Board], object] = lambda _: True,
    ) -> None:
        self._boards = boards
        self._make = make
        self._needs = needs
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """The part of a board. Raises KeyError for a board that is not there, or needs none."""
        if name not in self._made:
            if name not in self:
                raise KeyError(name)
            self._made[name] = self._make(self._boards[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a board, and it needs the part."""
        return name in self._boards and bool(self._needs(self._boards[str(name)]))

    def __iter__(self) -> Iterator[str]:
        """The names of the boards that need the part."""
        return (name for name in self._boards if name in self)

    def __len__(self) -> int:
        """How many boards need the part."""
        return sum(1 for _ in self)

    def existing(self) -> list[T]:
        """The parts that were needed so far."""
        return list(self._made.values())

    def forget(self, name: str) -> None:
        """Has the part of a board made anew, by the policy that is then in force."""
        self._made.pop(name, None)
