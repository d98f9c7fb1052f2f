"""Labels: what each decision of a moderator says of a run, for figures of validators and moderators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, insert, null, select, text, update

from gateway.ledger.schema import BY_MODERATOR, events, labels
from gateway.ledger.submission_rows import detail_from
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.vocabulary import Finding, Reason, Severity
from validators.label_figures import LabelledFinding

NEWEST: Final = 10_000
"""Most labels that one read takes, however many there are."""

EVERYTHING: Final = "*"

IN_FAVOUR: Final = frozenset({Reason.APPROVED, Reason.REINSTATED, Reason.APPEAL_GRANTED})
AGAINST: Final = frozenset(
    {
        Reason.REJECTED_BY_MODERATOR,
        Reason.REVOKED_BY_MODERATOR,
        Reason.APPEAL_DENIED,
        Reason.APPROVAL_DECLINED,
    }
)
"""Reasons of decisions that say something of a run."""

_LAST: Final = 2**63 - 1

_l = labels.c

_ADD = Query(insert(labels))
_OVERTURN = Query(
    update(labels)
    .where(_l.seq == bindparam("of_seq"), _l.overturned_by.is_(None))
    .values(overturned_by=bindparam("by_seq"))
)
_STAND_AGAIN = Query(
    update(labels)
    .where(_l.seq == bindparam("of_seq"), _l.overturned_by == bindparam("by_seq"))
    .values(overturned_by=null())
)
_known = labels.alias("known")
_known_reason = (
    select(_known.c.reason)
    .where(_known.c.seq == _l.known_seq, _known.c.overturned_by.is_(None))
    .scalar_subquery()
)
_newest = (
    select(*labels.columns, events.c.actor, _known_reason)
    .select_from(labels.outerjoin(events, events.c.seq == _l.overturned_by))
    .where(_l.decided_at_ms >= bindparam("since_ms"), _l.decided_at_ms < bindparam("until_ms"))
    .order_by(_l.decided_at_ms.desc(), _l.seq.desc())
    .limit(bindparam("count"))
)
_BETWEEN = Query(
    select(*labels.columns, null(), null())
    .where(_l.seq > bindparam("after"), _l.seq <= bindparam("upto"))
    .order_by(_l.seq)
    .limit(bindparam("count"))
)
_e = events.c
_BY_MODERATORS = Query(
    select(_e.seq, _e.submission_id, _e.actor, _e.reason, _e.detail, _e.at_ms)
    .where(text(BY_MODERATOR), _e.seq > bindparam("after"))
    .order_by(_e.seq)
    .limit(bindparam("count"))
)
_NEWEST = Query(_newest)
_NEWEST_OF_LABEL = Query(_newest.where(_l.label == bindparam("label")))
_NEWEST_OF_BOARD = Query(_newest.where(_l.board == bindparam("board")))


class DecisionLabel(NamedTuple):
    """What a decision says of a run, in the order of the table's columns.

    `seq` is that of the decision's event. `is_cheat` is None if its code does not say. `findings` are those
    that the moderator saw. `opened_at_ms` is when the case that it decides began. `overturned_by` is the
    event that overturned it, and `overturned_actor` who caused that. Of an answer to a check `known_seq` is
    the decision that it is compared with, and `known_reason` that one's reason while it stands.
    """

    seq: int
    submission_id: str
    board: str
    label: str
    build: str
    moderator: str
    reason: Reason
    code: str
    is_cheat: bool | None
    findings: Sequence[LabelledFinding]
    opened_at_ms: int
    decided_at_ms: int
    overturned_by: int | None = None
    known_seq: int | None = None
    overturned_actor: str | None = None
    known_reason: Reason | None = None

    @property
    def is_in_favour(self) -> bool:
        """Return whether the decision lets the run count."""
        return self.reason in IN_FAVOUR


class LabelFilter(NamedTuple):
    """Which labels: those on boards of these scopes; `board` may be a family.

    `since_ms` is included, `until_ms` is not.
    """

    scopes: frozenset[str]
    board: str | None
    since_ms: int
    until_ms: int


class NewestLabels(NamedTuple):
    """Labels, newest first. All are there from `since_ms` on, which is later than wanted if `is_cut`."""

    labels: Sequence[DecisionLabel]
    since_ms: int
    is_cut: bool


async def add_label(tx: Transaction, label: DecisionLabel) -> None:
    """Store the label of a decision."""
    row = label._asdict()
    del row["overturned_actor"], row["known_reason"]
    row["is_cheat"] = None if label.is_cheat is None else int(label.is_cheat)
    row["findings"] = orjson.dumps([tuple(finding) for finding in label.findings]).decode()
    row["reason"] = label.reason.value
    await tx.run(_ADD, **row)


async def load_label(tx: Transaction, seq: int) -> DecisionLabel | None:
    """Return the label of an event, None without one."""
    return next(iter(await labels_between(tx, seq - 1, seq)), None)


def label_of_event(seq: int) -> Operation[DecisionLabel | None]:
    """Return the label of an event, None without one."""

    async def work(tx: Transaction) -> DecisionLabel | None:
        return await load_label(tx, seq)

    return work


async def overturn_label(tx: Transaction, seq: int, *, by: int) -> None:
    """Note that another event overturned the decision of an event, if that has a label and stands."""
    await tx.run(_OVERTURN, of_seq=seq, by_seq=by)


async def let_stand_again(tx: Transaction, seq: int, *, by: int) -> None:
    """Note that a decision stands again, if it was the event `by` that overturned it."""
    await tx.run(_STAND_AGAIN, of_seq=seq, by_seq=by)


async def labels_between(
    tx: Transaction, after: int, upto: int | None, *, count: int = NEWEST
) -> list[DecisionLabel]:
    """Return the labels of events behind `after` up to `upto`, or to the end, in order."""
    rows = await tx.rows(_BETWEEN, after=after, upto=_LAST if upto is None else upto, count=count)
    return [_label_from(row) for row in rows]


async def events_of_moderators(tx: Transaction, after: int, *, count: int) -> list[dict[str, Any]]:
    """Return the events behind `after` that moderators caused, in order."""
    names = ("seq", "submission_id", "actor", "reason", "detail", "at_ms")
    rows = await tx.rows(_BY_MODERATORS, after=after, count=count)
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return [event | {"detail": detail_from(event["detail"])} for event in found]


def newest_labels(wanted: LabelFilter) -> Operation[NewestLabels]:
    """Return the newest labels, NEWEST at most."""

    async def work(tx: Transaction) -> NewestLabels:
        sources = _sources(wanted)
        count = max(1, NEWEST // max(1, len(sources)))
        found: list[DecisionLabel] = []
        since_ms = wanted.since_ms
        for query, values in sources:
            times = {"since_ms": since_ms, "until_ms": wanted.until_ms}
            rows = await tx.rows(query, **values, **times, count=count)
            found += [_label_from(row) for row in rows]
            if len(rows) == count:  # behind the last one there may be more
                since_ms = found[-1].decided_at_ms + 1
        found = [label for label in found if label.decided_at_ms >= since_ms]
        found.sort(key=lambda label: (label.decided_at_ms, label.seq), reverse=True)
        return NewestLabels(found, since_ms, since_ms > wanted.since_ms)

    return work


def _sources(wanted: LabelFilter) -> list[tuple[Query, dict[str, Any]]]:
    """Return the parts of indexes that have all labels of the scopes, and no label twice."""
    scopes = wanted.scopes if wanted.board is None else frozenset({wanted.board})
    if EVERYTHING in scopes:
        return [(_NEWEST, {})]
    return [
        (_NEWEST_OF_BOARD, {"board": scope}) if "." in scope else (_NEWEST_OF_LABEL, {"label": scope})
        for scope in sorted(scopes)
        if "." not in scope or scope.partition(".")[0] not in scopes
    ]


def kept_findings(findings: Sequence[Finding]) -> tuple[LabelledFinding, ...]:
    """Return findings as labels keep them."""
    return tuple(
        LabelledFinding(
            each.validator,
            each.reason.value,
            each.severity,
            each.value,
            each.expected.at_least,
            each.expected.at_most,
            each.expected.unit,
        )
        for each in findings
    )


def _label_from(row: Row) -> DecisionLabel:
    label = DecisionLabel(*row)
    return label._replace(
        reason=Reason(label.reason),
        is_cheat=None if label.is_cheat is None else bool(label.is_cheat),
        findings=tuple(_finding_from(*each) for each in orjson.loads(row[9])),
        known_reason=None if label.known_reason is None else Reason(label.known_reason),
    )


def _finding_from(validator: str, reason: str, severity: str, *measured: Any) -> LabelledFinding:
    return LabelledFinding(validator, reason, Severity(severity), *measured)
