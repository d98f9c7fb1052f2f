"""Honest play by a driver, which most scenarios begin with."""

from __future__ import annotations

from typing import Any

from tests.clients.driver import Driver
from tests.clients.stage import Stage, claim
from tests.support.boards import BUILD

SCORES = r"^POST /v1/boards/[\w.]+/scores$"


def opened(driver: Driver, stage: Stage, board: str = "tiny", **how: Any) -> dict[str, Any]:
    """A run of a new player of this client."""
    driver.ask("open", **{"base_url": stage.url, **how})
    driver.ask("create_player", name="Ada")
    run: dict[str, Any] = driver.ask("open_run", board=board, build=BUILD)
    return run


def submitted(driver: Driver, run: dict[str, Any], points: int = 5, do: str = "submit") -> dict[str, Any]:
    """The receipt of an honest run."""
    receipt: dict[str, Any] = driver.ask(do, ticket=run["ticket"], **claim(run["seed"], points))
    return receipt
