"""Everything that the ledger has about a player, read a page at a time, as lines of JSON.

It is what an operator answers a request for access with. A player's own copy lacks what would tell a cheat
how they were found, or that they are banned in shadow: findings, moderators' notes, and bans.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sqlalchemy import bindparam, select, text

from gateway.ledger.ledger import LedgerReads
from gateway.ledger.moderation.bans import state_without_bans
from gateway.ledger.schema import (
    OF_PLAYER_ALONE,
    achievements,
    bans,
    erasures,
    events,
    friends,
    memberships,
    metadata,
    player_addresses,
    player_identities,
    player_merges,
    players,
    renames,
    submissions,
    taken_names,
    token_endings,
)
from gateway.ledger.seals.chain import event_rows
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason, State

FORMAT: Final = "scoregate-player-1"

PAGE: Final = 100
"""Submissions of one read, each with its events."""

ROWS: Final = 10_000
"""Most rows of any other table: players have fewer, by the limits on what they may write."""

_e, _s = events.c, submissions.c


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
            "achievements": achievements.c.player,
            "token_endings": token_endings.c.player,
            "renames": renames.c.player,
            "player_merges": player_merges.c.source,
            "merged_into_you": player_merges.c.target,
            "erasures": erasures.c.player,
            "bans": bans.c.player,
        }.items()
    },
    "events": Query(
        select(*events.columns)
        .where(text(OF_PLAYER_ALONE), _e.player == bindparam("player"))
        .order_by(_e.seq)
        .limit(bindparam("count"))
    ),
}
_SUBMISSIONS = Query(
    select(*submissions.columns)
    .where(_s.player == bindparam("player"), _s.seq > bindparam("after"))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)

_NAMES: Final = {"merged_into_you": "player_merges"}

_FACTS: Final = tuple(str(column.name) for column in submissions.columns)

_FOR_OPERATORS: Final = frozenset({"bans", "renames", "events"})
"""Sections that a player's own copy lacks: moderators wrote them."""

_OF_CHECKS: Final = ("findings", "initial_state", "runs_opened", "runs_submitted")
"""Columns of a submission that tell how runs are checked."""

_OWN_WORDS: Final = frozenset({Reason.QUESTION_ANSWERED, Reason.APPEALED})


async def export_player(
    ledger: LedgerReads, player: str, *, is_for_player: bool = False
) -> AsyncIterator[bytes]:
    """Yield what the ledger has about a player as lines of JSON, each with its table.

    The first line says what it is, the last one how many rows there were. What friends, groups and boards say
    of others is not in it.
    """
    yield _line({"format": FORMAT, "player": player})
    count = 0
    for table in _TABLES:
        if is_for_player and table in _FOR_OPERATORS:
            continue
        for row in await ledger.read(_table(table, player)):
            yield _line({"table": table, **_plain(row)})
            count += 1
    after = -1
    while page := await ledger.read(_submissions(player, after)):
        for submission in page:
            shown = _as_player_sees(submission) if is_for_player else submission
            yield _line({"table": "submissions", **_plain(shown)})
        count, after = count + len(page), page[-1]["seq"]
    yield _line({"table": "", "rows": count})


async def is_known(ledger: LedgerReads, player: str) -> bool:
    """Return whether the ledger has anything about a player, also if their data was erased."""
    for table in _TABLES:
        if await ledger.read(_table(table, player)):
            return True
    return bool(await ledger.read(_submissions(player, -1)))


def _table(table: str, player: str) -> Operation[list[dict[str, Any]]]:
    names = [str(column.name) for column in metadata.tables[_NAMES.get(table, table)].columns]

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        rows = await tx.rows(_TABLES[table], player=player, count=ROWS)
        return [dict(zip(names, row, strict=True)) for row in rows]

    return work


def _submissions(player: str, after: int) -> Operation[list[dict[str, Any]]]:
    """Return the next submissions of a player, each with its events."""

    async def work(tx: Transaction) -> list[dict[str, Any]]:
        rows = await tx.rows(_SUBMISSIONS, player=player, after=after, count=PAGE)
        page = [dict(zip(_FACTS, row, strict=True)) for row in rows]
        for submission in page:
            told = await event_rows(submission["submission_id"])(tx)
            submission["events"] = [{**event, "detail": detail_from(event["detail"])} for event, _ in told]
        return page

    return work


def _as_player_sees(submission: Mapping[str, Any]) -> dict[str, Any]:
    """Return a submission as its player may see it: what they sent and wrote, and its state without bans."""
    state = state_without_bans(State(submission["state"]), Reason(submission["reason"]))
    words = [event for event in submission["events"] if event["reason"] in _OWN_WORDS]
    return {
        **{name: value for name, value in submission.items() if name not in _OF_CHECKS},
        "state": state.value,
        "reason": Reason(submission["reason"]).player_class if state == submission["state"] else "none",
        "events": [{name: event[name] for name in ("at_ms", "reason", "detail")} for event in words],
    }


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
