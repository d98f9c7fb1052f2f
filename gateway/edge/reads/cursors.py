"""Cursors: where a page of a board ends or begins, as a text that a reader sends back to continue there.

A cursor names the place of an entry, not its rank, so the entries behind it stay the same however many come
or go ahead of it. Each is valid for one board, window, kind of rank and rule of order, and has one spelling.

All other lists have cursors too. A place may be that of something passed over, which the reader may not see,
so all cursors are sealed. The seal also covers which list it is: none accepts a cursor of another.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import orjson
from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
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

_BLOCK_BYTES: Final = 32
"""Contents are padded to a multiple of it, since the length of a sealed name would tell something of it."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The entries to continue with, their window, and their kind of rank."""

    window: str
    ranks: RankKind
    cut: Cut


class Cursors:
    """Writes cursors that nobody else can read, and accepts only its own back.

    They are sealed by AES-SIV (RFC 5297), which needs no nonce: a place has the same cursor on all edges.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = AESSIV(key)

    def text(self, board: Board, cursor: Cursor) -> str:
        """Return the text of a cursor of this board."""
        (order, member), is_behind, is_included = cursor.cut
        rule = board.ranking.rule
        form = (2, board.name, cursor.window, cursor.ranks.value, rule, order, member, is_behind, is_included)
        return self.sealed(orjson.dumps(form))

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
        return self.sealed(orjson.dumps(place), orjson.dumps(listed)) if place else None

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

    def sealed(self, content: bytes, of: bytes = b"") -> str:
        """Return JSON as a sealed text. The seal covers `of` too, which the text does not contain."""
        padded = content.ljust(-(-len(content) // _BLOCK_BYTES) * _BLOCK_BYTES)
        return _text_of(self._cipher.encrypt(padded, [of]))

    def content_of(self, text: str, of: bytes = b"") -> bytes:
        """Return the JSON of a text from `sealed`, with the same `of`. Raises ValueError for any other."""
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        try:
            content = self._cipher.decrypt(sealed, [of])
        except InvalidTag:
            raise ValueError("this cursor was never issued") from None
        if _text_of(sealed) != text:
            raise ValueError("this cursor was spelt otherwise")
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


def _text_of(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).rstrip(b"=").decode()


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
