"""The `scoregate` command."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, NoReturn, TypeVar

import typer
from rich.console import Console

from gateway.edge.credentials.tokens import MODERATOR_TOKEN_S, Bearer, Role, Tokens
from gateway.settings import Settings, load_settings
from gateway.telemetry import configure_logging
from gateway.wiring import keyring_of, open_edge, open_steward
from policies.errors import LedgerTampered, ProofInvalid, ScoregateError
from policies.loader import load_board
from scoregate.embedded import with_embedded
from scoregate.metrics import serving_metrics

T = TypeVar("T")

app = typer.Typer(
    help="An anti-cheat leaderboard gateway: signed submissions in, re-simulated scores on the board.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
token_app = typer.Typer(help="Mint bearer tokens.", no_args_is_help=True)
key_app = typer.Typer(help="Register trusted servers, list them, take their keys back.", no_args_is_help=True)
policy_app = typer.Typer(help="Look at policy files.", no_args_is_help=True)
app.add_typer(token_app, name="token")
app.add_typer(key_app, name="key")
app.add_typer(policy_app, name="policy")
board_app = typer.Typer(help="Rebuild and check what readers see of the boards.", no_args_is_help=True)
app.add_typer(board_app, name="board")
ledger_app = typer.Typer(help="Look into the ledger.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
webhook_app = typer.Typer(help="Have other services told what happens.", no_args_is_help=True)
app.add_typer(webhook_app, name="webhook")
derived_app = typer.Typer(help="Make what is derived from the ledger anew.", no_args_is_help=True)
app.add_typer(derived_app, name="derived")

GARBAGE_THRESHOLD: Final = 50_000
"""Objects made between two looks for cycles. A request makes hundreds and no cycles; Python's 700 costs a tenth."""

_err = Console(stderr=True)

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where everything is kept. SCOREGATE_DATA_DIR.")
]
Bind = Annotated[str | None, typer.Option("--bind", help="Host and port to answer on. SCOREGATE_BIND.")]


@app.command()
def up(
    data_dir: DataDir = None, bind: Bind = None, workers: Annotated[int, typer.Option(min=1, max=64)] = 1
) -> None:
    """Start everything on this machine, with nothing configured."""
    from scoregate.stack import running_stack

    with running_stack(_settings(data_dir, bind), workers=workers) as stack:
        console = Console()
        console.print(f"Scoregate {version('scoregate')} is up; its data is in {stack.settings.data_dir}")
        console.print(f"  the game        {stack.url}/arcade/")
        console.print(f"  the interface   {stack.url}/docs")
        console.print("Ctrl-C ends it.")
        _until_told(stack.keep_up)


@app.command()
def demo(
    exit_after: Annotated[
        bool, typer.Option("--exit", help="End when the script has, with status 1 if it failed.")
    ] = False,
    data_dir: DataDir = None,
    bind: Bind = None,
) -> None:
    """Start everything and watch honest players and cheats meet it."""
    from scoregate.demo.show import show

    raise typer.Exit(show(_settings(data_dir, bind), exit_after=exit_after))


@app.command()
def serve(bind: Bind = None) -> None:
    """Run the edge."""
    from gateway.edge.listener import listening

    settings = _settings(None, bind)

    async def run(stop: asyncio.Event) -> None:
        async with open_edge(settings) as edge, listening(edge):
            await stop.wait()

    _run_part(settings, run)


@app.command()
def steward() -> None:
    """Run the background duties."""
    settings = _settings()

    async def run(stop: asyncio.Event) -> None:
        with serving_metrics(settings):
            await do_rounds(stop)

    async def do_rounds(stop: asyncio.Event) -> None:
        async with open_steward(settings) as duties:
            rounds = asyncio.create_task(duties.run())
            told = asyncio.create_task(stop.wait())
            await asyncio.wait({rounds, told}, return_when=asyncio.FIRST_COMPLETED)
            rounds.cancel()
            with suppress(asyncio.CancelledError):
                await rounds

    _run_part(settings, run)


@app.command()
def worker() -> None:
    """Run a worker, which replays and settles."""
    from replay.worker import run_worker

    settings = _settings()
    configure_logging(settings.log_level)
    with serving_metrics(settings):
        run_worker(settings)


@token_app.command("moderator")
def token_moderator(
    name: str,
    board: Annotated[
        list[str] | None, typer.Option(help="A board the moderator decides on; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Print a moderator's bearer token, good for 12 hours."""
    import time

    now_s = int(time.time())
    bearer = Bearer(name, Role.MODERATOR, now_s + MODERATOR_TOKEN_S, tuple(board or ["*"]))
    typer.echo(Tokens(keyring_of(_settings(data_dir))).mint(bearer, now_s=now_s))


@key_app.command("add")
def key_add(
    key_id: str,
    public_key: Annotated[str, typer.Option(help="The Ed25519 public key: 32 bytes in base64.")],
    board: Annotated[
        list[str] | None, typer.Option(help="A board the server writes to; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register a trusted server's public key."""
    from scoregate.keys import register

    asyncio.run(register(_settings(data_dir), key_id, public_key, tuple(board or ["*"])))
    typer.echo(f"registered {key_id}; a running edge knows it within two seconds")


@key_app.command("list")
def key_list(data_dir: DataDir = None) -> None:
    """List the registered keys."""
    from gateway.clock import rfc3339
    from scoregate.keys import all_keys

    for key in asyncio.run(all_keys(_settings(data_dir))):
        until = f"revoked {rfc3339(key.revoked_at_ms)}" if key.revoked_at_ms is not None else "valid"
        typer.echo(f"{key.key_id}\t{','.join(key.boards)}\tsince {rfc3339(key.created_at_ms)}\t{until}")


@key_app.command("revoke")
def key_revoke(
    key_id: str,
    compromised_since: Annotated[
        str | None, typer.Option(help="Also take back all that it wrote since then (RFC 3339).")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Take a trusted server's key back, for good."""
    from scoregate.keys import moment_of, revoke

    since_ms = None if compromised_since is None else moment_of(compromised_since)
    found = asyncio.run(revoke(_settings_beside(data_dir), key_id, compromised_since_ms=since_ms))
    typer.echo(f"revoked {key_id}: nothing more is written with it")
    for word, ids in (("quarantined", found.revoked), ("taken-back-by-the-key", found.taken_back)):
        for submission_id in ids:
            typer.echo(f"{word}\t{submission_id}")
    if found.left:
        _fail(f"these still count, their boards have no policy here: {', '.join(found.left)}")


@policy_app.command("check")
def policy_check(files: list[Path]) -> None:
    """Say whether policy files are right, and if not, where and why."""
    for file in files:
        board = load_board(file)
        typer.echo(f"{file}: board '{board.name}', {board.digest}")


@app.command("backup")
def backup(directory: Path, data_dir: DataDir = None) -> None:
    """Write a backup of a deployment on SQLite into an empty directory, while it runs."""
    from scoregate.backup import back_up

    facts = back_up(_settings(data_dir), directory)
    keys = ", ".join(facts.keys) or "no key"
    typer.echo(f"{directory}: the ledger up to event {facts.head}, {facts.recordings} recordings, {keys}")
    if facts.lost:
        _fail(f"lost before this, and not in the backup: {', '.join(facts.lost)}")


@app.command("restore")
def restore_backup(directory: Path, data_dir: DataDir = None) -> None:
    """Put a backup into an empty data directory."""
    from scoregate.restore import restore

    settings = _settings(data_dir)
    restored = restore(settings, directory)
    typer.echo(
        f"{settings.data_dir}: the ledger up to event {restored.head}, {restored.recordings} recordings"
    )
    for board in restored.other_policies:
        typer.echo(f"board '{board}' had another policy then")


@ledger_app.command("migrate")
def ledger_migrate(
    url: Annotated[
        str | None, typer.Option(help="The ledger, as its owner opens it. SCOREGATE_LEDGER_URL.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Bring the ledger's schema to this version of Scoregate, or make it."""
    from scoregate.migration import migrate

    typer.echo(migrate(_settings(data_dir, ledger_url=url)))


@ledger_app.command("public-key")
def ledger_public_key(data_dir: DataDir = None) -> None:
    """Print the public key that seals are checked with."""
    from scoregate.ledger import public_key

    typer.echo(public_key(_settings(data_dir)), nl=False)


@ledger_app.command("verify")
def ledger_verify(
    public_key: Annotated[
        Path | None, typer.Option(help="A file with the public key; that of the data directory if none.")
    ] = None,
    heads: Annotated[Path | None, typer.Option(help="A file of exported heads.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Say whether the ledger is what was sealed: 0 if it is, 1 if not and since when, 2 if that cannot be told."""
    from scoregate.ledger import verify

    typer.echo(_judged(lambda: asyncio.run(verify(_settings(data_dir), public_key, heads))))


@ledger_app.command("heads")
def ledger_heads(
    output: Annotated[Path, typer.Option(help="The file to append to.")], data_dir: DataDir = None
) -> None:
    """Append the signed heads that a file lacks, one a line."""
    from scoregate.ledger import export

    count = _judged(lambda: asyncio.run(export(_settings(data_dir), output)))
    typer.echo(f"{output}: {count} heads appended")


@ledger_app.command("prove")
def ledger_prove(
    submission: str,
    output: Annotated[Path | None, typer.Option(help="Where to; standard output if none.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Write a proof that the events of a submission were sealed."""
    from scoregate.ledger import write_proof

    proof, unsealed = _judged(lambda: asyncio.run(write_proof(_settings(data_dir), submission)))
    if output is None:
        typer.echo(proof, nl=False)
    else:
        output.write_bytes(proof)
    if unsealed:
        _err.print(f"newer events of {submission} that are not sealed yet: {unsealed}", markup=False)


@ledger_app.command("verify-proof")
def ledger_verify_proof(
    file: Path, public_key: Annotated[Path, typer.Option(help="A file with the public key.")]
) -> None:
    """Say what a proof proves, with nothing but a public key: 0 if it holds, 1 if not."""
    from scoregate.ledger import verify_proof

    typer.echo(_judged(lambda: verify_proof(file, public_key)))


@ledger_app.command("as-of")
def ledger_as_of(
    board: str,
    instant: str,
    window: Annotated[str, typer.Option(help="A kind of window, or one by name.")] = "alltime",
    limit: Annotated[int, typer.Option(min=1, help="Most entries to print.")] = 25,
    data_dir: DataDir = None,
) -> None:
    """Print a board as it stood at an instant, folded from the log alone."""
    from scoregate.ledger import as_of, instant_ms

    typer.echo(asyncio.run(as_of(_settings(data_dir), board, instant_ms(instant), window, limit)))


@board_app.command("rebuild")
def board_rebuild(
    boards: Annotated[list[str] | None, typer.Argument(help="Boards by name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Rebuild every board.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Build boards anew from the ledger, and put them in place while they are read and written."""
    from scoregate.boards import rebuild

    if bool(boards) == every:
        _fail("name the boards to rebuild, or say --all")
    asyncio.run(rebuild(_settings_beside(data_dir), boards or [], Console()))


@board_app.command("check")
def board_check(
    boards: Annotated[list[str] | None, typer.Argument(help="Boards by name.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make the index what the ledger says.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each board.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Compare index and ledger, and name each difference; all boards if none is named. Status 1 if there is one."""
    from scoregate.boards import check_all

    checking = check_all(
        _settings_beside(data_dir), boards or [], Console(), is_repaired=repair, is_json=as_json
    )
    if not asyncio.run(checking):
        raise typer.Exit(1)


@board_app.command("refold")
def board_refold(board: str, data_dir: DataDir = None) -> None:
    """Fold a board's standings anew after its operator, order or windows changed, then rebuild it."""
    from scoregate.boards import refold

    asyncio.run(refold(_settings_beside(data_dir), board, Console()))


@board_app.command("archive")
def board_archive(
    board: str,
    window: Annotated[str | None, typer.Argument(help="A window by name; all that are due if none.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Freeze windows that are over into the archive, and list what is there."""
    from scoregate.archives import archive, line_of

    for each in asyncio.run(archive(_settings(data_dir), board, window)):
        typer.echo(line_of(each))


@board_app.command("export")
def board_export(
    board: str,
    window: str,
    form: Annotated[str, typer.Option("--format", help="`csv` or `ndjson`.")] = "csv",
    output: Annotated[Path | None, typer.Option(help="Where to; standard output if none.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Write the final ranks of an archived window, one entry a line."""
    from scoregate.archives import Format, export

    if form not in set(Format):
        _fail(f"--format: expected {', '.join(Format)}, got {form!r}")
    written = sys.stdout if output is None else output.open("w", encoding="utf-8", newline="")
    try:
        count = asyncio.run(export(_settings(data_dir), board, window, Format(form), written))
    finally:
        written.flush() if output is None else written.close()
    if output is not None:
        typer.echo(f"{output}: {count} entries")


@webhook_app.command("add")
def webhook_add(
    url: str,
    board: Annotated[list[str] | None, typer.Option(help="A board it is told of; all if none.")] = None,
    event: Annotated[
        list[str] | None, typer.Option(help="A type of event it is told of; all if none.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Register an endpoint, and print its id and its secret, which is shown this once."""
    from scoregate.webhooks import add

    webhook, secret = asyncio.run(add(_settings(data_dir), url, board or [], event or []))
    typer.echo(f"{webhook.webhook_id}\n{secret}")


@webhook_app.command("list")
def webhook_list(data_dir: DataDir = None) -> None:
    """List the endpoints."""
    from gateway.clock import rfc3339
    from scoregate.webhooks import all_webhooks

    for each in asyncio.run(all_webhooks(_settings(data_dir))):
        off = each.disabled_at_ms
        state = f"failed {each.failures} in a row" if off is None else f"disabled {rfc3339(off)}"
        wanted = f"{','.join(each.boards)}\t{','.join(each.types)}"
        typer.echo(f"{each.webhook_id}\t{each.url}\t{wanted}\t{state}")


@webhook_app.command("remove")
def webhook_remove(webhook: str, data_dir: DataDir = None) -> None:
    """Tell an endpoint nothing more, and forget what it still had to be told."""
    from scoregate.webhooks import remove

    asyncio.run(remove(_settings(data_dir), webhook))


@webhook_app.command("enable")
def webhook_enable(webhook: str, data_dir: DataDir = None) -> None:
    """Tell an endpoint again that was disabled."""
    from scoregate.webhooks import enable

    asyncio.run(enable(_settings(data_dir), webhook))


@webhook_app.command("test")
def webhook_test(webhook: str, data_dir: DataDir = None) -> None:
    """Send an endpoint a `webhook.test` now, and say what it answered. Status 1 if that was no success."""
    from scoregate.webhooks import test

    answer = asyncio.run(test(_settings(data_dir), webhook))
    typer.echo(answer.outcome)
    if not answer.is_success:
        raise typer.Exit(1)


@webhook_app.command("deliveries")
def webhook_deliveries(
    webhook: str,
    state: Annotated[str, typer.Option(help="`dead`, `pending` or `delivered`.")] = "dead",
    limit: Annotated[int, typer.Option(min=1, help="Most deliveries to print.")] = 25,
    data_dir: DataDir = None,
) -> None:
    """List what an endpoint was told, is to be told, or could not be told."""
    from gateway.clock import rfc3339
    from gateway.ledger.webhooks import DeliveryState
    from scoregate.webhooks import deliveries

    if state not in set(DeliveryState):
        _fail(f"--state: expected {', '.join(DeliveryState)}, got {state!r}")
    for each in asyncio.run(deliveries(_settings(data_dir), webhook, DeliveryState(state), limit)):
        typer.echo(f"{each.event_id}\t{each.type}\t{rfc3339(each.due_at_ms)}\t{each.tries}\t{each.outcome}")


@webhook_app.command("retry")
def webhook_retry(webhook: str, data_dir: DataDir = None) -> None:
    """Try the dead deliveries of an endpoint again, from the first attempt."""
    from scoregate.webhooks import retry

    typer.echo(f"{asyncio.run(retry(_settings(data_dir), webhook))} deliveries are due again")


@derived_app.command("rebuild")
def derived_rebuild(name: str, data_dir: DataDir = None) -> None:
    """Have the steward make `statistics`, `trends` or `achievements` anew from the ledger."""
    from scoregate.derived import rebuild

    asyncio.run(rebuild(_settings_beside(data_dir), name))
    typer.echo(f"{name} begins again; the steward is at it")


@app.command("health")
def health(bind: Bind = None) -> None:
    """Exit with 0 if the edge here is ready. What a container asks."""
    from scoregate.health import problem_with

    problem = problem_with(_settings(None, bind))
    if problem:
        _fail(f"not ready: {problem}")


@app.command("version")
def show_version() -> None:
    """Print the version."""
    typer.echo(version("scoregate"))


def main() -> None:
    """Runs the command; an error that we know is one line, not a traceback."""
    try:
        app()
    except ScoregateError as error:
        _fail(str(error))


def _settings(
    data_dir: Path | None = None, bind: str | None = None, *, ledger_url: str | None = None
) -> Settings:
    given = {"data_dir": data_dir, "bind": bind, "ledger_url": ledger_url}
    return load_settings(**{name: value for name, value in given.items() if value is not None})


def _settings_beside(data_dir: Path | None) -> Settings:
    """The settings of a command that needs the index, which may be the one of a running `scoregate up`."""
    return with_embedded(_settings(data_dir))


def _run_part(settings: Settings, run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    configure_logging(settings.log_level)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await run(stop)

    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(until_stopped())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _until_told(work: Callable[[], object]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        work()


def _judged(work: Callable[[], T]) -> T:
    """The result of `work`; the status is 1 if the ledger or a proof turns out to be false."""
    try:
        return work()
    except (LedgerTampered, ProofInvalid) as error:
        _fail(str(error), status=1)


def _fail(message: str, status: int = 2) -> NoReturn:
    _err.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(status)
