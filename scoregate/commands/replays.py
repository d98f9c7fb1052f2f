"""`scoregate replay`: judge promoted runs again, and revoke as a batch what no longer holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from policies.errors import SettingsError
from scoregate.commands.common import (
    DataDir,
    board_named,
    error_console,
    finish,
    settings_beside,
    showing_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.catalogue.catalogue import Catalogue
    from gateway.ledger.ledger import Ledger
    from gateway.ledger.moderation.batches import Batch
    from gateway.recordings.recordings import Recordings
    from gateway.runtime.settings import Settings
    from policies.loader import Board, Simulator
    from replay.worker.reverification import ReverificationPlan, ReverifiedRun, Reverifier
    from scoregate.operator_batches import BatchOperator

app = typer.Typer(no_args_is_help=True)


BoardName = Annotated[str, typer.Option(help="The board.")]
BuildName = Annotated[str, typer.Option(help="The build whose runs are judged again.")]
SimulatorFile = Annotated[Path | None, typer.Option(help="The new simulator; by default that of the policy.")]
Yes = Annotated[bool, typer.Option("--yes", help="Revoke at once what no longer holds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@dataclass(frozen=True, slots=True)
class Reverification:
    """A plan, the simulator it was made with, and its batch, None if nothing would change.

    `left` are those of the plan that somebody had decided on by the time the batch came to them.
    """

    board: str
    build: str
    simulator: Simulator
    plan: ReverificationPlan
    batch: Batch | None
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReplayStores:
    """An operator's batches, and the store of recordings."""

    operator: BatchOperator
    recordings: Recordings

    @property
    def catalogue(self) -> Catalogue:
        """The boards of the deployment."""
        return self.operator.catalogue

    @property
    def ledger(self) -> Ledger:
        """The open ledger."""
        return self.operator.ledger

    async def reverifier(self, board: str, tell: Callable[[int], object]) -> Reverifier:
        """Return a board's reverifier, which reports numbers of runs to `tell`. Raises SettingsError."""
        from replay.worker.reverification import Reverifier

        parts = (await board_named(self.catalogue, board), self.ledger, self.recordings)
        return Reverifier(*parts, clock=self.operator.clock, tell=tell)


@app.command("reverify")
def replay_reverify(
    board: BoardName,
    build: BuildName,
    simulator: SimulatorFile = None,
    yes: Yes = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Play a build's promoted runs again, and preview what would change as a batch.

    Status 0 if nothing would, 1 if something would.
    """
    settings = settings_beside(data_dir, is_writing=True)
    result = finish(reverify(settings, board, build, error_console(), path=simulator, is_applied=yes))
    for line in [_as_json(result)] if as_json else _lines(result):
        typer.echo(line)
    if result.left if yes else result.plan.to_revoke:
        raise typer.Exit(1)


@asynccontextmanager
async def _open_stores(settings: Settings) -> AsyncIterator[ReplayStores]:
    from gateway.wiring import open_recordings
    from scoregate.commands.batches import open_operator

    async with open_operator(settings) as operator, open_recordings(settings) as recordings:
        yield ReplayStores(operator, recordings)


async def reverify(
    settings: Settings, board: str, build: str, screen: Console, *, path: Path | None, is_applied: bool
) -> Reverification:
    """Preview the reverification of a build, and apply it if `is_applied`.

    Raises SettingsError, PolicyError, LedgerUnavailable, RecordingsUnavailable and SandboxUnavailable.
    """
    from gateway.ledger.moderation.batch_items import LeftOut
    from replay.simulators.all_simulators import AllSimulators

    async with _open_stores(settings) as stores:
        with showing_progress(screen, f"{board}: runs judged again") as advance:
            reverifier = await stores.reverifier(board, advance)
            simulator = _simulator(await board_named(stores.catalogue, board), build, path)
            with AllSimulators(needs_bubblewrap=settings.needs_bubblewrap) as simulators:
                plan = await reverifier.plan(build, simulator, simulators)
        if not plan.to_revoke:
            return Reverification(board, build, simulator, plan, None)
        batch_id = await reverifier.store(plan, build, simulator)
        batch = await stores.operator.follow(batch_id)
        if not is_applied:
            return Reverification(board, build, simulator, plan, batch)
        screen.print(f"batch {batch_id} begins", highlight=False)  # a steward goes on if it is interrupted
        batch = await stores.operator.apply(batch_id)
        since = LeftOut.DECIDED_SINCE.value
        left = [item.submission_id async for item in stores.operator.items(batch_id) if item.why == since]
        return Reverification(board, build, simulator, plan, batch, left)


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
        "batch": result.batch and _batch_of(result),
    }
    return orjson.dumps(facts).decode()


def _batch_of(result: Reverification) -> dict[str, Any]:
    batch = result.batch
    assert batch is not None
    podiums = batch.preview.get("podiums", [])
    facts = {"batch": batch.batch_id, "state": batch.state.value, "outcomes": dict(batch.outcomes)}
    return facts | {"left_out": batch.leaves, "podiums": podiums, "left": result.left}


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
    from scoregate.operator_batches import lines_of

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
    for submission_id in result.left:
        yield f"decided on meanwhile, left as it is\t{submission_id}"
    if result.batch is None:
        yield "nothing would be revoked"
    else:
        yield from lines_of(result.batch)
