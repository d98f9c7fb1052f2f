"""Explains to a simulator's author why it gave no simulation."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from wasmtime import TrapCode

from policies.vocabulary import Reason
from replay.simulators import SimulatorFault
from replay.simulators.line_protocol import ProtocolRule
from replay.simulators.wasm import ModuleRule

_BROKEN: Final[Mapping[int, str]] = {
    ModuleRule.VALID_WASM: "it is not a WebAssembly module that is accepted",
    ModuleRule.NO_IMPORTS: "it has imports",
    ModuleRule.EXPORTS: "it lacks an export, or one has another type",
    ModuleRule.VERSION: "its `abi_version` is not 1",
    ModuleRule.INPUT_ROOM: "its `inputs` returns no room for the inputs",
    ModuleRule.RESULT_ADDRESS: "its `simulate` returns no address of a result",
    ModuleRule.RESULT_CONTENT: "its result breaks the module interface",
    ModuleRule.PARAMETERS: "it takes no parameters, or not as many, and its board has some",
    ModuleRule.ASSET: "it takes no asset, or none as large, and its board has one",
    ProtocolRule.STRICT_JSON: "its answer is not a line of strict JSON",
    ProtocolRule.FIELDS: "its answer lacks a field, or has one that is unknown or of another type",
    ProtocolRule.TICKS: "it played more ticks than it was asked for",
    ProtocolRule.STATS: "its statistics are not those of `replay.stats`",
    ProtocolRule.CHECKPOINTS: "its checkpoints do not fit the ticks",
    ProtocolRule.ONE_LINE: "it answered more than one line, or before it was asked",
    ProtocolRule.OUTPUT: "it wrote too much",
    ProtocolRule.ANOTHER_QUESTION: "it answered before it was asked, or another question",
}


def cause_of(fault: SimulatorFault) -> str:
    """Return what went wrong, with the simulator's own words, which may have several lines."""
    cause = _cause(fault)
    return f"{cause}: {fault.said}" if fault.said else cause


def _cause(fault: SimulatorFault) -> str:
    detail = fault.detail
    match fault.reason:
        case Reason.TIMED_OUT if "wall_ms" in detail:
            return f"it did not answer within {detail['wall_ms']} ms"
        case Reason.SIMULATOR_UNUSABLE if detail.get("broken_rule") in _BROKEN:
            return _BROKEN[detail["broken_rule"]]
        case Reason.SIMULATOR_TRAPPED:
            return _crash(detail)
    return fault.reason.meaning.removesuffix(".")


def _crash(detail: Mapping[str, int]) -> str:
    """Return how it ended: by its exit status, a signal, or a module's trap."""
    with suppress(ValueError):
        if "signal" in detail:
            return f"it was ended by {signal.Signals(detail['signal']).name}"
        if "trap" in detail:
            return f"it trapped: {TrapCode(detail['trap']).name.lower().replace('_', ' ')}"
    if "exit_status" in detail:
        return f"it ended with status {detail['exit_status']}"
    return "it failed"
