"""Ways to run a module that must not change its result: other machine code, other bounds, another processor.

Each is a machine of `replay.simulators.wasm` that differs in one respect from the one that judges.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wasmtime import Store

from policies.vocabulary import SimulatorKind
from replay.simulators import Simulation, SimulatorFault
from replay.simulators.child import main as serve
from replay.simulators.frames import SimulationOrder
from replay.simulators.wasm import CompiledModule, Machine, ModuleRun, standard_config

_ROOT = Path(__file__).resolve().parents[2]
_BOOT = """
import sys
sys.path.insert(0, sys.argv[1])
from replay.kit.engine_settings import main
main(int(sys.argv[2]), sys.argv[3])
"""

EPOCHS_ALLOWED: Final = 1
"""Nothing ends an epoch here; only the code that checks for it makes the difference."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run a module, and what a difference under it would mean."""

    name: str
    meaning: str
    engine: Mapping[str, object] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[Store, CompiledModule, SimulationOrder, bytes], ModuleRun] = ModuleRun
    has_stats: bool = True


class Unmetered(ModuleRun):
    """A run that uses no fuel, because the engine counts none."""

    def _fuel(self) -> int:
        return 0


class PlayedBefore(ModuleRun):
    """A run in an instance that has already played: its own inputs under another seed."""

    def _simulation(self) -> Simulation:
        exports, own = self._instance(), self._order
        for seed in (own.seed ^ 1, own.seed):
            self._order = replace(own, seed=seed)
            self._play(exports)
        return self._play(exports)


class TickByTick(ModuleRun):
    """A run as a game plays it: `start`, then `tick` with each word. It has no statistics."""

    def _simulation(self) -> Simulation:
        exports, order = self._instance(), self._order
        words, every = memoryview(order.inputs).cast("I"), order.checkpoint_ticks
        exports.call("start", order.seed)
        ticks, goes_on, checkpoints = 0, True, []
        while ticks < order.ticks and goes_on:
            goes_on = bool(exports.call("tick", words[ticks]))
            ticks += 1
            if every and ticks % every == 0:
                checkpoints.append(_unsigned(exports.call("state_hash")))
        score, state_hash = exports.call("score"), _unsigned(exports.call("state_hash"))
        return Simulation(ticks, not goes_on, score, state_hash, (), tuple(checkpoints), self._fuel())


def _unsigned(number: int) -> int:
    return number % 2**64


SETTINGS: Final = (
    Setting(
        "played-before",
        "in an instance that has played other runs: something of them is left after `start`",
        run=PlayedBefore,
    ),
    Setting(
        "tick-by-tick",
        "by `start` and `tick`, as a game plays it: `simulate` does not do the same",
        run=TickByTick,
        has_stats=False,
    ),
    Setting(
        "unoptimised", "in other machine code, compiled without optimisation", {"cranelift_opt_level": "none"}
    ),
    Setting("small-code", "compiled for size", {"cranelift_opt_level": "speed_and_size"}),
    Setting("interpreted", "by an interpreter, which stands for another processor", {"target": "pulley64"}),
    Setting(
        "unmetered",
        "without fuel, as in a browser: its metering matters",
        {"consume_fuel": False},
        run=Unmetered,
    ),
    Setting("interruptible", "with code that looks for interruptions", {"epoch_interruption": True}),
    Setting(
        "any-nan",
        "with NaNs as the processor makes them, as in a browser: the bits of a NaN reach the result",
        {"cranelift_nan_canonicalization": False},
    ),
    Setting(
        "checked-bounds",
        "with each access to its memory checked, and its memory elsewhere",
        {"memory_reservation": 0, "memory_guard_size": 0},
    ),
)
"""Every setting of a module that is tried besides the one that judges."""

PROGRAM_SETTINGS: Final = tuple(
    Setting(
        f"memory-{number}",
        f"with all memory that it is given, and gives back, filled with {number}: it reads what it did not "
        "write",
        variables={"MALLOC_PERTURB_": str(number)},
    )
    for number in (85, 170)
)
"""The settings of a native program. glibc fills freed memory with the number, and new memory with its
complement (mallopt(3)).

The two numbers have no bit in common. A program with another C library, or its own allocator, ignores them.
"""

BY_NAME: Final[Mapping[str, Setting]] = MappingProxyType({setting.name: setting for setting in SETTINGS})


def settings_of(kind: SimulatorKind) -> Sequence[Setting]:
    """Return the settings in which a simulator of this kind is tried."""
    return {SimulatorKind.WASM: SETTINGS, SimulatorKind.PROCESS: PROGRAM_SETTINGS}.get(kind, ())


class OtherMachine(Machine):
    """A machine that runs modules under a setting."""

    def __init__(self, setting: Setting) -> None:
        config = standard_config()
        for name, value in setting.engine.items():
            setattr(config, name, value)
        super().__init__(config)
        self._setting = setting

    def _simulate(
        self, store: Store, compiled: CompiledModule, order: SimulationOrder, asset: bytes
    ) -> Simulation | SimulatorFault:
        if self._setting.engine.get("consume_fuel", True):
            store.set_fuel(order.fuel)
        if "epoch_interruption" in self._setting.engine:
            store.set_epoch_deadline(EPOCHS_ALLOWED)
        return self._setting.run(store, compiled, order, asset).outcome()


def command_of(setting: Setting) -> Sequence[str]:
    """Return the command of a confined child that runs modules under the setting, for a `Sandbox`."""
    return (sys.executable, "-I", "-B", "-c", _BOOT, str(_ROOT), str(os.getpid()), setting.name)


def main(parent: int, name: str) -> None:
    """Serve as the child of a sandbox, under the setting with that name."""
    serve(parent, OtherMachine(BY_NAME[name]))
