"""What plays a recording again: modules, native programs, plug-ins, each in its sandbox.

A simulator runs the game's own module, program or plug-in over a recording. It gives a `Simulation`; or `MalformedRecording`
for bytes that are no recording of its game; or a `SimulatorFault` when it could not: a fault is ours, or the game's, and never
evidence of a cheat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from policies.vocabulary import Reason, SimulatorKind

if TYPE_CHECKING:  # the sandboxed child imports this file, and has no use for pydantic
    from policies.replaying import Budget


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """One run to simulate: the simulator on disk and its digest, and the run's seed (u64) and inputs.

    `inputs` holds `ticks` little-endian u32 words; it is empty where the recording is in a format of the game's own, and
    `ticks` is then what was claimed. State hashes are wanted every `checkpoint_ticks` ticks, 0 for none. `recording`
    is what the client sent, `files` are what the program may read besides itself, `stats` names the statistics in the
    order in which they are wanted: a module takes no notice of the three. Nor of `runs_per_process`: after so many runs
    the process that played this one is replaced.
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


@dataclass(frozen=True, slots=True)
class Simulation:
    """What the module made of the inputs.

    `ticks` were really consumed; `is_over` says whether the run had ended after them. `stats` come in the
    order of the policy's names, `checkpoints` are 64-bit state hashes, `fuel` is in units of the engine, 0 for one that
    counts none. `state_hash` is 0 where none was given.
    """

    ticks: int
    is_over: bool
    score: int
    state_hash: int
    stats: tuple[int, ...]
    checkpoints: tuple[int, ...]
    fuel: int


SAID_CHARACTERS, SAID_LINES = 200, 8
"""The most that is kept of a line of a program's own words, and the most lines."""


def printable(text: str) -> str:
    """What may be shown of a program's own words."""
    return "".join(filter(str.isprintable, text[:SAID_CHARACTERS]))


def last_lines(words: bytes) -> str:
    """What may be shown of the end of a program's standard error: an interpreter says there what went wrong, and where."""
    lines = words.decode("utf-8", "replace").strip().splitlines()[-SAID_LINES:]
    return "\n".join(printable(each) for each in lines)


@dataclass(frozen=True, slots=True)
class SimulatorFault:
    """Why there is no simulation, with numbers for whoever looks into it.

    `said` are the program's own words for it, of a few lines at most. They are for developers and moderators to read:
    nothing is decided by them, and no player sees them.
    """

    reason: Reason
    detail: Mapping[str, int] = field(default_factory=dict)
    said: str = ""


@dataclass(frozen=True, slots=True)
class MalformedRecording:
    """The simulator's word that the bytes are no recording of its game."""


SimulationOutcome = Simulation | MalformedRecording | SimulatorFault


class Simulators(Protocol):
    """Something that runs simulators."""

    def engine_of(self, kind: SimulatorKind) -> str:
        """Name and version of what runs simulators of this kind, for the verdict, such as `wasmtime 50.0.1`."""

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """The simulation of the run, or why there is none, within the request's budget."""
