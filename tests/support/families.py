"""A family of the tiny game's boards, and hands to open them with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.ledger import Ledger
from policies.opened_board import BoardState, OpenedBoard
from tests.support.boards import write_board

TRACKS = FamilyTerms("track", "sha256:tracks")


def write_family(folder: Path, family: str = "track", **changes: Any) -> Path:
    """A policy file of a family on whose boards any run of the tiny game is plausible."""
    path = write_board(folder, family, **changes)
    policy = json.loads(path.read_text())
    path.write_text(json.dumps({"family": policy.pop("board"), **policy}))
    return path


async def open_tracks(ledger: Ledger, *names: str, at_ms: int = 0, **facts: Any) -> list[BoardOutcome]:
    """Opens boards of the family, all with these facts."""
    batch = [OpenedBoard(name, "track", name.title(), **facts) for name in names]
    results = await ledger.write(open_boards(TRACKS, batch, actor="server:kart", at_ms=at_ms))
    return [result.outcome for result in results]


async def turn_tracks(ledger: Ledger, names: Iterable[str], state: BoardState, *, at_ms: int = 0) -> None:
    """Closes, reopens or deletes boards of the family."""
    await ledger.write(set_states(TRACKS, list(names), state, actor="cli", at_ms=at_ms))
