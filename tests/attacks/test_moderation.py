"""Decisions by those who may not make them, and two at once by those who may."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gateway.edge.credentials.tokens import Bearer, Role
from gateway.ledger import queries
from tests.support.attack import a_run, accept, honest
from tests.support.harness import Answer, Harness, Run

WHY = {"reason": "seen"}


async def a_held_run(harness: Harness) -> Run:
    run = await a_run(harness)
    await accept(harness, honest(harness, run))
    assert "held" == await harness.state_of(run.id)
    return run


async def decide(harness: Harness, run: Run, verb: str, token: str | None) -> Answer:
    return await harness.post(f"/v1/moderation/{run.id}/{verb}", WHY, token)


async def decisions(harness: Harness, run: Run) -> list[tuple[str, str]]:
    events = await harness.edge.ledger.read(queries.history_of(run.id))
    return [(event["actor"], event["to"]) for event in events if event["actor"].startswith("moderator:")]


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_M01_only_moderators_decide(harness: Harness, verb: str):
    """Players, strangers and holders of expired or damaged tokens change nothing; a player's attempt is logged."""
    run = await a_held_run(harness)
    now_s = harness.clock() // 1000
    expired = harness.edge.tokens.mint(Bearer("mara", Role.MODERATOR, now_s - 1, ("*",)), now_s=now_s - 60)
    with capture_logs() as events:
        expected = {
            run.token: (403, "scope-forbidden"),
            None: (401, "token-invalid"),
            expired: (401, "token-invalid"),
        }
        expected |= {harness.moderator()[:-2] + "AA": (401, "token-invalid")}
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
    for path in (f"/v1/moderation/{run.id}", "/v1/boards/sprint/held"):
        assert 401 == (await harness.get(path)).status
        assert 403 == (await harness.get(path, run.token)).status
        assert 200 == (await harness.get(path, harness.moderator())).status
    assert 404 == (await harness.get(f"/v1/submissions/{run.id}", stranger)).status
    assert 200 == (await harness.get(f"/v1/submissions/{run.id}", run.token)).status


async def test_M02_a_moderator_of_another_board_sees_nothing(harness: Harness):
    """Cases of other boards are answered like cases that do not exist."""
    run = await a_held_run(harness)
    foreign = harness.moderator("other")
    missing = await harness.get("/v1/moderation/nothing", foreign)
    for answer in (
        await decide(harness, run, "approve", foreign),
        await decide(harness, run, "reject", foreign),
        await harness.get(f"/v1/moderation/{run.id}", foreign),
        await harness.get("/v1/boards/sprint/held", foreign),
        await harness.get(f"/v1/submissions/{run.id}", foreign),
    ):
        assert (404, "not-found") == (answer.status, answer.problem)
    assert missing.raw == (await harness.get(f"/v1/moderation/{run.id}", foreign)).raw
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
        assert [200, 409] == sorted(answer.status for answer in answers)
        assert {"", "state-conflict"} == {answer.problem for answer in answers}
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
    for body in ({}, {"reason": ""}, {"reason": "x" * 501}, {"reason": "x", "state": "promoted"}):
        answer = await harness.post(f"/v1/moderation/{run.id}/approve", body, token)
        assert (422, "schema-violation") == (answer.status, answer.problem)
    assert 200 == (await decide(harness, run, "approve", token)).status
    for verb in ("approve", "reject"):
        answer = await decide(harness, run, verb, token)
        assert (409, "state-conflict") == (answer.status, answer.problem)
    case = (await harness.get(f"/v1/moderation/{run.id}", token)).body
    assert ("moderator:noor", {"why": "seen"}) == (case["events"][-1]["actor"], case["events"][-1]["detail"])
    assert ["held", "promoted"] == [event["to_state"] for event in case["events"]]


async def test_held_submissions_are_paged_by_cursor(harness: Harness):
    """Pages follow each other without a gap or a repeat, oldest first."""
    runs = [await a_held_run(harness) for _ in range(5)]
    token, seen, after = harness.moderator("sprint"), [], 0
    while True:
        page = (await harness.get(f"/v1/boards/sprint/held?limit=2&after={after}", token)).body["submissions"]
        if not page:
            break
        seen += [each["submission"] for each in page]
        after = page[-1]["cursor"]
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
    assert {"seen"} == {event["detail"]["why"] for event in history[1:]}
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
