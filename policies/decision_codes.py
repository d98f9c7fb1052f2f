"""The reasons that moderators choose from: a closed list for each kind of decision."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

OTHER: Final = "other"
"""The code of a decision whose note gives the reason."""

QUESTION: Final = "question"
"""The code of a hold whose message asks the player something."""


class DecisionKind(StrEnum):
    """What a moderator does with a case."""

    APPROVE = "approve"
    REJECT = "reject"
    HOLD = "hold"
    REVOKE = "revoke"
    REINSTATE = "reinstate"
    UNDO = "undo"


class DecisionCode(NamedTuple):
    """A reason for a decision. `is_cheat` is what it says of the run, None if nothing."""

    meaning: str
    is_cheat: bool | None = None


_OTHER: Final = {OTHER: DecisionCode("Something else, which the note says.")}

_AGAINST: Final = {
    "tool-assisted": DecisionCode("A program made the inputs, or slowed or repeated them.", is_cheat=True),
    "modified-game": DecisionCode("The game was modified.", is_cheat=True),
    "impossible": DecisionCode("No play can give this result.", is_cheat=True),
    "not-own-play": DecisionCode("Somebody else played it.", is_cheat=True),
    "account-shared": DecisionCode("The account or the run was shared or bought.", is_cheat=True),
    "game-fault": DecisionCode("A fault of the game made the result, and the player did not cheat."),
    "on-request": DecisionCode("The player asked for it."),
    **_OTHER,
}
"""Reasons to keep a run off the board."""

_FOR: Final = {
    "plausible": DecisionCode("The play is what it claims to be.", is_cheat=False),
    "false-positive": DecisionCode("What was found was found wrongly.", is_cheat=False),
    "our-fault": DecisionCode("It was in doubt through a fault of ours alone.", is_cheat=False),
    "new-evidence": DecisionCode("Something new speaks for the run.", is_cheat=False),
    **_OTHER,
}
"""Reasons to let a run count."""

CODES: Final[Mapping[DecisionKind, Mapping[str, DecisionCode]]] = {
    DecisionKind.APPROVE: _FOR,
    DecisionKind.REJECT: _AGAINST,
    DecisionKind.HOLD: {
        QUESTION: DecisionCode("Only the player can say."),
        "second-look": DecisionCode("Somebody should look at it again."),
        "new-evidence": DecisionCode("Something new speaks against the run."),
        **_OTHER,
    },
    DecisionKind.REVOKE: _AGAINST,
    DecisionKind.REINSTATE: _FOR,
    DecisionKind.UNDO: {
        "mistake": DecisionCode("The decision was a slip."),
        "overruled": DecisionCode("A colleague sees it differently."),
        **_OTHER,
    },
}
"""The codes of each kind of decision."""
