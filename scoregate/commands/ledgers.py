"""Look into the ledger, and prove what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from policies.errors import LedgerTampered, ProofInvalid
from scoregate.commands.common import DataDir, error_console, fail, finish, judged, settings_of
from scoregate.commands.tables import AsJson, show, show_json

app = typer.Typer(no_args_is_help=True)


@app.command("migrate")
def ledger_migrate(
    url: Annotated[
        str | None, typer.Option(help="The ledger, as its owner opens it. SCOREGATE_LEDGER_URL.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Bring the ledger's schema to this version of Scoregate, or make it."""
    from scoregate.migration import migrate

    typer.echo(migrate(settings_of(data_dir, ledger_url=url)))


@app.command("public-key")
def ledger_public_key(data_dir: DataDir = None) -> None:
    """Print the public key that seals are checked with."""
    from scoregate.ledger import public_key

    typer.echo(public_key(settings_of(data_dir)), nl=False)


@app.command("verify")
def ledger_verify(
    public_key: Annotated[
        Path | None, typer.Option(help="A file with the public key; that of the data directory if none.")
    ] = None,
    heads: Annotated[Path | None, typer.Option(help="A file of exported heads.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Say whether the ledger is what was sealed: 0 if it is, 1 if not and since when, 2 if that cannot be told."""
    from scoregate.ledger import verify

    try:
        found = finish(verify(settings_of(data_dir), public_key, heads))
    except (LedgerTampered, ProofInvalid) as error:
        if as_json:
            show_json([{"is_clean": False, "fault": str(error)}])
        fail(str(error), status=1)
    if as_json:
        show_json([found.facts()])
    else:
        typer.echo(found.words())


@app.command("heads")
def ledger_heads(
    output: Annotated[Path, typer.Option(help="The file to append to.")], data_dir: DataDir = None
) -> None:
    """Append the signed heads that a file lacks, one a line."""
    from scoregate.ledger import export

    count = judged(lambda: finish(export(settings_of(data_dir), output)))
    typer.echo(f"{output}: {count} heads appended")


@app.command("prove")
def ledger_prove(
    submission: str,
    output: Annotated[Path | None, typer.Option(help="Where to; standard output if none.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Write a proof that the events of a submission were sealed."""
    from scoregate.ledger import write_proof

    proof, unsealed = judged(lambda: finish(write_proof(settings_of(data_dir), submission)))
    if output is None:
        typer.echo(proof, nl=False)
    else:
        output.write_bytes(proof)
    if unsealed:
        error_console().print(
            f"newer events of {submission} that are not sealed yet: {unsealed}", markup=False
        )


@app.command("verify-proof")
def ledger_verify_proof(
    file: Path, public_key: Annotated[Path, typer.Option(help="A file with the public key.")]
) -> None:
    """Say what a proof proves, with nothing but a public key: 0 if it holds, 1 if not."""
    from scoregate.ledger import verify_proof

    typer.echo(judged(lambda: verify_proof(file, public_key)))


@app.command("as-of")
def ledger_as_of(
    board: str,
    instant: str,
    window: Annotated[str, typer.Option(help="A kind of window, or one by name.")] = "alltime",
    limit: Annotated[int, typer.Option(min=1, help="Most entries to print.")] = 25,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Print a board as it stood at an instant, folded from the log alone."""
    from scoregate.ledger import as_of, instant_ms

    found = finish(as_of(settings_of(data_dir), board, instant_ms(instant), window, limit))
    if not as_json:
        typer.echo(found.head)
    show(found.rows, ("rank", "score", "player", "achieved_at", "submission"), as_json=as_json)
