"""What the policy as it is shipped makes of runs: rejected, held, noted or promoted."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from bench.judgement.claims import DIGEST
from bench.judgement.recordings import Named
from policies.model import Policy
from policies.vocabulary import State, Verdict
from validators.judge import Judgement, judge_verdict, weighed


class Outcome(StrEnum):
    """Where a run ends before a moderator sees it. NOTED: promoted, with findings that have no effect."""

    REJECTED = "rejected"
    HELD = "held"
    NOTED = "noted"
    PROMOTED = "promoted"


def outcome_of(before: Judgement, verdict: Verdict, found: Iterable[Named], policy: Policy) -> Outcome:
    """What becomes of a run that was judged so, replayed so, and has these findings of its recording."""
    if before.state is not State.PENDING:
        return Outcome(before.state.value)
    after = [each for name, one in found for each in weighed(name, [one], policy, digest=DIGEST)]
    judgement = judge_verdict(verdict, (*before.findings, *after))
    if judgement.state is not State.PROMOTED:
        return Outcome(judgement.state.value)
    return Outcome.NOTED if judgement.findings else Outcome.PROMOTED
