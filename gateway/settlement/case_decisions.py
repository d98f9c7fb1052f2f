"""Decisions of moderators on cases: one transaction that checks who may decide, decides, and folds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import bindparam, select, text

from gateway.ledger import queries
from gateway.ledger.index_pages import fetch_listed, is_listed, standings_of
from gateway.ledger.judgement.promotion_impact import impact_in
from gateway.ledger.moderation.bans import ban_in_force
from gateway.ledger.moderation.cases import CaseKind, StoredCase, load_case
from gateway.ledger.players.joins import is_joined
from gateway.ledger.players.merges import with_targets
from gateway.ledger.records import StoredSubmission
from gateway.ledger.schema import BANNED, is_in, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.case_history import (
    UNDOES,
    CaseHistory,
    appealed_decision,
    first_approval,
    without_bans,
)
from gateway.settlement.decision_records import Decision, SettledDecision
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.labelling import label_decision
from gateway.settlement.settle import LedgerWrites, Projection, decide, fold_outcomes, permit, project
from gateway.shared_records import Change
from policies.choices import Joins, Operator
from policies.errors import CaseClaimed, CaseOvertaken, NotTheirs, SeniorNeeded, StateConflict
from policies.loader import Board
from policies.moderation import OwnBoard
from policies.vocabulary import REMARKS, Reason, State
from policies.windows import window_at

_s = submissions.c
_COUNTING_OF_LISTED = Query(
    select(_s.player)
    .where(is_in(State.PROMOTED), _s.board == bindparam("board"), is_listed(_s.player))
    .limit(1)
)
_BANNED_OF_LISTED = Query(
    select(_s.player).where(text(BANNED), _s.board == bindparam("board"), is_listed(_s.player)).limit(1)
)

SECOND_APPROVAL: Final = "second-approval"
"""What an approval lacks that two moderators have to give."""

_FOR_SENIORS: Final = "a senior has to decide the case"


@dataclass(frozen=True, slots=True)
class CaseRequest:
    """A moderator's decision on a case, and what decides whether it is theirs to make.

    `own_players` are the moderator's own players, and `may_overrule` is what a second approval needs.
    """

    decision: Decision
    own_players: frozenset[str] = field(default_factory=frozenset)
    may_overrule: bool = False


@dataclass(frozen=True, slots=True)
class DecidedCase:
    """The change that a decision made; without one, the remark that it became for what is `missing`."""

    change: Change
    missing: str | None = None


async def settle_case(
    ledger: LedgerWrites, index: Projection, board: Board, request: CaseRequest
) -> DecidedCase | StateConflict:
    """Commit a moderator's decision, then project it; return its outcome or its conflict.

    The conflict is NotTheirs if this moderator may not decide. Raises LedgerUnavailable; then nothing has
    changed.
    """
    outcome, changes = await ledger.write(decide_on_case(board, request))
    reach(Point.AFTER_SETTLE)
    if changes:
        await project(ledger, index, board, changes)
    return outcome


def decide_on_case(
    board: Board, request: CaseRequest
) -> Operation[tuple[DecidedCase | StateConflict, list[Change]]]:
    """Return the outcome of a moderator's decision, and all changes for the index."""

    async def work(tx: Transaction) -> tuple[DecidedCase | StateConflict, list[Change]]:
        settled = await decide_theirs(tx, board, request)
        if isinstance(settled, StateConflict):
            return settled, []
        [change], changes = await fold_outcomes(tx, board, [settled])
        assert isinstance(change, Change)
        is_first = settled.is_remark and request.decision.reason not in REMARKS
        return DecidedCase(change, SECOND_APPROVAL if is_first else None), changes

    return work


async def decide_theirs(
    tx: Transaction, board: Board, request: CaseRequest, *, is_one_of_many: bool = False
) -> SettledDecision | StateConflict:
    """Store a moderator's decision and its label, or return its conflict.

    One of many is no first approval: whoever approves has to look at what needs two. The caller must pass
    every settled decision to `fold`.
    """
    theirs = await _theirs(tx, board, request)
    if isinstance(theirs, StateConflict):
        return theirs
    submission, history, decision = theirs
    if is_one_of_many and decision.reason is Reason.APPROVED_ONCE:
        return SeniorNeeded("two moderators have to approve it")
    settled = await decide(tx, board, decision)
    if isinstance(settled, SettledDecision):
        await label_decision(tx, board.policy.moderation, submission, history, decision, settled.seq)
    return settled


def permitted_decisions(
    board: Board, requests: Sequence[CaseRequest]
) -> Operation[list[Decision | StateConflict]]:
    """Return each decision as it would be made now, or its conflict. Nothing is written."""

    async def permitted(tx: Transaction, request: CaseRequest) -> Decision | StateConflict:
        theirs = await _theirs(tx, board, request)
        if isinstance(theirs, StateConflict):
            return theirs
        found = await permit(tx, board, theirs[2])
        return found if isinstance(found, StateConflict) else found[1]

    async def work(tx: Transaction) -> list[Decision | StateConflict]:
        return [await permitted(tx, request) for request in requests]

    return work


async def _theirs(
    tx: Transaction, board: Board, request: CaseRequest
) -> tuple[StoredSubmission, CaseHistory, Decision] | StateConflict:
    """Return a submission, its events, and the decision on it as this moderator may make it."""
    submission = await queries.load_submission(tx, request.decision.submission_id)
    if submission is None:
        return StateConflict("no such submission")
    history = await queries.history_of(submission.submission_id)(tx)
    if request.decision.newest_event not in (None, without_bans(history)[-1]["seq"]):
        return CaseOvertaken()  # maybe by the same decision, which somebody sent again
    if conflict := await _not_theirs(tx, board, submission, request, history):
        return conflict
    case = await load_case(tx, submission.submission_id)
    if case is not None and case.kind is not CaseKind.CHECK and _needs_senior(case, request):
        return SeniorNeeded(_FOR_SENIORS)
    decision = await _with_four_eyes(tx, board, submission, request, history)
    return decision if isinstance(decision, StateConflict) else (submission, history, decision)


def _needs_senior(case: StoredCase, request: CaseRequest) -> bool:
    return bool(case.needs_senior) and not request.may_overrule


async def answer_as_theirs(
    tx: Transaction,
    board: Board,
    request: CaseRequest,
    case: StoredCase,
    seen: tuple[StoredSubmission, CaseHistory],
) -> Decision | StateConflict:
    """Return the decision on a check as this moderator may make it: all that holds for other cases does.

    `seen` is what the check shows of its submission.
    """
    submission, history = seen
    moderator, at_ms = request.decision.actor.removeprefix(MODERATOR), request.decision.at_ms
    if not case.hides_from(moderator) or history[-1]["seq"] != request.decision.newest_event:
        return CaseOvertaken()
    if conflict := await _not_theirs(tx, board, submission, request, history):
        return conflict
    if _needs_senior(case, request):
        return SeniorNeeded(_FOR_SENIORS)
    if case.is_taken_from(moderator, now_ms=at_ms):
        return CaseClaimed(f"`{case.claimed_by}` is in the case")
    stored = await queries.load_submission(tx, case.submission_id)  # not to be added to what has it already
    assert stored is not None
    return await _with_four_eyes(tx, board, stored, request, history)


async def _not_theirs(
    tx: Transaction, board: Board, submission: StoredSubmission, request: CaseRequest, history: CaseHistory
) -> NotTheirs | None:
    if request.own_players and submission.players.intersection(await with_targets(request.own_players)(tx)):
        return NotTheirs("you cannot decide on your own submission")
    undone = request.decision.detail.get(UNDOES)  # who undoes an answer to an appeal has decided on it, too
    before = history if undone is None else [event for event in history if event["seq"] < undone]
    against = appealed_decision(before)
    if against is not None and against["actor"] == request.decision.actor:
        return NotTheirs("the appeal is against your own decision; somebody else has to decide")
    if board.policy.moderation.own_board is OwnBoard.ALLOW or not request.own_players:
        return None
    if await has_stake(board, request.own_players, now_ms=request.decision.at_ms)(tx):
        return NotTheirs("you cannot decide on a board on which you have a score yourself")
    return None


def has_stake(board: Board, players: Collection[str], *, now_ms: int) -> Operation[bool]:
    """Return whether one of these players has a score on a board, or on a rollup that follows from it.

    One whose score only a ban takes away has it again after the ban. Who was merged into another player has
    their scores.
    """

    async def work(tx: Transaction) -> bool:
        listed = await with_targets(players)(tx)
        for query in (_COUNTING_OF_LISTED, _BANNED_OF_LISTED):
            if await fetch_listed(tx, query, listed, board=board.name):
                return True
        for rollup in board.rollups:
            kinds = rollup.policy.windows
            windows = {window_at(rollup.policy, kind, now_ms).name: listed for kind in kinds}
            standings = await standings_of(rollup.name, windows)(tx)
            if any(standing.score is not None for standing in standings):
                return True
        return False

    return work


async def _with_four_eyes(
    tx: Transaction, board: Board, submission: StoredSubmission, request: CaseRequest, history: CaseHistory
) -> Decision | StateConflict:
    """Return a decision as it may be made: as a first approval, where a second one has to follow.

    What waits for the second one needs a senior by its case.
    """
    decision, top = request.decision, board.policy.moderation.four_eyes_top
    if not top or decision.to_state is not State.PROMOTED or UNDOES in decision.detail:
        return decision
    enters_top = (await impact_in(tx, board.ranking, submission, top)).enters_top
    if not enters_top and not await _adds_up_later(tx, board, submission):
        return decision
    first = first_approval(history)
    if first is None:
        return replace(decision, to_state=submission.state, reason=Reason.APPROVED_ONCE)
    if first["actor"] == decision.actor:
        return NotTheirs("you have approved it; a colleague has to approve it too")
    return replace(decision, detail={**decision.detail, "first_approval": first["seq"]})


async def _adds_up_later(tx: Transaction, board: Board, submission: StoredSubmission) -> bool:
    """Return whether a run adds to others that do not stand yet, so that nobody sees how far.

    They stand once a ban has ended and all have followed, or once their player has joined.
    """
    player, policy = submission.player, board.policy
    if policy.operator not in (Operator.SUM, Operator.COUNT):
        return False
    if policy.joins is Joins.REQUIRED and not await is_joined(tx, board.name, player):
        return True
    if await ban_in_force(tx, player, board.name) is not None:
        return True
    return bool(await fetch_listed(tx, _BANNED_OF_LISTED, [player], board=board.name))
