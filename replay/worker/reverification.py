"""Judging promoted runs again, after what judges them has changed: first a plan, then a batch that can be undone.

A plan changes nothing. A batch revokes, a slice at a time, what the plan found, each event with the batch's id; undoing
it reinstates what of it nobody has decided on since. Only what the machine promoted is revoked: where a person has
decided, a person decides.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from gateway.index.board_index import Index
from gateway.ledger import queries
from gateway.ledger.judgement.reverification import (
    BATCH,
    BatchEvent,
    PromotedRun,
    events_of_batches,
    promoted_of_build,
)
from gateway.ledger.ledger import Ledger
from gateway.recordings.recordings import Recordings
from gateway.records import Change
from gateway.runtime.clock import Clock
from gateway.settlement.settle import Decision, settle
from gateway.steward.audits.revocation_impact import StandingImpact, impact_of_revoking
from policies.errors import RecordingLost, SettingsError
from policies.loader import Board, Simulator
from policies.vocabulary import Reason, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.verify import verify

T = TypeVar("T")

OPERATOR: Final = "operator"
"""The actor of what is done from the command line."""

SLICE: Final = 100
"""Submissions per transaction: the ledger takes other writes in between."""

SPAN: Final = 5_000
"""Events looked at in one read: however rare those of a batch are, no read takes long."""

BY_NOBODY: Final = frozenset({Reason.VERIFIED, Reason.SAMPLED, Reason.REVERIFICATION_UNDONE})
"""Why something counts that no person has decided on."""

Tell = Callable[[int], object]
"""Hears how many more submissions were dealt with."""


@dataclass(frozen=True, slots=True)
class ReverifiedRun:
    """A run that was judged again, by what a plan needs of it: there may be many, and their recordings are large.

    `reason` is why it counted. `verdict` None: it has no recording, or the one it had is lost.
    """

    submission_id: str
    player: str
    score: int
    achieved_at_ms: int
    reason: Reason
    newest_event: int
    verdict: Verdict | None


def _reverified(run: PromotedRun, verdict: Verdict | None) -> ReverifiedRun:
    found = run.submission
    return ReverifiedRun(
        found.submission_id,
        found.player,
        found.claim.score,
        found.achieved_at_ms,
        found.reason,
        run.newest_event,
        verdict,
    )


@dataclass(slots=True)
class ReverificationPlan:
    """What came of a build's promoted runs: how many, those to revoke, those not known, those that a person decided on."""

    looked_at: int = 0
    to_revoke: list[ReverifiedRun] = field(default_factory=list)
    inconclusive: list[ReverifiedRun] = field(default_factory=list)
    decided_by_people: list[ReverifiedRun] = field(default_factory=list)
    standings: list[StandingImpact] = field(default_factory=list)

    def note(self, found: ReverifiedRun) -> None:
        """Puts a run where it belongs."""
        self.looked_at += 1
        if found.verdict is None or found.verdict.kind is VerdictKind.INCONCLUSIVE:
            self.inconclusive.append(found)
        elif found.verdict.kind is VerdictKind.MISMATCH:
            by_nobody = found.reason in BY_NOBODY
            (self.to_revoke if by_nobody else self.decided_by_people).append(found)


@dataclass(slots=True)
class ReverificationBatch:
    """What a batch did: ids of submissions that it settled, and of those that somebody had decided on meanwhile.

    `undone_before` are those that an earlier undoing reinstated.
    """

    batch: str
    settled: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    undone_before: list[str] = field(default_factory=list)


class Reverifier:
    """Judges the promoted runs of one board again."""

    def __init__(
        self, board: Board, ledger: Ledger, index: Index, recordings: Recordings, *, clock: Clock, tell: Tell
    ) -> None:
        self._board = board
        self._ledger = ledger
        self._index = index
        self._recordings = recordings
        self._clock = clock
        self._tell = tell

    async def plan(self, build: str, simulator: Simulator, simulators: Simulators) -> ReverificationPlan:
        """What the simulator makes of every promoted run of a build. Writes nothing.

        Raises LedgerUnavailable and RecordingsUnavailable.
        """
        plan = ReverificationPlan()
        async for run in self._promoted(build):
            plan.note(_reverified(run, await self._verdict(run, simulator, simulators)))
            self._tell(1)
        plan.standings = await impact_of_revoking(self._ledger, self._board, plan.to_revoke, self._clock())
        return plan

    async def apply(
        self, plan: ReverificationPlan, simulator: Simulator, batch: str | None = None
    ) -> ReverificationBatch:
        """Revokes what the plan found, under a new batch or as more of one that was broken off.

        Raises LedgerUnavailable; what was revoked by then stays, and its batch can be undone.
        """
        batch = batch or await new_batch(self._ledger)
        decisions = (self._revocation(each, simulator, batch) for each in plan.to_revoke)
        return await self._settle(ReverificationBatch(batch), decisions)

    async def undo(self, batch: str) -> ReverificationBatch:
        """Reinstates what the batch revoked on this board and nobody has decided on since. Raises LedgerUnavailable."""
        revoked = await self._last_events(batch, Reason.REVERIFIED_OTHERWISE)
        undone = await self._last_events(batch, Reason.REVERIFICATION_UNDONE)
        to_reinstate, done = [], ReverificationBatch(batch)
        for each, event in revoked.items():
            if each in undone and undone[each].seq > event.seq:
                done.undone_before.append(each)
            else:
                to_reinstate.append(event)
        return await self._settle(done, map(self._reinstatement, to_reinstate))

    async def _last_events(self, batch: str, reason: Reason) -> dict[str, BatchEvent]:
        """The batch's last event of each submission of this board for that reason."""
        found = events_of(self._ledger, batch, reason)
        return {each.submission_id: each async for each in found if each.board == self._board.name}

    async def _promoted(self, build: str) -> AsyncIterator[PromotedRun]:
        after = 0, 0
        while page := await self._ledger.read(
            promoted_of_build(self._board.name, build, after=after, count=SLICE)
        ):
            for run in page:
                yield run
            last = page[-1].submission
            after = last.achieved_at_ms, last.seq

    async def _verdict(
        self, run: PromotedRun, simulator: Simulator, simulators: Simulators
    ) -> Verdict | None:
        replay = self._board.policy.replay
        assert replay is not None
        if run.recording is None or run.submission.unreadable:
            return None
        try:
            recording = await self._recordings.load(run.recording)
        except RecordingLost:
            return None
        found = run.submission
        return verify(found.claim, recording, found.seed, replay, simulator, simulators)

    def _revocation(self, found: ReverifiedRun, simulator: Simulator, batch: str) -> Decision:
        verdict = found.verdict
        assert verdict is not None
        return Decision(
            found.submission_id,
            State.REVOKED,
            OPERATOR,
            Reason.REVERIFIED_OTHERWISE,
            self._clock(),
            frozenset({State.PROMOTED}),
            detail={
                BATCH: batch,
                "verdict_reason": verdict.reason.value,
                "simulator": simulator.digest,
                "engine": verdict.engine,
                "divergence": verdict.divergence and verdict.divergence.as_dict(),
                **verdict.detail,
            },
            newest_event=found.newest_event,
        )

    def _reinstatement(self, event: BatchEvent) -> Decision:
        return Decision(
            event.submission_id,
            State.PROMOTED,
            OPERATOR,
            Reason.REVERIFICATION_UNDONE,
            self._clock(),
            frozenset({State.REVOKED}),
            detail={BATCH: event.batch},
            newest_event=event.seq,
        )

    async def _settle(self, batch: ReverificationBatch, decisions: Iterator[Decision]) -> ReverificationBatch:
        for group in _slices(decisions, SLICE):
            settled = await settle(self._ledger, self._index, self._board, group)
            for decision, each in zip(group, settled, strict=True):
                (batch.settled if isinstance(each, Change) else batch.left).append(decision.submission_id)
            self._tell(len(group))
        return batch


async def new_batch(ledger: Ledger) -> str:
    """The id of a new batch. It begins with the newest event, so that undoing it need not read what was before."""
    return f"{await ledger.read(queries.newest_seq())}-{secrets.token_hex(4)}"


def begin_of(batch: str) -> int:
    """The event after which a batch began. Raises SettingsError for what is no batch's id."""
    begin, dash, _ = batch.partition("-")
    if not dash or not begin.isascii() or not begin.isdigit():
        raise SettingsError(
            f"{batch!r} is no batch: its id was printed when it was applied, as 4711-9f3c01ab"
        )
    return int(begin)


async def events_of(ledger: Ledger, batch: str, reason: Reason) -> AsyncIterator[BatchEvent]:
    """The events of a batch for one reason, in their order. Raises SettingsError."""
    newest = await ledger.read(queries.newest_seq())
    for after in range(begin_of(batch), newest, SPAN):
        for event in await ledger.read(events_of_batches(reason, after=after, upto=after + SPAN)):
            if event.batch == batch:
                yield event


def _slices(items: Iterator[T], count: int) -> Iterator[Sequence[T]]:
    while group := list(islice(items, count)):
        yield group
