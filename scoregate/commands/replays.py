"""`scoregate replay`: judge promoted runs again, revoke as a batch what no longer holds, undo a batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from policies.errors import SettingsError
from scoregate.commands.common import (
    DataDir,
    board_named,
    error_console,
    existing_ledger,
    fail,
    finish,
    settings_beside,
    showing_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.catalogue.catalogue import Catalogue
    from gateway.index.board_index import Index
    from gateway.ledger.ledger import Ledger
    from gateway.recordings.recordings import Recordings
    from gateway.runtime.settings import Settings
    from policies.loader import Board, Simulator
    from replay.worker.reverification import (
        ReverificationBatch,
        ReverificationPlan,
        ReverifiedRun,
        Reverifier,
    )

app = typer.Typer(no_args_is_help=True)


BoardName = Annotated[str, typer.Option(help="The board.")]
BuildName = Annotated[str, typer.Option(help="The build whose runs are judged again.")]
SimulatorFile = Annotated[Path | None, typer.Option(help="The new simulator; by default that of the policy.")]
Apply = Annotated[bool, typer.Option("--apply", help="Revoke what no longer holds, as one batch.")]
BatchId = Annotated[str | None, typer.Option(help="With --apply: continue a batch that was interrupted.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@dataclass(frozen=True, slots=True)
class Reverification:
    """A plan, the simulator it was made with, and the batch that applied it, or None."""

    board: str
    build: str
    simulator: Simulator
    plan: ReverificationPlan
    batch: ReverificationBatch | None


@dataclass(frozen=True, slots=True)
class ReplayStores:
    """The boards of a deployment, its open ledger, index and recordings."""

    catalogue: Catalogue
    ledger: Ledger
    index: Index
    recordings: Recordings

    async def reverifier(self, board: str, tell: Callable[[int], object]) -> Reverifier:
        """Return a board's reverifier, which reports numbers of runs to `tell`. Raises SettingsError."""
        from gateway.runtime.clock import wall_clock
        from replay.worker.reverification import Reverifier

        parts = (await board_named(self.catalogue, board), self.ledger, self.index, self.recordings)
        return Reverifier(*parts, clock=wall_clock, tell=tell)


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
    """Play a build's promoted runs again, and say what would change.

    Status 0 if nothing would, 1 if something would.
    """
    from replay.worker.reverification import begin_of

    if batch is not None:
        begin_of(batch)
        if not apply:
            fail("--batch continues a batch: it needs --apply")
    settings = settings_beside(data_dir, is_writing=apply)
    result = finish(
        reverify(settings, board, build, error_console(), path=simulator, is_applied=apply, batch=batch)
    )
    for line in [_as_json(result)] if as_json else _lines(result):
        typer.echo(line)
    if result.batch.left if result.batch else result.plan.to_revoke:
        raise typer.Exit(1)


@app.command("undo")
def replay_undo(
    batch: str,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Reinstate what a batch revoked, except what somebody decided on since.

    Status 1 if there is such an exception.
    """
    import orjson

    undone = finish(_undo(settings_beside(data_dir, is_writing=True), batch, error_console()))
    if as_json:
        typer.echo(orjson.dumps(asdict(undone)))
    else:
        typer.echo(f"batch {batch}: reinstated {len(undone.settled)}")
        for submission_id in undone.undone_before:
            typer.echo(f"reinstated by an earlier undo\t{submission_id}")
        for submission_id in undone.left:
            typer.echo(f"decided on since, left as it is\t{submission_id}")
    if undone.left:
        raise typer.Exit(1)


@asynccontextmanager
async def _open_stores(settings: Settings) -> AsyncIterator[ReplayStores]:
    from gateway.wiring import catalogue_of, open_index, open_recordings

    async with (
        existing_ledger(settings) as ledger,
        open_index(settings) as index,
        open_recordings(settings) as recordings,
    ):
        yield ReplayStores(catalogue_of(settings, ledger), ledger, index, recordings)


async def reverify(
    settings: Settings,
    board: str,
    build: str,
    screen: Console,
    *,
    path: Path | None,
    is_applied: bool,
    batch: str | None,
) -> Reverification:
    """ReverificationPlan the reverification of a build, and apply the plan if `is_applied`.

    Raises SettingsError, PolicyError, LedgerUnavailable, RecordingsUnavailable and SandboxUnavailable.
    """
    from replay.simulators.all_simulators import AllSimulators
    from replay.worker.reverification import new_batch

    async with _open_stores(settings) as stores:
        with showing_progress(screen, f"{board}: runs judged again") as advance:
            reverifier = await stores.reverifier(board, advance)
            if batch is not None:
                await _refuse_foreign(stores.ledger, batch, board)
            simulator = _simulator(await board_named(stores.catalogue, board), build, path)
            with AllSimulators(needs_bubblewrap=settings.needs_bubblewrap) as simulators:
                plan = await reverifier.plan(build, simulator, simulators)
        if not is_applied:
            return Reverification(board, build, simulator, plan, None)
        batch = batch or await new_batch(stores.ledger)
        screen.print(f"batch {batch} begins", highlight=False)  # the user needs the id if it is interrupted
        with showing_progress(screen, f"{board}: runs revoked") as advance:
            applying = await stores.reverifier(board, advance)
            applied = await applying.apply(plan, simulator, batch)
        return Reverification(board, build, simulator, plan, applied)


def _simulator(board: Board, build: str, path: Path | None) -> Simulator:
    """Return the build's simulator, or the one at `path` with the build's files."""
    from policies.digests import digest_of, sha256_of, simulator_digest
    from policies.loader import Simulator
    from policies.trees import TreeRefused

    if board.policy.replay is None:
        raise SettingsError(f"{board.name} replays nothing")
    known = board.simulators.get(build)
    if path is None:
        if known is None:
            raise SettingsError(f"{board.name} has no build {build}: name its --simulator")
        return known
    files = known.files if known else ()
    try:
        digest = simulator_digest(sha256_of(path), dict(map(digest_of, files)))
    except (OSError, TreeRefused) as error:
        raise SettingsError(f"--simulator: {error}") from None
    return Simulator(digest, path.resolve(), files)


async def _undo(settings: Settings, batch: str, screen: Console) -> ReverificationBatch:
    """Undo a batch. Raises SettingsError for a batch that revoked nothing here."""
    async with _open_stores(settings) as stores:
        board = await _board_of(stores.ledger, batch)
        if board is None:
            raise SettingsError(f"no event of this ledger is of the batch {batch}")
        with showing_progress(screen, f"{board}: runs reinstated") as advance:
            reverifier = await stores.reverifier(board, advance)
            return await reverifier.undo(batch)


async def _refuse_foreign(ledger: Ledger, batch: str, board: str) -> None:
    """Raise SettingsError unless the batch revoked something on the board, so that it can be undone."""
    if await _board_of(ledger, batch) != board:
        raise SettingsError(f"no event of {board} is of the batch {batch}; without --batch it is a new one")


async def _board_of(ledger: Ledger, batch: str) -> str | None:
    """Return the board that a batch revoked on, or None if it revoked nothing."""
    from policies.vocabulary import Reason
    from replay.worker.reverification import events_of

    async for event in events_of(ledger, batch, Reason.REVERIFIED_OTHERWISE):
        return event.board
    return None


def _as_json(result: Reverification) -> str:
    """Return a reverification as one JSON object on a line."""
    import orjson

    plan = result.plan
    facts = {
        "board": result.board,
        "build": result.build,
        "simulator": result.simulator.digest,
        "looked_at": plan.looked_at,
        "to_revoke": [_as_dict(run) for run in plan.to_revoke],
        "inconclusive": [_as_dict(run) for run in plan.inconclusive],
        "decided_by_people": [_as_dict(run) for run in plan.decided_by_people],
        "standings": [asdict(change) for change in plan.standings],
        "batch": result.batch and asdict(result.batch),
    }
    return orjson.dumps(facts).decode()


def _as_dict(run: ReverifiedRun) -> dict[str, Any]:
    verdict = run.verdict
    return {
        "submission": run.submission_id,
        "player": run.player,
        "score": run.score,
        "reason": verdict.reason.value if verdict else "no-recording",
        "simulated_score": verdict.detail.get("simulated_score") if verdict else None,
    }


def _lines(result: Reverification) -> Iterator[str]:
    """Yield the lines of a reverification for people."""
    from gateway.steward.audits.revocation_impact import TOP

    plan = result.plan
    build = f"{result.board}, build {result.build}, {result.simulator.digest}"
    yield f"{build}: {plan.looked_at} runs judged again"
    if not plan.looked_at:
        yield "nothing of this build counts in this ledger: is it the right build, and the right --data-dir?"
    for word, group in (
        ("would be revoked", plan.to_revoke),
        ("stays, inconclusive", plan.inconclusive),
        ("stays, a person decided", plan.decided_by_people),
    ):
        for run in map(_as_dict, group):
            simulated = "" if run["simulated_score"] is None else f", now {run['simulated_score']}"
            yield f"{word}\t{run['submission']}\t{run['player']}\t{run['score']}{simulated}\t{run['reason']}"
    for change in plan.standings:
        after = "nothing" if change.after is None else str(change.after)
        leaves = f"\tleaves the top {TOP}" if change.leaves_top else ""
        yield f"standing\t{change.window}\t{change.player}\t{change.before} becomes {after}{leaves}"
    if result.batch is not None:
        yield f"batch {result.batch.batch}: revoked {len(result.batch.settled)}"
        yield from (
            f"decided on meanwhile, left as it is\t{submission_id}" for submission_id in result.batch.left
        )
        yield f"to take it all back: scoregate replay undo {result.batch.batch}"
    else:
        yield f"{len(plan.to_revoke)} would be revoked; nothing was changed"
