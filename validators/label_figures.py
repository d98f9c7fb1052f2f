"""Figures about validators on labels: runs of which moderators said whether they were honest.

Labels come from cases that somebody looked at, so what these figures say is about such cases
(docs/how-to/moderate.md). Nothing is said of fewer than `LEAST` runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import ValidationError

from policies.fields import PolicySection
from policies.judging import Abandonment, Anomaly, Delay, Drift, Forensics, Progress, SlowMotion, Velocity
from policies.vocabulary import SEVERITIES, Mode, Reason, Severity
from validators.backtest import Proportion

LEAST: Final = 10
"""Fewer runs than this say nothing."""

HONEST_HELD: Final = 0.01
"""The largest share of the honest runs that a suggested threshold may find something at."""

_DIGITS: Final = 3
"""Significant digits of a suggested threshold."""

_RANKS: Final = {Severity.NOTE: 0, Severity.FLAG: 1, Severity.REJECT: 2}


class LabelledFinding(NamedTuple):
    """A finding as a label keeps it."""

    validator: str
    reason: str
    severity: Severity
    value: float
    at_least: float | None
    at_most: float | None
    unit: str


class LabelledRun(NamedTuple):
    """A run with what moderators said of it, and what validators found."""

    is_cheat: bool
    findings: Sequence[LabelledFinding]


class CheatCount(NamedTuple):
    """How many runs, of cheats and of honest players."""

    cheats: int = 0
    honest: int = 0

    def plus(self, run: LabelledRun) -> CheatCount:
        """Return the count with one more run."""
        return CheatCount(self.cheats + run.is_cheat, self.honest + (not run.is_cheat))


class ModeOutcome(NamedTuple):
    """What becomes of the runs that a validator found something at, under one of its modes."""

    held: CheatCount = CheatCount()
    rejected: CheatCount = CheatCount()


@dataclass(frozen=True, slots=True)
class ValidatorFigures:
    """How right a validator was: cheats among what it found, what it found among cheats and honest runs."""

    validator: str
    precision: Proportion
    recall: Proportion
    false_positives: Proportion
    modes: Mapping[Mode, ModeOutcome]


@dataclass(frozen=True, slots=True)
class ThresholdFigures:
    """A threshold, the loosest one it had, and the one at or beyond it that separates the labels best.

    `suggested` is None if none finds any cheat without finding something at too many honest runs.
    """

    validator: str
    setting: str
    in_force: float
    suggested: float | None
    recall: Proportion
    honest_held: Proportion


class _Threshold(NamedTuple):
    section: type[PolicySection]
    place: str
    field: str

    @property
    def setting(self) -> str:
        return f"{self.place}.{self.field}"

    def takes(self, value: float) -> bool:
        """Return whether a policy may have the value."""
        try:
            self.section.model_validate({self.field: value})
        except ValidationError:
            return False
        return True


_THRESHOLDS: Final[Mapping[str, _Threshold]] = {
    Reason.VELOCITY_POINTS: _Threshold(Velocity, "velocity", "points_per_second"),
    Reason.SLOW_MOTION: _Threshold(SlowMotion, "slow_motion", "ratio"),
    Reason.LATE: _Threshold(Delay, "delay", "most_s"),
    Reason.RUNS_ABANDONED: _Threshold(Abandonment, "abandonment", "least_share"),
    Reason.ANOMALY_PLAYER: _Threshold(Anomaly, "anomaly", "threshold"),
    Reason.ANOMALY_POPULATION: _Threshold(Anomaly, "anomaly", "threshold"),
    Reason.DRIFT: _Threshold(Drift, "drift", "decision"),
    Reason.INPUTS_PERIODIC: _Threshold(Forensics, "forensics", "periodicity"),
    Reason.INPUTS_FRAME_PERFECT: _Threshold(Forensics, "forensics", "frame_perfect_share"),
    Reason.INPUTS_DENSE: _Threshold(Forensics, "forensics", "presses_per_second"),
    Reason.INPUTS_SLOWED: _Threshold(Forensics, "forensics", "slow_motion_presses_per_second"),
}
_STEPS: Final = _Threshold(Progress, "progress", "times")
"""The thresholds of a policy that findings measure against. That of progress has two units."""


def validator_figures(runs: Sequence[LabelledRun]) -> list[ValidatorFigures]:
    """Return the figures of each validator that found anything, by name."""
    of_all = CheatCount()
    by_validator: dict[str, list[LabelledRun]] = {}
    for run in runs:
        of_all = of_all.plus(run)
        for name in {finding.validator for finding in run.findings}:
            by_validator.setdefault(name, []).append(run)
    return [_figures(name, by_validator[name], of_all) for name in sorted(by_validator)]


def _figures(name: str, found: Sequence[LabelledRun], of_all: CheatCount) -> ValidatorFigures:
    cheats = sum(run.is_cheat for run in found)
    honest = len(found) - cheats
    return ValidatorFigures(
        name,
        precision=Proportion(cheats, len(found)),
        recall=Proportion(cheats, of_all.cheats),
        false_positives=Proportion(honest, of_all.honest),
        modes={mode: _outcome(name, found, severity) for mode, severity in SEVERITIES.items()},
    )


def _outcome(name: str, found: Sequence[LabelledRun], severity: Severity) -> ModeOutcome:
    """Return what becomes of runs if a validator's findings have this severity, and others their own."""
    held, rejected = CheatCount(), CheatCount()
    for run in found:
        worst = max((_severity(each, name, severity) for each in run.findings), key=_RANKS.__getitem__)
        held = held.plus(run) if worst is Severity.FLAG else held
        rejected = rejected.plus(run) if worst is Severity.REJECT else rejected
    return ModeOutcome(held, rejected)


def _severity(finding: LabelledFinding, name: str, severity: Severity) -> Severity:
    if finding.validator != name:
        return finding.severity
    # A rule that cannot be evaluated never rejects (`validators.rules`).
    is_failure = finding.reason == Reason.RULE_FAILED and severity is Severity.REJECT
    return Severity.FLAG if is_failure else severity


def threshold_figures(runs: Sequence[LabelledRun]) -> list[ThresholdFigures]:
    """Return what the labels say of each threshold that anything was measured against, by its setting.

    All runs must have been judged under one policy file. A threshold stricter than those in force cannot be
    tried: runs on its other side left no value. There are none without `LEAST` cheats and honest runs.
    """
    cheats = sum(run.is_cheat for run in runs)
    if min(cheats, len(runs) - cheats) < LEAST:
        return []
    measured: dict[_Threshold, list[tuple[LabelledRun, LabelledFinding]]] = {}
    for run in runs:
        for finding in run.findings:
            threshold = _threshold_of(finding)
            if threshold is not None:
                measured.setdefault(threshold, []).append((run, finding))
    sides = CheatCount(cheats, len(runs) - cheats)
    figures = [_suggestion(threshold, found, sides) for threshold, found in measured.items()]
    return sorted(figures, key=lambda each: (each.setting, each.validator))


def _threshold_of(finding: LabelledFinding) -> _Threshold | None:
    if finding.at_least is None and finding.at_most is None:
        return None
    if finding.reason == Reason.PROGRESS:
        return _STEPS if "steps" in finding.unit else None
    return _THRESHOLDS.get(finding.reason)


def _suggestion(
    threshold: _Threshold, found: Sequence[tuple[LabelledRun, LabelledFinding]], sides: CheatCount
) -> ThresholdFigures:
    """Return the threshold with the highest recall at no more than HONEST_HELD of the honest runs."""
    is_floor = found[0][1].at_least is not None
    sign = -1 if is_floor else 1  # values are compared as if all were too high
    ends = [finding.at_least if is_floor else finding.at_most for _, finding in found]
    in_force = max(sign * end for end in ends if end is not None)
    values: dict[int, tuple[bool, float]] = {}
    for run, finding in found:
        worst = values.get(id(run), (run.is_cheat, -math.inf))[1]
        values[id(run)] = (run.is_cheat, max(worst, sign * finding.value))
    honest = sorted(value for is_cheat, value in values.values() if not is_cheat)
    caught = [value for is_cheat, value in values.values() if is_cheat]
    for limit in (in_force, *_beyond(honest, in_force)):
        held = Proportion(sum(value > limit for value in honest), sides.honest)
        if held.hits <= HONEST_HELD * held.of:
            recall = Proportion(sum(value > limit for value in caught), sides.cheats)
            is_useful = recall.hits > 0 and threshold.takes(sign * limit)
            suggested = sign * limit if is_useful else None
            break
    return ThresholdFigures(
        found[0][1].validator, threshold.setting, sign * in_force, suggested, recall, held
    )


def _beyond(honest: Sequence[float], in_force: float) -> Iterator[float]:
    """Yield thresholds just beyond each honest value, of few digits."""
    for value in honest:
        if value > in_force:
            unit = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - _DIGITS) if value else 1e-3
            yield round((math.floor(value / unit) + 1) * unit, 9)
