"""Whether the simulators that a policy names can be loaded, and answer: each is asked for one short run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from policies.errors import PolicyError
from policies.loader import Board, Simulator, line_of
from policies.replaying import BuildStatus, RecordingKind, Replay
from policies.vocabulary import SimulatorKind
from replay.kit.causes import cause_of
from replay.kit.remarks import Weight, remarks_on
from replay.recording import encode, pack_inputs
from replay.simulators import Simulation, SimulationOutcome, SimulationRequest, SimulatorFault, Simulators
from replay.simulators.all_simulators import AllSimulators

FIRST_RUN_MS: Final = 10_000
"""The most that the answer may take, or less if the policy's budget is less."""

_INPUTS: Final = pack_inputs([0])


def first_runs(file: Path, board: Board) -> Iterator[str]:
    """What plays each build, once it has answered. Raises PolicyError that names all builds without an answer.

    A build that is blocked may be so for its simulator, which is left alone.
    """
    replay, builds = board.policy.replay, board.policy.builds
    if replay is None:
        return
    used = {
        name: each
        for name, each in board.simulators.items()
        if builds[name].status is not BuildStatus.BLOCKED
    }
    troubles, known = [], dict[str, str]()
    with AllSimulators() as simulators:
        for build, simulator in used.items():
            if simulator.digest not in known:
                known[simulator.digest] = _trouble_with(simulator, replay, simulators)
            if trouble := known[simulator.digest]:
                line = line_of(file, ["builds", build, "simulator"])
                troubles.append(f"{file}:{line}: builds.{build}.simulator: {simulator.path}: {trouble}")
            else:
                yield f"{build}: {simulator.path.name} loads and answers ({simulators.engine_of(replay.simulator)})"
    if troubles:
        raise PolicyError("\n".join(troubles))


def _trouble_with(simulator: Simulator, replay: Replay, simulators: Simulators) -> str:
    """Why no run can be judged by it; empty if one can. Raises SandboxUnavailable."""
    if replay.simulator is SimulatorKind.WASM and (trouble := _looks(simulator.path)):
        return trouble
    return _trouble_in(simulators.simulate(_first_request(simulator, replay)), replay)


def _looks(module: Path) -> str:
    try:
        remarks = remarks_on(module.read_bytes())
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "; ".join(each.text for each in remarks if each.weight is Weight.UNUSABLE)


def _first_request(simulator: Simulator, replay: Replay) -> SimulationRequest:
    """A run of one tick in which nothing is pressed; where recordings are the game's own, an empty one."""
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


def _trouble_in(outcome: SimulationOutcome, replay: Replay) -> str:
    """What of an answer shows that honest runs cannot be judged: `malformed` may be right of an empty recording."""
    if isinstance(outcome, SimulatorFault):
        hint = "" if replay.recording is RecordingKind.SCOREGATE else _HINT
        return f"its first run fails: {cause_of(outcome)}{hint}"
    if isinstance(outcome, Simulation) and len(outcome.stats) != len(replay.stats):
        return f"it gives {len(outcome.stats)} statistics, and `replay.stats` names {len(replay.stats)}"
    return ""


_HINT: Final = "\n  (it was given an empty recording, to which `malformed` is an answer and a crash is none)"
