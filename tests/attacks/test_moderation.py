"""Decisions by those who may not make them, and two at once by those who may."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.edge.auth.moderators import Moderator, ModeratorRole
from gateway.edge.moderation.decisions import RequestedDecision, decide_case
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_decisions import NewDecision
from gateway.index import keys
from gateway.ledger import queries
from gateway.runtime.clock import rfc3339
from policies.decision_codes import DecisionKind
from policies.loader import Policies
from policies.moderation import TEMPLATES
from tests.support.attack import a_run, accept, honest, issued
from tests.support.harness import Answer, Harness, Request, Run
from tests.support.metrics import counts

WHY = {"code": "other", "note": "seen"}


async def a_held_run(harness: Harness) -> Run:
    run = await a_run(harness)
    await accept(harness, honest(harness, run))
    assert "held" == await harness.state_of(run.id)
    return run


async def test_a_held_run_waits_for_a_moderator_and_for_no_worker(harness: Harness):
    """The index has it in no list of runs that are to be played again."""
    await a_held_run(harness)
    await harness.edge.index.drained()
    assert [] == await harness.edge.index.client.zrange(keys.pending("sprint"), 0, -1)


async def decide(harness: Harness, run: Run, verb: str, token: str | None, body: Any = WHY) -> Answer:
    """The answer to a decision that rests on the case as it is."""
    path = f"/v1/moderation/cases/{run.id}/{verb}"
    return await decide_on(harness, path, token, body, **await harness.as_seen(path, harness.moderator()))


async def decide_on(
    harness: Harness, path: str, token: str | None, body: Any = WHY, **headers: str
) -> Answer:
    headers |= {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return await harness.send(Request("POST", path, json.dumps(body).encode(), headers))


async def decisions(harness: Harness, run: Run) -> list[tuple[str, str]]:
    events = await harness.edge.ledger.read(queries.history_of(run.id))
    return [(event["actor"], event["to"]) for event in events if event["actor"].startswith("moderator:")]


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_M01_only_moderators_decide(harness: Harness, verb: str):
    """Players, strangers and holders of expired or damaged tokens change nothing; a player's attempt is logged."""
    run = await a_held_run(harness)
    expired = harness.moderator()
    harness.clock.shift(3_601)
    with capture_logs() as events:
        expected = {
            run.token: (403, "scope-forbidden"),
            None: (401, "token-invalid"),
            expired: (401, "token-invalid"),
        }
        whole = harness.moderator()
        expected |= {whole[:-2] + ("BB" if whole.endswith("AA") else "AA"): (401, "token-invalid")}
        for token, refusal in expected.items():
            answer = await decide(harness, run, verb, token)
            assert refusal == (answer.status, answer.problem)
    assert [("refused", run.player)] == [(event["event"], event["subject"]) for event in events]
    assert "held" == await harness.state_of(run.id)
    assert 200 == (await decide(harness, run, verb, harness.moderator())).status


async def test_M01_reading_cases_is_for_moderators_too(harness: Harness):
    """Findings and held lists are shown to nobody else; a submission's state to its own player alone."""
    run = await a_held_run(harness)
    stranger = await harness.new_player("Eve")
    for path in (f"/v1/moderation/cases/{run.id}", "/v1/moderation/queue"):
        assert 401 == (await harness.get(path)).status
        assert 403 == (await harness.get(path, run.token)).status
        assert 200 == (await harness.get(path, harness.moderator())).status
    assert 404 == (await harness.get(f"/v1/submissions/{run.id}", stranger)).status
    assert 200 == (await harness.get(f"/v1/submissions/{run.id}", run.token)).status


async def test_M02_a_moderator_of_another_board_sees_nothing(harness: Harness):
    """Cases of other boards are answered like cases that do not exist."""
    run = await a_held_run(harness)
    foreign = harness.moderator("other")
    missing = await harness.get("/v1/moderation/cases/nothing", foreign)
    for answer in (
        await decide(harness, run, "approve", foreign),
        await decide(harness, run, "reject", foreign),
        await harness.get(f"/v1/moderation/cases/{run.id}", foreign),
        await harness.get("/v1/moderation/queue?board=sprint", foreign),
        await harness.get(f"/v1/submissions/{run.id}", foreign),
    ):
        assert (404, "not-found") == (answer.status, answer.problem)
    assert missing.raw == (await harness.get(f"/v1/moderation/cases/{run.id}", foreign)).raw
    assert "held" == await harness.state_of(run.id)
    assert 200 == (await decide(harness, run, "approve", harness.moderator("sprint"))).status


async def test_M03_of_two_decisions_at_once_one_stands(harness: Harness):
    """However they are interleaved, one decision is made and the other finds the state changed."""
    for _ in range(5):
        run = await a_held_run(harness)
        answers = await asyncio.gather(
            decide(harness, run, "approve", harness.moderator(name="mara")),
            decide(harness, run, "reject", harness.moderator(name="noor")),
        )
        assert sorted((answer.status, answer.problem) for answer in answers) in (
            [(200, ""), (412, "precondition-failed")],
            [(200, ""), (409, "state-conflict")],  # it read the case when the other had decided
        )
        [(_, state)] = await decisions(harness, run)
        assert state == await harness.state_of(run.id)
        promoted = (await harness.get(f"/v1/boards/sprint/entries/{run.player}")).status
        assert (200 if state == "promoted" else 404) == promoted


async def test_M05_nobody_decides_on_their_own_submission(harness: Harness):
    """A moderator who is the player is refused; another one decides."""
    run = await a_held_run(harness)
    for verb in ("approve", "reject"):
        answer = await decide(harness, run, verb, harness.moderator(name=run.player))
        assert (403, "self-approval") == (answer.status, answer.problem)
    assert "held" == await harness.state_of(run.id)
    assert 200 == (await decide(harness, run, "approve", harness.moderator(name="noor"))).status


async def test_a_decision_needs_a_reason_and_a_held_submission(harness: Harness):
    """No reason is no decision; a decided case cannot be decided again; the event names the moderator and why."""
    run = await a_held_run(harness)
    token = harness.moderator(name="noor")
    code = {"code": "plausible"}
    for body in (
        {},
        {"reason": "x"},
        {"code": "no-such-code"},
        {"code": "tool-assisted"},
        {"code": "other"},
        {"code": "other", "note": " "},
        code | {"note": "x" * 2001},
        code | {"message": ""},
        code | {"message": "x" * 501},
        code | {"state": "promoted"},
    ):
        answer = await harness.post(f"/v1/moderation/cases/{run.id}/approve", body, token)
        assert (422, "schema-violation") == (answer.status, answer.problem)
    assert 200 == (await decide(harness, run, "approve", token)).status
    for verb in ("approve", "reject"):
        answer = await decide(harness, run, verb, token)
        assert (409, "state-conflict") == (answer.status, answer.problem)
    case = (await harness.get(f"/v1/moderation/cases/{run.id}", token)).body
    detail = {"decision": "approve", "code": "other", "note": "seen", "message": None, "template": None}
    assert ("moderator:noor", detail) == (case["events"][-1]["actor"], case["events"][-1]["detail"])
    assert ["held", "promoted"] == [event["to_state"] for event in case["events"]]


async def test_held_submissions_are_paged_by_cursor(harness: Harness):
    """Pages follow each other without a gap or a repeat, oldest first."""
    runs = [await a_held_run(harness) for _ in range(5)]
    token, seen, path = harness.moderator("sprint"), [], "/v1/moderation/queue?limit=2"
    cursor = ""
    while cursor is not None:
        page = (await harness.get(path + cursor, token)).body
        seen += [each["submission"] for each in page["cases"]]
        cursor = f"&cursor={page['next']}" if page["next"] else None
    assert [run.id for run in runs] == seen


async def standing(harness: Harness) -> list[int]:
    page = (await harness.get("/v1/boards/sprint/entries")).body
    return [entry["score"] for entry in page["entries"]]


async def test_a_revoked_submission_leaves_the_board_until_it_is_reinstated(harness: Harness):
    """Each is an event with the moderator's name and reason; twice in a row finds the state changed."""
    run, token = await a_held_run(harness), harness.moderator()
    expected = []
    for verb, wrong, score in (
        ("approve", "reinstate", [120]),
        ("revoke", "approve", []),
        ("reinstate", "reject", [120]),
        ("revoke", "reject", []),
    ):
        assert 200 == (await decide(harness, run, verb, token)).status
        assert score == await standing(harness)
        for late in (verb, wrong):
            answer = await decide(harness, run, late, token)
            assert (409, "state-conflict") == (answer.status, answer.problem)
        expected.append(("moderator:mara", "revoked" if verb == "revoke" else "promoted"))
    assert expected == await decisions(harness, run)
    history = await harness.edge.ledger.read(queries.history_of(run.id))
    reasons = [event["reason"] for event in history[1:]]
    assert ["approved", "revoked-by-moderator", "reinstated", "revoked-by-moderator"] == reasons
    assert {"seen"} == {event["detail"]["note"] for event in history[1:]}
    told = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    assert ("revoked", "moderation", None) == (told["state"], told["reason"], told["rank"])


@pytest.mark.parametrize("verb", ["revoke", "reinstate"])
async def test_M01_only_moderators_revoke_and_reinstate(harness: Harness, verb: str):
    """Not players, not moderators of other boards, and nobody their own submission."""
    run, token = await a_held_run(harness), harness.moderator()
    for way in ("approve", "revoke")[: 1 if verb == "revoke" else 2]:
        assert 200 == (await decide(harness, run, way, token)).status
    state = await harness.state_of(run.id)
    for stranger, refusal in (
        (run.token, (403, "scope-forbidden")),
        (None, (401, "token-invalid")),
        (harness.moderator("other"), (404, "not-found")),
        (harness.moderator(name=run.player), (403, "self-approval")),
    ):
        answer = await decide(harness, run, verb, stranger)
        assert refusal == (answer.status, answer.problem)
    assert state == await harness.state_of(run.id)
    assert 200 == (await decide(harness, run, verb, token)).status


@pytest.mark.parametrize("field", [None, "*"])
async def test_F16_a_decision_without_a_version_is_refused(harness: Harness, field: str | None):
    """Whoever does not say which version of the case they saw decides nothing."""
    run, path = await a_held_run(harness), "/v1/moderation/cases/{}/approve"
    headers = {"If-Match": field} if field else {}
    answer = await decide_on(harness, path.format(run.id), harness.moderator(), **headers)
    assert (428, "precondition-required") == (answer.status, answer.problem)
    assert "held" == await harness.state_of(run.id)


@pytest.mark.parametrize(
    "field", ['"0"', 'W/"{}"', "{}", '"{}", "7"', '"99999999999999999999"', "x", '"\u00b2"']
)
async def test_F16_a_decision_on_another_version_is_refused(harness: Harness, field: str):
    """An older version, a weak tag and whatever is no tag are 412, and nothing is decided."""
    run, path = await a_held_run(harness), "/v1/moderation/cases/{}/approve"
    tag = (await harness.as_seen(path.format(run.id), harness.moderator()))["If-Match"]
    stale = field.format(tag.strip('"'))
    answer = await decide_on(harness, path.format(run.id), harness.moderator(), **{"If-Match": stale})
    assert (412, "precondition-failed") == (answer.status, answer.problem)
    assert "held" == await harness.state_of(run.id)


async def test_F16_who_saw_the_case_before_another_decided_is_told_so(harness: Harness):
    """After approve and revoke by one moderator, another's reinstate of what they saw approved is 412, and changes nothing."""
    run, mara, noor = (
        await a_held_run(harness),
        harness.moderator(name="mara"),
        harness.moderator(name="noor"),
    )
    path = f"/v1/moderation/cases/{run.id}"
    seen = await harness.as_seen(f"{path}/approve", noor)
    assert 200 == (await decide(harness, run, "approve", mara)).status
    assert 200 == (await decide(harness, run, "revoke", mara)).status
    for verb in ("approve", "reinstate", "reject"):
        assert 412 == (await decide_on(harness, f"{path}/{verb}", noor, **seen)).status
    # The last decision is of this very moderator, this state and this reason, and yet none on what was seen first.
    assert 412 == (await decide_on(harness, f"{path}/revoke", mara, **seen)).status
    assert "revoked" == await harness.state_of(run.id)


async def test_F16_a_decision_can_be_sent_again(harness: Harness):
    """The same decision on the same version, whose answer was lost, is answered again; nothing is decided twice."""
    run, mara = await a_held_run(harness), harness.moderator(name="mara")
    path = f"/v1/moderation/cases/{run.id}/approve"
    seen = await harness.as_seen(path, mara)
    first, again = [await decide_on(harness, path, mara, **seen) for _ in range(2)]
    other = await decide_on(harness, path, harness.moderator(name="noor"), **seen)
    assert (200, 200, 412) == (first.status, again.status, other.status)
    assert first.raw == again.raw
    assert (None, "true") == tuple(each.headers.get("Idempotency-Replayed") for each in (first, again))
    assert [("moderator:mara", "promoted")] == await decisions(harness, run)


async def test_F16_each_decision_and_each_listed_case_carries_the_next_version(harness: Harness):
    """The tag of the list, of the case and of a decision's answer can each be sent with the next decision."""
    run, token = await a_held_run(harness), harness.moderator()
    path = f"/v1/moderation/cases/{run.id}"
    [held] = (await harness.get("/v1/moderation/queue", token)).body["cases"]
    case = await harness.get(path, token)
    assert held["etag"] == case.headers["ETag"] == case.body["submission"]["etag"]
    approved = await decide_on(harness, f"{path}/approve", token, **{"If-Match": held["etag"]})
    revoked = await decide_on(harness, f"{path}/revoke", token, **{"If-Match": approved.headers["ETag"]})
    assert (200, 200) == (approved.status, revoked.status)
    assert revoked.body["etag"] == (await harness.get(path, token)).headers["ETag"]


QUESTION = {"code": "question", "message": "video"}


@pytest.mark.parametrize(
    ("verb", "state"),
    [("approve", "promoted"), ("reject", "rejected"), ("hold", "held"), ("revoke", "revoked")],
)
async def test_M10_a_decision_is_undone_once(harness: Harness, verb: str, state: str):
    """The state and the board are as before, the event says what was undone, a second undo is 409, and a resend is answered again."""
    run, token = await a_held_run(harness), harness.moderator()
    if verb in {"hold", "revoke"}:
        assert 200 == (await decide(harness, run, "approve", token)).status
    before = (await harness.state_of(run.id), await standing(harness))
    decided = await decide(harness, run, verb, token)
    assert state == await harness.state_of(run.id)
    path, seen = f"/v1/moderation/cases/{run.id}/undo", {"If-Match": decided.headers["ETag"]}
    undone, again = [await decide_on(harness, path, token, **seen) for _ in range(2)]
    assert (200, 200, undone.raw) == (undone.status, again.status, again.raw)
    assert before == (await harness.state_of(run.id), await standing(harness))
    *_, last = await harness.edge.ledger.read(queries.history_of(run.id))
    assert ("undo", int(decided.headers["ETag"].strip('"'))) == (
        last["detail"]["decision"],
        last["detail"]["undoes"],
    )
    twice = await decide(harness, run, "undo", token)
    assert (409, "state-conflict") == (twice.status, twice.problem)
    assert before == (await harness.state_of(run.id), await standing(harness))


async def test_M10_what_is_not_a_decision_or_too_old_is_not_undone(harness: Harness):
    """A submission that nobody decided on, and one decided on more than thirty days ago."""
    run, token = await a_held_run(harness), harness.moderator()
    assert 409 == (await decide(harness, run, "undo", token)).status
    assert 200 == (await decide(harness, run, "reject", token)).status
    harness.clock.shift(30 * 86_400 + 60)
    late = await decide(harness, run, "undo", harness.moderator())
    assert (409, "state-conflict") == (late.status, late.problem)
    assert "rejected" == await harness.state_of(run.id)


async def test_M05_only_a_senior_undoes_what_a_colleague_decided(harness: Harness):
    """A moderator undoes their own decisions alone."""
    run = await a_held_run(harness)
    assert 200 == (await decide(harness, run, "approve", harness.moderator(name="mara"))).status
    submission = await harness.edge.ledger.read(queries.submission(run.id))
    assert submission is not None
    [*_, last] = await harness.edge.ledger.read(queries.history_of(run.id))
    asked = RequestedDecision(DecisionKind.UNDO, NewDecision(code="mistake"), last["seq"])
    board = harness.edge.catalogue.of_files["sprint"]
    noor = Moderator("noor", {"*": ModeratorRole.MODERATOR})
    with pytest.raises(Problem) as refused:
        await decide_case(harness.edge, board, submission, noor, asked)
    assert ProblemType.SCOPE_FORBIDDEN is refused.value.kind
    mara = Moderator("mara", {"*": ModeratorRole.MODERATOR})
    assert "held" == (await decide_case(harness.edge, board, submission, mara, asked)).decided.state


async def test_a_promoted_or_rejected_submission_is_held_again(harness: Harness):
    """It leaves the board for the queue; what was taken back stays so, and a decision is made anew."""
    run, token = await a_held_run(harness), harness.moderator()
    for verb, scores in (("approve", []), ("reject", [])):
        assert 200 == (await decide(harness, run, verb, token)).status
        assert 200 == (await decide(harness, run, "hold", token)).status
        assert ("held", scores) == (await harness.state_of(run.id), await standing(harness))
        told = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
        assert ("held", "review") == (told["state"], told["reason"])
    for verb in ("approve", "revoke"):
        assert 200 == (await decide(harness, run, verb, token)).status
    refused = await decide(harness, run, "hold", token)
    assert (409, "state-conflict") == (refused.status, refused.problem)


async def test_a_held_submission_is_held_on_by_a_question_alone(harness: Harness):
    """The question is an event that keeps state and reason; without its words it is none, and another hold is a conflict."""
    run, token = await a_held_run(harness), harness.moderator()
    before = (await harness.get(f"/v1/moderation/cases/{run.id}", token)).body["submission"]
    for body, refusal in (
        ({"code": "question"}, (422, "schema-violation")),
        ({"code": "second-look"}, (409, "state-conflict")),
    ):
        answer = await decide(harness, run, "hold", token, body)
        assert refusal == (answer.status, answer.problem)
    asked = await decide(harness, run, "hold", token, QUESTION)
    assert (200, "held") == (asked.status, asked.body["state"])
    after = (await harness.get(f"/v1/moderation/cases/{run.id}", token)).body
    assert before | {"etag": asked.body["etag"]} == after["submission"]
    detail = after["events"][-1]["detail"]
    assert ("video", TEMPLATES["video"]) == (detail["template"], detail["message"])


async def test_N14_a_case_says_who_how_long_and_what_an_approval_would_do(harness: Harness):
    """Name, elapsed time, the player's promoted scores, and the rank in each window: null where a better score stands."""
    first, second = [await a_held_run(harness) for _ in range(2)]
    token = harness.moderator()
    assert 200 == (await decide(harness, first, "approve", token)).status
    behind = (await harness.get(f"/v1/moderation/cases/{second.id}", token)).body
    assert {"alltime": 2} == {name: rank for name, rank in behind["ranks"].items() if name == "alltime"}
    assert ("Ada", []) == (behind["name"], behind["history"])
    slow = issued(harness, age_s=75)
    await accept(harness, honest(harness, slow))
    assert (
        75_000 <= (await harness.get(f"/v1/moderation/cases/{slow.id}", token)).body["elapsed_ms"] < 135_000
    )

    third = await harness.open_run(first.token, board="sprint")
    await accept(harness, honest(harness, third))
    no_better = (await harness.get(f"/v1/moderation/cases/{third.id}", token)).body
    assert {None} == set(no_better["ranks"].values())
    assert [(first.id, 120)] == [(each["submission"], each["score"]) for each in no_better["history"]]
    stands = (await harness.get(f"/v1/moderation/cases/{first.id}", token)).body
    assert {1} == set(stands["ranks"].values())


async def test_N14_the_recording_is_there_for_moderators_alone(harness: Harness):
    """A moderator of the board gets the very bytes with their digest, as a file; nobody else does, and with none it is 404."""
    run, recording = await a_run(harness), b"inputs of a run"
    claim = {"score": 120, "ticks": 60, "recording": base64.b64encode(recording).decode()}
    await accept(harness, honest(harness, run, claim))
    path = f"/v1/moderation/cases/{run.id}/recording"
    answer = await harness.get(path, harness.moderator("sprint"))
    digest = base64.b64encode(hashlib.sha256(recording).digest()).decode()
    assert (200, recording, f"sha-256=:{digest}:") == (
        answer.status, answer.raw, answer.headers["Content-Digest"]
    )  # fmt: skip
    named = f'attachment; filename="{run.id}.recording"'
    assert ("application/octet-stream", named, "no-store") == tuple(
        answer.headers[name] for name in ("Content-Type", "Content-Disposition", "Cache-Control")
    )
    for token, status in ((None, 401), (run.token, 403), (harness.moderator("other"), 404)):
        assert status == (await harness.get(path, token)).status
    bare = await a_held_run(harness)
    missing = await harness.get(f"/v1/moderation/cases/{bare.id}/recording", harness.moderator())
    assert (404, "not-found") == (missing.status, missing.problem)


async def test_F04_a_case_says_that_its_recording_has_ended_and_when(harness: Harness):
    """Of a rejected run, once its time is over: there is none to be had, and both the case and the refusal say since when."""
    run = await a_run(harness)
    claim = {"score": 120, "ticks": 60, "recording": base64.b64encode(b"inputs of a run").decode()}
    await accept(harness, honest(harness, run, claim))
    token, path = harness.moderator(), f"/v1/moderation/cases/{run.id}"
    case = (await harness.get(path, token)).body
    assert (True, None) == (case["has_recording"], case["recording_expired_at"])
    assert 200 == (await decide(harness, run, "reject", token)).status

    harness.clock.shift(91 * 86_400)
    ended_ms = harness.clock()
    with counts(1, "scoregate_recordings_collected_total", action="expired"):
        await harness.steward().expire()
    case = (await harness.get(path, token := harness.moderator())).body
    assert (False, rfc3339(ended_ms)[:10]) == (case["has_recording"], case["recording_expired_at"][:10])
    gone = await harness.get(f"{path}/recording", token)
    assert (404, True) == (gone.status, case["recording_expired_at"] in gone.body["detail"])


async def test_M02_what_is_not_there_is_not_there_for_moderators_of_everything_either(harness: Harness):
    """A case that never was, and one of a board that is no more: neither is read or decided on, and nothing of ours fails."""
    run, everything = await a_held_run(harness), harness.moderator("*")
    boards = dict(harness.edge.catalogue.of_files)
    boards.pop("sprint")
    for submission in ("nothing", run.id):
        path = f"/v1/moderation/cases/{submission}"
        answers = [
            await harness.get(path, everything),
            await harness.get(f"{path}/recording", everything),
            await decide_on(harness, f"{path}/approve", everything, **{"If-Match": '"1"'}),
        ]
        if submission == "nothing":
            harness.edge.catalogue.policies = Policies(boards)
            shown = await harness.get("/v1/moderation/queue", everything)
            assert [] == shown.body["cases"]
        assert [(404, "not-found")] * len(answers) == [(each.status, each.problem) for each in answers]
    assert "held" == await harness.state_of(run.id)
