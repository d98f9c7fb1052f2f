"""Who acts and when, and the events of acts that belong to no submission and no board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from gateway.ledger.queries import newest_seq
from gateway.ledger.schema import events
from gateway.ledger.transaction import Transaction
from policies.vocabulary import Reason
from validators.judge import RULES_VERSION


class Act(NamedTuple):
    """Who acts, and when (Unix ms)."""

    actor: str
    at_ms: int


async def add_event(
    tx: Transaction, reason: Reason, act: Act, detail: Mapping[str, Any], *, player: str = ""
) -> int:
    """Store an event that belongs to no submission and no board, and return its number."""
    seq = await newest_seq()(tx) + 1
    event = {
        "seq": seq,
        "submission_id": "",
        "board": "",
        "player": player,
        "from_state": "",
        "to_state": "",
        "actor": act.actor,
        "reason": reason.value,
        "policy": "",
        "rules_version": RULES_VERSION,
        "detail": orjson.dumps(detail).decode(),
        "at_ms": act.at_ms,
    }
    await tx.insert(events, [tuple(event[column.name] for column in events.columns)])
    return seq
