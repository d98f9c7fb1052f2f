"""What the commands share: their options, their settings, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from policies.errors import LedgerTampered, ProofInvalid

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.runtime.settings import Settings

T = TypeVar("T")

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where everything is kept. SCOREGATE_DATA_DIR.")
]
Bind = Annotated[str | None, typer.Option("--bind", help="Host and port to answer on. SCOREGATE_BIND.")]


def settings_of(
    data_dir: Path | None = None, bind: str | None = None, *, ledger_url: str | None = None
) -> Settings:
    """The settings, with what the command line says over them. Raises SettingsError."""
    from gateway.runtime.settings import load_settings

    given = {"data_dir": data_dir, "bind": bind, "ledger_url": ledger_url}
    return load_settings(**{name: value for name, value in given.items() if value is not None})


def settings_beside(data_dir: Path | None) -> Settings:
    """The settings of a command that needs the index, which may be the one of a running `scoregate up`."""
    from scoregate.embedded import with_embedded

    return with_embedded(settings_of(data_dir))


def console() -> Console:
    """Where what a command shows goes."""
    from rich.console import Console

    return Console()


def error_console() -> Console:
    """Where what is wrong goes, and what moves on a terminal beside the output."""
    from rich.console import Console

    return Console(stderr=True)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of what runs in an event loop."""
    import asyncio

    return asyncio.run(work)


def judged(work: Callable[[], T]) -> T:
    """The result of `work`; the status is 1 if the ledger or a proof turns out to be false."""
    try:
        return work()
    except (LedgerTampered, ProofInvalid) as error:
        fail(str(error), status=1)


def fail(message: str, status: int = 2) -> NoReturn:
    """Ends the command with one line of what is wrong."""
    error_console().print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(status)
