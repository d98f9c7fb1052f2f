"""Runs simulator modules in wasmtime, inside the sandbox's child.

A module has no imports, so no clock, file, network or randomness. NaNs are made canonical, and instructions
whose result depends on the machine are not allowed. So a run gives the same result everywhere. Compiled code
stays in this process's memory: there is no file that somebody could change.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum

from wasmtime import (
    Config,
    Engine,
    FuncType,
    Instance,
    MemoryType,
    Module,
    Store,
    Trap,
    TrapCode,
    WasmtimeError,
)

from policies.vocabulary import Reason
from replay.simulators import Simulation, SimulatorFault
from replay.simulators.exports import CONTENT_SIGNATURES, SIGNATURES, Exports
from replay.simulators.frames import STATS_LIMIT, SimulationOrder

ABI_VERSION = 1
STACK_BYTES = 512 * 1024
"""Stack of a module; beyond it the run traps."""
TABLE_ELEMENTS = 65_536
TABLES = 8
WORDS = 2**32
"""Number of i32 values. An address is one of them, whatever its sign."""

_RECORD = struct.Struct("<IIqQII")
_OFF = (
    "wasm_threads",
    "wasm_relaxed_simd",
    "wasm_memory64",
    "wasm_multi_memory",
    "wasm_tail_call",
    "wasm_exceptions",
    "wasm_function_references",
    "wasm_gc",
    "wasm_stack_switching",
    "wasm_custom_page_sizes",
    "wasm_wide_arithmetic",
    "wasm_component_model",
    "gc_support",
    "shared_memory",
    "parallel_compilation",  # no threads: RLIMIT_NPROC is 0
    "memory_init_cow",  # no memfd: RLIMIT_FSIZE is 0
    "native_unwind_info",
)


class ModuleRule(IntEnum):
    """The rules of the module interface, as numbered in the `broken_rule` of a fault."""

    VALID_WASM = 1
    NO_IMPORTS = 2
    EXPORTS = 3
    VERSION = 4
    INPUT_ROOM = 5
    RESULT_ADDRESS = 6
    RESULT_CONTENT = 7
    PARAMETERS = 8
    ASSET = 9


class BrokenModuleRule(Exception):
    """The module broke a rule of the module interface."""

    def __init__(self, rule: ModuleRule) -> None:
        super().__init__(rule.name)
        self.rule = rule


@dataclass(slots=True)
class CompiledModule:
    """A compiled module and its known properties. `takes`: what it takes of a board's content."""

    module: Module
    initial_memory_bytes: int
    takes: frozenset[str] = frozenset()
    has_our_version: bool = False


class Machine:
    """Compiles modules once, and simulates each run in an instance of its own."""

    def __init__(self, config: Config | None = None) -> None:
        """Create the engine.

        `config` replaces its settings, to show that they do not matter (`replay.kit`).
        """
        self._engine = Engine(config or standard_config())
        self._modules: dict[str, CompiledModule] = {}
        self._asset = b"", b""

    def load(self, digest: str, module: bytes) -> SimulatorFault | None:
        """Compile the module if it has the digest and keeps the interface; else return what is wrong."""
        if "sha256:" + hashlib.sha256(module).hexdigest() != digest:
            return SimulatorFault(Reason.SIMULATOR_MISSING)
        try:
            compiled = Module(self._engine, module)
            self._modules[digest] = CompiledModule(compiled, _check_interface(compiled), taken_by(compiled))
        except WasmtimeError:
            return _unusable(ModuleRule.VALID_WASM)
        except BrokenModuleRule as broken:
            return _unusable(broken.rule)
        return None

    def keep_asset(self, digest: bytes, content: bytes) -> None:
        """Keep an asset for the runs that name it, and forget the one before."""
        self._asset = digest, content

    def run(self, order: SimulationOrder) -> Simulation | SimulatorFault:
        """Return the ordered simulation, or why there is none. Module and asset must have been loaded."""
        compiled, (asset, content) = self._modules.get(order.digest), self._asset
        if asset != order.asset:
            self._asset = asset, content = b"", b""  # what another board was played with is not kept
        if compiled is None or asset != order.asset:
            return SimulatorFault(Reason.SIMULATOR_MISSING)
        if compiled.initial_memory_bytes > order.memory_bytes:
            return SimulatorFault(Reason.OUT_OF_MEMORY, {"memory_bytes": compiled.initial_memory_bytes})
        with Store(self._engine) as store:
            store.set_limits(order.memory_bytes, TABLE_ELEMENTS, instances=1, tables=TABLES, memories=1)
            return self._simulate(store, compiled, order, content)

    def _simulate(
        self, store: Store, compiled: CompiledModule, order: SimulationOrder, asset: bytes
    ) -> Simulation | SimulatorFault:
        store.set_fuel(order.fuel)
        return ModuleRun(store, compiled, order, asset).outcome()


class ModuleRun:
    """One run of one module in a store of its own."""

    def __init__(
        self, store: Store, compiled: CompiledModule, order: SimulationOrder, asset: bytes = b""
    ) -> None:
        self._store = store
        self._compiled = compiled
        self._order = order
        self._asset = asset
        self._exports: Exports | None = None

    def outcome(self) -> Simulation | SimulatorFault:
        """Return the simulation, or why there is none."""
        try:
            return self._simulation()
        except BrokenModuleRule as broken:
            return _unusable(broken.rule)
        except Trap as trap:
            return self._trapped(trap.trap_code)
        except WasmtimeError:  # the instance could not be made: a table or memory beyond the limits
            return SimulatorFault(Reason.OUT_OF_MEMORY)

    def _simulation(self) -> Simulation:
        return self._play(self._instance())

    def _instance(self) -> Exports:
        """Return the exports of a fresh instance."""
        self._exports = exports = Exports(self._store, Instance(self._store, self._compiled.module, []))
        if not self._compiled.has_our_version and exports.call("abi_version") != ABI_VERSION:
            raise BrokenModuleRule(ModuleRule.VERSION)
        self._compiled.has_our_version = True
        self._give("parameters", self._order.parameters, ModuleRule.PARAMETERS)
        self._give("asset", self._asset, ModuleRule.ASSET)
        return exports

    def _give(self, name: str, content: bytes, rule: ModuleRule) -> None:
        """Copy what the board gives into the module. Raises BrokenModuleRule if it does not take it."""
        if not content:
            return
        if name not in self._compiled.takes:
            raise BrokenModuleRule(rule)
        assert self._exports is not None
        place = self._inside(self._exports.call(name, len(content)), len(content), rule)
        ctypes.memmove(place, content, len(content))

    def _play(self, exports: Exports) -> Simulation:
        order = self._order
        self._feed(exports.call("inputs", order.ticks))
        return self._result(exports.call("simulate", order.seed, order.ticks, order.checkpoint_ticks))

    def _feed(self, address: int) -> None:
        inputs = self._order.inputs
        place = self._inside(address, len(inputs), ModuleRule.INPUT_ROOM)
        ctypes.memmove(place, inputs, len(inputs))

    def _result(self, address: int) -> Simulation:
        head = ctypes.string_at(self._inside(address, _RECORD.size, ModuleRule.RESULT_ADDRESS), _RECORD.size)
        ticks, is_over, score, state_hash, stats, checkpoints = _RECORD.unpack(head)
        if (
            ticks > self._order.ticks
            or is_over > 1
            or stats > STATS_LIMIT
            or checkpoints != self._checkpoints(ticks)
        ):
            raise BrokenModuleRule(ModuleRule.RESULT_CONTENT)
        size = 8 * (stats + checkpoints)
        tail = ctypes.string_at(self._inside(address + _RECORD.size, size, ModuleRule.RESULT_ADDRESS), size)
        numbers = struct.unpack(f"<{stats}q{checkpoints}Q", tail)
        return Simulation(
            ticks, is_over == 1, score, state_hash, numbers[:stats], numbers[stats:], self._fuel()
        )

    def _checkpoints(self, ticks: int) -> int:
        return ticks // self._order.checkpoint_ticks if self._order.checkpoint_ticks else 0

    def _inside(self, address: int, size: int, rule: ModuleRule) -> int:
        """Return the machine address of `size` bytes of the module's memory. Raises BrokenModuleRule."""
        assert self._exports is not None
        address %= WORDS
        if address == 0 or address % 8 or address + size > self._exports.memory_bytes:
            raise BrokenModuleRule(rule)
        return self._exports.memory_address + address

    def _fuel(self) -> int:
        return self._order.fuel - self._store.get_fuel()

    def _trapped(self, code: TrapCode | None) -> SimulatorFault:
        if code is TrapCode.OUT_OF_FUEL:
            return SimulatorFault(Reason.OUT_OF_FUEL, {"fuel": self._order.fuel})
        memory_bytes = self._exports.memory_bytes if self._exports else 0
        detail = {"fuel": self._fuel(), "memory_bytes": memory_bytes}
        if self._was_denied_memory(memory_bytes):
            return SimulatorFault(Reason.OUT_OF_MEMORY, detail)
        return SimulatorFault(
            Reason.SIMULATOR_TRAPPED, detail | ({} if code is None else {"trap": code.value})
        )

    def _was_denied_memory(self, memory_bytes: int) -> bool:
        """Return whether a run that trapped was most likely denied a memory.grow."""
        # wasmtime's C interface reports no denial, so it is inferred: memory has grown, and could not
        # double again. A wrong guess does little harm, because both reasons are faults of the same weight.
        return (
            memory_bytes > self._compiled.initial_memory_bytes and 2 * memory_bytes > self._order.memory_bytes
        )


def standard_config() -> Config:
    """Return the engine's settings."""
    # Memory keeps wasmtime's 4 GiB of reserved addresses with guard pages. They cost no memory and save
    # bounds checks, a third of the time of a loop over memory (measured with wasmtime 50).
    config = Config()
    for name in _OFF:
        setattr(config, name, False)
    config.consume_fuel = True
    config.cranelift_nan_canonicalization = True
    config.max_wasm_stack = STACK_BYTES
    return config


def _check_interface(module: Module) -> int:
    """Return the module's initial memory in bytes. Raises BrokenModuleRule if it breaks the interface."""
    if module.imports:
        raise BrokenModuleRule(ModuleRule.NO_IMPORTS)
    exports = {export.name: export.type for export in module.exports}
    for name, signature in SIGNATURES.items():
        kind = exports.get(name)
        if not isinstance(kind, FuncType) or signature_of(kind) != signature:
            raise BrokenModuleRule(ModuleRule.EXPORTS)
    memory = exports.get("memory")
    if not isinstance(memory, MemoryType):
        raise BrokenModuleRule(ModuleRule.EXPORTS)
    return memory.limits.min * 65_536


def taken_by(module: Module) -> frozenset[str]:
    """Return which of `parameters` and `asset` the module takes. An export of another type takes nothing."""
    return frozenset(
        export.name
        for export in module.exports
        if isinstance(export.type, FuncType)
        and signature_of(export.type) == CONTENT_SIGNATURES.get(export.name)
    )


def signature_of(kind: FuncType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return parameters and results of a function, in the form of `SIGNATURES`."""
    return tuple(map(str, kind.params)), tuple(map(str, kind.results))


def _unusable(rule: ModuleRule) -> SimulatorFault:
    return SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": int(rule)})
