"""A board as its shadow-banned player sees it: with their own entry at its place, which nobody else sees.

Only a request with the player's own token is answered so, and its answer is kept nowhere. It costs the fold
of what the ban revoked in the window, and two reads beside the place. While the ledger does not answer, the
player is shown the board that everybody sees.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import EDGE, Edge
from gateway.edge.reads.board_reader import BoardReader
from gateway.edge.reads.lacking_reader import LackingReader
from gateway.edge.reads.own_reader import OwnReader, own_entry
from gateway.edge.reads.read_budget import charge_own_view, player_asking
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.across_boards import (
    ENTRIES_LIMIT,
    PlayerStanding,
    StandingsPage,
    banned_boards,
    standings_without_bans,
)
from gateway.ledger.standings.banned_folds import standing_without_bans
from gateway.ledger.standings.own_rollups import OwnStanding, rollup_without_bans
from gateway.runtime.telemetry import Event, logger
from gateway.shared_records import RankedStanding, RankRequest
from policies.errors import LedgerUnavailable
from policies.loader import Board
from policies.windows import window_named

OWN_VIEWS: Final = frozenset(
    {
        "/v1/boards/{board}/details",
        "/v1/boards/{board}/distribution",
        "/v1/boards/{board}/entries",
        "/v1/boards/{board}/entries/{player}",
        "/v1/boards/{board}/entries/{player}/around",
        "/v1/boards/{board}/percentiles",
        "/v1/families/{family}/players/{player}/standings",
        "/v1/players/{player}/entries",
    }
)
"""Reads that may show a player something that others do not see."""

_log = logger()


def told_apart(path: str, handler: Handler) -> Handler:
    """Wrap the GET handler of a read in OWN_VIEWS: caches keep apart what was asked with a token and without.

    All answers to a token are alike, so that their fields tell nobody of a ban.
    """
    if path not in OWN_VIEWS:
        return handler

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        tell_apart(response.headers, has_token="Authorization" in request.headers)
        return response

    return answer


def tell_apart(headers: MutableMapping[str, str], *, has_token: bool) -> None:
    """Have caches keep an answer apart from that to a request with a token, or without one."""
    control = headers.get("Cache-Control", "")
    if control.startswith("public"):
        headers["Vary"] = "Authorization"
        if has_token:
            headers["Cache-Control"] = control.replace("public", "private", 1)


def shadow_banned(request: web.Request, board: str) -> str | None:
    """Return the player whose token a request has, if that player must not notice to be banned on a board."""
    player = player_asking(request)
    return player if player and request.app[EDGE].banned.is_shadow_banned(player, board) else None


def player_to_overlay(request: web.Request, board: Board) -> str | None:
    """Return the player whose token a request has, if that player may see something of their own on a board.

    On a rollup it is a player with any shadow ban.
    """
    player = player_asking(request)
    return player if player and may_overlay(request.app[EDGE], board, player) else None


def may_overlay(edge: Edge, board: Board, player: str) -> bool:
    """Return whether a player may see something of their own on a board that nobody else sees."""
    if board.policy.rollup is None:
        return edge.banned.is_shadow_banned(player, board.name)
    return edge.banned.has_shadow_ban(player)


async def reader_for(request: web.Request, board: Board, window: str) -> BoardReader:
    """Return the reader of a window for who sent a request: an OwnReader for its shadow-banned player."""
    edge = request.app[EDGE]
    reader, player = edge.of(board).reader, player_to_overlay(request, board)
    if player is None or (own := await _own(edge, board, window, player)) is None:
        return reader
    charge_own_view(request, folds=own.folds, runs=own.runs)
    return reader_with(reader, own)


def reader_with(reader: BoardReader, own: OwnStanding) -> BoardReader:
    """Return a reader of a current window with a standing in place of the one that everybody sees, if any."""
    if own.standing is None:
        return reader
    ranking = reader.index.ranking
    entry = own_entry(ranking, own.standing)
    if own.public is None:
        return OwnReader.of(reader, entry)
    others = LackingReader(reader, entry.player, ranking)
    replaced = own_entry(ranking, own.public)
    return OwnReader(reader.index, reader.ledger, entry, others, ranking, replaced)


async def own_standings(
    request: web.Request, player: str, wanted: Iterable[RankRequest]
) -> dict[str, RankedStanding]:
    """Return, by name, where who sent a request stands on those boards where nobody else sees that player.

    Raises LedgerUnavailable.
    """
    hidden = [each for each in wanted if shadow_banned(request, each.board) == player]
    found: dict[str, RankedStanding] = {}
    for at in range(0, len(hidden), ENTRIES_LIMIT):
        work = standings_without_bans(player, hidden[at : at + ENTRIES_LIMIT])
        ranks = await request.app[EDGE].ledger.read(work, ReadKind.PLAYERS)
        charge_own_view(request, folds=len(ranks.by_board), runs=ranks.runs)
        found |= ranks.by_board
    return found


async def own_boards(
    request: web.Request, player: str, family: str, page: StandingsPage, *, after: str, count: int
) -> StandingsPage:
    """Return a page of the boards of a family with those on which only the player, who asks, sees a standing.

    Their entries have no score yet. Raises LedgerUnavailable.
    """
    edge = request.app[EDGE]
    if player_asking(request) != player or not edge.banned.has_shadow_ban(player):
        return page
    work = banned_boards(player, family, after=after, count=count + 1)
    names = await edge.ledger.read(work, ReadKind.PLAYERS)
    ends = [end for end in (page.next, names[count - 1] if len(names) > count else None) if end]
    known = {standing.board for standing in page.standings}
    own = [
        PlayerStanding(name, 0, "") for name in names if name not in known and shadow_banned(request, name)
    ]
    both = sorted((*page.standings, *own), key=lambda standing: standing.board)
    upto = [standing for standing in both if not ends or standing.board <= min(ends)]
    if len(upto) > count:
        return StandingsPage(upto[:count], upto[count - 1].board)
    return StandingsPage(upto, min(ends, default=None))


async def _own(edge: Edge, board: Board, window: str, player: str) -> OwnStanding | None:
    span = window_named(board.policy, window)
    try:
        if board.policy.rollup is None:
            work = standing_without_bans(board.ranking, player, span)
            fold = await edge.ledger.read(work, ReadKind.PLAYERS)
            return OwnStanding(fold.standing, runs=fold.runs)
        family = edge.catalogue.families[board.policy.rollup.family]
        hides = partial(edge.banned.is_shadow_banned, player)
        folded = rollup_without_bans(board.ranking, family.ranking_of, player, span, hides=hides)
        return await edge.ledger.read(folded, ReadKind.PLAYERS)
    except LedgerUnavailable as error:
        _log.warning(Event.LEDGER_DOWN, part="own view", error=str(error))
        return None
