"""Webhooks: the endpoints that are told, and what each of them still has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import bindparam, delete, func, insert, null, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from gateway.ledger.schema import deliveries, webhooks
from gateway.ledger.transaction import Operation, Query, Row, Transaction

EVERY: Final = "*"
"""Stands for all boards, or all types of events."""


class DeliveryState(StrEnum):
    """Where a delivery is. `dead`: it was tried as often as it may be."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint: its secret (24 to 64 bytes), the boards and types of events it wants, and how often it failed in a row."""

    webhook_id: str
    url: str
    secret: bytes
    boards: tuple[str, ...]
    types: tuple[str, ...]
    created_at_ms: int
    failures: int = 0
    disabled_at_ms: int | None = None

    def wants(self, board: str, kind: str) -> bool:
        """Whether it is to be told of such events of a board."""
        is_of_board = EVERY in self.boards or board in self.boards
        return self.disabled_at_ms is None and is_of_board and (EVERY in self.types or kind in self.types)


class WebhookEvent(NamedTuple):
    """An event that webhooks are told of. Its id is the same however often it comes."""

    event_id: str
    board: str
    type: str
    body: bytes


class Delivery(NamedTuple):
    """One event for one webhook. `due_at_ms` of one that has ended is when it ended."""

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
    """What came of one attempt: the state of the delivery after it, and when it is due, or ended (ms)."""

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
    """Registers an endpoint."""

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
    """Every endpoint, the oldest first."""
    return [
        Webhook(
            webhook_id, url, bytes(secret), tuple(orjson.loads(boards)), tuple(orjson.loads(types)), *rest
        )
        for webhook_id, url, secret, boards, types, *rest in await tx.rows(_ALL)
    ]


def remove_webhook(webhook_id: str) -> Operation[bool]:
    """True if the endpoint was registered; what it was still to be told goes with it."""

    async def work(tx: Transaction) -> bool:
        await tx.run(_REMOVE_DELIVERIES, id=webhook_id)
        return bool(await tx.run(_REMOVE, id=webhook_id))

    return work


def enable_webhook(webhook_id: str) -> Operation[bool]:
    """True if the endpoint is registered; it is told again, as if it had never failed."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.run(_ENABLE, id=webhook_id))

    return work


async def queue(tx: Transaction, told: Sequence[WebhookEvent], *, now_ms: int) -> int:
    """How many deliveries are new: one of each event for each webhook that wants it, once."""
    endpoints = await all_webhooks(tx) if told else []
    new = 0
    for each in told:
        for endpoint in endpoints:
            if endpoint.wants(each.board, each.type):
                pending = DeliveryState.PENDING.value
                row = (
                    endpoint.webhook_id,
                    each.event_id,
                    each.type,
                    each.body,
                    now_ms,
                    now_ms,
                    0,
                    pending,
                    "",
                )
                new += await tx.run(_PUT, **dict(zip(deliveries.columns.keys(), row, strict=True)))
    return new


def lease_due(webhook_id: str, *, now_ms: int, until_ms: int, count: int) -> Operation[list[Delivery]]:
    """Deliveries whose time has come, each counted as tried once more, and due again at `until_ms` if nobody ends them."""

    async def work(tx: Transaction) -> list[Delivery]:
        rows = await tx.rows(_DUE, id=webhook_id, now_ms=now_ms, count=count)
        found = [_delivery(row) for row in rows]
        for each in found:
            await tx.run(_LEASE, id=webhook_id, event=each.event_id, until_ms=until_ms)
        return [each._replace(tries=each.tries + 1) for each in found]

    return work


def has_due(webhook_id: str, *, now_ms: int) -> Operation[bool]:
    """Whether something is due for an endpoint."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.rows(_DUE, id=webhook_id, now_ms=now_ms, count=1))

    return work


def note_attempts(
    attempts: Sequence[DeliveryAttempt], *, now_ms: int, disable_after: int
) -> Operation[set[str]]:
    """The endpoints that were disabled by these attempts, for having failed so often in a row or for being gone."""

    async def work(tx: Transaction) -> set[str]:
        disabled = set()
        for each in attempts:
            of = each.delivery
            ended = {"ended": each.state.value, "at": each.at_ms, "said": each.outcome}
            await tx.run(_END, id=of.webhook_id, event=of.event_id, **ended)
            await tx.run(_SUCCEEDED if each.is_success else _FAILED, id=of.webhook_id)
            limit = 0 if each.is_gone else disable_after
            if not each.is_success and await tx.run(_DISABLE, id=of.webhook_id, limit=limit, now_ms=now_ms):
                disabled.add(of.webhook_id)
        return disabled

    return work


def deliveries_of(webhook_id: str, state: DeliveryState, *, count: int) -> Operation[list[Delivery]]:
    """Deliveries of an endpoint in one state, the last due or ended first."""

    async def work(tx: Transaction) -> list[Delivery]:
        rows = await tx.rows(_IN_STATE, id=webhook_id, in_state=state.value, count=count)
        return [_delivery(row) for row in rows]

    return work


def retry_dead(webhook_id: str, *, now_ms: int) -> Operation[int]:
    """How many dead deliveries of an endpoint are due again, with all their attempts."""

    async def work(tx: Transaction) -> int:
        return await tx.run(_RETRY, id=webhook_id, now=now_ms)

    return work


def prune_deliveries(webhook_id: str, state: DeliveryState, *, before_ms: int) -> Operation[int]:
    """How many deliveries of an endpoint were forgotten, that have been in this state since before a moment (ms)."""

    async def work(tx: Transaction) -> int:
        return await tx.run(_PRUNE, id=webhook_id, in_state=state.value, before_ms=before_ms)

    return work


def undelivered() -> Operation[dict[str, int]]:
    """How many deliveries are pending and dead."""

    async def work(tx: Transaction) -> dict[str, int]:
        return {row[0]: row[1] for row in await tx.rows(_WAITING)}

    return work


def _delivery(row: Row) -> Delivery:
    webhook_id, event_id, kind, body, created_at_ms, due_at_ms, tries, state, outcome = row
    found: Any = (created_at_ms, due_at_ms, tries, DeliveryState(state), outcome)
    return Delivery(webhook_id, event_id, kind, bytes(body), *found)
