"""Cursors: where a page of a board ends or begins, as a text that a reader sends back to continue there.

A cursor names the place of an entry, not its rank, so the entries behind it stay the same however many come
or go ahead of it. It contains nothing that a page does not show, so it is authenticated but not encrypted.
Each is valid for one board, window, kind of rank and rule of order, and has one spelling.

Lists of boards, families, windows and achievements have cursors too. Their tag also covers which list it is:
none accepts a cursor of another.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import orjson
from aiohttp import web
from pydantic import Field, TypeAdapter

from gateway.edge.problems import Problem, ProblemType
from gateway.index.board_index import Cut, Page
from policies.choices import RankKind
from policies.loader import Board
from policies.ranking import BoardPlace

_ALONE: Final = ("offset", "as_of", "friends", "players", "segment")
"""Parameters that a cursor excludes."""

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
"""Version of the form, board, window, kind of rank, rule of order; then the place, and the side of it."""

_FORM: Final[TypeAdapter[_Form]] = TypeAdapter(_Form)

Listed = Sequence[object]
"""Which list: its kind, and all that decides what is in it and in which order, as JSON has it."""

_FROM_THE_END: Final = Cut(BoardPlace(2**53, "z"), is_behind=False)
"""Ahead of a place that is behind every entry: the last page, for an offset beyond it."""

_TAG_BYTES: Final = 16
"""Half of the hash: a truncated HMAC should keep no less (RFC 2104, section 5)."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The entries to continue with, their window, and their kind of rank."""

    window: str
    ranks: RankKind
    cut: Cut


class Cursors:
    """Writes cursors, and accepts only its own back: each ends with its HMAC-SHA256."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def text(self, board: Board, cursor: Cursor) -> str:
        """Return the text of a cursor of this board."""
        (order, member), is_behind, is_included = cursor.cut
        rule = board.ranking.rule
        form = (2, board.name, cursor.window, cursor.ranks.value, rule, order, member, is_behind, is_included)
        return self.signed(orjson.dumps(form))

    def of(self, request: web.Request, board: Board) -> Cursor | None:
        """Return the cursor of the query.

        Raises `schema-violation` for one of another board, and for one that contradicts the rest of the
        query.
        """
        text = request.query.get("cursor")
        if text is None:
            return None
        if excluded := [name for name in _ALONE if name in request.query]:
            raise _violation(f"{excluded[0]} and cursor cannot be combined")
        cursor = self._parsed(text, board)
        window = request.query.get("window", cursor.window)
        if window not in (cursor.window, cursor.window.partition(":")[0]):
            raise _violation(f"cursor: belongs to the window {cursor.window}")
        if request.query.get("ranks", cursor.ranks.value) != cursor.ranks.value:
            raise _violation(f"cursor: belongs to {cursor.ranks.value} ranks")
        return cursor

    def beside(
        self, board: Board, window: str, ranks: RankKind, page: Page, cut: Cut | None
    ) -> tuple[str | None, str | None]:
        """Return the cursors of the pages behind and ahead of one read from `cut`; None at an end."""
        following, preceding = _cuts_beside(page, cut)
        return (
            self.text(board, Cursor(window, ranks, following)) if following else None,
            self.text(board, Cursor(window, ranks, preceding)) if preceding else None,
        )

    def next_of(self, listed: Listed, place: Sequence[object] | None) -> str | None:
        """Return the cursor of the page of a list that goes on behind a place; None without one."""
        return self.signed(orjson.dumps(place), orjson.dumps(listed)) if place else None

    def place_in(self, request: web.Request, listed: Listed, parameter: str = "cursor") -> list[Any] | None:
        """Return the place that `next_of` was given for this list; None if the query has no cursor.

        Raises `schema-violation` for a text that is no cursor of this list.
        """
        text = request.query.get(parameter)
        return None if text is None else self.place_of(text, listed, parameter)

    def place_of(self, text: str, listed: Listed, parameter: str = "cursor") -> list[Any]:
        """Return the place that `next_of` was given for this list. Raises `schema-violation`."""
        try:
            place: list[Any] = orjson.loads(self.content_of(text, orjson.dumps(listed)))
        except ValueError:
            detail = (
                f"{parameter}: expected the `next` of a page of this list, in its order and with its filters"
            )
            raise _violation(detail) from None
        return place

    def signed(self, content: bytes, of: bytes = b"") -> str:
        """Return `content` with a tag, as text. The tag covers `of` too, which the text does not contain."""
        return urlsafe_b64encode(content + self._tag(of + content)).rstrip(b"=").decode()

    def content_of(self, text: str, of: bytes = b"") -> bytes:
        """Return the content of a text from `signed`, with the same `of`. Raises ValueError for any other."""
        content = urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-_TAG_BYTES]
        if not hmac.compare_digest(self.signed(content, of).encode(), text.encode()):
            raise ValueError("this cursor was never issued")
        return content

    def _parsed(self, text: str, board: Board) -> Cursor:
        try:
            form = _FORM.validate_json(self.content_of(text), strict=True)
            _, name, window, ranks, rule, order, member, is_behind, is_included = form
            cursor = Cursor(window, RankKind(ranks), Cut(BoardPlace(order, member), is_behind, is_included))
        except ValueError:
            raise _violation("cursor: expected `next` or `previous` of a page of this board") from None
        if name != board.name or cursor.ranks not in board.policy.ranks or self.text(board, cursor) != text:
            is_outdated = name == board.name and rule != board.ranking.rule
            detail = "the order of the board has changed since" if is_outdated else "is not of this board"
            raise _violation(f"cursor: {detail}")
        return cursor

    def _tag(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")[:_TAG_BYTES]


def _cuts_beside(page: Page, cut: Cut | None) -> tuple[Cut | None, Cut | None]:
    # Beyond one end of the window: turn back over the place, and include the entry that may be on it.
    if not page.entries:
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
