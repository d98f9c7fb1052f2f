"""What a batch decides: slices of its items, each of them one transaction, and their reversal likewise.

A batch decides only on what its preview shows: an item with a newer event is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import orjson

from gateway.ledger import queries
from gateway.ledger.moderation import batch_items, batches
from gateway.ledger.moderation.batch_items import BatchItem, ItemOutcome, LeftOut
from gateway.ledger.moderation.batches import BATCH, Batch, BatchState
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.batches import entered, move_of
from gateway.settlement.case_decisions import CaseRequest, decide_theirs
from gateway.settlement.case_history import UNDOES, without_bans
from gateway.settlement.decision_records import Decision, SettledDecision
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.labelling import label_undo
from gateway.settlement.passed_boards import AGAIN_MS, PassedBoards, without_passed
from gateway.settlement.settle import decide, fold
from gateway.settlement.undoing import inverse_from
from gateway.shared_records import Change
from policies.errors import CaseClaimed, CaseOvertaken, NotTheirs, SeniorNeeded, StateConflict
from policies.loader import Board
from policies.vocabulary import Reason

SLICE: Final = 25
"""Items of one transaction, which other writes wait for."""

_REVERSED: Final = {Reason.REVERIFIED_OTHERWISE: Reason.REVERIFICATION_UNDONE}
"""Reasons of reversals that do not bring back the reason from before."""


_WHY: Final[Mapping[type[StateConflict], LeftOut]] = {
    CaseOvertaken: LeftOut.DECIDED_SINCE,
    CaseClaimed: LeftOut.CLAIMED,
    NotTheirs: LeftOut.NOT_YOURS,
    SeniorNeeded: LeftOut.SECOND_APPROVAL,
}


def decide_slice(
    batch: Batch,
    found: Sequence[BatchItem],
    boards: Mapping[str, Board],
    *,
    now_ms: int,
    waits_for_boards: bool = True,
) -> Operation[Mapping[str, list[Change]]]:
    """Decide on the next items of a batch, or reverse them; return the changes by the board that was played.

    `found` are those behind the batch's place. The batch ends with the slice that has none left. If it
    `waits_for_boards`, what is on other boards than these is looked for again.
    """
    passed = PassedBoards.of(batch)
    items = passed.taken(found)

    async def work(tx: Transaction) -> Mapping[str, list[Change]]:
        now = await batches.load_batch(tx, batch.batch_id)
        read = (batch.version, batch.place, batch.due_at_ms)
        if now is None or (now.version, now.place, now.due_at_ms) != read:
            return {}  # another process went on, or somebody turned it round
        before = {item.place: item for item in items}
        outcomes: list[BatchItem] = []
        changes: dict[str, list[Change]] = {}
        walk = passed
        for name in dict.fromkeys(item.board for item in items):
            of_board = [item for item in items if item.board == name]
            if name not in boards:
                left_out = _without_policy(batch, of_board)
                if left_out and waits_for_boards and walk.may_pass(name, now_ms=now_ms):
                    walk = walk.with_passed(name, now_ms=now_ms)
                else:
                    outcomes += left_out
                continue
            done, changes[name] = await _decide_on_board(tx, batch, boards[name], of_board, now_ms)
            outcomes += done
        await batch_items.set_outcomes(tx, batch.batch_id, outcomes)
        left = [before[item.place] for item in outcomes]
        await batches.change(tx, _behind(batch.with_outcomes(left, outcomes), items, walk, now_ms))
        return changes

    return work


_Decided = tuple[BatchItem, SettledDecision | None]


async def _decide_on_board(
    tx: Transaction, batch: Batch, board: Board, items: Sequence[BatchItem], now_ms: int
) -> tuple[list[BatchItem], list[Change]]:
    """Return items of a board with what became of them, and the changes.

    Where a top needs two moderators, each is decided on the standings that those before it leave: runs that
    add up may reach it together.
    """
    decide_items = _apply_items if batch.state is BatchState.APPLYING else _reverse_items
    is_each_folded = bool(board.policy.moderation.four_eyes_top)
    outcomes: list[BatchItem] = []
    changes: list[Change] = []
    for some in [[item] for item in items] if is_each_folded else [items]:
        decided = await decide_items(tx, batch, board, some, now_ms)
        outcomes += [item for item, _ in decided]
        changes += await fold(tx, board, [each for _, each in decided if each is not None])
    return outcomes, changes


def _behind(batch: Batch, items: Sequence[BatchItem], passed: PassedBoards, now_ms: int) -> Batch:
    """Return the batch behind a slice, which ends a round, or its board, if it was not full.

    The batch is over with a round that has passed over nothing.
    """
    if len(items) == SLICE and (place := passed.behind(items[-1])):
        return replace(batch, place=place, preview=passed.stored_in(dict(batch.preview)))
    passed = passed.behind_board()
    is_over = not passed.is_waiting
    if is_over:
        over = BatchState.APPLIED if batch.state is BatchState.APPLYING else BatchState.REVERSED
        return entered(batch, over, now_ms=now_ms, place=(), preview=without_passed(dict(batch.preview)))
    due_at_ms = now_ms
    if not passed.left:
        passed, due_at_ms = passed.next_round(), now_ms + AGAIN_MS
    preview = passed.stored_in(dict(batch.preview))
    return replace(batch, place=passed.first_place, preview=preview, due_at_ms=due_at_ms)


def _without_policy(batch: Batch, items: Sequence[BatchItem]) -> list[BatchItem]:
    """Return what becomes of items on a board that has no policy: nothing is decided there."""
    why = LeftOut.NO_POLICY.value
    if batch.state is BatchState.APPLYING:
        return [item._replace(outcome=ItemOutcome.BARRED.value, why=why) for item in items if item.is_waiting]
    return [item._replace(outcome=ItemOutcome.KEPT.value, why=why) for item in items if item.is_decided]


async def _apply_items(
    tx: Transaction, batch: Batch, board: Board, items: Sequence[BatchItem], now_ms: int
) -> list[_Decided]:
    decided: list[_Decided] = []
    for item in [item for item in items if item.is_waiting]:
        settled = await _settle(tx, board, batch, _decision(batch, item, now_ms))
        decided.append(_outcome(item, settled, ItemOutcome.DECIDED, ItemOutcome.OVERTAKEN))
    return decided


async def _reverse_items(
    tx: Transaction, batch: Batch, board: Board, items: Sequence[BatchItem], now_ms: int
) -> list[_Decided]:
    decided: list[_Decided] = []
    for item in [item for item in items if item.is_decided]:
        settled = await _settle(tx, board, batch, await _reversal(tx, batch, item, now_ms))
        decided.append(_outcome(item, settled, ItemOutcome.REVERSED, ItemOutcome.KEPT))
    return decided


async def _settle(
    tx: Transaction, board: Board, batch: Batch, decision: Decision
) -> SettledDecision | StateConflict:
    """Store a decision on an item: a moderator's only as far as it is theirs to make."""
    if not decision.actor.startswith(MODERATOR):
        settled = await decide(tx, board, decision)
        if isinstance(settled, SettledDecision) and (undone := decision.detail.get(UNDOES)):
            history = await queries.history_of(decision.submission_id)(tx)
            await label_undo(tx, history, undone, settled.seq)
        return settled
    own_players = frozenset(batch.preview.get("not_players", ()))
    request = CaseRequest(decision, own_players, may_overrule=True)
    return await decide_theirs(tx, board, request, is_one_of_many=True)


def _outcome(
    item: BatchItem, settled: SettledDecision | StateConflict, done: ItemOutcome, overtaken: ItemOutcome
) -> _Decided:
    """Return an item with what became of it, and its decision if there is one."""
    if isinstance(settled, SettledDecision):
        seq = settled.seq if done is ItemOutcome.DECIDED else item.decided_seq
        return item._replace(outcome=done.value, decided_seq=seq), settled
    is_barred = not isinstance(settled, CaseOvertaken) and done is ItemOutcome.DECIDED
    outcome = (ItemOutcome.BARRED if is_barred else overtaken).value
    return item._replace(outcome=outcome, why=_why_left(settled).value), None


def _why_left(conflict: StateConflict) -> LeftOut:
    """Return the reason for which an item is left."""
    return next((why for kind, why in _WHY.items() if isinstance(conflict, kind)), LeftOut.REFUSED)


def _decision(batch: Batch, item: BatchItem, now_ms: int) -> Decision:
    move = move_of(batch)
    return Decision(
        item.submission_id,
        move.to_state,
        batch.decided_by,
        move.reason,
        now_ms,
        frozenset({move.from_state}),
        detail={**batch.detail, BATCH: batch.batch_id, **orjson.loads(item.detail)},
        newest_event=item.newest_event,
    )


async def _reversal(tx: Transaction, batch: Batch, item: BatchItem, now_ms: int) -> Decision:
    """Return the decision that brings back what an item was before its batch."""
    history = without_bans(await queries.history_of(item.submission_id)(tx))
    before = [event for event in history if event["seq"] < item.decided_seq]
    [own] = [event for event in history if event["seq"] == item.decided_seq]
    detail, actor = {BATCH: batch.batch_id}, batch.reversed_by
    inverse = inverse_from(item.submission_id, before, own, actor=actor, at_ms=now_ms, detail=detail)
    return replace(inverse, reason=_REVERSED.get(Reason(own["reason"]), inverse.reason))
