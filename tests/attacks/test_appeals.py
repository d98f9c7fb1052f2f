"""Fairness: who may decide on what, what players are asked and told, and their appeals."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from gateway.edge.auth.moderators import Moderator, ModeratorRole
from gateway.edge.moderation import decisions
from gateway.edge.moderation.decisions import DecisionAnswer, RequestedDecision, decide_case
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.submissions import appeals
from gateway.edge.wire.moderation_decisions import NewDecision
from gateway.ledger import queries
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.decision_codes import DecisionKind
from policies.loader import Policies
from policies.moderation import TEMPLATES, Moderation, OwnBoard
from policies.vocabulary import Reason, State
from tests.attacks.test_moderation import WHY, a_held_run, decide, decide_on, standing
from tests.support.attack import a_run, accept, honest
from tests.support.harness import Answer, Harness, Run

DAY_S = 86_400
QUESTION = {"code": "question", "message": "how-played"}


def govern(harness: Harness, board: str = "sprint", **moderation: Any) -> None:
    """The board with this section for moderators in its policy."""
    boards = dict(harness.edge.catalogue.of_files)
    section = {"moderation": Moderation(**moderation)}
    boards[board] = replace(boards[board], policy=boards[board].policy.model_copy(update=section))
    harness.edge.catalogue.policies = Policies(boards)


async def by(
    harness: Harness,
    run: Run,
    kind: str,
    name: str,
    role: ModeratorRole = ModeratorRole.SENIOR,
    *players: str,
) -> DecisionAnswer:
    """A decision of a moderator with this role and these players of their own, on the case as it is."""
    submission = await harness.edge.ledger.read(queries.submission(run.id))
    [*_, last] = await harness.edge.ledger.read(queries.history_of(run.id))
    assert submission is not None
    moderator = Moderator(name, {"*": role}, frozenset(players))
    board = harness.edge.catalogue.of_files["sprint"]
    asked = RequestedDecision(DecisionKind(kind), NewDecision(code="other", note="seen"), last["seq"])
    return await decide_case(harness.edge, board, submission, moderator, asked)


async def refused(kind: ProblemType, decision: Any) -> None:
    with pytest.raises(Problem) as problem:
        await decision
    assert kind is problem.value.kind


async def say(harness: Harness, run: Run, what: str, text: str, token: str | None = None) -> Answer:
    return await harness.post(f"/v1/submissions/{run.id}/{what}", {"text": text}, token or run.token)


async def told(harness: Harness, run: Run) -> Any:
    return (await harness.get(f"/v1/submissions/{run.id}", run.token)).body


async def test_M05_nobody_decides_for_a_player_of_their_own(harness: Harness):
    """Neither on the runs of an alt, whatever the policy allows, nor on a board where one of them has a score."""
    run, own = await a_held_run(harness), await a_held_run(harness)
    noor = ("noor", ModeratorRole.SENIOR, own.player)
    await refused(ProblemType.SELF_APPROVAL, by(harness, own, "approve", *noor))
    assert "held" == await harness.state_of(own.id)
    await by(harness, own, "approve", "mara")
    for kind in ("approve", "reject"):
        await refused(ProblemType.SELF_APPROVAL, by(harness, run, kind, *noor))
    assert "held" == await harness.state_of(run.id)
    govern(harness, own_board=OwnBoard.ALLOW)
    await refused(ProblemType.SELF_APPROVAL, by(harness, own, "revoke", *noor))
    assert "promoted" == (await by(harness, run, "approve", *noor)).decided.state


async def test_M05_what_enters_the_top_needs_two_moderators(harness: Harness):
    """The first approval is a remark, answered 202; its maker and a moderator without the role cannot make it two."""
    govern(harness, four_eyes_top=1)
    run, token = await a_held_run(harness), harness.moderator(name="mara")
    first = await decide(harness, run, "approve", token)
    assert (202, "held", "second-approval") == (first.status, first.body["state"], first.body["missing"])
    assert ("held", []) == (await harness.state_of(run.id), await standing(harness))
    await refused(ProblemType.SELF_APPROVAL, by(harness, run, "approve", "mara"))
    await refused(ProblemType.SCOPE_FORBIDDEN, by(harness, run, "approve", "noor", ModeratorRole.MODERATOR))
    second = await by(harness, run, "approve", "noor")
    assert ("promoted", None) == (second.decided.state, second.decided.missing)
    *_, once, twice = await harness.edge.ledger.read(queries.history_of(run.id))
    assert ("approved-once", "approved") == (once["reason"], twice["reason"])
    assert once["seq"] == twice["detail"]["first_approval"]

    behind = await a_held_run(harness)
    assert "promoted" == (await by(harness, behind, "approve", "mara")).decided.state
    assert "revoked" == (await by(harness, run, "revoke", "mara")).decided.state
    assert "revoked" == (await by(harness, run, "reinstate", "mara")).decided.state
    assert "promoted" == (await by(harness, run, "reinstate", "noor")).decided.state
    for kind, state in (("revoke", "revoked"), ("undo", "promoted")):  # what two had given comes back by one
        assert state == (await by(harness, run, kind, "mara")).decided.state


async def test_M05_a_first_approval_is_over_once_something_else_was_decided(harness: Harness):
    """It is answered again when it is sent again, and stands while others decide and undo; else two are needed anew."""
    govern(harness, four_eyes_top=10)
    run, token = await a_held_run(harness), harness.moderator(name="mara")
    path = f"/v1/moderation/cases/{run.id}/approve"
    seen = await harness.as_seen(path, token)
    body = {"code": "plausible"}
    first, again = [await decide_on(harness, path, token, body, **seen) for _ in range(2)]
    assert (202, 202, first.raw) == (first.status, again.status, again.raw)
    for kind in ("reject", "undo", "reject"):
        await by(harness, run, kind, "noor")
        if kind == "undo":
            await refused(ProblemType.SELF_APPROVAL, by(harness, run, "approve", "mara"))
    await by(harness, run, "hold", "noor")
    assert "second-approval" == (await by(harness, run, "approve", "noor")).decided.missing
    assert "held" == await harness.state_of(run.id)


async def test_what_is_sent_again_while_it_is_made_gets_the_same_answer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """A first approval after which the case needs a senior, an answer and an appeal; other words are refused."""
    govern(harness, four_eyes_top=1)
    run, mara = await a_held_run(harness), harness.moderator(name="mara")
    noor = harness.moderator(name="noor", role=ModeratorRole.MODERATOR)
    approval = f"/v1/moderation/cases/{run.id}/approve"
    seen = await harness.as_seen(approval, noor)

    async def sent_twice(
        module: str, name: str, send: Callable[[str], Awaitable[Answer]], *texts: str
    ) -> list[Answer]:
        """Both answers, of which the second request reads the case before the first has changed it."""
        settled, first = getattr(sys.modules[module], name), []

        async def meanwhile(*facts: Any) -> Any:
            monkeypatch.setattr(module + "." + name, settled)
            first.append(await send(texts[0]))
            return await settled(*facts)

        monkeypatch.setattr(module + "." + name, meanwhile)
        return [await send(texts[-1]), *first]

    def approve(code: str) -> Awaitable[Answer]:
        return decide_on(harness, approval, noor, {"code": code}, **seen)

    first, again = await sent_twice(decisions.__name__, "settle_case", approve, "plausible")
    assert (202, 202, first.raw) == (first.status, again.status, again.raw)
    for kind, body, what in (("hold", QUESTION, "answer"), ("reject", WHY, "appeal")):
        assert 200 == (await decide(harness, run, kind, mara, body)).status
        says = partial(say, harness, run, what)
        twice = await sent_twice(appeals.__name__, "settle", says, "It was me.")
        assert [200, 200] == [answer.status for answer in twice]
    other = await a_held_run(harness)
    await decide(harness, other, "reject", mara)
    two = await sent_twice(
        appeals.__name__, "settle", partial(say, harness, other, "appeal"), "It was me.", "Really."
    )
    assert [409, 200] == [answer.status for answer in two]


async def test_M05_a_first_approval_of_a_reinstatement_waits_in_the_queue_until_it_is_declined(
    harness: Harness,
):
    """A second senior finds it, may decline it, and is then needed anew."""
    govern(harness, four_eyes_top=1)
    run, token = await a_held_run(harness), harness.moderator()
    for kind, name in (("approve", "mara"), ("approve", "noor"), ("revoke", "mara")):
        await by(harness, run, kind, name)
    for _ in range(2):
        assert "second-approval" == (await by(harness, run, "reinstate", "mara")).decided.missing
        [case] = (await harness.get("/v1/moderation/queue", token)).body["cases"]
        assert (run.id, "second-approval", True) == (case["submission"], case["kind"], case["needs_senior"])
        assert "revoked" == (await by(harness, run, "reject", "noor")).decided.state
        assert [] == (await harness.get("/v1/moderation/queue", token)).body["cases"]


async def test_M10_an_appeal_is_not_for_its_decider_whatever_is_done_and_undone(harness: Harness):
    """Its player reads that it is open, while it is granted and that is undone, and while somebody holds it."""
    run = await a_held_run(harness)
    await by(harness, run, "reject", "mara")
    assert 200 == (await say(harness, run, "appeal", "It was me.")).status
    for kind in ("approve", "hold"):
        await by(harness, run, kind, "noor")
        await refused(ProblemType.SELF_APPROVAL, by(harness, run, "undo", "mara"))
        if kind == "hold":
            assert "open" == (await told(harness, run))["appeal"]["state"]
            await refused(ProblemType.SELF_APPROVAL, by(harness, run, "reject", "mara"))
        await by(harness, run, "undo", "noor")
        assert "open" == (await told(harness, run))["appeal"]["state"]
        await refused(ProblemType.SELF_APPROVAL, by(harness, run, "approve", "mara"))
    assert "rejected" == (await by(harness, run, "reject", "noor")).decided.state
    assert "denied" == (await told(harness, run))["appeal"]["state"]


async def test_a_player_is_asked_and_answers_once(harness: Harness):
    """The question, its words and its time are shown until it is answered; the moderators read the answer in the case."""
    run, token = await a_held_run(harness), harness.moderator()
    assert None is (await told(harness, run))["question"]
    assert 409 == (await say(harness, run, "answer", "Why?")).status
    asked = await decide(harness, run, "hold", token, QUESTION)
    assert 200 == asked.status
    question = (await told(harness, run))["question"]
    assert TEMPLATES["how-played"] == question["text"]
    stranger = await harness.new_player("Eve")
    for who, what, status in (
        (stranger, "With a pad.", 404),
        (harness.moderator(), "With a pad.", 403),
        (run.token, "", 422),
        (run.token, "x" * 1001, 422),
        (run.token, "With a pad.", 200),
        (run.token, "With a pad.", 200),
        (run.token, "With another.", 409),
    ):
        assert status == (await say(harness, run, "answer", what, who)).status
    status = await told(harness, run)
    assert ("held", "review", None, None) == (
        status["state"],
        status["reason"],
        status["question"],
        status["message"],
    )
    case = (await harness.get(f"/v1/moderation/cases/{run.id}", token)).body
    assert ("player", "With a pad.") == (case["events"][-1]["actor"], case["events"][-1]["detail"]["text"])
    assert 200 == (await decide(harness, run, "hold", token, QUESTION)).status
    assert 200 == (await say(harness, run, "answer", "\U0001f3ae" * 1000)).status


async def test_a_player_reads_the_message_of_a_decision_and_never_its_note(harness: Harness):
    """With the decision, and no more once it is undone."""
    run, token = await a_held_run(harness), harness.moderator()
    rejection = {"code": "tool-assisted", "note": "z-score of nine", "message": "tools"}
    assert 200 == (await decide(harness, run, "reject", token, rejection)).status
    shown = await harness.get(f"/v1/submissions/{run.id}", run.token)
    assert (TEMPLATES["tools"], "moderation") == (shown.body["message"], shown.body["reason"])
    assert [] == [secret for secret in (b"of nine", b"tool-assisted") if secret in shown.raw]
    assert 200 == (await decide(harness, run, "undo", token, {"code": "mistake"})).status
    assert None is (await told(harness, run))["message"]
    assert (
        200
        == (
            await decide(harness, run, "approve", token, {"code": "plausible", "message": "Well done."})
        ).status
    )
    assert "Well done." == (await told(harness, run))["message"]


@pytest.mark.parametrize(
    ("before", "last", "state"),
    [
        ((), "approve", "promoted"),
        (("approve",), "revoke", "revoked"),
        (("approve", "revoke"), "reinstate", "promoted"),
        (("reject", "appeal"), "approve", "promoted"),
    ],
)
async def test_a_player_is_told_with_every_decision(
    harness: Harness, before: tuple[str, ...], last: str, state: str
):
    """Whatever it is that was decided, also where the run counts again."""
    run, mara, noor = await a_held_run(harness), harness.moderator(), harness.moderator(name="noor")
    for kind in before:
        if kind == "appeal":
            assert 200 == (await say(harness, run, "appeal", "It was me.")).status
        else:
            assert 200 == (await decide(harness, run, kind, mara)).status
    told_so = {"code": "other", "note": "seen", "message": "We looked again."}
    assert 200 == (await decide(harness, run, last, noor, told_so)).status
    assert (state, "We looked again.") == (
        (await told(harness, run))["state"],
        (await told(harness, run))["message"],
    )


async def test_an_appeal_is_decided_by_somebody_else_once(harness: Harness):
    """Denied it leaves the state, granted the run counts; the decider cannot, and nobody appeals twice against a decision."""
    run, mara = await a_held_run(harness), harness.moderator(name="mara")
    assert 409 == (await say(harness, run, "appeal", "It was me.")).status
    assert 200 == (await decide(harness, run, "reject", mara)).status
    assert "possible" == (await told(harness, run))["appeal"]["state"]
    assert [200, 200, 409] == [
        (await say(harness, run, "appeal", text)).status for text in ("It was me.", "It was me.", "Really.")
    ]
    assert ("rejected", "open") == (
        (await told(harness, run))["state"],
        (await told(harness, run))["appeal"]["state"],
    )
    assert 409 == (await decide(harness, run, "undo", mara, {"code": "mistake"})).status
    for kind in ("approve", "reject", "hold"):
        await refused(ProblemType.SELF_APPROVAL, by(harness, run, kind, "mara"))
    await refused(ProblemType.SCOPE_FORBIDDEN, by(harness, run, "approve", "noor", ModeratorRole.MODERATOR))
    assert "rejected" == (await by(harness, run, "reject", "noor")).decided.state
    assert "denied" == (await told(harness, run))["appeal"]["state"]
    assert 409 == (await say(harness, run, "appeal", "Once more.")).status
    await refused(ProblemType.STATE_CONFLICT, by(harness, run, "approve", "noor"))

    other = await a_held_run(harness)
    for kind, name in (("approve", "mara"), ("revoke", "mara")):
        await by(harness, other, kind, name)
    assert 200 == (await say(harness, other, "appeal", "It was me.")).status
    await refused(ProblemType.SELF_APPROVAL, by(harness, other, "reinstate", "mara"))
    assert "promoted" == (await by(harness, other, "approve", "noor")).decided.state
    assert [120] == await standing(harness)
    assert "revoked" == (await by(harness, other, "undo", "noor")).decided.state
    assert [] == await standing(harness)


async def test_a_case_names_the_codes_and_templates_of_its_board(harness: Harness):
    """Those of every board and the studio's own, by the decisions that they are for."""
    code = {"code": "wrong-category", "kinds": ["reject"], "meaning": "It belongs elsewhere."}
    govern(harness, codes=(code,), templates={"tools": "No tools, please."})
    run, token = await a_held_run(harness), harness.moderator()
    case = (await harness.get(f"/v1/moderation/cases/{run.id}", token)).body
    assert {kind.value for kind in DecisionKind} == case["codes"].keys()
    assert "It belongs elsewhere." == case["codes"]["reject"]["wrong-category"]
    assert "wrong-category" not in case["codes"]["revoke"]
    assert ("No tools, please.", TEMPLATES["checked"]) == (
        case["templates"]["tools"],
        case["templates"]["checked"],
    )
    assert 422 == (await decide(harness, run, "hold", token, {"code": "wrong-category"})).status
    body = {"code": "wrong-category", "message": "tools"}
    assert 200 == (await decide(harness, run, "reject", token, body)).status
    assert "No tools, please." == (await told(harness, run))["message"]


async def test_a_rejection_by_the_checks_can_be_appealed_against_in_time(harness: Harness):
    """For as many days as the policy says, and never where it says none; not against what a server put right."""
    run = await a_run(harness)
    await accept(harness, honest(harness, run))
    board = harness.edge.catalogue.of_files["sprint"]

    async def becomes(state: State, actor: str, reason: Reason) -> None:
        decision = Decision(run.id, state, actor, reason, harness.clock(), frozenset(State))
        await settle(harness.edge.ledger, harness.edge.index, board, [decision])

    await becomes(State.REJECTED, "replay", Reason.SCORE_MISMATCH)
    until_ms = harness.clock() + 14 * DAY_S * 1000
    harness.clock.shift(14 * DAY_S - 60)
    possible = (await told(harness, run))["appeal"]
    assert "possible" == possible["state"]
    assert abs(datetime.fromisoformat(possible["until"]).timestamp() - until_ms / 1000) < 30
    govern(harness, appeal_days=0)
    assert None is (await told(harness, run))["appeal"]
    assert 409 == (await say(harness, run, "appeal", "It was me.")).status
    govern(harness)
    harness.clock.shift(120)
    assert None is (await told(harness, run))["appeal"]
    assert 409 == (await say(harness, run, "appeal", "It was me.")).status
    await becomes(State.PROMOTED, "moderator:mara", Reason.APPEAL_GRANTED)
    await becomes(State.REVOKED, "server:eu-1", Reason.CORRECTED)
    assert 409 == (await say(harness, run, "appeal", "It was me.")).status
