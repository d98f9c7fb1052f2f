"""Shows what trying a simulator found: for people line by line, for programs as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from policies.vocabulary import VerdictKind
from replay.kit.causes import cause_of
from replay.kit.check import CheckReport, RunReport, meanings
from replay.kit.remarks import Remark
from replay.kit.verdict import JudgedRun
from replay.simulators import Simulation, SimulatorFault


def verdict_as_dict(judged: JudgedRun) -> dict[str, Any]:
    """Return a verdict for programs: hashes as 16 hex digits, time in milliseconds."""
    verdict, outcome = judged.verdict, judged.outcome
    facts: dict[str, Any] = {
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
        facts["simulation"] = {
            "score": outcome.score,
            "ticks": outcome.ticks,
            "is_over": outcome.is_over,
            "stats": list(outcome.stats),
            "state_hash": f"{outcome.state_hash:016x}",
            "checkpoints": [f"{state_hash:016x}" for state_hash in outcome.checkpoints],
            "fuel": outcome.fuel,
        }
    return facts


def verdict_lines(judged: JudgedRun) -> Iterator[str]:
    """Yield the lines of a verdict for people."""
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
    for line in outcome.said.splitlines() if isinstance(outcome, SimulatorFault) else ():
        yield f"  it said     {line}"
    if divergence := verdict.divergence:
        yield f"  parted      after tick {divergence.after_tick}, and not after tick {divergence.at_tick}"
        claimed, simulated = f"{divergence.claimed:016x}", f"{divergence.simulated:016x}"
        yield f"  hashes      {claimed} in the recording, {simulated} in the simulation"
        inputs = (f"{run.tick}: {run.ticks} x {run.word:#x}" for run in divergence.inputs)
        yield f"  inputs      {', '.join(inputs)}"
    yield f"  simulator   {verdict.simulator}, {verdict.engine}"


def checked_as_json(checked: CheckReport) -> str:
    """Return the kit's findings as one JSON object on a line."""
    facts = {
        "is_safe": checked.is_safe,
        "remarks": [{"weight": remark.weight.value, "text": remark.text} for remark in checked.remarks],
        "settings": checked.settings,
        "runs": [_run_as_dict(run) for run in checked.runs],
        "costs": checked.costs,
        "budget": checked.budget and checked.budget.model_dump(),
    }
    return orjson.dumps(facts).decode()


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
    """Yield the kit's findings for people."""
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
    if divergence := verdict.divergence:
        line += f" It parts after tick {divergence.after_tick}, and not after tick {divergence.at_tick}."
    yield line
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        cause = cause_of(SimulatorFault(verdict.reason, verdict.detail, verdict.said))
        yield from (f"  {sentence}" for sentence in cause.splitlines())
    for difference in run.differences:
        yield f"  {difference.setting}: {difference.what} is {difference.found}, not {difference.expected}"
    if run.untried:
        yield f"  could not be tried, too slow or not supported by the engine: {', '.join(run.untried)}"
