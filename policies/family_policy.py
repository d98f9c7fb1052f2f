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
from policies.limits import NETWORK_SHARE, HourlyRate
from policies.model import Policy
from policies.signed_names import public_key_bytes

FILTERS: Final = 8
"""Most metadata fields by which a family's boards can be listed."""

FILTER_TEXT_LENGTH: Final = 64
"""Most characters of a text by which boards can be listed."""

SIGNERS: Final = 4
"""Most keys under which names are signed: each costs an edge a verification for a false signature."""

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
    """How many boards players may open: each of them, from one address, and all together, and whose names.

    `in_all` counts every board that players ever opened. With `signed_by`, the base64 of Ed25519 public keys,
    a name is real if one of the keys has signed it.
    """

    player_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 10
    address_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 50
    per_hour: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    in_all: Annotated[int, Field(ge=1, le=100_000_000)] = 100_000
    signed_by: Annotated[tuple[str, ...], Field(max_length=SIGNERS, strict=False)] = ()

    @field_validator("signed_by")
    @classmethod
    def _keys(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            public_key_bytes(text)
        return texts

    @property
    def player_rate(self) -> HourlyRate:
        """Return how many boards one player may open."""
        return HourlyRate(per_hour=self.player_per_hour)

    @property
    def address_rate(self) -> HourlyRate:
        """Return how many boards players of one address may open."""
        return HourlyRate(per_hour=self.address_per_hour)

    @property
    def network_rate(self) -> HourlyRate:
        """Return how many boards players of one network may open."""
        return self.address_rate.times(NETWORK_SHARE)

    @property
    def rate(self) -> HourlyRate:
        """Return how many boards all players together may open."""
        return HourlyRate(per_hour=self.per_hour)


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
        if self.opened_by is OpenedBy.SERVERS:
            return self
        if self.names is None and not self.opening_limits.signed_by:
            message = (
                "players may only open boards whose names the policy knows to be real: give `names`, a list "
                "or a pattern, or `opening.signed_by`, the keys under which you sign them"
            )
            raise SettingRefused(message, "opened_by")
        if not self.takes_runs:
            message = "a player's first run opens a board, and here only game servers write"
            raise SettingRefused(message, "opened_by")
        if self.schedule is not None:
            message = "a schedule opens its boards at their time, and a player's run could come before it"
            raise SettingRefused(message, "opened_by")
        return self

    @property
    def opening_limits(self) -> Opening:
        """Return the limits of the boards that players open."""
        return self.opening or Opening()

    @property
    def is_opened_by_servers(self) -> bool:
        """Return whether a registered server may open boards."""
        return self.opened_by is not OpenedBy.PLAYERS

    @property
    def is_opened_by_players(self) -> bool:
        """Return whether the first run of a player opens a board."""
        return self.opened_by is not OpenedBy.SERVERS

    @property
    def has_guessable_names(self) -> bool:
        """Return whether players may open boards under names that they make up."""
        is_pattern = isinstance(self.names, str)
        return self.is_opened_by_players and is_pattern and not self.opening_limits.signed_by

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
