"""Signals: numbers that say how suspicious a run is to a check.

A check runs with the most sensitive limits that a policy accepts. Its signal is the distance of a finding's
value from the expected range; without a finding there is no signal. Limits on evidence (shortest runs, fewest
presses, fewest scores) stay as the policy has them. A layer is one check and has one or more signals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from policies.model import Policy
from policies.vocabulary import Finding

LEAST: Final = 1e-9
"""Stands for no limit where a policy does not accept 0."""

Signals = Mapping[str, float]
"""Values by the names of signals, `layer: measure`; higher values are more suspicious."""

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
    """Return the policy with limits that find everything, and with these sections changed."""
    document = policy.model_dump()
    for changes in (_OPEN, sections):
        for section, values in changes.items():
            document[section] = document[section] | values
    return Policy.model_validate(document)


def without_replay(policy: Policy) -> Policy:
    """Return the policy as if nothing could be played again, so that moderators decide on everything."""
    return Policy.model_validate(policy.model_dump() | {"replay": None, "writes": "open", "builds": {}})


def signals_of(layer: str, findings: Iterable[Finding]) -> Signals:
    """Return the signals in the findings of one layer."""
    signals: dict[str, float] = {}
    for finding in findings:
        name = f"{layer}: {_measure_of(finding)}"
        signals[name] = max(_distance(finding), signals.get(name, -np.inf))
    return signals


def layer_of(signal: str) -> str:
    """Return the layer of a signal."""
    return signal.split(": ", 1)[0]


def _distance(finding: Finding) -> float:
    """Return the distance of a value from the expected range."""
    low, high = finding.expected.at_least, finding.expected.at_most
    return finding.value - high if high is not None else (low or 0.0) - finding.value


def _measure_of(finding: Finding) -> str:
    """Return what tells signals of one layer apart."""
    # A unit with a number in it belongs to that run alone.
    unit = finding.expected.unit
    return finding.reason.value if any(map(str.isdigit, unit)) else f"{finding.reason.value}, {unit}"
