"""A duty's walk over what is due, slice by slice, on which an item that fails holds up no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from gateway.runtime.clock import Clock
from gateway.steward.failures import FAILING_LIMIT, Failures
from policies.errors import LeaseLost, LedgerUnavailable

T = TypeVar("T")

RETRY_MS: Final = 5_000
"""Time after which an item that failed is tried again."""

REFUSALS: Final = 4
"""Items of a slice without a ledger after which nobody tries the others."""


class FairTurns(Generic[T]):
    """The items of one duty. Each slice begins behind the one before, and the first follows the last.

    `names` gives the name of an item, and the board by which its failures are counted. As many items as are
    `together` are worked on in one go, and each by itself once that fails. One that failed is passed over for
    `retry_ms`.
    """

    def __init__(
        self,
        duty: str,
        failures: Failures,
        *,
        clock: Clock,
        in_slice: int,
        names: Callable[[T], tuple[str, str]],
        together: int = 1,
        retry_ms: int = RETRY_MS,
    ) -> None:
        self._duty = duty
        self._failures = failures
        self._clock = clock
        self._in_slice = in_slice
        self._names = names
        self._together = together
        self._retry_ms = retry_ms
        self._last: T | None = None
        self._is_due = False
        self._again_ms: dict[str, int] = {}
        self._failing: set[str] = set()
        self._failed: set[str] = set()

    async def step(
        self,
        due_after: Callable[[T | None], Awaitable[Sequence[T]]],
        work: Callable[[Sequence[T]], Awaitable[object]],
    ) -> int:
        """Work on a slice of what is due, and return on how many items.

        `due_after` gives a slice behind an item, None for the first. Notes the failure of a single item.
        Raises LedgerUnavailable, after the others if few items had no ledger, and LeaseLost.
        """
        due = await due_after(self._last)
        if not due and self._last is not None:
            self._end_round()
            due = await due_after(None)
        self._is_due = bool(due)
        self._last = due[-1] if len(due) == self._in_slice else None
        refusals: list[LedgerUnavailable] = []
        ready = [item for item in due if not self._is_put_off(item)]
        done = 0
        for at in range(0, len(ready), self._together):
            done += await self._work_on(ready[at : at + self._together], work, refusals)
        if self._last is None:
            self._end_round()
        if refusals:
            raise refusals[0]
        return done

    async def next_due(self) -> int | None:
        """Return when the next items are due: now if the last step had any, which may have failed."""
        return self._clock() if self._is_due else None

    def _is_put_off(self, item: T) -> bool:
        name, board = self._names(item)
        again_ms = self._again_ms.get(name)
        # A clock that was put back says nothing of how long ago the failure was.
        if again_ms is None or not 0 < again_ms - self._clock() <= self._retry_ms:
            return False
        self._failed.add(board)
        return True

    async def _work_on(
        self,
        items: Sequence[T],
        work: Callable[[Sequence[T]], Awaitable[object]],
        refusals: list[LedgerUnavailable],
    ) -> int:
        try:
            await work(items)
        except LeaseLost:
            raise
        except Exception as error:  # an item's failure must not stop the others
            if len(items) > 1:
                return sum([await self._work_on([item], work, refusals) for item in items])
            if not isinstance(error, LedgerUnavailable):
                self._note(items[0], error)
                return 0
            refusals.append(error)
            if len(refusals) == REFUSALS:
                raise
            return 0
        for item in items:
            self._again_ms.pop(self._names(item)[0], None)
        return len(items)

    def _note(self, item: T, error: Exception) -> None:
        name, board = self._names(item)
        self._failures.note(self._duty, board, error)
        self._failed.add(board)
        if self._retry_ms:
            self._again_ms.pop(name, None)
            self._again_ms[name] = self._clock() + self._retry_ms
            if len(self._again_ms) > FAILING_LIMIT:
                del self._again_ms[next(iter(self._again_ms))]

    def _end_round(self) -> None:
        """Clear the failures of boards of which no item failed since the last time."""
        for board in self._failing - self._failed:
            self._failures.clear(self._duty, board)
        self._failing, self._failed = self._failed, set()
