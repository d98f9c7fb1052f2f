"""Bans of players: their rows, and the player's submissions that each has to revoke or to let count again.

A ban is in force from the commit of its row to that of its lifting, whatever the time is by then: a steward
lifts those whose time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, insert, literal_column, null, or_, select, text, tuple_, update

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import BANNED, Int64, Text, bans, events, is_in, submissions
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import OneOf, Operation, Query, Row, Transaction
from gateway.runtime.telemetry import label_of
from policies.choices import Operator
from policies.fields import SortOrder
from policies.model import Policy
from policies.vocabulary import Reason, State

EVERYWHERE: Final = ""
"""The scope of a ban on all boards."""

ACTOR: Final = "ban"
"""The actor of the revocations and reinstatements: the event of the ban names who decided on it."""

BAN: Final = "ban"
"""The key of a ban's id in the details of events."""

WAS: Final = "was"
"""The key, in the detail of a revocation by a ban, of the reason for which the submission would count."""

UNKNOWN: Final = Reason.REINSTATED.value
"""The reason for which a submission counts if the event that kept it cannot be read any more."""

PAGE: Final = 250
"""Submissions of a player that one read looks at."""

_b, _s, _e = bans.c, submissions.c, events.c

_COLUMNS = tuple(column for column in bans.columns)
_BY_ID = Query(select(*_COLUMNS).where(_b.ban_id == bindparam("id")))
_OF_PLAYER = Query(
    select(*_COLUMNS)
    .where(_b.player == bindparam("player"))
    .order_by(_b.lifted_at_ms.is_not(None), _b.changed_seq.desc())
    .limit(bindparam("count"))
)
_IN_FORCE = Query(
    select(_b.changed_seq, _b.player, _b.ban_id).where(
        OneOf(_b.player, "of_players"),
        _b.lifted_at_ms.is_(None),
        _b.scope.in_([bindparam("of_board"), bindparam("of_label"), literal_column("''")]),
    )
)
_CHANGED = Query(
    select(*_COLUMNS)
    .where(_b.changed_seq > bindparam("after"))
    .order_by(_b.changed_seq)
    .limit(bindparam("count"))
)
_ENDED = Query(
    select(*_COLUMNS)
    .where(
        _b.lifted_at_ms.is_(None),
        _b.until_ms.is_not(None),
        _b.until_ms <= bindparam("now_ms"),
        tuple_(_b.until_ms, _b.ban_id)
        > tuple_(bindparam("after_ms", type_=Int64), bindparam("after_id", type_=Text)),
    )
    .order_by(_b.until_ms, _b.ban_id)
    .limit(bindparam("count"))
)
_NEXT_END = Query(
    select(_b.until_ms)
    .where(_b.lifted_at_ms.is_(None), _b.until_ms.is_not(None))
    .order_by(_b.until_ms)
    .limit(1)
)
_AT_WORK = Query(
    select(*_COLUMNS)
    .where(
        _b.seen_seq.is_not(None),
        _b.changed_seq > bindparam("after"),
        or_(_b.seen_seq > literal_column("0"), _b.again_ms.is_(None), _b.again_ms <= bindparam("now_ms")),
    )
    .order_by(_b.changed_seq)
    .limit(bindparam("count"))
)
_REVOKED_BY_BAN = Query(
    select(_e.submission_id, _e.seq, _e.detail).where(
        is_listed(_e.submission_id), _e.reason == literal_column(f"'{Reason.BANNED.value}'")
    )
)
_ADD = Query(insert(bans))
_LIFT = Query(
    update(bans)
    .where(_b.ban_id == bindparam("id"), _b.lifted_at_ms.is_(None))
    .values(
        lifted_at_ms=bindparam("now_ms"),
        lifted_by=bindparam("by"),
        changed_seq=bindparam("seq"),
        changed_count=0,
        seen_seq=0,
        again_ms=null(),
    )
)
_NOTE = Query(
    update(bans)
    .where(_b.ban_id == bindparam("id"))
    .values(
        seen_seq=bindparam("seen", type_=Int64),
        again_ms=bindparam("again", type_=Int64),
        changed_count=_b.changed_count + bindparam("more", type_=Int64),
    )
)

_LOOK_AGAIN = Query(
    update(bans)
    .where(_b.player == bindparam("of_player"), _b.lifted_at_ms.is_(None))
    .values(seen_seq=0, again_ms=null())
)

_IS_BANNED: Final = text(BANNED)
_IN_SCOPE: Final = (
    _s.player == bindparam("player"),
    _s.seq > bindparam("after"),
    or_(
        _s.board == bindparam("scope"),
        and_(_s.board >= bindparam("first_board"), _s.board <= bindparam("last_board")),
    ),
)
_TO_REVOKE = Query(
    select(_s.seq, _s.board)
    .where(*_IN_SCOPE, is_in(State.PROMOTED))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_TO_REINSTATE = Query(
    select(_s.seq, _s.board).where(*_IN_SCOPE, _IS_BANNED).order_by(_s.seq).limit(bindparam("count"))
)
_ON_BOARD: Final = (_s.board == bindparam("board"), _s.player == bindparam("player"))


_EARLIER: Final = (_s.achieved_at_ms.asc(), _s.seq.asc())
_LATER: Final = (_s.achieved_at_ms.desc(), _s.seq.desc())
_NEWEST: Final = "newest"
_BEST_FIRST: Final = {
    SortOrder.DESCENDING.value: (_s.score.desc(), *_EARLIER),
    SortOrder.ASCENDING.value: (_s.score.asc(), *_EARLIER),
    _NEWEST: _LATER,
}
_WORST_FIRST: Final = {
    SortOrder.DESCENDING.value: (_s.score.asc(), *_LATER),
    SortOrder.ASCENDING.value: (_s.score.desc(), *_LATER),
    _NEWEST: _EARLIER,
}
_COUNTING: Final = {
    order: Query(
        select(_s.submission_id)
        .where(*_ON_BOARD, is_in(State.PROMOTED))
        .order_by(*columns)
        .limit(bindparam("count"))
    )
    for order, columns in _WORST_FIRST.items()
}
_BANNED: Final = {
    order: Query(
        select(_s.submission_id).where(*_ON_BOARD, _IS_BANNED).order_by(*columns).limit(bindparam("count"))
    )
    for order, columns in _BEST_FIRST.items()
}


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a player.

    `scope` is a board, a family or EVERYWHERE. `seen_seq` is None once every submission in scope followed.
    `again_ms` is when those are looked for again that were passed over, None without any.
    """

    ban_id: str
    player: str
    scope: str
    is_shadow: bool
    code: str
    note: str
    message: str
    actor: str
    began_at_ms: int
    until_ms: int | None
    lifted_at_ms: int | None = None
    lifted_by: str = ""
    changed_seq: int = 0
    changed_count: int = 0
    seen_seq: int | None = 0
    again_ms: int | None = None

    def covers(self, board: str) -> bool:
        """Return whether a board is in the scope of the ban, though it may have been lifted."""
        return self.scope in (EVERYWHERE, board, label_of(board))

    @property
    def is_in_force(self) -> bool:
        """Return whether the ban has not been lifted."""
        return self.lifted_at_ms is None


def is_shadow(stored: Sequence[Ban], board: str) -> bool:
    """Return whether a player, who has these bans, must not notice that one keeps them off a board.

    Those in force decide, and none of them may be open. If none is, the one that was lifted last decides.
    """
    covering = [ban for ban in stored if ban.covers(board)]
    last = max(covering, key=lambda ban: ban.changed_seq, default=None)
    deciding = [ban for ban in covering if ban.is_in_force] or ([last] if last else [])
    return bool(deciding) and all(ban.is_shadow for ban in deciding)


def is_banned(state: str, reason: str) -> bool:
    """Return whether a submission does not count because its player is banned, and for nothing else."""
    return (state, reason) == (State.REVOKED, Reason.BANNED)


def state_without_bans(state: State, reason: Reason) -> State:
    """Return the state in which a submission in this one would be had nobody been banned."""
    return State.PROMOTED if is_banned(state, reason) else state


async def reasons_without_bans(tx: Transaction, submission_ids: Sequence[str]) -> dict[str, str]:
    """Return the reason for which each of these submissions would count, which only a ban revokes."""
    rows = await fetch_listed(tx, _REVOKED_BY_BAN, submission_ids)
    return {submission_id: detail_from(detail).get(WAS, UNKNOWN) for submission_id, _, detail in sorted(rows)}


def _ban(row: Row) -> Ban:
    ban_id, player, scope, is_shadow, *rest = row
    return Ban(ban_id, player, scope, bool(is_shadow), *rest)


def ban(ban_id: str) -> Operation[Ban | None]:
    """Return a ban, or None."""

    async def work(tx: Transaction) -> Ban | None:
        rows = await tx.rows(_BY_ID, id=ban_id)
        return _ban(rows[0]) if rows else None

    return work


def bans_of(player: str, *, count: int) -> Operation[list[Ban]]:
    """Return the bans of a player: those in force, then those that were lifted, the newest of each first."""

    async def work(tx: Transaction) -> list[Ban]:
        return [_ban(row) for row in await tx.rows(_OF_PLAYER, player=player, count=count)]

    return work


async def ban_in_force(tx: Transaction, player: str, board: str) -> str | None:
    """Return the id of a ban of the player that is in force on a board, or None."""
    return (await bans_in_force(tx, [player], board)).get(player)


async def bans_in_force(tx: Transaction, players: Sequence[str], board: str) -> dict[str, str]:
    """Return the id of the first ban in force on a board of each of these players that has one."""
    rows = await tx.rows(_IN_FORCE, of_players=players, of_board=board, of_label=label_of(board))
    return {player: ban_id for _, player, ban_id in sorted(rows, reverse=True)}  # the first one comes last


def changed_after(seq: int, *, count: int) -> Operation[list[Ban]]:
    """Return the next bans that began or were lifted after an event, in the order of these events."""

    async def work(tx: Transaction) -> list[Ban]:
        return [_ban(row) for row in await tx.rows(_CHANGED, after=seq, count=count)]

    return work


def bans_to_end(after: Ban | None, *, now_ms: int, count: int) -> Operation[list[Ban]]:
    """Return bans whose time is over, the earliest first, behind one of them."""
    place: dict[str, Any] = {"after_ms": 0, "after_id": ""}
    if after is not None:
        place = {"after_ms": after.until_ms, "after_id": after.ban_id}

    async def work(tx: Transaction) -> list[Ban]:
        return [_ban(row) for row in await tx.rows(_ENDED, now_ms=now_ms, **place, count=count)]

    return work


def bans_at_work(after: Ban | None, *, now_ms: int, count: int) -> Operation[list[Ban]]:
    """Return bans that submissions have still to follow, in the order of their events, behind one of them."""
    after_seq = after.changed_seq if after else 0

    async def work(tx: Transaction) -> list[Ban]:
        return [_ban(row) for row in await tx.rows(_AT_WORK, after=after_seq, now_ms=now_ms, count=count)]

    return work


def next_due(*, now_ms: int) -> Operation[int | None]:
    """Return when the next ban has work (Unix ms): 0 if one has now, None if none will.

    It does not say when those come due that were passed over.
    """

    async def work(tx: Transaction) -> int | None:
        if await tx.rows(_AT_WORK, after=0, now_ms=now_ms, count=1):
            return 0
        ends = await tx.rows(_NEXT_END)
        return ends[0][0] if ends else None

    return work


async def add(tx: Transaction, ban: Ban) -> None:
    """Store a new ban, whose submissions have still to follow."""
    row = (ban.ban_id, ban.player, ban.scope, int(ban.is_shadow), ban.code, ban.note, ban.message, ban.actor)
    times = (ban.began_at_ms, ban.until_ms, ban.lifted_at_ms, ban.lifted_by)
    work = (ban.changed_seq, ban.changed_count, ban.seen_seq, ban.again_ms)
    await tx.run(_ADD, **dict(zip(bans.columns.keys(), (*row, *times, *work), strict=True)))


async def lift(tx: Transaction, ban_id: str, *, by: str, seq: int, now_ms: int) -> bool:
    """Lift a ban by the event `seq`, and return whether it was in force."""
    return bool(await tx.run(_LIFT, id=ban_id, by=by, seq=seq, now_ms=now_ms))


async def note_progress(
    tx: Transaction, ban: Ban, *, seen_seq: int | None, again_ms: int | None, more: int
) -> None:
    """Note how many more submissions have followed a ban, and how far; `seen_seq` is None at the end."""
    await tx.run(_NOTE, id=ban.ban_id, seen=seen_seq, again=again_ms, more=more)


async def look_again(tx: Transaction, player: str) -> None:
    """Have all submissions of a player follow the bans in force once more: a merge has brought some."""
    await tx.run(_LOOK_AGAIN, of_player=player)


def next_to_follow(ban: Ban) -> Operation[list[tuple[int, str]]]:
    """Return number and board of the next PAGE submissions that have still to follow a ban, in order."""
    query = _TO_REVOKE if ban.is_in_force else _TO_REINSTATE
    first, last = ("", "~") if ban.scope == EVERYWHERE else (f"{ban.scope}.", f"{ban.scope}.~")
    scope = {"player": ban.player, "scope": ban.scope, "first_board": first, "last_board": last}

    async def work(tx: Transaction) -> list[tuple[int, str]]:
        rows = await tx.rows(query, **scope, after=ban.seen_seq or 0, count=PAGE)
        return [(seq, board) for seq, board in rows]

    return work


async def slice_of_board(tx: Transaction, ban: Ban, policy: Policy, *, count: int) -> list[str]:
    """Return submissions on a board that have still to follow a ban.

    What counts comes worst first, and what is to count again best first, so that the standing that readers
    see changes once.
    """
    order = policy.order.value if policy.operator is Operator.BEST else _NEWEST
    query = (_COUNTING if ban.is_in_force else _BANNED)[order]
    return [row[0] for row in await tx.rows(query, board=policy.board, player=ban.player, count=count)]
