"""An archived window as its shadow-banned player sees it: with their own entry at its place."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.responses import entry_read
from gateway.edge.reads.archive import Archive, archived, without_entry
from gateway.edge.reads.board_reader import SourcedPage
from gateway.edge.reads.distribution_reader import relative_position
from gateway.edge.reads.own_reader import OwnReader, own_entry
from gateway.edge.reads.own_view import shadow_banned
from gateway.edge.reads.read_budget import charge_own_view
from gateway.edge.wire import read_models
from gateway.index.board_index import Cut, Entry, Page
from gateway.index.windows.subsets import SubsetPage
from gateway.ledger.archive.own_entries import archived_without_bans
from gateway.ledger.archive.reading import ArchivedEntries
from gateway.ledger.archive.windows import ArchivedWindow
from gateway.ledger.reads import ReadKind
from gateway.shared_records import ScoreDistribution
from policies.choices import RankKind
from policies.loader import Board
from policies.ranking import BoardPlace, Ranking


async def archive_for(request: web.Request, board: Board, window: str) -> Archive | None:
    """Return the archive of a window for who sent a request: an OwnArchive for its shadow-banned player.

    None while the window is current or not archived yet. Raises LedgerUnavailable.
    """
    edge = request.app[EDGE]
    archive, player = await archived(edge, board, window), shadow_banned(request, board.name)
    if archive is None or player is None:
        return archive
    found = await edge.ledger.read(archived_without_bans(board.policy, window, player), ReadKind.PLAYERS)
    if found is None:
        return archive
    ranking, fold = found
    charge_own_view(request, folds=1, runs=fold.runs)
    if fold.standing is None:
        return archive
    return OwnArchive(edge, board, window, ranking, own_entry(ranking, fold.standing))


class _OtherEntries:
    """Reads the entries of everybody else, as a board's reader does, and notes the revision they are from."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.revision: ArchivedWindow | None = None

    async def page(self, _window: str, start: Cut | int, count: int, kind: RankKind) -> SourcedPage:
        """Return at most `count` entries from a 0-based position, or behind or ahead of a place."""
        page = self._page(await self._archive.entries_at(start, count), kind)
        if page.entries:
            return SourcedPage(page, is_from_index=False)
        ahead = (page.total if start.is_behind else 0) if isinstance(start, Cut) else start
        return SourcedPage(Page(page.total, (), ahead), is_from_index=False)

    async def around(self, _window: str, player: str, radius: int, kind: RankKind) -> SourcedPage:
        """Return a player's entry with `radius` neighbours on each side; nothing if the player has none."""
        entries = await self._archive.entries_around(player, radius)
        return SourcedPage(self._page(entries, kind), is_from_index=False)

    def _page(self, entries: ArchivedEntries, kind: RankKind) -> Page:
        self.revision = entries.window
        return self._archive.index_page(entries, kind)


class OwnArchive(Archive):
    """Reads one archived window with one more entry. Every method raises `not-found` once it is deleted."""

    def __init__(self, edge: Edge, board: Board, window: str, ranking: Ranking, own: Entry) -> None:
        super().__init__(edge, board, window)
        self._others = _OtherEntries(Archive(edge, board, window))
        reader = edge.of(board).reader
        self._reader = OwnReader(reader.index, reader.ledger, own, self._others, ranking)

    async def page(self, start: Cut | int, count: int, ranks: RankKind) -> read_models.ArchivedPage:
        """Return `count` entries from a 0-based position, or behind or ahead of a place."""
        page = (await self._reader.page(self._window, start, count, ranks)).page
        return self.shown(self._revision, page, ranks, start if isinstance(start, Cut) else None)

    async def around(self, player: str, radius: int, ranks: RankKind) -> read_models.ArchivedPage:
        """Return a player's entry with its neighbours. Raises `not-found` if the player has none."""
        page = await self._existing_around(player, radius, ranks)
        return self.shown(self._revision, page, ranks)

    async def page_around(self, player: str, radius: int, ranks: RankKind) -> Page:
        """Return the same entries as the index would have them, and none if the player has none."""
        return (await self._reader.around(self._window, player, radius, ranks)).page

    async def _existing_around(self, player: str, radius: int, ranks: RankKind) -> Page:
        page = await self.page_around(player, radius, ranks)
        if not page.entries:
            raise without_entry(page.total)
        return page

    async def entry(self, player: str, ranks: RankKind) -> tuple[read_models.EntryRead, int]:
        """Return a player's entry and the revision that it is from.

        Raises `not-found` if the player has none.
        """
        [entry] = (await self._existing_around(player, 0, ranks)).entries
        best_equal = BoardPlace(self._reader.ranking.order_from(self._window, entry.score), "")
        ahead = (await self._reader.page(self._window, Cut(best_equal, is_behind=False), 1, ranks)).page
        next_score = ahead.entries[-1].score if ahead.entries else None
        better = ahead.ahead + len(ahead.entries)
        position = relative_position(ahead.total, better, entry.score, next_score)
        return entry_read(entry, position), self._revision.revision

    async def distribution(
        self, scores: Sequence[int], shares: Sequence[int]
    ) -> tuple[ScoreDistribution, int]:
        """Return how many entries beat each score, the score at each share, and their revision."""
        others, revision = await super().distribution(scores, shares)
        return await self._reader.distribution(self._window, scores, shares, others), revision

    async def subset(self, players: Sequence[str]) -> tuple[SubsetPage, int]:
        """Return the entries of these players, ranked among themselves, and their revision."""
        others, revision = await super().subset(players)
        is_in = self._reader.own.player in players
        return await self._reader.in_subset(self._window, others, is_in=is_in), revision

    @property
    def _revision(self) -> ArchivedWindow:
        assert self._others.revision is not None, "a page was read"
        return self._others.revision
