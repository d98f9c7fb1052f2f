"""The decisions that a case allows, in the words and under the keys of its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.edge.wire.moderation_decisions import PossibleDecision
from gateway.edge.wire.outcomes import CaseFile
from policies.decision_codes import OTHER, QUESTION, DecisionKind
from policies.moderation import Moderation

_LOOKS: Final = {
    DecisionKind.APPROVE: ("Approve", "a", "good", "Message for the player"),
    DecisionKind.REJECT: ("Reject", "r", "bad", "Message for the player"),
    DecisionKind.HOLD: ("Hold", "h", "warn", "Question or message for the player"),
    DecisionKind.REVOKE: ("Revoke", "r", "bad", "Message for the player"),
    DecisionKind.REINSTATE: ("Reinstate", "a", "good", "Message for the player"),
    DecisionKind.UNDO: ("Undo the last decision", "u", "info", "Message for the player"),
}
"""Title, key, tone, and the label of the message."""


@dataclass(frozen=True, slots=True)
class OfferedDecision:
    """A decision as the page offers it: its path's last part, its title, key and tone, and its reasons.

    `codes` has the meaning of each reason, and `templates` the messages that fit it. `is_first` says that a
    colleague has to approve too.
    """

    name: str
    title: str
    key: str
    tone: str
    message_label: str
    codes: dict[str, str]
    templates: dict[str, str]
    is_first: bool

    def needs(self, code: str) -> str:
        """Return the field that a reason cannot do without, "" if there is none."""
        is_question = (self.name, code) == (DecisionKind.HOLD, QUESTION)
        return "message" if is_question else "note" if code == OTHER else ""


def offered_decisions(case: CaseFile, moderation: Moderation) -> tuple[OfferedDecision, ...]:
    """Return what a case allows its reader, as the page offers it."""
    return tuple(_offered(each, case.codes[each.decision], moderation) for each in case.decisions)


def _offered(possible: PossibleDecision, meanings: dict[str, str], moderation: Moderation) -> OfferedDecision:
    kind = DecisionKind(possible.decision)
    codes = {code: meanings[code] for code in possible.codes}
    is_first = possible.missing is not None
    templates = moderation.templates_of(kind)
    return OfferedDecision(possible.decision, *_LOOKS[kind], codes, templates, is_first)
