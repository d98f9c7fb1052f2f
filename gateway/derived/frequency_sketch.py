"""A frequent-items sketch: the heaviest items of a stream in bounded memory, mergeable, with a stated error.

It is that of datasketches (Anderson et al., A High-Performance Algorithm for Identifying Frequent Items in
Data Streams, IMC 2017). The true weight of an item is between its bounds, which are at most 3.5 / 2^10 of the
total apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

LOG2_SIZE: Final = 10
"""Binary logarithm of the counters that a sketch may have: it counts 768 players exactly, in 15 kB."""


def _library() -> Any:
    import datasketches  # noqa: PLC0415 - loads numpy, which a steward without trends does without

    return datasketches


class FrequentItem(NamedTuple):
    """An item, and the bounds of its weight."""

    item: str
    at_least: int
    at_most: int


class FrequencySketch:
    """The weights of items, of which the heaviest are known."""

    def __init__(self) -> None:
        self._sketch = _library().frequent_strings_sketch(LOG2_SIZE)

    @classmethod
    def merged(cls, stored: Iterable[bytes]) -> Self:
        """Merge stored sketches into one."""
        merged = cls()
        for content in stored:
            merged._sketch.merge(_library().frequent_strings_sketch.deserialize(content))
        return merged

    def add(self, item: str, weight: int) -> None:
        """Add to the weight of an item; `weight` is positive."""
        self._sketch.update(item, weight)

    def add_all(self, weights: Mapping[str, int]) -> None:
        """Add to the weights of items, by name, so that equal weights give equal sketches."""
        for item in sorted(weights):
            self.add(item, weights[item])

    def first(self, count: int) -> list[FrequentItem]:
        """Return the heaviest items, heaviest first; equal ones by name."""
        rows = self._sketch.get_frequent_items(_library().frequent_items_error_type.NO_FALSE_NEGATIVES)
        items = [FrequentItem(item, lower, upper) for item, _, lower, upper in rows]
        return sorted(items, key=lambda item: (-item.at_most, item.item))[:count]

    @property
    def total(self) -> int:
        """Return the weight of everything that was added."""
        return int(self._sketch.total_weight)

    @property
    def error(self) -> int:
        """Return how far off a weight can be at most. An item lighter than this may be missing."""
        return int(self._sketch.epsilon * self.total)

    def stored(self) -> bytes:
        """Return the sketch as bytes, which `merged` reads."""
        return bytes(self._sketch.serialize())
