"""Try a simulator: what it makes of one recording, and whether it can be relied on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from policies.vocabulary import SimulatorKind
from scoregate.commands.common import console, error_console, fail

app = typer.Typer(no_args_is_help=True)

Module = Annotated[Path, typer.Argument(metavar="MODULE", help="The simulator.")]
Seed = Annotated[
    int | None, typer.Option(help="The seed of the run's ticket; a JSON file of a run has it already.")
]
Kind = Annotated[
    SimulatorKind | None, typer.Option(help="What the simulator is, if its file's suffix does not tell.")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="A board's policy file: its statistics, ticks and budget.")
]
Recordings = Annotated[list[Path], typer.Argument(help="Recordings, or JSON files of runs.")]
Repeats = Annotated[int, typer.Option(min=1, max=1000, help="How often the judging setting plays each run.")]
Margin = Annotated[
    float, typer.Option(min=1, max=1000, help="How many times the worst run the limits allow.")
]
MaximumTicks = Annotated[
    int | None, typer.Option(min=1, help="The longest run the limits are for; the policy's, if none.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@app.command("run")
def sim_run(
    module: Module,
    recording: Path,
    kind: Kind = None,
    seed: Seed = None,
    score: Annotated[int | None, typer.Option(help="The score that is claimed.")] = None,
    ticks: Annotated[int | None, typer.Option(help="The ticks that are claimed.")] = None,
    stats: Annotated[
        str | None, typer.Option(help="The statistics that are claimed, in the simulator's order: 12,3,4.")
    ] = None,
    policy: PolicyFile = None,
    as_json: AsJson = False,
) -> None:
    """Print the verdict on one recording. Status 0 if it is verified, 1 if not, 2 if that cannot be told."""
    import orjson

    from policies.vocabulary import VerdictKind
    from scoregate.sim import Claimed, run_one, verdict_as_dict, verdict_lines

    claimed = Claimed(score, ticks, _numbers(stats))
    judged = run_one(module, recording, kind=kind, seed=seed, claimed=claimed, policy=policy)
    if as_json:
        typer.echo(orjson.dumps(verdict_as_dict(judged)))
    else:
        for line in verdict_lines(judged):
            typer.echo(line)
    if judged.verdict.kind is not VerdictKind.VERIFIED:
        raise typer.Exit(1)


@app.command("check")
def sim_check(
    module: Module,
    recordings: Recordings,
    kind: Kind = None,
    seed: Seed = None,
    policy: PolicyFile = None,
    repeats: Repeats = 5,
    margin: Margin = 4.0,
    maximum_ticks: MaximumTicks = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a simulator is replay-safe, and what limits to set. Status 0 if it is, 1 if not, 2 for an error."""
    from scoregate.sim import Thoroughness, check_all, checked_as_json, checked_lines, tried

    shown_on = error_console() if as_json else console()
    wanted = Thoroughness(repeats, margin, maximum_ticks)
    checked = check_all(tried(module, kind, policy), recordings, shown_on, seed=seed, wanted=wanted)
    for line in [checked_as_json(checked)] if as_json else checked_lines(checked):
        typer.echo(line)
    if not checked.is_safe:
        raise typer.Exit(1)


def _numbers(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(","))) if text else ()
    except ValueError:
        fail(f"--stats: expected whole numbers as 12,3,4, got {text!r}")
