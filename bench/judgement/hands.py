"""Makes the input words of a run: a hand's, a program's, a slowed game's, a thief's.

Honest timing is a model. Intervals and lengths of presses are log-normal like keystrokes: skewed to the
right, with a scatter of some tens of percent, and people differ by as much (Dhakal, Feit, Kristensson and
Oulasvirta, "Observations on Typing from 136 Million Keystrokes", CHI 2018: 239 ms from key to key, 112 ms of
standard deviation between people, keys down for 116 ms). One account in twenty is even, with a scatter of 10
% (people who tap along with a beat scatter by 4 % at best: Repp, "Sensorimotor synchronization", Psychonomic
Bulletin & Review 12, 2005). One in ten plays on a device that reads input thirty times a second.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from tests.replay.forensics import players
from tests.replay.forensics.players import Words

BUTTONS: Final = 4
EVEN_SHARE: Final = 0.05
SLOW_DEVICE_SHARE: Final = 0.1
METRONOME_TICKS: Final = 12.0


class Style(StrEnum):
    """The kind of player that pressed the buttons."""

    HAND = "hand"
    PROGRAM = "program"
    METRONOME = "metronome"


class Hand(NamedTuple):
    """Everything that decides the words of a run.

    `owner` and `run` are the seeds of the account and of the run. `strength` is the slowdown of the game for
    a hand, and the scatter of a metronome. `change` is what a thief did to the words, with the seed
    `change_seed`.
    """

    style: Style
    owner: int
    run: int
    ticks: int
    strength: float = 0.0
    change: str = ""
    change_seed: int = 0


CHANGES: Final[dict[str, Callable[[Words, int], Words]]] = {
    "": lambda words, _: words,
    "a tick later": lambda words, _: players.moved(words, 1),
    "an unused button pressed": players.with_noise,
    "2 % edited": lambda words, seed: players.edited(words, seed, 0.02),
    "5 % edited": lambda words, seed: players.edited(words, seed, 0.05),
    "10 % edited": lambda words, seed: players.edited(words, seed, 0.10),
    "a fifth cut off": lambda words, _: players.cut(words, 0.2),
}
"""A thief's changes to a recording."""


def words_of(hand: Hand, inputs: bytes = b"") -> Words:
    """Return the words of the run, one per tick, always the same. `inputs` are those of a program."""
    if hand.style is Style.PROGRAM:
        words = np.frombuffer(inputs, "<u4").astype(np.uint32)
    elif hand.style is Style.METRONOME:
        words = _metronome(hand)
    else:
        words = _pressed(hand)
    return CHANGES[hand.change](words, hand.change_seed)


def _pressed(hand: Hand) -> Words:
    own, rng = np.random.default_rng([1, hand.owner]), np.random.default_rng([2, hand.run])
    slowness = max(1.0, hand.strength)
    scatter = own.uniform(0.25, 0.6) if own.random() >= EVEN_SHARE else 0.1
    on_slow_device = own.random() < SLOW_DEVICE_SHARE
    words = np.zeros(hand.ticks, np.uint32)
    for bit in range(BUTTONS):
        interval = np.exp(own.uniform(np.log(14), np.log(60))) / slowness
        length = min(own.uniform(4.5, 11) / slowness, interval / 2)
        intervals = interval * np.exp(rng.normal(0, scatter, int(3 * hand.ticks / interval) + 8))
        lengths = np.minimum(length * np.exp(rng.normal(0, 0.6 * scatter, intervals.size)), intervals * 0.8)
        _press(words, bit, np.cumsum(intervals) + rng.uniform(0, interval), lengths)
    words = np.bitwise_xor.accumulate(words)
    return players.on_frames(words, 2) if on_slow_device else words


def _metronome(hand: Hand) -> Words:
    """Return words with one button at fixed times and lengths, within a scatter; a hand uses the others."""
    rng = np.random.default_rng([3, hand.run])
    words = _pressed(hand._replace(style=Style.HAND, strength=0.0)) & np.uint32(~1 & 0xF)
    at = np.arange(rng.uniform(0, METRONOME_TICKS), hand.ticks, METRONOME_TICKS)
    at += rng.normal(0, hand.strength * METRONOME_TICKS, at.size)
    toggled = np.zeros(hand.ticks, np.uint32)
    lengths = METRONOME_TICKS / 3 * (1 + rng.normal(0, hand.strength, at.size))
    _press(toggled, 0, np.sort(at.clip(0)), lengths)
    return words | np.bitwise_xor.accumulate(toggled)


def _press(toggled: Words, bit: int, at: np.ndarray, lengths: np.ndarray) -> None:
    """Toggle a button at the ticks of presses, in order, and of releases. Presses without room merge."""
    down = np.floor(at).astype(np.int64)
    down = down[np.append(True, np.diff(down) > 1)]
    up = down + np.maximum(1, np.round(lengths[: down.size]).astype(np.int64))
    up[:-1] = np.minimum(up[:-1], down[1:] - 1)
    toggles = np.concatenate([down, up])
    np.bitwise_xor.at(toggled, toggles[toggles < toggled.size], np.uint32(1 << bit))
