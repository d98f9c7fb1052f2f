"""`scoregate board`: rebuild, check and fold boards anew; the lives of boards of families; the archive."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scoregate.commands.archives import board_archive, board_export
from scoregate.commands.board_lists import board_list
from scoregate.commands.board_lives import board_change, board_close, board_delete, board_open, board_reopen
from scoregate.commands.common import (
    DataDir,
    board_named,
    boards_named,
    console,
    existing_ledger,
    fail,
    finish,
    print_line,
    settings_beside,
    showing_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.catalogue.catalogue import Catalogue
    from gateway.index.board_indexes import Index
    from gateway.ledger.ledger import Ledger
    from gateway.runtime.clock import Clock
    from gateway.runtime.settings import Settings
    from gateway.steward.index.check import IndexReport
    from gateway.steward.index.comparison.difference import BoardView, Difference
    from policies.loader import Board

PATIENCE_MS: Final = 10_000
"""Longest time for a call of Redis: no request waits for an answer here."""

SLICE: Final = 256
"""Boards of a family that are read at once."""

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True)
class BoardStores:
    """The boards of a deployment, with its open ledger and index, and its clock."""

    catalogue: Catalogue
    ledger: Ledger
    index: Index
    clock: Clock

    async def boards(self, names: Sequence[str]) -> AsyncIterator[Board]:
        """Yield the named boards, or all: those of files, and those of families that have standings.

        Raises SettingsError for a name without a board, and LedgerUnavailable.
        """
        for board in await boards_named(self.catalogue, names):
            yield board
        for family in sorted(self.catalogue.families) if not names else ():
            async for board in self._boards_of(family):
                yield board

    async def _boards_of(self, family: str) -> AsyncIterator[Board]:
        from gateway.ledger.derived.board_duties import boards_with_standings
        from policies.opened_board import names_of_family

        after, beyond = names_of_family(family)
        while slice_ := await self.ledger.read(boards_with_standings(after, beyond, count=SLICE)):
            boards = await self.catalogue.boards(slice_)  # without those that are deleted
            for name in slice_:
                if name in boards:
                    yield boards[name]
            after = slice_[-1]

    def view(self, board: Board) -> BoardView:
        """Return a board as ledger and index show it."""
        from gateway.index.inspection import Inspection
        from gateway.steward.index.comparison.difference import BoardView

        inspection = Inspection(self.index.client, board.name)
        return BoardView(self.ledger, self.index.of(board), inspection, board.policy, self.clock)


@app.command("rebuild")
def board_rebuild(
    boards: Annotated[list[str] | None, typer.Argument(help="Boards by name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Rebuild every board.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Build boards anew from the ledger, and put them in place while they are read and written."""
    if bool(boards) == every:
        fail("name the boards to rebuild, or say --all")
    if not finish(_rebuild_all(settings_beside(data_dir, is_writing=True), boards or [], console())):
        raise typer.Exit(1)


@app.command("check")
def board_check(
    boards: Annotated[list[str] | None, typer.Argument(help="Boards by name; by default all.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make the index equal to the ledger.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each board.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Compare index and ledger, and name each difference. Status 1 if there is one."""
    settings = settings_beside(data_dir, is_writing=repair)
    if not finish(_check_all(settings, boards or [], console(), is_repaired=repair, is_json=as_json)):
        raise typer.Exit(1)


@app.command("refold")
def board_refold(board: str, data_dir: DataDir = None) -> None:
    """Fold a board's standings anew after its operator, order or windows changed, then rebuild it."""
    finish(_refold(settings_beside(data_dir, is_writing=True), board, console()))


app.command("open")(board_open)
app.command("change")(board_change)
app.command("close")(board_close)
app.command("reopen")(board_reopen)
app.command("delete")(board_delete)
app.command("list")(board_list)
app.command("archive")(board_archive)
app.command("export")(board_export)


async def _rebuild_all(settings: Settings, names: Sequence[str], screen: Console) -> bool:
    """Rebuild the named boards, or all; return False if some were passed over that are being rebuilt already.

    Raises RebuildRefused for a named one, IndexUnavailable and LedgerUnavailable.
    """
    from policies.errors import RebuildRefused

    has_built_all = True
    async with _open_stores(settings) as stores:
        async for board in stores.boards(names):
            is_cold = board.family is not None and (await stores.index.of(board).residency.state()).is_cold
            if is_cold and not names:
                continue  # a cold board of a family is built when somebody asks for it
            try:
                await _rebuild(stores, board, screen)
            except RebuildRefused as refused:
                if names:
                    raise
                print_line(screen, str(refused))
                has_built_all = False
    return has_built_all


async def _refold(settings: Settings, name: str, screen: Console) -> None:
    """Fold a board's standings anew, then rebuild the board.

    What no longer is as its rule is noted is marked; a steward sees to it, and notes the rule.
    """
    from gateway.catalogue.rules_in_force import noted_name, rule_in_force
    from gateway.ledger.derived.folded_rules import mark_changed
    from gateway.steward.archive.refold import refold_board

    async with _open_stores(settings) as stores:
        board = await board_named(stores.catalogue, name)
        with showing_progress(screen, f"{name}: players") as advance:
            rollup, policies = board.policy.rollup, stores.catalogue.policies
            rule = rule_in_force(policies, noted_name(name))
            result = await refold_board(
                stores.ledger,
                board.policy,
                clock=stores.clock,
                tell=advance,
                family=policies.families.get(rollup.family) if rollup else None,
                marking=mark_changed(rule) if rule else None,
            )
        print_line(screen, f"{name}: looked at {result.players} players, changed {result.changed} standings")
        await _rebuild(stores, board, screen)


async def _check_all(
    settings: Settings, names: Sequence[str], screen: Console, *, is_repaired: bool, is_json: bool
) -> bool:
    """Compare boards with the ledger, print differences, and return whether there are none.

    Raises the first failure to compare a part of a board, once all boards are printed.
    """
    from gateway.steward.index.check import IN_FLIGHT_S, check

    is_equal, failure = True, None
    async with _open_stores(settings) as stores:
        async for board in stores.boards(names):
            # A search goes through all keys of the server, which would be once for each board of a family.
            searches = bool(names) or board.family is None
            checked = await check(
                stores.view(board), is_repaired=is_repaired, in_flight_s=IN_FLIGHT_S, searches=searches
            )
            is_equal, failure = is_equal and not checked.differences, failure or checked.failure
            if is_json:
                screen.file.write(_as_json(board.name, checked, is_repaired=is_repaired))
            else:
                _print(screen, board.name, checked, is_repaired=is_repaired)
    if failure:
        raise failure
    return is_equal


@asynccontextmanager
async def _open_stores(settings: Settings) -> AsyncIterator[BoardStores]:
    from gateway.deployment.time_sources import shared_clock
    from gateway.wiring import catalogue_of, open_index

    patient = settings.model_copy(update={"redis_timeout_ms": PATIENCE_MS})
    async with existing_ledger(patient) as ledger, open_index(patient) as index:
        clock = await shared_clock(patient, ledger, index.client)
        yield BoardStores(catalogue_of(patient, ledger), ledger, index, clock)


async def _rebuild(stores: BoardStores, board: Board, screen: Console) -> None:
    from gateway.steward.index.rebuild import Rebuilder

    index, began = stores.index.of(board), time.monotonic()
    total = await Rebuilder(stores.ledger, index, board.policy, clock=stores.clock).total()
    with showing_progress(screen, f"{board.name}: standings", total) as advance:
        rebuilder = Rebuilder(stores.ledger, index, board.policy, clock=stores.clock, tell=advance)
        result = await rebuilder.rebuild()
    took_s = time.monotonic() - began
    counts = f"{result.standings} standings, {result.baselines} baselines and {result.pending} pending"
    rate = result.entries / took_s
    print_line(screen, f"{board.name}: rebuilt {counts} in {took_s:.1f} s, {rate:.0f} per second")


def _print(screen: Console, board: str, checked: IndexReport, *, is_repaired: bool) -> None:
    for difference in checked.differences:
        print_line(screen, _line(difference))
    print_line(screen, _summary(board, checked, is_repaired=is_repaired))


def _line(difference: Difference) -> str:
    places = [difference.window, difference.player, difference.submission, difference.key]
    where = " ".join([difference.board, *(place for place in places if place)])
    sides = f"the ledger has {difference.ledger or 'nothing'}, Redis has {difference.index or 'nothing'}"
    return f"{difference.kind.value}: {where}: {sides}"


def _summary(board: str, checked: IndexReport, *, is_repaired: bool) -> str:
    count = len(checked.differences)
    if checked.failure:
        named = f"{count} differences repaired" if is_repaired else f"{count} differences"
        return f"{board}: {named}, and a part that cannot be compared: {checked.failure}"
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
    """Return one JSON object on a line."""
    import orjson

    facts = {
        "board": board,
        "differences": [difference.as_dict() for difference in checked.differences],
        "is_complete": checked.is_complete,
        "is_repaired": is_repaired and not checked.left and not checked.failure,
    }
    return orjson.dumps(facts).decode() + "\n"
