"""Rebuilding, checking and folding boards from the command line."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gateway.index.board_index import Index
from gateway.index.inspection import Inspection
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.steward.archive.refold import refold_board
from gateway.steward.index.check import IN_FLIGHT_S, IndexReport, check
from gateway.steward.index.comparison.difference import BoardView, Difference
from gateway.steward.index.rebuild import Rebuilder, Tell
from gateway.wiring import load_policies, open_index
from policies.errors import SettingsError
from policies.loader import Board
from scoregate.existing import existing_ledger

PATIENCE_MS = 10_000
"""How long Redis may take for a call: nobody waits for an answer to a request here."""


@dataclass(frozen=True)
class Deployment:
    """What these commands work on."""

    boards: Mapping[str, Board]
    ledger: Ledger
    index: Index

    def view(self, board: Board) -> BoardView:
        """A board from both sides."""
        inspection = Inspection(self.index.client, board.name)
        return BoardView(self.ledger, self.index.boards[board.name], inspection, board.policy, wall_clock)


async def rebuild(settings: Settings, names: Sequence[str], console: Console) -> None:
    """Rebuilds boards, all if none is named. Raises RebuildRefused, IndexUnavailable and LedgerUnavailable."""
    async with _deployment(settings) as deployment:
        for board in _named(deployment.boards, names):
            await _rebuild(deployment, board, console)


async def refold(settings: Settings, name: str, console: Console) -> None:
    """Folds a board's standings anew, then rebuilds the board."""
    async with _deployment(settings) as deployment:
        [board] = _named(deployment.boards, [name])
        with _progress(console, f"{name}: players", None) as tell:
            done = await refold_board(deployment.ledger, board.policy, clock=wall_clock, tell=tell)
        _say(console, f"{name}: looked at {done.players} players, changed {done.changed} standings")
        await _rebuild(deployment, board, console)


async def check_all(
    settings: Settings, names: Sequence[str], console: Console, *, is_repaired: bool, is_json: bool
) -> bool:
    """True if no board differs from the ledger; tells of each difference. All boards are checked if none is named."""
    is_equal = True
    async with _deployment(settings) as deployment:
        for board in _named(deployment.boards, names):
            checked = await check(deployment.view(board), is_repaired=is_repaired, in_flight_s=IN_FLIGHT_S)
            is_equal = is_equal and not checked.differences
            if is_json:
                console.file.write(_as_json(board.name, checked, is_repaired=is_repaired))
            else:
                _tell(console, board.name, checked, is_repaired=is_repaired)
    return is_equal


@asynccontextmanager
async def _deployment(settings: Settings) -> AsyncIterator[Deployment]:
    patient = settings.model_copy(update={"redis_timeout_ms": PATIENCE_MS})
    boards = load_policies(patient)
    async with existing_ledger(patient) as ledger, open_index(patient, boards) as index:
        yield Deployment(boards, ledger, index)


def _named(boards: Mapping[str, Board], names: Sequence[str]) -> list[Board]:
    unknown = [name for name in names if name not in boards]
    if unknown:
        raise SettingsError(f"no policy for {', '.join(unknown)}; there are {', '.join(sorted(boards))}")
    return [boards[name] for name in names or sorted(boards)]


async def _rebuild(deployment: Deployment, board: Board, console: Console) -> None:
    index, begun = deployment.index.boards[board.name], time.monotonic()
    plain = Rebuilder(deployment.ledger, index, board.policy, clock=wall_clock)
    with _progress(console, f"{board.name}: standings", await plain.total()) as tell:
        rebuilder = Rebuilder(deployment.ledger, index, board.policy, clock=wall_clock, tell=tell)
        done = await rebuilder.rebuild()
    took_s = time.monotonic() - begun
    counts = f"{done.standings} standings, {done.baselines} baselines and {done.pending} pending"
    rate = done.entries / took_s
    _say(console, f"{board.name}: rebuilt {counts} in {took_s:.1f} s, {rate:.0f} per second")


@contextmanager
def _progress(console: Console, what: str, total: int | None) -> Iterator[Tell]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


def _tell(console: Console, board: str, checked: IndexReport, *, is_repaired: bool) -> None:
    for each in checked.differences:
        _say(console, _line(each))
    _say(console, _verdict(board, checked, is_repaired=is_repaired))


def _line(found: Difference) -> str:
    places = [found.window, found.player, found.submission, found.key]
    where = " ".join([found.board, *(each for each in places if each)])
    sides = f"the ledger has {found.ledger or 'nothing'}, Redis has {found.index or 'nothing'}"
    return f"{found.kind.value}: {where}: {sides}"


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def _verdict(board: str, checked: IndexReport, *, is_repaired: bool) -> str:
    count = len(checked.differences)
    if not count:
        return f"{board}: the index is what the ledger says"
    more = (
        "" if checked.is_complete else f" and more: 'scoregate board rebuild {board}' puts all right at once"
    )
    if not is_repaired:
        return f"{board}: {count} differences{more}"
    rest = "none is left" if not checked.left else f"{checked.left} came up again in the last round"
    return f"{board}: {count} differences repaired{more}; {rest}"


def _as_json(board: str, checked: IndexReport, *, is_repaired: bool) -> str:
    """One JSON object in a line."""
    found = {
        "board": board,
        "differences": [each.as_dict() for each in checked.differences],
        "is_complete": checked.is_complete,
        "is_repaired": is_repaired and not checked.left,
    }
    return orjson.dumps(found).decode() + "\n"
