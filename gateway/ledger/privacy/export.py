"""Everything that the ledger has about a player, read a page at a time, as lines of JSON.

It is what an operator answers a request for access with. A player's own copy lacks what would tell a cheat
how they were found, or that they are banned in shadow: findings, moderators' notes, and bans.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Table, and_, bindparam, func, select, text, tuple_

from gateway.ledger.index_pages import LIST, fetch_listed, is_listed
from gateway.ledger.ledger import LedgerReads
from gateway.ledger.moderation.bans import state_without_bans
from gateway.ledger.players.merges import moved_of
from gateway.ledger.schema import (
    OF_PLAYER_ALONE,
    STANDS_IN_FAMILY,
    Text,
    achievements,
    bans,
    erasures,
    events,
    friends,
    join_changes,
    joins,
    memberships,
    metadata,
    player_addresses,
    player_identities,
    player_merges,
    players,
    renames,
    standings,
    submissions,
    taken_names,
    token_endings,
)
from gateway.ledger.seals.leaves import EVENT_COLUMNS
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import Reason, State

FORMAT: Final = "scoregate-player-1"

PAGE: Final = LIST
"""Submissions of one read, with their events, and standings of another."""

ROWS: Final = 10_000
"""Most rows of any other table: players have fewer, by the limits on what they may write."""

FIRST: Final = 0
"""The number after which an export begins, so that it has everything."""

_e, _s, _st = events.c, submissions.c, standings.c


_TABLES: Final = {
    **{
        name: Query(
            select(*column.table.columns).where(column == bindparam("player")).limit(bindparam("count"))
        )
        for name, column in {
            "players": players.c.player,
            "taken_names": taken_names.c.player,
            "player_identities": player_identities.c.player,
            "player_addresses": player_addresses.c.player,
            "friends": friends.c.player,
            "memberships": memberships.c.player,
            "joins": joins.c.player,
            "achievements": achievements.c.player,
            "token_endings": token_endings.c.player,
            "renames": renames.c.player,
            "player_merges": player_merges.c.source,
            "merged_into_you": player_merges.c.target,
            "erasures": erasures.c.player,
            "bans": bans.c.player,
        }.items()
    },
    "join_changes": Query(
        select(*join_changes.columns)
        .select_from(
            joins.join(
                join_changes,
                and_(join_changes.c.board == joins.c.board, join_changes.c.player == joins.c.player),
            )
        )
        .where(joins.c.player == bindparam("player"))
        .limit(bindparam("count"))
    ),
}
_EVENTS = Query(
    select(*events.columns)
    .where(text(OF_PLAYER_ALONE), _e.player == bindparam("player"), _e.seq > bindparam("after"))
    .order_by(_e.seq)
    .limit(bindparam("count"))
)
_SUBMISSIONS = Query(
    select(*submissions.columns)
    .where(_s.player == bindparam("player"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_LISTED = Query(select(*submissions.columns).where(is_listed(_s.submission_id)))
_EVENTS_OF = Query(select(*(_e[name] for name in EVENT_COLUMNS)).where(is_listed(_e.submission_id)))
_IN_FAMILIES = Query(
    select(*standings.columns)
    .where(
        _st.player == bindparam("player"),
        STANDS_IN_FAMILY,
        tuple_(_st.window, _st.board)
        > tuple_(bindparam("after_window", type_=Text), bindparam("after_board", type_=Text)),
    )
    .order_by(_st.window, _st.board)
    .limit(bindparam("count"))
)
_windows = select(func.min(_st.window).label("window")).where(_st.board == bindparam("board")).cte(
    "windows_of_board", recursive=True
)  # fmt: skip
_next_window = (
    select(func.min(_st.window)).where(_st.board == bindparam("board"), _st.window > _windows.c.window)
).scalar_subquery()
_windows = _windows.union_all(select(_next_window).where(_windows.c.window.is_not(None)))
_ON_BOARD = Query(
    select(*standings.columns).select_from(
        _windows.join(
            standings,
            and_(
                _st.board == bindparam("board"),
                _st.window == _windows.c.window,
                _st.player == bindparam("player"),
            ),
        )
    )
)
"""A player's standings on a board: it goes from one window to the next, and looks up the player in each."""

_SEQ_AT: Final = EVENT_COLUMNS.index("seq")

_NAMES: Final = {"merged_into_you": "player_merges"}

_FOR_OPERATORS: Final = frozenset({"bans", "renames"})
"""Sections that a player's own copy lacks: moderators wrote them."""

_OF_FOLLOWING: Final = ("seen_seq", "again_ms", "changed_count")
"""Columns of a merge that tell what a ban keeps from following."""

_OF_CHECKS: Final = ("findings", "initial_state", "runs_opened", "runs_submitted")
"""Columns of a submission that tell how runs are checked."""

_OWN_WORDS: Final = frozenset({Reason.QUESTION_ANSWERED, Reason.APPEALED})

_StandingsOn = Callable[[Sequence[str]], AsyncIterator[Mapping[str, Any]]]


async def export_player(
    ledger: LedgerReads, player: str, *, boards: Collection[str] = ()
) -> AsyncIterator[bytes]:
    """Yield what the ledger has about a player as lines of JSON, each with its table.

    The first line says what it is, the last one how many rows there were. What friends, groups and boards say
    of others is not in it. `boards` are those of files, on each of which standings are looked for.
    """
    yield _line({"format": FORMAT, "player": player})
    count = 0
    for table in _TABLES:
        for row in await ledger.read(_table(table, player)):
            yield _line({"table": table, **_plain(row)})
            count += 1
    async for table, rows in _pages_for_operators(ledger, player, boards):
        for each in rows:
            yield _line({"table": table, **_plain(each)})
        count += len(rows)
    yield _line({"table": "", "rows": count})


async def _pages_for_operators(
    ledger: LedgerReads, player: str, boards: Collection[str]
) -> AsyncIterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    after = FIRST
    while events_found := await ledger.read(_events(player, after)):
        yield "events", events_found
        after = events_found[-1]["seq"]
    async for page in _pages_of_runs(ledger, player, FIRST):
        yield "submissions", page
    place = ("", "")
    while found := await ledger.read(_standings_in_families(player, place)):
        yield "standings", found
        place = (found[-1]["window"], found[-1]["board"])
    for board in boards:
        yield "standings", await ledger.read(_standings_on(player, board))


async def export_own(
    ledger: LedgerReads,
    player: str,
    standings_on: _StandingsOn,
    *,
    after: int = FIRST,
    most_runs: int,
    most_bytes: int,
) -> AsyncIterator[bytes]:
    """Yield a player's own copy, which ends with the page of runs by which it has so many, or so many bytes.

    The last line has `next` then, the number `after` which the following copy has the others. It lacks what
    would tell a cheat how they were found. `standings_on` yields how the player sees themselves on boards, of
    which it is asked once for each.
    """
    yield _line({"format": FORMAT, "player": player})
    count = runs = size = 0
    for table in _TABLES if after == FIRST else ():
        if table in _FOR_OPERATORS:
            continue
        for row in await ledger.read(_table(table, player)):
            yield _line({"table": table, **_plain(_without(row, _OF_FOLLOWING))})
            count += 1
    played: set[str] = set()
    following: int | None = None
    async for page in _pages_of_runs(ledger, player, after):
        for submission in page:
            line = _line({"table": "submissions", **_plain(_as_player_sees(submission))})
            size += len(line)
            yield line
        runs += len(page)
        on_page = sorted({submission["board"] for submission in page} - played)
        played.update(on_page)
        async for standing in standings_on(on_page):
            yield _line({"table": "standings", **standing})
            count += 1
        if runs >= most_runs or size >= most_bytes:
            following = page[-1]["seq"]
            break
    yield _line({"table": "", "rows": count + runs, "next": following})


async def is_known(ledger: LedgerReads, player: str) -> bool:
    """Return whether the ledger has anything about a player, also if their data was erased."""
    for table in _TABLES:
        if await ledger.read(_table(table, player, count=1)):
            return True
    return bool(await ledger.read(_submissions(player, FIRST, count=1)))


def _table(table: str, player: str, *, count: int = ROWS) -> Operation[list[dict[str, Any]]]:
    names = [str(column.name) for column in metadata.tables[_NAMES.get(table, table)].columns]

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        rows = await tx.rows(_TABLES[table], player=player, count=count)
        return [dict(zip(names, row, strict=True)) for row in rows]

    return work


def _events(player: str, after: int) -> Operation[list[dict[str, Any]]]:
    """Return the next events of a player that belong to no submission."""

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        rows = await tx.rows(_EVENTS, player=player, after=after, count=PAGE)
        return [_named(events, row) for row in rows]

    return work


def _standings_in_families(player: str, after: tuple[str, str]) -> Operation[list[dict[str, Any]]]:
    """Return the next standings of a player on boards of families, behind a window and a board."""
    window, board = after

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        place = {"after_window": window, "after_board": board}
        return [
            _named(standings, row) for row in await tx.rows(_IN_FAMILIES, player=player, **place, count=PAGE)
        ]

    return work


def _standings_on(player: str, board: str) -> Operation[list[dict[str, Any]]]:
    async def work(tx: Transaction) -> list[dict[str, Any]]:
        return [_named(standings, row) for row in await tx.rows(_ON_BOARD, player=player, board=board)]

    return work


async def _pages_of_runs(ledger: LedgerReads, player: str, after: int) -> AsyncIterator[list[dict[str, Any]]]:
    while page := await ledger.read(_submissions(player, after)):
        yield page
        after = page[-1]["seq"]


def _submissions(player: str, after: int, *, count: int = PAGE) -> Operation[list[dict[str, Any]]]:
    """Return the next submissions of a player, also those that a merge moved, each with its events.

    Whatever their number, it takes a few statements.
    """

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        rows = await tx.rows(_SUBMISSIONS, player=player, after=after, count=count)
        moved = [each for _, _, each in await moved_of(tx, player, after=after, count=count)]
        rows += await fetch_listed(tx, _LISTED, moved)
        page = sorted((_named(submissions, row) for row in rows), key=lambda each: each["seq"])[:count]
        told: dict[str, list[dict[str, Any]]] = {each["submission_id"]: [] for each in page}
        for row in sorted(await fetch_listed(tx, _EVENTS_OF, list(told)), key=itemgetter(_SEQ_AT)):
            event = dict(zip(EVENT_COLUMNS, row, strict=True))
            told[event["submission_id"]].append({**event, "detail": detail_from(event["detail"])})
        return [{**each, "events": told[each["submission_id"]]} for each in page]

    return work


def _named(table: Table, row: Row) -> dict[str, Any]:
    return dict(zip((str(column.name) for column in table.columns), row, strict=True))


def _without(row: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in left_out}


def _as_player_sees(submission: Mapping[str, Any]) -> dict[str, Any]:
    """Return a submission as its player may see it: what they sent and wrote, and its state without bans."""
    state = state_without_bans(State(submission["state"]), Reason(submission["reason"]))
    words = [event for event in submission["events"] if event["reason"] in _OWN_WORDS]
    return {
        **_without(submission, _OF_CHECKS),
        "state": state.value,
        "reason": Reason(submission["reason"]).player_class if state == submission["state"] else "none",
        "events": [{name: event[name] for name in ("at_ms", "reason", "detail")} for event in words],
    }


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
