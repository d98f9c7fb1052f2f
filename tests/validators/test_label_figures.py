"""Figures of validators on labels, beside a plain count."""

from __future__ import annotations

from random import Random

import pytest

from policies.vocabulary import Mode, Reason, Severity
from tests.support.thorough import seeds
from validators.label_figures import (
    CheatCount,
    LabelledFinding,
    LabelledRun,
    ModeOutcome,
    threshold_figures,
    validator_figures,
)

RANKS = [Severity.NOTE, Severity.FLAG, Severity.REJECT]
MODES = {Mode.SHADOW: Severity.NOTE, Mode.FLAG: Severity.FLAG, Mode.REJECT: Severity.REJECT}


def found(
    validator: str,
    value: float = 9.0,
    *,
    at_most: float | None = 4.0,
    at_least: float | None = None,
    severity: Severity = Severity.FLAG,
    reason: Reason = Reason.ANOMALY_PLAYER,
) -> LabelledFinding:
    return LabelledFinding(validator, reason.value, severity, value, at_least, at_most, "")


def drawn(random: Random) -> LabelledRun:
    names = random.choices(["anomaly", "drift", "velocity"], k=random.randrange(4))
    return LabelledRun(random.random() < 0.4, [found(name, severity=random.choice(RANKS)) for name in names])


@pytest.mark.parametrize("seed", seeds(8))
def test_the_figures_are_those_of_a_plain_count(seed: int):
    """Precision, recall and false positives, and what each mode would have made of each run."""
    random = Random(seed)
    runs = [drawn(random) for _ in range(random.randrange(60))]
    figures = {each.validator: each for each in validator_figures(runs)}
    assert {finding.validator for run in runs for finding in run.findings} == figures.keys()
    for name, each in figures.items():
        hit = [run for run in runs if any(finding.validator == name for finding in run.findings)]
        cheats, honest = ([run for run in runs if run.is_cheat is side] for side in (True, False))
        caught, wronged = ([run for run in hit if run.is_cheat is side] for side in (True, False))
        assert (len(caught), len(hit)) == (each.precision.hits, each.precision.of)
        assert (len(caught), len(cheats)) == (each.recall.hits, each.recall.of)
        assert (len(wronged), len(honest)) == (each.false_positives.hits, each.false_positives.of)
        for mode, severity in MODES.items():
            worst = [
                max(
                    RANKS.index(severity if finding.validator == name else finding.severity)
                    for finding in run.findings
                )
                for run in hit
            ]
            sides = [
                CheatCount(
                    sum(run.is_cheat for run, rank in zip(hit, worst, strict=True) if rank == wanted),
                    sum(not run.is_cheat for run, rank in zip(hit, worst, strict=True) if rank == wanted),
                )
                for wanted in (1, 2)
            ]
            assert ModeOutcome(*sides) == each.modes[mode]


def test_a_rule_that_failed_never_rejects():
    """Whatever the mode: the rule may be wrong."""
    run = LabelledRun(True, [found("rules", reason=Reason.RULE_FAILED)])
    [figures] = validator_figures([run])
    assert ModeOutcome(held=CheatCount(1, 0)) == figures.modes[Mode.REJECT]


def test_a_suggested_threshold_catches_most_at_one_honest_run_in_a_hundred():
    """The first threshold beyond all honest runs but one of a hundred; and none without ten of each."""
    cheats = [LabelledRun(True, [found("anomaly", value)]) for value in (4.5, 6.0, 7.0, *[8.0] * 9)]
    honest = [LabelledRun(False, [found("anomaly", value)]) for value in (4.2, 5.5, 9.5)]
    clean = [LabelledRun(False, [])] * 97
    [figures] = threshold_figures([*cheats, *honest, *clean])
    assert ("anomaly.threshold", 4.0, 5.51) == (figures.setting, figures.in_force, figures.suggested)
    assert (11, 12) == (figures.recall.hits, figures.recall.of)
    assert (1, 100) == (figures.honest_held.hits, figures.honest_held.of)
    assert [] == threshold_figures([*cheats[:9], *honest, *clean])
    assert [] == threshold_figures([*cheats, *honest, *clean[:6]])


def test_a_threshold_that_is_good_stays():
    """The loosest that was in force, where nothing stricter is known of."""
    cheats = [
        LabelledRun(True, [found("drift", 20.0, at_most=limit, reason=Reason.DRIFT)]) for limit in (6.0, 8.0)
    ]
    [figures] = threshold_figures([*cheats * 5, *[LabelledRun(False, [])] * 10])
    assert ("drift.decision", 8.0, 8.0) == (figures.setting, figures.in_force, figures.suggested)


def test_a_threshold_from_below_is_lowered():
    """A share that is too small: honest runs had 0.08, cheats 0.01."""

    def share(value: float) -> list[LabelledFinding]:
        return [found("abandonment", value, at_most=None, at_least=0.1, reason=Reason.RUNS_ABANDONED)]

    runs = [*[LabelledRun(True, share(0.01))] * 10, *[LabelledRun(False, share(0.08))] * 10]
    [figures] = threshold_figures([LabelledRun(run.is_cheat, list(run.findings)) for run in runs])
    assert figures.suggested is not None
    assert 0.01 < figures.suggested <= 0.08
    assert (10, 0) == (figures.recall.hits, figures.honest_held.hits)


@pytest.mark.parametrize("values", [(9.0, 4.2), (4.2, 9.0)])
def test_a_run_is_as_far_out_as_its_worst_value(values: tuple[float, float]):
    """Beside the player's own scores and beside those of all, in either order: both are of one threshold."""
    cheats = [LabelledRun(True, [found("anomaly", value) for value in values]) for _ in range(10)]
    honest = [LabelledRun(False, [found("anomaly", 5.0)]) for _ in range(10)]
    [figures] = threshold_figures([*cheats, *honest])
    assert (5.01, 10) == (figures.suggested, figures.recall.hits)


def test_nothing_is_suggested_that_catches_nobody():
    """Where honest runs are further out than every cheat."""
    runs = [LabelledRun(is_cheat, [found("anomaly", 5.0 if is_cheat else 9.0)]) for is_cheat in (True, False)]
    [figures] = threshold_figures([LabelledRun(run.is_cheat, list(run.findings)) for run in runs * 10])
    assert (None, 0) == (figures.suggested, figures.recall.hits)


def test_the_two_units_of_progress_are_not_mixed():
    """Its steps have a threshold that is suggested; what is measured in points beside it is left out."""

    def progress(value: float, at_most: float, unit: str) -> LabelledFinding:
        return found("progress", value, at_most=at_most, reason=Reason.PROGRESS)._replace(unit=unit)

    steps, points = "largest steps of the player's own", "points beyond the player's best"
    cheats = [LabelledRun(True, [progress(9.0, 3.0, steps), progress(900.0, 100.0, points)])] * 10
    runs = [
        *(LabelledRun(each.is_cheat, list(each.findings)) for each in cheats),
        *[LabelledRun(False, [])] * 10,
    ]
    [figures] = threshold_figures(runs)
    assert ("progress.times", 3.0, 3.0) == (figures.setting, figures.in_force, figures.suggested)


def test_nothing_is_suggested_that_no_policy_may_have():
    """An honest run was open a thousand times as long as it was played, which is the highest ratio there is."""

    def slow(value: float) -> list[LabelledFinding]:
        return [found("slow_motion", value, at_most=3.0, reason=Reason.SLOW_MOTION)]

    runs = [
        *(LabelledRun(True, slow(2000.0)) for _ in range(10)),
        *(LabelledRun(False, slow(1000.0)) for _ in range(10)),
    ]
    [figures] = threshold_figures(runs)
    assert (None, 10) == (figures.suggested, figures.recall.hits)
