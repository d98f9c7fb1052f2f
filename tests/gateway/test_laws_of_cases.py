"""What the events of a submission say of its case, row by row, and what a decision makes of a case."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.ledger.moderation.cases import CaseKind, StoredCase
from gateway.settlement import case_history as of
from gateway.settlement.held_cases import (
    _after_remark,
    _case_due,
    _follows_history,
    claim_conflict,
    keep_cases,
)
from policies.errors import CaseClaimed
from policies.vocabulary import Expected, Finding, Reason, State

DAY_MS = 86_400_000
MAX, MIA = "moderator:max", "moderator:mia"
Event = dict[str, Any]


def told(*rows: tuple[str, str, Reason] | tuple[str, str, Reason, dict[str, Any]]) -> list[Event]:
    """Events by actor, new state, reason and detail: the n-th has number n, and happened at n seconds."""
    events: list[Event] = []
    state = "pending"
    for seq, (actor, to, reason, *detail) in enumerate(rows, start=1):
        events.append(
            {
                "seq": seq,
                "at_ms": seq * 1000,
                "actor": actor,
                "from": state,
                "to": to,
                "reason": reason.value,
                "detail": detail[0] if detail else {},
            }
        )
        state = to
    return events


HELD = ("replay", "held", Reason.SCORE_MISMATCH)
REJECTED = (MAX, "rejected", Reason.REJECTED_BY_MODERATOR, {"message": "no"})
APPEALED = ("player:ada", "rejected", Reason.APPEALED)
DENIED = (MIA, "rejected", Reason.APPEAL_DENIED, {"message": "still no"})
ASKED = (MIA, "held", Reason.QUESTION_ASKED, {"message": "how?", "answer_by_ms": 90_000})
ANSWERED = ("player:ada", "held", Reason.QUESTION_ANSWERED)
HELD_ON_APPEAL = (MIA, "held", Reason.HELD_BY_MODERATOR, {"message": "wait", "answer_by_ms": 80_000})
APPROVED_ONCE = (MIA, "rejected", Reason.APPROVED_ONCE)
DECLINED = (MAX, "rejected", Reason.APPROVAL_DECLINED)
PROMOTED = (MAX, "promoted", Reason.APPROVED)
BANNED = (of.ACTOR, "revoked", Reason.BANNED, {"was": "approved"})
UNBANNED = (of.ACTOR, "promoted", Reason.REINSTATED)
UNDONE = (MAX, "held", Reason.SCORE_MISMATCH, {"undoes": 2})


@pytest.mark.parametrize(
    ("events", "stands", "against", "approval", "question", "is_open_appeal"),
    [
        ([HELD], 1, None, None, None, False),
        ([HELD, REJECTED], 2, None, None, None, False),
        ([HELD, REJECTED, APPEALED], 2, 2, None, None, True),
        ([HELD, REJECTED, APPEALED, DENIED], 2, None, None, None, False),
        ([HELD, REJECTED, APPEALED, HELD_ON_APPEAL], 4, 2, None, 4, False),
        ([HELD, REJECTED, APPEALED, HELD_ON_APPEAL, ANSWERED], 4, 2, None, None, False),
        ([HELD, REJECTED, APPEALED, HELD_ON_APPEAL, ANSWERED, ASKED], 4, 2, None, 6, False),
        ([HELD, REJECTED, APPEALED, PROMOTED], 4, None, None, None, False),
        ([HELD, ASKED], 1, None, None, 2, False),
        ([HELD, ASKED, ANSWERED], 1, None, None, None, False),
        ([HELD, ASKED, ANSWERED, ASKED], 1, None, None, 4, False),
        ([HELD, REJECTED, APPROVED_ONCE], 2, None, 3, None, False),
        ([HELD, REJECTED, APPROVED_ONCE, DECLINED], 2, None, None, None, False),
        ([HELD, REJECTED, APPROVED_ONCE, DENIED], 2, None, None, None, False),
        ([HELD, REJECTED, DECLINED, APPROVED_ONCE], 2, None, 4, None, False),
        ([HELD, REJECTED, APPROVED_ONCE, APPEALED], 2, 2, 3, None, True),
        ([HELD, REJECTED, UNDONE], 1, None, None, None, False),
        ([HELD, PROMOTED, BANNED, UNBANNED], 2, None, None, None, False),
        ([HELD, PROMOTED, BANNED], 2, None, None, None, False),
    ],
)
def test_events_say_how_a_submission_stands_and_what_is_open(
    events: list[Any],
    stands: int,
    against: int | None,
    approval: int | None,
    question: int | None,
    is_open_appeal: bool,
):
    """Which event it stands by, which an appeal is against, which approval waits, and which question."""
    history = told(*events)
    found = (of.appealed_decision(history), of.first_approval(history), of.open_question(history))
    assert [stands, against, approval, question] == [
        each and each["seq"] for each in (of.standing_event(history), *found)
    ]
    assert is_open_appeal is of.has_open_appeal(history)
    newest = [each["seq"] for each in of.remarks(history)]
    assert sorted(newest, reverse=True) == newest
    assert all(seq > stands for seq in newest)


@pytest.mark.parametrize(
    ("events", "appeal", "answer", "denial"),
    [
        ([HELD, REJECTED], None, None, None),
        ([HELD, REJECTED, APPEALED], 3, None, None),
        ([HELD, REJECTED, APPEALED, DENIED], 3, None, 4),
        ([HELD, REJECTED, APPEALED, HELD_ON_APPEAL], None, None, None),
        ([HELD, ASKED, ANSWERED, ASKED, ANSWERED], None, 5, None),
        ([HELD, ASKED, ANSWERED, PROMOTED], None, None, None),
    ],
)
def test_the_newest_of_each_remark_is_since_the_submission_stands_so(
    events: list[Any], appeal: int | None, answer: int | None, denial: int | None
):
    """An appeal, an answer and a denial of before the last decision are over."""
    history = told(*events)
    found = of.newest_appeal(history), of.newest_answer(history), of.denial_of_appeal(history)
    assert [appeal, answer, denial] == [each and each["seq"] for each in found]


@pytest.mark.parametrize(
    ("events", "since_s", "reason", "message"),
    [
        ([HELD], 1, Reason.SCORE_MISMATCH, None),
        ([HELD, REJECTED], 2, Reason.REJECTED_BY_MODERATOR, "no"),
        ([HELD, REJECTED, APPEALED], 3, Reason.REJECTED_BY_MODERATOR, "no"),
        ([HELD, REJECTED, APPEALED, DENIED], 3, Reason.REJECTED_BY_MODERATOR, "still no"),
        ([HELD, REJECTED, APPEALED, HELD_ON_APPEAL], 4, Reason.HELD_BY_MODERATOR, None),
        ([HELD, ASKED], 1, Reason.SCORE_MISMATCH, None),
        ([HELD, REJECTED, UNDONE], 3, Reason.SCORE_MISMATCH, None),
        (
            [HELD, REJECTED, (*UNDONE[:3], {"undoes": 2, "message": "sorry"})],
            3,
            Reason.SCORE_MISMATCH,
            "sorry",
        ),
        (
            [(MAX, "held", Reason.HELD_BY_MODERATOR, {"message": "wait"}), REJECTED, UNDONE],
            3,
            Reason.SCORE_MISMATCH,
            "wait",
        ),
        ([HELD, PROMOTED, BANNED], 2, Reason.APPROVED, None),
        ([HELD, PROMOTED, BANNED, UNBANNED], 2, Reason.APPROVED, None),
        ([HELD, (*PROMOTED, {"message": 5})], 2, Reason.APPROVED, None),
        ([HELD, ("replay", "revoked", Reason.BANNED, {"was": "verified"})], 2, Reason.VERIFIED, None),
        ([HELD, ("replay", "revoked", Reason.BANNED)], 2, Reason.REINSTATED, None),
    ],
)
def test_events_say_since_when_why_and_what_a_player_was_told(
    events: list[Any], since_s: int, reason: Reason, message: str | None
):
    """As if nobody had been banned; a question is no message, nor is anything told under a ban."""
    history = told(*events)
    assert (since_s * 1000, reason, message) == (
        of.waits_since_ms(history),
        of.reason_without_bans(history),
        of.message_to_player(history),
    )


def test_events_without_bans_have_the_states_that_there_would_have_been():
    """Those of a ban are left out, but for a record that could not be read; promoted under one is promoted."""
    unread = (of.ACTOR, "held", Reason.RECORD_UNREADABLE)
    under = (MAX, "revoked", Reason.BANNED, {"was": "approved"})
    history = told(HELD, BANNED, under, unread, UNBANNED, REJECTED)
    assert [
        (1, "pending", "held", Reason.SCORE_MISMATCH),
        (3, "held", "promoted", Reason.APPROVED),
        (4, "promoted", "held", Reason.RECORD_UNREADABLE),
        (6, "held", "rejected", Reason.REJECTED_BY_MODERATOR),
    ] == [tuple(each[name] for name in ("seq", "from", "to", "reason")) for each in of.without_bans(history)]
    [first, *_] = of.without_bans(told(BANNED, HELD)[1:])
    assert "revoked" == first["from"]


@pytest.mark.parametrize(
    ("event", "days", "until_ms"),
    [
        (REJECTED, 3, 2000 + 3 * DAY_MS),
        (REJECTED, 0, None),
        ((MAX, "revoked", Reason.REVOKED_BY_MODERATOR), 1, 2000 + DAY_MS),
        ((MAX, "held", Reason.HELD_BY_MODERATOR), 1, None),
        ((MAX, "promoted", Reason.APPROVED), 1, None),
        ((MAX, "revoked", Reason.CORRECTED), 1, None),
        (("server:s1", "rejected", Reason.REJECTED_BY_MODERATOR), 1, 2000 + DAY_MS),
        (("replay", "rejected", Reason.SCORE_MISMATCH), 1, 2000 + DAY_MS),
        (("edge", "rejected", Reason.SCORE_MISMATCH), 1, 2000 + DAY_MS),
        (("budget", "rejected", Reason.SCORE_MISMATCH), 1, 2000 + DAY_MS),
        (("operator", "rejected", Reason.REJECTED_BY_MODERATOR), 1, None),
        (("steward", "rejected", Reason.REJECTED_BY_MODERATOR), 1, None),
    ],
)
def test_an_appeal_is_against_what_a_judge_of_the_run_ended(event: Any, days: int, until_ms: int | None):
    """For so many days of 24 hours since then, and not where a board has none."""
    assert until_ms == of.appeal_until_ms(told(HELD, event), days)


def test_the_findings_are_those_of_the_newest_replay():
    """Not those of anybody else; a run that was not replayed has none."""
    old, new = (
        Finding(reason, 2, Expected(at_most=1, unit="u"), 3).as_dict()
        for reason in (Reason.RECORDING_REUSED, Reason.INPUTS_DENSE)
    )
    rows = [("replay", "held", Reason.SCORE_MISMATCH, {"findings": [each]}) for each in (old, new)]
    edge = ("edge", "held", Reason.SCORE_MISMATCH, {"findings": [old]})
    assert [Reason.INPUTS_DENSE] == [each.reason for each in of.found_by_replay(told(*rows, edge))]
    assert () == of.found_by_replay(told(edge)) == of.found_by_replay(told(HELD))


SUBMISSION: Any = SimpleNamespace(submission_id="s1", seq=9, board="b", player="ada", build="1.0")


def a_case(**changed: Any) -> StoredCase:
    case = StoredCase("s1", 9, "b", "b", "ada", "1.0", CaseKind.HELD, "score-mismatch", -1, 50_000, 50_000)
    return case._replace(**changed)


def case_of(*events: Any) -> StoredCase | None:
    return _case_due(SUBMISSION, told(*events), 50_000)


ON_APPEAL = {"needs_senior": 1, "not_for": "max"}


@pytest.mark.parametrize(
    ("events", "case"),
    [
        ([HELD], a_case()),
        ([HELD, ASKED], a_case(waits_until_ms=90_000)),
        ([HELD, ASKED, ANSWERED], a_case()),
        ([HELD, REJECTED], None),
        ([HELD, PROMOTED], None),
        ([HELD, REJECTED, APPEALED], a_case(kind=CaseKind.APPEAL, reason="appealed", **ON_APPEAL)),
        (
            [HELD, ("replay", "rejected", Reason.SCORE_MISMATCH), APPEALED],
            a_case(kind=CaseKind.APPEAL, reason="appealed", needs_senior=1),
        ),
        ([HELD, REJECTED, APPEALED, DENIED], None),
        (
            [HELD, REJECTED, APPEALED, HELD_ON_APPEAL],
            a_case(reason="held-by-moderator", waits_until_ms=80_000, **ON_APPEAL),
        ),
        (
            [HELD, REJECTED, APPROVED_ONCE],
            a_case(kind=CaseKind.APPROVAL, reason="approved-once", needs_senior=1, not_for="mia"),
        ),
        (
            [HELD, REJECTED, APPROVED_ONCE, APPEALED],
            a_case(kind=CaseKind.APPEAL, reason="appealed", needs_senior=1, not_for="max mia"),
        ),
    ],
)
def test_the_case_of_a_submission_follows_from_its_events(events: list[Any], case: StoredCase | None):
    """Its kind and reason, until when it waits for an answer, who may not have it, and that it needs a senior."""
    assert case == case_of(*events)


@pytest.mark.parametrize(
    ("reason", "claim"),
    [(Reason.QUESTION_ANSWERED, ("max", 70)), (Reason.QUESTION_ASKED, ("", 0)), (Reason.APPEALED, ("", 0))],
)
@pytest.mark.parametrize("seniors", [(0, 0), (1, 0), (0, 1)])
def test_a_remark_keeps_the_case_with_what_is_due(
    reason: Reason, claim: tuple[str, int], seniors: tuple[int, int]
):
    """Whoever is in it leaves, but for the answer they wait for; what needed a senior still does."""
    case = a_case(claimed_by="max", claimed_until_ms=70, cannot_tell=2, harm=7, needs_senior=seniors[0])
    due = a_case(waits_until_ms=80, not_for="mia", needs_senior=seniors[1], opened_at_ms=1, harm=1)
    kept = case._replace(
        claimed_by=claim[0],
        claimed_until_ms=claim[1],
        waits_until_ms=80,
        not_for="mia",
        needs_senior=max(seniors),
    )
    assert kept == _after_remark(case, due, SimpleNamespace(reason=reason))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("to_state", "reason", "detail", "follows"),
    [
        (State.HELD, Reason.SCORE_MISMATCH, {}, True),
        (State.REJECTED, Reason.APPEALED, {}, True),
        (State.PROMOTED, Reason.MERGED, {}, True),
        (State.PROMOTED, Reason.APPROVED, {"undoes": 3}, True),
        (State.PROMOTED, Reason.APPROVED, {"message": "x"}, False),
        (State.REJECTED, Reason.REJECTED_BY_MODERATOR, {}, False),
    ],
)
def test_only_what_holds_remarks_or_undoes_needs_the_events(
    to_state: State, reason: Reason, detail: dict[str, Any], follows: bool
):
    """Any other decision ends the case whatever came before."""
    decision: Any = SimpleNamespace(to_state=to_state, reason=reason, detail=detail)
    assert follows is _follows_history(decision)


@pytest.mark.parametrize(
    ("actor", "changed", "at_ms", "is_refused"),
    [
        (MIA, {}, 69, True),
        (MIA, {}, 70, False),
        (MIA, {"kind": CaseKind.APPEAL}, 69, True),
        (MIA, {"kind": CaseKind.CHECK}, 69, False),
        (MIA, {"claimed_by": ""}, 69, False),
        (MAX, {}, 69, False),
        ("max", {}, 69, False),
        ("replay", {}, 69, False),
        ("server:mia", {}, 69, False),
    ],
)
def test_a_moderator_does_not_decide_on_a_case_that_another_is_in(
    actor: str, changed: dict[str, Any], at_ms: int, is_refused: bool
):
    """Until the claim ends; others than moderators, and decisions on a check, go on."""
    case = a_case(claimed_by="max", claimed_until_ms=70)._replace(**changed)
    decision: Any = SimpleNamespace(actor=actor, at_ms=at_ms)
    conflict = claim_conflict(case, decision)
    assert is_refused is isinstance(conflict, CaseClaimed)
    assert ["`max` is in the case"] * is_refused == [str(each) for each in [conflict] if each]
    assert claim_conflict(None, decision) is None


def seqs(events: Sequence[Event]) -> list[int]:
    return [each["seq"] for each in events]


def test_what_was_undone_and_what_undid_it_are_as_if_they_had_not_been():
    """Remarks on what was undone stay; a decision that undoes another is no decision."""
    history = told(HELD, REJECTED, APPEALED, UNDONE, ASKED)
    assert [1, 3, 5] == seqs(of.as_it_stands(history))
    assert [5, 3] == seqs(of.remarks(history))


class Table:
    """What was done to the cases of a ledger, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, histories: dict[str, list[Event]]) -> None:
        self.done: list[Any] = []
        self.asked: list[str] = []

        async def load_histories(_tx: object, ids: Sequence[str]) -> dict[str, list[Event]]:
            self.asked += ids
            return {name: histories[name] for name in ids}

        def noted(name: str) -> Any:
            async def work(_tx: object, *given: Any, **named: Any) -> None:
                self.done.append((name, *given, *named.values()))

            return work

        def open_cases(opened: list[StoredCase]) -> Any:
            return lambda tx: noted("open")(tx, list(opened))

        module = "gateway.settlement.held_cases"
        monkeypatch.setattr(f"{module}.queries.load_histories", load_histories)
        monkeypatch.setattr(f"{module}.open_cases", open_cases)
        monkeypatch.setattr(f"{module}.put_case", noted("put"))
        monkeypatch.setattr(f"{module}.end_case", noted("end"))
        monkeypatch.setattr(f"{module}.late_queues.go_on", noted("go on"))


def decided(before: State, to_state: State, reason: Reason, **detail: Any) -> Any:
    submission = SimpleNamespace(**vars(SUBMISSION), state=before)
    decision = SimpleNamespace(
        submission_id="s1", to_state=to_state, reason=reason, at_ms=50_000, detail=detail
    )
    return submission, decision


OPEN = a_case(claimed_by="max", claimed_until_ms=70)
WAITING = a_case(waits_until_ms=90_000)
AN_APPEAL = a_case(kind=CaseKind.APPEAL, reason="appealed", **ON_APPEAL)
BY_MODERATOR = Reason.HELD_BY_MODERATOR


@pytest.mark.parametrize(
    ("case", "row", "events", "done"),
    [
        (None, decided(State.PENDING, State.HELD, Reason.SCORE_MISMATCH), None, [("open", [a_case()])]),
        (None, decided(State.PENDING, State.PROMOTED, Reason.VERIFIED), None, []),
        (OPEN, decided(State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR), None, [("end", OPEN)]),
        (None, decided(State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR), None, []),
        (
            None,
            decided(State.REJECTED, State.HELD, BY_MODERATOR),
            [HELD, REJECTED, (MIA, "held", BY_MODERATOR)],
            [("open", [a_case(reason="held-by-moderator")])],
        ),
        (
            OPEN,
            decided(State.HELD, State.HELD, Reason.QUESTION_ASKED),
            [HELD, ASKED],
            [("put", WAITING)],
        ),
        (
            WAITING,
            decided(State.HELD, State.HELD, Reason.QUESTION_ANSWERED),
            [HELD, ASKED, ANSWERED],
            [("put", a_case()), ("go on", "s1", 90_000, 50_000)],
        ),
        (
            None,
            decided(State.REJECTED, State.REJECTED, Reason.APPEALED),
            [HELD, REJECTED, APPEALED],
            [("open", [AN_APPEAL])],
        ),
        (
            AN_APPEAL,
            decided(State.REJECTED, State.REJECTED, Reason.APPEAL_DENIED),
            [HELD, REJECTED, APPEALED, DENIED],
            [("end", AN_APPEAL)],
        ),
        (
            AN_APPEAL,
            decided(State.REJECTED, State.REJECTED, Reason.MERGED),
            [HELD, REJECTED, APPEALED, (MIA, "rejected", Reason.MERGED)],
            [("put", AN_APPEAL)],
        ),
        (
            a_case(kind=CaseKind.APPROVAL),
            decided(State.REJECTED, State.REJECTED, Reason.APPEALED),
            [HELD, REJECTED, APPEALED],
            [("end", a_case(kind=CaseKind.APPROVAL)), ("open", [AN_APPEAL])],
        ),
        (
            OPEN,
            decided(State.HELD, State.HELD, Reason.SCORE_MISMATCH),
            [HELD, HELD],
            [("end", OPEN), ("open", [a_case()])],
        ),
        (
            None,
            decided(State.REJECTED, State.HELD, Reason.SCORE_MISMATCH, undoes=2),
            [HELD, REJECTED, UNDONE],
            [("open", [a_case()])],
        ),
    ],
)
async def test_cases_follow_the_decision_of_the_same_transaction(
    monkeypatch: pytest.MonkeyPatch,
    case: StoredCase | None,
    row: Any,
    events: list[Any] | None,
    done: list[Any],
):
    """Opened, ended, kept by a remark of the same kind; whoever waited for an answer goes on once there is one."""
    table = Table(monkeypatch, {"s1": told(*events or ())})
    await keep_cases(None, {"s1": case} if case else {}, [row])  # type: ignore[arg-type]
    assert (done, [] if events is None else ["s1"]) == (table.done, table.asked)
