"""Plays recordings again, in modules, native programs or plug-ins, each in its sandbox.

A simulator runs the game's own module, program or plug-in over a recording. It returns a `Simulation`, or
`MalformedRecording` for bytes that are not a recording of its game, or a `SimulatorFault` if it could not
play. A fault is ours or the game's, and never evidence of cheating.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from policies.vocabulary import Reason, SimulatorKind
from replay.simulators.board_content import EMPTY_CONTENT, Asset, BoardContent

if TYPE_CHECKING:  # the sandboxed child imports this file, and has no use for pydantic
    from policies.replaying import Budget


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """One run to simulate: the simulator's path and digest, and the run's seed (u64) and inputs.

    `inputs` holds `ticks` little-endian u32 words. It is empty for a recording in the game's own format, and
    `ticks` is then the claimed number. A state hash is wanted every `checkpoint_ticks` ticks, 0 for none.
    `recording` holds the client's bytes, `files` what the program may read besides itself, and `stats` the
    names of the statistics in the wanted order; modules ignore these three. After `runs_per_process` runs the
    process is replaced; modules ignore this too. `content` is what the board gives to every run on it.
    """

    module: Path
    digest: str
    seed: int
    inputs: bytes
    ticks: int
    checkpoint_ticks: int
    budget: Budget
    kind: SimulatorKind = SimulatorKind.WASM
    recording: bytes = b""
    files: tuple[Path, ...] = ()
    stats: tuple[str, ...] = ()
    runs_per_process: int = 1
    content: BoardContent = EMPTY_CONTENT

    @property
    def parameters(self) -> bytes:
        """Return the board's parameters; empty if it has none."""
        return self.content.parameters

    @property
    def asset(self) -> Asset | None:
        """Return the board's asset, if it has one."""
        return self.content.asset


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of simulating a run.

    `ticks` is how many were consumed; `is_over` says whether the run had ended after them. `stats` follow the
    order of the policy's names, `checkpoints` are 64-bit state hashes, and `fuel` is in units of the engine
    (0 if it counts none). `state_hash` is 0 if none was given.
    """

    ticks: int
    is_over: bool
    score: int
    state_hash: int
    stats: tuple[int, ...]
    checkpoints: tuple[int, ...]
    fuel: int


SAID_CHARACTERS, SAID_LINES = 200, 8
"""Characters kept of each line of a program's output, and how many lines are kept."""


def printable(text: str) -> str:
    """Return the part of a program's output that is safe to show."""
    return "".join(filter(str.isprintable, text[:SAID_CHARACTERS]))


def last_lines(words: bytes) -> str:
    """Return the end of a program's standard error, safe to show; an interpreter reports its error there."""
    lines = words.decode("utf-8", "replace").strip().splitlines()[-SAID_LINES:]
    return "\n".join(map(printable, lines))


@dataclass(frozen=True, slots=True)
class SimulatorFault:
    """Why there is no simulation, with numbers for investigation.

    `said` holds a few lines of the program's own output for developers and moderators. It decides nothing and
    no player sees it.
    """

    reason: Reason
    detail: Mapping[str, int] = field(default_factory=dict)
    said: str = ""


@dataclass(frozen=True, slots=True)
class MalformedRecording:
    """The simulator's statement that the bytes are not a recording of its game."""


SimulationOutcome = Simulation | MalformedRecording | SimulatorFault


class Simulators(Protocol):
    """Runs simulators."""

    def engine_of(self, kind: SimulatorKind) -> str:
        """Return name and version of the engine for this kind, for the verdict, such as `wasmtime 50.0.1`."""

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """Return the simulation of the run, or why there is none, within the request's budget."""
