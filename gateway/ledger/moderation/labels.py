"""Labels: what each decision of a moderator says of a run, for figures of validators and moderators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson
from sqlalchemy import bindparam, insert, update

from gateway.ledger.schema import labels
from gateway.ledger.transaction import Query, Transaction

_l = labels.c

_ADD = Query(insert(labels))
_OVERTURN = Query(
    update(labels).where(_l.seq == bindparam("of_seq")).values(overturned_by=bindparam("by_seq"))
)


class DecisionLabel(NamedTuple):
    """What a decision says of a run, in the order of the table's columns.

    `seq` is that of the decision's event. `is_cheat` is None if its code does not say. `findings` has the
    worst severity of each validator's findings. `opened_at_ms` is when the case that it decides began.
    """

    seq: int
    submission_id: str
    board: str
    label: str
    build: str
    moderator: str
    reason: str
    code: str
    is_cheat: bool | None
    findings: Mapping[str, str]
    opened_at_ms: int
    decided_at_ms: int


async def add_label(tx: Transaction, label: DecisionLabel) -> None:
    """Store the label of a decision."""
    row = label._asdict()
    row["is_cheat"] = None if label.is_cheat is None else int(label.is_cheat)
    row["findings"] = orjson.dumps(dict(label.findings), option=orjson.OPT_SORT_KEYS).decode()
    await tx.run(_ADD, **row, overturned_by=None)


async def overturn_label(tx: Transaction, seq: int, *, by: int) -> None:
    """Note that another event overturned the decision of an event, if that has a label."""
    await tx.run(_OVERTURN, of_seq=seq, by_seq=by)
