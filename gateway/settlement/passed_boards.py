"""The boards of a batch that were not known to the process that came to them.

A steward may hear of a new board later than others. It passes over what is there, and the batch looks for it
again in rounds, which take only the boards that the round before has passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.ledger.moderation.batch_items import BatchItem
from gateway.ledger.moderation.batches import Batch

AGAIN_MS: Final = 30_000
"""Time between two rounds."""

GIVEN_UP_MS: Final = 3_600_000
"""Time after which a board that was passed over is taken to have no policy."""

MOST: Final = 1_000
"""Most boards that a batch waits for."""

LAST: Final = 2**63 - 1
"""A number behind those of all submissions."""

_KEY: Final = "passed"


@dataclass(frozen=True, slots=True)
class PassedBoards:
    """What a batch has passed over in this round, in order, since an instant of an earlier one (Unix ms).

    `left` are the boards of the round from that on at which the batch stands, None in the first round, which
    takes all.
    """

    boards: tuple[str, ...] = ()
    left: tuple[str, ...] | None = None
    since_ms: int | None = None

    @classmethod
    def of(cls, batch: Batch) -> PassedBoards:
        """Return those of a batch."""
        boards, left, since_ms = batch.preview.get(_KEY, ((), None, None))
        return cls(tuple(boards), None if left is None else tuple(left), since_ms)

    def stored_in(self, preview: dict[str, Any]) -> dict[str, Any]:
        """Return the preview of a batch with these."""
        known = without_passed(preview)
        return known if self == PassedBoards() else known | {_KEY: [self.boards, self.left, self.since_ms]}

    @property
    def first_place(self) -> tuple[str, int]:
        """Return the place before the board at which the round stands."""
        assert self.left
        return self.left[0], -1

    @property
    def is_waiting(self) -> bool:
        """Return whether some board was passed over that is still looked for."""
        return bool(self.boards or self.left)

    @property
    def until_ms(self) -> int:
        """Return when they are given up, if some were passed over (Unix ms)."""
        assert self.since_ms is not None
        return self.since_ms + GIVEN_UP_MS

    def taken(self, items: Sequence[BatchItem]) -> list[BatchItem]:
        """Return those of the next items that this round takes."""
        return [item for item in items if self.left is None or item.board == self.left[0]]

    def may_pass(self, board: str, *, now_ms: int) -> bool:
        """Return whether a board may be passed over, and is not given up."""
        has_room = board in self.boards or len(self.boards) < MOST
        return has_room and (self.since_ms is None or now_ms < self.until_ms)

    def with_passed(self, board: str, *, now_ms: int) -> PassedBoards:
        """Return these with a board that is passed over now."""
        boards = self.boards if board in self.boards else (*self.boards, board)
        return replace(self, boards=boards, since_ms=now_ms if self.since_ms is None else self.since_ms)

    def behind(self, item: BatchItem) -> tuple[str, int] | None:
        """Return the place behind an item, and behind its board if that is passed over; None with a board."""
        if item.board not in self.boards:
            return item.place
        return (item.board, LAST) if self.left is None else None

    def behind_board(self) -> PassedBoards:
        """Return these behind the board at which the round stands, or behind the first round."""
        return replace(self, left=self.left[1:] if self.left else ())

    def next_round(self) -> PassedBoards:
        """Return the next round, which takes what this one has passed over."""
        return replace(self, boards=(), left=self.boards)


def without_passed(preview: dict[str, Any]) -> dict[str, Any]:
    """Return the preview of a batch that has passed over nothing yet."""
    return {name: value for name, value in preview.items() if name != _KEY}
