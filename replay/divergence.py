"""Locates where a claim and its simulation diverge, as far as checkpoints tell, with the inputs there.

A recording holds a state hash every K ticks and nothing in between. So the first differing hash bounds the
divergence: after the previous checkpoint, and no later than its own. The simulation could be stepped through
those ticks but the claim cannot, so a recording gives no closer answer.
"""

from __future__ import annotations

import struct
from itertools import groupby, islice
from typing import Final

from policies.vocabulary import Divergence, InputRun
from replay.recording import Recording
from replay.simulators import Simulation

AROUND_TICKS: Final = 60
"""Ticks of context before and after those: a second in most games."""

INPUT_RUNS: Final = 128
"""Most input runs that are shown. Buttons are held for several ticks, so these are seconds of play."""

_WORD_BYTES: Final = 4


def divergence_of(played: Recording, simulation: Simulation) -> Divergence | None:
    """Return the first differing checkpoint with the inputs around it; None if all common ones agree.

    A run that ended early is compared up to its end.
    """
    if played.checkpoints == simulation.checkpoints:
        return None
    pairs = enumerate(zip(played.checkpoints, simulation.checkpoints, strict=False), 1)
    for number, (claimed, simulated) in pairs:
        if claimed != simulated:
            at_tick = number * played.checkpoint_ticks
            after_tick = at_tick - played.checkpoint_ticks
            return Divergence(
                after_tick, at_tick, claimed, simulated, inputs_around(played, after_tick, at_tick)
            )
    return None


def inputs_around(played: Recording, after_tick: int, at_tick: int) -> tuple[InputRun, ...]:
    """Return the inputs from shortly before `after_tick` to shortly after `at_tick`, at most `INPUT_RUNS`."""
    first = max(0, after_tick - AROUND_TICKS)
    last = min(played.ticks, at_tick + AROUND_TICKS)
    words = struct.unpack(f"<{last - first}I", played.inputs[first * _WORD_BYTES : last * _WORD_BYTES])
    tick, runs = first + 1, []
    for word, same in islice(groupby(words), INPUT_RUNS):
        length = sum(1 for _ in same)
        runs.append(InputRun(tick, length, word))
        tick += length
    return tuple(runs)
