"""Webhooks from the command line: endpoints and what was delivered to them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from gateway.derived.webhooks.events import EventType, trial
from gateway.derived.webhooks.guard import check_url
from gateway.derived.webhooks.sender import Response, Sender
from gateway.derived.webhooks.signing import new_secret, written
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import EVERY, Delivery, DeliveryState, Webhook
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.wiring import load_policies, open_ledger
from policies.errors import SettingsError
from scoregate.existing import existing_ledger


async def add(
    settings: Settings, url: str, boards: Sequence[str], types: Sequence[str]
) -> tuple[Webhook, str]:
    """The new endpoint, and its secret as its receiver is told it. Raises SettingsError for what cannot be meant."""
    check_url(url, settings.webhook_hosts)
    known = load_policies(settings).keys()
    if strange := sorted(set(boards) - known):
        raise SettingsError(f"no such board: {', '.join(strange)}")
    if strange := sorted(set(types) - set(EventType)):
        raise SettingsError(f"no such event: {', '.join(strange)}; there are {', '.join(EventType)}")
    secret = new_secret()
    webhook = Webhook(
        f"wh_{secrets.token_hex(8)}",
        url,
        secret,
        tuple(boards) or (EVERY,),
        tuple(types) or (EVERY,),
        wall_clock(),
    )
    async with open_ledger(settings) as ledger:
        await ledger.write(webhooks.add_webhook(webhook))
    return webhook, written(secret)


async def all_webhooks(settings: Settings) -> list[Webhook]:
    """Every endpoint, the oldest first."""
    async with existing_ledger(settings) as ledger:
        return await ledger.read(webhooks.all_webhooks)


async def remove(settings: Settings, webhook_id: str) -> None:
    """Takes an endpoint and all its deliveries away. Raises SettingsError if there is none."""
    async with existing_ledger(settings) as ledger:
        if not await ledger.write(webhooks.remove_webhook(webhook_id)):
            raise _unknown(webhook_id)


async def enable(settings: Settings, webhook_id: str) -> None:
    """Has an endpoint told again. Raises SettingsError if there is none."""
    async with existing_ledger(settings) as ledger:
        if not await ledger.write(webhooks.enable_webhook(webhook_id)):
            raise _unknown(webhook_id)


async def test(settings: Settings, webhook_id: str) -> Response:
    """What an endpoint answers to an event that says nothing. Raises SettingsError if there is none."""
    async with existing_ledger(settings) as ledger:
        webhook = _named(await ledger.read(webhooks.all_webhooks), webhook_id)
        told = trial(webhook.boards[0], now_ms=wall_clock())
        return await Sender(settings, ledger, clock=wall_clock).send(webhook, told.event_id, told.body)


async def deliveries(settings: Settings, webhook_id: str, state: DeliveryState, count: int) -> list[Delivery]:
    """Deliveries of an endpoint in a state, the last ones first. Raises SettingsError if there is none."""
    async with existing_ledger(settings) as ledger:
        _named(await ledger.read(webhooks.all_webhooks), webhook_id)
        return await ledger.read(webhooks.deliveries_of(webhook_id, state, count=count))


async def retry(settings: Settings, webhook_id: str) -> int:
    """How many dead deliveries of an endpoint are tried again. Raises SettingsError if there is none."""
    async with existing_ledger(settings) as ledger:
        _named(await ledger.read(webhooks.all_webhooks), webhook_id)
        return await ledger.write(webhooks.retry_dead(webhook_id, now_ms=wall_clock()))


def _named(known: Sequence[Webhook], webhook_id: str) -> Webhook:
    for each in known:
        if each.webhook_id == webhook_id:
            return each
    raise _unknown(webhook_id)


def _unknown(webhook_id: str) -> SettingsError:
    return SettingsError(f"there is no webhook {webhook_id}")
