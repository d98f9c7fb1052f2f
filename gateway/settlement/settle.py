"""The only code that changes a submission's state: one transaction, then the index, which may fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from sqlalchemy import bindparam, delete, or_, update

from gateway.ledger import queries
from gateway.ledger.archive.windows import mark_changed
from gateway.ledger.judgement import reveals, sampling
from gateway.ledger.judgement.learning import SubjectChanges, fold_baselines
from gateway.ledger.moderation import bans
from gateway.ledger.players.late_runs import attribute_appended
from gateway.ledger.records import NewSubmission, StoredSubmission
from gateway.ledger.schema import events, outbox, submissions
from gateway.ledger.standings.folds import PlayerChanges, fold_standings
from gateway.ledger.submissions import work
from gateway.ledger.submissions.append import rows_of
from gateway.ledger.transaction import OneOf, Operation, Query, Transaction
from gateway.runtime.failpoints import Point, reach
from gateway.settlement.decision_records import Decision, SettledDecision, StoredDecision
from gateway.settlement.facts import Facts, facts_of, is_conviction
from gateway.settlement.held_cases import claim_conflict, keep_cases
from gateway.settlement.rollups import by_board, roll_up
from gateway.shared_records import Change, StoredBaseline
from policies.errors import CaseOvertaken, IndexUnavailable, LedgerUnavailable, StateConflict
from policies.loader import Board
from policies.vocabulary import REMARKS, TRANSITIONS, Reason, State
from validators.baseline import POPULATION, is_population, population_of

T = TypeVar("T")

_FORGET_WORK = Query(
    delete(outbox).where(
        OneOf(outbox.c.seq, "received"),
        or_(*map(work.is_of_kind, ("verify", sampling.KIND, reveals.KIND))),
    )
)
"""A submission and its work share a sequence number, so the work is found by primary key."""

_SET_STATES = Query(
    update(submissions)
    .where(OneOf(submissions.c.seq, "received"))
    .values(state=bindparam("to_state"), reason=bindparam("to_reason"), lease_until_ms=0)
)


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
        return await fold_outcomes(tx, board, await decide_all(tx, board, decisions))

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
        await tx.insert(table, rows)
    await attribute_appended([new])(tx)


async def decide(tx: Transaction, board: Board, decision: Decision) -> SettledDecision | StateConflict:
    """Store a decision, or return its conflict. The caller must pass every settled decision to `fold`."""
    [outcome] = await decide_all(tx, board, [decision])
    return outcome


async def decide_all(
    tx: Transaction, board: Board, decisions: Sequence[Decision]
) -> list[SettledDecision | StateConflict]:
    """Store decisions as if one after another, or return the conflict of each.

    The caller must pass every settled decision to `fold`.
    """
    outcomes: list[SettledDecision | StateConflict] = []
    while left := decisions[len(outcomes) :]:
        facts = await facts_of(tx, board.name, left)
        outcomes += await _decide_at_once(tx, board, facts, left[: facts.count_independent(left)])
    return outcomes


async def _decide_at_once(
    tx: Transaction, board: Board, facts: Facts, decisions: Sequence[Decision]
) -> list[SettledDecision | StateConflict]:
    """Store decisions none of which changes what another one rests on."""
    seq = await queries.newest_seq()(tx)
    outcomes: list[SettledDecision | StateConflict] = []
    stored: list[StoredDecision] = []
    for decision in decisions:
        permitted = permitted_on(facts, board, decision)
        if isinstance(permitted, StateConflict):
            outcomes.append(permitted)
            continue
        seq += 1
        submission, permission = permitted
        stored.append(StoredDecision(submission, permission, seq))
        outcomes.append(stored[-1].settled)
    if stored:
        await _write_decisions(tx, board, facts, stored)
        reach(Point.INSIDE_SETTLE)
    return outcomes


async def permit(
    tx: Transaction, board: Board, decision: Decision
) -> tuple[StoredSubmission, Decision] | StateConflict:
    """Return a submission and the decision on it as it may be stored, or its conflict. Nothing is written."""
    return permitted_on(await facts_of(tx, board.name, [decision]), board, decision)


def permitted_on(
    facts: Facts, board: Board, decision: Decision
) -> tuple[StoredSubmission, Decision] | StateConflict:
    """Return a submission and the decision on it as it may be stored, or its conflict."""
    submission = facts.submissions.get(decision.submission_id)
    expected = decision.newest_event
    if submission and expected is not None and expected != facts.newest_events.get(submission.submission_id):
        return CaseOvertaken()
    if submission and decision.to_state is State.PROMOTED and decision.reason not in REMARKS:
        decision = _under_bans(facts, submission, decision)
    conflict = _conflict(submission, board, decision)
    if submission is None or conflict:
        return conflict or StateConflict()
    if conflict := claim_conflict(facts.cases.get(submission.submission_id), decision):
        return conflict
    due_at_ms = decision.reveal_by_ms
    if due_at_ms is not None and due_at_ms != facts.deadlines.get(submission.seq):
        return StateConflict("the recording has arrived, or its deadline was moved")
    return submission, decision


async def fold(tx: Transaction, board: Board, settled: Sequence[SettledDecision]) -> list[Change]:
    """Fold settled decisions into standings and baselines; return the change of each for the index.

    Each slot and each baseline is folded once, and goes with the last change that touched it. The changes of
    the board's rollups follow.
    """
    counted = [decision for decision in settled if decision.difference]
    if not counted:
        return [decision.change((), ()) for decision in settled]
    by_player = _grouped(counted, lambda decision: decision.submission.player)
    changes = {
        player: PlayerChanges([each.counted for each in group], group[-1].seq)
        for player, group in by_player.items()
    }
    folds = await fold_standings(tx, board.ranking, changes)
    standings = {
        changes[player].seq: tuple(fold.standing for fold in of_player) for player, of_player in folds.items()
    }
    rolled_up: list[Change] = []
    for player, group in by_player.items():
        last = group[-1]
        rolled_up += await roll_up(tx, board, folds[player], cause=last.seq, at_ms=last.at_ms)
    baselines = await _fold_baselines(tx, board, by_player, counted)
    await mark_changed(tx, board.name, {each.submission.achieved_at_ms: each.seq for each in counted})
    changes_of_board = [
        decision.change(standings.get(decision.seq, ()), baselines.get(decision.seq, ()))
        for decision in settled
    ]
    return changes_of_board + rolled_up


def _grouped(
    decisions: Sequence[SettledDecision], subject_of: Callable[[SettledDecision], str]
) -> dict[str, list[SettledDecision]]:
    groups: dict[str, list[SettledDecision]] = defaultdict(list)
    for decision in decisions:
        groups[subject_of(decision)].append(decision)
    return groups


async def _fold_baselines(
    tx: Transaction,
    board: Board,
    by_player: Mapping[str, list[SettledDecision]],
    counted: Sequence[SettledDecision],
) -> dict[int, tuple[StoredBaseline, ...]]:
    """Fold the baselines of players, builds and the board; return them by the decision that each goes with.

    Those of the builds and the board go with the last one.
    """
    by_build = _grouped(counted, lambda decision: population_of(decision.submission.build))
    groups = {**by_player, **by_build, POPULATION: counted}
    changes = {
        subject: SubjectChanges([(each.scored, each.difference) for each in group], group[-1].seq)
        for subject, group in groups.items()
    }
    baselines: dict[int, tuple[StoredBaseline, ...]] = defaultdict(tuple)
    for subject, baseline in (await fold_baselines(tx, board.name, changes)).items():
        baselines[counted[-1].seq if is_population(subject) else baseline.seq] += (baseline,)
    return baselines


def _conflict(submission: StoredSubmission | None, board: Board, decision: Decision) -> StateConflict | None:
    if submission is None or submission.board != board.name:
        return StateConflict("no such submission on the board")
    if bans.state_without_bans(submission.state, submission.reason) not in decision.from_states:
        return StateConflict()
    if decision.attempt is not None and decision.attempt != submission.attempt:
        return StateConflict("another worker has taken over the submission")
    return _forbidden(submission, decision)


def _under_bans(facts: Facts, submission: StoredSubmission, promotion: Decision) -> Decision:
    """Return a promotion, or while the player is banned a revocation, which follows the ban's end."""
    ban = facts.bans.get(submission.player)
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


async def _write_decisions(
    tx: Transaction, board: Board, facts: Facts, stored: Sequence[StoredDecision]
) -> None:
    """Write the events, states and outbox rows of decisions; of remarks, the events alone."""
    await tx.insert(events, [each.event(board.digest) for each in stored])
    await keep_cases(tx, facts.cases, [(each.submission, each.decision) for each in stored])
    changes = [each for each in stored if not each.is_remark]
    if not changes:
        return
    by_state: dict[tuple[str, str], list[int]] = defaultdict(list)
    for submission, decision, _ in changes:
        by_state[decision.to_state.value, decision.reason.value].append(submission.seq)
    for (state, reason), seqs in by_state.items():
        await tx.run(_SET_STATES, received=seqs, to_state=state, to_reason=reason)
    await tx.run(_FORGET_WORK, received=[each.submission.seq for each in changes])
    if board.policy.replay:  # the share may have been lower before
        await _queue_unverified(tx, board, changes)
    await tx.insert(outbox, [each.projection(board.policy.staleness_s) for each in changes])


async def _queue_unverified(tx: Transaction, board: Board, changes: Sequence[StoredDecision]) -> None:
    """Queue the unverified runs of convicted players, and those that count again."""
    dated = [(each.settled, sampling.DatedRun(each.settled.sampled, each.decision.at_ms)) for each in changes]
    convicted = [run for settled, run in dated if is_conviction(settled.to_state, settled.reason)]
    await sampling.queue_players(tx, board.name, convicted)
    returned = [run for settled, run in dated if settled.is_unverified_again]
    await sampling.queue_returned(tx, board.name, returned)
