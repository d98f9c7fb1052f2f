"""The bytes between the sandbox and its child: numbered frames of fixed layouts, all little-endian.

A frame is a header (kind u8, sequence u32, length u32) and `length` bytes. The parent sends LOAD, ASSET or
ORDER; the child answers LOADED, SIMULATION or FAULT with the sequence number of the question. No answer
contains text, so nothing that a module or a broken child writes can reach a log or a moderator's screen.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from policies.vocabulary import Reason
from replay.simulators import Simulation, SimulatorFault

HELLO = b"SGC1"
"""What a child writes once it is confined and ready."""

LOAD, ORDER, LOADED, SIMULATION, FAULT, ASSET = 1, 2, 3, 4, 5, 6

HEADER = struct.Struct("<BII")
STATS_LIMIT = 16
"""As many statistics as a policy can name (policies.replaying.Replay.stats)."""

_DIGEST_BYTES = len("sha256:") + 64
_ORDER = struct.Struct(f"<{_DIGEST_BYTES}sQIIQQII32s")
_NO_ASSET = bytes(32)
_SIMULATION = struct.Struct("<IIqQQII")
_FAULT = struct.Struct("<B4q")
FAULT_BYTES = _FAULT.size
_REASONS = (
    Reason.OUT_OF_FUEL,
    Reason.TIMED_OUT,
    Reason.OUT_OF_MEMORY,
    Reason.SIMULATOR_TRAPPED,
    Reason.SIMULATOR_MISSING,
    Reason.SIMULATOR_UNUSABLE,
)
_NUMBERS = ("fuel", "memory_bytes", "trap", "broken_rule")
_ABSENT = -1


class WireError(Exception):
    """The bytes are not a frame of this protocol."""


@dataclass(frozen=True, slots=True)
class SimulationOrder:
    """A simulation as the child receives it: the request without its path, with its budget.

    `asset` is the digest of the asset to play with, which the child was given before; empty for none.
    """

    digest: str
    seed: int
    ticks: int
    checkpoint_ticks: int
    fuel: int
    memory_bytes: int
    wall_ms: int
    inputs: bytes
    parameters: bytes = b""
    asset: bytes = b""


def pack_load(digest: str, module: bytes) -> bytes:
    """Return the payload of LOAD: a module and the digest it should have."""
    return digest.encode("ascii").ljust(_DIGEST_BYTES) + module


def unpack_load(payload: bytes) -> tuple[str, bytes]:
    """Return digest and module of a LOAD."""
    return payload[:_DIGEST_BYTES].decode("ascii"), payload[_DIGEST_BYTES:]


def pack_order(order: SimulationOrder) -> bytes:
    """Return the payload of ORDER."""
    numbers = (order.seed, order.ticks, order.checkpoint_ticks, order.fuel, order.memory_bytes, order.wall_ms)
    head = _ORDER.pack(
        order.digest.encode("ascii"), *numbers, len(order.parameters), order.asset or _NO_ASSET
    )
    return head + order.parameters + order.inputs


def unpack_order(payload: bytes) -> SimulationOrder:
    """Return the order in an ORDER."""
    digest, *numbers, size, asset = _ORDER.unpack_from(payload)
    seed, ticks, checkpoint_ticks, fuel, memory_bytes, wall_ms = numbers
    parameters_end = _ORDER.size + size
    return SimulationOrder(
        digest.decode("ascii"),
        seed,
        ticks,
        checkpoint_ticks,
        fuel,
        memory_bytes,
        wall_ms,
        inputs=payload[parameters_end:],
        parameters=payload[_ORDER.size : parameters_end],
        asset=b"" if asset == _NO_ASSET else asset,
    )


def pack_asset(digest: bytes, content: bytes) -> bytes:
    """Return the payload of ASSET: a board's asset, which replaces the one before."""
    return digest + content


def unpack_asset(payload: bytes) -> tuple[bytes, bytes]:
    """Return digest and content of an ASSET."""
    return payload[:32], payload[32:]


def simulation_limit(ticks: int, checkpoint_ticks: int) -> int:
    """Return the maximum bytes of the answer to an order."""
    checkpoints = ticks // checkpoint_ticks if checkpoint_ticks else 0
    return max(FAULT_BYTES, _SIMULATION.size + 8 * (STATS_LIMIT + checkpoints))


def pack_simulation(simulation: Simulation) -> bytes:
    """Return the payload of SIMULATION."""
    stats, checkpoints = simulation.stats, simulation.checkpoints
    head = (simulation.ticks, simulation.is_over, simulation.score, simulation.state_hash, simulation.fuel)
    return _SIMULATION.pack(*head, len(stats), len(checkpoints)) + struct.pack(
        f"<{len(stats)}q{len(checkpoints)}Q", *stats, *checkpoints
    )


def unpack_simulation(payload: bytes) -> Simulation:
    """Return the simulation in a SIMULATION. Raises WireError."""
    try:
        ticks, is_over, score, state_hash, fuel, stats, checkpoints = _SIMULATION.unpack_from(payload)
        numbers = struct.unpack(f"<{min(stats, STATS_LIMIT)}q{checkpoints}Q", payload[_SIMULATION.size :])
    except struct.error:
        raise WireError from None
    return Simulation(ticks, bool(is_over), score, state_hash, numbers[:stats], numbers[stats:], fuel)


def pack_fault(fault: SimulatorFault) -> bytes:
    """Return the payload of FAULT. It keeps the numbers of the detail that this protocol names."""
    numbers = (fault.detail.get(name, _ABSENT) for name in _NUMBERS)
    return _FAULT.pack(_REASONS.index(fault.reason), *numbers)


def unpack_fault(payload: bytes) -> SimulatorFault:
    """Return the fault in a FAULT. Raises WireError."""
    try:
        reason, *numbers = _FAULT.unpack(payload)
        detail: Mapping[str, int] = {n: v for n, v in zip(_NUMBERS, numbers, strict=True) if v != _ABSENT}
        return SimulatorFault(_REASONS[reason], detail)
    except (struct.error, IndexError):
        raise WireError from None
