"""Starts each simulator that a policy names, for one short run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from policies.board import Board, Simulator
from policies.document import PolicyDocument
from policies.errors import PolicyError
from policies.family import Family
from policies.replaying import BuildStatus, RecordingKind, Replay
from policies.vocabulary import SimulatorKind
from replay.kit.causes import cause_of
from replay.kit.remarks import Weight, remarks_on
from replay.recording import encode, pack_inputs
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest, SimulatorFault, Simulators
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.board_content import BoardContent
from scoregate.sample_content import contents_to_try, played_with

FIRST_RUN_MS: Final = 10_000
"""Longest time for the answer, unless the policy's budget is less."""

_INPUTS: Final = pack_inputs([0])


def first_runs(document: PolicyDocument, board: Board | Family) -> Iterator[str]:
    """Yield a sentence about each build's simulator once it answered.

    At the end raises PolicyError with all builds whose simulator did not.
    """
    replay, builds = board.policy.replay, board.policy.builds
    if replay is None:
        return
    # A build may be blocked because of its simulator, which is left alone.
    used = {
        name: simulator
        for name, simulator in board.simulators.items()
        if builds[name].status is not BuildStatus.BLOCKED
    }
    contents = contents_to_try(document, board.policy)
    troubles, known = [], dict[str, str]()
    with AllSimulators() as simulators:
        for build, simulator in used.items():
            if simulator.digest not in known:
                known[simulator.digest] = _trouble_with(simulator, replay, simulators, contents)
            if trouble := known[simulator.digest]:
                fault = document.fault(["builds", build, "simulator"], f"{simulator.path}: {trouble}")
                troubles.append(str(fault))
            else:
                engine = simulators.engine_of(replay.simulator)
                yield f"{build}: {simulator.path.name} loads and answers ({engine}){played_with(contents)}"
    if troubles:
        raise PolicyError("\n".join(troubles))


def _trouble_with(
    simulator: Simulator,
    replay: Replay,
    simulators: Simulators,
    contents: Mapping[BoardContent, Sequence[str]],
) -> str:
    """Return why the simulator can judge no run on some board; empty if it can. Raises SandboxUnavailable."""
    if replay.simulator is SimulatorKind.WASM and (trouble := _trouble_in_module(simulator.path)):
        return trouble
    for content, boards in contents.items():
        request = replace(_first_request(simulator, replay), content=content)
        if trouble := _trouble_in_outcome(simulators.simulate(request), replay):
            return f"{trouble} (with the content of {', '.join(boards[:3])})" if boards else trouble
    return ""


def _trouble_in_module(module: Path) -> str:
    try:
        remarks = remarks_on(module.read_bytes())
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "; ".join(remark.text for remark in remarks if remark.weight is Weight.UNUSABLE)


def _first_request(simulator: Simulator, replay: Replay) -> SimulationRequest:
    """Return a run of one tick without inputs, or an empty recording where recordings are the game's own."""
    inputs, recording = b"", b""
    if replay.recording is RecordingKind.SCOREGATE:
        hashes = [0] if replay.checkpoint_ticks == 1 else []
        inputs, recording = _INPUTS, encode(_INPUTS, hashes, replay.checkpoint_ticks)
    wall_ms = min(FIRST_RUN_MS, replay.budget.wall_ms)
    return SimulationRequest(
        module=simulator.path,
        digest=simulator.digest,
        seed=1,
        inputs=inputs,
        ticks=1,
        checkpoint_ticks=replay.checkpoint_ticks,
        budget=replay.budget.model_copy(update={"wall_ms": wall_ms}),
        kind=replay.simulator,
        recording=recording,
        files=simulator.files,
        stats=replay.stats,
    )


def _trouble_in_outcome(outcome: SimulationOutcome, replay: Replay) -> str:
    """Return why honest runs cannot be judged, by the outcome of the first run; empty if they can."""
    if isinstance(outcome, SimulatorFault):
        hint = "" if replay.recording is RecordingKind.SCOREGATE else _HINT
        return f"its first run fails: {cause_of(outcome)}{hint}"
    if isinstance(outcome, Simulation) and len(outcome.stats) != len(replay.stats):
        return f"it gives {len(outcome.stats)} statistics, and `replay.stats` names {len(replay.stats)}"
    return ""


_HINT: Final = "\n  (it got an empty recording: `malformed` is an answer to that, a crash is not)"
