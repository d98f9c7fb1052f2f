"""A family of the tiny game's boards, and hands to open them with."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import CHANGING, BoardOutcome, FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.ledger import Ledger
from gateway.settlement.family_operations import BoardRevision, perform
from policies.family import Family
from policies.loader import load_policies
from policies.opened_board import BoardState, OpenedBoard
from tests.support.boards import write_board

TRACKS = FamilyTerms("track", "sha256:tracks")


def write_family(folder: Path, family: str = "track", **changes: Any) -> Path:
    """A policy file of a family on whose boards any run of the tiny game is plausible."""
    path = write_board(folder, family, **changes)
    policy = json.loads(path.read_text())
    path.write_text(json.dumps({"family": policy.pop("board"), **policy}))
    return path


@lru_cache(maxsize=8)
def tracks(*filters: str) -> Family:
    """The family, whose boards are found by these fields of metadata."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_family(Path(folder) / "policies", metadata_filters=dict.fromkeys(filters, "text"))
        return load_policies(path.parent).families["track"]


async def change_boards(
    ledger: Ledger, family: Family, *boards: OpenedBoard, at_ms: int = 0
) -> list[BoardOutcome]:
    """Has boards become what is given, if each has the version of what is given."""
    facts = (*CHANGING, "parameters", "asset")
    requests = [
        BoardRevision(board.board, board.version, {fact: getattr(board, fact) for fact in facts})
        for board in boards
    ]
    results = await ledger.write(perform(family, requests, actor="cli", at_ms=at_ms))
    return [result.outcome for result in results]


async def open_tracks(ledger: Ledger, *names: str, at_ms: int = 0, **facts: Any) -> list[BoardOutcome]:
    """Opens boards of the family, all with these facts."""
    batch = [OpenedBoard(name, "track", name.title(), **facts) for name in names]
    results = await ledger.write(open_boards(TRACKS, batch, actor="server:kart", at_ms=at_ms))
    return [result.outcome for result in results]


async def turn_tracks(ledger: Ledger, names: Iterable[str], state: BoardState, *, at_ms: int = 0) -> None:
    """Closes, reopens or deletes boards of the family."""
    await ledger.write(set_states(TRACKS, list(names), state, actor="cli", at_ms=at_ms))
