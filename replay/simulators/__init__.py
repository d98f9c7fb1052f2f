"""The port to the simulators: what is asked of one, and the two things it can answer.

A simulator runs the game's own module over the inputs of a recording. It gives a `Simulation`, or a `Fault`
when it could not: a fault is ours, or the game's, and never evidence of a cheat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from policies.vocabulary import Reason

if TYPE_CHECKING:  # the sandboxed child imports this file, and has no use for pydantic
    from policies.replaying import Budget


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """One run to simulate: the module on disk and its digest, and the run's seed (u64) and inputs.

    `inputs` holds `ticks` little-endian u32 words. State hashes are wanted every `checkpoint_ticks` ticks, 0
    for none.
    """

    module: Path
    digest: str
    seed: int
    inputs: bytes
    ticks: int
    checkpoint_ticks: int
    budget: Budget


@dataclass(frozen=True, slots=True)
class Simulation:
    """What the module made of the inputs.

    `ticks` were really consumed; `is_over` says whether the run had ended after them. `stats` come in the
    order of the policy's names, `checkpoints` are 64-bit state hashes, `fuel` is in units of the engine.
    """

    ticks: int
    is_over: bool
    score: int
    state_hash: int
    stats: tuple[int, ...]
    checkpoints: tuple[int, ...]
    fuel: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no simulation, with numbers for whoever looks into it."""

    reason: Reason
    detail: Mapping[str, int] = field(default_factory=dict)


class Simulators(Protocol):
    """Something that runs simulator modules."""

    @property
    def engine(self) -> str:
        """Name and version of what runs the modules, for the verdict, such as `wasmtime 50.0.1`."""

    def simulate(self, request: SimulationRequest) -> Simulation | Fault:
        """The simulation of the run, or why there is none, within the request's budget."""
