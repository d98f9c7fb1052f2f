"""What a simulation came to, in a form that is small enough to keep and exact enough to compare."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from replay.simulators import Simulation

Fingerprint = Mapping[str, Any]
"""Score, ticks, whether the run was over, statistics, the state's hash (hex), and the SHA-256 of the checkpoints (hex)."""


def fingerprint_of(simulation: Simulation) -> Fingerprint:
    """The fingerprint of a simulation. Fuel is not part of it: it is the engine's, and changes with its version."""
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
    """The names of what is not the same in all of these, in the order of their names; empty where all agree."""
    names = sorted({name for each in fingerprints for name in each})
    return [
        name for name in names if any(each.get(name) != fingerprints[0].get(name) for each in fingerprints)
    ]
