"""Judge promoted runs again after an engine change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scoregate.commands.common import DataDir, error_console, fail, finish, settings_beside

app = typer.Typer(no_args_is_help=True)


BoardName = Annotated[str, typer.Option(help="The board.")]
BuildName = Annotated[str, typer.Option(help="The build whose runs are judged again.")]
SimulatorFile = Annotated[Path | None, typer.Option(help="The new simulator; that of the policy if none.")]
Apply = Annotated[bool, typer.Option("--apply", help="Revoke what no longer holds, as one batch.")]
BatchId = Annotated[str | None, typer.Option(help="With --apply: go on with a batch that was broken off.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@app.command("reverify")
def replay_reverify(
    board: BoardName,
    build: BuildName,
    simulator: SimulatorFile = None,
    apply: Apply = False,
    batch: BatchId = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Play a build's promoted runs again, and say what would change. Status 0 if nothing would, 1 if something would."""
    from replay.worker.reverification import begin_of
    from scoregate import replays

    if batch is not None:
        begin_of(batch)
        if not apply:
            fail("--batch goes on with a batch: it needs --apply")
    settings = settings_beside(data_dir)
    of = (settings, board, build, error_console())
    done = finish(replays.reverify(*of, path=simulator, is_applied=apply, batch=batch))
    for line in [replays.as_json(done)] if as_json else replays.lines(done):
        typer.echo(line)
    if done.batch.left if done.batch else done.plan.to_revoke:
        raise typer.Exit(1)


@app.command("undo")
def replay_undo(
    batch: str,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Let count again what a batch revoked, and nobody has decided on since. Status 1 if something of it was left."""
    from dataclasses import asdict

    import orjson

    from scoregate import replays

    undone = finish(replays.undo(settings_beside(data_dir), batch, error_console()))
    if as_json:
        typer.echo(orjson.dumps(asdict(undone)))
    else:
        typer.echo(f"batch {batch}: reinstated {len(undone.settled)}")
        for each in undone.undone_before:
            typer.echo(f"reinstated by an earlier undo\t{each}")
        for each in undone.left:
            typer.echo(f"decided on since, left as it is\t{each}")
    if undone.left:
        raise typer.Exit(1)
