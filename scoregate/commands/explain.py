"""`scoregate explain`: say step by step what an edge would check of a request, and where it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scoregate.commands.common import DataDir, deployment_of, existing_ledger, finish, print_line, settings_of
from scoregate.commands.sign import STDIN, Key, KeyFile, content_of

if TYPE_CHECKING:
    from gateway.edge.request_explanation import Known, Step
    from gateway.runtime.clock import Clock
    from gateway.runtime.settings import Settings
    from scoregate.raw_requests import RawRequest
    from scoregate.signing_keys import GivenKey


def explain(
    request: Annotated[
        Path, typer.Argument(help="The file with the request, as it was sent; - is standard input.")
    ] = STDIN,
    body: Annotated[
        Path | None, typer.Option(help="The file with the body, if it is not in the request.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="The file with the base that you signed, to compare.")
    ] = None,
    key_file: KeyFile = None,
    key: Key = None,
    at: Annotated[
        int | None, typer.Option(help="When the request comes (Unix seconds); by default now.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Say what an edge would check of a request, step by step, where it fails, and what to write.

    Status 1 if it fails.
    """
    from gateway.edge.request_explanation import Outcome
    from scoregate.raw_requests import raw_request

    raw = raw_request(content_of(request), content_of(body) if body else None)
    given = _given(key_file, key)
    steps = finish(_explained(raw, given, content_of(base) if base else None, at, data_dir))
    _print(steps)
    if any(step.outcome is Outcome.FAILED for step in steps):
        raise typer.Exit(1)


def _given(key_file: Path | None, key: str | None) -> GivenKey | None:
    from scoregate.signing_keys import key_in, read_key_file

    if key_file is not None:
        return read_key_file(key_file)
    return key_in(key, "--key") if key is not None else None


async def _explained(
    raw: RawRequest, given: GivenKey | None, their_base: bytes | None, at: int | None, data_dir: Path | None
) -> list[Step]:
    from gateway.edge.request_explanation import explain as explain_request
    from gateway.runtime.clock import wall_clock

    clock = wall_clock if at is None else lambda: at * 1000
    async with _known(given, clock, data_dir) as known:
        return await explain_request(raw.data, known, their_base, has_body=raw.has_body)


@asynccontextmanager
async def _known(given: GivenKey | None, clock: Clock, data_dir: Path | None) -> AsyncIterator[Known]:
    """Return what is known here: the deployment if its data are at hand, or else a given key."""
    from gateway.edge.auth.keyring import keyring_of
    from gateway.edge.auth.server_keys import ServerKeys
    from gateway.edge.auth.tickets import Tickets
    from gateway.edge.auth.tokens import Tokens
    from gateway.edge.request_explanation import Known
    from gateway.wiring import catalogue_of
    from scoregate.deployment_settings import at_its_address
    from scoregate.signing_keys import GivenKeys

    settings = settings_of(data_dir)
    if given is not None or not _is_at_hand(settings):
        keys = GivenKeys(given) if given else None
        yield Known(settings, clock, keys, keys)
        return
    settings = at_its_address(deployment_of(data_dir))
    keyring = keyring_of(settings)
    async with existing_ledger(settings) as ledger:
        catalogue = catalogue_of(settings, ledger)
        yield Known(settings, clock, Tickets(keyring), ServerKeys(ledger), Tokens(keyring), catalogue)


def _is_at_hand(settings: Settings) -> bool:
    """Return whether the ledger and the master key of a deployment are here. Neither is made."""
    has_key = settings.master_key is not None or (settings.data_dir / "master.key").exists()
    return has_key and (settings.is_on_postgres or settings.ledger_path.exists())


def _print(steps: list[Step]) -> None:
    from scoregate.commands.common import console
    from scoregate.commands.tables import cell

    screen = console()
    for step in steps:
        print_line(screen, f"{step.outcome.value:5}  {cell(step.title)}")
        for line in step.lines:
            print_line(screen, f"       {cell(line)}")
