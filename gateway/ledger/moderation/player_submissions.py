"""A player as moderators see them: name, and submissions on their boards, newest first."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.schema import players, submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of

SCANNED: Final = 1_000
"""Most submissions that one read passes over, on whatever boards they are."""

_s = submissions.c
_PLAYER = Query(
    select(players.c.name, players.c.created_at_ms).where(players.c.player == bindparam("player"))
)
_SUBMISSIONS = Query(
    select(
        _s.seq,
        _s.submission_id,
        _s.board,
        _s.score,
        _s.build,
        _s.state,
        _s.reason,
        _s.received_at_ms,
    )
    .where(_s.player == bindparam("player"), _s.seq < bindparam("before"))
    .order_by(_s.seq.desc())
    .limit(bindparam("count"))
)


class RunOfPlayer(NamedTuple):
    """One of a player's submissions, in brief."""

    seq: int
    submission_id: str
    board: str
    score: int
    build: str
    state: str
    reason: str
    received_at_ms: int


class RunsOfPlayer(NamedTuple):
    """Submissions, newest first, and the sequence number to go on before; None at the end of all.

    A page may be short, and even empty, though more follow.
    """

    submissions: list[RunOfPlayer]
    before: int | None


class PlayerName(NamedTuple):
    """The display name of a player, and when they were created (Unix ms)."""

    name: str
    created_at_ms: int


def name_of_player(player: str) -> Operation[PlayerName | None]:
    """Return a player's name; None if a studio's own tokens made them, which need none."""

    async def work(tx: Transaction) -> PlayerName | None:
        rows = await tx.rows(_PLAYER, player=player)
        return PlayerName(*rows[0]) if rows else None

    return work


def runs_of_player(
    player: str, scopes: frozenset[str], *, before: int, count: int
) -> Operation[RunsOfPlayer]:
    """Return a player's newest submissions on boards of these scopes; `*` is every board."""

    async def work(tx: Transaction) -> RunsOfPlayer:
        rows = await tx.rows(_SUBMISSIONS, player=player, before=before, count=SCANNED)
        taken: list[RunOfPlayer] = []
        for row in map(RunOfPlayer._make, rows):
            if not scopes.isdisjoint({"*", row.board, label_of(row.board)}):
                taken.append(row)
                if len(taken) == count:
                    return RunsOfPlayer(taken, row.seq)
        return RunsOfPlayer(taken, rows[-1][0] if len(rows) == SCANNED else None)

    return work
