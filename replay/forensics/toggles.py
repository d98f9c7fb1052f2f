"""The toggles of all buttons of many recordings, laid end to end.

A run of a minute has a few hundred of them, for which numpy takes less time than for being called. So each
step is one call for many recordings of a job. The results are those of each recording alone.

A client may send a recording with half a million toggles in 64 KiB: 32 buttons that all change in every tick.
One step takes up to 140 bytes for each toggle, so what has more than TOGETHER is taken button by button.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replay.forensics.inputs import Button, Inputs, Ticks

TOGETHER: Final = 131_072
"""Toggles that are laid end to end at most, unless one button has more: 18 MB with what is made of them."""


@dataclass(frozen=True, slots=True)
class Toggles:
    """The ticks at which buttons toggled, button after button and recording after recording.

    The toggles of one button begin at one of `starts`, whose last one is the end. `bits` and `owners` have
    each button's bit and the number of its recording.
    """

    ticks: Ticks
    starts: Ticks
    bits: Ticks
    owners: Ticks

    def buttons(self) -> list[tuple[int, Button]]:
        """Return each button, after the number of its recording."""
        bounds, numbers = self.starts.tolist(), zip(self.owners.tolist(), self.bits.tolist(), strict=True)
        return [
            (owner, Button(bit, self.ticks[begin:end]))
            for (owner, bit), begin, end in zip(numbers, bounds, bounds[1:], strict=False)
        ]


def toggles_of(recordings: Sequence[Inputs]) -> Toggles:
    """Return the toggles of all buttons that were used, the lowest bit of a recording first."""
    changes = _joined([each.changes for each in recordings], np.uint32)
    changed_at = _joined([each.changed_at for each in recordings], np.int64)
    owners = np.arange(len(recordings)).repeat([each.changes.size for each in recordings])
    used = int(np.bitwise_or.reduce(changes, initial=0))
    bits = [bit for bit in range(32) if used >> bit & 1]
    toggled = [np.flatnonzero(changes >> np.uint32(bit) & np.uint32(1)) for bit in bits]
    places = _joined(toggled, np.int64)
    buttons = owners[places] * 32 + np.repeat(bits, [each.size for each in toggled]).astype(np.int64)
    in_order = buttons.argsort(kind="stable")
    buttons = buttons[in_order]
    begins = np.flatnonzero(np.diff(buttons, prepend=-1))
    firsts = buttons[begins]
    return Toggles(changed_at[places[in_order]], np.append(begins, buttons.size), firsts % 32, firsts // 32)


def parts_of(inputs: Inputs) -> Iterator[Toggles]:
    """Yield the toggles of a recording, all at once or, where they are many, of one button after another."""
    if inputs.toggle_count <= TOGETHER:
        yield toggles_of([inputs])
        return
    for bit in inputs.bits:
        ticks = inputs.button(bit).toggles
        yield Toggles(ticks, np.array([0, ticks.size]), np.array([bit]), np.array([0]))


def _joined(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)
