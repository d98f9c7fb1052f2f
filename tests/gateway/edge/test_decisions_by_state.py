"""What each kind of decision makes of a submission in each state, as a moderator's hand writes it, without an edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.edge.auth.moderators import Moderator, ModeratorRole
from gateway.edge.moderation.possible_decisions import Decider, decision_on, refusal
from gateway.edge.problems import Problem, ProblemType
from gateway.settlement.settle import Decision
from policies.decision_codes import DecisionKind
from policies.errors import CaseClaimed, CaseOvertaken, NotTheirs, SeniorNeeded, StateConflict
from policies.vocabulary import Reason, State
from tests.support.archives import a_board

BOARD = a_board(moderation={"question_h": 5})
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
NOW_MS = 50 * DAY_MS
DETAIL = {"code": "other", "note": "seen"}
SENIOR, SMALLER = ModeratorRole.SENIOR, ModeratorRole.MODERATOR

Event = tuple[str, Reason, State, dict[str, Any]]


def judged(*events: Event, at_ms: int = NOW_MS - DAY_MS) -> list[dict[str, Any]]:
    """The events of a submission, numbered from 10 on, each from the state before it."""
    states = [State.RECEIVED, *(to_state for _, _, to_state, _ in events)]
    return [
        {
            "seq": 10 + number,
            "actor": actor,
            "reason": reason,
            "from": states[number].value,
            "to": to_state.value,
            "at_ms": at_ms,
            "detail": detail,
        }
        for number, (actor, reason, to_state, detail) in enumerate(events)
    ]


def by(history: list[dict[str, Any]], *, name: str = "jo", role: ModeratorRole = SMALLER) -> Decider:
    return Decider(Moderator(name, {"tiny": role}, frozenset({"p9"})), BOARD, "run", history, NOW_MS)


def made(kind: DecisionKind, decider: Decider, detail: Mapping[str, Any] = DETAIL) -> Any:
    """What a decision comes to, or the slug and the detail of its refusal."""
    try:
        return decision_on(decider, kind, detail)
    except Problem as problem:
        return problem.kind.slug, problem.detail


RECEIVED: Event = ("edge", Reason.ACCEPTED, State.PENDING, {})
HELD: Event = ("replay", Reason.ANOMALY_PLAYER, State.HELD, {})
PROMOTED: Event = ("moderator:jo", Reason.APPROVED, State.PROMOTED, {})
REJECTED: Event = ("moderator:jo", Reason.REJECTED_BY_MODERATOR, State.REJECTED, {})
REVOKED: Event = ("moderator:jo", Reason.REVOKED_BY_MODERATOR, State.REVOKED, {})
SUPERSEDED: Event = ("budget", Reason.NOT_VERIFIED, State.SUPERSEDED, {})
APPROVED_ONCE: Event = ("moderator:sam", Reason.APPROVED_ONCE, State.REVOKED, {})
APPEALED_REJECTION: Event = ("ada", Reason.APPEALED, State.REJECTED, {})
APPEALED_REVOCATION: Event = ("ada", Reason.APPEALED, State.REVOKED, {})

STANDING: dict[str, tuple[Event, ...]] = {
    "pending": (RECEIVED,),
    "held": (RECEIVED, HELD),
    "promoted": (RECEIVED, HELD, PROMOTED),
    "rejected": (RECEIVED, HELD, REJECTED),
    "revoked": (RECEIVED, HELD, PROMOTED, REVOKED),
    "superseded": (RECEIVED, SUPERSEDED),
    "rejected, and appealed": (RECEIVED, HELD, REJECTED, APPEALED_REJECTION),
    "revoked, and appealed": (RECEIVED, HELD, PROMOTED, REVOKED, APPEALED_REVOCATION),
    "held, approved once": (RECEIVED, HELD, ("moderator:sam", Reason.APPROVED_ONCE, State.HELD, {})),
    "revoked, approved once": (RECEIVED, HELD, PROMOTED, REVOKED, APPROVED_ONCE),
}
MADE: dict[str, dict[str, tuple[State, Reason]]] = {
    "pending": {},
    "held": {
        "approve": (State.PROMOTED, Reason.APPROVED),
        "reject": (State.REJECTED, Reason.REJECTED_BY_MODERATOR),
    },
    "promoted": {
        "hold": (State.HELD, Reason.HELD_BY_MODERATOR),
        "revoke": (State.REVOKED, Reason.REVOKED_BY_MODERATOR),
    },
    "rejected": {"hold": (State.HELD, Reason.HELD_BY_MODERATOR)},
    "revoked": {"reinstate": (State.PROMOTED, Reason.REINSTATED)},
    "superseded": {},
    "rejected, and appealed": {
        "approve": (State.PROMOTED, Reason.APPEAL_GRANTED),
        "reject": (State.REJECTED, Reason.APPEAL_DENIED),
        "hold": (State.HELD, Reason.HELD_BY_MODERATOR),
    },
    "revoked, and appealed": {
        "approve": (State.PROMOTED, Reason.APPEAL_GRANTED),
        "reject": (State.REVOKED, Reason.APPEAL_DENIED),
        "reinstate": (State.PROMOTED, Reason.REINSTATED),
    },
    "held, approved once": {
        "approve": (State.PROMOTED, Reason.APPROVED),
        "reject": (State.REJECTED, Reason.REJECTED_BY_MODERATOR),
    },
    "revoked, approved once": {
        "reject": (State.REVOKED, Reason.APPROVAL_DECLINED),
        "reinstate": (State.PROMOTED, Reason.REINSTATED),
    },
}
WANTED = {
    "approve": "held",
    "reject": "held",
    "hold": "held or promoted or rejected",
    "revoke": "promoted",
    "reinstate": "revoked",
}


@pytest.mark.parametrize("standing", STANDING)
@pytest.mark.parametrize("kind", WANTED)
def test_a_decision_is_what_its_kind_makes_of_the_state(kind: str, standing: str):
    """Whole decisions by a table of states and kinds: each names the event that it rests on; all others are refused."""
    history = judged(*STANDING[standing])
    state, newest = history[-1]["to"], history[-1]["seq"]
    expected: Any = ("state-conflict", f"the submission is {state}, not {WANTED[kind]}")
    if (kind, state) == ("hold", "held"):
        expected = ("state-conflict", "the submission is held already; send the code `question`")
    if move := MADE[standing].get(kind):
        expected = Decision(
            "run", move[0], "moderator:jo", move[1], NOW_MS, frozenset({State(state)}),
            detail=DETAIL, newest_event=newest,
        )  # fmt: skip
    assert expected == made(DecisionKind(kind), by(history))


@pytest.mark.parametrize(
    ("standing", "reason"), [("held", Reason.QUESTION_ASKED), ("promoted", Reason.HELD_BY_MODERATOR)]
)
def test_a_question_is_to_be_answered_within_the_hours_of_the_policy(standing: str, reason: Reason):
    """Whoever asks holds the submission until then; no other code gives its player a time."""
    question = {"code": "question", "note": "how?"}
    decision = made(DecisionKind.HOLD, by(judged(*STANDING[standing])), question)
    assert (State.HELD, reason) == (decision.to_state, decision.reason)
    assert question | {"answer_by_ms": NOW_MS + 5 * HOUR_MS} == decision.detail
    refused = made(DecisionKind.REJECT, by(judged(*STANDING["held"])), question)
    assert question == refused.detail


def test_an_appeal_that_was_decided_is_none():
    """After a denial, and while somebody has held the submission since, approving is the usual decision or none."""
    denied = (*STANDING["revoked, and appealed"], ("moderator:sam", Reason.APPEAL_DENIED, State.REVOKED, {}))
    assert "state-conflict" == made(DecisionKind.APPROVE, by(judged(*denied)))[0]
    held = (*STANDING["rejected, and appealed"], ("moderator:sam", Reason.HELD_BY_MODERATOR, State.HELD, {}))
    decision = made(DecisionKind.APPROVE, by(judged(*held)))
    assert (State.PROMOTED, Reason.APPROVED) == (decision.to_state, decision.reason)


def test_a_ban_hides_no_decision():
    """Under a ban a submission stands for its moderators as it would without; the decision rests on its own events."""
    banned = (*STANDING["promoted"], ("ban", Reason.BANNED, State.REVOKED, {"was": "approved"}))
    decision = made(DecisionKind.REVOKE, by(judged(*banned)))
    assert (State.REVOKED, 12, frozenset({State.PROMOTED})) == (
        decision.to_state,
        decision.newest_event,
        decision.from_states,
    )


@pytest.mark.parametrize(
    ("name", "role", "is_made"),
    [("jo", SMALLER, True), ("sam", SMALLER, False), ("sam", SENIOR, True), ("jo", SENIOR, True)],
)
@pytest.mark.parametrize(
    ("standing", "back_to", "reason"),
    [
        ("promoted", State.HELD, Reason.ANOMALY_PLAYER),
        ("rejected", State.HELD, Reason.ANOMALY_PLAYER),
        ("revoked", State.PROMOTED, Reason.APPROVED),
    ],
)
def test_one_undoes_ones_own_decisions_and_seniors_undo_all(
    standing: str, back_to: State, reason: Reason, name: str, role: ModeratorRole, *, is_made: bool
):
    """A decision goes back to the state and the reason before it, and says which event it undoes."""
    history = judged(*STANDING[standing])
    newest = history[-1]
    expected: Any = Decision(
        "run", back_to, f"moderator:{name}", reason, NOW_MS, frozenset({State(newest["to"])}),
        detail=DETAIL | {"undoes": newest["seq"]}, newest_event=newest["seq"],
    )  # fmt: skip
    if not is_made:
        expected = ("scope-forbidden", "this is a colleague's decision; a senior may undo it")
    assert expected == made(DecisionKind.UNDO, by(history, name=name, role=role))


@pytest.mark.parametrize(("late_ms", "is_made"), [(-1, True), (0, True), (1, False)])
def test_an_undo_comes_within_thirty_days(late_ms: int, *, is_made: bool):
    """To the millisecond."""
    history = judged(*STANDING["promoted"], at_ms=NOW_MS - 30 * DAY_MS - late_ms)
    outcome = made(DecisionKind.UNDO, by(history))
    assert is_made or outcome == ("state-conflict", "the decision is older than 30 days")
    assert is_made == isinstance(outcome, Decision)


@pytest.mark.parametrize("newest", [RECEIVED, HELD, SUPERSEDED, APPROVED_ONCE, APPEALED_REVOCATION])
def test_only_a_moderators_decision_is_undone(newest: Event):
    """What a replay, a budget or a player did, and what decides nothing, is not taken back, nor is an undo."""
    told = ("state-conflict", "the last thing that happened to it is no decision that can be undone")
    undo: Event = ("moderator:jo", Reason.APPROVED, State.PROMOTED, {"undoes": 12})
    for events in ((*STANDING["revoked"], newest), (*STANDING["revoked"], undo)):
        assert told == made(DecisionKind.UNDO, by(judged(*events), role=SENIOR))


@pytest.mark.parametrize(
    ("conflict", "kind"),
    [
        (NotTheirs, ProblemType.SELF_APPROVAL),
        (SeniorNeeded, ProblemType.SCOPE_FORBIDDEN),
        (CaseClaimed, ProblemType.CASE_CLAIMED),
        (CaseOvertaken, ProblemType.STATE_CONFLICT),
        (StateConflict, ProblemType.STATE_CONFLICT),
    ],
)
def test_each_conflict_has_its_problem(conflict: type[StateConflict], kind: ProblemType):
    """With what the conflict says."""
    refused = refusal(conflict("why not"))
    assert (kind, "why not") == (refused.kind, refused.detail)


@pytest.mark.parametrize(("role", "may_overrule"), [(SMALLER, False), (SENIOR, True)])
def test_settlement_is_told_who_asks(role: ModeratorRole, *, may_overrule: bool):
    """On whose submissions the moderator never decides, their own name among them, and whether they are a senior."""
    decider = by(judged(*STANDING["held"]), role=role)
    asked = decider.request(decision := made(DecisionKind.APPROVE, decider))
    assert (decision, {"jo", "p9"}, may_overrule) == (asked.decision, asked.own_players, asked.may_overrule)
