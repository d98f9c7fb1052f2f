"""`scoregate import`: bring another leaderboard onto a board."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from policies.errors import SettingsError
from scoregate.commands.common import error_console, fail, showing_progress

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from scoregate_client import SyncServerClient

    from scoregate.imports.imported_score import ImportedScore


class ImportFormat(StrEnum):
    """What a file is an export of."""

    CSV = "csv"
    NAKAMA = "nakama"
    PLAYFAB = "playfab"
    STEAM = "steam"


class ImportSource(NamedTuple):
    """Where scores come from, which can be read again: its name for files beside it, and what it is."""

    beside: Path
    identity: bytes
    scores: Callable[[], Iterator[ImportedScore]]


def import_scores(
    source: Annotated[str, typer.Argument(help="A file, or redis://HOST:PORT/DB with --key.")],
    board: Annotated[str, typer.Option(help="The board.")],
    url: Annotated[str, typer.Option(help="The gateway, such as http://localhost:8080.")],
    key_file: Annotated[Path, typer.Option(help="The private key of a server (PEM).")],
    key_id: Annotated[str, typer.Option(help="The id under which the key is registered.")],
    player_column: Annotated[str, typer.Option(help="The column of players' ids.")] = "player",
    score_column: Annotated[str, typer.Option(help="The column of scores, whole numbers.")] = "score",
    time_column: Annotated[
        str | None, typer.Option(help="The column of times, RFC 3339; by default rows keep their order.")
    ] = None,
    from_: Annotated[
        ImportFormat, typer.Option("--from", help="What the file is an export of.")
    ] = ImportFormat.CSV,
    key: Annotated[str | None, typer.Option(help="The sorted set in Redis.")] = None,
    member_prefix: Annotated[
        str, typer.Option(help="What to take off the beginning of members in Redis, such as user:.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be refused, and write nothing.")
    ] = False,
) -> None:
    """Write another leaderboard to a board as a trusted server, and go on where an earlier run ended.

    Status 1 if a row is refused.
    """
    from scoregate_client import ScoregateError

    from scoregate.imports.csv_rows import Columns

    if not re.fullmatch(r"[A-Za-z0-9._-]+", board):  # it is part of the names of files
        raise SettingsError(f"--board: expected the name of a board, not {board!r}")
    url, columns = url.rstrip("/"), Columns(player_column, score_column, time_column)
    try:
        with _client(url, key_id, key_file) as server:
            if source.startswith(("redis://", "rediss://", "unix://")):
                opened = _redis(source, key, member_prefix, board, url)
            else:
                opened = _file(Path(source), from_, columns)
            if dry_run:
                _check(server, board, opened)
            else:
                _import(server, board, opened, [url, board, *map(str, columns), opened.identity])
    except ScoregateError as error:
        fail(f"{str(error).removesuffix('.')}; once that is mended, the same command goes on", status=1)


def _client(url: str, key_id: str, key_file: Path) -> SyncServerClient:
    """Return a client that writes as a trusted server. Raises SettingsError."""
    from scoregate_client import SyncServerClient

    from scoregate.signing_keys import checked_key_id

    private = _private_key(key_file)
    try:
        return SyncServerClient(url, checked_key_id(key_id, "--key-id"), private)
    except ValueError as error:
        raise SettingsError(f"--url: {str(error).removeprefix('base_url: ')}") from None


def _private_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from scoregate.signing_keys import read_key_file

    private = read_key_file(path).key
    if not isinstance(private, Ed25519PrivateKey):
        raise SettingsError(f"{path}: expected the private key of a server (Ed25519, PEM)")
    return private


def _file(path: Path, from_: ImportFormat, columns: Any) -> ImportSource:
    from scoregate.imports.csv_rows import scores_of_csv
    from scoregate.imports.imported_rows import BEGINNING
    from scoregate.imports.nakama import scores_of_nakama
    from scoregate.imports.playfab import scores_of_playfab
    from scoregate.imports.steam import scores_of_steam

    read: dict[ImportFormat, Callable[[], Iterator[ImportedScore]]] = {
        ImportFormat.CSV: lambda: scores_of_csv(path, columns),
        ImportFormat.NAKAMA: lambda: scores_of_nakama(path),
        ImportFormat.PLAYFAB: lambda: scores_of_playfab(path),
        ImportFormat.STEAM: lambda: scores_of_steam(path),
    }
    with path.open("rb") as file:
        return ImportSource(path, from_.encode() + file.read(BEGINNING), read[from_])


def _redis(source: str, key: str | None, prefix: str, board: str, url: str) -> ImportSource:
    from scoregate_client import SyncScoregateClient

    from scoregate.imports.redis_copy import copy_sorted_set, scores_of_copy

    if not key:
        raise SettingsError("--key: expected the sorted set in Redis")
    beside = Path(re.sub(r"[^A-Za-z0-9_-]", "_", key)[:100])
    copy = beside.with_name(f"{beside.name}.{board}.copy")
    with SyncScoregateClient(url) as reader:
        is_ascending = reader.board(board).order == "ascending"
    members = copy_sorted_set(source, key, copy)
    error_console().print(f"{copy}: {members} members", markup=False, highlight=False, soft_wrap=True)
    identity = f"{source}\n{key}\n{prefix}".encode()
    return ImportSource(beside, identity, lambda: scores_of_copy(copy, prefix, is_ascending=is_ascending))


def _check(server: SyncServerClient, board: str, source: ImportSource) -> None:
    """Say which rows the gateway would refuse."""
    from scoregate_client import ScoregateError

    from scoregate.imports.imported_rows import Write, check_rows, refusal, rows_of

    def errors_of(batch: Sequence[Write]) -> Sequence[dict[str, Any]]:
        try:
            server.write_batch(board, batch)
        except ScoregateError as error:
            if error.name != "batch-refused":
                raise
            return list(error.problem["errors"])
        raise AssertionError("an operation in the future was accepted")

    count = refused = 0
    for number, row, reason in check_rows(rows_of(source.scores(), board), errors_of):
        count = number
        if reason is not None:
            refused += 1
            typer.echo(refusal(number, row, reason))
    typer.echo(f"{count} rows can be read, {refused} would be refused; nothing was written")
    if refused:
        raise typer.Exit(1)


def _import(server: SyncServerClient, board: str, source: ImportSource, what: Sequence[str | bytes]) -> None:
    """Read everything once, so that nothing is written of what cannot be read, and then write it."""
    from scoregate.imports.imported_rows import Checkpoint, import_rows, rows_of

    beside = source.beside
    checkpoint = Checkpoint(beside.with_name(f"{beside.name}.{board}.imported"), what)
    refusals = beside.with_name(f"{beside.name}.{board}.refused")
    total = sum(1 for _ in source.scores())
    rows = rows_of(source.scores(), board)
    if done := checkpoint.load()[0]:
        error_console().print(f"{beside}: goes on after row {done}", markup=False, soft_wrap=True)
    with showing_progress(error_console(), board, total) as advance:
        imported = import_rows(
            rows, lambda batch: server.write_each(board, batch), checkpoint, refusals, advance
        )
    where = f", see {refusals}" if imported.refused else ""
    typer.echo(f"{imported.written} written, {imported.refused} refused{where}")
    if imported.refused:
        raise typer.Exit(1)
