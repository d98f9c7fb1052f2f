"""Selections of submissions for a batch: walks over what is in one state, in slices of a bounded length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, bindparam, func, select, text, tuple_

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.moderation.bans import is_banned, reasons_without_bans
from gateway.ledger.moderation.batch_items import BatchItem
from gateway.ledger.queries import replay_findings
from gateway.ledger.records import SERVER_CREDENTIAL
from gateway.ledger.schema import BANNED, OF_NO_BAN, Int64, Text, events, is_in, submissions
from gateway.ledger.submission_rows import findings_in
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.runtime.telemetry import label_of
from policies.vocabulary import LATEST_MS, Finding, State

SCANNED: Final = 1_000
"""Most submissions that one slice looks at, however few of them are selected."""

EVERYWHERE: Final = "*"
"""The scope of every board."""

_s = submissions.c
_COLUMNS: Final = (
    "board", "player", "achieved_at_ms", "seq", "submission_id", "credential", "build", "received_at_ms",
    "state", "reason", "findings",
)  # fmt: skip
_columns = [_s[name] for name in _COLUMNS]


def _bind(name: str) -> Any:
    return bindparam(f"after_{name}", type_=_s[name].type)


def _walk(condition: Any, *names: str) -> Select[Any]:
    """Return the statement for such submissions, up to a last board, in the order of an index."""
    place = tuple_(*(_s[name] for name in names))
    return (
        select(*_columns)
        .where(condition, place > tuple_(*map(_bind, names)), _s.board <= bindparam("last", type_=Text))
        .order_by(*(_s[name] for name in names))
        .limit(bindparam("count"))
    )


_IN_ORDER: Final = ("board", "seq")
_OF_PLAYERS: Final = ("board", "player", "achieved_at_ms", "seq")
_OF_BANNED: Final = ("board", "player", "seq")
_HELD = Query(_walk(is_in(State.HELD), *_IN_ORDER))
_REVOKED = Query(_walk(is_in(State.REVOKED), *_IN_ORDER))
_PROMOTED = Query(_walk(is_in(State.PROMOTED), *_OF_PLAYERS))
_BANNED = Query(_walk(text(BANNED), *_OF_BANNED))
_OF_PLAYER = Query(
    select(*_columns)
    .where(_s.player == bindparam("player"), _s.seq > bindparam("after_seq", type_=Int64))
    .order_by(_s.seq)
    .limit(bindparam("count"))
)
_NEWEST_EVENTS = Query(
    select(events.c.submission_id, func.max(events.c.seq))
    .where(is_listed(events.c.submission_id), text(OF_NO_BAN))
    .group_by(events.c.submission_id)
)

_WALKS: Final = {
    State.HELD: ((_HELD, _IN_ORDER),),
    State.REVOKED: ((_REVOKED, _IN_ORDER),),
    State.PROMOTED: ((_PROMOTED, _OF_PLAYERS), (_BANNED, _OF_BANNED)),
}
"""The walks over what is in a state, or would be had nobody been banned."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which submissions: those in a state, on boards of these scopes, for which everything given holds.

    What only a ban revokes is promoted, for the reason for which it would count.

    `key` is a trusted server's. Times are Unix milliseconds; the first of each is included, the last is not.
    `finding` is a reason or a validator. `not_players` are never selected. `upto` is the newest event by
    then.
    """

    state: State
    scopes: tuple[str, ...]
    upto: int
    player: str | None = None
    key: str | None = None
    build: str | None = None
    received_since_ms: int = 0
    received_until_ms: int = LATEST_MS + 1
    achieved_since_ms: int = 0
    achieved_until_ms: int = LATEST_MS + 1
    reason: str | None = None
    finding: str | None = None
    not_players: tuple[str, ...] = ()

    @property
    def ranges(self) -> list[tuple[str, str]]:
        """Return the first and the last name of each range of boards in scope, in order."""
        if EVERYWHERE in self.scopes:
            return [("", "~")]
        widest = [each for each in self.scopes if each == label_of(each) or label_of(each) not in self.scopes]
        of_scopes = ([(scope, scope), (f"{scope}.", f"{scope}.~")] for scope in widest)
        return sorted({each for ranges in of_scopes for each in ranges})

    @property
    def before_banned(self) -> Sequence[Any]:
        """Return the place in a walk over what is promoted, or would be, before what only a ban revokes."""
        return [len(self.ranges)]

    def may_repeat(self, place: Sequence[Any]) -> bool:
        """Return whether a slice from a place may have what one before it had: bans begin behind the walk."""
        is_walk = self.state is State.PROMOTED and self.player is None
        return is_walk and [*place[:1]] >= [*self.before_banned]

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Return whether a submission is selected, but for its player and its findings."""
        credential = None if self.key is None else f"{SERVER_CREDENTIAL}{self.key}"
        return (
            row["state"] == self.state.value
            and row["seq"] <= self.upto
            and any(first <= row["board"] <= last for first, last in self.ranges)
            and self.player in (None, row["player"])
            and credential in (None, row["credential"])
            and self.build in (None, row["build"])
            and self.reason in (None, row["reason"])
            and self.received_since_ms <= row["received_at_ms"] < self.received_until_ms
            and self.achieved_since_ms <= row["achieved_at_ms"] < self.achieved_until_ms
        )


class SelectedSlice(NamedTuple):
    """The items of a slice, how many submissions were looked at, and where to go on; None at the end.

    `own` counts those that are the moderator's, and are no items.
    """

    items: Sequence[BatchItem]
    own: int
    looked_at: int
    place: tuple[Any, ...] | None


def next_slice(selection: Selection, place: Sequence[Any]) -> Operation[SelectedSlice]:
    """Return the next slice of a selection. `place` is that of the slice before, empty for the first."""

    async def work(tx: Transaction) -> SelectedSlice:
        if selection.player is not None:
            after = place[0] if place else -1
            rows = await tx.rows(_OF_PLAYER, player=selection.player, after_seq=after, count=SCANNED)
            following: tuple[Any, ...] | None = (_named(rows[-1])["seq"],) if len(rows) == SCANNED else None
        else:
            rows, following = await _walked(tx, selection, place)
        taken = [row for row in await _without_bans(tx, map(_named, rows)) if selection.takes(row)]
        if selection.finding is not None:
            taken = await _with_finding(tx, taken, selection.finding)
        found = len(taken)
        taken = [row for row in taken if row["player"] not in selection.not_players]
        newest: dict[str, int] = dict(
            await fetch_listed(tx, _NEWEST_EVENTS, [row["submission_id"] for row in taken])
        )
        items = [
            BatchItem(
                row["board"], row["seq"], row["submission_id"], row["player"], newest[row["submission_id"]]
            )
            for row in taken
        ]
        return SelectedSlice(items, found - len(taken), len(rows), following)

    return work


async def _walked(
    tx: Transaction, selection: Selection, place: Sequence[Any]
) -> tuple[list[Row], tuple[Any, ...] | None]:
    """Return rows of the range that a place is in, and the place behind them; None behind the last range."""
    walks = [(walk, ends) for walk in _WALKS[selection.state] for ends in selection.ranges]
    number, *after = place or (0,)
    if number == len(walks):
        return [], None
    (query, names), (first, last) = walks[number]
    values = dict(zip(names, after or _before(first, names), strict=True))
    rows = await tx.rows(
        query, last=last, count=SCANNED, **{f"after_{name}": value for name, value in values.items()}
    )
    if len(rows) == SCANNED:
        return rows, (number, *(_named(rows[-1])[name] for name in names))
    return rows, (number + 1,) if number + 1 < len(walks) else None


def _before(board: str, names: Sequence[str]) -> list[Any]:
    """Return a place before everything on a board."""
    return [board, *("" if name == "player" else -1 for name in names[1:])]


async def _without_bans(tx: Transaction, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return submissions in the state, and for the reason, that they would have had nobody been banned."""
    found = list(rows)
    banned = [row["submission_id"] for row in found if is_banned(row["state"], row["reason"])]
    reasons = await reasons_without_bans(tx, banned)
    return [
        row | {"state": State.PROMOTED.value, "reason": reasons[row["submission_id"]]}
        if row["submission_id"] in reasons
        else row
        for row in found
    ]


def _named(row: Row) -> dict[str, Any]:
    return dict(zip(_COLUMNS, row, strict=True))


async def _with_finding(tx: Transaction, rows: Sequence[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    """Return the submissions that have a finding of a validator or for a reason, be it a replay's."""
    replayed = await replay_findings([row["submission_id"] for row in rows])(tx)
    return [
        row
        for row in rows
        if any(
            _is_of(finding, wanted)
            for finding in (*findings_in(row["findings"]), *replayed.get(row["submission_id"], ()))
        )
    ]


def _is_of(finding: Finding, wanted: str) -> bool:
    return wanted in (finding.reason.value, finding.validator)
