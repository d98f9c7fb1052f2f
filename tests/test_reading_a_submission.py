"""What a newcomer reads of a submission, from the socket to the board: the list in the architecture is what runs."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from replay.simulators.sandbox import Sandbox
from tests.support.clock import ShiftedClock
from tests.support.harness import Harness, running_harness

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
MOST_FILES: Final = 15


def listed() -> list[tuple[str, str]]:
    """Return (file, function) of each step that the page names, in its order."""
    section = PAGE.read_text(encoding="utf-8").split("\n### Reading a submission\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", section, flags=re.MULTILINE)


class Calls:
    """The functions of the product that were called, each at its first call."""

    def __init__(self) -> None:
        self.first: dict[tuple[str, str], None] = {}
        self.is_noting = False

    def note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and self.is_noting:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(ROOT):
                self.first.setdefault((str(file.relative_to(ROOT)), frame.f_code.co_qualname))

    @contextmanager
    def profiled(self) -> Iterator[None]:
        """Note what this thread, and every thread that begins meanwhile, calls."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


async def calls_of_a_submission(harness: Harness, calls: Calls, sandbox: Sandbox) -> None:
    """Submit an honest run, have a steward hand it out, and verify it as a worker does."""
    run, claim = await harness.played()
    request = harness.signed(run, claim)
    calls.is_noting = True
    assert (await harness.send(request)).status == 202
    await harness.steward().dispatch()
    assert await harness.verify(run.id, sandbox=sandbox) == 1
    calls.is_noting = False
    assert await harness.state_of(run.id) == "promoted"


@pytest.fixture
async def calls(settings: Any, sandbox: Sandbox) -> Calls:
    calls = Calls()
    with calls.profiled():
        async with running_harness(settings, ShiftedClock()) as harness:
            await calls_of_a_submission(harness, calls, sandbox)
    return calls


async def test_a_submission_is_read_in_few_files_in_the_order_in_which_they_run(calls: Calls):
    """The page's steps are all called by a submission that is settled, in their order."""
    steps = listed()
    assert MOST_FILES >= len({file for file, _ in steps}) > 0
    called = list(calls.first)
    assert steps == [step for step in called if step in steps]
