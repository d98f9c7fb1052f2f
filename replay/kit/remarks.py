"""Remarks on a module without running it: what makes it unusable, and what a careful developer checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from wasmtime import Engine, FuncType, MemoryType, Module, WasmtimeError

from replay.kit.instructions import MEMORY_GROW, VECTOR_PREFIX, instructions, is_float
from replay.simulators.exports import CONTENT_SIGNATURES, SIGNATURES
from replay.simulators.wasm import signature_of, standard_config

MAGIC = b"\0asm"
PAGE_BYTES = 65_536


class Weight(StrEnum):
    """The effect of a remark: the gateway refuses the module, or accepts it all the same."""

    UNUSABLE = "unusable"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Remark:
    """One observation about a module, in plain words."""

    weight: Weight
    text: str


def remarks_on(module: bytes) -> tuple[Remark, ...]:
    """Return the remarks on a module; empty if there is nothing to say."""
    if not module.startswith(MAGIC):
        return (Remark(Weight.UNUSABLE, "it is not a WebAssembly module: it does not begin with \\0asm"),)
    try:
        compiled = Module(Engine(standard_config()), module)
    except WasmtimeError as error:
        first_line = str(error).partition("\n")[0]
        return (
            Remark(Weight.UNUSABLE, f"the gateway does not accept this WebAssembly module: {first_line}"),
        )
    return (*_imports(compiled), *_exports(compiled), *_memory(compiled), *_contents(module))


def _imports(module: Module) -> Iterator[Remark]:
    for item in module.imports:
        yield Remark(
            Weight.UNUSABLE,
            f"it imports {item.module}.{item.name}, but a simulator imports nothing. Link freestanding, "
            "without WASI",
        )


def _exports(module: Module) -> Iterator[Remark]:
    exports = {export.name: export.type for export in module.exports}
    for name, signature in SIGNATURES.items():
        kind = exports.get(name)
        wanted = _written(*signature)
        if not isinstance(kind, FuncType):
            yield Remark(Weight.UNUSABLE, f"it exports no function {name} {wanted}")
        elif signature_of(kind) != signature:
            actual = _written(*signature_of(kind))
            yield Remark(Weight.UNUSABLE, f"its function {name} is {actual}, and must be {wanted}")
    for name, signature in CONTENT_SIGNATURES.items():
        kind = exports.get(name)
        if kind is not None and not (isinstance(kind, FuncType) and signature_of(kind) == signature):
            wanted = _written(*signature)
            yield Remark(Weight.NOTE, f"its {name} is no function {wanted}, so it takes no {name} of a board")
    if not isinstance(exports.get("memory"), MemoryType):
        yield Remark(Weight.UNUSABLE, "it exports no memory")


def _written(parameters: tuple[str, ...], results: tuple[str, ...]) -> str:
    return f"({', '.join(parameters)}) -> ({', '.join(results)})"


def _memory(module: Module) -> Iterator[Remark]:
    for export in module.exports:
        if export.name == "memory" and isinstance(export.type, MemoryType) and export.type.limits.max is None:
            yield Remark(
                Weight.NOTE,
                "its memory has no maximum: state one, so that its need can be judged before it runs",
            )


def _contents(module: bytes) -> Iterator[Remark]:
    pairs = list(instructions(module))
    if floats := sum(is_float(opcode, number) for opcode, number in pairs):
        yield Remark(
            Weight.NOTE,
            f"{floats} of its {len(pairs)} instructions are floating-point. They give the same numbers "
            "everywhere but for the bits of a NaN; the compiler and the mathematical library that made your "
            "sin are part of the rules",
        )
    if vectors := sum(opcode == VECTOR_PREFIX for opcode, _ in pairs):
        yield Remark(Weight.NOTE, f"{vectors} of its instructions are vector instructions")
    if any(opcode == MEMORY_GROW for opcode, _ in pairs):
        yield Remark(
            Weight.NOTE,
            "it can grow its memory, which may be refused on one machine alone: reserve all that it needs at "
            "the start",
        )


def memory_mib(module: bytes, limit_mib: int) -> tuple[int, int]:
    """Return a module's initial and largest memory, in whole MiB; `limit_mib` if it states no maximum."""
    exports = Module(Engine(standard_config()), module).exports
    memory = next(export.type for export in exports if export.name == "memory")
    assert isinstance(memory, MemoryType)
    limits = memory.limits
    return _mib(limits.min), limit_mib if limits.max is None else min(limit_mib, _mib(limits.max))


def _mib(pages: int) -> int:
    return max(1, -(-pages * PAGE_BYTES // 2**20))
