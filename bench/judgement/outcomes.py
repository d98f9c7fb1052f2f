"""Outcomes of runs under the shipped policy: rejected, held, noted or promoted."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from bench.judgement.claims import DIGEST
from bench.judgement.recordings import NamedFinding
from policies.model import Policy
from policies.vocabulary import State, Verdict
from validators.judge import Judgement, judge_verdict, weighed


class Outcome(StrEnum):
    """The outcome of a run before a moderator sees it. NOTED means promoted with findings without effect."""

    REJECTED = "rejected"
    HELD = "held"
    NOTED = "noted"
    PROMOTED = "promoted"


def outcome_of(
    before: Judgement, verdict: Verdict, findings: Iterable[NamedFinding], policy: Policy
) -> Outcome:
    """Return the outcome of a run with this judgement, this verdict, and these findings in its recording."""
    if before.state is not State.PENDING:
        return Outcome(before.state.value)
    after = [
        weighted for name, finding in findings for weighted in weighed(name, [finding], policy, digest=DIGEST)
    ]
    judgement = judge_verdict(verdict, (*before.findings, *after))
    if judgement.state is not State.PROMOTED:
        return Outcome(judgement.state.value)
    return Outcome.NOTED if judgement.findings else Outcome.PROMOTED
