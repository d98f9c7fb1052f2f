"""What promoted submissions brought along for readers: their statistics and details, facts that never change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import select

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import submissions
from gateway.ledger.submission_rows import detail_from, stats_from
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import State

_s = submissions.c

_LISTED: Final = Query(
    select(_s.board, _s.state, _s.submission_id, _s.player, _s.stats, _s.details).where(
        is_listed(_s.submission_id)
    )
)
"""Board and state are looked at here and not there: a planner that has a choice takes the index of a whole board."""


class Brought(NamedTuple):
    """What one submission brought along. `integers` and `content` are its details, empty for none."""

    submission_id: str
    player: str
    stats: Mapping[str, int]
    integers: Sequence[int]
    content: Mapping[str, Any]


def brought_by(board: str, submission_ids: Sequence[str]) -> Operation[list[Brought]]:
    """What those of these submissions brought along that count on the board."""

    async def work(tx: Transaction) -> list[Brought]:
        found = await fetch_listed(tx, _LISTED, list(dict.fromkeys(submission_ids)))
        counting = (board, State.PROMOTED.value)
        return [_brought(*row[2:]) for row in found if row[:2] == counting]

    return work


def _brought(submission_id: str, player: str, stats: str, details: str | None) -> Brought:
    said = detail_from(details) if details else {}
    return Brought(submission_id, player, stats_from(stats), said.get("integers", ()), said.get("object", {}))
