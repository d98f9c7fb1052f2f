"""Checks whether a simulator is replay-safe: plays each recording in every setting, often, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from policies.loader import Simulator
from policies.replaying import Budget, Replay
from policies.vocabulary import Reason, Verdict, VerdictKind
from replay.kit.costs import Cost, Costs, costs_of, proposed
from replay.kit.differences import ResultDifference, first_difference
from replay.kit.engine_settings import PROGRAM_SETTINGS, SETTINGS, Setting, command_of
from replay.kit.remarks import Remark, Weight
from replay.kit.runs import PlayedRun
from replay.kit.verdict import TimedSimulators, Timer, judge_run, request_for
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest, SimulatorFault, Simulators
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.process import ProcessSimulators
from replay.simulators.sandbox import Sandbox

GENEROUS: Final = Budget(fuel=10**13, memory_mib=1024, wall_ms=60_000)
"""The budget of a run while its cost is measured."""

SAME: Final = Setting("again", "in the same process, in a fresh instance: its result is random")
FRESH: Final = Setting("fresh-process", "in a fresh process")
LESS_MEMORY: Final = Setting(
    "memory-limit", "where growing its memory is refused: it goes on with a different result"
)

Opener = Callable[[Setting | None], AbstractContextManager[Simulators]]
"""Opens simulators under a setting, in their own process; None opens those that judge."""

Tell = Callable[[], object]
"""Is called after each simulation."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run, and the `replay` section that it is judged by."""

    run: PlayedRun
    replay: Replay


@dataclass(frozen=True, slots=True)
class RunReport:
    """The results of one run: verdict, differences between settings, untried settings, and cost."""

    name: str
    verdict: Verdict
    differences: tuple[ResultDifference, ...] = ()
    untried: tuple[str, ...] = ()
    cost: Cost | None = None
    memory_mib: int = 1


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all runs, with remarks on the module.

    `budget` are the limits to set, `settings` the names of the settings that were tried.
    """

    remarks: tuple[Remark, ...]
    runs: tuple[RunReport, ...]
    costs: Costs | None
    budget: Budget | None
    settings: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Return whether every recording was verified, and no setting made any of them differ."""
        return (
            bool(self.runs)
            and all(remark.weight is not Weight.UNUSABLE for remark in self.remarks)
            and all(run.verdict.kind is VerdictKind.VERIFIED and not run.differences for run in self.runs)
        )


class Checker:
    """Checks one simulator. `repeats` is how often the judging setting plays each run."""

    def __init__(
        self,
        simulator: Simulator,
        opener: Opener,
        timer: Timer,
        *,
        settings: Sequence[Setting] = SETTINGS,
        repeats: int = 5,
        tell: Tell = lambda: None,
    ) -> None:
        self._simulator = simulator
        self._opener = opener
        self._timer = timer
        self._settings = settings
        self._repeats = repeats
        self._tell = tell

    def check(
        self,
        prepared: Sequence[PreparedRun],
        remarks: tuple[Remark, ...],
        *,
        memory_mib: tuple[int, int] | None,
        margin: float,
        maximum_ticks: int | None,
    ) -> CheckReport:
        """Return the results of the runs. `memory_mib`: a module's initial and largest memory, if it has any.

        Raises SandboxUnavailable, and RunUnreadable for a run without a claim and without a readable
        recording.
        """
        with self._opener(None) as judging:
            trials = [self._trial(run, judging, memory_mib) for run in prepared]
        for trial in trials:
            with self._opener(None) as other:  # one process each, since it must have played nothing before
                trial.try_under(FRESH, other, self._tell)
        for setting in self._settings:
            with self._opener(setting) as other:
                for trial in trials:
                    trial.try_under(setting, other, self._tell)
        runs = tuple(trial.checked for trial in trials)
        costs = [run.cost for run in runs if run.cost]
        tried = tuple(setting.name for setting in self._settings)
        if not costs:
            return CheckReport(remarks, runs, None, None, tried)
        memory = max(run.memory_mib for run in runs)
        budget = proposed(costs, memory, margin, maximum_ticks)
        return CheckReport(remarks, runs, costs_of(costs, memory), budget, tried)

    def _trial(
        self, prepared: PreparedRun, judging: Simulators, memory_mib: tuple[int, int] | None
    ) -> RunTrial:
        verdict = judge_run(prepared.run, prepared.replay, self._simulator, judging, self._timer).verdict
        self._tell()
        trial = RunTrial(prepared.run.name, verdict)
        if verdict.reason in {Reason.RECORDING_MALFORMED, Reason.RECORDING_MISSING}:
            return trial
        watched = TimedSimulators(judging, self._timer)
        generous = prepared.replay.model_copy(update={"budget": GENEROUS})
        request = request_for(prepared.run, generous, self._simulator)
        trial.begin(request, watched, self._repeats, self._tell, prepared.replay.budget.memory_mib)
        if memory_mib:
            trial.find_memory(watched, *memory_mib)
        return trial


class RunTrial:
    """One run on its way through the settings."""

    def __init__(self, name: str, verdict: Verdict) -> None:
        self.checked = RunReport(name, verdict)
        self._request: SimulationRequest | None = None
        self._expected: SimulationOutcome | None = None

    def begin(
        self, request: SimulationRequest, watched: TimedSimulators, repeats: int, tell: Tell, memory_mib: int
    ) -> None:
        """Play the run a few times as it is judged. Its first result is what all others are compared with."""
        expected = watched.simulate(request)
        if not isinstance(expected, Simulation):
            return
        self._request, self._expected = request, expected
        seconds = []
        for _ in range(repeats):
            outcome = watched.simulate(request)
            seconds.append(watched.seconds)
            self._compare(SAME, outcome)
            if isinstance(outcome, Simulation) and outcome.fuel != expected.fuel:
                self._differs(SAME, ("fuel", str(expected.fuel), str(outcome.fuel)))
            tell()
        cost = Cost(expected.ticks, expected.fuel, tuple(seconds))
        self.checked = replace(self.checked, cost=cost, memory_mib=memory_mib)

    def try_under(self, setting: Setting, simulators: Simulators, tell: Tell) -> None:
        """Play the run under a setting; a native program gets a process of its own."""
        if self._request is not None:
            self._compare(setting, simulators.simulate(replace(self._request, runs_per_process=1)))
        tell()

    def find_memory(self, watched: TimedSimulators, least_mib: int, most_mib: int) -> None:
        """Find the smallest memory limit between the two that gives the same result."""
        if self._request is None:
            return
        while least_mib < most_mib:
            middle = (least_mib + most_mib) // 2
            budget = self._request.budget.model_copy(update={"memory_mib": middle})
            outcome = watched.simulate(replace(self._request, budget=budget))
            if isinstance(outcome, Simulation) and not self._difference(LESS_MEMORY, outcome):
                most_mib = middle
            else:
                if isinstance(outcome, Simulation):
                    self._compare(LESS_MEMORY, outcome)
                least_mib = middle + 1
        self.checked = replace(self.checked, memory_mib=most_mib)

    def _compare(self, setting: Setting, outcome: SimulationOutcome) -> None:
        if isinstance(outcome, SimulatorFault) and setting in SETTINGS and _is_untried(outcome):
            self.checked = replace(self.checked, untried=(*self.checked.untried, setting.name))
            return
        difference = self._difference(setting, outcome)
        if difference:
            self._differs(setting, difference)

    def _difference(self, setting: Setting, outcome: SimulationOutcome) -> tuple[str, str, str] | None:
        assert self._request is not None
        assert self._expected is not None
        every = self._request.checkpoint_ticks
        return first_difference(self._expected, outcome, every, has_stats=setting.has_stats)

    def _differs(self, setting: Setting, difference: tuple[str, str, str]) -> None:
        known = self.checked.differences
        if all(earlier.setting != setting.name for earlier in known):
            new = ResultDifference(self.checked.name, setting.name, *difference)
            self.checked = replace(self.checked, differences=(*known, new))


def _is_untried(fault: SimulatorFault) -> bool:
    """Return whether a setting could not be tried: it was too slow, or the engine cannot compile so."""
    return fault.reason in {Reason.TIMED_OUT, Reason.SIMULATOR_UNUSABLE}


def open_simulators(setting: Setting | None) -> AbstractContextManager[Simulators]:
    """Return the simulators that judge, or those of modules or programs under a setting."""
    if setting and setting.variables:
        return ProcessSimulators(variables=setting.variables)
    return Sandbox(command=command_of(setting)) if setting in SETTINGS else AllSimulators()


def simulations(runs: int, repeats: int, settings: int) -> int:
    """Return how many simulations a check reports to `Tell`."""
    return runs * (1 + repeats + 1 + settings)


def meanings(checked: CheckReport) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of each setting that made a difference, once."""
    settings = (SAME, FRESH, LESS_MEMORY, *SETTINGS, *PROGRAM_SETTINGS)
    meaning_of = {setting.name: setting.meaning for setting in settings}
    names = dict.fromkeys(difference.setting for run in checked.runs for difference in run.differences)
    for name in names:
        yield name, meaning_of[name]
