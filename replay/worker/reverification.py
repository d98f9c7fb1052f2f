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

from gateway.boards.index import Index
from gateway.clock import Clock
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.reverification import (
    BATCH,
    BatchEvent,
    PromotedRun,
    promoted_of_build,
    revoked_in_batches,
)
from gateway.recordings.recordings import Recordings
from gateway.records import Change
from gateway.settlement import Decision, settle
from gateway.steward.without import StandingChange, changes_without
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

BY_NOBODY: Final = frozenset({Reason.VERIFIED, Reason.SAMPLED, Reason.REVERIFICATION_UNDONE})
"""Why something counts that no person has decided on."""

Tell = Callable[[int], object]
"""Hears how many more submissions were dealt with."""


@dataclass(frozen=True, slots=True)
class Reverified:
    """A run that was judged again; `verdict` None where it has no recording, or the one it had is lost."""

    run: PromotedRun
    verdict: Verdict | None


@dataclass(slots=True)
class Plan:
    """What came of a build's promoted runs: how many, those to revoke, those not known, those that a person decided on."""

    looked_at: int = 0
    to_revoke: list[Reverified] = field(default_factory=list)
    inconclusive: list[Reverified] = field(default_factory=list)
    decided_by_people: list[Reverified] = field(default_factory=list)
    standings: list[StandingChange] = field(default_factory=list)

    def note(self, found: Reverified) -> None:
        """Puts a run where it belongs."""
        self.looked_at += 1
        if found.verdict is None or found.verdict.kind is VerdictKind.INCONCLUSIVE:
            self.inconclusive.append(found)
        elif found.verdict.kind is VerdictKind.MISMATCH:
            by_nobody = found.run.submission.reason in BY_NOBODY
            (self.to_revoke if by_nobody else self.decided_by_people).append(found)


@dataclass(slots=True)
class Batch:
    """What a batch did: ids of submissions that it settled, and of those that somebody had decided on meanwhile."""

    batch: str
    settled: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


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

    async def plan(self, build: str, simulator: Simulator, simulators: Simulators) -> Plan:
        """What the simulator makes of every promoted run of a build. Writes nothing.

        Raises LedgerUnavailable and RecordingsUnavailable.
        """
        plan = Plan()
        async for run in self._promoted(build):
            plan.note(Reverified(run, await self._verdict(run, simulator, simulators)))
            self._tell(1)
        gone = [each.run.submission for each in plan.to_revoke]
        plan.standings = await changes_without(self._ledger, self._board, gone, self._clock())
        return plan

    async def apply(self, plan: Plan, simulator: Simulator, batch: str | None = None) -> Batch:
        """Revokes what the plan found, under a new batch or as more of one that was broken off.

        Raises LedgerUnavailable; what was revoked by then stays, and its batch can be undone.
        """
        batch = batch or await new_batch(self._ledger)
        decisions = (self._revocation(each, simulator, batch) for each in plan.to_revoke)
        return await self._settle(Batch(batch), decisions)

    async def undo(self, batch: str) -> Batch:
        """Reinstates what the batch revoked on this board and nobody has decided on since. Raises LedgerUnavailable."""
        revoked = [each async for each in events_of(self._ledger, batch) if each.board == self._board.name]
        return await self._settle(Batch(batch), (self._reinstatement(each) for each in revoked))

    async def _promoted(self, build: str) -> AsyncIterator[PromotedRun]:
        after = 0
        while page := await self._ledger.read(
            promoted_of_build(self._board.name, build, after=after, count=SLICE)
        ):
            for run in page:
                yield run
            after = page[-1].submission.seq

    async def _verdict(
        self, run: PromotedRun, simulator: Simulator, simulators: Simulators
    ) -> Verdict | None:
        replay = self._board.policy.replay
        assert replay is not None
        if run.recording is None:
            return None
        try:
            recording = await self._recordings.load(run.recording)
        except RecordingLost:
            return None
        found = run.submission
        return verify(found.claim, recording, found.seed, replay, simulator, simulators)

    def _revocation(self, found: Reverified, simulator: Simulator, batch: str) -> Decision:
        verdict = found.verdict
        assert verdict is not None
        return Decision(
            found.run.submission.submission_id,
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
            newest_event=found.run.newest_event,
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

    async def _settle(self, batch: Batch, decisions: Iterator[Decision]) -> Batch:
        for group in _slices(decisions, SLICE):
            settled = await settle(self._ledger, self._index, self._board, group)
            for decision, each in zip(group, settled, strict=True):
                (batch.settled if isinstance(each, Change) else batch.left).append(decision.submission_id)
            self._tell(len(group))
        return batch


async def new_batch(ledger: Ledger) -> str:
    """The id of a new batch. It begins with the newest event, so that undoing it need not read what was before."""
    return f"{await ledger.read(queries.head())}-{secrets.token_hex(4)}"


def begin_of(batch: str) -> int:
    """The event after which a batch began. Raises SettingsError for what is no batch's id."""
    begin, dash, _ = batch.partition("-")
    if not dash or not begin.isascii() or not begin.isdigit():
        raise SettingsError(
            f"{batch!r} is no batch: its id was printed when it was applied, as 4711-9f3c01ab"
        )
    return int(begin)


async def events_of(ledger: Ledger, batch: str) -> AsyncIterator[BatchEvent]:
    """The revocations of a batch, in their order. Raises SettingsError."""
    after = begin_of(batch)
    while page := await ledger.read(revoked_in_batches(after=after, count=SLICE)):
        for event in page:
            if event.batch == batch:
                yield event
        after = page[-1].seq


def _slices(items: Iterator[T], count: int) -> Iterator[Sequence[T]]:
    while group := list(islice(items, count)):
        yield group
