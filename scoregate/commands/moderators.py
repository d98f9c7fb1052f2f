"""`scoregate moderator`: who moderates, on which boards, and how they get in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scoregate.commands.common import (
    DataDir,
    deployment_of,
    finish,
    refuse_missing_ledger,
    refuse_unknown_boards,
    settings_of,
    tell_new_ledger,
)
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True)


class RoleName(StrEnum):
    """The roles, from the smallest to the greatest."""

    VIEWER = "viewer"
    MODERATOR = "moderator"
    SENIOR = "senior"
    ADMIN = "admin"


RoleOption = Annotated[RoleName, typer.Option(help="What they may do there.")]


@app.command("add")
def moderator_add(
    name: str,
    role: RoleOption = RoleName.MODERATOR,
    scope: Annotated[
        list[str] | None, typer.Option(help="A board or a family that they moderate; by default all.")
    ] = None,
    player: Annotated[
        list[str] | None, typer.Option(help="A player of their own, on whose runs they never decide.")
    ] = None,
    oidc: Annotated[
        str | None,
        typer.Option(
            help="Their subject at the identity provider, through which they log in from the start."
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Add a moderator, and print the address at which they choose how to log in, unless that is said."""
    from gateway.edge.auth.moderators import ModeratorRole
    from scoregate.moderator_accounts import add, add_known

    settings = deployment_of(data_dir, is_writing=bool(scope))
    refuse_unknown_boards(settings, scope or [], "--scope")
    tell_new_ledger(settings)
    grants, players = (scope or ["*"], ModeratorRole(role.value)), player or []
    if oidc is None:
        _print_invitation(finish(add(settings, name, *grants, players)))
        return
    finish(add_known(settings, name, *grants, players, subject=oidc))
    typer.echo(f"added {name}, who logs in through {settings.oidc_issuer}")


@app.command("invite")
def moderator_invite(name: str, data_dir: DataDir = None) -> None:
    """Print a new address at which a moderator chooses how to log in."""
    from scoregate.moderator_accounts import invite

    _print_invitation(finish(invite(_settings_there(data_dir), name)))


@app.command("list")
def moderator_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the moderators."""
    from gateway.runtime.clock import rfc3339
    from scoregate.moderator_accounts import every_account

    rows = [
        {
            "moderator": account.name,
            "roles": [f"{role} of {scope}" for scope, role in account.grants.items()],
            "players": account.players,
            "login": "password" if account.password else "provider" if account.identity else None,
            "second_factor": account.has_second_factor,
            "state": "disabled" if account.is_disabled else "enabled",
            "since": rfc3339(account.created_at_ms),
        }
        for account in finish(every_account(_settings_there(data_dir)))
    ]
    columns = ("moderator", "roles", "players", "login", "second_factor", "state", "since")
    show(rows, columns, as_json=as_json)


@app.command("disable")
def moderator_disable(name: str, data_dir: DataDir = None) -> None:
    """Disable a moderator: sessions and tokens end at once."""
    from scoregate.moderator_accounts import disable

    finish(disable(_settings_there(data_dir), name))
    typer.echo(f"disabled {name}: their sessions and tokens have ended")


@app.command("enable")
def moderator_enable(name: str, data_dir: DataDir = None) -> None:
    """Enable a moderator who was disabled."""
    from scoregate.moderator_accounts import enable

    finish(enable(_settings_there(data_dir), name))
    typer.echo(f"enabled {name}")


def _settings_there(data_dir: Path | None) -> Settings:
    """Load the settings of a deployment that has a ledger. Raises SettingsError."""
    settings = settings_of(data_dir)
    refuse_missing_ledger(settings)
    return settings


def _print_invitation(address: str) -> None:
    """Print an invitation, with how long it holds beside the output."""
    typer.echo("to be opened once, within 72 hours:", err=True)
    typer.echo(address)
