"""Names of players: who has which, and who is found by one."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam, select, tuple_

from gateway.ledger.name_keys import search_key
from gateway.ledger.schema import players, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of

LOOKED_AT: Final = 100
"""Most players that one search looks at, however few of them a moderator may see."""

SCANNED: Final = 1_000
"""A player's newest submissions: whoever reaches the board of one of them sees the player."""

_BEYOND: Final = "\U0010ffff"
"""Behind every character that a name can have."""

_p, _s = players.c, submissions.c
_PLAYER = Query(select(_p.name, _p.created_at_ms).where(_p.player == bindparam("player")))
_NAMED = Query(
    select(_p.search_key, _p.player, _p.name, _p.created_at_ms)
    .where(
        tuple_(_p.search_key, _p.player) > tuple_(bindparam("after_key"), bindparam("after")),
        _p.search_key < bindparam("beyond"),
    )
    .order_by(_p.search_key, _p.player)
    .limit(bindparam("count"))
)
_BOARDS_PLAYED = Query(
    select(_s.board).where(_s.player == bindparam("player")).order_by(_s.seq.desc()).limit(bindparam("count"))
)


class PlayerName(NamedTuple):
    """The display name of a player, and when they were created (Unix ms)."""

    name: str
    created_at_ms: int


class PlayerFound(NamedTuple):
    """A player with such a name."""

    player: str
    name: str
    created_at_ms: int


class PlayersFound(NamedTuple):
    """Players in the order of their names, and the place behind which the next page begins, None at the end.

    A page may be short, and even empty, though more follow.
    """

    players: list[PlayerFound]
    next: tuple[str, str] | None


def unnamed(player: str) -> str:
    """Return the name of a player who has chosen none, or whose data was erased."""
    return f"Player {player[-8:]}"


def name_of_player(player: str) -> Operation[PlayerName | None]:
    """Return a player's name; None if a studio's own tokens made them, which need none."""

    async def work(tx: Transaction) -> PlayerName | None:
        rows = await tx.rows(_PLAYER, player=player)
        return PlayerName(*rows[0]) if rows else None

    return work


def players_named(
    beginning: str, scopes: frozenset[str], *, after: tuple[str, str] = ("", ""), count: int
) -> Operation[PlayersFound]:
    """Return players whose names begin like `beginning`, who have played on boards of these scopes.

    `*` is every board. Case, spaces and look-alikes make no difference.
    """
    key = search_key(beginning)
    after_key, after_player = max(after, (key, ""))

    async def work(tx: Transaction) -> PlayersFound:
        place = {"after_key": after_key, "after": after_player, "beyond": key + _BEYOND}
        rows = await tx.rows(_NAMED, **place, count=LOOKED_AT)
        found: list[PlayerFound] = []
        for its_key, *facts in rows:
            if await has_played(tx, facts[0], scopes):
                found.append(PlayerFound(*facts))
                if len(found) == count:
                    return PlayersFound(found, (its_key, facts[0]))
        return PlayersFound(found, (rows[-1][0], rows[-1][1]) if len(rows) == LOOKED_AT else None)

    return work


async def has_played(tx: Transaction, player: str, scopes: frozenset[str], *, scanned: int = SCANNED) -> bool:
    """Return whether one of a player's newest submissions is on a board of these scopes."""
    count = 1 if "*" in scopes else scanned
    rows = await tx.rows(_BOARDS_PLAYED, player=player, count=count)
    return any(not scopes.isdisjoint({"*", board, label_of(board)}) for (board,) in rows)
