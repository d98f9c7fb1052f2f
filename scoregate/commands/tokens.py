"""`scoregate token`: mint bearer tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from scoregate.commands.common import DataDir, deployment_of, refuse_unknown_boards

app = typer.Typer(no_args_is_help=True)


@app.command("moderator")
def token_moderator(
    name: str,
    board: Annotated[
        list[str] | None, typer.Option(help="A board the moderator decides on; by default all.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Print a moderator's bearer token, good for 12 hours."""
    import time

    from gateway.edge.auth.keyring import keyring_of
    from gateway.edge.auth.tokens import MODERATOR_TOKEN_S, Bearer, Role, Tokens

    settings = deployment_of(data_dir)
    refuse_unknown_boards(settings, board or [])
    now_s = int(time.time())
    bearer = Bearer(name, Role.MODERATOR, now_s + MODERATOR_TOKEN_S, tuple(board or ["*"]))
    typer.echo(Tokens(keyring_of(settings)).mint(bearer, now_s=now_s))
