"""The sections of a policy that say how a run is played again, by which builds of the game, and at what cost."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from policies.fields import Part, StatName


class SimulatorKind(StrEnum):
    """What a build's simulator is."""

    WASM = "wasm"


class BuildStatus(StrEnum):
    """What a build of the game may do: all, nothing without a moderator, or not even open a run."""

    ALLOW = "allow"
    PROVISIONAL = "provisional"
    BLOCKED = "blocked"


class Build(Part):
    """A build of the game. `simulator` is the file that plays its recordings again, relative to the policy file."""

    simulator: str | None = None
    tells_divergence: bool = False
    status: Annotated[BuildStatus, Field(strict=False)] = BuildStatus.ALLOW


class Budget(Part):
    """What one re-simulation may cost. Past any of these it is `inconclusive`."""

    fuel: Annotated[int, Field(ge=1_000, le=10**13)] = 20_000_000_000
    memory_mib: Annotated[int, Field(ge=1, le=1024)] = 64
    wall_ms: Annotated[int, Field(ge=10, le=600_000)] = 10_000


class Replay(Part):
    """How a recording is re-simulated, by the simulator of the run's build."""

    simulator: Annotated[SimulatorKind, Field(strict=False)] = SimulatorKind.WASM
    ticks_per_second: Annotated[int, Field(ge=1, le=1000)] = 60
    maximum_ticks: Annotated[int, Field(ge=1, le=10_000_000)]
    checkpoint_ticks: Annotated[int, Field(ge=1, le=100_000)] = 60
    recording_bytes: Annotated[int, Field(ge=64, le=1_048_576)] = 65_536
    stats: Annotated[tuple[StatName, ...], Field(max_length=16, strict=False)] = ()
    budget: Budget = Budget()
