"""Checks over HTTP: nothing that a moderator reads of one tells it from a case, and nobody else notices it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.edge.auth.moderators import ModeratorRole
from gateway.edge.moderation import check_answers
from policies.vocabulary import State
from tests.attacks.test_moderation import a_held_run, decide, decide_on
from tests.attacks.test_surroundings import alike, held
from tests.support.desk import all_drawn
from tests.support.harness import Harness

QUEUE = "/v1/moderation/queue"
WHEN = {"opened_at", "waiting_s", "harm", "claim"}
"""What two cases of one submission differ in, as two cases of two submissions do."""


async def read(harness: Harness, run: Any, token: str) -> dict[str, Any]:
    """All that a moderator reads of a case, but when it was opened and who is in it."""
    case = f"/v1/moderation/cases/{run.id}"
    player = f"/v1/moderation/players/{run.player}"
    paths = {
        "queue": f"{QUEUE}?kind=held",
        "counts": f"{QUEUE}/counts",
        "case": case,
        "surroundings": f"{case}/surroundings",
        "player": player,
        "submissions": f"{player}/submissions",
        "trail": f"/v1/moderation/trail?player={run.player}",
        "first of the trail": f"/v1/moderation/trail?player={run.player}&limit=1",
        "state": f"/v1/submissions/{run.id}",
    }
    told = {name: (await harness.get(path, token)).body for name, path in paths.items()}
    for each in told["queue"]["cases"]:
        for name in WHEN:
            each.pop(name)
    told["case"].pop("claim")
    told["counts"].pop("oldest_at")
    for each in told["player"]["cases"]:
        each.pop("opened_at"), each.pop("claim")
    return told


async def test_M14_a_check_reads_as_the_case_that_it_was(harness: Harness):
    """Whoever reads it as queue, case, surroundings, player or trail; the player and the one who decided see what is."""
    run, noor = await a_held_run(harness), harness.moderator(name="noor")
    before = await read(harness, run, noor)
    body = {"code": "impossible", "message": "tools"}
    assert 200 == (await decide(harness, run, "reject", harness.moderator(), body)).status
    players = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    decided = await read(harness, run, noor)
    assert decided != before
    await all_drawn(harness)
    mara = await read(harness, run, harness.moderator())
    assert (decided["case"], [], []) == (mara["case"], mara["queue"]["cases"], mara["player"]["cases"])
    assert players == (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    taken = (await harness.post(f"{QUEUE}/next", None, noor)).body["case"]
    assert (run.id, "held") == (taken["submission"], taken["kind"])
    now = await read(harness, run, noor)
    assert before == now
    assert 422 == (await harness.get(f"{QUEUE}?kind=check", noor)).status


async def test_M14_a_check_reads_as_a_case_beside_one_that_is_like_it(harness: Harness):
    """Whoever decides on the other one does not learn what a colleague decided."""
    run, noor = await a_held_run(harness), harness.moderator(name="noor")

    async def similar(token: str) -> list[tuple[str, str]]:
        body = (await harness.get("/v1/moderation/cases/like/surroundings", token)).body
        return [(each["submission"], each["state"]) for each in body["similar"]]

    body = {"code": "impossible", "message": "tools"}
    assert 200 == (await decide(harness, run, "reject", harness.moderator(), body)).status
    await all_drawn(harness)
    await held(harness, "like", alike(run.id), player="bob")
    assert [[(run.id, "held")], [(run.id, "rejected")]] == [
        await similar(token) for token in (noor, harness.moderator())
    ]


async def test_M14_an_answer_tells_what_is_known_and_changes_nothing(harness: Harness):
    """Sent again it is the same; there is nothing to undo. The figures count it by itself, for seniors and oneself."""
    run, noor = await a_held_run(harness), harness.moderator(name="noor", role=ModeratorRole.MODERATOR)
    await decide(harness, run, "approve", harness.moderator(), {"code": "plausible"})
    await all_drawn(harness)
    board = (await harness.get("/v1/boards/sprint", run.token)).body
    players = (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    path = f"/v1/moderation/cases/{run.id}"
    shown = await harness.get(path, noor)
    assert ("held", "held") == (shown.body["submission"]["state"], shown.body["events"][-1]["to_state"])
    seen = {"If-Match": shown.headers["ETag"]}
    body = {"code": "tool-assisted", "note": "too even", "message": "tools"}
    answers = [await decide_on(harness, f"{path}/reject", noor, body, **seen) for _ in range(2)]
    check = {"known": "approve", "code": "plausible", "by": "mara", "agreed": False}
    for answer in answers:
        assert (200, "promoted", check) == (answer.status, answer.body["state"], answer.body["check"])
    assert answers[0].body == answers[1].body
    assert "true" == answers[1].headers["Idempotency-Replayed"]
    undo = {"If-Match": answers[0].headers["ETag"]}
    refused = await decide_on(harness, f"{path}/undo", noor, {"code": "mistake"}, **undo)
    assert (409, "state-conflict") == (refused.status, refused.problem)
    assert "was a check" in refused.body["detail"]
    again = await decide_on(harness, f"{path}/reject", noor, {"code": "impossible"}, **seen)
    assert 412 == again.status
    assert board == (await harness.get("/v1/boards/sprint", run.token)).body
    assert players == (await harness.get(f"/v1/submissions/{run.id}", run.token)).body
    agreement = {"hits": 0, "of": 1, "share": None, "interval": None}
    told = [{"moderator": "noor", "agreement": agreement}]
    other = harness.moderator(name="zoe", role=ModeratorRole.MODERATOR)
    for token, expected in ((noor, told), (harness.moderator(), told), (other, [])):
        figures = (await harness.get("/v1/moderation/figures", token)).body
        assert (expected, {"approved": 1}) == (figures["checks"], figures["decisions"]["made"])


async def test_M14_a_check_holds_up_no_real_decision(harness: Harness):
    """A colleague who revokes the run on the version that it has does so, while somebody is in the check."""
    run, noor = await a_held_run(harness), harness.moderator(name="noor")
    approved = await decide(harness, run, "approve", harness.moderator(), {"code": "plausible"})
    await all_drawn(harness)
    await harness.post(f"{QUEUE}/next", None, noor)
    stale = (await harness.get(f"/v1/moderation/cases/{run.id}", noor)).headers["ETag"]
    path = f"/v1/moderation/cases/{run.id}"
    seen = {"If-Match": approved.headers["ETag"]}
    revoked = await decide_on(harness, f"{path}/revoke", harness.moderator(), {"code": "impossible"}, **seen)
    assert (200, "revoked") == (revoked.status, revoked.body["state"])
    late = await decide_on(harness, f"{path}/approve", noor, {"code": "plausible"}, **{"If-Match": stale})
    assert 412 == late.status
    shown = (await harness.get(path, noor)).body["submission"]["state"]
    assert State.REVOKED == shown


async def test_M14_the_same_answer_twice_at_once_is_taken_once_and_told_twice(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """The other one, which comes to a check that has just ended, is no conflict."""
    run, noor = await a_held_run(harness), harness.moderator(name="noor")
    await decide(harness, run, "approve", harness.moderator(), {"code": "plausible"})
    await all_drawn(harness)
    path = f"/v1/moderation/cases/{run.id}"
    seen = {"If-Match": (await harness.get(path, noor)).headers["ETag"]}
    take = check_answers.answer_check

    def taken_twice(*facts: Any) -> Any:
        async def work(tx: Any) -> Any:
            await take(*facts)(tx)
            return await take(*facts)(tx)

        return work

    monkeypatch.setattr(check_answers, "answer_check", taken_twice)
    answer = await decide_on(harness, f"{path}/reject", noor, {"code": "impossible"}, **seen)
    assert (200, False) == (answer.status, answer.body["check"]["agreed"])
    assert "true" == answer.headers["Idempotency-Replayed"]
