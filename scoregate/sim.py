"""Trying simulators from the command line: one verdict, or the determinism kit over many recordings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from policies.digests import sha256_of, simulator_digest
from policies.errors import PolicyError, SettingsError
from policies.loader import Simulator, load_board
from policies.replaying import Budget, Replay
from policies.vocabulary import Claim, SimulatorKind, VerdictKind
from replay.kit.causes import cause_of
from replay.kit.check import (
    GENEROUS,
    Checker,
    CheckReport,
    PreparedRun,
    RunReport,
    Tell,
    meanings,
    open_simulators,
    simulations,
)
from replay.kit.engine_settings import settings_of
from replay.kit.remarks import Remark, Weight, memory_mib, remarks_on
from replay.kit.runs import PlayedRun, read_run
from replay.kit.verdict import JudgedRun, judge_run, numbered, replay_of, request_for
from replay.simulators import Simulation, SimulatorFault, Simulators
from replay.simulators.all_simulators import AllSimulators
from scoregate.policy_file import KINDS


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the command line says of a claim; None and () where it says nothing."""

    score: int | None = None
    ticks: int | None = None
    stats: tuple[int, ...] = ()

    def over(self, run: PlayedRun, found: Simulation | None, names: Sequence[str]) -> Claim | None:
        """The run's claim with this over it; what neither says is what the simulation found."""
        if self == Claimed():
            return run.claim
        own = run.claim
        if own is None and found is not None:
            own = Claim(found.score, found.ticks, dict(zip(names, found.stats, strict=False)))
        own = own or Claim(0, 0)
        return Claim(
            own.score if self.score is None else self.score,
            own.ticks if self.ticks is None else self.ticks,
            dict(zip(names, self.stats, strict=False)) if self.stats else own.stats,
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """A simulator on its own, or as a board has it: with its files, and the board's `replay` section."""

    simulator: Simulator
    kind: SimulatorKind
    section: Replay | None = None


def tried(path: Path, kind: SimulatorKind | None, policy: Path | None) -> Tried:
    """The simulator in a file. Its kind is that of the board, or else told by the file's suffix.

    Raises SettingsError and PolicyError.
    """
    try:
        simulator = Simulator(simulator_digest(sha256_of(path), {}), path.resolve())
    except OSError as error:
        raise SettingsError(f"{path}: expected a simulator: {error.strerror}") from None
    if policy is None:
        return Tried(simulator, kind or KINDS.get(path.suffix, SimulatorKind.PROCESS))
    board = load_board(policy)
    section = board.policy.replay
    if section is None:
        raise PolicyError(f"{policy}: the board has no `replay` section")
    of_board = (each for each in board.simulators.values() if each.path == simulator.path)
    return Tried(next(of_board, simulator), kind or section.simulator, section)


def run_one(
    path: Path,
    recording: Path,
    *,
    kind: SimulatorKind | None,
    seed: int | None,
    claimed: Claimed,
    policy: Path | None,
) -> JudgedRun:
    """The gateway's verdict on one recording. Raises RunUnreadable, SettingsError and PolicyError."""
    chosen, run = tried(path, kind, policy), read_run(recording, seed)
    with AllSimulators() as simulators:
        prepared = _prepared(run, chosen, simulators, Budget())
        outcome = simulators.simulate(request_for(run, prepared.replay, chosen.simulator))
        found = outcome if isinstance(outcome, Simulation) else None
        run = replace(run, claim=claimed.over(run, found, prepared.replay.stats))
        return judge_run(run, prepared.replay, chosen.simulator, simulators, time.perf_counter)


def _prepared(run: PlayedRun, chosen: Tried, simulators: Simulators, budget: Budget) -> PreparedRun:
    """The run with the board's section, or with one that fits it, whose statistics are named by the claim or by number."""
    if chosen.section is not None:
        return PreparedRun(run, chosen.section)
    names = tuple(run.claim.stats) if run.claim else ()
    fitting = replay_of(run, budget, names, chosen.kind)
    if not names:
        outcome = simulators.simulate(request_for(run, fitting, chosen.simulator))
        fitting = fitting.model_copy(update={"stats": numbered(outcome)})
    return PreparedRun(run, fitting)


@dataclass(frozen=True, slots=True)
class Thoroughness:
    """How often the judging setting plays each run, and how the limits follow: `margin` times the worst run's cost.

    They are for runs of `maximum_ticks`; None: the policy's, or the longest of these runs.
    """

    repeats: int
    margin: float
    maximum_ticks: int | None


def check_all(
    chosen: Tried, recordings: Sequence[Path], console: Console, *, seed: int | None, wanted: Thoroughness
) -> CheckReport:
    """Everything that the kit finds out about a simulator. Raises RunUnreadable and SettingsError."""
    runs = [read_run(each, seed) for each in recordings]
    module = chosen.simulator.path.read_bytes() if chosen.kind is SimulatorKind.WASM else None
    remarks = remarks_on(module) if module is not None else ()
    if any(each.weight is Weight.UNUSABLE for each in remarks):
        return CheckReport(remarks, (), None, None)
    with AllSimulators() as simulators:
        prepared = [_prepared(run, chosen, simulators, GENEROUS) for run in runs]
    memory = memory_mib(module, GENEROUS.memory_mib) if module is not None else None
    settings = settings_of(chosen.kind)
    with _progress(console, simulations(len(runs), wanted.repeats, len(settings))) as tell:
        parts = (chosen.simulator, open_simulators, time.perf_counter)
        checker = Checker(*parts, settings=settings, repeats=wanted.repeats, tell=tell)
        of_board = chosen.section.maximum_ticks if chosen.section else None
        longest = wanted.maximum_ticks or of_board
        return checker.check(
            prepared, remarks, memory_mib=memory, margin=wanted.margin, maximum_ticks=longest
        )


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Tell]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulations", total=total)
        yield lambda: progress.advance(task)


def verdict_as_dict(judged: JudgedRun) -> dict[str, Any]:
    """A verdict for machines: hashes as 16 hex digits, time in milliseconds."""
    verdict, outcome = judged.verdict, judged.outcome
    found: dict[str, Any] = {
        "verdict": verdict.kind.value,
        "reason": verdict.reason.value,
        "meaning": verdict.reason.meaning,
        "simulator": verdict.simulator,
        "engine": verdict.engine,
        "detail": dict(verdict.detail),
        "divergence": verdict.divergence and verdict.divergence.as_dict(),
        "said": judged.outcome.said if isinstance(judged.outcome, SimulatorFault) else "",
        "simulation": None,
        "wall_ms": round(judged.seconds * 1000, 3),
    }
    if isinstance(outcome, Simulation):
        found["simulation"] = {
            "score": outcome.score,
            "ticks": outcome.ticks,
            "is_over": outcome.is_over,
            "stats": list(outcome.stats),
            "state_hash": f"{outcome.state_hash:016x}",
            "checkpoints": [f"{each:016x}" for each in outcome.checkpoints],
            "fuel": outcome.fuel,
        }
    return found


def verdict_lines(judged: JudgedRun) -> Iterator[str]:
    """A verdict for people."""
    verdict, outcome = judged.verdict, judged.outcome
    yield f"{verdict.kind.value}: {verdict.reason.value}: {verdict.reason.meaning}"
    if isinstance(outcome, Simulation):
        end = "over" if outcome.is_over else "not over"
        yield f"  score       {outcome.score}"
        yield f"  ticks       {outcome.ticks}, the run is {end}"
        yield f"  statistics  {', '.join(map(str, outcome.stats)) or 'none'}"
        yield f"  state hash  {outcome.state_hash:016x}, {len(outcome.checkpoints)} checkpoints"
        yield f"  cost        {outcome.fuel} fuel, {1000 * judged.seconds:.2f} ms"
    elif verdict.detail:
        yield "  " + ", ".join(f"{name} {value}" for name, value in verdict.detail.items())
    for said in outcome.said.splitlines() if isinstance(outcome, SimulatorFault) else ():
        yield f"  it said     {said}"
    if found := verdict.divergence:
        yield f"  parted      after tick {found.after_tick}, and not after tick {found.at_tick}"
        yield f"  hashes      {found.claimed:016x} in the recording, {found.simulated:016x} in the simulation"
        yield "  inputs      " + ", ".join(f"{run.tick}: {run.ticks} x {run.word:#x}" for run in found.inputs)
    yield f"  simulator   {verdict.simulator}, {verdict.engine}"


def checked_as_json(checked: CheckReport) -> str:
    """What the kit found, as one JSON object in a line."""
    found = {
        "is_safe": checked.is_safe,
        "remarks": [{"weight": each.weight.value, "text": each.text} for each in checked.remarks],
        "settings": checked.settings,
        "runs": [_run_as_dict(each) for each in checked.runs],
        "costs": checked.costs,
        "budget": checked.budget and checked.budget.model_dump(),
    }
    return orjson.dumps(found).decode()


def _run_as_dict(run: RunReport) -> Mapping[str, Any]:
    return {
        "run": run.name,
        "verdict": run.verdict.kind.value,
        "reason": run.verdict.reason.value,
        "detail": dict(run.verdict.detail),
        "said": run.verdict.said,
        "divergence": run.verdict.divergence and run.verdict.divergence.as_dict(),
        "differences": run.differences,
        "untried": run.untried,
        "cost": run.cost,
    }


def checked_lines(checked: CheckReport) -> Iterator[str]:
    """What the kit found, for people."""
    yield from map(_remark_line, checked.remarks)
    for run in checked.runs:
        yield from _run_lines(run)
    for name, meaning in meanings(checked):
        yield f"{name} is {meaning}"
    if checked.costs and checked.budget:
        costs = checked.costs
        yield f"fuel  median {costs.fuel_median}, worst {costs.fuel_worst}"
        yield f"time  median {costs.wall_ms_median:.2f} ms, worst {costs.wall_ms_worst:.2f} ms"
        yield "limits to set in the board's policy, under replay:"
        numbers = ", ".join(f"{name}: {value}" for name, value in checked.budget.model_dump().items())
        yield f"  budget: {{{numbers}}}"
    yield "replay-safe" if checked.is_safe else "not replay-safe"


def _remark_line(remark: Remark) -> str:
    return f"{remark.weight.value}: {remark.text}"


def _run_lines(run: RunReport) -> Iterator[str]:
    verdict = run.verdict
    line = f"{run.name}: {verdict.kind.value}"
    if verdict.kind is not VerdictKind.VERIFIED:
        line += f": {verdict.reason.value}: {verdict.reason.meaning}"
    if found := verdict.divergence:
        line += f" It parts after tick {found.after_tick}, and not after tick {found.at_tick}."
    yield line
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        cause = cause_of(SimulatorFault(verdict.reason, verdict.detail, verdict.said))
        yield from (f"  {told}" for told in cause.splitlines())
    for each in run.differences:
        yield f"  {each.setting}: {each.what} is {each.found}, not {each.expected}"
    if run.untried:
        yield f"  could not be tried, too slow or not supported by the engine: {', '.join(run.untried)}"
