"""Names of players: how one is set, and how players choose another for themselves."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, select, update

from gateway.ledger.acts import Act, add_event
from gateway.ledger.name_keys import name_key, search_key
from gateway.ledger.players.player_names import name_of_player
from gateway.ledger.queries import may_take_name, take_name
from gateway.ledger.schema import players, renames, taken_names
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import NotRenamed
from policies.vocabulary import Reason

TAKEN_AWAY: Final = 100
"""Names that moderators took from a player among which a wish is looked for, the newest."""

_SET_NAME = Query(
    update(players)
    .where(players.c.player == bindparam("of_player"))
    .values(name=bindparam("new_name"), search_key=bindparam("new_key"))
)
_TAKEN_AWAY = Query(
    select(renames.c.was)
    .where(renames.c.player == bindparam("of_player"), renames.c.undone_at_ms.is_(None))
    .order_by(renames.c.seq.desc())
    .limit(TAKEN_AWAY)
)
_RELEASE = Query(
    delete(taken_names).where(
        taken_names.c.name_key == bindparam("name_key"), taken_names.c.player == bindparam("of_player")
    )
)


class OwnName(NamedTuple):
    """The name of a player now, and whether this request changed it."""

    name: str
    is_new: bool


async def set_name(tx: Transaction, player: str, name: str, *, is_unique: bool) -> None:
    """Set the name of a player, inside a transaction. Raises NameTaken if names are unique."""
    if is_unique:
        await take_name(tx, player, name)
    await tx.run(_SET_NAME, of_player=player, new_name=name, new_key=search_key(name))


def choose_name(player: str, name: str, act: Act, *, is_unique: bool) -> Operation[OwnName]:
    """Give a player the name that they wish for, and store the event; others may have the one of before.

    Raises NotRenamed for a player without a name and for one that a moderator took away, and NameTaken.
    """

    async def work(tx: Transaction) -> OwnName:
        stands, taken_away = await _name_and_those_taken_away(tx, player, name)
        if stands == name:
            return OwnName(name, is_new=False)
        await set_name(tx, player, name, is_unique=is_unique)
        was = name_key(stands)
        if is_unique and was not in {name_key(name), *taken_away}:
            await tx.run(_RELEASE, name_key=was, of_player=player)
        await add_event(tx, Reason.NAME_CHOSEN, act, {"was": stands, "name": name}, player=player)
        return OwnName(name, is_new=True)

    return work


def would_be_renamed(player: str, name: str, *, is_unique: bool) -> Operation[bool]:
    """Return whether `choose_name` would change anything now. Raises what it would raise."""

    async def work(tx: Transaction) -> bool:
        stands, _ = await _name_and_those_taken_away(tx, player, name)
        if stands == name:
            return False
        if is_unique:
            await may_take_name(tx, player, name)
        return True

    return work


async def _name_and_those_taken_away(tx: Transaction, player: str, wish: str) -> tuple[str, set[str]]:
    """Return a player's name, and the keys of those that moderators took away. Raises NotRenamed."""
    stands = await name_of_player(player)(tx)
    if stands is None:
        raise NotRenamed("you have no name here: a studio's own token made you")
    taken_away = {name_key(was) for (was,) in await tx.rows(_TAKEN_AWAY, of_player=player)}
    if stands.name != wish and name_key(wish) in taken_away:
        raise NotRenamed("a moderator took this name away")
    return stands.name, taken_away
