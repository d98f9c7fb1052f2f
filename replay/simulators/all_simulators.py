"""All kinds of simulators behind the one port: each request goes to what runs its kind."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from policies.vocabulary import SimulatorKind
from replay.simulators import SimulationOutcome, SimulationRequest, Simulators
from replay.simulators.plugin import PluginSimulators
from replay.simulators.process import ProcessSimulators
from replay.simulators.sandbox import Sandbox


class AllSimulators:
    """Simulators of every kind. None of them starts anything before it is first asked."""

    def __init__(self, *, needs_bubblewrap: bool = False) -> None:
        """`needs_bubblewrap`: native programs run in bubblewrap or not at all."""
        self._modules, self._plugins = Sandbox(), PluginSimulators()
        self._programs = ProcessSimulators(needs_bubblewrap=needs_bubblewrap)
        self._by_kind: dict[SimulatorKind, Simulators] = {
            SimulatorKind.WASM: self._modules,
            SimulatorKind.PROCESS: self._programs,
            SimulatorKind.PLUGIN: self._plugins,
        }

    def engine_of(self, kind: SimulatorKind) -> str:
        """Name and version of what runs simulators of this kind."""
        return self._by_kind[kind].engine_of(kind)

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """What comes of the request. Raises SandboxUnavailable if no child can be started for it."""
        return self._by_kind[request.kind].simulate(request)

    def close(self) -> None:
        """Ends every child."""
        for each in (self._modules, self._programs, self._plugins):
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
