"""The memberships of players in a board's groups: one row for each player, with a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import memberships
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.shared_records import Membership

_m = memberships.c

_membership = select(_m.player, _m.version, _m.segments).where(_m.board == bindparam("board"))
_MEMBERSHIP = Query(_membership.where(_m.player == bindparam("player")))
_LISTED = Query(_membership.where(is_listed(_m.player)))
_PAGE = Query(_membership.where(_m.player > bindparam("after")).order_by(_m.player).limit(bindparam("count")))
_put = upsert(memberships)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["board", "player"],
        set_={name: _put.excluded[name] for name in ("version", "segments")},
    )
)


def membership_of(board: str, player: str) -> Operation[Membership]:
    """Return the groups of a board that a player is in."""

    async def work(tx: Transaction) -> Membership:
        return await load_membership(tx, board, player)

    return work


def change_membership(board: str, player: str, changes: Mapping[str, str | None]) -> Operation[Membership]:
    """Set segments of a membership and return it; None takes the player out of the segment's group."""

    async def work(tx: Transaction) -> Membership:
        stored = await load_membership(tx, board, player)
        merged = {**stored.segments, **changes}
        wanted = {segment: value for segment, value in sorted(merged.items()) if value is not None}
        if wanted == stored.segments:
            return stored
        segments = orjson.dumps(wanted).decode()
        await tx.run(_PUT, board=board, player=player, version=stored.version + 1, segments=segments)
        return Membership(player, stored.version + 1, wanted)

    return work


def memberships_after(board: str, after: str, *, count: int) -> Operation[list[Membership]]:
    """Return the next memberships of a board after a player, by player."""

    async def work(tx: Transaction) -> list[Membership]:
        return [_stored(row) for row in await tx.rows(_PAGE, board=board, after=after, count=count)]

    return work


def memberships_of(board: str, players: Sequence[str]) -> Operation[dict[str, Membership]]:
    """Return the memberships of those of these players who have one, by player."""

    async def work(tx: Transaction) -> dict[str, Membership]:
        return {row[0]: _stored(row) for row in await fetch_listed(tx, _LISTED, players, board=board)}

    return work


async def load_membership(tx: Transaction, board: str, player: str) -> Membership:
    """Return the groups of a board that a player is in, inside a transaction."""
    rows = await tx.rows(_MEMBERSHIP, board=board, player=player)
    return _stored(rows[0]) if rows else Membership(player)


def _stored(row: Row) -> Membership:
    player, version, segments = row
    return Membership(player, version, orjson.loads(segments))
