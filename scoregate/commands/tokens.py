"""`scoregate token`: issue tokens for programs."""

from __future__ import annotations

from typing import Annotated

import typer

from scoregate.commands.common import DataDir, deployment_of, finish, refuse_unknown_boards, tell_new_ledger
from scoregate.commands.moderators import RoleName, RoleOption

app = typer.Typer(no_args_is_help=True)


@app.command("moderator")
def token_moderator(
    name: str,
    board: Annotated[
        list[str] | None, typer.Option(help="A board or a family that it is for; by default all of theirs.")
    ] = None,
    role: RoleOption = RoleName.MODERATOR,
    hours: Annotated[int, typer.Option(min=1, max=8760, help="Hours until it expires.")] = 12,
    data_dir: DataDir = None,
) -> None:
    """Print a moderator's token for a program.

    A moderator who has no account yet gets one, without a password.
    """
    from gateway.edge.auth.moderators import ModeratorRole
    from scoregate.moderator_accounts import issue_token

    settings = deployment_of(data_dir)
    refuse_unknown_boards(settings, board or [])
    tell_new_ledger(settings)
    issued = issue_token(settings, name, board or [], ModeratorRole(role.value), hours=hours)
    typer.echo(finish(issued))
