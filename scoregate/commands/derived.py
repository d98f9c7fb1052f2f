"""`scoregate derived`: compute anew what is derived from the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from policies.errors import SettingsError
from scoregate.commands.common import DataDir, existing_ledger, finish, settings_beside

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True)


@app.command("rebuild")
def derived_rebuild(name: str, data_dir: DataDir = None) -> None:
    """Have the steward compute `statistics`, `trends` or `achievements` anew from the ledger."""
    finish(_rebuild(settings_beside(data_dir, is_writing=True), name))
    typer.echo(f"{name} begins again; the steward is at it")


async def _rebuild(settings: Settings, name: str) -> None:
    """Have the steward compute one of them anew. Raises SettingsError for any other name."""
    from gateway.derived.derivations import REBUILDABLE, Derivations
    from gateway.runtime.clock import wall_clock
    from gateway.wiring import catalogue_of, open_index

    if name not in REBUILDABLE:
        raise SettingsError(f"expected {', '.join(REBUILDABLE)}, got {name!r}")
    async with existing_ledger(settings) as ledger, open_index(settings) as index:
        catalogue = catalogue_of(settings, ledger)
        await Derivations(settings, catalogue, ledger, index.client, clock=wall_clock).rebuild(name)
