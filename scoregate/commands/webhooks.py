"""Register endpoints, and see what they were told."""

from __future__ import annotations

from typing import Annotated

import typer

from scoregate.commands.common import DataDir, fail, finish, settings_of
from scoregate.commands.tables import AsJson, show

app = typer.Typer(no_args_is_help=True)


@app.command("add")
def webhook_add(
    url: str,
    board: Annotated[list[str] | None, typer.Option(help="A board it is told of; all if none.")] = None,
    event: Annotated[
        list[str] | None, typer.Option(help="A type of event it is told of; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register an endpoint, and print its id and its secret, which is shown this once."""
    from scoregate.webhooks import add

    webhook, secret = finish(add(settings_of(data_dir), url, board or [], event or []))
    typer.echo(f"{webhook.webhook_id}\n{secret}")


@app.command("list")
def webhook_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the endpoints."""
    from gateway.runtime.clock import rfc3339
    from scoregate.webhooks import all_webhooks

    rows = [
        {
            "webhook": each.webhook_id,
            "url": each.url,
            "boards": each.boards,
            "events": each.types,
            "failed_in_a_row": each.failures,
            "disabled_at": None if each.disabled_at_ms is None else rfc3339(each.disabled_at_ms),
        }
        for each in finish(all_webhooks(settings_of(data_dir)))
    ]
    columns = ("webhook", "url", "boards", "events", "failed_in_a_row", "disabled_at")
    show(rows, columns, as_json=as_json)


@app.command("remove")
def webhook_remove(webhook: str, data_dir: DataDir = None) -> None:
    """Tell an endpoint nothing more, and forget what it still had to be told."""
    from scoregate.webhooks import remove

    finish(remove(settings_of(data_dir), webhook))


@app.command("enable")
def webhook_enable(webhook: str, data_dir: DataDir = None) -> None:
    """Tell an endpoint again that was disabled."""
    from scoregate.webhooks import enable

    finish(enable(settings_of(data_dir), webhook))


@app.command("test")
def webhook_test(webhook: str, data_dir: DataDir = None) -> None:
    """Send an endpoint a `webhook.test` now, and say what it answered. Status 1 if that was no success."""
    from scoregate.webhooks import test

    answer = finish(test(settings_of(data_dir), webhook))
    typer.echo(answer.outcome)
    if not answer.is_success:
        raise typer.Exit(1)


@app.command("deliveries")
def webhook_deliveries(
    webhook: str,
    state: Annotated[str, typer.Option(help="`dead`, `pending` or `delivered`.")] = "dead",
    limit: Annotated[int, typer.Option(min=1, help="Most deliveries to print.")] = 25,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List what an endpoint was told, is to be told, or could not be told."""
    from gateway.ledger.derived.webhooks import DeliveryState
    from gateway.runtime.clock import rfc3339
    from scoregate.webhooks import deliveries

    if state not in set(DeliveryState):
        fail(f"--state: expected {', '.join(DeliveryState)}, got {state!r}")
    found = finish(deliveries(settings_of(data_dir), webhook, DeliveryState(state), limit))
    rows = [
        {
            "event": each.event_id,
            "type": each.type,
            "at": rfc3339(each.due_at_ms),
            "attempts": each.tries,
            "answer": each.outcome or None,
        }
        for each in found
    ]
    show(rows, ("event", "type", "at", "attempts", "answer"), as_json=as_json)


@app.command("retry")
def webhook_retry(webhook: str, data_dir: DataDir = None) -> None:
    """Try the dead deliveries of an endpoint again, from the first attempt."""
    from scoregate.webhooks import retry

    typer.echo(f"{finish(retry(settings_of(data_dir), webhook))} deliveries are due again")
