"""All kinds of simulators behind one port. Each request goes to the runner of its kind."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from policies.vocabulary import SimulatorKind
from replay.simulators import SimulationOutcome, SimulationRequest, Simulators
from replay.simulators.plugin import PluginSimulators
from replay.simulators.process import ProcessSimulators
from replay.simulators.sandbox import Sandbox


class AllSimulators:
    """Simulators of every kind. Each starts its process with the first request."""

    def __init__(self, *, needs_bubblewrap: bool = False) -> None:
        """Create the simulators. With `needs_bubblewrap`, native programs run in bubblewrap or not at all."""
        self._modules, self._plugins = Sandbox(), PluginSimulators()
        self._programs = ProcessSimulators(needs_bubblewrap=needs_bubblewrap)
        self._by_kind: dict[SimulatorKind, Simulators] = {
            SimulatorKind.WASM: self._modules,
            SimulatorKind.PROCESS: self._programs,
            SimulatorKind.PLUGIN: self._plugins,
        }

    def engine_of(self, kind: SimulatorKind) -> str:
        """Return name and version of the engine for this kind."""
        return self._by_kind[kind].engine_of(kind)

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """Return the outcome of the request. Raises SandboxUnavailable if no child can be started for it."""
        return self._by_kind[request.kind].simulate(request)

    def close(self) -> None:
        """End every child."""
        for simulators in (self._modules, self._programs, self._plugins):
            simulators.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
