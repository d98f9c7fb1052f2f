"""No test can hang a run: a thread that waits for ever outlives the time-out of its test, and its process with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.standstill import standstill

TESTS: Final = Path(__file__).parent
WAITS_FOR_EVER: Final = re.compile(r"threading\.(Event|Semaphore|BoundedSemaphore|Barrier|Condition)\(")


def test_threads_of_tests_stand_still_in_one_place():
    """Whatever one thread of a test waits for another to do goes through `tests.support.standstill`, which ends."""
    ours = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    assert [] == [str(path) for path in ours if WAITS_FOR_EVER.search(path.read_text())]


async def test_what_stands_still_goes_on_when_a_test_fails():
    """Nobody is kept once the block is left, by an error too, and who comes later is not kept at all."""
    with pytest.raises(ZeroDivisionError), standstill() as held_up:
        raise ZeroDivisionError
    held_up.stand()
    await held_up.reached()
