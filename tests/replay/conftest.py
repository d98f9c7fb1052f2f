"""Simulators that are programs, as they are run with bubblewrap and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replay.simulators.process import ProcessSimulators
from tests.support.programs import need_bubblewrap, need_programs


@pytest.fixture(params=["inside", "alone"])
def programs(request: pytest.FixtureRequest) -> Iterator[ProcessSimulators]:
    """Programs in bubblewrap, and with limits alone."""
    need_programs()
    if request.param == "inside":
        need_bubblewrap()
    with ProcessSimulators(start_wall_ms=20_000, is_alone=request.param == "alone") as found:
        yield found
