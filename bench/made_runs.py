"""Makes any number of distinct, real runs of the bundled game, ten times as fast as its headless players do.

A hand presses keys at random. Where the game ends the run too early, its last seconds are taken back and
played otherwise, until it has lasted for about a minute. Each attempt is one bulk call of the module, so a
run takes some 80 ms. The runs are as real as any: the game ended them, and gives their score.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import count
from multiprocessing import get_context
from typing import Final

from bench.replay import LONGEST_TICKS, MODULE, SHORTEST_TICKS, RecordedRun
from examples.arcade.players import (
    CHECKPOINT_TICKS,
    INWARD,
    LEFT,
    NOVA,
    OUTWARD,
    RIGHT,
    STATS,
    Arcade,
    BulkResult,
    Session,
)
from policies.vocabulary import Claim
from replay.recording import encode, pack_inputs

ATTEMPTS: Final = 400
"""Attempts before another seed is tried: one in a hundred leads to where no key helps."""

PLAYED_ON_TICKS: Final = 300
"""How much is played beyond the longest attempt yet."""

_WORDS: Final = (0, 0, LEFT, LEFT, RIGHT, RIGHT, OUTWARD, INWARD, LEFT | OUTWARD, RIGHT | INWARD, NOVA)


def made_runs(number: int, processes: int = 1) -> list[RecordedRun]:
    """Return so many runs of 50 to 75 seconds, the same every time."""
    if processes == 1:
        return [_made(first) for first in range(number)]
    with get_context("spawn").Pool(processes) as pool:
        return pool.map(_made, range(number), chunksize=8)


def _made(number: int) -> RecordedRun:
    runs = (_run_of(number * 1_000 + attempt) for attempt in count(1))
    return next(run for run in runs if run)


def _run_of(seed: int) -> RecordedRun | None:
    session, rng = _session(), random.Random(seed)
    longest: list[int] = []
    for _ in range(ATTEMPTS):
        kept = max(0, min(len(longest), LONGEST_TICKS) - 60 * 2 ** rng.randrange(4))
        words = longest[:kept] + list(_pressed(rng, len(longest) + PLAYED_ON_TICKS - kept))
        result = session.simulate(seed, words, CHECKPOINT_TICKS)
        if result.is_over and SHORTEST_TICKS <= result.ticks <= LONGEST_TICKS:
            return _recorded(seed, words[: result.ticks], result)
        if result.ticks >= len(longest):
            longest = words[: result.ticks]
    return None


def _recorded(seed: int, words: list[int], result: BulkResult) -> RecordedRun:
    inputs = pack_inputs(words)
    claim = Claim(result.score, result.ticks, dict(zip(STATS, result.stats, strict=True)))
    return RecordedRun(seed, claim, encode(inputs, result.checkpoints, CHECKPOINT_TICKS), inputs)


def _pressed(rng: random.Random, ticks: int) -> Iterator[int]:
    """Yield the words of keys that are held for some ten ticks each, as by a hand: skewed to the right."""
    while ticks > 0:
        held = min(ticks, max(3, int(rng.lognormvariate(2.3, 0.5))))
        yield from [rng.choice(_WORDS)] * held
        ticks -= held


@cache
def _session() -> Session:
    return Arcade(MODULE).open(1)
