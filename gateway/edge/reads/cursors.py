"""Cursors: where a page of a board ends or begins, as a text that a reader hands back to go on from there.

A cursor names the place of an entry, not its rank, so the entries behind it are the same however many came or went
ahead of it meanwhile. It says nothing that a page does not show, so it is checked but not sealed: each holds for one
board, window, kind of rank and rule of order, and has one spelling.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import orjson
from aiohttp import web
from pydantic import Field, TypeAdapter

from gateway.edge.problems import Problem, ProblemType
from gateway.index.board_index import Cut, Page
from policies.loader import Board
from policies.model import RankKind
from policies.ranking import BoardPlace

_ALONE: Final = ("offset", "as_of", "friends", "players", "segment")
"""What cannot be asked for together with a cursor."""

_Name = Annotated[str, Field(max_length=64)]
_Form = tuple[
    Literal[2],
    _Name,
    _Name,
    _Name,
    _Name,
    Annotated[int, Field(ge=-(2**53), le=2**53)],
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_:-]{1,256}$")],
    bool,
    bool,
]
"""Version of the form, board, window, kind of rank, rule of the order; then the place, and which side of it."""

_FORM: Final[TypeAdapter[_Form]] = TypeAdapter(_Form)

_FROM_THE_END: Final = Cut(BoardPlace(2**53, "z"), is_behind=False)
"""Ahead of a place that is behind every entry: the last page, for who asked for an offset beyond it."""

_TAG_BYTES: Final = 16
"""A truncated HMAC keeps half of its hash at least (RFC 2104, section 5)."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """Which entries to go on with, in which window, and with which ranks."""

    window: str
    ranks: RankKind
    cut: Cut


class Cursors:
    """Gives cursors to readers, and takes none back that it did not give: each ends with its HMAC-SHA256."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def text(self, board: Board, cursor: Cursor) -> str:
        """A cursor of this board as a reader gets it."""
        (order, member), is_behind, is_included = cursor.cut
        rule = board.ranking.rule
        form = (2, board.name, cursor.window, cursor.ranks.value, rule, order, member, is_behind, is_included)
        told = orjson.dumps(form)
        return urlsafe_b64encode(told + self._tag(told)).rstrip(b"=").decode()

    def of(self, request: web.Request, board: Board) -> Cursor | None:
        """The cursor that the query gives. Raises `schema-violation` for what is none of this board, or does not fit the rest."""
        text = request.query.get("cursor")
        if text is None:
            return None
        if beside := [name for name in _ALONE if name in request.query]:
            raise _violation(f"{beside[0]} and cursor do not go together")
        cursor = self._parsed(text, board)
        asked = request.query.get("window", cursor.window)
        if asked not in (cursor.window, cursor.window.partition(":")[0]):
            raise _violation(f"cursor: belongs to the window {cursor.window}")
        if request.query.get("ranks", cursor.ranks.value) != cursor.ranks.value:
            raise _violation(f"cursor: belongs to {cursor.ranks.value} ranks")
        return cursor

    def beside(
        self, board: Board, window: str, ranks: RankKind, page: Page, cut: Cut | None
    ) -> tuple[str | None, str | None]:
        """The cursors of the pages behind and ahead of one that was read from `cut`; None where there are no entries."""
        following, preceding = _cuts_beside(page, cut)
        return (
            self.text(board, Cursor(window, ranks, following)) if following else None,
            self.text(board, Cursor(window, ranks, preceding)) if preceding else None,
        )

    def _parsed(self, text: str, board: Board) -> Cursor:
        try:
            told = self._authentic(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            form = _FORM.validate_json(told, strict=True)
            _, name, window, ranks, rule, order, member, is_behind, is_included = form
            cursor = Cursor(window, RankKind(ranks), Cut(BoardPlace(order, member), is_behind, is_included))
        except ValueError:
            raise _violation("cursor: expected one that a page of the board gave") from None
        if name != board.name or cursor.ranks not in board.policy.ranks or self.text(board, cursor) != text:
            is_outdated = name == board.name and rule != board.ranking.rule
            detail = "the order of the board has changed since" if is_outdated else "is not of this board"
            raise _violation(f"cursor: {detail}")
        return cursor

    def _authentic(self, raw: bytes) -> bytes:
        """What a cursor says. Raises ValueError if we did not say it."""
        told, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(told)):
            raise ValueError("nobody was given this cursor")
        return told

    def _tag(self, told: bytes) -> bytes:
        return hmac.digest(self._key, told, "sha256")[:_TAG_BYTES]


def _cuts_beside(page: Page, cut: Cut | None) -> tuple[Cut | None, Cut | None]:
    if not page.entries:  # beyond one end of the window: back over the place, with what may stand there
        if not page.total:
            return None, None
        back = Cut(cut.place, not cut.is_behind, is_included=not cut.is_included) if cut else _FROM_THE_END
        return (back, None) if back.is_behind else (None, back)
    has_more = page.ahead + len(page.entries) < page.total
    return (
        Cut(page.entries[-1].place) if has_more else None,
        Cut(page.entries[0].place, is_behind=False) if page.ahead else None,
    )


def _violation(detail: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, detail)
