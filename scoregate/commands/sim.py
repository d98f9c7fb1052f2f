"""`scoregate sim`: get the verdict on one recording, or check with many that a simulator is deterministic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policies.errors import PolicyError, SettingsError
from policies.vocabulary import Claim, SimulatorKind, VerdictKind
from scoregate.commands.common import console, error_console, fail, showing_progress

if TYPE_CHECKING:
    from rich.console import Console

    from policies.loader import Simulator
    from policies.replaying import Budget, Replay
    from replay.kit.check import CheckReport, PreparedRun
    from replay.kit.runs import PlayedRun
    from replay.kit.verdict import JudgedRun
    from replay.simulators import Simulation, Simulators

app = typer.Typer(no_args_is_help=True)

Module = Annotated[Path, typer.Argument(metavar="MODULE", help="The simulator.")]
Seed = Annotated[
    int | None, typer.Option(help="The seed of the run's ticket; a JSON file of a run has it already.")
]
Kind = Annotated[
    SimulatorKind | None, typer.Option(help="The kind of simulator, if its file's suffix does not tell.")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="A board's policy file: its statistics, ticks and budget.")
]
ParametersFile = Annotated[
    Path | None, typer.Option("--parameters", help="The parameters of the run's board, in JSON.")
]
AssetFile = Annotated[Path | None, typer.Option("--asset", help="The asset of the run's board.")]
Recordings = Annotated[list[Path], typer.Argument(help="Recordings, or JSON files of runs.")]
Repeats = Annotated[
    int, typer.Option(min=1, max=1000, help="How many times the judging setting plays each run.")
]
Margin = Annotated[
    float, typer.Option(min=1, max=1000, help="The limits, as a multiple of the worst run's cost.")
]
MaximumTicks = Annotated[
    int | None, typer.Option(min=1, help="The longest run that the limits are for; by default the policy's.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    """The claim on the command line; None and () stand for parts that it leaves out."""

    score: int | None = None
    ticks: int | None = None
    stats: tuple[int, ...] = ()

    def over(self, run: PlayedRun, simulation: Simulation | None, names: Sequence[str]) -> Claim | None:
        """Return the run's claim, or else the simulation's result as one, with these parts replaced."""
        if self == ClaimOptions():
            return run.claim
        own = run.claim
        if own is None and simulation is not None:
            stats = dict(zip(names, simulation.stats, strict=False))
            own = Claim(simulation.score, simulation.ticks, stats)
        own = own or Claim(0, 0)
        return Claim(
            own.score if self.score is None else self.score,
            own.ticks if self.ticks is None else self.ticks,
            dict(zip(names, self.stats, strict=False)) if self.stats else own.stats,
        )


@dataclass(frozen=True, slots=True)
class SimulatorChoice:
    """A simulator by itself, or with its files and the `replay` section of the board that names it."""

    simulator: Simulator
    kind: SimulatorKind
    section: Replay | None = None


@dataclass(frozen=True, slots=True)
class Thoroughness:
    """Repeats of each run under the judging setting, and the limits as `margin` times the worst run's cost.

    The limits are for runs of `maximum_ticks`; None stands for the policy's, or else the longest run here.
    """

    repeats: int
    margin: float
    maximum_ticks: int | None


@app.command("run")
def sim_run(
    module: Module,
    recording: Path,
    kind: Kind = None,
    seed: Seed = None,
    score: Annotated[int | None, typer.Option(help="The claimed score.")] = None,
    ticks: Annotated[int | None, typer.Option(help="The claimed ticks.")] = None,
    stats: Annotated[
        str | None, typer.Option(help="The claimed statistics, in the simulator's order: 12,3,4.")
    ] = None,
    policy: PolicyFile = None,
    parameters: ParametersFile = None,
    asset: AssetFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the verdict on one recording. Status 0 if it is verified, 1 if not, 2 if that cannot be told."""
    import orjson

    from scoregate.sim_report import verdict_as_dict, verdict_lines

    claim = ClaimOptions(score, ticks, _numbers(stats))
    choice = choose_simulator(module, kind, policy)
    [run] = _read_runs([recording], seed, parameters, asset)
    judged = _judge(choice, run, claim)
    if as_json:
        typer.echo(orjson.dumps(verdict_as_dict(judged)))
    else:
        for line in verdict_lines(judged):
            typer.echo(line)
    if judged.verdict.kind is not VerdictKind.VERIFIED:
        raise typer.Exit(1)


@app.command("check")
def sim_check(
    module: Module,
    recordings: Recordings,
    kind: Kind = None,
    seed: Seed = None,
    policy: PolicyFile = None,
    parameters: ParametersFile = None,
    asset: AssetFile = None,
    repeats: Repeats = 5,
    margin: Margin = 4.0,
    maximum_ticks: MaximumTicks = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a simulator is replay-safe, and what limits to set.

    Status 0 if it is, 1 if not, 2 for an error.
    """
    from scoregate.sim_report import checked_as_json, checked_lines

    screen = error_console() if as_json else console()
    thoroughness = Thoroughness(repeats, margin, maximum_ticks)
    choice = choose_simulator(module, kind, policy)
    runs = _read_runs(recordings, seed, parameters, asset)
    checked = _check(choice, runs, screen, thoroughness)
    for line in [checked_as_json(checked)] if as_json else checked_lines(checked):
        typer.echo(line)
    if not checked.is_safe:
        raise typer.Exit(1)


def _numbers(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(","))) if text else ()
    except ValueError:
        fail(f"--stats: expected whole numbers as 12,3,4, got {text!r}")


def choose_simulator(path: Path, kind: SimulatorKind | None, policy: Path | None) -> SimulatorChoice:
    """Return the simulator in a file. Without `kind` it is of the board's kind, or else of its suffix'.

    Raises SettingsError and PolicyError.
    """
    from policies.digests import sha256_of, simulator_digest
    from policies.loader import Simulator, load_board
    from scoregate.policy_file import kind_of

    try:
        simulator = Simulator(simulator_digest(sha256_of(path), {}), path.resolve())
    except OSError as error:
        raise SettingsError(f"{path}: expected a simulator: {error.strerror}") from None
    if policy is None:
        return SimulatorChoice(simulator, kind or kind_of(path))
    board = load_board(policy)
    section = board.policy.replay
    if section is None:
        raise PolicyError(f"{policy}: the board has no `replay` section")
    of_board = (own for own in board.simulators.values() if own.path == simulator.path)
    return SimulatorChoice(next(of_board, simulator), kind or section.simulator, section)


def _read_runs(
    recordings: Sequence[Path], seed: int | None, parameters: Path | None, asset: Path | None
) -> list[PlayedRun]:
    """Return the runs in files, all on a board with this content. Raises RunUnreadable."""
    from replay.kit.runs import read_content, read_run

    content = read_content(parameters, asset)
    return [read_run(recording, seed, content) for recording in recordings]


def _judge(choice: SimulatorChoice, run: PlayedRun, claim: ClaimOptions) -> JudgedRun:
    """Return the gateway's verdict on one run. Raises RunUnreadable."""
    from policies.replaying import Budget
    from replay.kit.verdict import judge_run, request_for
    from replay.simulators import Simulation
    from replay.simulators.all_simulators import AllSimulators

    with AllSimulators() as simulators:
        prepared = _prepared(run, choice, simulators, Budget())
        outcome = simulators.simulate(request_for(run, prepared.replay, choice.simulator))
        simulation = outcome if isinstance(outcome, Simulation) else None
        run = replace(run, claim=claim.over(run, simulation, prepared.replay.stats))
        return judge_run(run, prepared.replay, choice.simulator, simulators, time.perf_counter)


def _prepared(run: PlayedRun, choice: SimulatorChoice, simulators: Simulators, budget: Budget) -> PreparedRun:
    """Return the run with the board's section, or with one that fits the run.

    The latter names statistics as the claim does, or numbers them.
    """
    from replay.kit.check import PreparedRun
    from replay.kit.verdict import numbered, replay_of, request_for

    if choice.section is not None:
        return PreparedRun(run, choice.section)
    names = tuple(run.claim.stats) if run.claim else ()
    fitting = replay_of(run, budget, names, choice.kind)
    if not names:
        outcome = simulators.simulate(request_for(run, fitting, choice.simulator))
        fitting = fitting.model_copy(update={"stats": numbered(outcome)})
    return PreparedRun(run, fitting)


def _check(
    choice: SimulatorChoice, runs: Sequence[PlayedRun], screen: Console, thoroughness: Thoroughness
) -> CheckReport:
    """Return everything that the kit finds out about a simulator. Raises RunUnreadable and SettingsError."""
    from replay.kit.check import GENEROUS, Checker, CheckReport, open_simulators, simulations
    from replay.kit.engine_settings import settings_of
    from replay.kit.remarks import Weight, memory_mib, remarks_on
    from replay.simulators.all_simulators import AllSimulators

    module = choice.simulator.path.read_bytes() if choice.kind is SimulatorKind.WASM else None
    remarks = remarks_on(module) if module is not None else ()
    if any(remark.weight is Weight.UNUSABLE for remark in remarks):
        return CheckReport(remarks, (), None, None)
    with AllSimulators() as simulators:
        prepared = [_prepared(run, choice, simulators, GENEROUS) for run in runs]
    memory = memory_mib(module, GENEROUS.memory_mib) if module is not None else None
    settings, repeats = settings_of(choice.kind), thoroughness.repeats
    with showing_progress(screen, "simulations", simulations(len(runs), repeats, len(settings))) as advance:
        parts = (choice.simulator, open_simulators, time.perf_counter)
        checker = Checker(*parts, settings=settings, repeats=repeats, tell=lambda: advance(1))
        of_board = choice.section.maximum_ticks if choice.section else None
        return checker.check(
            prepared,
            remarks,
            memory_mib=memory,
            margin=thoroughness.margin,
            maximum_ticks=thoroughness.maximum_ticks or of_board,
        )
