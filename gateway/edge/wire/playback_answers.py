"""The models of what a browser needs to play a recording, and of where its replay differed."""

from __future__ import annotations

from typing import Literal

from gateway.edge.wire.fields import Answer


class DivergenceShown(Answer):
    """The stretch in which claim and replay part: after `after_tick`, and no later than `at_tick`.

    `claimed` and `simulated` are the state hashes after `at_tick`, in 16 hexadecimal digits.
    """

    after_tick: int
    at_tick: int
    claimed: str
    simulated: str


class SimulatedShown(Answer):
    """The result of the newest replay by a worker."""

    score: int
    ticks: int
    stats: dict[str, int]


class PlaybackShown(Answer):
    """What a player page gets besides the recording, and what the newest replay by a worker said.

    `page` is the studio's player page, null if the policy names none. `buttons` names the bits of an input
    word, lowest first; `button_mask` has the bits that the board says are buttons. `recording` is the form of
    the recording: `raw` is the game's own. `parameters` and `asset_url` are those of an opened run.
    `divergence` and `simulated` are null where the newest replay has none.
    """

    page: str | None
    buttons: list[str]
    button_mask: int
    seed: str
    build: str
    simulator: str
    parameters: str | None
    asset_url: str | None
    ticks_per_second: int
    maximum_ticks: int | None
    recording: Literal["scoregate", "raw"]
    divergence: DivergenceShown | None
    simulated: SimulatedShown | None
