"""The gateway's verdict on one run."""

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
"""Returns the seconds of a monotonic clock."""


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A verdict, the outcome behind it (None if nothing was simulated), and the seconds that it took."""

    verdict: Verdict
    outcome: SimulationOutcome | None
    seconds: float


class TimedSimulators:
    """Simulators that note the last outcome, and how long it took."""

    def __init__(self, simulators: Simulators, timer: Timer) -> None:
        self._simulators = simulators
        self._timer = timer
        self.outcome: SimulationOutcome | None = None
        self.seconds = 0.0

    def engine_of(self, kind: SimulatorKind) -> str:
        """Return name and version of the engine for this kind."""
        return self._simulators.engine_of(kind)

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """Return the outcome of the simulators."""
        start = self._timer()
        self.outcome = self._simulators.simulate(request)
        self.seconds = self._timer() - start
        return self.outcome


def judge_run(
    run: PlayedRun, replay: Replay, simulator: Simulator, simulators: Simulators, timer: Timer
) -> JudgedRun:
    """Return the gateway's verdict on the run. Without a claim it is compared with its own recording alone.

    Raises RunUnreadable for a run without a claim whose recording cannot be read.
    """
    timed = TimedSimulators(simulators, timer)
    claim = run.claim
    if claim is None:
        request = request_for(run, replay, simulator)
        claim = _own_claim(timed.simulate(request), request.ticks, replay.stats)
    verdict = verify(claim, run.recording, run.seed, replay, simulator, timed, run.content)
    return JudgedRun(verdict, timed.outcome, timed.seconds)


def _own_claim(outcome: SimulationOutcome, recorded_ticks: int, names: tuple[str, ...]) -> Claim:
    """Return the claim that the simulation itself would make, with the recording's ticks if it has them."""
    if not isinstance(outcome, Simulation):
        return Claim(0, recorded_ticks)
    stats = dict(zip(names, outcome.stats, strict=False))
    return Claim(outcome.score, recorded_ticks or outcome.ticks, stats)


def request_for(run: PlayedRun, replay: Replay, simulator: Simulator) -> SimulationRequest:
    """Return the request to simulate the run. Raises RunUnreadable."""
    try:
        played = read_recording(run.recording, run.claim or NO_CLAIM, replay)
    except RecordingError as error:
        raise RunUnreadable(f"{run.name}: not a recording: {error}") from None
    return request_of(run.recording, played, run.seed, replay, simulator, run.content)


def replay_of(
    run: PlayedRun, budget: Budget, stats: tuple[str, ...], kind: SimulatorKind = SimulatorKind.WASM
) -> Replay:
    """Return a `replay` section that fits the run if its board's is unknown. Raises RunUnreadable."""
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
        raise RunUnreadable(f"{run.name}: not a recording: {error}; {advice}") from None


def numbered(outcome: SimulationOutcome) -> tuple[str, ...]:
    """Return names for statistics without names: `stat_1`, `stat_2`, ..."""
    count = len(outcome.stats) if isinstance(outcome, Simulation) else 0
    return tuple(f"stat_{number}" for number in range(1, count + 1))
