"""Seniors of all boards take thieves' identities from players and undo merges; nobody does so for themselves."""

from __future__ import annotations

import pytest

from gateway.ledger.acts import Act
from gateway.ledger.moderation.accounts import account_of, change_account
from policies.moderation import OwnBoard
from tests.attacks.test_appeals import govern
from tests.attacks.test_bans import a_held_run, approve, ban, stands, unban
from tests.attacks.test_identities import created, new_key, sign_in
from tests.attacks.test_moderation import decide
from tests.attacks.test_own_data import a_player, ask
from tests.attacks.test_renamed_players import rename
from tests.support.attack import CLAIM
from tests.support.harness import Answer, Harness

SELF, MISSING = (403, "self-approval"), (404, "not-found")


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.problem


def path_of(player: str, what: str, which: str = "") -> str:
    return f"/v1/moderation/players/{player}/{what}" + (f"/{which}" if which else "")


async def merged(harness: Harness, source: str, target: str) -> str:
    """The id of a merge of whom the first token is into whom the second is."""
    answer = await ask(harness, "POST", "/v1/merges", target, token=source)
    assert answer.status == 200, answer.raw
    return str(answer.body["merge"])


async def reasons_of(harness: Harness, player: str) -> list[str]:
    trail = await harness.get(f"/v1/moderation/trail?player={player}", harness.moderator())
    return [event["reason"] for event in trail.body["events"]]


async def test_a_senior_takes_a_thiefs_identity_and_all_that_it_opened(harness: Harness):
    """Be it the last one; the thief has no way in, sent again it ends no more tokens, and the trail has both events."""
    senior, key = harness.moderator(), new_key()
    player, stolen = await a_player(harness, "Ada")
    await sign_in(harness, "device", key, stolen)
    [linked] = (await harness.get(path_of(player, "identities"), senior)).body["identities"]
    path = path_of(player, "identities", linked["identity"])
    taken = await ask(harness, "DELETE", path, senior)
    assert (200, []) == (taken.status, taken.body["identities"])
    assert 401 == (await harness.get("/v1/friends", stolen)).status
    assert (401, "sign-in-failed") == told(await sign_in(harness, "device", key))
    assert MISSING == told(await ask(harness, "DELETE", path, senior))
    assert ["tokens-ended", "identity-unlinked"] == await reasons_of(harness, player)


async def test_a_senior_undoes_a_merge_of_either_player(harness: Harness):
    """What was played counts for who played it; again, nothing changes; under a third player there is no such merge."""
    senior, run = harness.moderator(), await a_held_run(harness)
    await approve(harness, run)
    (target, other), (stranger, _) = await a_player(harness, "Bob"), await a_player(harness, "Cyd")
    merge = await merged(harness, run.token, other)
    assert [(target, CLAIM["score"])] == await stands(harness)
    for player in (run.player, target):
        [listed] = (await harness.get(path_of(player, "merges"), senior)).body["merges"]
        assert (merge, run.player, target, f"player:{target}", None) == tuple(
            listed[name] for name in ("merge", "source", "target", "by", "undone_by")
        )
    assert MISSING == told(await ask(harness, "DELETE", path_of(stranger, "merges", merge), senior))
    first, again = [
        await ask(harness, "DELETE", path_of(player, "merges", merge), senior)
        for player in (target, run.player)
    ]
    assert (200, 1, True, "moderator:mara") == (
        first.status,
        *(first.body[name] for name in ("moved", "is_done", "undone_by")),
    )
    assert (first.body, "true") == (again.body, again.headers["Idempotency-Replayed"])
    assert [(run.player, CLAIM["score"])] == await stands(harness)
    assert ["unmerged", "approved"] == await reasons_of(harness, run.player)


async def test_no_merge_is_undone_under_a_ban(harness: Harness):
    """Whoever parts two players would free one of them from it."""
    (source, token), (target, other) = await a_player(harness, "Ada"), await a_player(harness, "Bob")
    merge = await merged(harness, token, other)
    assert 201 == (await ban(harness, target)).status
    answer = await ask(harness, "DELETE", path_of(source, "merges", merge), harness.moderator())
    assert (409, "state-conflict") == told(answer)


async def test_M05_nobody_helps_themselves(harness: Harness):
    """Neither as the player, nor as one who was merged into the player, nor where they have a score themselves."""
    key, own, rival = new_key(), await a_held_run(harness), await a_held_run(harness)
    await approve(harness, own)
    noor, (player, token) = harness.moderator(name=own.player), await a_player(harness, "Ada")
    between = await merged(harness, rival.token, (await a_player(harness, "Bob"))[1])
    path = path_of(rival.player, "merges", between)
    assert SELF == told(await ask(harness, "DELETE", path, noor))
    merge = await merged(harness, own.token, token)
    assert SELF == told(await ask(harness, "DELETE", path, noor))
    await sign_in(harness, "device", key, token)
    [linked] = (await harness.get(path_of(player, "identities"), noor)).body["identities"]
    for what, which in (("identities", linked["identity"]), ("merges", merge)):
        assert SELF == told(await ask(harness, "DELETE", path_of(player, what, which), noor))
    for board in ("sprint", "vault"):
        govern(harness, board, own_board=OwnBoard.ALLOW)
    assert SELF == told(await ask(harness, "DELETE", path_of(player, "merges", merge), noor))
    assert 200 == (await ask(harness, "DELETE", path, noor)).status


async def test_M05_nobody_decides_for_whom_their_own_player_was_merged_into(harness: Harness):
    """The case is not offered, held or decided; the player is not banned, renamed or signed out, and no ban is lifted."""
    run, (own, token) = await a_held_run(harness), await a_player(harness, "Ada")
    await merged(harness, token, run.token)
    noor, other = harness.moderator(name=own), harness.moderator()
    begun = await ban(harness, run.player, other)
    assert 201 == begun.status, begun.raw
    case = f"/v1/moderation/cases/{run.id}"
    answers = [
        await ask(harness, "POST", f"{case}/claim", noor),
        await ask(harness, "POST", f"{case}/cannot-tell", noor),
        await decide(harness, run, "approve", noor),
        await decide(harness, run, "reject", noor),
        await ban(harness, run.player, noor, operation="op-2"),
        await unban(harness, run.player, begun.body["ban"], noor),
        await rename(harness, run.player, "p1", "Bob", noor),
        await ask(harness, "DELETE", path_of(run.player, "tokens"), noor),
    ]
    assert [SELF] * len(answers) == [told(each) for each in answers], [each.raw for each in answers]
    assert None is (await harness.post("/v1/moderation/queue/next", {}, noor)).body["case"]
    assert 200 == (await ask(harness, "POST", f"{case}/claim", other)).status


@pytest.mark.parametrize("what", ["identities", "merges"])
async def test_a_senior_who_is_none_any_more_helps_nobody(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, what: str
):
    """Though the request was let in before: the write looks again."""
    senior, device = harness.moderator(), (await created(harness, device_key=new_key())).body
    merge = await merged(harness, (await a_player(harness, "Ada"))[1], device["token"])
    own = (await harness.get("/v1/identities", device["token"])).body["identities"]
    which = {"identities": own[0]["identity"], "merges": merge}[what]
    ledger, write = harness.edge.ledger, harness.edge.ledger.write

    async def after_the_fall(work):  # type: ignore[no-untyped-def]
        monkeypatch.setattr(ledger, "write", write)
        assert await ledger.read(account_of("mara"))
        await write(change_account("mara", Act("operator:test", 1), grants={"*": "viewer"}, players=()))
        return await write(work)

    monkeypatch.setattr(ledger, "write", after_the_fall)
    refused = await ask(harness, "DELETE", path_of(device["player"], what, which), senior)
    assert (409, "state-conflict") == told(refused)
    assert own == (await harness.get("/v1/identities", device["token"])).body["identities"]
