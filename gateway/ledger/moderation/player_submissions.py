"""A player's submissions on the boards of a moderator, newest first."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, select

from gateway.ledger.players.player_names import SCANNED
from gateway.ledger.schema import submissions
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of

_s = submissions.c
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
