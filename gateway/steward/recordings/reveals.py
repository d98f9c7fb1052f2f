"""Settles submissions whose recordings were requested and did not arrive in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import OutboxRow
from gateway.runtime.clock import Clock
from gateway.runtime.telemetry import REVEALS, Event, label_of, logger
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import Projection, settle
from gateway.shared_records import Change
from policies.vocabulary import Reason, State

OUTAGE_MS: Final = 300_000
"""A deadline found this late passed during an outage: a running steward looks every second."""

_log = logger()


class Deadlines:
    """Settles requests for recordings whose deadline has passed.

    Nobody is convicted for our outage: a deadline that passed during one is extended.
    """

    def __init__(self, ledger: Ledger, index: Projection, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._index = index
        self._catalogue = catalogue
        self._clock = clock

    async def end(self, rows: Sequence[OutboxRow]) -> int:
        """Settle or extend deadlines that have passed, and return how many."""
        now_ms = self._clock()
        late = [row for row in rows if now_ms - row.due_at_ms > OUTAGE_MS]
        by_board: dict[str, list[Decision]] = defaultdict(list)
        for row in [row for row in rows if now_ms - row.due_at_ms <= OUTAGE_MS]:
            if decision := await self._decision(row, now_ms):
                by_board[row.board].append(decision)
        for name, board in (await self._catalogue.boards(by_board)).items():
            settled = await settle(self._ledger, self._index, board, by_board[name])
            silent = sum(isinstance(result, Change) for result in settled)
            REVEALS.labels(label_of(name), "silent").inc(silent)
        return sum(map(len, by_board.values())) + (await self._put_off(late, now_ms) if late else 0)

    async def _decision(self, row: OutboxRow, now_ms: int) -> Decision | None:
        submission = await self._ledger.read(queries.submission(row.submission_id))
        request = await self._ledger.read(reveals.commitment(row.seq))
        if submission is None or request is None:
            return None
        return Decision(
            row.submission_id,
            State.REVOKED if submission.state is State.PROMOTED else State.REJECTED,
            "budget",
            Reason.RECORDING_NOT_REVEALED,
            now_ms,
            frozenset({submission.state}),
            detail={"asked_at_ms": request.asked_at_ms, "due_at_ms": row.due_at_ms},
            reveal_by_ms=row.due_at_ms,
        )

    async def _put_off(self, rows: Sequence[OutboxRow], now_ms: int) -> int:
        done = await self._ledger.write(reveals.put_off(rows, now_ms=now_ms))
        _log.warning(Event.REVEALS_PUT_OFF, count=done)
        return done
