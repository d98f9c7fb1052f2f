"""`scoregate key`: register trusted servers' keys, list them, and revoke them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from policies.errors import ScoregateError, SettingsError
from scoregate.commands.common import (
    DataDir,
    deployment_of,
    existing_ledger,
    fail,
    finish,
    refuse_unknown_boards,
    settings_beside,
    settings_of,
    tell_new_ledger,
)
from scoregate.commands.tables import AsJson, show

if TYPE_CHECKING:
    from gateway.ledger.records import ServerKey
    from gateway.runtime.clock import Clock
    from gateway.runtime.settings import Settings
    from scoregate.quarantine import Quarantine

PUBLIC_KEY_BYTES: Final = 32

app = typer.Typer(no_args_is_help=True)


@app.command("add")
def key_add(
    key_id: str,
    public_key: Annotated[str, typer.Option(help="The Ed25519 public key: 32 bytes in base64.")],
    board: Annotated[
        list[str] | None, typer.Option(help="A board or a family the server writes to; by default all.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register a trusted server's public key."""
    settings = deployment_of(data_dir, is_writing=bool(board))
    refuse_unknown_boards(settings, board or [])
    finish(register(settings, key_id, public_key, tuple(board or ["*"])))
    typer.echo(f"registered {key_id}; a running edge knows it within two seconds")


@app.command("list")
def key_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the registered keys."""
    from gateway.runtime.clock import rfc3339

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
        str | None, typer.Option(help="Also take back everything it wrote since then (RFC 3339).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Take it back at once, without a look at it.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Revoke a trusted server's key, for good.

    Status 1 if something that it wrote is to be taken back, and 2 if something cannot be.
    """
    since_ms = None if compromised_since is None else moment_of(compromised_since)
    # Only what is taken back is shown in the index: to revoke a key, nothing else has to be known.
    settings = settings_of(data_dir) if since_ms is None else settings_beside(data_dir, is_writing=True)
    found = finish(revoke(settings, key_id, compromised_since_ms=since_ms, is_applied=yes))
    if not as_json:
        typer.echo(f"revoked {key_id}: nothing more is written with it")
    rows = [{"submission": submission_id, "what": what} for submission_id, what in found.rows()]
    if rows or as_json:
        show(rows, ("submission", "what"), as_json=as_json)
    _tell(found)


def _tell(found: Quarantine) -> None:
    """Say what the batch of a quarantine is, and what to do with it."""
    from scoregate.operator_batches import lines_of

    if found.batch is None:
        return
    for line in lines_of(found.batch):
        typer.echo(line, err=True)
    left = [item.submission_id for item in found.items if item.why]
    if left:
        fail(f"these still count, or somebody has decided on them meanwhile: {', '.join(left)}")
    if not found.batch.decided_by:
        raise typer.Exit(1)


async def register(settings: Settings, key_id: str, public_key: str, boards: tuple[str, ...]) -> None:
    """Write the key into the ledger. Raises SettingsError for no key, and for an id of another or of none."""
    import base64
    import binascii

    from gateway.edge.auth.signatures import load_server_public_key
    from gateway.ledger import queries
    from gateway.ledger.records import ServerKey
    from gateway.runtime.clock import wall_clock
    from gateway.wiring import open_ledger
    from scoregate.signing_keys import checked_key_id

    checked_key_id(key_id, "KEY_ID")
    try:
        raw = base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError):
        raise SettingsError("--public-key: expected 32 bytes in base64") from None
    if len(raw) != PUBLIC_KEY_BYTES:
        raise SettingsError(
            f"--public-key: expected 32 bytes in base64, got {len(raw)}: of a DER key take the last 32"
        )
    load_server_public_key(raw)
    tell_new_ledger(settings)
    async with open_ledger(settings) as ledger:
        known = (await ledger.read(queries.all_server_keys())).get(key_id)
        if known and known.revoked_at_ms is not None:
            raise SettingsError(f"{key_id} was revoked; register the new key under a new id")
        if known and (known.public_key, known.boards) != (raw, boards):
            raise SettingsError(f"{key_id} is registered already, with another key or other boards")
        if known is None:
            await ledger.write(queries.add_server_key(ServerKey(key_id, raw, boards, wall_clock())))


async def all_keys(settings: Settings) -> list[ServerKey]:
    """Return every registered key, by id."""
    from gateway.ledger import queries

    async with existing_ledger(settings) as ledger:
        return list((await ledger.read(queries.all_server_keys())).values())


async def revoke(
    settings: Settings,
    key_id: str,
    *,
    compromised_since_ms: int | None = None,
    is_applied: bool = False,
    clock: Clock | None = None,
) -> Quarantine:
    """Revoke the key; with a time preview, or take back, what it wrote since then and what still counts.

    Safe to repeat. Raises SettingsError for a key that was never registered.
    """
    from gateway.ledger import queries
    from gateway.runtime.clock import wall_clock
    from scoregate.commands.batches import open_operator
    from scoregate.quarantine import Quarantine, quarantine

    clock = clock or wall_clock
    async with existing_ledger(settings) as ledger:
        if key_id not in await ledger.read(queries.all_server_keys()):
            raise SettingsError(f"{key_id} is not registered")
        await ledger.write(queries.revoke_server_key(key_id, now_ms=clock()))
    if compromised_since_ms is None:
        return Quarantine()
    try:
        async with open_operator(settings, clock) as operator:
            return await quarantine(operator, key_id, since_ms=compromised_since_ms, is_applied=is_applied)
    except ScoregateError as error:
        raise SettingsError(
            f"{key_id} is revoked, but the batch of what it wrote came to nothing, so run this again: {error}"
        ) from None


def moment_of(text: str) -> int:
    """Return the Unix milliseconds of an RFC 3339 time with a zone. Raises SettingsError for others."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SettingsError(f"expected a time with a zone, such as 2026-11-20T14:00:00Z, got {text!r}")
    return int(moment.timestamp() * 1000)
