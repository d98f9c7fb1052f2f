"""Trusted servers' keys."""

from __future__ import annotations

from typing import Annotated

import typer

from scoregate.commands.common import DataDir, fail, finish, settings_beside, settings_of
from scoregate.commands.tables import AsJson, show

app = typer.Typer(no_args_is_help=True)


@app.command("add")
def key_add(
    key_id: str,
    public_key: Annotated[str, typer.Option(help="The Ed25519 public key: 32 bytes in base64.")],
    board: Annotated[
        list[str] | None, typer.Option(help="A board the server writes to; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register a trusted server's public key."""
    from scoregate.keys import register
    from scoregate.known_boards import refuse_unknown

    settings = settings_of(data_dir)
    refuse_unknown(settings, board or [])
    finish(register(settings, key_id, public_key, tuple(board or ["*"])))
    typer.echo(f"registered {key_id}; a running edge knows it within two seconds")


@app.command("list")
def key_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the registered keys."""
    from gateway.runtime.clock import rfc3339
    from scoregate.keys import all_keys

    rows = [
        {
            "key": key.key_id,
            "boards": key.boards,
            "state": "valid" if key.revoked_at_ms is None else "revoked",
            "since": rfc3339(key.created_at_ms),
            "revoked_at": None if key.revoked_at_ms is None else rfc3339(key.revoked_at_ms),
        }
        for key in finish(all_keys(settings_of(data_dir)))
    ]
    show(rows, ("key", "boards", "state", "since", "revoked_at"), as_json=as_json)


@app.command("revoke")
def key_revoke(
    key_id: str,
    compromised_since: Annotated[
        str | None, typer.Option(help="Also take back all that it wrote since then (RFC 3339).")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Take a trusted server's key back, for good."""
    from scoregate.keys import moment_of, revoke

    since_ms = None if compromised_since is None else moment_of(compromised_since)
    found = finish(revoke(settings_beside(data_dir), key_id, compromised_since_ms=since_ms))
    rows = [{"submission": each, "what": what} for what, ids in found.by_what() for each in ids]
    if not as_json:
        typer.echo(f"revoked {key_id}: nothing more is written with it")
    if rows or as_json:
        show(rows, ("submission", "what"), as_json=as_json)
    if found.left:
        fail(f"these still count, their boards have no policy here: {', '.join(found.left)}")
