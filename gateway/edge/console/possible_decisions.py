"""The decisions that a case allows its moderator, as the page offers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.wire.outcomes import CaseFile
from policies.decision_codes import OTHER, DecisionKind
from policies.vocabulary import Reason, State

if TYPE_CHECKING:
    from policies.moderation import Moderation

_OF_STATE: Final = {
    State.HELD: (DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.HOLD),
    State.PROMOTED: (DecisionKind.REVOKE, DecisionKind.HOLD),
    State.REVOKED: (DecisionKind.REINSTATE,),
    State.REJECTED: (DecisionKind.HOLD,),
}

_ON_APPEAL: Final = (DecisionKind.APPROVE, DecisionKind.REJECT)

_APPEALS: Final = frozenset({Reason.APPEALED, Reason.APPEAL_GRANTED, Reason.APPEAL_DENIED})

_LOOKS: Final = {
    DecisionKind.APPROVE: ("Approve", "a", "good", "Message for the player"),
    DecisionKind.REJECT: ("Reject", "r", "bad", "Message for the player"),
    DecisionKind.HOLD: ("Hold", "h", "warn", "Question or message for the player"),
    DecisionKind.REVOKE: ("Revoke", "r", "bad", "Message for the player"),
    DecisionKind.REINSTATE: ("Reinstate", "a", "good", "Message for the player"),
    DecisionKind.UNDO: ("Undo the last decision", "u", "info", "Message for the player"),
}
"""Title, key, tone, and the label of the message."""

_MODERATOR: Final = "moderator:"


@dataclass(frozen=True, slots=True)
class OfferedCode:
    """A reason to choose, with its meaning; `is_other` says that the note gives it."""

    name: str
    text: str

    @property
    def is_other(self) -> bool:
        """Return whether the note has to give the reason."""
        return self.name == OTHER


@dataclass(frozen=True, slots=True)
class OfferedDecision:
    """A decision as the page offers it: its path's last part, its title, key and tone, and its reasons."""

    name: str
    title: str
    key: str
    tone: str
    message_label: str
    codes: tuple[OfferedCode, ...]


def possible_decisions(
    case: CaseFile, moderation: Moderation, moderator: Moderator
) -> tuple[OfferedDecision, ...]:
    """Return what this moderator may do with a case in its state."""
    board = case.submission.board
    if not moderator.may(Ability.DECIDE, board):
        return ()
    kinds = _ON_APPEAL if has_open_appeal(case) else _OF_STATE.get(State(case.submission.state), ())
    if last_decision_by(case) and may_undo(case, moderator):
        kinds = (*kinds, DecisionKind.UNDO)
    return tuple(_offered(kind, moderation) for kind in kinds)


def has_open_appeal(case: CaseFile) -> bool:
    """Return whether the player's appeal waits for an answer."""
    newest = next((event.reason for event in reversed(case.events) if event.reason in _APPEALS), "")
    return newest == Reason.APPEALED


def last_decision_by(case: CaseFile) -> str:
    """Return the moderator whose decision, which may be undone, is the newest event of a case; else ""."""
    newest = case.events[-1]
    is_decision = newest.actor.startswith(_MODERATOR) and newest.from_state != newest.to_state
    if newest.detail.get("decision") == DecisionKind.UNDO:
        return ""  # which cannot be undone
    return newest.actor.removeprefix(_MODERATOR) if is_decision else ""


def may_undo(case: CaseFile, moderator: Moderator) -> bool:
    """Return whether the newest decision is the moderator's own, or they may overrule colleagues."""
    return last_decision_by(case) == moderator.name or moderator.may(Ability.OVERRULE, case.submission.board)


def _offered(kind: DecisionKind, moderation: Moderation) -> OfferedDecision:
    title, key, tone, message_label = _LOOKS[kind]
    codes = tuple(OfferedCode(name, code.meaning) for name, code in moderation.codes_of(kind).items())
    return OfferedDecision(kind.value, title, key, tone, message_label, codes)
