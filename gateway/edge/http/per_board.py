"""Parts of an edge that each board has its own of, made at the first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from gateway.catalogue.catalogue import Catalogue
from policies.loader import Board

T = TypeVar("T")


class PerBoard(Mapping[str, T], Generic[T]):
    """The parts of one kind by the board's name, for each board that `needs` one."""

    def __init__(
        self,
        catalogue: Catalogue,
        make: Callable[[Board], T],
        *,
        needs: Callable[[Board], object] = lambda _: True,
    ) -> None:
        self._catalogue = catalogue
        self._make = make
        self._needs = needs
        self._parts: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """Return the part of a board. Raises KeyError for an unknown board and for one that needs none."""
        if name not in self._parts:
            if name not in self:
                raise KeyError(name)
            self._parts[name] = self._make(self._catalogue.of_files[name])
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a board and it needs the part."""
        return name in self._catalogue.of_files and bool(self._needs(self._catalogue.of_files[str(name)]))

    def __iter__(self) -> Iterator[str]:
        """Return the names of the boards that need the part."""
        return (name for name in self._catalogue.of_files if name in self)

    def __len__(self) -> int:
        """Return the number of boards that need the part."""
        return sum(1 for _ in self)

    def existing(self) -> list[T]:
        """Return the parts that were made so far."""
        return list(self._parts.values())

    def forget(self, name: str) -> None:
        """Drop the part of a board; the next use makes another by the policy then in force."""
        self._parts.pop(name, None)
