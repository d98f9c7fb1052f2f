"""How much boards are played of late: a count that decays, kept so that unplayed boards need no update.

A run at time t weighs 2^(t / HALF_LIFE), so it weighs half of one that comes HALF_LIFE later. This is forward
exponential decay (Cormode, Shkapenyuk, Srivastava, Xu: Forward Decay, ICDE 2009). Weights never change, so
neither does the order of two boards until one is played. The sum of the weights is kept as its logarithm to
base 2, in units of 2^-32, because the weights themselves leave every number's range.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, literal_column, select, update

from gateway.ledger.boards.board_rows import NEVER_PLAYED
from gateway.ledger.boards.field_filters import note_plays
from gateway.ledger.derived.log import move, position
from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import boards, events
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import State

CONSUMER: Final = "plays"
HALF_LIFE_MS: Final = 3 * 86_400_000
"""Three days: a weekend's favourite is behind a week later, and one quiet night changes little."""

UNIT: Final = 2**32
SPAN: Final = 2_000
"""Events of one step, whose boards are updated in one transaction."""

_e, _b = events.c, boards.c
_RUNS = Query(
    select(_e.board, _e.at_ms).where(
        _e.seq > bindparam("after"),
        _e.seq <= bindparam("upto"),
        _e.from_state == State.RECEIVED.value,
        _e.to_state != State.REJECTED.value,
        _e.board.like(literal_column("'%.%'")),
    )
)
_PLAYS = Query(select(_b.board, _b.plays).where(is_listed(_b.board)))
_PUT = Query(update(boards).where(_b.board == bindparam("of_board")).values(plays=bindparam("new_plays")))


def plays_with(plays: int, runs_at_ms: Sequence[int]) -> int:
    """Return the plays of a board after more runs, at these times (Unix ms)."""
    exponents = [at_ms / HALF_LIFE_MS for at_ms in runs_at_ms]
    if plays != NEVER_PLAYED:
        exponents.append(plays / UNIT)
    highest = max(exponents)
    return round((highest + math.log2(math.fsum(2.0 ** (each - highest) for each in exponents))) * UNIT)


def runs_lately(plays: int, now_ms: int) -> float:
    """Return how many runs of this moment would weigh as much as a board's plays."""
    return 0.0 if plays == NEVER_PLAYED else float(2.0 ** (plays / UNIT - now_ms / HALF_LIFE_MS))


def count_plays() -> Operation[int]:
    """Count the runs of the next SPAN events on boards of families, and return how many events were passed.

    A run that is rejected at once counts for nothing. Each event is counted once, however many count.
    """

    async def work(tx: Transaction) -> int:
        after = await position(CONSUMER)(tx) or 0
        upto = min(after + SPAN, await newest_seq()(tx))
        if upto <= after:
            return 0
        runs: dict[str, list[int]] = defaultdict(list)
        for board, at_ms in await tx.rows(_RUNS, after=after, upto=upto):
            runs[board].append(at_ms)
        for board, plays in await fetch_listed(tx, _PLAYS, sorted(runs)):
            counted = plays_with(plays, runs[board])
            await tx.run(_PUT, of_board=board, new_plays=counted)
            await note_plays(tx, board, counted)
        await move(CONSUMER, upto)(tx)
        return upto - after

    return work
