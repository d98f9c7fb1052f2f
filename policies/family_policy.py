"""The policy of a family: what its file says of boards that are opened while everything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import SchemaError, SchemaValidator, core_schema

from policies.declared_boards import DECLARED_BOARDS, BoardRest, DeclaredBoard, SampleContent, Schedule
from policies.defaults import completed
from policies.errors import SettingRefused
from policies.fields import Name, PolicySection, StatName
from policies.model import Policy

FILTERS: Final = 8
"""Most metadata fields by which a family's boards can be listed."""

FILTER_TEXT_LENGTH: Final = 64
"""Most characters of a text by which boards can be listed."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,15}")
_TEXT: Final = re.compile(rf"[^\x00\ud800-\udfff]{{0,{FILTER_TEXT_LENGTH}}}")
"""Texts that both databases take: PostgreSQL takes no NUL, and neither takes a surrogate."""

_PATTERN, _LIST = "[pattern]", "[list]"  # in brackets, so that no error names them as settings


class OpenedBy(StrEnum):
    """Who opens boards: registered servers, the first run of a player, or both."""

    SERVERS = "servers"
    PLAYERS = "players"
    BOTH = "both"


class FilterType(StrEnum):
    """The type of a metadata field by which boards can be listed."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"

    def fits(self, value: object) -> bool:
        """Return whether a value is of this type."""
        if self is FilterType.TEXT:
            return isinstance(value, str) and len(value) <= FILTER_TEXT_LENGTH
        if self is FilterType.BOOLEAN:
            return isinstance(value, bool)
        return isinstance(value, int) and not isinstance(value, bool)

    def fault_of(self, text: str) -> str | None:
        """Return why a text stands for no value of this type, None if it does."""
        if self is FilterType.BOOLEAN and text not in {"true", "false"}:
            return "expected true or false"
        if self is FilterType.INTEGER and not _INTEGER.fullmatch(text):
            return "expected a whole number"
        if not _TEXT.fullmatch(text):
            return f"expected a text of at most {FILTER_TEXT_LENGTH} characters"
        return None


class Opening(PolicySection):
    """How many boards players may open in an hour: each of them, from one address, and all together."""

    player_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 10
    address_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 50
    per_hour: Annotated[int, Field(ge=1, le=1_000_000)] = 1000


def _names_are(value: object) -> str:
    return _PATTERN if isinstance(value, str) else _LIST


BoardNames = Annotated[
    Annotated[Annotated[str, Field(min_length=1, max_length=200)], Tag(_PATTERN)]
    | Annotated[
        Annotated[tuple[BoardRest, ...], Field(min_length=1, max_length=10_000, strict=False)], Tag(_LIST)
    ],
    Discriminator(_names_are),
]


class FamilyPolicy(Policy):
    """A family of boards: the settings that all its boards share, how they are named, and who opens them."""

    family: Name
    board: str = ""
    names: BoardNames | None = None
    opened_by: Annotated[OpenedBy, Field(strict=False)] = OpenedBy.SERVERS
    opening: Opening | None = None
    metadata_filters: Annotated[
        dict[StatName, Annotated[FilterType, Field(strict=False)]],
        Field(default={}, max_length=FILTERS),
    ]
    names_free_after_delete: bool = False
    boards: Annotated[dict[BoardRest, DeclaredBoard], Field(default={}, max_length=DECLARED_BOARDS)]
    schedule: Annotated[Schedule, Field(strict=False)] | None = None
    sample: SampleContent | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_what_follows(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        if "board" in settings:
            raise SettingRefused("a file describes a `board` or a `family`, not both", "board")
        if settings.get("rollup") is not None:
            raise SettingRefused("a rollup is a board of its own, and describes no family", "rollup")
        return completed({**settings, "board": str(settings.get("family"))})

    @field_validator("names")
    @classmethod
    def _names_that_can_be_matched(cls, names: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(names, str):
            refuse_pattern(names)
        elif names is not None and len(set(names)) < len(names):
            raise ValueError("each name may be given once")
        return names

    @model_validator(mode="after")
    def _players_open_real_names(self) -> Self:
        if self.opened_by is OpenedBy.SERVERS and self.opening is not None:
            message = "`opening` limits players, and `opened_by: servers` lets none open boards"
            raise SettingRefused(message, "opening")
        if self.opened_by is not OpenedBy.SERVERS and self.names is None:
            message = (
                "players may only open boards whose names the policy knows to be real: give `names`, a list "
                "or a pattern"
            )
            raise SettingRefused(message, "opened_by")
        return self

    @property
    def opening_limits(self) -> Opening:
        """Return how many boards players may open in an hour."""
        return self.opening or Opening()

    @property
    def is_opened_by_servers(self) -> bool:
        """Return whether a registered server may open boards."""
        return self.opened_by is not OpenedBy.PLAYERS

    @property
    def is_opened_by_players(self) -> bool:
        """Return whether the first run of a player opens a board."""
        return self.opened_by is not OpenedBy.SERVERS

    def allows_rest(self, rest: str) -> bool:
        """Return whether a board may be called so after the dot. It takes time linear in the text."""
        if self.names is None:
            return True
        if isinstance(self.names, str):
            return self._pattern.isinstance_python(rest)
        return rest in self._listed

    @cached_property
    def _pattern(self) -> SchemaValidator:
        return _matcher_of(f"^(?:{self.names})$")

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.names or ())


def refuse_pattern(names: str) -> None:
    """Raise ValueError if a pattern for names cannot be matched in linear time."""
    try:
        _matcher_of(names)  # alone first, so that no bracket of it closes ours
        _matcher_of(f"^(?:{names})$")
    except SchemaError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ValueError(f"not a pattern that can be matched in linear time: {reason}") from None


def _matcher_of(pattern: str) -> SchemaValidator:
    """Return a matcher that never backtracks: Rust's `regex`. Raises SchemaError."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
