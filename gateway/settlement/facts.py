"""What decisions rest on, read from the ledger for a set of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.moderation import bans
from gateway.ledger.moderation.cases import StoredCase, load_cases
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Transaction
from gateway.settlement.decision_records import Decision
from policies.vocabulary import Reason, State

_CONVICTED: Final = frozenset({State.REJECTED, State.REVOKED})


def is_conviction(to_state: State, reason: Reason) -> bool:
    """Return whether a decision puts all unverified runs of its player up for verification."""
    return to_state in _CONVICTED and reason is not Reason.BANNED


class Facts(NamedTuple):
    """What is known of submissions that are decided on: the rows as they are, by submission or player.

    `newest_events` and `deadlines` are known of those alone whose decisions ask for them.
    """

    submissions: Mapping[str, StoredSubmission]
    newest_events: Mapping[str, int]
    bans: Mapping[str, str]
    cases: Mapping[str, StoredCase]
    deadlines: Mapping[int, int]

    def count_independent(self, decisions: Sequence[Decision]) -> int:
        """Return how many of the first decisions may be stored at once: these facts hold for each of them.

        The next one is on a submission that was decided on before it. Or it lets a run of a player count
        unverified, and what that has to be queued for depends on the player's other decisions.
        """
        decided: set[str] = set()
        convicted, returned = set[str](), set[str]()
        for count, decision in enumerate(decisions):
            submission = self.submissions.get(decision.submission_id)
            if submission is None:
                continue
            player = submission.player
            is_sampled = (decision.to_state, decision.reason) == (State.PROMOTED, Reason.SAMPLED)
            is_returned = is_sampled and submission.state is not State.PENDING
            convicts = is_conviction(decision.to_state, decision.reason)
            tries = convicts or is_conviction(submission.state, submission.reason)
            waits = (is_sampled and player in convicted) or (tries and player in returned)
            if submission.submission_id in decided or waits:
                return count
            decided.add(submission.submission_id)
            if convicts:
                convicted.add(player)
            if is_returned:
                returned.add(player)
        return len(decisions)


async def facts_of(tx: Transaction, board: str, decisions: Sequence[Decision]) -> Facts:
    """Return what the decisions rest on, a statement for each sort of fact that one of them needs."""
    submissions = await queries.load_submissions(tx, [decision.submission_id for decision in decisions])
    seen = [decision.submission_id for decision in decisions if decision.newest_event is not None]
    promoted = {
        submissions[decision.submission_id].player
        for decision in decisions
        if decision.to_state is State.PROMOTED and decision.submission_id in submissions
    }
    decided = [each.submission_id for each in submissions.values() if each.state is not State.PENDING]
    asked = [
        submissions[decision.submission_id].seq
        for decision in decisions
        if decision.reveal_by_ms is not None and decision.submission_id in submissions
    ]
    return Facts(
        submissions,
        await queries.newest_events(tx, seen) if seen else {},
        await bans.bans_in_force(tx, sorted(promoted), board) if promoted else {},
        await load_cases(tx, decided) if decided else {},
        await reveals.deadlines(tx, asked) if asked else {},
    )
