"""Webhooks: registered endpoints, and the deliveries that each of them still has to get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, func, insert, null, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.schema import deliveries, webhooks
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.runtime.telemetry import label_of

EVERY: Final = "*"
"""Means all boards, or all types of events."""


class DeliveryState(StrEnum):
    """The state of a delivery. A dead one has used up its attempts."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint: secret (24 to 64 bytes), wanted boards and event types, and failures in a row."""

    webhook_id: str
    url: str
    secret: bytes
    boards: tuple[str, ...]
    types: tuple[str, ...]
    created_at_ms: int
    failures: int = 0
    disabled_at_ms: int | None = None

    def wants(self, board: str, kind: str) -> bool:
        """Return whether the endpoint gets events of this type of a board, by its name or its family's."""
        is_of_board = not {EVERY, board, label_of(board)}.isdisjoint(self.boards)
        return self.disabled_at_ms is None and is_of_board and (EVERY in self.types or kind in self.types)


class WebhookEvent(NamedTuple):
    """An event for webhooks. Its id stays the same however often it is sent."""

    event_id: str
    board: str
    type: str
    body: bytes


class Delivery(NamedTuple):
    """One event for one webhook. After its end, `due_at_ms` is when it ended."""

    webhook_id: str
    event_id: str
    type: str
    body: bytes
    created_at_ms: int
    due_at_ms: int
    tries: int
    state: DeliveryState
    outcome: str


class DeliveryAttempt(NamedTuple):
    """An attempt: the state of its delivery afterwards, and when that is due or ended (Unix ms)."""

    delivery: Delivery
    state: DeliveryState
    at_ms: int
    outcome: str
    is_success: bool
    is_gone: bool


_w, _d = webhooks.c, deliveries.c

_ADD = Query(insert(webhooks))
_ALL = Query(select(webhooks).order_by(_w.created_at_ms, _w.webhook_id))
_REMOVE = Query(delete(webhooks).where(_w.webhook_id == bindparam("id")))
_REMOVE_DELIVERIES = Query(delete(deliveries).where(_d.webhook_id == bindparam("id")))
_ENABLE = Query(
    update(webhooks).where(_w.webhook_id == bindparam("id")).values(failures=0, disabled_at_ms=null())
)
_SUCCEEDED = Query(update(webhooks).where(_w.webhook_id == bindparam("id")).values(failures=0))
_FAILED = Query(update(webhooks).where(_w.webhook_id == bindparam("id")).values(failures=_w.failures + 1))
_DISABLE = Query(
    update(webhooks)
    .where(_w.webhook_id == bindparam("id"), _w.disabled_at_ms.is_(None), _w.failures >= bindparam("limit"))
    .values(disabled_at_ms=bindparam("now_ms"))
)
_PUT = Query(upsert(deliveries).on_conflict_do_nothing(index_elements=["webhook_id", "event_id"]))
_DUE = Query(
    select(deliveries)
    .where(
        _d.state == DeliveryState.PENDING.value,
        _d.webhook_id == bindparam("id"),
        _d.due_at_ms <= bindparam("now_ms"),
    )
    .order_by(_d.due_at_ms)
    .limit(bindparam("count"))
)
_NEXT = Query(
    select(func.min(_d.due_at_ms)).where(
        _d.state == DeliveryState.PENDING.value, _d.webhook_id == bindparam("id")
    )
)
_LEASE = Query(
    update(deliveries)
    .where(_d.webhook_id == bindparam("id"), _d.event_id == bindparam("event"))
    .values(due_at_ms=bindparam("until_ms"), tries=_d.tries + 1)
)
_END = Query(
    update(deliveries)
    .where(
        _d.webhook_id == bindparam("id"),
        _d.event_id == bindparam("event"),
        _d.state == DeliveryState.PENDING.value,
    )
    .values(state=bindparam("ended"), due_at_ms=bindparam("at"), outcome=bindparam("said"))
)
_IN_STATE = Query(
    select(deliveries)
    .where(_d.state == bindparam("in_state"), _d.webhook_id == bindparam("id"))
    .order_by(_d.due_at_ms.desc())
    .limit(bindparam("count"))
)
_RETRY = Query(
    update(deliveries)
    .where(_d.state == DeliveryState.DEAD.value, _d.webhook_id == bindparam("id"))
    .values(state=DeliveryState.PENDING.value, due_at_ms=bindparam("now"), tries=0)
)
_PRUNE = Query(
    delete(deliveries).where(
        _d.state == bindparam("in_state"),
        _d.webhook_id == bindparam("id"),
        _d.due_at_ms < bindparam("before_ms"),
    )
)
_WAITING = Query(
    select(_d.state, func.count()).where(_d.state != DeliveryState.DELIVERED.value).group_by(_d.state)
)


def add_webhook(webhook: Webhook) -> Operation[None]:
    """Register an endpoint."""

    async def work(tx: Transaction) -> None:
        await tx.run(
            _ADD,
            webhook_id=webhook.webhook_id,
            url=webhook.url,
            secret=webhook.secret,
            boards=orjson.dumps(webhook.boards).decode(),
            types=orjson.dumps(webhook.types).decode(),
            created_at_ms=webhook.created_at_ms,
            failures=webhook.failures,
            disabled_at_ms=webhook.disabled_at_ms,
        )

    return work


async def all_webhooks(tx: Transaction) -> list[Webhook]:
    """Return every endpoint, the oldest first."""
    return [
        Webhook(
            webhook_id, url, bytes(secret), tuple(orjson.loads(boards)), tuple(orjson.loads(types)), *rest
        )
        for webhook_id, url, secret, boards, types, *rest in await tx.rows(_ALL)
    ]


def remove_webhook(webhook_id: str) -> Operation[bool]:
    """Remove an endpoint with its deliveries, and return whether it was registered."""

    async def work(tx: Transaction) -> bool:
        await tx.run(_REMOVE_DELIVERIES, id=webhook_id)
        return bool(await tx.run(_REMOVE, id=webhook_id))

    return work


def enable_webhook(webhook_id: str) -> Operation[bool]:
    """Enable an endpoint as if it had never failed, and return whether it is registered."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.run(_ENABLE, id=webhook_id))

    return work


async def queue(tx: Transaction, events: Iterable[WebhookEvent], *, now_ms: int) -> int:
    """Queue each event once for each webhook that wants it, and return how many deliveries are new.

    Without webhooks `events` are not so much as made.
    """
    endpoints, new = await all_webhooks(tx), 0
    for event in events if endpoints else ():
        for endpoint in endpoints:
            if endpoint.wants(event.board, event.type):
                pending = DeliveryState.PENDING.value
                row = (
                    endpoint.webhook_id,
                    event.event_id,
                    event.type,
                    event.body,
                    now_ms,
                    now_ms,
                    0,
                    pending,
                    "",
                )
                new += await tx.run(_PUT, **dict(zip(deliveries.columns.keys(), row, strict=True)))
    return new


def lease_due(webhook_id: str, *, now_ms: int, until_ms: int, count: int) -> Operation[list[Delivery]]:
    """Lease deliveries that are due.

    Each counts as tried once more, and is due again at `until_ms` unless it ends.
    """

    async def work(tx: Transaction) -> list[Delivery]:
        rows = await tx.rows(_DUE, id=webhook_id, now_ms=now_ms, count=count)
        due = [_delivery(row) for row in rows]
        for delivery in due:
            await tx.run(_LEASE, id=webhook_id, event=delivery.event_id, until_ms=until_ms)
        return [delivery._replace(tries=delivery.tries + 1) for delivery in due]

    return work


def next_due(webhook_id: str) -> Operation[int | None]:
    """Return when the next delivery to an endpoint is due, None if none waits."""

    async def work(tx: Transaction) -> int | None:
        [[due_at_ms]] = await tx.rows(_NEXT, id=webhook_id)
        return None if due_at_ms is None else int(due_at_ms)

    return work


def note_attempts(
    attempts: Sequence[DeliveryAttempt], *, now_ms: int, disable_after: int
) -> Operation[set[str]]:
    """Store attempts, and return the endpoints that they disabled.

    These are gone, or have failed `disable_after` times in a row.
    """

    async def work(tx: Transaction) -> set[str]:
        disabled = set()
        for attempt in attempts:
            webhook_id, event_id = attempt.delivery.webhook_id, attempt.delivery.event_id
            result = {"ended": attempt.state.value, "at": attempt.at_ms, "said": attempt.outcome}
            await tx.run(_END, id=webhook_id, event=event_id, **result)
            await tx.run(_SUCCEEDED if attempt.is_success else _FAILED, id=webhook_id)
            limit = 0 if attempt.is_gone else disable_after
            if not attempt.is_success and await tx.run(_DISABLE, id=webhook_id, limit=limit, now_ms=now_ms):
                disabled.add(webhook_id)
        return disabled

    return work


def deliveries_of(webhook_id: str, state: DeliveryState, *, count: int) -> Operation[list[Delivery]]:
    """Return deliveries of an endpoint in one state, the last due or ended first."""

    async def work(tx: Transaction) -> list[Delivery]:
        rows = await tx.rows(_IN_STATE, id=webhook_id, in_state=state.value, count=count)
        return [_delivery(row) for row in rows]

    return work


def retry_dead(webhook_id: str, *, now_ms: int) -> Operation[int]:
    """Make dead deliveries of an endpoint due again with all their attempts, and return how many."""

    async def work(tx: Transaction) -> int:
        return await tx.run(_RETRY, id=webhook_id, now=now_ms)

    return work


def prune_deliveries(webhook_id: str, state: DeliveryState, *, before_ms: int) -> Operation[int]:
    """Delete an endpoint's deliveries in this state with `due_at_ms` before `before_ms`; return how many."""

    async def work(tx: Transaction) -> int:
        return await tx.run(_PRUNE, id=webhook_id, in_state=state.value, before_ms=before_ms)

    return work


def undelivered() -> Operation[dict[str, int]]:
    """Count pending and dead deliveries."""

    async def work(tx: Transaction) -> dict[str, int]:
        return {row[0]: row[1] for row in await tx.rows(_WAITING)}

    return work


def _delivery(row: Row) -> Delivery:
    webhook_id, event_id, kind, body, created_at_ms, due_at_ms, tries, state, outcome = row
    progress: Any = (created_at_ms, due_at_ms, tries, DeliveryState(state), outcome)
    return Delivery(webhook_id, event_id, kind, bytes(body), *progress)
