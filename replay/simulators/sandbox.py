"""Runs simulator modules in one warm, confined child process, and stops it from outside when it is late.

Whatever happens to the child, a call ends with a simulation or a fault within its budget's wall-clock limit
(plus the limit for compiling at a module's first run), and the next call finds a working child.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from policies.vocabulary import Reason, SimulatorKind
from replay.simulators import Simulation, SimulationRequest, SimulatorFault, frames
from replay.simulators.child_process import (
    ChildDied,
    ChildProcess,
    ChildTimedOut,
    SandboxUnavailable,
    boot,
    deadline_in,
)

MODULE_BYTES_LIMIT = 64 * 1024 * 1024
"""The largest module file that is read."""
MODULES_AT_ONCE = 32
"""Modules that one child keeps compiled; before one more, it is replaced by a fresh child."""

_GARBLED = SimulatorFault(Reason.SIMULATOR_UNUSABLE)
_WASMTIME_VERSION = version("wasmtime")


class Sandbox:
    """Simulators in a child process.

    Calls from several threads take turns; a forked copy starts its own child. On Linux the child dies with
    the thread that started it, so a short-lived thread should not be the first to call.
    """

    def __init__(
        self,
        *,
        load_wall_ms: int = 30_000,
        start_wall_ms: int = 20_000,
        command: Sequence[str] | None = None,
    ) -> None:
        """Create a sandbox.

        `load_wall_ms` is the time for compiling a module; `command` replaces the child's.
        """
        self._load_wall_ms = load_wall_ms
        self._start_wall_ms = start_wall_ms
        self._command = command
        self._child: Child | None = None
        self._lock = threading.Lock()

    def engine_of(self, kind: SimulatorKind) -> str:  # noqa: ARG002 - it has one kind
        """Return the engine that the child runs, such as `wasmtime 50.0.1`."""
        return f"wasmtime {_WASMTIME_VERSION}"

    def simulate(self, request: SimulationRequest) -> Simulation | SimulatorFault:
        """Return the simulation, or why there is none.

        Raises SandboxUnavailable if no child can be started.
        """
        with self._lock:
            child = self._ready_child(request.digest)
            if request.digest not in child.loaded:
                fault = self._load(child, request)
                if fault is not None:
                    return fault
            if (fault := self._give_asset(child, request)) is not None:
                return fault
            return self._run(child, request)

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready_child(self, digest: str) -> Child:
        child = self._child
        if child is not None and not child.is_ours:
            self._child = child = None
        if child is not None and not (child.is_idle() and child.has_room_for(digest)):
            self._drop()
            child = None
        if child is None:
            child = self._child = Child(self._command or boot("replay.simulators.child"), self._start_wall_ms)
        return child

    def _drop(self) -> None:
        if self._child is not None and self._child.is_ours:
            self._child.kill()
        self._child = None

    def _load(self, child: Child, request: SimulationRequest) -> SimulatorFault | None:
        """Return None once the child has the module, else why it cannot have it."""
        module = _read_module(request.module)
        if isinstance(module, SimulatorFault):
            return module
        question = frames.pack_load(request.digest, module)
        answer = self._ask(child, frames.LOAD, question, frames.FAULT_BYTES, self._load_wall_ms)
        if isinstance(answer, SimulatorFault):
            return answer
        child.loaded.add(request.digest)
        return None

    def _give_asset(self, child: Child, request: SimulationRequest) -> SimulatorFault | None:
        """Return None once the child has the run's asset and no other, else why it cannot have it."""
        asset = request.asset
        if asset is None or asset.digest == child.asset:
            child.asset = b"" if asset is None else asset.digest
            return None
        question = frames.pack_asset(asset.digest, asset.content)
        answer = self._ask(child, frames.ASSET, question, frames.FAULT_BYTES, request.budget.wall_ms)
        if isinstance(answer, SimulatorFault):
            return answer
        child.asset = asset.digest
        return None

    def _run(self, child: Child, request: SimulationRequest) -> Simulation | SimulatorFault:
        limit = frames.simulation_limit(request.ticks, request.checkpoint_ticks)
        question = frames.pack_order(_order(request))
        outcome = self._ask(child, frames.ORDER, question, limit, request.budget.wall_ms)
        assert outcome is not None, "LOADED answers no order"
        return outcome

    def _ask(
        self, child: Child, kind: int, question: bytes, limit: int, wall_ms: int
    ) -> Simulation | SimulatorFault | None:
        """Return the meaning of the answer; None stands for LOADED. A child that failed is not used again."""
        try:
            return _meaning(kind, *child.ask(kind, question, limit, deadline_in(wall_ms)))
        except ChildTimedOut:
            fault = SimulatorFault(Reason.TIMED_OUT, {"wall_ms": wall_ms})
        except ChildDied:
            fault = child.cause_of_death()
        except frames.WireError:
            fault = _GARBLED
        self._drop()
        return fault


class Child(ChildProcess):
    """The child that simulates modules. It sends a greeting, then answers questions in frames."""

    def __init__(self, command: Sequence[str], start_wall_ms: int) -> None:
        super().__init__(command)
        self.loaded: set[str] = set()
        self.asset = b""
        self._sequence = 0
        self._await_hello(deadline_in(start_wall_ms))

    def has_room_for(self, digest: str) -> bool:
        """Return whether it has the module or can still take it."""
        return digest in self.loaded or len(self.loaded) < MODULES_AT_ONCE

    def ask(self, kind: int, question: bytes, limit: int, deadline: float) -> tuple[int, bytes]:
        """Return kind and payload (at most `limit` bytes) of the answer.

        Raises ChildTimedOut, ChildDied or WireError.
        """
        self._sequence = (self._sequence + 1) % 2**32
        self._send(frames.HEADER.pack(kind, self._sequence, len(question)) + question, deadline)
        answer = self._receive(frames.HEADER.size, frames.HEADER.size + limit, deadline)
        kind, sequence, length = frames.HEADER.unpack_from(answer)
        if sequence != self._sequence or length > limit:
            raise frames.WireError
        answer += self._receive(frames.HEADER.size + length - len(answer), limit, deadline)
        if len(answer) != frames.HEADER.size + length:
            raise frames.WireError
        return kind, bytes(answer[frames.HEADER.size :])

    def _await_hello(self, deadline: float) -> None:
        try:
            hello = self._receive(len(frames.HELLO), len(frames.HELLO), deadline)
        except (ChildTimedOut, ChildDied):
            hello = bytearray()
        if hello != frames.HELLO:
            words = self.last_words().decode("utf-8", "replace")
            self.kill()
            raise SandboxUnavailable(
                f"the simulator process did not start: {words.strip() or 'it said nothing'}"
            )


def _read_module(path: Path) -> bytes | SimulatorFault:
    try:
        with path.open("rb") as file:
            module = file.read(MODULE_BYTES_LIMIT + 1)
    except OSError:
        return SimulatorFault(Reason.SIMULATOR_MISSING)
    return module if len(module) <= MODULE_BYTES_LIMIT else SimulatorFault(Reason.SIMULATOR_UNUSABLE)


def _order(request: SimulationRequest) -> frames.SimulationOrder:
    return frames.SimulationOrder(
        digest=request.digest,
        seed=request.seed,
        ticks=request.ticks,
        checkpoint_ticks=request.checkpoint_ticks,
        fuel=request.budget.fuel,
        memory_bytes=request.budget.memory_mib * 1024 * 1024,
        wall_ms=request.budget.wall_ms,
        inputs=request.inputs,
        parameters=request.parameters,
        asset=request.asset.digest if request.asset else b"",
    )


def _meaning(question: int, answer: int, payload: bytes) -> Simulation | SimulatorFault | None:
    """Return the content of an answer. Raises WireError if it does not belong to the question."""
    if answer == frames.FAULT:
        return frames.unpack_fault(payload)
    if (question, answer) == (frames.ORDER, frames.SIMULATION):
        return frames.unpack_simulation(payload)
    if question in {frames.LOAD, frames.ASSET} and answer == frames.LOADED and not payload:
        return None
    raise frames.WireError
