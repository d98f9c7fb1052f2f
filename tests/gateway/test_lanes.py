"""Lanes: each board's is the same for ever, in every process, and boards are spread evenly over them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

from gateway.runtime.lanes import LANES, lane_of

GOLDEN = {
    "": 0,
    "arcade": 125,
    "cup": 228,
    "track.monza": 239,
    "track.Überholspur": 66,
    "123456789": 0x26,
}
"""Lanes as they were when the first were given out. 0xCBF43926 is CRC-32's check value of `123456789`."""


def test_a_lane_never_changes() -> None:
    """A board's lane is what it was in the first deployment; rows and keys are named by it."""
    assert LANES == 256
    assert {board: lane_of(board) for board in GOLDEN} == GOLDEN


def test_a_lane_is_the_same_in_every_process() -> None:
    """A process with another seed of Python's own hashes finds the same lanes."""
    program = "from gateway.runtime.lanes import lane_of; print([lane_of(f'track.{n}') for n in range(100)])"
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert answers == {f"{[lane_of(f'track.{number}') for number in range(100)]}\n"}


def test_boards_are_spread_evenly() -> None:
    """Of 100,000 boards of a family each lane has its share, give or take what chance would."""
    boards = Counter(lane_of(f"track.{number}") for number in range(100_000))
    share = 100_000 / LANES
    assert len(boards) == LANES
    # Five standard deviations of a binomial spread: about 390 +- 99.
    assert max(abs(count - share) for count in boards.values()) < 5 * share**0.5
