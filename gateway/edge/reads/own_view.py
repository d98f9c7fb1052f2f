"""A board as its shadow-banned player sees it: with their own entry at its place, which nobody else sees.

Only a request with the player's own token is answered so, and its answer is kept nowhere. It costs the fold
of what the ban revoked in the window, and two reads beside the place. While the ledger does not answer, the
player is shown the board that everybody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.edge.context import EDGE
from gateway.edge.reads.board_reader import BoardReader, SourcedPage
from gateway.edge.reads.read_budget import player_asking
from gateway.index.board_index import Cut, Entry, Page
from gateway.index.windows.subsets import SubsetEntry, SubsetPage
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.across_boards import (
    ENTRIES_LIMIT,
    PlayerStanding,
    StandingsPage,
    banned_boards,
    standings_without_bans,
)
from gateway.ledger.standings.folds import standing_without_bans
from gateway.runtime.telemetry import Event, logger
from gateway.shared_records import RankedStanding, RankRequest, Standing
from policies.choices import RankKind
from policies.errors import LedgerUnavailable
from policies.loader import Board
from policies.ranking import BoardPlace, Ranking
from policies.windows import window_named

OWN_VIEWS: Final = frozenset(
    {
        "/v1/boards/{board}/entries",
        "/v1/boards/{board}/entries/{player}",
        "/v1/boards/{board}/entries/{player}/around",
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
        control = response.headers.get("Cache-Control", "")
        if control.startswith("public"):
            response.headers["Vary"] = "Authorization"
            if "Authorization" in request.headers:
                response.headers["Cache-Control"] = control.replace("public", "private", 1)
        return response

    return answer


def shadow_banned(request: web.Request, board: str) -> str | None:
    """Return the player whose token a request has, if that player must not notice to be banned on a board."""
    player = player_asking(request)
    return player if player and request.app[EDGE].banned.is_shadow_banned(player, board) else None


async def reader_for(request: web.Request, board: Board, window: str) -> BoardReader:
    """Return the reader of a window for who sent a request: an OwnReader for its shadow-banned player."""
    edge = request.app[EDGE]
    reader, player = edge.of(board).reader, shadow_banned(request, board.name)
    if player is None or (standing := await _standing(edge.ledger, board, window, player)) is None:
        return reader
    return OwnReader(reader.index, reader.ledger, own_entry(board.ranking, standing))


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
        found |= await request.app[EDGE].ledger.read(work, ReadKind.PLAYERS)
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


async def _standing(ledger: Ledger, board: Board, window: str, player: str) -> Standing | None:
    work = standing_without_bans(board.ranking, player, window_named(board.policy, window))
    try:
        return await ledger.read(work, ReadKind.PLAYERS)
    except LedgerUnavailable as error:
        _log.warning(Event.LEDGER_DOWN, part="own view", error=str(error))
        return None


def own_entry(ranking: Ranking, standing: Standing) -> Entry:
    """Return a standing as an entry that has no rank yet."""
    place = BoardPlace(standing.order, standing.member)
    score = ranking.score_at(standing.window, place.order)
    at_ms = ranking.achieved_at_ms(standing.window, place)
    return Entry(0, standing.player, standing.name, score, at_ms, standing.submission_id, place)


@dataclass(frozen=True, slots=True)
class OwnReader(BoardReader):
    """Reads a window as if it had one more entry. Every method raises LedgerUnavailable.

    One below the head that the index keeps is counted and not shown, as others there.
    """

    own: Entry

    async def page(self, window: str, start: Cut | int, count: int, kind: RankKind) -> SourcedPage:
        """Return at most `count` entries from a 0-based position, or behind or ahead of a place."""
        ahead, behind = await self._neighbours(window, 1, kind)
        if _is_below_head(behind.page):
            return _counted(await BoardReader.page(self, window, start, count, kind), behind)
        row = self._row(window, ahead.page, behind.page, kind)
        if isinstance(start, Cut):
            sourced = await BoardReader.page(self, window, start, count, kind)
            return _sourced(row.beside(sourced.page, start, count), ahead, behind, sourced)
        sourced = await BoardReader.page(self, window, max(0, start - 1), count + 1, kind)
        return _sourced(row.at(sourced.page, start, count), ahead, behind, sourced)

    async def around(self, window: str, player: str, radius: int, kind: RankKind) -> SourcedPage:
        """Return a player's entry with `radius` neighbours on each side; nothing if the player has none."""
        is_own = player == self.own.player
        ahead, behind = await self._neighbours(window, max(1, radius if is_own else 1), kind)
        if _is_below_head(behind.page):
            return _counted(await BoardReader.around(self, window, player, radius, kind), behind)
        row = self._row(window, ahead.page, behind.page, kind)
        if is_own:
            joined = Page(
                behind.page.total,
                (*ahead.page.entries, *behind.page.entries),
                _begin(ahead.page, behind.page),
            )
            return _sourced(row.around(joined, player, radius), ahead, behind)
        sourced = await BoardReader.around(self, window, player, radius, kind)
        return _sourced(row.around(sourced.page, player, radius), ahead, behind, sourced)

    async def in_subset(self, window: str, subset: SubsetPage, *, is_in: bool) -> SubsetPage:
        """Return all of a subset as if the window had the own entry too, which is in the subset or not."""
        own, page = self.own, (await self.around(window, self.own.player, 0, RankKind.UNIQUE)).page
        rows = [
            replace(row, global_rank=row.global_rank + (own.place < row.entry.place))
            for row in subset.entries
            if row.entry.player != own.player
        ]
        rows += [SubsetEntry(own, entry.rank) for entry in page.entries if is_in]
        rows.sort(key=lambda row: row.entry.place)
        ranked = [replace(row, entry=replace(row.entry, rank=rank)) for rank, row in enumerate(rows, start=1)]
        return SubsetPage(len(ranked), tuple(ranked))

    async def _neighbours(self, window: str, count: int, kind: RankKind) -> tuple[SourcedPage, SourcedPage]:
        """Return the entries right ahead of the place, and those behind it."""
        ahead = await BoardReader.page(self, window, Cut(self.own.place, is_behind=False), count, kind)
        return ahead, await BoardReader.page(self, window, Cut(self.own.place), count, kind)

    def _row(self, window: str, ahead: Page, behind: Page, kind: RankKind) -> InsertedRow:
        """Return the own entry with its rank, which the entries beside its place tell."""

        def group(place: BoardPlace) -> tuple[int, str]:
            return self.index.ranking.group(window, place)

        number = ahead.ahead + len(ahead.entries)
        beside = (*ahead.entries[-1:], *behind.entries[:1])
        tied = next((entry for entry in beside if group(entry.place) == group(self.own.place)), None)
        if kind is RankKind.UNIQUE or (kind is RankKind.SPARSE and tied is None):
            rank = number + 1
        elif tied is not None:
            rank = tied.rank
        else:
            rank = 1 + (ahead.entries[-1].rank if ahead.entries else 0)
        return InsertedRow(replace(self.own, rank=rank), kind, group, is_tied=tied is not None)


@dataclass(frozen=True, slots=True)
class InsertedRow:
    """An entry that is put into pages of a window that has no entry of this player.

    `group` tells which entries are tied, `is_tied` whether any is tied with this one.
    """

    entry: Entry
    kind: RankKind
    group: Callable[[BoardPlace], tuple[int, str]]
    is_tied: bool

    def at(self, page: Page, first: int, count: int) -> Page:
        """Return the page from position `first` on; `page` begins one earlier, and is one longer."""
        if not page.entries and first:
            return Page(page.total + 1, (), first)
        skipped = first - (page.ahead if page.entries else 0)
        return Page(page.total + 1, self._inserted(page)[skipped : skipped + count], first)

    def beside(self, page: Page, cut: Cut, count: int) -> Page:
        """Return the page behind a place or ahead of it, of which `page` has the other entries."""
        own, at = self.entry.place, cut.place
        is_ahead = own < at or (own == at and cut.is_included is not cut.is_behind)
        if is_ahead is cut.is_behind:  # on the other side
            return replace(page, total=page.total + 1, entries=self._moved(page), ahead=page.ahead + is_ahead)
        entries = self._inserted(page)
        left_out = 0 if cut.is_behind else max(0, len(entries) - count)
        return Page(page.total + 1, entries[left_out:][:count], page.ahead + left_out)

    def around(self, page: Page, player: str, radius: int) -> Page:
        """Return the entries around a player, of which `page` has the others."""
        entries = self._inserted(page)
        at = next((at for at, entry in enumerate(entries) if entry.player == player), None)
        if at is None or not (page.entries or player == self.entry.player):
            return Page(page.total + 1, (), 0)
        begin = max(0, at - radius)
        return Page(page.total + 1, entries[begin : at + radius + 1], page.ahead + begin)

    def _inserted(self, page: Page) -> tuple[Entry, ...]:
        return tuple(sorted((*self._moved(page), self.entry), key=lambda entry: entry.place))

    def _moved(self, page: Page) -> tuple[Entry, ...]:
        """Return the entries of others with the ranks that they have beside this one."""
        return tuple(self._with_rank(entry) for entry in page.entries if entry.player != self.entry.player)

    def _with_rank(self, entry: Entry) -> Entry:
        if entry.place < self.entry.place:
            return entry
        is_same = self.group(entry.place) == self.group(self.entry.place)
        if self.kind is not RankKind.UNIQUE and (is_same or (self.kind is RankKind.DENSE and self.is_tied)):
            return entry
        return replace(entry, rank=entry.rank + 1)


def _is_below_head(behind: Page) -> bool:
    """Return whether no entry behind the place is known, though there are more than the known ones."""
    return not behind.entries and behind.ahead < behind.total


def _counted(sourced: SourcedPage, *read: SourcedPage) -> SourcedPage:
    """Return a page of others with one entry more in the total."""
    return _sourced(replace(sourced.page, total=sourced.page.total + 1), sourced, *read)


def _begin(ahead: Page, behind: Page) -> int:
    return ahead.ahead if ahead.entries else behind.ahead


def _sourced(page: Page, *read: SourcedPage) -> SourcedPage:
    return SourcedPage(page, all(each.is_from_index for each in read))
