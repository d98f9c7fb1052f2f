"""The refusal of a run that a board's policy rules out, and what development mode says of it."""

from __future__ import annotations

from typing import Final

from gateway.edge.problems import Problem, ProblemType
from policies.model import Policy
from policies.vocabulary import Claim, Finding

NOT_A_RUN: Final = "ticks, stats: no run of this board has such a length, or such names of statistics"
NOT_POSSIBLE: Final = "the board's policy says that there cannot be such a run"


class ImpossibleRun(Problem):
    """Refuses a run as `bounds-violation`. `bound` names the rule and its limit, for development mode."""

    def __init__(self, detail: str, bound: str) -> None:
        super().__init__(ProblemType.BOUNDS_VIOLATION, detail)
        self.bound = bound


def unplayable(claim: Claim, policy: Policy) -> ImpossibleRun:
    """Return the refusal of a claim that no replay of the board takes."""
    replay = policy.replay
    assert replay is not None, "without a replay, every body of the right form is played"
    if not 1 <= claim.ticks <= replay.maximum_ticks:
        possible = f"at least 1 and at most {replay.maximum_ticks} (`replay.maximum_ticks`)"
        return ImpossibleRun(NOT_A_RUN, f"`ticks` is {claim.ticks}, and possible is {possible}")
    wanted = ", ".join(f"`{name}`" for name in replay.stats) or "nothing"
    return ImpossibleRun(NOT_A_RUN, f"`stats` has to have {wanted} and nothing else (`replay.stats`)")


def impossible(finding: Finding) -> ImpossibleRun:
    """Return the refusal of a claim for which a validator found this."""
    of = f" of `{finding.code}`" if finding.code else ""
    step = finding.detail.get("step", 1)
    steps = f", in steps of {step:.15g}" if step != 1 else ""
    bound = f"`{finding.validator}` found {finding.value:.15g}{of} ({finding.reason.value}), and possible is "
    return ImpossibleRun(NOT_POSSIBLE, f"{bound}{finding.expected}{steps}")
