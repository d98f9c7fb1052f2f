"""The sandboxed process: reads questions from standard input, answers on standard output, ends with both.

Only `replay.simulators.sandbox` starts it. It imports what it needs, gives up everything else, and only then
reads its first question.
"""

from __future__ import annotations

import os

from policies.vocabulary import Reason
from replay.confined.confinement import confine, limit_next
from replay.simulators import SimulatorFault
from replay.simulators.frames import (
    ASSET,
    FAULT,
    HEADER,
    HELLO,
    LOAD,
    LOADED,
    SIMULATION,
    pack_fault,
    pack_simulation,
    unpack_asset,
    unpack_load,
    unpack_order,
)
from replay.simulators.wasm import Machine

COMPILE_WALL_MS = 60_000
"""Processor time for compiling a module. The parent's own limit is lower."""
READ, WRITE = 0, 1


def main(parent: int, machine: Machine | None = None) -> None:
    """Serve until the input ends, or the parent with process id `parent` does."""
    machine = machine or Machine()
    confine(parent)
    _write(HELLO)
    while (header := _read(HEADER.size)) is not None:
        kind, sequence, length = HEADER.unpack(header)
        payload = _read(length)
        if payload is None:
            return
        answer, body = _answer(machine, kind, payload)
        _write(HEADER.pack(answer, sequence, len(body)) + body)


def _answer(machine: Machine, kind: int, payload: bytes) -> tuple[int, bytes]:
    """Return the kind and payload of the answer to one question."""
    try:
        if kind == ASSET:
            machine.keep_asset(*unpack_asset(payload))
            return LOADED, b""
        return _load(machine, payload) if kind == LOAD else _run(machine, payload)
    except MemoryError:
        return _refuse(SimulatorFault(Reason.OUT_OF_MEMORY))


def _load(machine: Machine, payload: bytes) -> tuple[int, bytes]:
    limit_next(0, COMPILE_WALL_MS)
    fault = machine.load(*unpack_load(payload))
    return (LOADED, b"") if fault is None else _refuse(fault)


def _run(machine: Machine, payload: bytes) -> tuple[int, bytes]:
    order = unpack_order(payload)
    limit_next(order.memory_bytes, order.wall_ms)
    outcome = machine.run(order)
    return _refuse(outcome) if isinstance(outcome, SimulatorFault) else (SIMULATION, pack_simulation(outcome))


def _refuse(fault: SimulatorFault) -> tuple[int, bytes]:
    return FAULT, pack_fault(fault)


def _read(size: int) -> bytes | None:
    """Return the next `size` bytes of the input, or None if it ends first."""
    data, length = bytearray(size), 0
    view = memoryview(data)
    while length < size:
        more = os.readv(READ, [view[length:]])  # straight into its place: an asset has 8 MiB
        if not more:
            return None
        length += more
    return bytes(data)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(WRITE, view) :]
