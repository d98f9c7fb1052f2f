"""Submissions follow what changed of their players, such as a ban, in slices that are a transaction each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.transaction import Operation, Row
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.settle import Projection, project
from gateway.shared_records import Change
from policies.loader import Board

SLICE: Final = 100
"""Submissions of one transaction, which other writes wait for."""

AGAIN_MS: Final = 30_000
"""Time after which submissions are looked for again that were passed over."""

AT_ONCE: Final = 4
"""Slices that follow before whoever asked has an answer. A steward goes on with the others."""


class Followed(Protocol):
    """What submissions follow. `seen_seq` is None once all of them have."""

    @property
    def seen_seq(self) -> int | None:
        """Return the number of the submission up to which they have."""
        ...


F = TypeVar("F", bound=Followed)


class Follower(ABC, Generic[F]):
    """Has submissions follow. Its methods raise LedgerUnavailable; what was done by then stays.

    The catalogue of an edge does not know deleted boards: `is_edge` leaves what is on them to stewards.
    """

    _reads: ClassVar[ReadKind]

    def __init__(
        self, ledger: Ledger, index: Projection, catalogue: Catalogue, *, is_edge: bool = False
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue
        self._is_edge = is_edge

    async def follow(self, followed_id: str, *, now_ms: int, slices: int = AT_ONCE) -> F:
        """Have up to some slices follow what has this id, and return it as it is then."""
        for _ in range(slices):
            if not await self.step(followed_id, now_ms=now_ms):
                break
        stored = await self._ledger.read(self._stored(followed_id), self._reads)
        assert stored is not None
        return stored

    async def step(self, followed_id: str, *, now_ms: int) -> bool:
        """Have one slice follow what has this id, and return whether there may be more."""
        followed = await self._ledger.read(self._stored(followed_id), self._reads)
        if followed is None or followed.seen_seq is None:
            return False
        page = await self._ledger.read(self._next(followed), self._reads)
        names = {row[1] for row in page}
        boards = await self._catalogue.boards(names)
        if self._is_edge and len(boards) < len(names):
            return False
        changes = await self._ledger.write(self._slice(followed, page, boards, now_ms=now_ms))
        reach(Point.AFTER_SETTLE)
        for name, changes_of_board in changes.items():
            await project(self._ledger, self._index, boards[name], changes_of_board)
        return bool(page)

    @abstractmethod
    def _stored(self, followed_id: str) -> Operation[F | None]:
        """Return what has this id as it is stored, or None."""

    @abstractmethod
    def _next(self, followed: F) -> Operation[Sequence[Row]]:
        """Return the next submissions that have still to follow: the number and the board, then anything."""

    @abstractmethod
    def _slice(
        self, followed: F, page: Sequence[Row], boards: Mapping[str, Board], *, now_ms: int
    ) -> Operation[Mapping[str, list[Change]]]:
        """Have a slice of a page follow; return the changes by the board that was played."""
