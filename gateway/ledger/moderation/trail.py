"""The audit trail: the events that moderators caused, newest first, each as it was sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, select, text

from gateway.ledger.schema import BY_MODERATOR, events
from gateway.ledger.seals.leaves import EVENT_COLUMNS
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of
from policies.vocabulary import LATEST_MS

SCANNED: Final = 1_000
"""Most events that one read passes over, however few of them it is asked for."""

CLOCKS_DIFFER_MS: Final = 600_000
"""Events are in the order of their commits, with times of several clocks: one that is so much older than the
wanted time ends a walk."""

ACTOR: Final = "moderator:"
"""What the actor of a moderator's event begins with; the name follows."""

_e = events.c
_columns = [_e[name] for name in EVENT_COLUMNS]
_TRAIL = select(*_columns).where(text(BY_MODERATOR), _e.seq < bindparam("before"))
_OF_ALL = Query(_TRAIL.order_by(_e.seq.desc()).limit(bindparam("count")))
_OF_ONE = Query(
    _TRAIL.where(_e.actor == bindparam("actor")).order_by(_e.seq.desc()).limit(bindparam("count"))
)

_SEQ_AT: Final = EVENT_COLUMNS.index("seq")

_NO_END: Final = 2**63 - 1
_NOTHING: Final[Mapping[str, int]] = {}

TrailRow = Mapping[str, Any]
"""The columns of one event, as they are sealed."""


@dataclass(frozen=True, slots=True)
class TrailFilter:
    """Which events: those on boards of these scopes, and of a moderator, reason, board, player and time.

    `*` among the scopes is every board, and what concerns none: accounts and tokens. `board` may be a family.
    `since_ms` is included, `until_ms` is not.
    """

    scopes: frozenset[str]
    moderator: str | None = None
    reason: str | None = None
    board: str | None = None
    player: str | None = None
    since_ms: int = 0
    until_ms: int = LATEST_MS + 1

    def takes(self, event: TrailRow) -> bool:
        """Return whether an event is among them."""
        board = event["board"]
        label = label_of(board)
        return (
            not self.scopes.isdisjoint({"*", board, label} if board else {"*"})
            and self.reason in (None, event["reason"])
            and self.board in (None, board, label)
            and self.player in (None, event["player"])
            and self.since_ms <= event["at_ms"] < self.until_ms
        )


class TrailPage(NamedTuple):
    """Events, newest first, and the sequence number to go on before; None at the end of the trail.

    A page may be short, and even empty, though more follow.
    """

    events: Sequence[TrailRow]
    before: int | None


def trail_page(
    wanted: TrailFilter, *, before: int, count: int, hidden: Mapping[str, int] = _NOTHING
) -> Operation[TrailPage]:
    """Return the newest events with smaller sequence numbers than `before`.

    Of the submissions in `hidden` the events from that one on are passed over, as if they were not there.
    """

    async def work(tx: Transaction) -> TrailPage:
        limits = {"before": before, "count": SCANNED}
        if wanted.moderator is None:
            rows = await tx.rows(_OF_ALL, **limits)
        else:
            rows = await tx.rows(_OF_ONE, actor=ACTOR + wanted.moderator, **limits)
        taken: list[TrailRow] = []
        for row in rows:
            event = dict(zip(EVENT_COLUMNS, row, strict=True))
            if event["at_ms"] < wanted.since_ms - CLOCKS_DIFFER_MS:
                return TrailPage(taken, None)
            if wanted.takes(event) and event["seq"] < hidden.get(event["submission_id"], _NO_END):
                taken.append(event)
                if len(taken) == count:
                    return TrailPage(taken, event["seq"])
        return TrailPage(taken, rows[-1][_SEQ_AT] if len(rows) == SCANNED else None)

    return work
