"""Judges promoted runs again after a simulator changed: first a plan, then a batch that can be reversed.

A plan changes nothing. Its batch is previewed, applied and reversed like any other. Only the machine's
promotions are revoked: what a person decided, only a person changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from gateway.ledger import queries
from gateway.ledger.judgement.reverification import PromotedRun, load_run, promoted_of_build
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.bans import is_banned, reasons_without_bans
from gateway.ledger.moderation.batch_items import BatchItem, ItemOutcome, LeftOut
from gateway.ledger.moderation.selections import Selection, next_slice
from gateway.ledger.transaction import Operation, Transaction
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import Clock
from gateway.settlement.batches import begin, end_filling, filling, put_items
from gateway.steward.audits.revocation_impact import StandingImpact, impact_of_revoking
from policies.errors import RecordingLost
from policies.loader import Board, Simulator
from policies.vocabulary import Reason, State, Verdict, VerdictKind
from replay.simulators import Simulators
from replay.verify import verify
from replay.worker.board_contents import BoardContents, ContentUnavailable

SLICE: Final = 100
"""Submissions per transaction, so that the ledger takes other writes in between."""

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
    seq: int


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
        submission.seq,
    )


def _without_bans(submission_id: str) -> Operation[PromotedRun | None]:
    """Return a run as it would be had nobody been banned, if it would be promoted."""

    async def work(tx: Transaction) -> PromotedRun | None:
        run = await load_run(tx, submission_id)
        if is_banned(run.submission.state, run.submission.reason):
            reasons = await reasons_without_bans(tx, [submission_id])
            reason = Reason(reasons[submission_id])
            run = replace(run, submission=replace(run.submission, state=State.PROMOTED, reason=reason))
        return run if run.submission.state is State.PROMOTED else None

    return work


@dataclass(slots=True)
class ReverificationPlan:
    """The results for a build's promoted runs: those to revoke, inconclusive, or decided by people."""

    looked_at: int = 0
    to_revoke: list[ReverifiedRun] = field(default_factory=list)
    inconclusive: list[ReverifiedRun] = field(default_factory=list)
    decided_by_people: list[ReverifiedRun] = field(default_factory=list)
    standings: list[StandingImpact] = field(default_factory=list)

    @property
    def submissions(self) -> frozenset[int]:
        """Return the numbers of the runs that it names."""
        return frozenset(run.seq for run in (*self.to_revoke, *self.inconclusive, *self.decided_by_people))

    def note(self, run: ReverifiedRun) -> None:
        """Sort a run into the plan."""
        self.looked_at += 1
        if run.verdict is None or run.verdict.kind is VerdictKind.INCONCLUSIVE:
            self.inconclusive.append(run)
        elif run.verdict.kind is VerdictKind.MISMATCH:
            by_nobody = run.reason in BY_NOBODY
            (self.to_revoke if by_nobody else self.decided_by_people).append(run)


class Reverifier:
    """Judges the promoted runs of one board again."""

    def __init__(
        self, board: Board, ledger: Ledger, recordings: Recordings, *, clock: Clock, tell: Tell
    ) -> None:
        self._board = board
        self._ledger = ledger
        self._recordings = recordings
        self._contents = BoardContents(recordings)
        self._clock = clock
        self._tell = tell

    async def plan(self, build: str, simulator: Simulator, simulators: Simulators) -> ReverificationPlan:
        """Return the simulator's results for every promoted run of a build. Writes nothing.

        Raises LedgerUnavailable and RecordingsUnavailable.
        """
        plan = ReverificationPlan()
        for runs in (self._promoted(build), self._banned(build)):
            noted = plan.submissions  # a ban may have begun, or have ended, behind the walk
            async for run in runs:
                if run.submission.seq in noted:
                    continue
                plan.note(_reverified(run, await self._verdict(run, simulator, simulators)))
                self._tell(1)
        plan.standings = await impact_of_revoking(self._ledger, self._board, plan.to_revoke, self._clock())
        return plan

    async def store(self, plan: ReverificationPlan, build: str, simulator: Simulator) -> str:
        """Store a plan as a batch to be previewed, and return its id. Raises LedgerUnavailable."""
        selection = {"build": build, "simulator": simulator.digest}
        reason = Reason.REVERIFIED_OTHERWISE
        batch = filling((self._board.name,), reason, selection, {}, now_ms=self._clock())
        await self._ledger.write(begin(batch))
        items = [self._item(run, simulator) for run in plan.to_revoke]
        items += [self._left(run, LeftOut.INCONCLUSIVE) for run in plan.inconclusive]
        items += [self._left(run, LeftOut.DECIDED_BY_PERSON) for run in plan.decided_by_people]
        for at in range(0, len(items), SLICE):
            part = items[at : at + SLICE]
            await self._ledger.write(put_items(batch.batch_id, part, now_ms=self._clock()))
        await self._ledger.write(end_filling(batch.batch_id, now_ms=self._clock()))
        return batch.batch_id

    async def _promoted(self, build: str) -> AsyncIterator[PromotedRun]:
        after = 0, 0
        while page := await self._ledger.read(
            promoted_of_build(self._board.name, build, after=after, count=SLICE)
        ):
            for run in page:
                yield run
            last = page[-1].submission
            after = last.achieved_at_ms, last.seq

    async def _banned(self, build: str) -> AsyncIterator[PromotedRun]:
        """Yield the runs that would count had nobody been banned: they count again when the ban ends."""
        upto = await self._ledger.read(queries.newest_seq())
        selection = Selection(State.PROMOTED, (self._board.name,), upto, build=build)
        place: Sequence[Any] | None = selection.before_banned
        while place is not None:
            found = await self._ledger.read(next_slice(selection, place))
            place = found.place
            for item in found.items:
                if run := await self._ledger.read(_without_bans(item.submission_id)):
                    yield run

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

    def _left(self, run: ReverifiedRun, why: LeftOut) -> BatchItem:
        return self._of(run)._replace(outcome=ItemOutcome.BARRED.value, why=why.value)

    def _item(self, run: ReverifiedRun, simulator: Simulator) -> BatchItem:
        verdict = run.verdict
        assert verdict is not None
        detail: dict[str, Any] = {
            "verdict_reason": verdict.reason.value,
            "simulator": simulator.digest,
            "engine": verdict.engine,
            "divergence": verdict.divergence and verdict.divergence.as_dict(),
            **verdict.detail,
        }
        return self._of(run)._replace(detail=orjson.dumps(detail).decode())

    def _of(self, run: ReverifiedRun) -> BatchItem:
        return BatchItem(self._board.name, run.seq, run.submission_id, run.player, run.newest_event)
