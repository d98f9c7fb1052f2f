"""Who comes most often in a stream, in bounded memory: a frequent-items sketch, mergeable, with a stated error.

Behind it is datasketches' (Anderson et al., A High-Performance Algorithm for Identifying Frequent Items in Data Streams,
IMC 2017): the true weight of an item is between its bounds, which are no further apart than 3.5 / 2^10 of the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol, Self

from datasketches import frequent_items_error_type, frequent_strings_sketch

LOG2_SIZE: Final = 10
"""Binary logarithm of the counters a sketch may have: 768 players are counted exactly, and 15 kB hold them."""


class Frequent(NamedTuple):
    """An item, and between what its weight is."""

    item: str
    at_least: int
    at_most: int


class FrequentItems(Protocol):
    """Weights of items, of which the largest are known."""

    def add(self, item: str, weight: int) -> None:
        """Adds to the weight of an item; weights are positive."""
        ...

    def first(self, count: int) -> list[Frequent]:
        """The items of most weight, the first ones first."""
        ...


class Sketch:
    """Datasketches' frequent-items sketch."""

    def __init__(self) -> None:
        self._sketch = frequent_strings_sketch(LOG2_SIZE)

    @classmethod
    def merged(cls, stored: Iterable[bytes]) -> Self:
        """One sketch of all that went into these."""
        found = cls()
        for each in stored:
            found._sketch.merge(frequent_strings_sketch.deserialize(each))
        return found

    def add(self, item: str, weight: int) -> None:
        """Adds to the weight of an item; weights are positive."""
        self._sketch.update(item, weight)

    def add_all(self, weights: Mapping[str, int]) -> None:
        """Adds to the weights of items, in the order of their names, so that the same sketch comes of the same weights."""
        for item in sorted(weights):
            self.add(item, weights[item])

    def first(self, count: int) -> list[Frequent]:
        """The items of most weight, the first ones first; equal ones by their names."""
        rows = self._sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        found = [Frequent(item, lower, upper) for item, _, lower, upper in rows]
        return sorted(found, key=lambda each: (-each.at_most, each.item))[:count]

    @property
    def total(self) -> int:
        """The weight of all that was added."""
        return int(self._sketch.total_weight)

    @property
    def error(self) -> int:
        """By how much a weight can be off at most, whatever was added: an item that weighs less may be missing."""
        return int(self._sketch.epsilon * self.total)

    def stored(self) -> bytes:
        """The sketch as bytes, which `merged` takes."""
        return bytes(self._sketch.serialize())
