"""Find the parts of a deployment that run, and have them read their policies."""

from __future__ import annotations

import typer

from scoregate.commands.common import DataDir, fail, finish, settings_beside, settings_of
from scoregate.commands.tables import AsJson, show


def status(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the parts that run: which process each is, since when, and by which policies. Status 1 if there is none."""
    from scoregate.running import parts_of

    found = finish(parts_of(settings_beside(data_dir)))
    show(found.rows, ("part", "pid", "host", "since", "version", "policies", "failing"), as_json=as_json)
    if found.trouble:
        typer.echo(found.trouble, err=True)
    if not found.rows:
        raise typer.Exit(1)


def reload(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Have the parts that run on this machine over this data directory read their policies again."""
    from gateway.deployment.run_files import hang_up, running_parts

    settings = settings_of(data_dir)
    parts = running_parts(settings.data_dir)
    told = [each for each in parts if hang_up(each)]
    rows = [{"part": each.part, "pid": each.pid} for each in told]
    show(rows, ("part", "pid"), as_json=as_json)
    if elsewhere := sum(not each.pid for each in parts):
        fail(f"{elsewhere} more run in other containers, and were not told: reload them there")
    if not told:
        fail(f"no part of the deployment in {settings.data_dir} runs on this machine")
