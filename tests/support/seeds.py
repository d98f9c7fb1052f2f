"""The seed of every random fault: the same unless the environment names another."""

from __future__ import annotations

import os
import sys

VARIABLE = "FAULTS_SEED"
DEFAULT = 20_261_120


def fault_seed() -> int:
    """The seed of this run. It is printed, and pytest shows what was printed where a test fails."""
    seed = int(os.environ.get(VARIABLE, DEFAULT))
    sys.stdout.write(f"{VARIABLE}={seed}\n")
    return seed
