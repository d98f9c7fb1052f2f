"""The fingerprint of a simulation: small enough to keep and exact enough to compare."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from replay.simulators import Simulation

Fingerprint = Mapping[str, Any]
"""Score, ticks, whether the run was over, statistics, state hash (hex), and the SHA-256 of the checkpoints
(hex)."""


def fingerprint_of(simulation: Simulation) -> Fingerprint:
    """Return the fingerprint of a simulation, without its fuel, which changes with the engine's version."""
    hashes = simulation.checkpoints
    checkpoints = struct.pack(f"<{len(hashes)}Q", *hashes)
    return {
        "score": simulation.score,
        "ticks": simulation.ticks,
        "is_over": simulation.is_over,
        "stats": list(simulation.stats),
        "state_hash": f"{simulation.state_hash:016x}",
        "checkpoints": hashlib.sha256(checkpoints).hexdigest(),
    }


def differences(fingerprints: Sequence[Fingerprint]) -> list[str]:
    """Return the sorted names of the values that differ between fingerprints; empty if all agree."""
    names = sorted({name for fingerprint in fingerprints for name in fingerprint})
    first = fingerprints[0] if fingerprints else {}
    return [name for name in names if any(other.get(name) != first.get(name) for other in fingerprints)]
