"""What the gateway would say of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policies.loader import Simulator
from policies.replaying import Budget, Replay
from policies.vocabulary import Claim, SimulatorKind, Verdict
from replay.kit.runs import PlayedRun, RunUnreadable
from replay.recording import Recording, RecordingError, decode
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest, Simulators
from replay.verify import read_recording, request_of, verify

TICKS_LIMIT = 10_000_000
"""The longest run that a policy can allow (policies.replaying.Replay.maximum_ticks)."""
DEFAULT_CHECKPOINT_TICKS = 60

NO_CLAIM = Claim(0, 0)

Timer = Callable[[], float]
"""Seconds of a clock that only goes forward."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A verdict, the outcome it rests on (None where the recording was not simulated), and the seconds that took."""

    verdict: Verdict
    outcome: SimulationOutcome | None
    seconds: float


class TimedSimulators:
    """Simulators that note what came out last, and how long it took."""

    def __init__(self, simulators: Simulators, timer: Timer) -> None:
        self._simulators = simulators
        self._timer = timer
        self.outcome: SimulationOutcome | None = None
        self.seconds = 0.0

    def engine_of(self, kind: SimulatorKind) -> str:
        """Name and version of what runs simulators of this kind."""
        return self._simulators.engine_of(kind)

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """The outcome of the simulators."""
        begun = self._timer()
        self.outcome = self._simulators.simulate(request)
        self.seconds = self._timer() - begun
        return self.outcome


def judge_run(
    run: PlayedRun, replay: Replay, simulator: Simulator, simulators: Simulators, timer: Timer
) -> JudgedRun:
    """The gateway's verdict on the run. One without a claim is held against its own recording alone.

    Raises RunUnreadable for a run without a claim whose recording is none.
    """
    watched = TimedSimulators(simulators, timer)
    claim = run.claim
    if claim is None:
        request = request_for(run, replay, simulator)
        claim = _own_claim(watched.simulate(request), request.ticks, replay.stats)
    verdict = verify(claim, run.recording, run.seed, replay, simulator, watched)
    return JudgedRun(verdict, watched.outcome, watched.seconds)


def _own_claim(outcome: SimulationOutcome, recorded_ticks: int, names: tuple[str, ...]) -> Claim:
    """What the simulation itself would claim, with the ticks of the recording where that says them."""
    if not isinstance(outcome, Simulation):
        return Claim(0, recorded_ticks)
    stats = dict(zip(names, outcome.stats, strict=False))
    return Claim(outcome.score, recorded_ticks or outcome.ticks, stats)


def request_for(run: PlayedRun, replay: Replay, simulator: Simulator) -> SimulationRequest:
    """What simulators are asked of the run. Raises RunUnreadable."""
    try:
        played = read_recording(run.recording, run.claim or NO_CLAIM, replay)
    except RecordingError as error:
        raise RunUnreadable(f"{run.name}: it is no recording: {error}") from None
    return request_of(run.recording, played, run.seed, replay, simulator)


def replay_of(
    run: PlayedRun, budget: Budget, stats: tuple[str, ...], kind: SimulatorKind = SimulatorKind.WASM
) -> Replay:
    """A `replay` section that the run fits, where its board's is not known. Raises RunUnreadable."""
    checkpoint_ticks = _decoded(run).checkpoint_ticks or DEFAULT_CHECKPOINT_TICKS
    return Replay(
        simulator=kind,
        maximum_ticks=TICKS_LIMIT,
        checkpoint_ticks=checkpoint_ticks,
        stats=stats,
        budget=budget,
    )


def _decoded(run: PlayedRun) -> Recording:
    try:
        return decode(run.recording, maximum_ticks=TICKS_LIMIT)
    except RecordingError as error:
        advice = "for a format of the game's own, name the board's --policy"
        raise RunUnreadable(f"{run.name}: it is no recording: {error}; {advice}") from None


def numbered(outcome: SimulationOutcome) -> tuple[str, ...]:
    """Names for statistics that nobody has named: `stat_1`, `stat_2`, ..."""
    count = len(outcome.stats) if isinstance(outcome, Simulation) else 0
    return tuple(f"stat_{number}" for number in range(1, count + 1))
