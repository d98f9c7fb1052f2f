"""Ends of players' tokens: after one, all that were issued to the player before are over, on every edge."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.acts import Act, add_event
from gateway.ledger.schema import token_endings
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason

_t = token_endings.c

_OF_PLAYER = Query(select(token_endings).where(_t.player == bindparam("of_player")))
_AFTER = Query(
    select(token_endings)
    .where(_t.changed_seq > bindparam("after"))
    .order_by(_t.changed_seq)
    .limit(bindparam("count"))
)
_put = upsert(token_endings)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["player"],
        set_={name: _put.excluded[name] for name in ("generation", "ended_at_ms", "changed_seq")},
    )
)


class TokenEnding(NamedTuple):
    """The last end of a player's tokens, as the generation of those that came after it.

    `changed_seq` is the number of its event.
    """

    player: str
    generation: int
    ended_at_ms: int
    changed_seq: int

    def ends(self, generation: int | None, issued_at_s: int) -> bool:
        """Return whether it ended a token. One that tells no generation is judged by when it was issued."""
        if generation is None:
            return issued_at_s * 1000 <= self.ended_at_ms
        return generation < self.generation


def ending_of(player: str) -> Operation[TokenEnding | None]:
    """Return the last end of a player's tokens, or None."""

    async def work(tx: Transaction) -> TokenEnding | None:
        rows = await tx.rows(_OF_PLAYER, of_player=player)
        return TokenEnding(*rows[0]) if rows else None

    return work


async def generation_of(tx: Transaction, player: str) -> int:
    """Return the generation of the tokens that a player gets now, inside a transaction."""
    ending = await ending_of(player)(tx)
    return ending.generation if ending else 0


def end_tokens(player: str, act: Act) -> Operation[TokenEnding]:
    """End all tokens of a player, and store the event."""

    async def work(tx: Transaction) -> TokenEnding:
        generation = await generation_of(tx, player) + 1
        detail = {"generation": generation}
        seq = await add_event(tx, Reason.TOKENS_ENDED, act, detail, player=player)
        ending = TokenEnding(player, generation, act.at_ms, seq)
        await tx.run(_PUT, **ending._asdict())
        return ending

    return work


def endings_after(seq: int, *, count: int) -> Operation[list[TokenEnding]]:
    """Return the last ends of players' tokens whose event is later than `seq`, in their order."""

    async def work(tx: Transaction) -> list[TokenEnding]:
        return [TokenEnding(*row) for row in await tx.rows(_AFTER, after=seq, count=count)]

    return work
