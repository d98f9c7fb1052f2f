"""Names that moderators give to players, each with its event, and how they are taken back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import bindparam, select, update

from gateway.ledger.acts import Act, add_event
from gateway.ledger.players.own_names import set_name
from gateway.ledger.players.player_names import name_of_player
from gateway.ledger.schema import renames
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.errors import NameOvertaken, NotRenamed
from policies.vocabulary import Reason

REMEMBERED: Final = 100
"""Renames of a player among which a repetition is looked for, the newest."""

_NOT_UNDONE: Final[dict[str, Any]] = {"undone_at_ms": None, "undone_by": ""}
_r = renames.c

_OF_PLAYER = Query(
    select(renames)
    .where(_r.player == bindparam("of_player"))
    .order_by(_r.seq.desc())
    .limit(bindparam("count"))
)
_UNDO = Query(
    update(renames)
    .where(_r.player == bindparam("of_player"), _r.seq == bindparam("of_seq"))
    .values(undone_at_ms=bindparam("at"), undone_by=bindparam("by"))
)


@dataclass(frozen=True, slots=True)
class Rename:
    """A name that a moderator gave to a player. `seq` is that of its event."""

    player: str
    seq: int
    was: str
    name: str
    code: str
    note: str
    actor: str
    at_ms: int
    undone_at_ms: int | None = None
    undone_by: str = ""

    @property
    def is_undone(self) -> bool:
        """Return whether the player has the name of before again."""
        return self.undone_at_ms is not None


@dataclass(frozen=True, slots=True)
class RenameOutcome:
    """A rename as it is stored now, and whether this request made or undid it."""

    rename: Rename
    is_new: bool


def renames_of(player: str, *, count: int) -> Operation[list[Rename]]:
    """Return the names that moderators gave to a player, the newest first."""

    async def work(tx: Transaction) -> list[Rename]:
        return [Rename(*row) for row in await tx.rows(_OF_PLAYER, of_player=player, count=count)]

    return work


def rename(
    player: str, was: str, name: str, act: Act, *, code: str, note: str, is_unique: bool
) -> Operation[RenameOutcome]:
    """Give a player who is called `was` another name, and store the event.

    Nobody else gets the name of before if names are unique, so that it can be given back. Sending the same
    again changes nothing, however late. Raises NotRenamed for a player without a name and for a repetition
    after another change of the name, NameOvertaken, and NameTaken.
    """
    wanted = Rename(player, 0, was, name, code, note, act.actor, act.at_ms)

    async def work(tx: Transaction) -> RenameOutcome:
        earlier = await renames_of(player, count=REMEMBERED)(tx)
        if wanted in [replace(each, seq=0, at_ms=act.at_ms) for each in earlier[:1]]:
            return RenameOutcome(earlier[0], is_new=False)
        if wanted in [replace(each, seq=0, at_ms=act.at_ms, **_NOT_UNDONE) for each in earlier]:
            raise NotRenamed("you gave this name before, and it was changed since; say in the note why again")
        await _expect(tx, player, was)
        await set_name(tx, player, name, is_unique=is_unique)
        detail = {"was": was, "name": name, "code": code, "note": note}
        stored = replace(wanted, seq=await add_event(tx, Reason.RENAMED, act, detail, player=player))
        await tx.insert(renames, [tuple(getattr(stored, column.name) for column in renames.columns)])
        return RenameOutcome(stored, is_new=True)

    return work


def undo_rename(player: str, was: str, act: Act, *, is_unique: bool) -> Operation[RenameOutcome]:
    """Give a player who is called `was` the name of before the last rename, and store the event.

    Sending the same again changes nothing. Raises NotRenamed if the last rename is undone or there is none,
    NameOvertaken, and NameTaken.
    """

    async def work(tx: Transaction) -> RenameOutcome:
        newest = await _newest(tx, player)
        if newest is None:
            raise NotRenamed("no moderator has renamed the player")
        if newest.is_undone:
            if (newest.name, newest.undone_by) == (was, act.actor):
                return RenameOutcome(newest, is_new=False)
            raise NotRenamed("the last rename is undone already")
        await _expect(tx, player, was)
        await set_name(tx, player, newest.was, is_unique=is_unique)
        detail = {"was": was, "name": newest.was, "undoes": newest.seq}
        await add_event(tx, Reason.RENAME_UNDONE, act, detail, player=player)
        await tx.run(_UNDO, of_player=player, of_seq=newest.seq, at=act.at_ms, by=act.actor)
        return RenameOutcome(replace(newest, undone_at_ms=act.at_ms, undone_by=act.actor), is_new=True)

    return work


async def _newest(tx: Transaction, player: str) -> Rename | None:
    newest = await renames_of(player, count=1)(tx)
    return newest[0] if newest else None


async def _expect(tx: Transaction, player: str, name: str) -> None:
    stands = await name_of_player(player)(tx)
    if stands is None:
        raise NotRenamed("the player has no name here: a studio's own token made them")
    if stands.name != name:
        raise NameOvertaken
