"""Shows a player's new name wherever the index has the one of before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.index.inspection import Inspection
from gateway.index.lane_stream import answers_of
from gateway.ledger.index_pages import names_of
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.across_boards import boards_in_families
from gateway.runtime.concurrency import in_turns
from gateway.runtime.telemetry import Event, logger
from policies.errors import IndexUnavailable
from policies.loader import Board

AT_ONCE: Final = 16
"""Boards that are given the name at once: only those on which another one of the player is shown."""

IN_FAMILIES: Final = 1_000
"""Most boards of families that are shown the name at once. The steward's comparison reaches the others."""

_log = logger()


async def show_name(ledger: Ledger, index: Index, catalogue: Catalogue, player: str) -> None:
    """Show a player's name, as the ledger has it, on every board on which the index has a name of theirs.

    Without Redis the steward's comparison does it later, as it does if a change that was settled before the
    rename is shown after it. Raises LedgerUnavailable.
    """
    names = await ledger.read(boards_in_families(player, count=IN_FAMILIES), ReadKind.MODERATION)
    boards = [*catalogue.of_files.values(), *(await catalogue.boards(names)).values()]
    name = (await ledger.read(names_of([player]), ReadKind.MODERATION)).get(player)
    if name is None:
        return
    try:
        await _show(index, boards, player, name)
    except IndexUnavailable as error:
        _log.warning(Event.INDEX_DOWN, part="names", error=str(error))


async def _show(index: Index, boards: Iterable[Board], player: str, name: str) -> None:
    """Look for the player's names with one call to each server, and replace those that differ."""
    parts = {
        keys.names(part.board): part.board
        for board in boards
        for part in index.of(board).shards
        if part.holds(player)
    }
    shown = await answers_of(index.client, {key: ("HGET", key, player) for key in parts})
    outdated = [key for key, value in shown.items() if value not in {None, name.encode()}]
    replacing = [Inspection(index.client, parts[key]).put(key, {player: name}) for key in outdated]
    await in_turns(replacing, at_once=AT_ONCE)
