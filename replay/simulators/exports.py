"""Calls the exports of a module's instance without looking up their types each time.

wasmtime's Python package creates an object for every export of an instance, and looks up a function's type at
each call: more than half the cost of a one-second run. The types are known, because a module runs only if it
keeps the interface. So this file calls the C interface below the package, in the one version that it is
pinned to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from wasmtime import Instance, Store, Trap, WasmtimeError
from wasmtime import _ffi as c

SIGNATURES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "abi_version": ((), ("i32",)),
    "start": (("i64",), ()),
    "tick": (("i32",), ("i32",)),
    "score": ((), ("i64",)),
    "state_hash": ((), ("i64",)),
    "inputs": (("i32",), ("i32",)),
    "simulate": (("i64", "i32", "i32"), ("i32",)),
}
"""Parameters and results of the functions of module interface version 1."""

CONTENT_SIGNATURES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "parameters": (("i32",), ("i32",)),
    "asset": (("i32",), ("i32",)),
}
"""The same of the functions that only a module exports that takes what a board gives it."""

_FUNCTIONS: Final = {**SIGNATURES, **CONTENT_SIGNATURES}
_KINDS: Final = {"i32": c.WASMTIME_I32.value, "i64": c.WASMTIME_I64.value}
_TAKES: Final = {
    name: (c.wasmtime_val_t * len(parameters), tuple((kind, _KINDS[kind]) for kind in parameters))
    for name, (parameters, _) in _FUNCTIONS.items()
}
_GIVES: Final = {
    name: (c.wasmtime_val_t * len(results), results) for name, (_, results) in _FUNCTIONS.items()
}


class Exports:
    """The exports of one instance, whose module is known to export the functions that are called."""

    def __init__(self, store: Store, instance: Instance) -> None:
        self._context = store._context()  # noqa: SLF001 - the package has no other way down
        self._instance = instance._instance  # noqa: SLF001
        self._functions: dict[str, Any] = {}
        self._memory = self._export("memory").of.memory

    def call(self, name: str, *arguments: int) -> int:
        """Return a function's result, signed; 0 if it has none. Raises Trap and WasmtimeError.

        An argument is taken modulo two to the number of its bits.
        """
        (parameters, kinds), (results, given) = _TAKES[name], _GIVES[name]
        values, answer = parameters(), results()
        for value, (kind, number), argument in zip(values, kinds, arguments, strict=True):
            value.kind = number
            setattr(value.of, kind, argument)
        trap = ctypes.POINTER(c.wasm_trap_t)()
        error = c.wasmtime_func_call(
            self._context, self._function(name), values, len(kinds), answer, len(given), ctypes.byref(trap)
        )
        if error:
            raise WasmtimeError._from_ptr(error)  # noqa: SLF001
        if trap:
            raise Trap._from_ptr(trap)  # noqa: SLF001
        return int(getattr(answer[0].of, given[0])) if given else 0

    @property
    def memory_bytes(self) -> int:
        """Return the current size of the memory."""
        return int(c.wasmtime_memory_data_size(self._context, ctypes.byref(self._memory)))

    @property
    def memory_address(self) -> int:
        """Return the current address of the memory in this process; growing may move it."""
        data = c.wasmtime_memory_data(self._context, ctypes.byref(self._memory))
        return ctypes.cast(data, ctypes.c_void_p).value or 0

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self._export(name)
        return ctypes.byref(self._functions[name].of.func)

    def _export(self, name: str) -> Any:
        export, text = c.wasmtime_extern_t(), name.encode()
        instance = ctypes.byref(self._instance)
        if not c.wasmtime_instance_export_get(self._context, instance, text, len(text), ctypes.byref(export)):
            raise WasmtimeError(f"the instance has no export {name}")
        return export
