"""Options, settings, boards and endings that commands share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

from policies.errors import LedgerTampered, ProofInvalid, SettingsError

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.catalogue.catalogue import Catalogue
    from gateway.ledger.ledger import Ledger
    from gateway.runtime.clock import Clock
    from gateway.runtime.settings import Settings
    from policies.loader import Board, Family, Policies

T = TypeVar("T")

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where everything is kept. SCOREGATE_DATA_DIR.")
]
Bind = Annotated[str | None, typer.Option("--bind", help="Host and port to answer on. SCOREGATE_BIND.")]

OPERATOR: Final = "operator"
"""The actor of changes made from the command line."""

EVERY_BOARD: Final = "*"

WHERE: Final = "; --data-dir or SCOREGATE_DATA_DIR says where to look"
"""How to look for another deployment, at the end of an error."""


def own_version() -> str:
    """Return the version of this installation."""
    from importlib.metadata import version

    return version("scoregate")


def settings_of(
    data_dir: Path | None = None,
    bind: str | None = None,
    *,
    ledger_url: str | None = None,
    is_part: bool = False,
) -> Settings:
    """Load the settings; options of the command line win. Raises SettingsError.

    Variables that look like settings and are none are told once, unless it is for a part, which logs them.
    """
    from gateway.runtime.settings import load_settings

    if not is_part:
        _tell_unknown_settings()
    options = {"data_dir": data_dir, "bind": bind, "ledger_url": ledger_url}
    return load_settings(**{name: value for name, value in options.items() if value is not None})


@cache
def _tell_unknown_settings() -> None:
    from gateway.runtime.unknown_variables import sentence_of, unknown_variables

    for name, nearest in unknown_variables(os.environ).items():
        typer.echo(sentence_of(name, nearest), err=True)


def deployment_of(data_dir: Path | None, *, is_writing: bool = False) -> Settings:
    """Load the settings for a command that needs the policies of the deployment in the data directory.

    With `is_writing`, other policies than those that its parts run on are refused. Raises SettingsError.
    """
    from scoregate.deployment_settings import with_policies_folder, with_same_policies

    settings = settings_of(data_dir)
    return with_same_policies(settings) if is_writing else with_policies_folder(settings)


def settings_beside(data_dir: Path | None, *, is_writing: bool = False) -> Settings:
    """Load the settings as `deployment_of` does, with the index of the parts over the directory.

    Where another is configured, that is said. Raises SettingsError also if the parts do not tell which it is.
    """
    from gateway.deployment.run_files import running_parts
    from scoregate.embedded import other_redis, with_noted_redis

    settings = with_noted_redis(deployment_of(data_dir, is_writing=is_writing), is_needed=True)
    with suppress(OSError):  # the notes may be another user's, who runs the parts
        if other := other_redis(settings, running_parts(settings.data_dir)):
            typer.echo(other, err=True)
    return settings


@asynccontextmanager
async def existing_ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """Open the ledger. Raises SettingsError if there is no file: to look at a ledger must not create one."""
    from gateway.wiring import open_ledger

    refuse_missing_ledger(settings)
    async with open_ledger(settings) as ledger:
        yield ledger


async def deployment_clock(settings: Settings, ledger: Ledger) -> Clock:
    """Return the clock by which the parts of the deployment go, or this machine's if nobody tells its time.

    On SQLite that is Redis' clock, so a command that has no index asks the Redis that the parts use.
    """
    from redis.exceptions import RedisError

    from gateway.deployment.time_sources import shared_clock
    from gateway.index.connection import connect
    from scoregate.embedded import with_noted_redis

    noted = with_noted_redis(settings, is_needed=False)
    client = connect(noted.redis_url, timeout_ms=noted.redis_timeout_ms)
    try:
        return await shared_clock(noted, ledger, client)
    finally:
        with suppress(RedisError):
            await client.aclose()


def refuse_missing_ledger(settings: Settings) -> None:
    """Raise SettingsError if the ledger has no file."""
    if not settings.is_on_postgres and not settings.ledger_path.exists():
        raise SettingsError(f"{settings.ledger_path}: there is no ledger{WHERE}")


def tell_new_ledger(settings: Settings) -> None:
    """Say that a command is about to make the ledger, since a running deployment has another one then."""
    if not settings.is_on_postgres and not settings.ledger_path.exists():
        typer.echo(f"{settings.ledger_path}: nothing has run here, so this is a new ledger{WHERE}", err=True)


async def boards_named(catalogue: Catalogue, names: Sequence[str]) -> list[Board]:
    """Return the named boards in their order, or all boards of files by name.

    Raises SettingsError for a name without a board, and LedgerUnavailable.
    """
    boards = await catalogue.boards(names or sorted(catalogue.of_files))
    if unknown := [name for name in names if name not in boards]:
        raise SettingsError(f"no policy for {', '.join(unknown)}; there are {_known(catalogue.policies)}")
    return [boards[name] for name in names or boards]


async def board_named(catalogue: Catalogue, name: str) -> Board:
    """Return a board by its name. Raises like `boards_named`."""
    [board] = await boards_named(catalogue, [name])
    return board


def policy_named(policies: Policies, name: str) -> Board | Family:
    """Return the board of a file or the family of this name. Raises SettingsError."""
    if name not in policies.by_name:
        raise SettingsError(
            f"no policy for {name}; there are {', '.join(sorted(policies.by_name))}{policies.place}"
        )
    return policies.by_name[name]


def refuse_unknown_boards(settings: Settings, names: Iterable[str], option: str = "--board") -> None:
    """Raise SettingsError, with what exists, if a name is not `*` and not that of a board or a family.

    A board of a family may be opened later, so its name only has to be one that the family allows.
    """
    from policies.loader import load_policies
    from policies.opened_board import family_named_by

    wanted = [name for name in names if name != EVERY_BOARD]
    if not wanted:
        return
    policies = load_policies(settings.policies_dir)
    known = policies.by_name

    def is_known(name: str) -> bool:
        family = policies.families.get(family_named_by(name) or "")
        return name in known or (family is not None and family.is_named(name))

    if unknown := [name for name in wanted if not is_known(name)]:
        raise SettingsError(
            f"{option}: there is no board or family {', '.join(map(repr, unknown))}{policies.place}; "
            f"boards: {', '.join(sorted(policies.boards)) or 'none'}; "
            f"families: {', '.join(sorted(policies.families)) or 'none'}"
        )


def _known(policies: Policies) -> str:
    names = sorted([*policies.boards, *(f"{family}.*" for family in policies.families)])
    return ", ".join(names) + policies.place


def console() -> Console:
    """Return the console for a command's output."""
    from rich.console import Console

    return Console()


def error_console() -> Console:
    """Return the console for errors and progress, which stay out of the output."""
    from rich.console import Console

    return Console(stderr=True)


def print_line(screen: Console, line: str) -> None:
    """Print a line as it is, without wrapping, colours or markup."""
    screen.print(line, soft_wrap=True, highlight=False, markup=False)


def print_first_admin(screen: Console, settings: Settings, label: str) -> None:
    """Print the address at which the first admin sets a password, if there is no admin with one."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from scoregate.processes import holding_signals

    # In a process of its own, since `up` runs for months and has no other use for what this loads.
    # What a handler raises in a fork is swallowed.
    with holding_signals(), ProcessPoolExecutor(1, get_context("fork")) as pool:
        address = pool.submit(_first_admin, settings).result()
    if address:
        print_line(screen, f"{label}{address} (once, within 72 hours)")


def _first_admin(settings: Settings) -> str | None:
    """Return the address of the first admin's invitation, None if there is an admin with a password."""
    from scoregate.moderator_accounts import first_admin

    return finish(first_admin(settings))


@contextmanager
def showing_progress(screen: Console, what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal while the block runs, and yield the function that advances it by a number."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop and return its result."""
    import asyncio

    return asyncio.run(work)


def judged(work: Callable[[], T]) -> T:
    """Return the result of `work`, or exit with status 1 if the ledger or a proof turns out to be false."""
    try:
        return work()
    except (LedgerTampered, ProofInvalid) as error:
        fail(str(error), status=1)


def fail(message: str, status: int = 2) -> NoReturn:
    """Exit with one line that says what is wrong."""
    error_console().print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(status)
