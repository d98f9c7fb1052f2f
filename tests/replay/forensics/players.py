"""Players whose hands are known: honest ones, programs, slowed games, and thieves who change what they stole.

Each gives the words of a run, one for each tick at 60 a second. An honest hand is drawn as the literature has it: intervals
and lengths are log-normal, with a spread of some tens of percent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

TICKS_PER_SECOND = 60
MINUTE = 60 * TICKS_PER_SECOND


def pressed(presses: Sequence[tuple[NDArray, NDArray]], ticks: int) -> Words:
    """The words of a run in which button n is pressed at such ticks for such lengths."""
    words = np.zeros(ticks, np.uint32)
    for bit, (at, lengths) in enumerate(presses):
        for begin, length in zip(at.astype(int), lengths.astype(int), strict=True):
            words[begin : begin + max(1, length)] |= np.uint32(1 << bit)
    return words


def log_normal(rng: np.random.Generator, median: float, spread: float, count: int) -> NDArray:
    return median * np.exp(rng.normal(0, spread, count))


def hand(rng: np.random.Generator, *, interval: float, spread: float, length: float, ticks: int):
    """Presses of one button with a human scatter, all in ticks."""
    count = int(3 * ticks / interval) + 8
    intervals = log_normal(rng, interval, spread, count)
    lengths = np.minimum(log_normal(rng, length, 0.25, count), intervals * 0.8)
    at = np.cumsum(intervals) + rng.uniform(0, interval)
    within = at < ticks - 1
    return np.floor(at[within]), np.round(lengths[within])


def honest(seed: int, *, buttons: int = 4, ticks: int = MINUTE, spread: float = 0.4) -> Words:
    """Somebody who plays with several buttons, each every half a second to a second."""
    rng = np.random.default_rng(seed)
    medians = rng.uniform(25, 60, buttons)
    return pressed(
        [hand(rng, interval=m, spread=spread, length=rng.uniform(4.5, 9), ticks=ticks) for m in medians],
        ticks,
    )


def masher(seed: int, *, per_second: float = 8.0, ticks: int = MINUTE) -> Words:
    """A game of one button, which is tapped as fast as a hand can: even for a hand, with 10 % of scatter."""
    rng = np.random.default_rng(seed)
    interval = TICKS_PER_SECOND / per_second
    return pressed([hand(rng, interval=interval, spread=0.1, length=interval * 0.45, ticks=ticks)], ticks)


def drummer(seed: int, *, period: float = 30.0, ticks: int = MINUTE) -> Words:
    """A trained hand that keeps to a beat it has in mind: 4 % of scatter, which adds up (Wing and Kristofferson)."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(period * (1 + rng.normal(0, 0.04, int(ticks / period) - 2)))
    return pressed([(np.floor(at), np.round(log_normal(rng, 6, 0.15, at.size)))], ticks)


def analog(seed: int, *, ticks: int = MINUTE) -> Words:
    """A stick of eight bits that is never still, and a button."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(0, 6, ticks))
    stick = (128 + 100 * np.sin(walk / 60)).astype(np.uint32)
    return stick << np.uint32(1) | honest(seed, buttons=1, ticks=ticks)


def metronome(seed: int, *, period: float = 12.0, length: int = 4, ticks: int = MINUTE) -> Words:
    """A program that presses at fixed times; beside it a hand steers."""
    rng = np.random.default_rng(seed)
    at = np.floor(np.arange(rng.uniform(0, period), ticks - length - 1, period))
    steering = hand(rng, interval=40, spread=0.4, length=8, ticks=ticks)
    return pressed([steering, (at, np.full(at.size, length))], ticks)


def polled(seed: int, *, every: int = 6, ticks: int = MINUTE) -> Words:
    """A program that imitates a hand's intervals, but acts only every so many ticks."""
    rng = np.random.default_rng(seed)
    at, lengths = hand(rng, interval=36, spread=0.4, length=9, ticks=ticks)
    at = np.unique(at // every * every)
    return pressed([(at, np.round(lengths[: at.size]))], ticks)


def frame_perfect(seed: int, *, ticks: int = MINUTE) -> Words:
    """A program with a hand's intervals whose presses last a single tick."""
    rng = np.random.default_rng(seed)
    at, _ = hand(rng, interval=36, spread=0.4, length=6, ticks=ticks)
    return pressed([(at, np.ones(at.size))], ticks)


def slowed(seed: int, *, factor: float = 4.0, ticks: int = MINUTE) -> Words:
    """A hand at a game that runs `factor` times too slowly: in ticks everything is that much denser."""
    rng = np.random.default_rng(seed)
    hands = [
        hand(rng, interval=m / factor, spread=0.35, length=6 / factor, ticks=ticks) for m in (16, 20, 24)
    ]
    return pressed(hands, ticks)


def on_frames(words: Words, every: int) -> Words:
    """The same run on a device that draws, and asks for input, only every so many ticks."""
    return np.repeat(words[::every], every)[: words.size]


# What thieves do to a recording before they send it as their own.


def moved(words: Words, ticks: int) -> Words:
    """All of it later, or earlier, by some ticks."""
    return np.concatenate([np.zeros(ticks, np.uint32), words]) if ticks > 0 else words[-ticks:]


def with_noise(words: Words, seed: int, *, bit: int = 31, times: int = 200) -> Words:
    """A button pressed that the game does not know."""
    noisy = words.copy()
    noisy[np.random.default_rng(seed).choice(words.size, times, replace=False)] ^= np.uint32(1 << bit)
    return noisy


def edited(words: Words, seed: int, share: float) -> Words:
    """Some of the presses and releases moved by up to three ticks, and a few taken out."""
    rng = np.random.default_rng(seed)
    changed = np.flatnonzero(words[1:] != words[:-1]) + 1
    result = words.copy()
    for at in rng.choice(changed, int(changed.size * share), replace=False):
        by = int(rng.integers(1, 4))
        result[at : at + by] = result[at - 1]
    return result


def with_pauses(words: Words, seed: int, *, times: int = 10) -> Words:
    """Ticks put in here and there."""
    at = np.random.default_rng(seed).choice(words.size, times, replace=False)
    return np.insert(words, at, words[at])


def cut(words: Words, share: float) -> Words:
    """The end left off."""
    return words[: int(words.size * (1 - share))]
