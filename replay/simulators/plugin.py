"""Runs a studio's own verifier, a Python file with one function, in a confined child process.

The child reads no file: it receives the very bytes that have the digest. It imported what plug-ins may import
before it gave up its files (`replay.confined.plugin_child`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from typing import Final

from policies.digests import simulator_digest
from policies.vocabulary import Reason, SimulatorKind
from replay.confined.plugin_child import HELLO, LOADED
from replay.simulators import SimulationRequest, SimulatorFault
from replay.simulators.child_process import ChildDied, ChildTimedOut, SandboxUnavailable, boot, deadline_in
from replay.simulators.line_child import LineChild
from replay.simulators.line_protocol import VERSION, BrokenProtocolRule, ProtocolRule, question
from replay.simulators.line_simulators import LineSimulators

SOURCE_BYTES_LIMIT: Final = 1024 * 1024

HASH_SEED: Final = {"PYTHONHASHSEED": "0"}
"""The child's whole environment. It fixes the order of sets and dicts forever."""


class PluginSimulators(LineSimulators):
    """Python files, each in a warm child."""

    def engine_of(self, kind: SimulatorKind) -> str:  # noqa: ARG002 - it has one kind
        """Return the protocol and the interpreter, such as `json-lines 1, cpython 3.11.7`."""
        return f"json-lines {VERSION}, {platform.python_implementation().lower()} {platform.python_version()}"

    def _open(self, request: SimulationRequest) -> LineChild | SimulatorFault:
        source = _source(request)
        if isinstance(source, SimulatorFault):
            return source
        child = _Plugin(boot("replay.confined.plugin_child", hash_seed=True), environment=HASH_SEED)
        try:
            self._await_hello(child)
            fault = self._load(child, source, request)
        except BaseException:
            child.kill()
            raise
        if fault is None:
            return child
        fault = child.explained(fault)
        child.kill()
        return fault

    def _question(self, child: LineChild, request: SimulationRequest, number: int) -> bytes:
        """Return the line, followed by the bytes of an asset that the child does not hold."""
        assert isinstance(child, _Plugin)
        asset, held = request.asset, child.asset
        child.asset = asset.digest if asset else None
        if asset is None:
            return question(request, number)
        content = b"" if asset.digest == held else asset.content
        return question(request, number, len(content)) + content

    def _await_hello(self, child: LineChild) -> None:
        try:
            is_ready = child.ask(b"", len(HELLO) + 1, deadline_in(self._start_wall_ms)) == HELLO
        except (ChildTimedOut, ChildDied, BrokenProtocolRule):
            is_ready = False
        if not is_ready:
            words = child.last_words().decode("utf-8", "replace").strip()
            raise SandboxUnavailable(f"the plug-in's process did not start: {words or 'it said nothing'}")

    def _load(self, child: LineChild, source: bytes, request: SimulationRequest) -> SimulatorFault | None:
        """Return None once the child has compiled the file and run it once, as on import; else the fault."""
        budget = request.budget
        order = {
            "source": base64.b64encode(source).decode("ascii"),
            "memory_bytes": budget.memory_mib * 1024 * 1024,
            "wall_ms": budget.wall_ms,
        }
        deadline = deadline_in(budget.wall_ms)
        try:
            is_loaded = child.ask(json.dumps(order).encode() + b"\n", len(LOADED) + 1, deadline) == LOADED
        except ChildTimedOut:
            return SimulatorFault(Reason.TIMED_OUT, {"wall_ms": budget.wall_ms})
        except ChildDied:
            return child.cause_of_death()
        except BrokenProtocolRule as broken:
            return broken.as_fault()
        return None if is_loaded else BrokenProtocolRule(ProtocolRule.FIELDS).as_fault()


class _Plugin(LineChild):
    """A child, and the digest of the one asset that it holds."""

    asset: bytes | None = None


def _source(request: SimulationRequest) -> bytes | SimulatorFault:
    try:
        with request.module.open("rb") as file:
            source = file.read(SOURCE_BYTES_LIMIT + 1)
    except OSError:
        return SimulatorFault(Reason.SIMULATOR_MISSING)
    if len(source) > SOURCE_BYTES_LIMIT:
        return SimulatorFault(Reason.SIMULATOR_UNUSABLE)
    is_right = simulator_digest(hashlib.sha256(source).hexdigest(), {}) == request.digest
    return source if is_right else SimulatorFault(Reason.SIMULATOR_MISSING)
