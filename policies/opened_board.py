"""A board of a family as it was opened: its name, content and life, and the rules for what those may be."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeAlias

import orjson
from pydantic import Field

from policies.errors import SettingRefused
from policies.fields import PolicySection, Score
from policies.judging import Prior
from policies.vocabulary import LATEST_MS, SCORE_LIMIT

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A value that JSON has."""

METADATA_BYTES: Final = 4096
PARAMETER_BYTES: Final = 4096
"""Largest canonical JSON of a board's metadata and of its parameters."""

ASSET_BYTES: Final = 8 * 1024 * 1024
"""Largest asset of a board."""

JSON_DEPTH: Final = 8
"""Deepest nesting of objects and arrays in metadata and parameters."""

TITLE_LENGTH: Final = 80
REST_LENGTH: Final = 64
BOARD_NAME_LENGTH: Final = 48 + 1 + REST_LENGTH

NO_CONTENT: Final = bytes(32)
"""Content digest of a board without parameters and asset, which is also that of every board of a file."""

_BOARD_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,47}\.[A-Za-z0-9_-]{1,64}")
_UNSHOWN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_CONTENT_DOMAIN: Final = b"scoregate/board-content/1\n"


class BoardState(StrEnum):
    """The state of a family's board. A closed board takes no new runs; a deleted one is not read."""

    OPEN = "open"
    CLOSED = "closed"
    DELETED = "deleted"


class NarrowedScore(PolicySection):
    """The ends of a family's score bounds that one of its boards moves inwards."""

    minimum: Score | None = None
    maximum: Score | None = None


class NarrowedBounds(PolicySection):
    """What one board of a family rules out beyond its family's policy."""

    score: NarrowedScore = NarrowedScore()
    maximum_ticks: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    prior: Prior | None = None

    @property
    def narrows(self) -> bool:
        """Return whether it changes anything."""
        return self != _UNCHANGED

    def as_json(self) -> dict[str, Any]:
        """Return the bounds that are set, as JSON. `NarrowedBounds.model_validate` reads them again."""
        return self.model_dump(mode="json", exclude_defaults=True)


_UNCHANGED: Final = NarrowedBounds()


@dataclass(frozen=True, slots=True)
class OpenedBoard:
    """A board of a family, as the ledger has it. Times are Unix milliseconds.

    `parameters` is canonical JSON, empty for none. `asset` is the SHA-256 of a stored file. Neither changes
    once the board is open. `version` counts the board's changes, from 1. `opened_seq` is the ledger's event
    that opened it: it tells a board from a later one of the same name, and is 0 before the board is open.
    """

    board: str
    family: str
    title: str
    metadata: Mapping[str, JSON] = field(default_factory=lambda: MappingProxyType({}))
    parameters: bytes = b""
    asset: bytes | None = None
    bounds: NarrowedBounds | None = None
    opens_at_ms: int | None = None
    closes_at_ms: int | None = None
    state: BoardState = BoardState.OPEN
    version: int = 1
    opened_at_ms: int = 0
    opened_by: str = ""
    opened_seq: int = field(default=0, compare=False)

    @property
    def rest(self) -> str:
        """Return what follows the family's name and the dot."""
        return self.board[len(self.family) + 1 :]

    @property
    def content_digest(self) -> bytes:
        """Return the SHA-256 of what a simulator gets besides the run; `NO_CONTENT` of nothing."""
        return content_digest(self.parameters, self.asset)

    def takes_runs_at(self, at_ms: int) -> bool:
        """Return whether a run may be opened at this time (Unix ms)."""
        return (
            self.state is BoardState.OPEN
            and (self.opens_at_ms is None or self.opens_at_ms <= at_ms)
            and (self.closes_at_ms is None or at_ms < self.closes_at_ms)
        )


def content_digest(parameters: bytes, asset: bytes | None) -> bytes:
    """Return the SHA-256 of a board's parameters and of its asset's digest; `NO_CONTENT` of neither."""
    if not parameters and asset is None:
        return NO_CONTENT
    # The length keeps the parameters apart from the digest that follows them.
    parts = (_CONTENT_DOMAIN, len(parameters).to_bytes(8, "big"), parameters, asset or b"")
    return hashlib.sha256(b"".join(parts)).digest()


def is_name_in_family(board: str) -> bool:
    """Return whether the text is `<family>.<rest>`, as no board of a file is named."""
    return _BOARD_NAME.fullmatch(board) is not None


def family_named_by(board: str) -> str | None:
    """Return the family's part of a board's name, or None for a name that no family's board has."""
    return board.partition(".")[0] if is_name_in_family(board) else None


def names_of_family(family: str) -> tuple[str, str]:
    """Return the two texts between which the names of a family's boards are, and those of no other board."""
    return f"{family}.", f"{family}/"  # the solidus follows the full stop in ASCII


def canonical_json(value: JSON) -> bytes:
    """Return the one JSON text of a value: UTF-8, keys in order, no spaces.

    Raises ValueError for what another reader could take for something else: a number that is not finite, an
    integer beyond 2^53 - 1, a NUL, nesting deeper than `JSON_DEPTH`, or what is not JSON.
    """
    _refuse_ambiguous(value, JSON_DEPTH)
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:  # a lone surrogate
        raise ValueError(f"not JSON: {error}") from None


def canonical_parameters(parameters: Mapping[str, JSON] | None) -> bytes:
    """Return a board's parameters as its simulator gets them; empty for none. Raises SettingRefused."""
    return _bounded(parameters, "parameters", PARAMETER_BYTES) if parameters else b""


def refuse_unfit(opened: OpenedBoard) -> None:
    """Raise SettingRefused, naming the field, for a board that nobody may open or change so."""
    if family_named_by(opened.board) != opened.family:
        raise SettingRefused(
            f"expected `{opened.family}.` and up to {REST_LENGTH} of the characters A-Z a-z 0-9 _ -", "board"
        )
    if not 0 < len(opened.title) <= TITLE_LENGTH or _has_control(opened.title):
        raise SettingRefused(f"expected 1 to {TITLE_LENGTH} characters on one line", "title")
    _bounded(opened.metadata, "metadata", METADATA_BYTES)
    if len(opened.parameters) > PARAMETER_BYTES:
        raise SettingRefused(f"expected at most {PARAMETER_BYTES} bytes of JSON", "parameters")
    if opened.asset is not None and len(opened.asset) != hashlib.sha256().digest_size:
        raise SettingRefused("expected a SHA-256", "asset")
    _refuse_times(opened)


def _has_control(text: str) -> bool:
    """Return whether a text has control characters, line ends, or halves of characters."""
    return not _UNSHOWN.isdisjoint(map(unicodedata.category, text))


def _refuse_times(opened: OpenedBoard) -> None:
    # Named as in requests, in files and on the command line, where times are written in RFC 3339.
    for name, at_ms in (("opens_at", opened.opens_at_ms), ("closes_at", opened.closes_at_ms)):
        if at_ms is not None and not 0 <= at_ms <= LATEST_MS:
            raise SettingRefused("expected a time from 1970 to 9999", name)
    if opened.closes_at_ms is not None and (opened.opens_at_ms or 0) >= opened.closes_at_ms:
        raise SettingRefused("expected a time after `opens_at`", "closes_at")


def _bounded(value: JSON, name: str, most_bytes: int) -> bytes:
    if not isinstance(value, Mapping):
        raise SettingRefused("expected an object", name)
    try:
        text = canonical_json(value)
    except ValueError as error:
        raise SettingRefused(str(error), name) from None
    if len(text) > most_bytes:
        raise SettingRefused(f"expected at most {most_bytes} bytes of JSON, not {len(text)}", name)
    return text


def _refuse_ambiguous(value: Any, depth: int) -> None:
    """Raise ValueError for a value whose JSON another program could read as another value."""
    match value:
        case None | bool():
            return
        case int():
            if abs(value) > SCORE_LIMIT:
                raise ValueError(f"an integer is beyond ±{SCORE_LIMIT}")
        case float():
            if not math.isfinite(value):
                raise ValueError("a number is not finite")
        case str():
            if "\0" in value:
                raise ValueError("a text has the character U+0000")
        case Mapping() | list() | tuple():
            _refuse_ambiguous_parts(value, depth)
        case _:
            raise ValueError(f"a {type(value).__name__} is not JSON")


def _refuse_ambiguous_parts(value: Any, depth: int) -> None:
    if not depth:
        raise ValueError(f"it is nested deeper than {JSON_DEPTH}")
    is_object = isinstance(value, Mapping)
    if is_object and not all(isinstance(key, str) for key in value):
        raise ValueError("a key is not a text")
    for part in (*value, *value.values()) if is_object else value:
        _refuse_ambiguous(part, depth - 1)


def _plain(value: Any) -> Any:
    """Return what orjson is to write for a mapping that is no dict."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)
