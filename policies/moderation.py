"""The section of a policy for moderators: what they may say to players, and for which reasons they decide."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import Field, field_validator

from policies.decision_codes import CODES, DecisionCode, DecisionKind
from policies.errors import SettingRefused
from policies.fields import Name, PolicySection

TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "checked": "We have looked at your run, and it counts.",
        "not-accepted": "We have looked at your run and do not accept it on this board.",
        "tools": "We do not accept runs on this board that a program helped to play.",
        "game-fault": "A fault of the game changed your result, so it does not count. You did nothing wrong.",
        "our-mistake": "We were wrong about your run, and we are sorry. It counts again.",
        "video": "Do you have a video of this run? Please send us a link.",
        "how-played": "Please tell us how you played this run: with which device, and with which settings.",
    }
)
"""Messages to players that every board has, unless its policy has another text under the same name."""

_AGAINST, _FOR = (
    frozenset({DecisionKind.REJECT, DecisionKind.REVOKE}),
    frozenset({DecisionKind.APPROVE, DecisionKind.REINSTATE, DecisionKind.UNDO}),
)
_FITTING: Final[Mapping[str, frozenset[DecisionKind]]] = {
    "checked": _FOR,
    "not-accepted": _AGAINST,
    "tools": _AGAINST,
    "game-fault": _AGAINST,
    "our-mistake": _FOR,
    "video": frozenset({DecisionKind.HOLD}),
    "how-played": frozenset({DecisionKind.HOLD}),
}
"""The decisions that each of these messages fits; a studio's own may fit any."""

OWN_WORDS: Final = "own"
"""What a message is called that is no template: no template may have the name."""

MESSAGE_LENGTH: Final = 500
"""Most characters of a message to a player."""


TemplateText = Annotated[str, Field(min_length=1, max_length=MESSAGE_LENGTH)]


class StudioCode(PolicySection):
    """A reason of the studio's own for some kinds of decisions."""

    code: Name
    kinds: Annotated[
        tuple[Annotated[DecisionKind, Field(strict=False)], ...],
        Field(min_length=1, strict=False),
    ]
    meaning: Annotated[str, Field(min_length=1, max_length=200)]
    is_cheat: bool | None = None


class OwnBoard(StrEnum):
    """Whether moderators decide on boards on which they have scores of their own."""

    FORBID = "forbid"
    ALLOW = "allow"


class Moderation(PolicySection):
    """What moderators of the board go by.

    A promotion into the first `four_eyes_top` of a window needs two moderators; 0: never. A question holds
    its case back for `question_h` hours, and a decision can be appealed against for `appeal_days` days. The
    queue is late once a case is older than `target_s`; 0: never. The
    share `check_share` of what moderators decided comes again, to another one, as a check.
    """

    own_board: Annotated[OwnBoard, Field(strict=False)] = OwnBoard.FORBID
    four_eyes_top: Annotated[int, Field(ge=0, le=1000)] = 0
    question_h: Annotated[int, Field(ge=1, le=720)] = 72
    appeal_days: Annotated[int, Field(ge=0, le=365)] = 14
    target_s: Annotated[int, Field(ge=0, le=30 * 86_400)] = 0
    check_share: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    codes: Annotated[tuple[StudioCode, ...], Field(max_length=32, strict=False)] = ()
    templates: dict[Name, TemplateText] = Field(default={}, max_length=32)

    @field_validator("codes")
    @classmethod
    def _named_once(cls, codes: tuple[StudioCode, ...]) -> tuple[StudioCode, ...]:
        named = [(kind, each.code) for each in codes for kind in each.kinds]
        if len(set(named)) != len(named) or any(code in CODES[kind] for kind, code in named):
            raise SettingRefused("each code may be named once for a kind of decision, and not as one of ours")
        return codes

    @field_validator("templates")
    @classmethod
    def _named_otherwise(cls, templates: dict[str, str]) -> dict[str, str]:
        if OWN_WORDS in templates:
            raise SettingRefused(f"`{OWN_WORDS}` stands for a message in a moderator's own words")
        return templates

    def codes_of(self, kind: DecisionKind) -> dict[str, DecisionCode]:
        """Return the reasons for a kind of decision: those of every board, and the studio's own."""
        own = {
            each.code: DecisionCode(each.meaning, each.is_cheat) for each in self.codes if kind in each.kinds
        }
        return {**CODES[kind], **own}

    def message_of(self, message: str) -> str:
        """Return the text of a message to a player: that of a template, or what was written."""
        return self.all_templates.get(message, message)

    def template_of(self, message: str) -> str | None:
        """Return the name of the template that a message names or repeats, None if it is neither."""
        found = (name for name, text in self.all_templates.items() if message in (name, text))
        return next(found, None)

    def templates_of(self, kind: DecisionKind) -> dict[str, str]:
        """Return the text of each template that fits a kind of decision, by its name."""
        return {name: text for name, text in self.all_templates.items() if kind in _FITTING.get(name, {kind})}

    @property
    def all_templates(self) -> dict[str, str]:
        """Return the text of each template by its name."""
        return {**TEMPLATES, **self.templates}
