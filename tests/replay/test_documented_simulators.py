"""The programs that the reference shows can be copied from it, and they work."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from policies.vocabulary import SimulatorKind
from replay.simulators import MalformedRecording, Simulation
from replay.simulators.all_simulators import AllSimulators
from tests.support.programs import need_programs, request, write

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def last_python(page: str) -> str:
    blocks = re.findall(r"```python\n(.*?)^```", (REFERENCE / page).read_text(), re.MULTILINE | re.DOTALL)
    return str(blocks[-1])


def test_the_smallest_program(tmp_path: Path) -> None:
    """simulator-process.md: a run of 600 ticks of which every other one scores."""
    need_programs()
    asked = request(write(tmp_path, last_python("simulator-process.md")), words=[0, 1] * 300)
    with AllSimulators() as simulators:
        found = simulators.simulate(replace(asked, stats=()))
    assert isinstance(found, Simulation), found
    assert (600, True, 3000, 12) == (found.ticks, found.is_over, found.score, len(found.checkpoints))


def test_the_plugin(tmp_path: Path) -> None:
    """simulator-plugin.md: squares of lengths, out of a format of the game's own."""
    simulator = write(tmp_path, last_python("simulator-plugin.md"), "words.py")
    asked = request(simulator, SimulatorKind.PLUGIN, words=[], recording=b"WRD\x03\x05")
    with AllSimulators() as simulators:
        found = simulators.simulate(replace(asked, stats=("longest",)))
        other = simulators.simulate(replace(asked, stats=("longest",), recording=b"PNG"))
    assert isinstance(found, Simulation), found
    assert (2, 34, (5,)) == (found.ticks, found.score, found.stats)
    assert MalformedRecording() == other
