"""Judges promoted runs again after a simulator changed: first a plan, then a batch that can be undone.

A plan changes nothing. A batch revokes the planned runs in slices, and each event has the batch's id. Undoing
it reinstates those that nobody has decided on since. Only the machine's promotions are revoked: what a person
decided, only a person changes.
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
from gateway.runtime.clock import Clock
from gateway.settlement.settle import Decision, settle
from gateway.shared_records import Change
from gateway.steward.audits.revocation_impact import StandingImpact, impact_of_revoking
from policies.errors import RecordingLost, SettingsError
from policies.loader import Board, Simulator
from policies.vocabulary import Reason, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.verify import verify
from replay.worker.board_contents import BoardContents, ContentUnavailable

T = TypeVar("T")

OPERATOR: Final = "operator"
"""The actor of changes from the command line."""

SLICE: Final = 100
"""Submissions per transaction, so that the ledger takes other writes in between."""

SPAN: Final = 5_000
"""Events per read, so that no read takes long, however rare the batch's events are."""

BY_NOBODY: Final = frozenset({Reason.VERIFIED, Reason.SAMPLED, Reason.REVERIFICATION_UNDONE})
"""Reasons for which a run counts without a person's decision."""

Tell = Callable[[int], object]
"""Is called with the number of submissions just handled."""


@dataclass(frozen=True, slots=True)
class ReverifiedRun:
    """A run that was judged again, reduced to what a plan needs, since there may be many.

    `reason` is why it counted. `verdict` is None if it has no recording, or if that or its board's content is
    lost.
    """

    submission_id: str
    player: str
    score: int
    achieved_at_ms: int
    reason: Reason
    newest_event: int
    verdict: Verdict | None


def _reverified(run: PromotedRun, verdict: Verdict | None) -> ReverifiedRun:
    submission = run.submission
    return ReverifiedRun(
        submission.submission_id,
        submission.player,
        submission.claim.score,
        submission.achieved_at_ms,
        submission.reason,
        run.newest_event,
        verdict,
    )


@dataclass(slots=True)
class ReverificationPlan:
    """The results for a build's promoted runs: those to revoke, inconclusive, or decided by people."""

    looked_at: int = 0
    to_revoke: list[ReverifiedRun] = field(default_factory=list)
    inconclusive: list[ReverifiedRun] = field(default_factory=list)
    decided_by_people: list[ReverifiedRun] = field(default_factory=list)
    standings: list[StandingImpact] = field(default_factory=list)

    def note(self, run: ReverifiedRun) -> None:
        """Sort a run into the plan."""
        self.looked_at += 1
        if run.verdict is None or run.verdict.kind is VerdictKind.INCONCLUSIVE:
            self.inconclusive.append(run)
        elif run.verdict.kind is VerdictKind.MISMATCH:
            by_nobody = run.reason in BY_NOBODY
            (self.to_revoke if by_nobody else self.decided_by_people).append(run)


@dataclass(slots=True)
class ReverificationBatch:
    """The results of a batch: submissions that it settled, and left because somebody had decided.

    `undone_before` are those that an earlier undo reinstated.
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
        self._contents = BoardContents(recordings)
        self._clock = clock
        self._tell = tell

    async def plan(self, build: str, simulator: Simulator, simulators: Simulators) -> ReverificationPlan:
        """Return the simulator's results for every promoted run of a build. Writes nothing.

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
        """Revoke the planned runs, under a new batch or to continue an interrupted one.

        Raises LedgerUnavailable; what was revoked by then stays, and its batch can be undone.
        """
        batch = batch or await new_batch(self._ledger)
        decisions = (self._revocation(run, simulator, batch) for run in plan.to_revoke)
        return await self._settle(ReverificationBatch(batch), decisions)

    async def undo(self, batch: str) -> ReverificationBatch:
        """Reinstate the batch's runs on this board that nobody decided on since. Raises LedgerUnavailable."""
        revoked = await self._last_events(batch, Reason.REVERIFIED_OTHERWISE)
        undone = await self._last_events(batch, Reason.REVERIFICATION_UNDONE)
        to_reinstate, done = [], ReverificationBatch(batch)
        for submission_id, event in revoked.items():
            if submission_id in undone and undone[submission_id].seq > event.seq:
                done.undone_before.append(submission_id)
            else:
                to_reinstate.append(event)
        return await self._settle(done, map(self._reinstatement, to_reinstate))

    async def _last_events(self, batch: str, reason: Reason) -> dict[str, BatchEvent]:
        """Return, by submission, the batch's last event for that reason on this board."""
        events = events_of(self._ledger, batch, reason)
        return {event.submission_id: event async for event in events if event.board == self._board.name}

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
            content = await self._contents.of(self._board, run.submission.board_content)
        except (RecordingLost, ContentUnavailable):
            return None
        submission = run.submission
        return verify(submission.claim, recording, submission.seed, replay, simulator, simulators, content)

    def _revocation(self, run: ReverifiedRun, simulator: Simulator, batch: str) -> Decision:
        verdict = run.verdict
        assert verdict is not None
        return Decision(
            run.submission_id,
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
            newest_event=run.newest_event,
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
            for decision, result in zip(group, settled, strict=True):
                (batch.settled if isinstance(result, Change) else batch.left).append(decision.submission_id)
            self._tell(len(group))
        return batch


async def new_batch(ledger: Ledger) -> str:
    """Return a new batch's id.

    It begins with the newest event, so that an undo skips everything before it.
    """
    return f"{await ledger.read(queries.newest_seq())}-{secrets.token_hex(4)}"


def begin_of(batch: str) -> int:
    """Return the event after which a batch began. Raises SettingsError for anything but a batch's id."""
    begin, dash, _ = batch.partition("-")
    if not dash or not begin.isascii() or not begin.isdigit():
        raise SettingsError(
            f"{batch!r} is not a batch: use the id that was printed when it was applied, such as "
            "4711-9f3c01ab"
        )
    return int(begin)


async def events_of(ledger: Ledger, batch: str, reason: Reason) -> AsyncIterator[BatchEvent]:
    """Yield a batch's events for one reason, in order. Raises SettingsError."""
    newest = await ledger.read(queries.newest_seq())
    for after in range(begin_of(batch), newest, SPAN):
        for event in await ledger.read(events_of_batches(reason, after=after, upto=after + SPAN)):
            if event.batch == batch:
                yield event


def _slices(items: Iterator[T], count: int) -> Iterator[Sequence[T]]:
    while group := list(islice(items, count)):
        yield group
