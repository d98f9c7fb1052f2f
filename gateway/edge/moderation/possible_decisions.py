"""The decisions that a case allows its moderator: what each would make of it, and why it would be refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.context import Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_decisions import PossibleDecision
from gateway.ledger.reads import ReadKind
from gateway.settlement.case_decisions import SECOND_APPROVAL, CaseRequest, permitted_decisions
from gateway.settlement.case_history import CaseHistory, first_approval, has_open_appeal, without_bans
from gateway.settlement.decision_records import Decision
from gateway.settlement.held_cases import MODERATOR
from gateway.settlement.known_answers import permitted_answers
from gateway.settlement.undoing import inverse_of
from policies.decision_codes import QUESTION, DecisionKind
from policies.errors import CaseClaimed, NotTheirs, SeniorNeeded, StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State

HOUR_MS: Final = 3_600_000

_MOVES: Final[Mapping[DecisionKind, Mapping[State, tuple[State, Reason]]]] = {
    DecisionKind.APPROVE: {State.HELD: (State.PROMOTED, Reason.APPROVED)},
    DecisionKind.REJECT: {State.HELD: (State.REJECTED, Reason.REJECTED_BY_MODERATOR)},
    DecisionKind.HOLD: {
        State.HELD: (State.HELD, Reason.QUESTION_ASKED),
        State.PROMOTED: (State.HELD, Reason.HELD_BY_MODERATOR),
        State.REJECTED: (State.HELD, Reason.HELD_BY_MODERATOR),
    },
    DecisionKind.REVOKE: {State.PROMOTED: (State.REVOKED, Reason.REVOKED_BY_MODERATOR)},
    DecisionKind.REINSTATE: {State.REVOKED: (State.PROMOTED, Reason.REINSTATED)},
    DecisionKind.UNDO: {},
}
"""What each kind of decision makes of a submission in a state, but for undoing: that goes back."""

_ON_APPEALS: Final[Mapping[DecisionKind, tuple[Reason, State | None]]] = {
    DecisionKind.APPROVE: (Reason.APPEAL_GRANTED, State.PROMOTED),
    DecisionKind.REJECT: (Reason.APPEAL_DENIED, None),
}
"""What becomes of an appealed submission: it counts, or stays as it is."""


class Decider(NamedTuple):
    """A moderator who decides on a submission of a board, with all its events, at a time.

    Of a check, the events are those that it shows.
    """

    moderator: Moderator
    board: Board
    submission_id: str
    history: CaseHistory
    now_ms: int
    is_check: bool = False

    @property
    def may_overrule(self) -> bool:
        """Return whether the moderator may overrule colleagues on the board."""
        return self.moderator.may(Ability.OVERRULE, self.board.name)

    def request(self, decision: Decision) -> CaseRequest:
        """Return a decision as settlement takes it."""
        return CaseRequest(decision, self.moderator.players | {self.moderator.name}, self.may_overrule)


def refusal(conflict: StateConflict) -> Problem:
    """Return the refusal of a decision for its conflict."""
    kinds = {
        NotTheirs: ProblemType.SELF_APPROVAL,
        SeniorNeeded: ProblemType.SCOPE_FORBIDDEN,
        CaseClaimed: ProblemType.CASE_CLAIMED,
    }
    return Problem(kinds.get(type(conflict), ProblemType.STATE_CONFLICT), str(conflict))


def decision_on(by: Decider, kind: DecisionKind, detail: Mapping[str, Any]) -> Decision:
    """Return a decision for settlement. Raises `state-conflict` and `scope-forbidden`."""
    actor, newest = f"{MODERATOR}{by.moderator.name}", without_bans(by.history)[-1]
    if kind is DecisionKind.UNDO:
        inverse = inverse_of(by.submission_id, by.history, actor=actor, at_ms=by.now_ms, detail=detail)
        if isinstance(inverse, StateConflict):
            raise refusal(inverse)
        if newest["actor"] != actor and not by.may_overrule:
            raise refusal(SeniorNeeded("this is a colleague's decision; a senior may undo it"))
        return inverse
    state = State(newest["to"])
    to_state, reason = _MOVES[kind].get(state, (None, None))
    if kind in _ON_APPEALS and has_open_appeal(by.history):
        reason, goes_on = _ON_APPEALS[kind]
        to_state = goes_on or state
    elif kind is DecisionKind.REJECT and state is State.REVOKED and first_approval(by.history):
        to_state, reason = state, Reason.APPROVAL_DECLINED
    if to_state is None or reason is None:
        wanted = " or ".join(each.value for each in _MOVES[kind])
        raise Problem(ProblemType.STATE_CONFLICT, f"the submission is {state.value}, not {wanted}")
    if reason is Reason.QUESTION_ASKED and detail["code"] != QUESTION:
        raise Problem(
            ProblemType.STATE_CONFLICT, f"the submission is held already; send the code `{QUESTION}`"
        )
    if kind is DecisionKind.HOLD and detail["code"] == QUESTION:
        detail = {**detail, "answer_by_ms": by.now_ms + by.board.policy.moderation.question_h * HOUR_MS}
    return Decision(
        by.submission_id,
        to_state,
        actor,
        reason,
        by.now_ms,
        frozenset({state}),
        detail=detail,
        newest_event=newest["seq"],
    )


class PossibleDecisions(NamedTuple):
    """The decisions that would be made if they were sent now; without any, what refuses them to this one."""

    decisions: list[PossibleDecision]
    refusal: str | None


async def possible_decisions(edge: Edge, by: Decider) -> PossibleDecisions:
    """Return what a moderator may do with a case as it is: by the functions that decide, without deciding."""
    if not by.moderator.may(Ability.DECIDE, by.board.name):
        return PossibleDecisions([], "your role on the board is to read")
    conceivable = list(_conceivable(by))
    requests = [by.request(decision) for _, _, decision in conceivable]
    asking = permitted_answers if by.is_check else permitted_decisions
    permitted = await edge.ledger.read(asking(by.board, requests), ReadKind.MODERATION)
    possible, refusals = list[PossibleDecision](), list[str]()
    for (kind, codes, _), outcome in zip(conceivable, permitted, strict=True):
        if isinstance(outcome, StateConflict):
            refusals.append(str(outcome))
        else:
            missing = SECOND_APPROVAL if outcome.reason is Reason.APPROVED_ONCE else None
            possible.append(PossibleDecision(decision=kind.value, codes=codes, missing=missing))
    return PossibleDecisions(possible, None if possible or not refusals else refusals[0])


def _conceivable(by: Decider) -> Iterator[tuple[DecisionKind, list[str], Decision]]:
    """Yield each kind of decision that the state allows, with its codes, and as it is with the first one."""
    for kind in DecisionKind:
        found: dict[str, Decision] = {}
        for code in by.board.policy.moderation.codes_of(kind):
            try:
                found[code] = decision_on(by, kind, {"decision": kind.value, "code": code})
            except Problem:
                continue
        if found:
            yield kind, list(found), next(iter(found.values()))
