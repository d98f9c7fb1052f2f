"""Opens a board for the first run of a player, within the limits of all players of a family together."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.lookups import load_boards
from gateway.ledger.schema import family_openings
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.limits import HourlyRate, charged
from policies.opened_board import OpenedBoard

_o = family_openings.c
_OPENINGS = Query(select(_o.boards, _o.whole_at_us).where(_o.family == bindparam("of_family")))
_insert = insert(family_openings)
_PUT: Final = Query(
    _insert.on_conflict_do_update(
        index_elements=["family"],
        set_={"boards": _insert.excluded.boards, "whole_at_us": _insert.excluded.whole_at_us},
    )
)


class OpeningOutcome(StrEnum):
    """What became of a player's wish to open a board. Only the first writes anything."""

    OPENED = "opened"
    EXISTS = "exists"
    """The name has or had a board, which may be closed or deleted."""
    LIMITED = "limited"
    """All players together opened too many of late."""
    FULL = "full"
    """Players have opened as many boards as the family allows."""


class FamilyOpenings(NamedTuple):
    """The limits of all players of a family together: boards by time, and boards ever."""

    rate: HourlyRate
    in_all: int


class PlayerOpening(NamedTuple):
    """The outcome of an opening, and the time until the limit of all players has room again (ms)."""

    outcome: OpeningOutcome
    wait_ms: int = 0


def open_for_player(
    terms: FamilyTerms, limits: FamilyOpenings, board: OpenedBoard, *, actor: str, at_ms: int
) -> Operation[PlayerOpening]:
    """Open a board unless its name has or had one, or a limit of the family is reached, in one commit.

    Raises ValueError, and charges nothing, for a board that the family does not allow.
    """

    async def work(tx: Transaction) -> PlayerOpening:
        if await load_boards(tx, [board.board]):
            return PlayerOpening(OpeningOutcome.EXISTS)
        rows = await tx.rows(_OPENINGS, of_family=terms.family)
        opened, whole_at_us = rows[0] if rows else (0, 0)
        if opened >= limits.in_all:
            return PlayerOpening(OpeningOutcome.FULL)
        wait_us, whole_at_us = charged(limits.rate, whole_at_us, at_ms * 1000)
        if wait_us > 0:
            return PlayerOpening(OpeningOutcome.LIMITED, -(-wait_us // 1000))
        await tx.run(_PUT, family=terms.family, boards=opened + 1, whole_at_us=whole_at_us)
        [result] = await open_boards(terms, [board], actor=actor, at_ms=at_ms)(tx)
        if result.outcome is not BoardOutcome.OPENED:
            raise ValueError(f"{board.board} is {result.outcome}: {result.detail}")
        return PlayerOpening(OpeningOutcome.OPENED)

    return work
