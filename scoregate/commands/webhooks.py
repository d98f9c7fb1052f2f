"""`scoregate webhook`: register endpoints, and see what was delivered to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from policies.errors import SettingsError
from scoregate.commands.common import (
    DataDir,
    deployment_of,
    existing_ledger,
    fail,
    finish,
    settings_of,
    tell_new_ledger,
)
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.derived.webhooks.sender import EndpointResponse
    from gateway.ledger.derived.webhooks import Delivery, DeliveryState, Webhook
    from gateway.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True)


@app.command("add")
def webhook_add(
    url: str,
    board: Annotated[
        list[str] | None, typer.Option(help="A board whose events it receives; by default all.")
    ] = None,
    event: Annotated[
        list[str] | None, typer.Option(help="A type of event that it receives; by default all.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register an endpoint, and print its id and its secret, which is shown only this once."""
    settings = deployment_of(data_dir, is_writing=bool(board))
    webhook, secret = finish(_add(settings, url, board or [], event or []))
    typer.echo(f"{webhook.webhook_id}\n{secret}")


@app.command("list")
def webhook_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the endpoints."""
    from gateway.runtime.clock import rfc3339

    rows = [
        {
            "webhook": webhook.webhook_id,
            "url": webhook.url,
            "boards": webhook.boards,
            "events": webhook.types,
            "failed_in_a_row": webhook.failures,
            "disabled_at": None if webhook.disabled_at_ms is None else rfc3339(webhook.disabled_at_ms),
        }
        for webhook in finish(_all_webhooks(settings_of(data_dir)))
    ]
    columns = ("webhook", "url", "boards", "events", "failed_in_a_row", "disabled_at")
    show(rows, columns, as_json=as_json)


@app.command("remove")
def webhook_remove(webhook: str, data_dir: DataDir = None) -> None:
    """Remove an endpoint and all its deliveries."""
    finish(_remove(settings_of(data_dir), webhook))


@app.command("enable")
def webhook_enable(webhook: str, data_dir: DataDir = None) -> None:
    """Deliver again to an endpoint that was disabled."""
    finish(_enable(settings_of(data_dir), webhook))


@app.command("test")
def webhook_test(webhook: str, data_dir: DataDir = None) -> None:
    """Send an endpoint a `webhook.test` now, and print its answer. Status 1 if that was no success."""
    answer = finish(_test(settings_of(data_dir), webhook))
    typer.echo(answer.fault or answer.outcome)
    if not answer.is_success:
        raise typer.Exit(1)


@app.command("deliveries")
def webhook_deliveries(
    webhook: str,
    state: Annotated[str, typer.Option(help="`dead`, `pending` or `delivered`.")] = "dead",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The most deliveries to print.")] = 25,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List an endpoint's deliveries: delivered, pending or dead."""
    from gateway.ledger.derived.webhooks import DeliveryState
    from gateway.runtime.clock import rfc3339

    if state not in set(DeliveryState):
        fail(f"--state: expected {', '.join(DeliveryState)}, got {state!r}")
    rows = [
        {
            "event": delivery.event_id,
            "type": delivery.type,
            "at": rfc3339(delivery.due_at_ms),
            "attempts": delivery.tries,
            "answer": delivery.outcome or None,
        }
        for delivery in finish(_deliveries(settings_of(data_dir), webhook, DeliveryState(state), limit))
    ]
    show(rows, ("event", "type", "at", "attempts", "answer"), as_json=as_json)


@app.command("retry")
def webhook_retry(webhook: str, data_dir: DataDir = None) -> None:
    """Try the dead deliveries of an endpoint again, from the first attempt."""
    typer.echo(f"{finish(_retry(settings_of(data_dir), webhook))} deliveries are due again")


async def _add(
    settings: Settings, url: str, boards: Sequence[str], types: Sequence[str]
) -> tuple[Webhook, str]:
    """Add an endpoint. Return it, and its secret as the receiver needs it.

    Raises SettingsError for an address that is not allowed, and for unknown boards and events.
    """
    import secrets

    from gateway.derived.webhooks.event_types import EventType
    from gateway.derived.webhooks.guard import check_url
    from gateway.derived.webhooks.webhook_signatures import new_secret, written
    from gateway.ledger.derived import webhooks
    from gateway.ledger.derived.webhooks import EVERY, Webhook
    from gateway.runtime.clock import wall_clock
    from gateway.wiring import open_ledger
    from policies.loader import load_policies

    check_url(url, settings.webhook_hosts)
    policies = load_policies(settings.policies_dir)
    if unknown := sorted(set(boards) - policies.by_name.keys()):
        raise SettingsError(f"no such board: {', '.join(unknown)}{policies.place}")
    if unknown := sorted(set(types) - set(EventType)):
        raise SettingsError(f"no such event: {', '.join(unknown)}; there are {', '.join(EventType)}")
    secret = new_secret()
    webhook = Webhook(
        f"wh_{secrets.token_hex(8)}",
        url,
        secret,
        tuple(boards) or (EVERY,),
        tuple(types) or (EVERY,),
        wall_clock(),
    )
    tell_new_ledger(settings)
    async with open_ledger(settings) as ledger:
        await ledger.write(webhooks.add_webhook(webhook))
    return webhook, written(secret)


async def _all_webhooks(settings: Settings) -> list[Webhook]:
    """Return every endpoint, the oldest first."""
    from gateway.ledger.derived import webhooks

    async with existing_ledger(settings) as ledger:
        return await ledger.read(webhooks.all_webhooks)


async def _remove(settings: Settings, webhook_id: str) -> None:
    """Remove an endpoint and its deliveries. Raises SettingsError if it does not exist."""
    from gateway.ledger.derived import webhooks

    async with existing_ledger(settings) as ledger:
        if not await ledger.write(webhooks.remove_webhook(webhook_id)):
            raise _unknown(webhook_id)


async def _enable(settings: Settings, webhook_id: str) -> None:
    """Enable an endpoint. Raises SettingsError if it does not exist."""
    from gateway.ledger.derived import webhooks

    async with existing_ledger(settings) as ledger:
        if not await ledger.write(webhooks.enable_webhook(webhook_id)):
            raise _unknown(webhook_id)


async def _test(settings: Settings, webhook_id: str) -> EndpointResponse:
    """Send an endpoint an empty event and return its answer. Raises SettingsError if it does not exist."""
    from gateway.derived.webhooks.event_types import trial
    from gateway.derived.webhooks.sender import Sender
    from gateway.ledger.derived import webhooks
    from gateway.runtime.clock import wall_clock

    async with existing_ledger(settings) as ledger:
        webhook = _named(await ledger.read(webhooks.all_webhooks), webhook_id)
        event = trial(webhook.boards[0], now_ms=wall_clock())
        return await Sender(settings, ledger, clock=wall_clock).send(webhook, event.event_id, event.body)


async def _deliveries(
    settings: Settings, webhook_id: str, state: DeliveryState, count: int
) -> list[Delivery]:
    """Return deliveries of an endpoint, the newest first. Raises SettingsError for an unknown id."""
    from gateway.ledger.derived import webhooks

    async with existing_ledger(settings) as ledger:
        _named(await ledger.read(webhooks.all_webhooks), webhook_id)
        return await ledger.read(webhooks.deliveries_of(webhook_id, state, count=count))


async def _retry(settings: Settings, webhook_id: str) -> int:
    """Make dead deliveries due, and return their number. Raises SettingsError for an unknown id."""
    from gateway.ledger.derived import webhooks
    from gateway.runtime.clock import wall_clock

    async with existing_ledger(settings) as ledger:
        _named(await ledger.read(webhooks.all_webhooks), webhook_id)
        return await ledger.write(webhooks.retry_dead(webhook_id, now_ms=wall_clock()))


def _named(webhooks: Sequence[Webhook], webhook_id: str) -> Webhook:
    for webhook in webhooks:
        if webhook.webhook_id == webhook_id:
            return webhook
    raise _unknown(webhook_id)


def _unknown(webhook_id: str) -> SettingsError:
    return SettingsError(f"there is no webhook {webhook_id}")
