"""Sketches of a window's score distribution: mergeable, in bounded memory, with a stated error.

They are datasketches' KLL (Karnin, Lang, Liberty, Optimal Quantile Approximation in Streams, FOCS 2016). The
share of scores not better than a given one is within `rank_error()` of the truth with 99 % confidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple, Self

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.cluster import RAW
from gateway.index.scripts import index_boundary
from gateway.index.transactions import transact
from policies.errors import SketchUnreadable
from policies.fields import SortOrder

K: Final = 1_000
"""The library's size parameter: about 25 kB at most, for any number of scores."""


def _library() -> Any:
    import datasketches  # noqa: PLC0415 - loads numpy, and few requests and rounds look at a sketch

    return datasketches.kll_doubles_sketch


@cache
def rank_error() -> float:
    """Return the error of a share, as the library states it: about 0.3 %."""
    return float(_library().get_normalized_rank_error(K, False))  # noqa: FBT003 - positional only


class ScoreSketch:
    """A sketch of scores. Scores are exact as doubles, and negated if less is better."""

    def __init__(self, order: SortOrder) -> None:
        self._sign = -1 if order is SortOrder.ASCENDING else 1
        self._kll = _library()(K)

    @classmethod
    def merged(cls, order: SortOrder, stored: Iterable[bytes]) -> Self:
        """Return one sketch of all these, with the same error. Raises ValueError for other bytes."""
        sketch = cls(order)
        for serialized in stored:
            try:
                sketch._kll.merge(_library().deserialize(serialized))
            except (RuntimeError, IndexError) as error:  # the library turns C++ exceptions into these
                raise ValueError("not a sketch") from error
        return sketch

    def add(self, scores: Iterable[int]) -> None:
        """Add scores."""
        for score in scores:
            self._kll.update(float(self._sign * score))

    @property
    def count(self) -> int:
        """The number of scores in the sketch."""
        return int(self._kll.n)

    @property
    def ends(self) -> tuple[int, int] | tuple[None, None]:
        """The best and the worst score, both exact; None while there are none."""
        if not self.count:
            return None, None
        return self._score(self._kll.get_max_value()), self._score(self._kll.get_min_value())

    def share(self, score: int) -> float:
        """Return the share of scores not better than this one, from 0 to 1; 0 for an empty sketch."""
        if not self.count:
            return 0.0
        return float(self._kll.get_rank(float(self._sign * score), True))  # noqa: FBT003 - inclusive

    def score_at(self, share: float) -> int:
        """Return the worst score with this share, from 0 to 1, of a sketch that is not empty."""
        return self._score(self._kll.get_quantile(share, True))  # noqa: FBT003 - positional only

    def serialized(self) -> bytes:
        """Return the sketch as bytes for `merged`."""
        return bytes(self._kll.serialize())

    def _score(self, merit: float) -> int:
        return self._sign * int(merit)


class StoredSketch(NamedTuple):
    """A window's sketch as of event `seq` of the ledger, begun at `begun_at_ms` (Unix ms).

    `version` is that of the standings below the head then (`gateway.index.windows.heads`). It grows by one
    with each change, so the difference to the current one counts the changes that the sketch lacks.
    """

    sketch: ScoreSketch
    seq: int
    begun_at_ms: int
    version: int


def missing_changes(stored: StoredSketch, *, version: int, total: int) -> int:
    """Return the most changes a sketch may lack: those below the head, plus the change of the total.

    If the version started again, as after a rebuild, the sketch lacks all entries.
    """
    changes = version - stored.version
    growth = abs(total - stored.sketch.count)
    return (changes if changes >= 0 else total) + growth


class Sketches:
    """The sketches of one board's windows, which the steward can rebuild. Raises IndexUnavailable."""

    def __init__(self, client: Redis, board: str, order: SortOrder) -> None:
        self._client = client
        self._board = board
        self._order = order

    async def of(self, window: str) -> StoredSketch | None:
        """Return the sketch of a window, None if there is none. Raises SketchUnreadable for forged bytes."""
        key, names = keys.sketch(self._board, window), ("seq", "begun_at_ms", "version", "sketch")
        with index_boundary():
            command = ("HMGET", key, *names)
            values: Any = await self._client.execute_command(*command, **RAW)  # type: ignore[no-untyped-call]
        if None in values:
            return None
        *facts, serialized = values
        try:
            return StoredSketch(ScoreSketch.merged(self._order, [serialized]), *map(int, facts))
        except ValueError as error:
            raise SketchUnreadable from error

    async def keep(self, window: str, stored: StoredSketch, expires_at_ms: int | None) -> None:
        """Replace a window's sketch; it lives as long as the window."""
        key = keys.sketch(self._board, window)
        facts = ("seq", stored.seq, "begun_at_ms", stored.begun_at_ms, "version", stored.version)
        commands: list[tuple[Any, ...]] = [("HSET", key, *facts, "sketch", stored.sketch.serialized())]
        commands.append(("PERSIST", key) if expires_at_ms is None else ("PEXPIREAT", key, expires_at_ms))
        with index_boundary():
            await transact(self._client, key, commands)
