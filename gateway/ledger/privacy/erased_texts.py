"""What an erasure takes of a player: rows that only tell who they are, and texts in rows that have to stay.

What stands on boards stays, under the player's id, which is a pseudonym then. A row of the log stays, without
its texts, and `gateway.ledger.seals.erased` has the leaf of what it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, null, or_, select, text, update

from gateway.ledger.players.friends import raise_version
from gateway.ledger.players.merges import moved_of, sources_in_force
from gateway.ledger.schema import (
    OF_PLAYER_ALONE,
    bans,
    events,
    friends,
    memberships,
    player_addresses,
    player_identities,
    player_merges,
    players,
    renames,
    submissions,
    taken_names,
)
from gateway.ledger.seals.chain import EventRow, event_rows
from gateway.ledger.seals.erased import ErasedRow
from gateway.ledger.seals.leaves import EVENT_COLUMNS, entry_of
from gateway.ledger.seals.merkle import leaf_hash
from gateway.ledger.transaction import Query, Transaction
from policies.vocabulary import Reason

TEXTS: Final = ("text", "note", "message")
"""Keys, in the details of events, of what people wrote: answers and appeals, notes, messages."""

SOURCES: Final = 1_000
"""Players who are merged into one, of whom a merge allows fewer."""

NAMES: Final = ("was", "name")
"""Keys, in the detail of a renaming, of the names."""

_RENAMINGS: Final = frozenset({Reason.RENAMED, Reason.RENAME_UNDONE, Reason.NAME_CHOSEN})

_e, _s = events.c, submissions.c

_SUBMISSIONS = Query(
    select(_s.seq, _s.submission_id, _s.board, _s.played_by)
    .where(_s.player == bindparam("player"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_OWN_EVENTS = Query(
    select(*(_e[name] for name in EVENT_COLUMNS))
    .where(text(OF_PLAYER_ALONE), _e.player == bindparam("player"), _e.seq > bindparam("after"))
    .order_by(_e.seq)
    .limit(bindparam("count"))
)
_ERASE_DETAIL = Query(
    update(events).where(_e.seq == bindparam("erased")).values(detail=bindparam("kept_detail"))
)
_ERASE_DETAILS = Query(update(submissions).where(_s.seq == bindparam("erased")).values(details=null()))
_NAME = Query(
    update(players)
    .where(players.c.player == bindparam("of_player"))
    .values(name=bindparam("new_name"), search_key=null())
)
_BANS = Query(update(bans).where(bans.c.player == bindparam("of_player")).values(note="", message=""))
_FORGET: Final = tuple(
    Query(delete(table).where(column == bindparam("of_player")))
    for table, column in (
        (player_identities, player_identities.c.player),
        (player_addresses, player_addresses.c.player),
        (taken_names, taken_names.c.player),
        (renames, renames.c.player),
        (memberships, memberships.c.player),
        (friends, friends.c.player),
    )
)
_of_merges = or_(
    player_merges.c.source == bindparam("of_player"), player_merges.c.target == bindparam("of_player")
)
_MERGES = Query(update(player_merges).where(_of_merges).values(friends="[]"))
_FOLLOWERS = Query(
    select(friends.c.player).where(friends.c.friend == bindparam("friend")).limit(bindparam("count"))
)
_UNFOLLOW = Query(
    delete(friends).where(
        friends.c.player == bindparam("of_player"), friends.c.friend == bindparam("of_friend")
    )
)


class LoggedTexts(NamedTuple):
    """What of the log may have texts of a player: numbers and ids of submissions, and events of their own.

    With `is_anothers` it is passed over: its player was parted from this one, and it has still to move back.
    """

    seq: int
    submission_id: str
    board: str
    event: Mapping[str, Any] | None = None
    is_anothers: bool = False


async def next_texts(tx: Transaction, player: str, *, after: int, count: int) -> list[LoggedTexts]:
    """Return the next submissions of a player, and events that belong to none, in the order of the log.

    Those that a merge moved are the player's still: it may go on behind what is erased of its target. Those
    of whom was parted from the player, and which have still to move back, are not.
    """
    played = await tx.rows(_SUBMISSIONS, player=player, after=after, count=count)
    own = [
        dict(zip(EVENT_COLUMNS, row, strict=True))
        for row in await tx.rows(_OWN_EVENTS, player=player, after=after, count=count)
    ]
    theirs = {None, player, *await sources_in_force(player, count=SOURCES)(tx)}
    found = [LoggedTexts(seq, run, board, None, by not in theirs) for seq, run, board, by in played]
    moved = await moved_of(tx, player, after=after, count=count)
    found += [LoggedTexts(seq, submission_id, board) for seq, board, submission_id in moved]
    found += [LoggedTexts(event["seq"], "", "", event) for event in own]
    return sorted(found, key=lambda each: each.seq)[:count]


class Kept(NamedTuple):
    """An event as an erasure leaves it: the row with its leaves, and the detail if that changes."""

    row: ErasedRow
    detail: str | None
    has_details: bool


async def texts_of(tx: Transaction, found: Sequence[LoggedTexts]) -> list[Kept]:
    """Return what of these has texts, and what is left of each without them."""
    kept: list[Kept] = []
    for each in found:
        if each.is_anothers:
            continue
        rows: Sequence[EventRow] = (
            [(each.event, None)] if each.event else await event_rows(each.submission_id)(tx)
        )
        kept += [left for event, facts in rows if (left := _without_texts(event, facts))]
    return kept


def _without_texts(event: Mapping[str, Any], facts: Mapping[str, Any] | None) -> Kept | None:
    detail = _detail_without_texts(event["reason"], event["detail"])
    has_details = facts is not None and facts["details"] is not None
    if detail == event["detail"] and not has_details:
        return None
    left = {**facts, "details": None} if facts is not None else None
    sealed, after = leaf_hash(entry_of(event, facts)), leaf_hash(entry_of({**event, "detail": detail}, left))
    row = ErasedRow(event["seq"], sealed, after)
    return Kept(row, detail if detail != event["detail"] else None, has_details)


def _detail_without_texts(reason: str, stored: str) -> str:
    try:
        detail = orjson.loads(stored)
    except ValueError:
        return stored
    keys = (*TEXTS, *NAMES) if reason in _RENAMINGS else TEXTS
    if not isinstance(detail, dict) or not any(detail.get(key) for key in keys):
        return stored
    return orjson.dumps(detail | {key: "" for key in keys if detail.get(key)}).decode()


async def erase_texts(tx: Transaction, kept: Sequence[Kept]) -> None:
    """Take texts out of the log, whose leaves are noted by now."""
    for each in kept:
        if each.detail is not None:
            await tx.run(_ERASE_DETAIL, erased=each.row.seq, kept_detail=each.detail)
        if each.has_details:
            await tx.run(_ERASE_DETAILS, erased=each.row.seq)


async def forget_player(tx: Transaction, player: str, name: str) -> None:
    """Give a player a neutral name, and delete the rows that only tell who they are and whom they know."""
    await tx.run(_NAME, of_player=player, new_name=name)
    await tx.run(_BANS, of_player=player)
    await tx.run(_MERGES, of_player=player)
    for query in _FORGET:
        await tx.run(query, of_player=player)


async def has_followers(tx: Transaction, player: str) -> bool:
    """Return whether a player is on the list of anybody."""
    return bool(await tx.rows(_FOLLOWERS, friend=player, count=1))


async def unfollow_everywhere(tx: Transaction, player: str, *, count: int) -> int:
    """Take a player off the lists of up to `count` others, and return how many had them."""
    followers = [row[0] for row in await tx.rows(_FOLLOWERS, friend=player, count=count)]
    for follower in followers:
        await tx.run(_UNFOLLOW, of_player=follower, of_friend=player)
        await raise_version(tx, follower)
    return len(followers)
