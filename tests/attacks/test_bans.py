"""Bans: who may ban whom where, what an open ban refuses, and what decisions come to while one is in force."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.ledger import queries
from gateway.runtime.clock import rfc3339
from policies.loader import Policies
from policies.moderation import OwnBoard
from tests.attacks.test_appeals import govern
from tests.attacks.test_moderation import decide, decide_on
from tests.support.attack import CLAIM, accept, honest, registered
from tests.support.harness import Answer, Harness, Request, Run

BAN = {"operation": "ban-1", "code": "cheating", "note": "for us", "message": "for you"}

SEEN = {"code": "other", "note": "seen"}


def path_of(player: str, ban: str = "") -> str:
    return f"/v1/moderation/players/{player}/bans" + (f"/{ban}" if ban else "")


async def ban(harness: Harness, player: str, token: str | None = None, **changes: Any) -> Answer:
    return await harness.post(path_of(player), BAN | changes, token or harness.moderator())


async def unban(harness: Harness, player: str, ban_id: str, token: str | None = None) -> Answer:
    headers = {"Authorization": f"Bearer {token or harness.moderator()}"}
    return await harness.send(Request("DELETE", path_of(player, ban_id), b"", headers))


async def a_held_run(harness: Harness, token: str | None = None) -> Run:
    run = await harness.open_run(token, board="sprint")
    await accept(harness, honest(harness, run))
    return run


async def approve(harness: Harness, run: Run) -> Answer:
    return await harness.post(f"/v1/moderation/cases/{run.id}/approve", SEEN, harness.moderator())


async def stands(harness: Harness, board: str = "sprint") -> list[tuple[str, int]]:
    await harness.edge.index.drained()
    page = (await harness.get(f"/v1/boards/{board}/entries")).body
    return [(entry["player"], entry["score"]) for entry in page["entries"]]


async def state_of(harness: Harness, run: Run) -> tuple[str, str]:
    found = await harness.edge.ledger.read(queries.submission(run.id))
    assert found
    return found.state.value, found.reason.value


async def test_a_ban_takes_standings_off_and_its_end_brings_them_back(harness: Harness):
    """The whole board is as it was; the same operation again changes nothing, and says so."""
    first, second = await a_held_run(harness), await a_held_run(harness)
    assert [200, 200] == [(await approve(harness, run)).status for run in (first, second)]
    before = await stands(harness)
    answer = await ban(harness, first.player, family=None, board="sprint")
    assert (201, 1, True) == (answer.status, answer.body["followed"], answer.body["is_settled"])
    assert [(second.player, CLAIM["score"])] == await stands(harness)
    assert ("revoked", "banned") == await state_of(harness, first)

    again = await ban(harness, first.player, board="sprint")
    other = await ban(harness, first.player, board="sprint", note="other")
    assert ("true", answer.body) == (again.headers.get("Idempotency-Replayed"), again.body)
    assert (422, "idempotency-mismatch") == (other.status, other.problem)

    lifted = await unban(harness, first.player, answer.body["ban"])
    assert (200, 1) == (lifted.status, lifted.body["followed"])
    assert before == await stands(harness)
    assert ("promoted", "approved") == await state_of(harness, first)
    assert "true" == (await unban(harness, first.player, answer.body["ban"])).headers["Idempotency-Replayed"]


async def test_moderators_see_what_a_shadow_ban_revokes(harness: Harness):
    """Its player is told that the run counts; whoever moderates the board reads that it does not."""
    run = await a_held_run(harness)
    assert 200 == (await approve(harness, run)).status
    assert 201 == (await ban(harness, run.player, shadow=True, message="")).status
    readers = (run.token, harness.moderator())
    shown = [(await harness.get(f"/v1/submissions/{run.id}", each)).body["state"] for each in readers]
    assert ["promoted", "revoked"] == shown


async def test_an_open_ban_refuses_runs_and_submissions_until_it_ends(harness: Harness):
    """The player reads until when and why; what was stored before is still answered; other boards are open."""
    token = await harness.new_player()
    done, open_one = await a_held_run(harness, token), await harness.open_run(token, board="sprint")
    until_ms = harness.clock() + 60_000
    assert 201 == (await ban(harness, done.player, board="sprint", until=rfc3339(until_ms))).status

    refused = await harness.post("/v1/boards/sprint/runs", {"build": "arcade-1"}, token)
    assert (403, "player-banned") == (refused.status, refused.problem)
    assert (rfc3339(until_ms), "for you") == (refused.body["until"], refused.body["message"])
    assert "for us" not in refused.raw.decode()
    submitted = await harness.send(honest(harness, open_one))
    assert (403, "player-banned") == (submitted.status, submitted.problem)
    await harness.edge.index.client.flushall()  # so that nobody but the ledger knows what is stored
    assert 202 == (await harness.send(honest(harness, done))).status
    assert 201 == (await harness.post("/v1/boards/other/runs", {"build": "arcade-1"}, token)).status

    harness.clock.shift(61)
    assert 201 == (await harness.post("/v1/boards/sprint/runs", {"build": "arcade-1"}, token)).status
    await approve(harness, done)
    assert ("revoked", "banned") == await state_of(harness, done)  # nobody has lifted it yet
    steward = harness.steward()
    while await steward.keep_bans():
        pass
    assert ("promoted", "approved") == await state_of(harness, done)
    [shown] = (await harness.get(path_of(done.player), harness.moderator())).body["bans"]
    assert ("steward", True) == (shown["lifted_by"], shown["is_settled"])


async def test_M10_what_is_approved_while_its_player_is_banned_does_not_count(harness: Harness):
    """It is revoked in the same transaction, and counts once the ban is lifted."""
    run = await a_held_run(harness)
    ban_id = (await ban(harness, run.player)).body["ban"]
    await approve(harness, run)
    assert ([], ("revoked", "banned")) == (await stands(harness), await state_of(harness, run))
    reinstated = await harness.post(f"/v1/moderation/cases/{run.id}/reinstate", SEEN, harness.moderator())
    assert (409, "state-conflict") == (reinstated.status, reinstated.problem)
    await unban(harness, run.player, ban_id)
    assert [(run.player, CLAIM["score"])] == await stands(harness)


async def test_M10_what_moderators_decide_on_banned_runs_holds_after_the_ban(harness: Harness):
    """Revoked it stays away, an undone revocation brings it back, and an undone approval waits for them again."""
    runs = [await a_held_run(harness) for _ in range(5)]
    token = harness.moderator()
    for run in (*runs[:3], runs[4]):
        await approve(harness, run)
    bans = [(await ban(harness, run.player)).body["ban"] for run in runs]
    path, body = f"/v1/moderation/cases/{runs[0].id}/revoke", {"code": "tool-assisted"}
    seen = await harness.as_seen(path, token)
    made = await decide_on(harness, path, token, body, **seen)
    assert (200, "revoked") == (made.status, made.body["state"])
    again = await decide_on(harness, path, token, body, **seen)
    assert (200, made.raw) == (again.status, again.raw)
    await approve(harness, runs[3])
    for run, kind in ((runs[1], "revoke"), (runs[1], "undo"), (runs[2], "hold"), (runs[3], "undo")):
        code = {"revoke": "tool-assisted", "undo": "mistake", "hold": "second-look"}[kind]
        assert 200 == (await decide(harness, run, kind, token, {"code": code})).status, kind
    for run, ban_id in zip(runs, bans, strict=True):
        await unban(harness, run.player, ban_id)
    assert 200 == (await decide(harness, runs[4], "undo", token, {"code": "mistake"})).status
    states = [(await state_of(harness, run))[0] for run in runs]
    assert ["revoked", "promoted", "held", "held", "held"] == states
    cases = (await harness.get("/v1/moderation/queue", token)).body["cases"]
    assert {run.id for run in runs[2:]} == {case["submission"] for case in cases}
    assert [(runs[1].player, CLAIM["score"])] == await stands(harness)


async def test_M10_a_trusted_servers_write_waits_for_the_end_of_a_ban_and_its_removal_does_not(
    harness: Harness,
):
    """What a server takes back during a ban stays away after it."""
    key = await registered(harness)
    ban_id = (await ban(harness, "ada", board="vault")).body["ban"]
    entries = [{"operation": f"op-{number}", "player": "ada", "score": number} for number in (1, 2)]
    for entry in entries:
        assert 202 == (await harness.as_server(key, "eu-1", "/v1/boards/vault/entries", entry)).status
    assert [] == await stands(harness, "vault")
    removal = {"operation": "op-3", "player": "ada"}
    answer = await harness.as_server(key, "eu-1", "/v1/boards/vault/removals", removal)
    assert (200, 2) == (answer.status, len(answer.body["removed"]))
    entry = {"operation": "op-4", "player": "ada", "score": 1}
    await harness.as_server(key, "eu-1", "/v1/boards/vault/entries", entry)
    await unban(harness, "ada", ban_id)
    assert [("ada", 1)] == await stands(harness, "vault")


@pytest.mark.parametrize("boards", [("other",), ("track",)])
async def test_M02_bans_reach_no_further_than_their_moderators_scope(
    harness: Harness, boards: tuple[str, ...]
):
    """Nobody bans, lifts or reads a ban on what they do not moderate, nor learns that there is one."""
    stranger = harness.moderator(*boards)
    made = (await ban(harness, "ada", board="sprint")).body["ban"]
    for scope in ({"board": "sprint"}, {"family": "sprint"}, {}):
        refused = await ban(harness, "ada", stranger, **scope)
        assert (404, "not-found") == (refused.status, refused.problem)
    unknown, foreign = [await unban(harness, "ada", each, stranger) for each in ("none", made)]
    assert (404, unknown.body) == (foreign.status, foreign.body)
    assert [] == (await harness.get(path_of("ada"), stranger)).body["bans"]
    assert [made] == [
        each["ban"] for each in (await harness.get(path_of("ada"), harness.moderator())).body["bans"]
    ]


async def test_M05_nobody_bans_or_unbans_themselves(harness: Harness):
    """A moderator who plays is banned, and freed, by somebody else."""
    made = (await ban(harness, "ada")).body["ban"]
    own = harness.moderator(name="ada")
    for answer in (await ban(harness, "ada", own), await unban(harness, "ada", made, own)):
        assert (403, "self-approval") == (answer.status, answer.problem)


async def test_who_was_banned_before_they_played_is_shown_with_the_ban(harness: Harness):
    """A ban is something of theirs, on the boards that it reaches; of a player without either nothing is said."""
    made = (await ban(harness, "ada", board="sprint")).body["ban"]
    shown = await harness.get("/v1/moderation/players/ada", harness.moderator("sprint"))
    assert (200, [made], {}) == (
        shown.status,
        [each["ban"] for each in shown.body["bans"]],
        shown.body["states"],
    )
    unknown = await harness.get("/v1/moderation/players/bob", harness.moderator("sprint"))
    assert (404, "not-found") == (unknown.status, unknown.problem)


@pytest.mark.parametrize(
    "changes",
    [
        {"code": "because"},
        {"board": "sprint", "family": "track"},
        {"until": "2020-01-01T00:00:00Z"},
        {"until": "tomorrow"},
        {"note": "x" * 2_001},
        {"message": "x" * 501},
        {"operation": ""},
    ],
)
async def test_a_ban_that_makes_no_sense_is_refused(harness: Harness, changes: dict[str, Any]):
    """By a problem that names the field; nothing is stored."""
    answer = await ban(harness, "ada", **changes)
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert [] == (await harness.get(path_of("ada"), harness.moderator())).body["bans"]


async def test_two_moderators_ban_and_unban_at_once(harness: Harness):
    """Each of several bans of a player counts until the last of them is lifted."""
    run = await a_held_run(harness)
    await approve(harness, run)
    answers = await asyncio.gather(*(ban(harness, run.player, operation=f"b{number}") for number in range(4)))
    for answer in answers:
        assert [] == await stands(harness)
        await unban(harness, run.player, answer.body["ban"])
    assert [(run.player, CLAIM["score"])] == await stands(harness)


async def test_M05_nobody_bans_on_a_board_where_they_have_a_score(harness: Harness):
    """Nor where they stand on its rollup. A ban decides who stands there, too; elsewhere, and where the policy allows it, they may."""
    own, rival = await a_held_run(harness), await a_held_run(harness)
    assert [200, 200] == [(await approve(harness, run)).status for run in (own, rival)]
    made = (await ban(harness, rival.player, board="sprint")).body["ban"]
    noor = harness.moderator(name=own.player)
    for number, scope in enumerate(({"board": "sprint"}, {})):
        answer = await ban(harness, rival.player, noor, operation=f"b{number}", **scope)
        assert (403, "self-approval") == (answer.status, answer.problem), scope
    assert 403 == (await unban(harness, rival.player, made, noor)).status
    kept = (await ban(harness, own.player, operation="own")).body["ban"]
    assert 403 == (await unban(harness, rival.player, made, noor)).status
    assert 403 == (await ban(harness, rival.player, noor, operation="all")).status
    await unban(harness, own.player, kept)
    assert 201 == (await ban(harness, rival.player, noor, operation="elsewhere", board="vault")).status
    files = dict(harness.edge.catalogue.of_files)
    rolled_up = replace(files["vault"], rollups=(files["sprint"],))  # as if it was one of it
    harness.edge.catalogue.policies = Policies({**files, "vault": rolled_up})
    assert 403 == (await ban(harness, rival.player, noor, operation="rolled", board="vault")).status
    govern(harness, own_board=OwnBoard.ALLOW)
    assert 200 == (await unban(harness, rival.player, made, noor)).status
