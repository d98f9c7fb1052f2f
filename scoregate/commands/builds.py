"""Builds of the game: what each may do, and the kill switch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scoregate.commands.common import DataDir, finish, settings_of
from scoregate.commands.tables import AsJson, show

app = typer.Typer(no_args_is_help=True)

Why = Annotated[str, typer.Option(help="Why, in a sentence; kept in the ledger.")]


@app.command("list")
def build_list(
    board: Annotated[str | None, typer.Argument(help="A board by name; all if none.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List builds: board, build, status, the digest of the simulator, and who changed the status when and why."""
    from gateway.runtime.clock import rfc3339
    from scoregate.builds import all_builds

    rows = [
        {
            "board": each.board,
            "build": each.build,
            "status": each.status.value,
            "simulator": each.simulator,
            "by": each.change.actor if each.change else "policy",
            "since": rfc3339(each.change.at_ms) if each.change else None,
            "reason": each.change.reason if each.change else None,
        }
        for each in finish(all_builds(settings_of(data_dir), board))
    ]
    columns = ("board", "build", "status", "simulator", "by", "since", "reason")
    show(rows, columns, as_json=as_json)


@app.command("allow")
def build_allow(board: str, build: str, reason: Why, data_dir: DataDir = None) -> None:
    """Let a build play, whatever the policy says of it."""
    _change(board, build, "allow", reason, data_dir)


@app.command("provisional")
def build_provisional(board: str, build: str, reason: Why, data_dir: DataDir = None) -> None:
    """Have a moderator decide on the verified runs of a build."""
    _change(board, build, "provisional", reason, data_dir)


@app.command("block")
def build_block(board: str, build: str, reason: Why, data_dir: DataDir = None) -> None:
    """Refuse new runs of a build, and hold what comes of those that are open."""
    _change(board, build, "blocked", reason, data_dir)


def _change(board: str, build: str, named: str, reason: str, data_dir: Path | None) -> None:
    from policies.replaying import BuildStatus
    from scoregate.builds import set_status

    status = BuildStatus(named)
    is_new = finish(set_status(settings_of(data_dir), board, build, status, reason=reason))
    told = "running parts heed it within two seconds" if is_new else "it was that before"
    typer.echo(f"{board} {build}: {status}; {told}")
