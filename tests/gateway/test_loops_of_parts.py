"""What an edge and a steward do for ever, beside requests and duties: begun as they open, and over as they close."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.settings import Settings
from gateway.wiring import open_edge, open_steward

OF_EDGE: Final = {"builds", "presence", "lag", "clock", "owed", "live-feed"}
"""Builds that are blocked elsewhere, parts that come and go, what others could not show, the shared time, what it owes
itself, changes for listeners."""


def going_on() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


async def test_an_open_edge_keeps_up_with_everything_that_others_do(settings: Settings):
    """What each loop does is tested where it is called by hand; that nobody has to, here."""
    async with open_edge(settings):
        assert OF_EDGE <= going_on()
    assert not OF_EDGE & going_on()


async def test_an_open_steward_keeps_to_the_shared_clock(settings: Settings):
    """It does not go by what the clock said as it was opened."""
    async with open_steward(settings):
        assert "clock" in going_on()
    assert "clock" not in going_on()
