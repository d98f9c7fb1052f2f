"""Hands to decide on many submissions at once, on a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import batch_items
from gateway.ledger.moderation.batch_items import FIRST, BatchItem
from gateway.ledger.moderation.batches import Batch, BatchState
from gateway.settlement.batch_steps import BatchSteps
from gateway.settlement.batches import MOVES, apply, begin, reverse
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, receive
from policies.decision_codes import DecisionKind
from policies.loader import Board
from policies.vocabulary import Claim, Reason, State
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere

MODERATOR = "moderator:mia"


def a_batch(name: str, kind: DecisionKind, *scopes: str, **selection: Any) -> Batch:
    """A batch that selects what the kind of decision takes, on everything if there are no scopes."""
    return Batch(
        batch_id=name,
        actor=MODERATOR,
        scopes=scopes or ("*",),
        selection={"not_players": [], **selection},
        action=kind.value,
        reason=MOVES[kind].reason,
        detail={"decision": kind.value, "code": "other", "note": "a note"},
        state=BatchState.SELECTING,
        version=1,
        begin_seq=0,
        created_at_ms=NOON_MS,
        changed_at_ms=NOON_MS,
        due_at_ms=NOON_MS,
    )


class Boards:
    """What a catalogue tells of some boards."""

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self._boards = boards

    async def board(self, name: str) -> Board | None:
        return self._boards.get(name)

    async def boards(self, names: Iterable[str]) -> Mapping[str, Board]:
        return {name: self._boards[name] for name in names if name in self._boards}


class Desk:
    """A moderator's batches on a ledger, each carried on until nothing is due."""

    def __init__(self, ledger: Ledger, boards: Mapping[str, Board]) -> None:
        self.ledger = ledger
        self.now_ms = NOON_MS
        catalogue: Any = Boards(boards)
        self.steps = BatchSteps(ledger, Nowhere(), catalogue, clock=lambda: self.now_ms)

    async def settled(self, name: str) -> Batch:
        batch = await self.steps.follow(name, steps=10_000)
        assert batch is not None
        return batch

    async def previewed(self, batch: Batch) -> Batch:
        await self.ledger.write(begin(batch))
        return await self.settled(batch.batch_id)

    async def apply(self, batch: Batch) -> Batch:
        await self.ledger.write(
            apply(batch.batch_id, version=batch.version, by=MODERATOR, now_ms=self.now_ms)
        )
        return await self.settled(batch.batch_id)

    async def reverse(self, batch: Batch) -> Batch:
        await self.ledger.write(reverse(batch.batch_id, by=MODERATOR, now_ms=self.now_ms))
        return await self.settled(batch.batch_id)

    async def items(self, name: str) -> list[BatchItem]:
        return await self.ledger.read(batch_items.items_of(name, FIRST, count=100_000))

    async def outcomes(self, name: str) -> dict[str, str]:
        return {item.submission_id: item.outcome for item in await self.items(name)}


async def submitted(
    ledger: Ledger, board: Board, runs: Sequence[tuple[str, str, int]], *, to_state: State, **facts: Any
) -> None:
    """Runs (name, player, points) that came into a state, in their order."""
    for name, player, points in runs:
        new = new_submission(name, board=board.name, player=player, recording=None, **facts)
        run = new.submission._replace(claim=Claim(points, 25, {}))
        await ledger.write(lambda tx, new=new, run=run: receive(tx, new._replace(submission=run)))
    await decided(ledger, board, [name for name, _, _ in runs], to_state)


async def decided(ledger: Ledger, board: Board, names: Sequence[str], to_state: State) -> None:
    """Somebody else decides on these."""
    reason = {State.PROMOTED: Reason.VERIFIED, State.HELD: Reason.ANOMALY_PLAYER}.get(
        to_state, Reason.APPROVED
    )
    decisions = [
        Decision(name, to_state, "replay", reason, NOON_MS, frozenset(State) - {to_state}) for name in names
    ]
    await ledger.write(_decide_all(board, decisions))
