"""`scoregate up`: start every part on this machine and keep them up."""

from __future__ import annotations

from typing import Annotated

import typer

from scoregate.commands.common import (
    Bind,
    DataDir,
    console,
    own_version,
    print_first_admin,
    print_line,
    settings_of,
)


def up(
    data_dir: DataDir = None,
    bind: Bind = None,
    edges: Annotated[int, typer.Option(min=1, max=64, help="Edges, which share the address.")] = 1,
    stewards: Annotated[int, typer.Option(min=1, max=64, help="Stewards, which share the duties.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers.")] = 1,
) -> None:
    """Start everything on this machine, with nothing configured."""
    from scoregate.deployment_settings import as_last_run
    from scoregate.processes import obeying_signals
    from scoregate.stack import PartCounts, running_stack

    settings = as_last_run(settings_of(data_dir, bind))
    counts = PartCounts(edges, stewards, workers)
    with running_stack(settings, counts, obeying=obeying_signals) as stack:
        screen = console()
        print_line(screen, f"Scoregate {own_version()} is up; its data is in {stack.settings.data_dir}")
        if stack.has_game:
            print_line(screen, f"  the game        {stack.url}/arcade/")
        print_line(screen, f"  the interface   {stack.url}/docs")
        if stack.has_own_policies:
            print_line(screen, f"  the policies    {stack.settings.policies_dir}")
        print_first_admin(screen, stack.settings, "  the first admin ")
        if fault := stack.index_fault:
            print_line(screen, f"Degraded: {fault}")
        print_line(screen, "Ctrl-C ends it.")
        stack.keep_up()
