"""The hashed addresses that players submitted from lately, so that moderators see who shares one.

Only keyed hashes come here (`gateway.edge.admission.address`). A row is written with the first submission
from an address, and again at most once a day, in the transaction of that submission. Each player has the
KEPT newest. A steward deletes those whose time is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert

from gateway.ledger.index_pages import fetch_listed, is_listed, names_of
from gateway.ledger.players.player_names import has_played
from gateway.ledger.records import NewSubmission
from gateway.ledger.schema import player_addresses
from gateway.ledger.transaction import Operation, Query, Transaction

KEPT: Final = 8
"""Addresses of a player that are kept, the newest."""

AGAIN_MS: Final = 86_400_000
"""Time after which an address that is in use is noted again."""

SHARERS: Final = 20
"""Most other players of an address that are shown."""

LOOKED_AT: Final = 25
"""Most other players of an address that are looked at: those that were seen there last."""

SCANNED: Final = 100
"""The newest submissions of another player, one of which has to be on the moderator's boards."""

FORGOTTEN: Final = 500
"""Rows that one step deletes."""

_a = player_addresses.c

_OF_PLAYERS = Query(
    select(_a.player, _a.address, _a.seen_at_ms).where(is_listed(_a.player)).order_by(_a.player, _a.address)
)
_put = insert(player_addresses)
_PUT = Query(
    _put.on_conflict_do_update(
        index_elements=["player", "address"], set_={"seen_at_ms": _put.excluded.seen_at_ms}
    )
)
_FORGET = Query(
    delete(player_addresses).where(_a.player == bindparam("of_player"), _a.address == bindparam("of_address"))
)
_SHARERS = Query(
    select(_a.player)
    .where(_a.address == bindparam("address"), _a.player != bindparam("player"))
    .order_by(_a.seen_at_ms.desc(), _a.player.desc())
    .limit(bindparam("count"))
)
_OVER = Query(
    select(_a.player, _a.address)
    .where(_a.seen_at_ms < bindparam("before_ms"))
    .order_by(_a.seen_at_ms)
    .limit(bindparam("count"))
)


class Sharer(NamedTuple):
    """Another player of an address; the name is empty for who has none."""

    player: str
    name: str


class AddressOfPlayer(NamedTuple):
    """A hashed address of a player, when it was noted last, and others who submitted from it.

    `is_whole` tells that there are no others on the moderator's boards.
    """

    address: str
    seen_at_ms: int
    sharers: list[Sharer]
    is_whole: bool


def note_addresses(appended: Iterable[NewSubmission]) -> Operation[None]:
    """Note where submissions came from, as far as it was not noted within AGAIN_MS."""
    seen = {
        (new.submission.player, new.address): new.submission.received_at_ms for new in appended if new.address
    }

    async def work(tx: Transaction) -> None:
        stored: dict[str, dict[str, int]] = defaultdict(dict)
        players = sorted({player for player, _ in seen})
        for player, address, at_ms in await fetch_listed(tx, _OF_PLAYERS, players):
            stored[player][address] = at_ms
        for (player, address), at_ms in seen.items():
            known = stored[player]
            if at_ms < known.get(address, 0) + AGAIN_MS:
                continue
            await tx.run(_PUT, player=player, address=address, seen_at_ms=at_ms)
            known[address] = at_ms
            if len(known) > KEPT:
                oldest = min(known, key=lambda each: (known[each], each))
                await tx.run(_FORGET, of_player=player, of_address=oldest)
                del known[oldest]

    return work


def shared_addresses(player: str, scopes: frozenset[str]) -> Operation[list[AddressOfPlayer]]:
    """Return a player's hashed addresses, the newest first, with others who have played on these scopes."""

    async def work(tx: Transaction) -> list[AddressOfPlayer]:
        rows = await fetch_listed(tx, _OF_PLAYERS, [player])
        own = sorted(((at_ms, address) for _, address, at_ms in rows), reverse=True)
        shared = []
        for at_ms, address in own:
            others = await tx.rows(_SHARERS, address=address, player=player, count=LOOKED_AT + 1)
            seen = [
                other
                for (other,) in others[:LOOKED_AT]
                if await has_played(tx, other, scopes, scanned=SCANNED)
            ]
            names = await names_of(seen[:SHARERS])(tx)
            sharers = [Sharer(other, names.get(other, "")) for other in seen[:SHARERS]]
            is_whole = len(others) <= LOOKED_AT and len(seen) <= SHARERS
            shared.append(AddressOfPlayer(address, at_ms, sharers, is_whole))
        return shared

    return work


def addresses_over(*, before_ms: int) -> Operation[list[tuple[str, str]]]:
    """Return the player and the address of up to FORGOTTEN rows that were noted last before a time."""

    async def work(tx: Transaction) -> list[tuple[str, str]]:
        rows = await tx.rows(_OVER, before_ms=before_ms, count=FORGOTTEN)
        return [(player, address) for player, address in rows]

    return work


def forget_addresses(*, before_ms: int) -> Operation[int]:
    """Delete up to FORGOTTEN addresses that were noted last before a time, and return how many."""

    async def work(tx: Transaction) -> int:
        over = await addresses_over(before_ms=before_ms)(tx)
        await tx.run_each(_FORGET, [{"of_player": player, "of_address": address} for player, address in over])
        return len(over)

    return work
