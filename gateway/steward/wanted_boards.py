"""Opens the boards that policies of families want: those that they declare, and those whose time comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.family_terms import terms_of
from gateway.ledger.boards.board_opening import in_batches, open_boards
from gateway.ledger.boards.board_rows import BoardOutcome
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import Event, logger
from policies.family import Family
from policies.opened_board import BoardState, NarrowedBounds, OpenedBoard
from policies.openings import declared_boards, scheduled_boards

ACTOR: Final = "policy"
"""The actor of boards that a policy had opened."""

_log = logger()


class BoardOpener:
    """The duty to open boards that policies want and that were never opened.

    A board that was opened before is left as it is, also one that was deleted. The ledger is asked about a
    name once, so a round with nothing to open reads nothing.
    """

    def __init__(self, ledger: Ledger, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock
        self._seen: dict[str, tuple[Family, frozenset[str]]] = {}

    async def open_due(self) -> int:
        """Open the wanted boards and return how many were opened. Raises LedgerUnavailable."""
        return sum([await self._open_of(family) for family in list(self._catalogue.families.values())])

    async def _open_of(self, family: Family) -> int:
        before, seen = self._seen.get(family.name, (None, frozenset[str]()))
        is_new = before is not family
        scheduled = list(scheduled_boards(family.policy, self._clock()))
        wanted = list(declared_boards(family.policy)) if is_new else []
        wanted += [board for board in scheduled if is_new or board.board not in seen]
        opened = sum([await self._open(family, batch) for batch in in_batches(wanted)])
        self._seen[family.name] = (family, frozenset(board.board for board in scheduled))
        return opened

    async def _open(self, family: Family, batch: Sequence[OpenedBoard]) -> int:
        known = await self._ledger.read(boards_named([board.board for board in batch]))
        for board in batch:
            if differs := _differences(board, known.get(board.board, board)):
                _log.warning(Event.BOARD_DIFFERS, board=board.board, policy=family.digest, differs=differs)
        new = [board for board in batch if board.board not in known]
        if not new:
            return 0
        work = open_boards(terms_of(family), new, actor=ACTOR, at_ms=self._clock())
        results = await self._ledger.write(work)
        for board, result in zip(new, results, strict=True):
            if result.outcome not in {BoardOutcome.OPENED, BoardOutcome.SAME}:
                why = {"outcome": result.outcome.value, "detail": result.detail}
                _log.warning(Event.BOARD_NOT_OPENED, board=board.board, policy=family.digest, **why)
        return sum(result.outcome is BoardOutcome.OPENED for result in results)


def _differences(wanted: OpenedBoard, known: OpenedBoard) -> list[str]:
    """Return what an open board has otherwise than its policy says: `content`, `bounds`, `times`.

    Its title and metadata are changed on purpose, and so are times of which the policy says nothing.
    """
    if known.state is not BoardState.OPEN:
        return []
    times = (wanted.opens_at_ms, wanted.closes_at_ms)
    differs = {
        "content": wanted.content_digest != known.content_digest,
        "bounds": (wanted.bounds or NarrowedBounds()) != (known.bounds or NarrowedBounds()),
        "times": times not in {(None, None), (known.opens_at_ms, known.closes_at_ms)},
    }
    return [name for name, is_other in differs.items() if is_other]
