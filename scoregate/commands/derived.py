"""What is derived from the ledger."""

from __future__ import annotations

import typer

from scoregate.commands.common import DataDir, finish, settings_beside

app = typer.Typer(no_args_is_help=True)


@app.command("rebuild")
def derived_rebuild(name: str, data_dir: DataDir = None) -> None:
    """Have the steward make `statistics`, `trends` or `achievements` anew from the ledger."""
    from scoregate.derived import rebuild

    finish(rebuild(settings_beside(data_dir), name))
    typer.echo(f"{name} begins again; the steward is at it")
