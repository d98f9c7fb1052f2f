"""The inputs of a recording, as buttons that go down and up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from policies.judging import ALL_BITS

MOST_WORDS = 64
"""With more different words than this, they are not buttons but numbers, as of a stick or a pointer.

Two hands reach few combinations of the buttons they hold; one axis of eight bits runs through hundreds of
values.
"""

Ticks = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Button:
    """One bit of the words, and the ticks at which it toggled, beginning with a press."""

    bit: int
    toggles: Ticks

    @property
    def presses(self) -> Ticks:
        """Return the ticks at which it went down."""
        return self.toggles[::2]

    @property
    def lengths(self) -> Ticks:
        """Return how many ticks each press lasted, without a press that the end of the run cut off."""
        releases = self.toggles[1::2]
        return releases - self.presses[: releases.size]


@dataclass(frozen=True)
class Inputs:
    """The words of a run, one for each tick as they were recorded, and where their buttons change.

    `mask` has the bits that are buttons: all of them, unless the board names some.
    """

    recorded: NDArray[np.uint32]
    mask: np.uint32
    changed_at: Ticks
    changes: NDArray[np.uint32]

    @property
    def ticks(self) -> int:
        """Return the length of the run."""
        return int(self.recorded.size)

    @property
    def reached(self) -> NDArray[np.uint32]:
        """Return the buttons that are down after each change."""
        return self.recorded[self.changed_at] & self.mask

    @property
    def are_named(self) -> bool:
        """Return whether the board says which bits are buttons."""
        return bool(self.mask != ALL_BITS)

    def words(self, ticks: int) -> NDArray[np.uint32]:
        """Return the buttons that are down in each of the first ticks."""
        return self.recorded[:ticks] & self.mask

    @cached_property
    def is_analog(self) -> bool:
        """Return whether the words are numbers, which neither go down nor up."""
        # Named buttons count as buttons, or a program could hide behind some that it presses at random.
        return not self.are_named and np.unique(self.reached).size > MOST_WORDS

    @property
    def bits(self) -> list[int]:
        """Return the bits that were used, lowest first."""
        used = int(np.bitwise_or.reduce(self.changes, initial=0))
        return [bit for bit in range(32) if used >> bit & 1]

    @property
    def toggle_count(self) -> int:
        """Return how often its buttons toggled in all."""
        return int(np.bitwise_count(self.changes).sum(dtype=np.int64))

    def button(self, bit: int) -> Button:
        """Return the button of a bit."""
        return Button(bit, self.changed_at[(self.changes >> np.uint32(bit)) & 1 == 1])

    @cached_property
    def buttons(self) -> Sequence[Button]:
        """Return the buttons of the bits that were used, lowest first."""
        return [self.button(bit) for bit in self.bits]

    @cached_property
    def presses(self) -> Ticks:
        """Return the ticks of all presses of all buttons, in order."""
        ticks = [button.presses for button in self.buttons]
        return np.sort(np.concatenate(ticks)) if ticks else np.empty(0, np.int64)


def inputs_of(packed: bytes, buttons: int) -> Inputs:
    """Return the inputs in `packed`, little-endian u32 words. Bits outside the mask `buttons` are ignored."""
    recorded, mask = np.frombuffer(packed, "<u4"), np.uint32(buttons)
    changes = recorded & mask
    changes[1:] ^= changes[:-1].copy()
    changed_at = np.flatnonzero(changes)
    return Inputs(recorded, mask, changed_at, changes[changed_at])
