"""Describes the differences between two simulations of the same run."""

from __future__ import annotations

from dataclasses import dataclass

from replay.simulators import MalformedRecording, Simulation, SimulationOutcome, SimulatorFault


@dataclass(frozen=True, slots=True)
class ResultDifference:
    """A run with a different result under a setting: the first value that differs, expected and found."""

    run: str
    setting: str
    what: str
    expected: str
    found: str


def first_difference(
    expected: SimulationOutcome, found: SimulationOutcome, checkpoint_ticks: int, *, has_stats: bool = True
) -> tuple[str, str, str] | None:
    """Return the first difference as (name, expected, found); None if there is none. Fuel is ignored."""
    if not (isinstance(expected, Simulation) and isinstance(found, Simulation)):
        same = described(expected) == described(found)
        return None if same else ("outcome", described(expected), described(found))
    for number, (one, other) in enumerate(zip(expected.checkpoints, found.checkpoints, strict=False), 1):
        if one != other:
            return f"state hash after tick {number * checkpoint_ticks}", f"{one:016x}", f"{other:016x}"
    pairs = {
        "ticks": (expected.ticks, found.ticks),
        "end of the run": (expected.is_over, found.is_over),
        "score": (expected.score, found.score),
        "statistics": (expected.stats, found.stats if has_stats else expected.stats),
        "state hash at the end": (f"{expected.state_hash:016x}", f"{found.state_hash:016x}"),
    }
    return next(((what, str(one), str(other)) for what, (one, other) in pairs.items() if one != other), None)


def described(outcome: SimulationOutcome) -> str:
    """Return an outcome in a few words."""
    if isinstance(outcome, SimulatorFault):
        numbers = " ".join(f"{name}={value}" for name, value in outcome.detail.items() if name != "fuel")
        return f"{outcome.reason.value} {numbers}".rstrip()
    if isinstance(outcome, MalformedRecording):
        return "recording-malformed"
    return f"a score of {outcome.score} after {outcome.ticks} ticks"
