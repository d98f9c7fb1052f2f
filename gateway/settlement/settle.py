"""The only code that changes a submission's state: one transaction, then the index, which may fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson
from sqlalchemy import bindparam, delete, insert, or_, update

from gateway.ledger import queries
from gateway.ledger.archive.windows import mark_changed
from gateway.ledger.judgement import reveals, sampling
from gateway.ledger.judgement.learning import fold_baseline
from gateway.ledger.moderation import bans
from gateway.ledger.players.late_runs import attribute_appended
from gateway.ledger.records import NewSubmission, StoredSubmission
from gateway.ledger.schema import events, outbox, submissions
from gateway.ledger.standings.folds import CountChange, fold_standings
from gateway.ledger.submissions import work
from gateway.ledger.submissions.append import rows_of
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.held_cases import claim_conflict, keep_case
from gateway.settlement.rollups import by_board, roll_up
from gateway.shared_records import Change, Standing, StoredBaseline
from policies.errors import CaseOvertaken, IndexUnavailable, LedgerUnavailable, StateConflict
from policies.loader import Board
from policies.vocabulary import REMARKS, TRANSITIONS, Reason, State
from validators.baseline import POPULATION, PromotedScore, population_of
from validators.judge import RULES_VERSION

T = TypeVar("T")

_INSERTS = {table: Query(insert(table)) for table in (submissions, events, outbox)}
_FORGET_WORK = Query(
    delete(outbox).where(
        outbox.c.seq == bindparam("received"),
        or_(*(outbox.c.kind == kind for kind in ("verify", sampling.KIND, reveals.KIND))),
    )
)
"""A submission and its work share a sequence number, so the work is found by primary key."""

_CONVICTED = frozenset({State.REJECTED, State.REVOKED})
"""States that put all unverified runs of their player up for verification."""

_SET_STATE = Query(
    update(submissions)
    .where(submissions.c.submission_id == bindparam("id"))
    .values(state=bindparam("to_state"), reason=bindparam("to_reason"), lease_until_ms=0)
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A requested change of state, with the conditions under which it holds.

    `attempt` is the worker's lease, None for everybody else. `newest_event` must still be the submission's
    newest event, if the decision rests on what somebody saw. `reveal_by_ms` must still be the deadline of its
    recording, if the decision rests on the recording's absence.
    """

    submission_id: str
    to_state: State
    actor: str
    reason: Reason
    at_ms: int
    from_states: frozenset[State]
    attempt: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    newest_event: int | None = None
    reveal_by_ms: int | None = None


class SettledDecision(NamedTuple):
    """A decision in the ledger: the submission before it, its event's number and time, and the new state.

    A remark is an event alone: it changes nothing that is kept beside the log.
    """

    submission: StoredSubmission
    seq: int
    to_state: State
    at_ms: int
    reason: Reason
    is_remark: bool = False

    @property
    def difference(self) -> int:
        """Return 1 if the submission counts now, -1 if it no longer counts, 0 if neither changed."""
        return (self.to_state is State.PROMOTED) - (self.submission.state is State.PROMOTED)

    @property
    def is_unverified_again(self) -> bool:
        """Return whether the submission counts unverified, as it did before."""
        is_new = self.submission.state is State.PENDING
        return self.to_state is State.PROMOTED and self.reason is Reason.SAMPLED and not is_new

    @property
    def sampled(self) -> sampling.SampledSubmission:
        """Return the submission for the queue of rechecks."""
        submission = self.submission
        return sampling.SampledSubmission(
            submission.seq, submission.submission_id, submission.board, submission.player
        )

    @property
    def counted(self) -> CountChange:
        """Return the change for the player's standings."""
        return CountChange(
            self.difference,
            self.submission.submission_id,
            self.submission.seq,
            self.submission.achieved_at_ms,
            self.submission.claim.score,
            self.submission.claim.stats,
        )

    @property
    def scored(self) -> PromotedScore:
        """Return the score for the baselines."""
        submission = self.submission
        return PromotedScore(submission.achieved_at_ms, submission.seq, submission.claim.score)

    def change(self, standings: tuple[Standing, ...], baselines: tuple[StoredBaseline, ...]) -> Change:
        """Return the change for the index."""
        submission_id, board, player = (
            self.submission.submission_id,
            self.submission.board,
            self.submission.player,
        )
        return Change(self.seq, submission_id, board, player, self.to_state, standings, baselines)


def trusted(submission_id: str, server: str, at_ms: int) -> Decision:
    """Return the decision that promotes a trusted server's write. `server` is the credential's name."""
    return Decision(submission_id, State.PROMOTED, server, Reason.TRUSTED, at_ms, frozenset({State.PENDING}))


class LedgerWrites(Protocol):
    """The part of a ledger that settlement needs. Fails closed."""

    async def write(self, work: Operation[T]) -> T:
        """Return the result of `work` once it is durable."""
        ...


class Projection(Protocol):
    """The part of the index that settlement needs. It may fail, since the outbox remembers."""

    async def project(self, board: Board, changes: Sequence[Change]) -> None:
        """Show the changes of a board in the index. Raises IndexUnavailable."""
        ...


async def settle(
    ledger: LedgerWrites, index: Projection, board: Board, decisions: Sequence[Decision]
) -> list[Change | StateConflict]:
    """Commit decisions, then project them; return the change or the conflict of each.

    Changes are durable on return, and in the index unless that is down. Raises LedgerUnavailable; then
    nothing has changed.
    """
    settled, changes = await ledger.write(_decide_all(board, decisions))
    reach(Point.AFTER_SETTLE)
    if changes:
        await project(ledger, index, board, changes)
    return settled


async def project(ledger: LedgerWrites, index: Projection, board: Board, changes: Sequence[Change]) -> bool:
    """Project changes of a board and its rollups, and strike them from the outbox.

    Return False if it failed, and the steward has to.
    """
    try:
        for of, some in by_board(board, changes):
            await index.project(of, some)
        reach(Point.AFTER_PROJECT)
        await ledger.write(work.strike_projected([change.seq for change in changes]))
    except (IndexUnavailable, LedgerUnavailable):
        return False
    return True


def _decide_all(
    board: Board, decisions: Sequence[Decision]
) -> Operation[tuple[list[Change | StateConflict], list[Change]]]:
    """Return the outcome of each decision, and all changes for the index."""

    async def work(tx: Transaction) -> tuple[list[Change | StateConflict], list[Change]]:
        outcomes = [await decide(tx, board, decision) for decision in decisions]
        return await fold_outcomes(tx, board, outcomes)

    return work


async def fold_outcomes(
    tx: Transaction, board: Board, outcomes: Sequence[SettledDecision | StateConflict]
) -> tuple[list[Change | StateConflict], list[Change]]:
    """Fold what was settled; return the change or the conflict of each, and all changes for the index."""
    settled = [
        outcome for outcome in outcomes if isinstance(outcome, SettledDecision) and not outcome.is_remark
    ]
    changes = await fold(tx, board, settled)
    own = iter(changes)

    def change_of(outcome: SettledDecision | StateConflict) -> Change | StateConflict:
        if isinstance(outcome, StateConflict):
            return outcome
        return outcome.change((), ()) if outcome.is_remark else next(own)

    return [change_of(outcome) for outcome in outcomes], changes


async def receive(tx: Transaction, new: NewSubmission) -> None:
    """Insert a submission without a recording. A decision must follow in the same transaction."""
    last = await queries.newest_seq()(tx)
    for table, rows in rows_of(last + 1, [new]):
        for row in rows:
            await tx.run(_INSERTS[table], **dict(zip(table.columns.keys(), row, strict=True)))
    await attribute_appended([new])(tx)


async def decide(tx: Transaction, board: Board, decision: Decision) -> SettledDecision | StateConflict:
    """Store a decision, or return its conflict. The caller must pass every settled decision to `fold`."""
    permitted = await permit(tx, board, decision)
    if isinstance(permitted, StateConflict):
        return permitted
    submission, decision = permitted
    last = await queries.newest_seq()(tx)
    await _write_decision(tx, board, decision, submission, last + 1)
    reach(Point.INSIDE_SETTLE)
    to_state, reason = decision.to_state, decision.reason
    return SettledDecision(submission, last + 1, to_state, decision.at_ms, reason, reason in REMARKS)


async def permit(
    tx: Transaction, board: Board, decision: Decision
) -> tuple[StoredSubmission, Decision] | StateConflict:
    """Return a submission and the decision on it as it may be stored, or its conflict. Nothing is written."""
    submission = await queries.load_submission(tx, decision.submission_id)
    expected = decision.newest_event
    if (
        submission
        and expected is not None
        and expected != await queries.newest_event(tx, submission.submission_id)
    ):
        return CaseOvertaken()
    if submission and decision.to_state is State.PROMOTED and decision.reason not in REMARKS:
        decision = await _under_bans(tx, submission, decision)
    conflict = _conflict(submission, board, decision)
    if submission is None or conflict:
        return conflict or StateConflict()
    if conflict := await claim_conflict(tx, submission, decision):
        return conflict
    due_at_ms = decision.reveal_by_ms
    if due_at_ms is not None and due_at_ms != await reveals.due_at(tx, submission.seq):
        return StateConflict("the recording has arrived, or its deadline was moved")
    return submission, decision


async def fold(tx: Transaction, board: Board, settled: Sequence[SettledDecision]) -> list[Change]:
    """Fold settled decisions into standings and baselines; return the change of each for the index.

    Each slot and each baseline is folded once, and goes with the last change that touched it. The changes of
    the board's rollups follow.
    """
    counted = [decision for decision in settled if decision.difference]
    by_player: dict[str, list[SettledDecision]] = defaultdict(list)
    for decision in counted:
        by_player[decision.submission.player].append(decision)
    standings: dict[int, tuple[Standing, ...]] = {}
    baselines: dict[int, tuple[StoredBaseline, ...]] = defaultdict(tuple)
    rolled_up: list[Change] = []
    for player, group in by_player.items():
        seq, changes = group[-1].seq, [decision.counted for decision in group]
        if board.policy.replay:
            returned = [decision.sampled for decision in group if decision.is_unverified_again]
            await sampling.queue_returned(tx, returned, now_ms=group[-1].at_ms)
        folds = await fold_standings(tx, board.ranking, player, changes, seq)
        standings[seq] = tuple(fold.standing for fold in folds)
        rolled_up += await roll_up(tx, board, folds, cause=seq, at_ms=group[-1].at_ms)
        baselines[seq] = (await _fold_baseline(tx, board, player, group),)
    if counted:
        last = counted[-1].seq
        baselines[last] += await _fold_populations(tx, board, counted)
        achieved = {decision.submission.achieved_at_ms for decision in counted}
        await mark_changed(tx, board.name, achieved, last)
    changes_of_board = [
        decision.change(standings.get(decision.seq, ()), baselines.get(decision.seq, ()))
        for decision in settled
    ]
    return changes_of_board + rolled_up


async def _fold_baseline(
    tx: Transaction, board: Board, subject: str, group: Sequence[SettledDecision]
) -> StoredBaseline:
    differences = [(decision.scored, decision.difference) for decision in group]
    return await fold_baseline(tx, board.name, subject, differences, group[-1].seq)


async def _fold_populations(
    tx: Transaction, board: Board, counted: Sequence[SettledDecision]
) -> tuple[StoredBaseline, ...]:
    """Fold the baseline of each build that was played, then the board's, which may be read from theirs."""
    of_builds: dict[str, list[SettledDecision]] = defaultdict(list)
    for decision in counted:
        of_builds[population_of(decision.submission.build)].append(decision)
    groups = [*of_builds.items(), (POPULATION, counted)]
    return tuple([await _fold_baseline(tx, board, subject, group) for subject, group in groups])


def _conflict(submission: StoredSubmission | None, board: Board, decision: Decision) -> StateConflict | None:
    if submission is None or submission.board != board.name:
        return StateConflict("no such submission on the board")
    if bans.state_without_bans(submission.state, submission.reason) not in decision.from_states:
        return StateConflict()
    if decision.attempt is not None and decision.attempt != submission.attempt:
        return StateConflict("another worker has taken over the submission")
    return _forbidden(submission, decision)


async def _under_bans(tx: Transaction, submission: StoredSubmission, promotion: Decision) -> Decision:
    """Return a promotion, or while the player is banned a revocation, which follows the ban's end."""
    ban = await bans.ban_in_force(tx, submission.player, submission.board)
    if ban is None or submission.unreadable:
        return promotion
    detail = {**promotion.detail, bans.BAN: ban, bans.WAS: promotion.reason.value}
    return replace(promotion, to_state=State.REVOKED, reason=Reason.BANNED, detail=detail)


def _forbidden(submission: StoredSubmission, decision: Decision) -> StateConflict | None:
    """Return the conflict of a decision that nobody may make, had nobody been banned."""
    state = bans.state_without_bans(submission.state, submission.reason)
    to_state = bans.state_without_bans(decision.to_state, decision.reason)
    if decision.reason in REMARKS:
        is_kept = to_state is state and state in REMARKS[decision.reason]
        return None if is_kept else StateConflict(f"{decision.reason} is no remark on what is {state}")
    if submission.unreadable and decision.to_state is State.PROMOTED:
        return StateConflict(f"the ledger's record of it cannot be read: {', '.join(submission.unreadable)}")
    # Verification may confirm a run that was promoted without it, which changes the reason alone. A ban and
    # its end change nothing but whether it counts.
    is_of_ban = (decision.reason is Reason.BANNED) is not (submission.reason is Reason.BANNED)
    if to_state is state and not (submission.reason is Reason.SAMPLED or is_of_ban):
        return StateConflict("only an unverified submission may be decided on without changing its state")
    if to_state not in TRANSITIONS[state]:
        return StateConflict(f"a {state} submission never becomes {to_state}")
    return None


async def _write_decision(
    tx: Transaction, board: Board, decision: Decision, submission: StoredSubmission, seq: int
) -> None:
    """Write the event, the state and the outbox rows of a decision; of a remark, the event alone."""
    subject = {
        "submission_id": submission.submission_id,
        "board": submission.board,
        "player": submission.player,
    }
    await tx.run(
        _INSERTS[events],
        seq=seq,
        **subject,
        from_state=submission.state.value,
        to_state=decision.to_state.value,
        actor=decision.actor,
        reason=decision.reason.value,
        policy=board.digest,
        rules_version=RULES_VERSION,
        detail=orjson.dumps(dict(decision.detail)).decode(),
        at_ms=decision.at_ms,
    )
    await keep_case(tx, submission, decision)
    if decision.reason in REMARKS:
        return
    state = {"to_state": decision.to_state.value, "to_reason": decision.reason.value}
    await tx.run(_SET_STATE, id=submission.submission_id, **state)
    await tx.run(_FORGET_WORK, received=submission.seq)
    is_convicted = decision.to_state in _CONVICTED and decision.reason is not Reason.BANNED
    if board.policy.replay and is_convicted:  # the share may have been lower before
        convicted = sampling.SampledSubmission(submission.seq, **subject)
        await sampling.queue_player(tx, convicted, now_ms=decision.at_ms)
    due_at_ms = decision.at_ms + work.PROJECT_AFTER_MS + int(board.policy.staleness_s * 1000)
    projection = {"kind": "project", "due_at_ms": due_at_ms, "priority": 0, "handed_out": 0}
    await tx.run(_INSERTS[outbox], seq=seq, **subject, **projection)
