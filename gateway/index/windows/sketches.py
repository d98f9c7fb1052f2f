"""The distribution of all scores of a window, in bounded memory: a quantile sketch, mergeable, with a stated error.

Behind it is datasketches' KLL (Karnin, Lang, Liberty, Optimal Quantile Approximation in Streams, FOCS 2016): the share of
scores that are not better than one is within `RANK_ERROR` of the truth with 99 % confidence, whatever the scores are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

from datasketches import kll_doubles_sketch
from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from gateway.index import keys
from gateway.index.scripts import index_boundary
from gateway.index.transactions import transact
from policies.errors import SketchUnreadable
from policies.fields import SortOrder

K: Final = 1_000
"""The library's parameter of size: up to some 25 kB for any number of scores."""

RANK_ERROR: Final[float] = kll_doubles_sketch.get_normalized_rank_error(K, False)  # noqa: FBT003 - positional only
"""By how much a share may be off, as the library states it: about 0.3 %."""


class ScoreSketch:
    """The scores of some entries of a board. They are exact as doubles; where less is better they are kept negated."""

    def __init__(self, order: SortOrder) -> None:
        self._sign = -1 if order is SortOrder.ASCENDING else 1
        self._kll = kll_doubles_sketch(K)

    @classmethod
    def merged(cls, order: SortOrder, stored: Iterable[bytes]) -> Self:
        """One sketch of all that went into these; its error is the same as theirs. Raises ValueError for other bytes."""
        found = cls(order)
        for each in stored:
            try:
                found._kll.merge(kll_doubles_sketch.deserialize(each))
            except (RuntimeError, IndexError) as error:  # what the library makes of C++ exceptions
                raise ValueError("not a sketch") from error
        return found

    def add(self, scores: Iterable[int]) -> None:
        """Adds the scores of entries."""
        for score in scores:
            self._kll.update(float(self._sign * score))

    @property
    def count(self) -> int:
        """How many scores went into it."""
        return int(self._kll.n)

    @property
    def ends(self) -> tuple[int, int] | tuple[None, None]:
        """The best and the worst score, which are exact; None while there are none."""
        if not self.count:
            return None, None
        return self._score(self._kll.get_max_value()), self._score(self._kll.get_min_value())

    def share(self, score: int) -> float:
        """The share of scores that are not better than this one, from 0 to 1; 0 while there are none."""
        return float(self._kll.get_rank(float(self._sign * score), True)) if self.count else 0.0  # noqa: FBT003

    def score_at(self, share: float) -> int:
        """The worst score whose share is this much, from 0 to 1. There has to be one at least."""
        return self._score(self._kll.get_quantile(share, True))  # noqa: FBT003 - positional only

    def stored(self) -> bytes:
        """The sketch as bytes, which `merged` takes."""
        return bytes(self._kll.serialize())

    def _score(self, merit: float) -> int:
        return self._sign * int(merit)


class StoredSketch(NamedTuple):
    """A sketch of a window as of an event of the ledger, and when it was begun (Unix ms).

    `version` is that of what was below the head then (`gateway.index.windows.heads`): the difference to today's says
    how many changes it lacks.
    """

    sketch: ScoreSketch
    seq: int
    begun_at_ms: int
    version: int


def missing_changes(kept: StoredSketch, *, version: int, total: int) -> int:
    """How many changes a sketch lacks at most: those below the head since, and what came to the head or went from it.

    More than all once the version begins anew, as after a rebuild.
    """
    changes = version - kept.version
    come_or_gone = abs(total - kept.sketch.count)
    return (changes if changes >= 0 else total) + come_or_gone


class Sketches:
    """The sketches of one board's windows: disposable, made anew by the steward. Raises IndexUnavailable."""

    def __init__(self, client: Redis, board: str, order: SortOrder) -> None:
        self._client = client
        self._board = board
        self._order = order

    async def of(self, window: str) -> StoredSketch | None:
        """The sketch of a window, if there is one."""
        key, names = keys.sketch(self._board, window), ("seq", "begun_at_ms", "version", "sketch")
        with index_boundary():
            found: Any = await self._client.execute_command("HMGET", key, *names, **{NEVER_DECODE: True})  # type: ignore[no-untyped-call]
        if None in found:
            return None
        *facts, stored = found
        try:
            return StoredSketch(ScoreSketch.merged(self._order, [stored]), *map(int, facts))
        except ValueError as error:
            raise SketchUnreadable from error

    async def keep(self, window: str, kept: StoredSketch, expires_at_ms: int | None) -> None:
        """Puts a sketch in the place of the one before; it lives as long as its window."""
        key = keys.sketch(self._board, window)
        facts = ("seq", kept.seq, "begun_at_ms", kept.begun_at_ms, "version", kept.version)
        commands: list[tuple[Any, ...]] = [("HSET", key, *facts, "sketch", kept.sketch.stored())]
        commands.append(("PERSIST", key) if expires_at_ms is None else ("PEXPIREAT", key, expires_at_ms))
        with index_boundary():
            await transact(self._client, key, commands)
