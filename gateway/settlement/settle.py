"""The only place where a submission changes state: one transaction, then the index, which may fail without harm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson
from sqlalchemy import bindparam, delete, insert, or_, update

from gateway.ledger import queries
from gateway.ledger.archive.windows import mark_changed
from gateway.ledger.judgement import reveals, sampling
from gateway.ledger.judgement.learning import fold_baseline
from gateway.ledger.records import NewSubmission, StoredSubmission
from gateway.ledger.schema import events, outbox, submissions
from gateway.ledger.standings.folds import CountChange, fold_standings
from gateway.ledger.submissions import work
from gateway.ledger.submissions.append import rows_of
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.records import Change, Standing, StoredBaseline
from gateway.runtime.failpoints import Point, reach
from policies.errors import CaseOvertaken, IndexUnavailable, LedgerUnavailable, StateConflict
from policies.loader import Board
from policies.vocabulary import TRANSITIONS, Reason, State
from validators.baseline import POPULATION, PromotedScore, population_of
from validators.judge import RULES_VERSION

T = TypeVar("T")

PROJECT_AFTER_MS = 2_000
"""How long the projection after a commit may take before the steward does it again."""

_INSERTS = {table: Query(insert(table)) for table in (submissions, events, outbox)}
_FORGET_WORK = Query(
    delete(outbox).where(
        outbox.c.seq == bindparam("received"),
        or_(*(outbox.c.kind == kind for kind in ("verify", sampling.KIND, reveals.KIND))),
    )
)
"""A submission and its work are written under one sequence number, so the work needs no index to be found."""
_CONVICTED = frozenset({State.REJECTED, State.REVOKED})
"""What makes all of a player's unverified runs worth a replay."""

_SET_STATE = Query(
    update(submissions)
    .where(submissions.c.submission_id == bindparam("id"))
    .values(state=bindparam("to_state"), reason=bindparam("to_reason"), lease_until_ms=0)
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of state that somebody asks for. `attempt` is compared when a worker asks, None for everybody else.

    `newest_event` is compared when the decision rests on what was seen before: nobody may have touched it since.
    `reveal_by_ms` is compared when it rests on a recording that has not come: it must still be asked for until then.
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
    """A decision that is written down: the submission as it was before, the event's number, and its new state."""

    found: StoredSubmission
    seq: int
    to_state: State

    @property
    def difference(self) -> int:
        """1 if the submission counts from now on, -1 if it does no more, 0 if that is as it was."""
        return (self.to_state is State.PROMOTED) - (self.found.state is State.PROMOTED)

    @property
    def counted(self) -> CountChange:
        """What it means for the standings."""
        found = self.found
        return CountChange(
            self.difference,
            found.submission_id,
            found.seq,
            found.achieved_at_ms,
            found.claim.score,
            found.claim.stats,
        )

    @property
    def scored(self) -> PromotedScore:
        """What it means for the baselines."""
        return PromotedScore(self.found.achieved_at_ms, self.found.seq, self.found.claim.score)

    def change(self, stands: tuple[Standing, ...], learnt: tuple[StoredBaseline, ...]) -> Change:
        """What the index has to learn of it."""
        found = self.found
        return Change(self.seq, found.submission_id, found.board, found.player, self.to_state, stands, learnt)


def trusted(submission_id: str, server: str, at_ms: int) -> Decision:
    """The decision that a trusted server's write is: it names the key."""
    return Decision(submission_id, State.PROMOTED, server, Reason.TRUSTED, at_ms, frozenset({State.PENDING}))


class LedgerWrites(Protocol):
    """What settlement needs of a ledger. Fails closed."""

    async def write(self, work: Operation[T]) -> T:
        """The result of `work`, once durable."""
        ...


class Projection(Protocol):
    """What settlement needs of the index. May fail; the outbox remembers."""

    async def project(self, changes: Sequence[Change]) -> None:
        """Makes the index show the changes. Raises IndexUnavailable."""
        ...


async def settle(
    ledger: LedgerWrites, index: Projection, board: Board, decisions: Sequence[Decision]
) -> list[Change | StateConflict]:
    """The change, or the conflict, of each decision; durable on return, and in the index unless that is down.

    Raises LedgerUnavailable, after which nothing has changed.
    """
    settled = await ledger.write(_decide_all(board, decisions))
    reach(Point.AFTER_SETTLE)
    changes = [each for each in settled if isinstance(each, Change)]
    if changes:
        await project(ledger, index, changes)
    return settled


async def project(ledger: LedgerWrites, index: Projection, changes: Sequence[Change]) -> bool:
    """True if the index has the changes and the outbox no longer asks for them; if not, the steward does it again."""
    try:
        await index.project(changes)
        reach(Point.AFTER_PROJECT)
        await ledger.write(work.strike_projected([change.seq for change in changes]))
    except (IndexUnavailable, LedgerUnavailable):
        return False
    return True


def _decide_all(board: Board, decisions: Sequence[Decision]) -> Operation[list[Change | StateConflict]]:
    async def work(tx: Transaction) -> list[Change | StateConflict]:
        settled = [await decide(tx, board, decision) for decision in decisions]
        changes = iter(await fold(tx, board, [each for each in settled if isinstance(each, SettledDecision)]))
        return [next(changes) if isinstance(each, SettledDecision) else each for each in settled]

    return work


async def receive(tx: Transaction, new: NewSubmission) -> None:
    """Writes down a submission without a recording, for a decision that follows in the same transaction."""
    last = await queries.newest_seq()(tx)
    for table, rows in rows_of(last + 1, [new]):
        for row in rows:
            await tx.run(_INSERTS[table], **dict(zip(table.columns.keys(), row, strict=True)))


async def decide(tx: Transaction, board: Board, decision: Decision) -> SettledDecision | StateConflict:
    """A decision, written down or in conflict. Every `SettledDecision` of a transaction goes through `fold` before its end."""
    found = await queries.load_submission(tx, decision.submission_id)
    expected = decision.newest_event
    if found and expected is not None and expected != await queries.newest_event(tx, found.submission_id):
        return CaseOvertaken()
    conflict = _conflict(found, board, decision)
    if found is None or conflict:
        return conflict or StateConflict()
    if decision.reveal_by_ms is not None and decision.reveal_by_ms != await reveals.due_at(tx, found.seq):
        return StateConflict("the recording has come, or has longer")
    last = await queries.newest_seq()(tx)
    await _record(tx, board, decision, found, last + 1)
    reach(Point.INSIDE_SETTLE)
    return SettledDecision(found, last + 1, decision.to_state)


async def fold(tx: Transaction, board: Board, decided: Sequence[SettledDecision]) -> list[Change]:
    """What the index has to learn of each decision; each slot and each baseline is folded once, and told last."""
    touched: dict[str, list[SettledDecision]] = defaultdict(list)
    for each in decided:
        if each.difference:
            touched[each.found.player].append(each)
    stands: dict[int, tuple[Standing, ...]] = {}
    learnt: dict[int, tuple[StoredBaseline, ...]] = defaultdict(tuple)
    for player, group in touched.items():
        seq = group[-1].seq
        stands[seq] = await fold_standings(tx, board.ranking, player, [each.counted for each in group], seq)
        learnt[seq] = (await _fold_baseline(tx, board, player, group),)
    if touched:
        counted = [each for each in decided if each.difference]
        learnt[counted[-1].seq] += await _fold_populations(tx, board, counted)
        achieved = {each.found.achieved_at_ms for each in counted}
        await mark_changed(tx, board.name, achieved, counted[-1].seq)
    return [each.change(stands.get(each.seq, ()), learnt.get(each.seq, ())) for each in decided]


async def _fold_baseline(
    tx: Transaction, board: Board, subject: str, group: Sequence[SettledDecision]
) -> StoredBaseline:
    differences = [(each.scored, each.difference) for each in group]
    return await fold_baseline(tx, board.name, subject, differences, group[-1].seq)


async def _fold_populations(
    tx: Transaction, board: Board, counted: Sequence[SettledDecision]
) -> tuple[StoredBaseline, ...]:
    """The baseline of each build that was played, then that of the board, which may be read from theirs."""
    of_builds: dict[str, list[SettledDecision]] = defaultdict(list)
    for each in counted:
        of_builds[population_of(each.found.build)].append(each)
    groups = [*of_builds.items(), (POPULATION, counted)]
    return tuple([await _fold_baseline(tx, board, subject, group) for subject, group in groups])


def _conflict(found: StoredSubmission | None, board: Board, decision: Decision) -> StateConflict | None:
    if found is None or found.board != board.name:
        return StateConflict("there is no such submission on the board")
    if found.state not in decision.from_states:
        return StateConflict()
    if decision.attempt is not None and decision.attempt != found.attempt:
        return StateConflict("another worker has taken the submission over")
    return _forbidden(found, decision)


def _forbidden(found: StoredSubmission, decision: Decision) -> StateConflict | None:
    """What nobody may decide, whoever has the submission in their hands."""
    if found.unreadable and decision.to_state is State.PROMOTED:
        return StateConflict(f"what the ledger keeps of it cannot be read: {', '.join(found.unreadable)}")
    if decision.to_state is found.state and found.reason is not Reason.SAMPLED:
        return StateConflict("only what counts unverified is decided on without changing its state")
    if decision.to_state not in TRANSITIONS[found.state]:
        return StateConflict(f"a {found.state} submission never becomes {decision.to_state}")
    return None


async def _record(
    tx: Transaction, board: Board, decision: Decision, found: StoredSubmission, seq: int
) -> None:
    """Writes the event, the state, and the outbox rows of a decision."""
    whose = {"submission_id": found.submission_id, "board": found.board, "player": found.player}
    await tx.run(
        _INSERTS[events],
        seq=seq,
        **whose,
        from_state=found.state.value,
        to_state=decision.to_state.value,
        actor=decision.actor,
        reason=decision.reason.value,
        policy=board.digest,
        rules_version=RULES_VERSION,
        detail=orjson.dumps(dict(decision.detail)).decode(),
        at_ms=decision.at_ms,
    )
    state = {"to_state": decision.to_state.value, "to_reason": decision.reason.value}
    await tx.run(_SET_STATE, id=found.submission_id, **state)
    await tx.run(_FORGET_WORK, received=found.seq)
    if board.policy.replay and decision.to_state in _CONVICTED:  # the share may have been lower before
        convicted = sampling.SampledSubmission(found.seq, **whose)
        await sampling.put_up_player(tx, convicted, now_ms=decision.at_ms)
    due_at_ms = decision.at_ms + PROJECT_AFTER_MS + int(board.policy.staleness_s * 1000)
    showing = {"kind": "project", "due_at_ms": due_at_ms, "priority": 0, "handed_out": 0}
    await tx.run(_INSERTS[outbox], seq=seq, **whose, **showing)
