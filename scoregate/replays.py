"""Judging promoted runs again from the command line: the plan, the batch, and undoing it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gateway.index.board_index import Index
from gateway.ledger.ledger import Ledger
from gateway.recordings.recordings import Recordings
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.audits.revocation_impact import TOP
from gateway.wiring import load_policies, open_index, open_recordings
from policies.digests import digest_of, sha256_of, simulator_digest
from policies.errors import SettingsError
from policies.loader import Board, Simulator
from policies.trees import TreeRefused
from policies.vocabulary import Reason
from replay.simulators.all_simulators import AllSimulators
from replay.worker.reverification import (
    ReverificationBatch,
    ReverificationPlan,
    ReverifiedRun,
    Reverifier,
    Tell,
    events_of,
    new_batch,
)
from scoregate.existing import existing_ledger


@dataclass(frozen=True, slots=True)
class Done:
    """A plan, the simulator it was made with, and the batch that applied it, if it was."""

    board: str
    build: str
    simulator: Simulator
    plan: ReverificationPlan
    batch: ReverificationBatch | None


@dataclass(frozen=True, slots=True)
class _Deployment:
    boards: Mapping[str, Board]
    ledger: Ledger
    index: Index
    recordings: Recordings

    def reverifier(self, board: str, tell: Tell) -> Reverifier:
        """What judges runs of a board again. Raises SettingsError."""
        if board not in self.boards:
            raise SettingsError(f"no policy for {board}; there are {', '.join(sorted(self.boards))}")
        parts = (self.boards[board], self.ledger, self.index, self.recordings)
        return Reverifier(*parts, clock=wall_clock, tell=tell)


@asynccontextmanager
async def _deployment(settings: Settings) -> AsyncIterator[_Deployment]:
    boards = load_policies(settings)
    async with (
        existing_ledger(settings) as ledger,
        open_index(settings, boards) as index,
        open_recordings(settings) as recordings,
    ):
        yield _Deployment(boards, ledger, index, recordings)


async def reverify(
    settings: Settings,
    board: str,
    build: str,
    console: Console,
    *,
    path: Path | None,
    is_applied: bool,
    batch: str | None,
) -> Done:
    """The plan for a build, and its batch if it `is_applied`.

    Raises SettingsError, PolicyError, LedgerUnavailable, RecordingsUnavailable and SandboxUnavailable.
    """
    async with _deployment(settings) as deployment:
        with _progress(console, f"{board}: runs judged again") as tell:
            reverifier = deployment.reverifier(board, tell)
            if batch is not None:
                await _refuse_other(deployment.ledger, batch, board)
            simulator = _simulator(deployment.boards[board], build, path)
            with AllSimulators(needs_bubblewrap=settings.needs_bubblewrap) as simulators:
                plan = await reverifier.plan(build, simulator, simulators)
        if not is_applied:
            return Done(board, build, simulator, plan, None)
        batch = batch or await new_batch(deployment.ledger)
        console.print(f"batch {batch} begins", highlight=False)  # known even if it is broken off
        with _progress(console, f"{board}: runs revoked") as tell:
            applied = await deployment.reverifier(board, tell).apply(plan, simulator, batch)
        return Done(board, build, simulator, plan, applied)


def _simulator(board: Board, build: str, path: Path | None) -> Simulator:
    """The simulator at a path, with the files of the build's own, or that one."""
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


async def undo(settings: Settings, batch: str, console: Console) -> ReverificationBatch:
    """What undoing a batch did. Raises SettingsError for a batch that revoked nothing here."""
    async with _deployment(settings) as deployment:
        board = await _board_of(deployment.ledger, batch)
        if board is None:
            raise SettingsError(f"no event of this ledger is of the batch {batch}")
        with _progress(console, f"{board}: runs reinstated") as tell:
            return await deployment.reverifier(board, tell).undo(batch)


async def _refuse_other(ledger: Ledger, batch: str, board: str) -> None:
    """Raises SettingsError for a batch that revoked nothing on the board: what it is given could never be undone."""
    if await _board_of(ledger, batch) != board:
        raise SettingsError(f"no event of {board} is of the batch {batch}; without --batch it is a new one")


async def _board_of(ledger: Ledger, batch: str) -> str | None:
    """The board that a batch revoked on; None if it revoked nothing."""
    async for each in events_of(ledger, batch, Reason.REVERIFIED_OTHERWISE):
        return each.board
    return None


@contextmanager
def _progress(console: Console, what: str) -> Iterator[Callable[[int], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


def as_json(done: Done) -> str:
    """What was found and done, as one JSON object in a line."""
    plan = done.plan
    found = {
        "board": done.board,
        "build": done.build,
        "simulator": done.simulator.digest,
        "looked_at": plan.looked_at,
        "to_revoke": [_as_dict(each) for each in plan.to_revoke],
        "inconclusive": [_as_dict(each) for each in plan.inconclusive],
        "decided_by_people": [_as_dict(each) for each in plan.decided_by_people],
        "standings": [asdict(each) for each in plan.standings],
        "batch": done.batch and asdict(done.batch),
    }
    return orjson.dumps(found).decode()


def _as_dict(found: ReverifiedRun) -> dict[str, Any]:
    verdict = found.verdict
    return {
        "submission": found.submission_id,
        "player": found.player,
        "score": found.score,
        "reason": verdict.reason.value if verdict else "no-recording",
        "simulated_score": verdict.detail.get("simulated_score") if verdict else None,
    }


def lines(done: Done) -> Iterator[str]:
    """What was found and done, for people."""
    plan = done.plan
    yield f"{done.board}, build {done.build}, {done.simulator.digest}: {plan.looked_at} runs judged again"
    if not plan.looked_at:
        yield "nothing of this build counts in this ledger: is it the right build, and the right --data-dir?"
    for word, group in (
        ("would be revoked", plan.to_revoke),
        ("stays, inconclusive", plan.inconclusive),
        ("stays, a person decided", plan.decided_by_people),
    ):
        for each in map(_as_dict, group):
            simulated = "" if each["simulated_score"] is None else f", now {each['simulated_score']}"
            yield f"{word}\t{each['submission']}\t{each['player']}\t{each['score']}{simulated}\t{each['reason']}"
    for change in plan.standings:
        after = "nothing" if change.after is None else str(change.after)
        leaves = f"\tleaves the top {TOP}" if change.leaves_top else ""
        yield f"standing\t{change.window}\t{change.player}\t{change.before} becomes {after}{leaves}"
    if done.batch is not None:
        yield f"batch {done.batch.batch}: revoked {len(done.batch.settled)}"
        yield from (f"decided on meanwhile, left as it is\t{each}" for each in done.batch.left)
        yield f"to take it all back: scoregate replay undo {done.batch.batch}"
    else:
        yield f"{len(plan.to_revoke)} would be revoked; nothing was changed"
