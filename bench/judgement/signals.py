"""How suspicious a run is to a check, as a number: what thresholds are set on.

A check runs with the most sensitive limits that a policy takes. By how much the value of its finding lies outside of what it
expects is the signal; where it finds nothing, there is none. What says how much evidence a check needs (shortest runs,
fewest presses, fewest scores) stays as the policy has it. A layer is one check; it gives one or more signals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from policies.model import Policy
from policies.vocabulary import Finding

LEAST: Final = 1e-9
"""Stands for no limit where a policy takes none of 0."""

Signals = Mapping[str, float]
"""Values by the names of signals, `layer: what is measured`; more is more suspicious."""

_OPEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "velocity": {"points_per_second": LEAST},
    "slow_motion": {"ratio": 1.0 + LEAST},
    "delay": {"most_s": 0.0},
    "abandonment": {"least_share": 1.0},
    "anomaly": {"threshold": LEAST},
    "progress": {"times": 1.0},
    "forensics": {
        "interval_variation": 1.0,
        "press_variation": 1.0,
        "interval_entropy_bits": 16.0,
        "periodicity": LEAST,
        "frame_perfect_share": LEAST,
        "presses_per_second": LEAST,
        "slow_motion_presses_per_second": LEAST,
        "correlation": LEAST,
    },
}


def sensitive(policy: Policy, **sections: Mapping[str, Any]) -> Policy:
    """The policy with limits beyond which everything is found, and with these sections changed besides."""
    given = policy.model_dump()
    for changes in (_OPEN, sections):
        for section, values in changes.items():
            given[section] = given[section] | values
    return Policy.model_validate(given)


def without_replay(policy: Policy) -> Policy:
    """The policy of the board as it would be if nothing could be played again: all goes through moderators."""
    return Policy.model_validate(policy.model_dump() | {"replay": None, "writes": "open", "builds": {}})


def signals_of(layer: str, findings: Iterable[Finding]) -> Signals:
    """The signals in the findings of one layer."""
    signals: dict[str, float] = {}
    for each in findings:
        name = f"{layer}: {_measured(each)}"
        signals[name] = max(_outside(each), signals.get(name, -np.inf))
    return signals


def layer_of(signal: str) -> str:
    """The layer that a signal is of."""
    return signal.split(": ", 1)[0]


def _outside(finding: Finding) -> float:
    """How far a value lies outside of what is expected."""
    low, high = finding.expected.at_least, finding.expected.at_most
    return finding.value - high if high is not None else (low or 0.0) - finding.value


def _measured(finding: Finding) -> str:
    """What tells signals of one layer apart; a number in a unit is of that run alone."""
    unit = finding.expected.unit
    return finding.reason.value if any(map(str.isdigit, unit)) else f"{finding.reason.value}, {unit}"
