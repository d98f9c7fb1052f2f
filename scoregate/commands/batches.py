"""`scoregate batch`: list batches of decisions, apply one that was previewed, reverse one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import typer

from scoregate.commands.common import DataDir, existing_ledger, finish, settings_beside, settings_of
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.ledger.moderation.batches import Batch
    from gateway.runtime.clock import Clock
    from gateway.runtime.settings import Settings
    from scoregate.operator_batches import BatchOperator

LISTED = 25
"""Batches of a list."""

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def batch_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the newest batches."""
    from gateway.runtime.clock import rfc3339

    rows = [
        {
            "batch": batch.batch_id,
            "state": batch.state.value,
            "by": batch.actor,
            "reason": batch.reason.value,
            "items": batch.items,
            "outcomes": [f"{count} {outcome}" for outcome, count in sorted(batch.outcomes.items())],
            "since": rfc3339(batch.created_at_ms),
        }
        for batch in finish(_newest(settings_of(data_dir)))
    ]
    show(rows, ("batch", "state", "by", "reason", "items", "outcomes", "since"), as_json=as_json)


@app.command("apply")
def batch_apply(batch: str, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Decide exactly what a batch previewed, except what somebody decided on since.

    Status 1 if something was left.
    """
    _tell(finish(_turned(settings_beside(data_dir, is_writing=True), batch, "apply")), as_json=as_json)


@app.command("reverse")
def batch_reverse(batch: str, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Take back what a batch decided, except what somebody decided on since.

    Status 1 if something was left.
    """
    _tell(finish(_turned(settings_beside(data_dir, is_writing=True), batch, "reverse")), as_json=as_json)


def _tell(batch: Batch, *, as_json: bool) -> None:
    """Print what became of a batch."""
    from scoregate.operator_batches import lines_of

    if as_json:
        facts = {"batch": batch.batch_id, "state": batch.state.value, "items": batch.items}
        show([facts | {"outcomes": batch.outcomes, "left_out": batch.left_out}], (), as_json=True)
    else:
        for line in lines_of(batch):
            typer.echo(line)
    if batch.left_out:
        raise typer.Exit(1)


async def _newest(settings: Settings) -> list[Batch]:
    from gateway.ledger.moderation.batches import batches_before

    async with existing_ledger(settings) as ledger:
        return await ledger.read(batches_before(2**63 - 1, "", count=LISTED))


async def _turned(settings: Settings, batch_id: str, turn: str) -> Batch:
    async with open_operator(settings) as operator:
        turns: dict[str, Callable[[str], Awaitable[Batch]]] = {
            "apply": operator.apply,
            "reverse": operator.reverse,
        }
        return await turns[turn](batch_id)


@asynccontextmanager
async def open_operator(settings: Settings, clock: Clock | None = None) -> AsyncIterator[BatchOperator]:
    """Open what an operator's batches need. Raises SettingsError."""
    from gateway.runtime.clock import wall_clock
    from gateway.wiring import catalogue_of, open_index
    from scoregate.operator_batches import BatchOperator

    async with existing_ledger(settings) as ledger, open_index(settings) as index:
        yield BatchOperator(ledger, index, catalogue_of(settings, ledger), clock or wall_clock)
