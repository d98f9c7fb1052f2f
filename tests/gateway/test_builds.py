"""The registry of builds in memory: what it knows holds while the ledger is away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.settlement.builds import BuildRegistry
from policies.errors import LedgerUnavailable
from policies.replaying import BuildStatus
from tests.support import boards
from tests.support.boards import BUILD


class Ledger:
    """A ledger that says what it is told to, or cannot be read."""

    def __init__(self) -> None:
        self.statuses: dict[tuple[str, str], BuildStatus] | None = {}
        self.reads = 0

    async def read(self, *_: Any) -> Any:
        self.reads += 1
        if self.statuses is None:
            raise LedgerUnavailable
        return self.statuses


async def test_what_was_read_last_holds_while_the_ledger_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A block outlives an outage; before the first reading nothing is believed."""
    monkeypatch.setattr("gateway.settlement.builds.REFRESH_S", 0.0)
    ledger, board = Ledger(), boards.board(tmp_path)
    registry = BuildRegistry(ledger)  # type: ignore[arg-type]
    ledger.statuses = None
    with pytest.raises(LedgerUnavailable):
        await registry.refresh_if_old()
    ledger.statuses = {("tiny", BUILD): BuildStatus.BLOCKED}
    await registry.refresh_if_old()
    ledger.statuses = None
    await registry.refresh_if_old()

    assert BuildStatus.BLOCKED is registry.status_of(board, BUILD)


async def test_looking_a_status_up_asks_the_ledger_nothing(tmp_path: Path):
    """One reading serves every submission until it is old."""
    ledger, board = Ledger(), boards.board(tmp_path)
    registry = BuildRegistry(ledger)  # type: ignore[arg-type]
    for _ in range(100):
        await registry.refresh_if_old()
        registry.status_of(board, BUILD)

    assert 1 == ledger.reads


async def test_the_ledger_is_above_the_policy(tmp_path: Path):
    """The policy's status holds where the ledger says nothing; what neither knows is allowed."""
    module = str(boards.board(tmp_path).simulators[BUILD].path)
    builds = {name: {"simulator": module, "status": "provisional"} for name in ("a", "b")}
    board = boards.board(tmp_path, builds=builds)
    ledger = Ledger()
    ledger.statuses = {("tiny", "a"): BuildStatus.ALLOW, ("huge", "b"): BuildStatus.BLOCKED}
    registry = BuildRegistry(ledger)  # type: ignore[arg-type]
    await registry.refresh()

    statuses = [registry.status_of(board, each) for each in ("a", "b", "c")]
    assert [BuildStatus.ALLOW, BuildStatus.PROVISIONAL, BuildStatus.ALLOW] == statuses


async def test_the_boards_of_a_family_have_their_builds_in_common(tmp_path: Path):
    """A build that is blocked for the family is blocked on each of them."""
    ledger, own = Ledger(), boards.board(tmp_path)
    ledger.statuses = {("track", "b-1"): BuildStatus.BLOCKED}
    registry = BuildRegistry(ledger)  # type: ignore[arg-type]
    await registry.refresh()

    tracks = [
        replace(own, policy=own.policy.model_copy(update={"board": f"track.{name}"}), family="track")
        for name in ("monza", "spa")
    ]
    statuses = [registry.status_of(board, build) for board in tracks for build in ("b-1", "b-2")]
    assert [BuildStatus.BLOCKED, BuildStatus.ALLOW] * 2 == statuses


async def test_what_is_old_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A build that is blocked elsewhere is blocked here with the next reading, and one that is let go is let go."""
    ledger, board = Ledger(), boards.board(tmp_path)
    registry = BuildRegistry(ledger)  # type: ignore[arg-type]
    told = []
    for status in (BuildStatus.BLOCKED, BuildStatus.ALLOW):
        ledger.statuses = {("tiny", BUILD): status}
        await registry.refresh_if_old()
        told.append(registry.status_of(board, BUILD))
        monkeypatch.setattr("gateway.settlement.builds.REFRESH_S", 0.0)
    assert ([BuildStatus.BLOCKED, BuildStatus.ALLOW], 2) == (told, ledger.reads)
