"""Carries a rendered page of entries on to a later version of its board, without reading it again.

A page is carried on while its entries stay where they are: what moves ahead of them or behind them changes
only ranks and the number of all entries, and only those are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.index.board_index import Page
from gateway.index.moves import BEGINNING, END, Shift
from policies.choices import RankKind
from policies.ranking import BoardPlace, Ranking

# No text in JSON contains either: the quotes of a text's content are escaped.
_NUMBERS: Final = re.compile(rb'("total":|\{"rank":)\d+')


class PageSpan(NamedTuple):
    """The part of a window that a page shows: from the place `low` to the place `high`, both included.

    `ahead` and `total` count entries of the window, and `ranks` are those shown. A page that `slides` follows
    an entry; any other begins at a position.
    """

    low: BoardPlace
    high: BoardPlace
    ahead: int
    total: int
    ranks: Sequence[int]
    slides: bool

    @property
    def behind(self) -> int:
        """Return the number of entries behind the page."""
        return self.total - self.ahead - len(self.ranks)

    def shifted(self, shift: Shift) -> PageSpan | None:
        """Return the span after moves outside of it; None if the page would now have more to tell of them."""
        if shift.ranks and not self.slides:
            return None
        ranks = self.ranks
        if isinstance(ranks, range):
            ranks = range(ranks.start + shift.ranks, ranks.stop + shift.ranks)
        elif shift.ranks:
            ranks = [rank + shift.ranks for rank in ranks]
        after = self._replace(ahead=self.ahead + shift.ranks, total=self.total + shift.total, ranks=ranks)
        # A page names the pages beside it, and those at an end are found by their number.
        is_alike = (after.ahead > 0, after.behind > 0) == (self.ahead > 0, self.behind > 0)
        return after if is_alike else None


def span_of(page: Page, ranking: Ranking, window: str, kind: RankKind, *, slides: bool) -> PageSpan | None:
    """Return what a page of entries shows, None for one without entries."""
    if not page.entries:
        return None
    first, last = page.entries[0].place, page.entries[-1].place
    if kind is RankKind.DENSE or not page.ahead:  # dense ranks count the scores ahead, which no move tells
        low = BEGINNING
    else:
        low = ranking.group_begin(window, first) if kind is RankKind.SPARSE else first
    length = len(page.entries)
    is_whole = page.ahead + length == page.total
    ranks: Sequence[int] = [entry.rank for entry in page.entries]
    if kind is RankKind.UNIQUE:
        ranks = range(page.ahead + 1, page.ahead + 1 + length)
    return PageSpan(low, END if is_whole else last, page.ahead, page.total, ranks, slides)


def template_of(body: bytes) -> bytes:
    """Return a page's JSON with `%d` for the number of all entries and for each rank."""
    return _NUMBERS.sub(rb"\1%d", body.replace(b"%", b"%%"))


def body_of(template: bytes, span: PageSpan) -> bytes:
    """Return the JSON of a page whose template is `template`."""
    return template % (span.total, *span.ranks)
