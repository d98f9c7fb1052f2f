"""`scoregate ledger`: migrate and copy the ledger, verify its seals, prove its events; and past boards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from policies.errors import LedgerTampered, ProofInvalid, SettingsError
from scoregate.commands.as_of import ledger_as_of
from scoregate.commands.common import (
    WHERE,
    DataDir,
    error_console,
    existing_ledger,
    fail,
    finish,
    judged,
    settings_of,
    showing_progress,
)
from scoregate.commands.tables import AsJson, show_json

if TYPE_CHECKING:
    from gateway.ledger.ledger import Ledger
    from gateway.ledger.seals.audit import AuditReport
    from gateway.ledger.seals.proofs import Proof
    from gateway.ledger.seals.signing_keys import PublicKeys
    from gateway.runtime.settings import Settings

PROOF_LIMIT_BYTES: Final = 16 * 1024 * 1024

KeyFile = Annotated[
    Path | None, typer.Option(help="A file with the public key; by default that of the data directory.")
]

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class LedgerVerification:
    """An audit without faults, with the number of labels and of exported heads that were compared.

    `overdue_since_ms` says since when events wait that should be sealed by now.
    """

    audit: AuditReport
    overdue_since_ms: int | None
    labels: int
    heads: int | None = None

    def text(self) -> str:
        """Return the verification for people."""
        from gateway.runtime.clock import rfc3339

        text = _summary(self.audit)
        if self.overdue_since_ms is not None:
            since = rfc3339(self.overdue_since_ms)
            text += f" though they wait since {since}: the newest seals were removed, or no steward runs"
        if self.labels:
            text += f"\nall {self.labels} labels of decisions are what their events say"
        return text if self.heads is None else f"{text}\nall {self.heads} exported heads are in the ledger"

    def facts(self) -> dict[str, object]:
        """Return the verification for programs."""
        from gateway.runtime.clock import rfc3339

        overdue = None if self.overdue_since_ms is None else rfc3339(self.overdue_since_ms)
        audit = {**asdict(self.audit), "unsealed_events": self.audit.unsealed_events}
        compared = {"labels": self.labels, "heads": self.heads}
        return {"is_clean": True, **audit, "overdue_since": overdue, **compared}


@app.command("migrate")
def ledger_migrate(
    url: Annotated[
        str | None, typer.Option(help="The ledger, as its owner opens it. SCOREGATE_LEDGER_URL.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Bring the ledger's schema to this version of Scoregate, or create it."""
    from gateway.ledger.schema import SCHEMA_VERSION

    finish(_migrate(settings_of(data_dir, ledger_url=url)))
    typer.echo(f"the ledger is at schema version {SCHEMA_VERSION}")


@app.command("copy")
def ledger_copy(
    to: Annotated[
        str | None,
        typer.Option(help="An empty PostgreSQL database, as its owner opens it. SCOREGATE_LEDGER_URL."),
    ] = None,
    public_key: KeyFile = None,
    data_dir: DataDir = None,
) -> None:
    """Copy the ledger of a stopped deployment from SQLite into an empty PostgreSQL database.

    No part begins on the file afterwards. Status 1, and nothing is copied, if the ledger is not what was
    sealed.
    """
    settings, url = settings_of(data_dir), settings_of(data_dir, ledger_url=to).ledger_url
    if url is None or not url.get_secret_value().startswith("postgresql:"):
        raise SettingsError("--to: expected postgresql://<user>:<password>@<host>:<port>/<database>")
    typer.echo(judged(lambda: finish(_copy(settings, url.get_secret_value(), public_key))))


@app.command("public-key")
def ledger_public_key(data_dir: DataDir = None) -> None:
    """Print the public key that seals are checked with."""
    from gateway.steward.seals.sealing import seal_key_of

    typer.echo(seal_key_of(settings_of(data_dir), is_made=False).public_pem(), nl=False)


@app.command("verify")
def ledger_verify(
    public_key: KeyFile = None,
    heads: Annotated[Path | None, typer.Option(help="A file of exported heads.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Say whether the ledger is what was sealed.

    Status 0 if it is, 1 if not, with the place where it differs, 2 if that cannot be told.
    """
    try:
        verification = finish(_verify(settings_of(data_dir), public_key, heads))
    except (LedgerTampered, ProofInvalid) as error:
        if as_json:
            show_json([{"is_clean": False, "fault": str(error)}])
        fail(str(error), status=1)
    if as_json:
        show_json([verification.facts()])
    else:
        typer.echo(verification.text())


@app.command("heads")
def ledger_heads(
    output: Annotated[Path, typer.Option(help="The file to append to.")], data_dir: DataDir = None
) -> None:
    """Append the signed heads that a file lacks, one a line."""
    count = judged(lambda: finish(_export(settings_of(data_dir), output)))
    typer.echo(f"{output}: {count} heads appended")


@app.command("prove")
def ledger_prove(
    subject: Annotated[str, typer.Argument(help="A submission's id, or the name of a family's board.")],
    output: Annotated[
        Path | None, typer.Option(help="The file to write; by default standard output.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Write a proof that the events of a submission, or of a board's life, were sealed."""
    proof, unsealed = judged(lambda: finish(_proof(settings_of(data_dir), subject)))
    if output is None:
        typer.echo(proof, nl=False)
    else:
        output.write_bytes(proof)
    if unsealed:
        error_console().print(f"newer events of {subject} that are not sealed yet: {unsealed}", markup=False)


@app.command("verify-proof")
def ledger_verify_proof(
    file: Path, public_key: Annotated[Path, typer.Option(help="A file with the public key.")]
) -> None:
    """Say what a proof proves, with nothing but a public key: 0 if it holds, 1 if not."""
    typer.echo(judged(lambda: _verify_proof(file, public_key)))


@app.command("verify-trail")
def ledger_verify_trail(
    file: Annotated[Path, typer.Argument(help="An exported audit trail, as CSV.")],
    public_key: KeyFile = None,
    data_dir: DataDir = None,
) -> None:
    """Compare an exported audit trail with the seals of the ledger: 0 if each row is as sealed, 1 if not."""
    typer.echo(judged(lambda: finish(_verify_trail(settings_of(data_dir), file, public_key))))


app.command("as-of")(ledger_as_of)


async def _migrate(settings: Settings) -> None:
    """Bring the schema to the newest version. Raises LedgerUnavailable."""
    from gateway.ledger.migrate import upgrade_postgres
    from gateway.wiring import ledger_of

    if settings.is_on_postgres and settings.ledger_url:
        await upgrade_postgres(settings.ledger_url.get_secret_value())
        return
    ledger = ledger_of(settings)
    try:
        await ledger.open()  # which brings an SQLite ledger up to date
    finally:
        await ledger.close()


async def _copy(settings: Settings, url: str, key_file: Path | None) -> str:
    """Copy the ledger in the data directory, and return what was copied and what to do next."""
    from gateway.ledger.copying import copy_ledger

    if settings.is_on_postgres:  # what the parts are to use: the file is where it is by default
        settings = settings.model_copy(update={"ledger_url": None})
    source = settings.ledger_path
    if not source.exists():
        raise SettingsError(f"{source}: there is no ledger{WHERE}")
    began = monotonic()
    with showing_progress(error_console(), f"rows of {source.name}") as advance:
        copy = await copy_ledger(source, url, lambda: _keys(settings, key_file), advance=advance)
    rows, took_s = sum(copy.rows.values()), monotonic() - began
    return (
        f"copied: {rows} rows in {took_s:.0f} s, and the database has as many in every table\n"
        f"{_summary(copy.audit)}\n"
        "now set SCOREGATE_LEDGER_URL to the database for every part, as a role of scoregate_app, "
        f"and start the parts; leave {source} where it is, so that no part begins a new ledger there. The "
        "data directory stays in use for keys and recordings, and the index needs no rebuild"
    )


async def _verify(settings: Settings, key_file: Path | None, heads_file: Path | None) -> LedgerVerification:
    """AuditReport the ledger. Raises LedgerTampered, or SettingsError for a file that cannot be read."""
    from gateway.ledger.seals.audit import audit, check_checkpoints
    from gateway.ledger.seals.checkpoints import exported_lines
    from gateway.settlement.label_audit import check_labels

    async with existing_ledger(settings) as ledger:
        keys = _keys(settings, key_file)
        result = await audit(ledger, keys)
        overdue_since_ms = await _overdue_since_ms(ledger, result, settings)
        verification = LedgerVerification(result, overdue_since_ms, await check_labels(ledger))
        if heads_file is None:
            return verification
        with _opened(heads_file) as file:
            count = await check_checkpoints(ledger, keys, exported_lines(file))
    if not count:
        raise SettingsError(f"{heads_file}: has no heads, and an empty file proves nothing")
    return replace(verification, heads=count)


async def _export(settings: Settings, path: Path) -> int:
    """Append heads to the file, and return their number."""
    from gateway.ledger.seals.checkpoints import export_checkpoints

    async with existing_ledger(settings) as ledger:
        return await export_checkpoints(ledger, path)


async def _proof(settings: Settings, subject: str) -> tuple[bytes, int]:
    """Return the written proof of the sealed events of a submission or board, and how many are unsealed.

    Raises SettingsError if there is nothing to prove.
    """
    from gateway.ledger.seals.proofs import prove, prove_life
    from policies.opened_board import is_name_in_family

    is_board = is_name_in_family(subject)  # no submission's id has a dot
    async with existing_ledger(settings) as ledger:
        proof, unsealed = await (prove_life if is_board else prove)(ledger, subject)
    if proof is None and not unsealed:
        raise SettingsError(f"there is no {'board' if is_board else 'submission'} {subject}")
    if proof is None:
        raise SettingsError(
            f"no event of {subject} is sealed yet; the steward seals within {settings.seal_s:g} s"
        )
    return proof.written(), unsealed


def _verify_proof(file: Path, key_file: Path) -> str:
    """Return what a proof proves, in words. Raises ProofInvalid."""
    from gateway.ledger.seals.proofs import check_proof
    from gateway.ledger.seals.signing_keys import read_public_keys

    keys = read_public_keys(key_file)
    try:
        with file.open("rb") as opened:  # which may be a pipe, that has no size
            written = opened.read(PROOF_LIMIT_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{file}: the proof cannot be read: {error}") from None
    if len(written) > PROOF_LIMIT_BYTES:
        raise ProofInvalid("this is no proof: it is too large")
    return _proven(check_proof(written, keys))


async def _verify_trail(settings: Settings, file: Path, key_file: Path | None) -> str:
    """Return how many rows were compared. Raises ProofInvalid, LedgerTampered."""
    from gateway.ledger.moderation.trail_file import check_trail, read_rows

    try:
        opened = file.open(encoding="utf-8", newline="")
    except OSError as error:
        raise SettingsError(f"{file}: the trail cannot be read: {error}") from None
    with opened:
        async with existing_ledger(settings) as ledger:
            checked = await check_trail(ledger, read_rows(opened), _keys(settings, key_file))
    rest = f"; {checked.unsealed} are not sealed yet" if checked.unsealed else ""
    return f"clean: {checked.sealed} events are as they were sealed{rest}"


def _keys(settings: Settings, key_file: Path | None) -> PublicKeys:
    from gateway.ledger.seals.signing_keys import PublicKeys, read_public_keys
    from gateway.steward.seals.sealing import seal_key_of

    if key_file is not None:
        return read_public_keys(key_file)
    return PublicKeys(seal_key_of(settings, is_made=False).public_key)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise SettingsError(f"{path}: the heads cannot be read: {error}") from None


def _summary(audit: AuditReport) -> str:
    rest = (
        f"{audit.unsealed_events} events from {audit.sealed_events + 1} on are not sealed yet"
        if audit.unsealed_events
        else "nothing is left to seal"
    )
    of_boards = f" and {audit.boards} boards of families" if audit.boards else ""
    erased = f"; texts of {audit.erased_events} events were erased" if audit.erased_events else ""
    return (
        f"clean: {audit.events} events of {audit.submissions} submissions{of_boards}, "
        f"{audit.sealed_events} of them under {audit.seals} seals; {rest}{erased}"
    )


async def _overdue_since_ms(ledger: Ledger, audit: AuditReport, settings: Settings) -> int | None:
    """Return since when events wait that should be sealed by now, or None.

    Raises LedgerTampered if events are overdue and there is no seal at all: then the seals were removed.
    """
    from gateway.ledger.seals import chain
    from gateway.runtime.clock import rfc3339, wall_clock

    since_ms = (await ledger.read(chain.unsealed())).since_ms
    if since_ms is None or since_ms >= wall_clock() - settings.seal_s * 1000:
        return None
    if not audit.seals:
        raise LedgerTampered(
            f"nothing is sealed, though {audit.events} events wait since {rfc3339(since_ms)}: "
            "the seals were removed, or no steward has run"
        )
    return since_ms


def _proven(proof: Proof) -> str:
    from gateway.runtime.clock import rfc3339

    lines = [f"proven: {len(proof.events)} events of {proof.subject}"]
    for entry in proof.events:
        event, facts = entry.event, entry.facts or {}
        claim = f", score {facts['score']} by {facts['player']}" if facts else ""
        change = f"{event['from_state']} to {event['to_state']}{claim}"
        if proof.board is not None:
            at_ms = event["at_ms"]
            assert isinstance(at_ms, int), "the sealed column is a number"
            change = f"{event['reason']} by {event['actor']} at {rfc3339(at_ms)}"
        sealed = f"sealed {rfc3339(entry.seal.created_at_ms)} by {entry.seal.key_id}"
        lines.append(f"  event {event['seq']}: {change}; {sealed}")
    return "\n".join(lines)
