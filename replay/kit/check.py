"""Whether a simulator is replay-safe: each recording many times, in every setting, always with the same answer."""

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
"""What a run may cost while it is measured."""

SAME: Final = Setting("again", "in the same process, in a fresh instance: it answers as it likes")
FRESH: Final = Setting("fresh-process", "in a fresh process")
LESS_MEMORY: Final = Setting(
    "memory-limit", "where growing its memory is refused: it goes on, and gives another answer"
)

Opener = Callable[[Setting | None], AbstractContextManager[Simulators]]
"""Simulators under a setting, in a process of their own; None: those that judge."""

Tell = Callable[[], object]
"""Hears of each simulation that was made."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run, and the `replay` section that it is judged by."""

    run: PlayedRun
    replay: Replay


@dataclass(frozen=True, slots=True)
class RunReport:
    """What came of one run: the gateway's verdict, where it went another way, what could not be tried, and its cost."""

    name: str
    verdict: Verdict
    differences: tuple[ResultDifference, ...] = ()
    untried: tuple[str, ...] = ()
    cost: Cost | None = None
    memory_mib: int = 1


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What came of all runs, with what was remarked of the module.

    `budget` are the limits to set, `settings` the names of those that were tried.
    """

    remarks: tuple[Remark, ...]
    runs: tuple[RunReport, ...]
    costs: Costs | None
    budget: Budget | None
    settings: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Whether honest runs are always verified: every recording was, and nothing made any of them answer otherwise."""
        return (
            bool(self.runs)
            and all(each.weight is not Weight.UNUSABLE for each in self.remarks)
            and all(each.verdict.kind is VerdictKind.VERIFIED and not each.differences for each in self.runs)
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
        """What comes of the runs. `memory_mib` is what a module begins with and the most it can have, if it has memory.

        Raises SandboxUnavailable, and RunUnreadable for a run without a claim whose recording is none.
        """
        with self._opener(None) as judging:
            trials = [self._trial(each, judging, memory_mib) for each in prepared]
        for trial in trials:
            with self._opener(None) as other:  # one for each, or it would know the runs before
                trial.try_under(FRESH, other, self._tell)
        for setting in self._settings:
            with self._opener(setting) as other:
                for trial in trials:
                    trial.try_under(setting, other, self._tell)
        runs = tuple(trial.checked for trial in trials)
        costs = [each.cost for each in runs if each.cost]
        tried = tuple(each.name for each in self._settings)
        if not costs:
            return CheckReport(remarks, runs, None, None, tried)
        memory = max(each.memory_mib for each in runs)
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
        """Plays the run a few times as it is judged: the first answer is the one that all others are held against."""
        expected = watched.simulate(request)
        if not isinstance(expected, Simulation):
            return
        self._request, self._expected = request, expected
        seconds = []
        for _ in range(repeats):
            found = watched.simulate(request)
            seconds.append(watched.seconds)
            self._compare(SAME, found)
            if isinstance(found, Simulation) and found.fuel != expected.fuel:
                self._differs(SAME, ("fuel", str(expected.fuel), str(found.fuel)))
            tell()
        cost = Cost(expected.ticks, expected.fuel, tuple(seconds))
        self.checked = replace(self.checked, cost=cost, memory_mib=memory_mib)

    def try_under(self, setting: Setting, simulators: Simulators, tell: Tell) -> None:
        """Plays the run under a setting, in a program's process of its own."""
        if self._request is not None:
            self._compare(setting, simulators.simulate(replace(self._request, runs_per_process=1)))
        tell()

    def find_memory(self, watched: TimedSimulators, least_mib: int, most_mib: int) -> None:
        """Finds the smallest limit of memory under which the answer is the same, between both."""
        if self._request is None:
            return
        while least_mib < most_mib:
            middle = (least_mib + most_mib) // 2
            budget = self._request.budget.model_copy(update={"memory_mib": middle})
            found = watched.simulate(replace(self._request, budget=budget))
            if isinstance(found, Simulation) and not self._difference(LESS_MEMORY, found):
                most_mib = middle
            else:
                if isinstance(found, Simulation):
                    self._compare(LESS_MEMORY, found)
                least_mib = middle + 1
        self.checked = replace(self.checked, memory_mib=most_mib)

    def _compare(self, setting: Setting, found: SimulationOutcome) -> None:
        if isinstance(found, SimulatorFault) and setting in SETTINGS and _is_untried(found):
            self.checked = replace(self.checked, untried=(*self.checked.untried, setting.name))
            return
        difference = self._difference(setting, found)
        if difference:
            self._differs(setting, difference)

    def _difference(self, setting: Setting, found: SimulationOutcome) -> tuple[str, str, str] | None:
        assert self._request is not None
        assert self._expected is not None
        every = self._request.checkpoint_ticks
        return first_difference(self._expected, found, every, has_stats=setting.has_stats)

    def _differs(self, setting: Setting, difference: tuple[str, str, str]) -> None:
        found = ResultDifference(self.checked.name, setting.name, *difference)
        if all(each.setting != setting.name for each in self.checked.differences):
            self.checked = replace(self.checked, differences=(*self.checked.differences, found))


def _is_untried(fault: SimulatorFault) -> bool:
    """Whether a setting could not be tried: too slow for it, or the engine cannot compile the module so."""
    return fault.reason in {Reason.TIMED_OUT, Reason.SIMULATOR_UNUSABLE}


def open_simulators(setting: Setting | None) -> AbstractContextManager[Simulators]:
    """The simulators that judge, or those of modules or programs under a setting."""
    if setting and setting.variables:
        return ProcessSimulators(variables=setting.variables)
    return Sandbox(command=command_of(setting)) if setting in SETTINGS else AllSimulators()


def simulations(runs: int, repeats: int, settings: int) -> int:
    """How many simulations a check tells of."""
    return runs * (1 + repeats + 1 + settings)


def meanings(checked: CheckReport) -> Iterator[tuple[str, str]]:
    """Name and meaning of each setting that made a difference, once."""
    named = {each.name: each.meaning for each in (SAME, FRESH, LESS_MEMORY, *SETTINGS, *PROGRAM_SETTINGS)}
    found = dict.fromkeys(each.setting for run in checked.runs for each in run.differences)
    for name in found:
        yield name, named[name]
