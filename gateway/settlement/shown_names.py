"""Shows a player's new name wherever the index has the one of before."""

from __future__ import annotations

from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index import keys
from gateway.index.board_index import Index
from gateway.index.inspection import Inspection
from gateway.ledger.index_pages import names_of
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.across_boards import boards_in_families
from gateway.runtime.concurrency import in_turns
from gateway.runtime.telemetry import Event, logger
from policies.errors import IndexUnavailable
from policies.loader import Board

AT_ONCE: Final = 16
"""Boards that are shown the name at once."""

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
        await in_turns([_show(index, board, player, name) for board in boards], at_once=AT_ONCE)
    except IndexUnavailable as error:
        _log.warning(Event.INDEX_DOWN, part="names", error=str(error))


async def _show(index: Index, board: Board, player: str, name: str) -> None:
    for part in index.of(board).shards:
        if not part.holds(player):
            continue
        inspection, key = Inspection(index.client, part.board), keys.names(part.board)
        [shown] = await inspection.values(key, [player])
        if shown is not None and shown != name.encode():
            await inspection.put(key, {player: name})
