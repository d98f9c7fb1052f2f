"""Decisions on submissions: as they are asked for, as they may be stored, and as they are in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from gateway.ledger.judgement import sampling
from gateway.ledger.records import StoredSubmission
from gateway.ledger.standings.counting import CountChange
from gateway.ledger.submissions import work
from gateway.ledger.transaction import Cells
from gateway.shared_records import Change, Standing, StoredBaseline
from policies.vocabulary import REMARKS, Reason, State
from validators.baseline import PromotedScore
from validators.judge import RULES_VERSION


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


def trusted(submission_id: str, server: str, at_ms: int) -> Decision:
    """Return the decision that promotes a trusted server's write. `server` is the credential's name."""
    return Decision(submission_id, State.PROMOTED, server, Reason.TRUSTED, at_ms, frozenset({State.PENDING}))


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


class StoredDecision(NamedTuple):
    """A decision that may be stored, the submission before it, and the number of its event."""

    submission: StoredSubmission
    decision: Decision
    seq: int

    @property
    def is_remark(self) -> bool:
        """Return whether it is an event alone."""
        return self.decision.reason in REMARKS

    @property
    def settled(self) -> SettledDecision:
        """Return the decision as it is in the ledger."""
        decision = self.decision
        of_decision = (self.seq, decision.to_state, decision.at_ms, decision.reason)
        return SettledDecision(self.submission, *of_decision, self.is_remark)

    @property
    def subject(self) -> tuple[str, str, str]:
        """Return the submission, the board and the player, as columns."""
        return self.submission.submission_id, self.submission.board, self.submission.player

    def event(self, policy: str) -> Cells:
        """Return the row of the event."""
        decision = self.decision
        detail = orjson.dumps(dict(decision.detail)).decode()
        states = (self.submission.state.value, decision.to_state.value)
        why = (decision.actor, decision.reason.value, policy, RULES_VERSION, detail)
        return (self.seq, *self.subject, *states, *why, decision.at_ms)

    def projection(self, staleness_s: float) -> Cells:
        """Return the row of the outbox that is left until the index shows the change."""
        due_at_ms = self.decision.at_ms + work.PROJECT_AFTER_MS + int(staleness_s * 1000)
        return (self.seq, "project", *self.subject, due_at_ms, 0, 0)
