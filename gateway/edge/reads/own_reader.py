"""Reads of a window as if it had one entry more: that of a shadow-banned player, who alone sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from gateway.edge.reads.board_reader import BoardReader, SourcedPage
from gateway.index.board_index import Cut, Entry, Page
from gateway.index.windows.subsets import SubsetEntry, SubsetPage
from gateway.shared_records import ScoreDistribution, Standing, position_at
from policies.choices import RankKind
from policies.ranking import BoardPlace, Ranking


def own_entry(ranking: Ranking, standing: Standing) -> Entry:
    """Return a standing as an entry that has no rank yet."""
    place = BoardPlace(standing.order, standing.member)
    score = ranking.score_at(standing.window, place.order)
    at_ms = ranking.achieved_at_ms(standing.window, place)
    return Entry(0, standing.player, standing.name, score, at_ms, standing.submission_id, place)


class WindowPages(Protocol):
    """Reads the pages of windows, as a BoardReader does."""

    async def page(self, window: str, start: Cut | int, count: int, kind: RankKind) -> SourcedPage:
        """Return at most `count` entries from a 0-based position, or behind or ahead of a place."""
        ...

    async def around(self, window: str, player: str, radius: int, kind: RankKind) -> SourcedPage:
        """Return a player's entry with `radius` neighbours on each side; nothing if the player has none."""
        ...


@dataclass(frozen=True, slots=True)
class OwnReader(BoardReader):
    """Reads a window as if it had one more entry. Every method raises LedgerUnavailable.

    `others` has the window without it, and without the entry that is `replaced`, if everybody sees one of the
    player. One below the head that the index keeps is counted and not shown, as others there.
    """

    own: Entry
    others: WindowPages
    ranking: Ranking
    replaced: Entry | None = None

    @classmethod
    def of(cls, reader: BoardReader, own: Entry) -> OwnReader:
        """Return a reader of a current window that has one more entry than another reader sees."""
        return cls(reader.index, reader.ledger, own, reader, reader.index.ranking)

    async def page(self, window: str, start: Cut | int, count: int, kind: RankKind) -> SourcedPage:
        """Return at most `count` entries from a 0-based position, or behind or ahead of a place."""
        ahead, behind = await self._neighbours(window, 1, kind)
        if _is_below_head(behind.page):
            return _counted(await self.others.page(window, start, count, kind), behind)
        row = self._row(window, ahead.page, behind.page, kind)
        if isinstance(start, Cut):
            sourced = await self.others.page(window, start, count, kind)
            return _sourced(row.beside(sourced.page, start, count), ahead, behind, sourced)
        sourced = await self.others.page(window, max(0, start - 1), count + 1, kind)
        return _sourced(row.at(sourced.page, start, count), ahead, behind, sourced)

    async def around(self, window: str, player: str, radius: int, kind: RankKind) -> SourcedPage:
        """Return a player's entry with `radius` neighbours on each side; nothing if the player has none."""
        is_own = player == self.own.player
        ahead, behind = await self._neighbours(window, max(1, radius if is_own else 1), kind)
        if _is_below_head(behind.page):
            return _counted(await self.others.around(window, player, radius, kind), behind)
        row = self._row(window, ahead.page, behind.page, kind)
        if is_own:
            joined = Page(
                behind.page.total,
                (*ahead.page.entries, *behind.page.entries),
                _begin(ahead.page, behind.page),
            )
            return _sourced(row.around(joined, player, radius), ahead, behind)
        sourced = await self.others.around(window, player, radius, kind)
        return _sourced(row.around(sourced.page, player, radius), ahead, behind, sourced)

    async def in_subset(self, window: str, subset: SubsetPage, *, is_in: bool) -> SubsetPage:
        """Return all of a subset as if the window had the own entry too, which is in the subset or not."""
        own, page = self.own, (await self.around(window, self.own.player, 0, RankKind.UNIQUE)).page
        rows = [
            replace(row, global_rank=row.global_rank + (own.place < row.entry.place) - self._lacks(row))
            for row in subset.entries
            if row.entry.player != own.player
        ]
        rows += [SubsetEntry(own, entry.rank) for entry in page.entries if is_in]
        rows.sort(key=lambda row: row.entry.place)
        ranked = [replace(row, entry=replace(row.entry, rank=rank)) for rank, row in enumerate(rows, start=1)]
        return SubsetPage(len(ranked), tuple(ranked))

    async def distribution(
        self, window: str, scores: Sequence[int], shares: Sequence[int], everybody: ScoreDistribution
    ) -> ScoreDistribution:
        """Return the distribution of a window that everybody sees as `everybody`.

        What that has at the shares stays below the head that the index keeps: it is an estimate there.
        """
        own, total = self.own, everybody.total + (self.replaced is None)

        def merit(score: int) -> int:
            return self.ranking.order_from(window, score)

        def beats(entry: Entry | None, score: int) -> bool:
            return entry is not None and merit(entry.score) < merit(score)

        better = [
            count + beats(own, score) - beats(self.replaced, score)
            for count, score in zip(everybody.better, scores, strict=True)
        ]
        ahead, behind = await self._neighbours(window, 1, RankKind.UNIQUE)
        at, number = list(everybody.at), ahead.page.ahead + len(ahead.page.entries)
        if not _is_below_head(behind.page):
            at = [await self._score_at(window, position_at(total, share), number) for share in shares]
        ends = [own.score, *(end for end in (everybody.best, everybody.worst) if end is not None)]
        if self.replaced is not None:
            ends = [await self._score_at(window, position, number) for position in (0, total - 1)]
        ends.sort(key=merit)
        return ScoreDistribution(total, tuple(better), tuple(at), ends[0], ends[-1])

    async def _score_at(self, window: str, position: int, own_position: int) -> int:
        if position == own_position:
            return self.own.score
        number = position - (position > own_position)
        page = (await self.others.page(window, number, 1, RankKind.UNIQUE)).page
        return page.entries[0].score if page.entries else self.own.score  # others have left meanwhile

    def _lacks(self, row: SubsetEntry) -> bool:
        """Return whether an entry loses a rank because one ahead of it is replaced."""
        return self.replaced is not None and self.replaced.place < row.entry.place

    async def _neighbours(self, window: str, count: int, kind: RankKind) -> tuple[SourcedPage, SourcedPage]:
        """Return the entries right ahead of the place, and those behind it."""
        ahead = await self.others.page(window, Cut(self.own.place, is_behind=False), count, kind)
        return ahead, await self.others.page(window, Cut(self.own.place), count, kind)

    def _row(self, window: str, ahead: Page, behind: Page, kind: RankKind) -> InsertedRow:
        """Return the own entry with its rank, which the entries beside its place tell."""
        group = partial(self.ranking.group, window)
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

    def without(self, page: Page) -> tuple[Entry, ...]:
        """Return the entries of a page that has this one, without it."""
        return tuple(
            self._with_rank(entry, -1) for entry in page.entries if entry.player != self.entry.player
        )

    def _with_rank(self, entry: Entry, moved: int = 1) -> Entry:
        if entry.place < self.entry.place:
            return entry
        is_same = self.group(entry.place) == self.group(self.entry.place)
        if self.kind is not RankKind.UNIQUE and (is_same or (self.kind is RankKind.DENSE and self.is_tied)):
            return entry
        return replace(entry, rank=entry.rank + moved)


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
