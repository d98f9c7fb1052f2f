"""What programs and plug-ins share: warm children, one for each simulator and budget, that answer lines.

Whatever happens to a child, a call ends with an outcome within its budget's wall-clock limit (plus the start
time for a child's first run), and the next call finds a working child.
"""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, NamedTuple, Self

from policies.replaying import Budget
from policies.vocabulary import Reason, SimulatorKind
from replay.simulators import SimulationOutcome, SimulationRequest, SimulatorFault
from replay.simulators.child_process import ChildDied, ChildTimedOut, deadline_in
from replay.simulators.line_child import LineChild
from replay.simulators.line_protocol import BrokenProtocolRule, answer_limit, meaning

CHILDREN_AT_ONCE: Final = 4
"""Children that are kept warm; the least recently used one makes room."""

START_WALL_MS: Final = 10_000

ID_BITS: Final = 53
"""A question's number is random, and small enough to be exact in any language."""


class Key(NamedTuple):
    """The purpose of a child. A board never shares one with a board that allows it more runs.

    `asset` is the digest of the one that the child was started with; None if it was started with none.
    """

    digest: str
    budget: Budget
    runs: int
    asset: bytes | None = None


class LineSimulators(ABC):
    """Simulators that are child processes speaking JSON lines.

    Calls from several threads take turns; a forked copy starts its own children. On Linux a child dies with
    the thread that started it, so a short-lived thread should not be the first to call.
    """

    def __init__(self, *, start_wall_ms: int = START_WALL_MS) -> None:
        """Create simulators.

        `start_wall_ms` is the time that a child's first run may take beyond its budget.
        """
        self._start_wall_ms = start_wall_ms
        self._children: dict[Key, LineChild] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def engine_of(self, kind: SimulatorKind) -> str:
        """Return name and version of the engine, for the verdict."""

    def _key_of(self, request: SimulationRequest) -> Key:
        return Key(request.digest, request.budget, request.runs_per_process)

    @abstractmethod
    def _question(self, child: LineChild, request: SimulationRequest, number: int) -> bytes:
        """Return what is sent to a child to ask for the simulation."""

    @abstractmethod
    def _open(self, request: SimulationRequest) -> LineChild | SimulatorFault:
        """Return a child with the request's simulator, or why there is none. Raises SandboxUnavailable."""

    def simulate(self, request: SimulationRequest) -> SimulationOutcome:
        """Return the simulator's result for the recording.

        Raises SandboxUnavailable if no child can be started.
        """
        with self._lock:
            child = self._ready_child(request)
            if isinstance(child, SimulatorFault):
                return child
            outcome = self._ask(child, request)
            if isinstance(outcome, SimulatorFault):
                outcome = child.explained(outcome)
            if isinstance(outcome, SimulatorFault) or child.questions >= request.runs_per_process:
                self._drop(self._key_of(request))
            return outcome

    def close(self) -> None:
        """End all children."""
        with self._lock:
            for key in tuple(self._children):
                self._drop(key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready_child(self, request: SimulationRequest) -> LineChild | SimulatorFault:
        key = self._key_of(request)
        child = self._children.get(key)
        if child is not None and not (child.is_ours and child.is_idle()):
            self._drop(key)
            child = None
        if child is None:
            while len(self._children) >= CHILDREN_AT_ONCE:
                self._drop(next(iter(self._children)))
            opened = self._open(request)
            if isinstance(opened, SimulatorFault):
                return opened
            child = opened
        self._children.pop(key, None)
        self._children[key] = child  # dicts keep order: the most recently used is last
        return child

    def _ask(self, child: LineChild, request: SimulationRequest) -> SimulationOutcome:
        wall_ms = request.budget.wall_ms
        deadline = deadline_in(wall_ms if child.questions else wall_ms + self._start_wall_ms)
        try:
            number = secrets.randbits(ID_BITS)  # a child that answers early cannot guess it
            line = child.ask(self._question(child, request, number), answer_limit(request), deadline)
            return meaning(line, request, number)
        except ChildTimedOut:
            return SimulatorFault(Reason.TIMED_OUT, {"wall_ms": wall_ms})
        except ChildDied:
            return child.cause_of_death()
        except BrokenProtocolRule as broken:
            return broken.as_fault()

    def _drop(self, key: Key) -> None:
        child = self._children.pop(key)
        if child.is_ours:
            child.kill()
