"""Tokens of players that were ended: on every edge, whatever Redis knows, and nobody else's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gateway.edge.auth import ended_tokens
from gateway.edge.auth.ended_tokens import EndedTokens
from gateway.edge.auth.tokens import Bearer, Role
from gateway.edge.identities import own_tokens
from gateway.edge.moderation import tokens_of_players
from gateway.edge.routes import ROUTES, Caller
from gateway.ledger import queries
from gateway.ledger.acts import Act
from gateway.ledger.players.token_endings import TokenEnding, end_tokens
from policies.errors import LedgerUnavailable
from tests.attacks.test_appeals import by, say
from tests.attacks.test_bans import a_held_run
from tests.attacks.test_identities import created, new_key
from tests.support.attack import registered
from tests.support.desk import player_of
from tests.support.every_route import request_for
from tests.support.harness import Harness, Request
from tests.support.logs import lines_of, logged

OVER = (401, "token-invalid")


async def ended(harness: Harness, token: str) -> str:
    """The new token of whoever ends all of theirs."""
    headers = {"Authorization": f"Bearer {token}"}
    answer = await harness.send(Request("DELETE", "/v1/tokens", b"", headers))
    assert answer.status == 200, answer.raw
    return str(answer.body["token"])


def bearer_of(harness: Harness, token: str) -> Bearer:
    bearer = harness.edge.tokens.check(token, now_s=0)
    assert bearer is not None
    return bearer


async def test_a_stolen_token_ends_with_all_others_of_its_player(harness: Harness):
    """It is refused by each route of players, and by an honest submission that it comes with; the new one is taken."""
    private, stolen, other = await registered(harness), await harness.new_player(), await harness.new_player()
    run, claim = await harness.played(stolen)
    fresh = await ended(harness, stolen)
    told = {}
    for route in ROUTES:
        if route.caller is Caller.PLAYER and not route.is_stream:
            sent = request_for(harness, private, route)
            sent.headers |= {"Authorization": f"Bearer {stolen}"}
            answer = await harness.send(sent)
            told[route.method, route.path] = (answer.status, answer.problem)
    joins = {
        ("GET", "/v1/boards/{board}/join"),
        ("PUT", "/v1/boards/{board}/join"),
        ("DELETE", "/v1/boards/{board}/join"),
    }
    assert {each: OVER for each in told if each not in joins} == {
        each: told[each] for each in told if each not in joins
    }
    with_token = harness.signed(run, claim)
    with_token.headers["Authorization"] = f"Bearer {stolen}"
    refused = await harness.send(with_token)
    assert OVER == (refused.status, refused.problem)
    assert 202 == (await harness.send(harness.signed(run, claim))).status  # a ticket is no token
    assert [200, 200] == [(await harness.get("/v1/friends", token)).status for token in (fresh, other)]
    assert OVER[0] == (await harness.get("/v1/boards/arcade/entries?friends=true", stolen)).status


async def test_another_edge_knows_of_an_end_by_the_ledger_alone(harness: Harness):
    """It reads once a second, and Redis may be empty; until the first read it asks the ledger about each token."""
    stolen = await harness.new_player()
    elsewhere = EndedTokens(harness.edge.ledger)
    assert not await elsewhere.has_ended(bearer_of(harness, stolen))
    await elsewhere.refresh()
    await ended(harness, stolen)
    await harness.edge.index.client.flushall()
    assert not await elsewhere.has_ended(bearer_of(harness, stolen))
    await elsewhere.refresh()
    assert await elsewhere.has_ended(bearer_of(harness, stolen))
    assert await EndedTokens(harness.edge.ledger).has_ended(bearer_of(harness, stolen))
    assert ended_tokens.REFRESH_S <= 2


async def _merged_into(harness: Harness, token: str) -> str:
    """The id of a merge of a new player into the one of a token."""
    body = json.dumps({"token": await harness.new_player()}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    answer = await harness.send(Request("POST", "/v1/merges", body, headers))
    return str(answer.body["merge"])


async def test_an_edge_that_knows_late_of_an_end_gives_no_way_in_by_an_ended_token(
    harness: Harness, monkeypatch
):
    """Nor does it change what the player has or asked for, in the second before it reads the ends."""
    stolen = (await created(harness, device_key=new_key())).body
    own = (await harness.get("/v1/identities", stolen["token"])).body["identities"]
    parted = await _merged_into(harness, stolen["token"])
    await harness.edge.ledger.write(end_tokens(stolen["player"], Act("cli", harness.clock())))

    async def knows_of_none(ended: EndedTokens, bearer: Bearer) -> bool:
        return False

    monkeypatch.setattr(EndedTokens, "has_ended", knows_of_none)
    thief, bearer = await harness.new_player(), stolen["token"]
    link: Any = {"provider": "device", "credential": new_key()}
    asked = [
        await harness.send(
            Request(
                method,
                path,
                json.dumps(body).encode() if body else b"",
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
        )
        for method, path, body, token in (
            ("POST", "/v1/players/sign-in", link, bearer),
            ("POST", "/v1/recovery-code", None, bearer),
            ("PUT", "/v1/name", {"name": "Eve"}, bearer),
            ("POST", "/v1/merges", {"token": bearer}, thief),
            ("POST", "/v1/merges", {"token": thief}, bearer),
            ("DELETE", f"/v1/identities/{own[0]['identity']}", None, bearer),
            ("DELETE", "/v1/tokens", None, bearer),
            ("DELETE", f"/v1/merges/{parted}", None, bearer),
            ("PUT", "/v1/erasure", None, bearer),
            ("DELETE", "/v1/erasure", None, bearer),
            ("PUT", "/v1/friends/p1", None, bearer),
            ("DELETE", "/v1/friends/p1", None, bearer),
        )
    ]
    assert [OVER] * 12 == [(answer.status, answer.problem) for answer in asked]
    assert own == (await harness.get("/v1/identities", bearer)).body["identities"]


async def test_nobody_appeals_by_a_token_that_was_ended_meanwhile(harness: Harness, monkeypatch):
    """The transaction that would store what the thief says looks again; a token of after the end is taken."""
    run = await a_held_run(harness)
    await by(harness, run, "reject", "mara")

    async def knows_of_none(ended: EndedTokens, bearer: Bearer) -> bool:
        return False

    with monkeypatch.context() as late:
        fresh = await ended(harness, run.token)
        late.setattr(EndedTokens, "has_ended", knows_of_none)
        answer = await say(harness, run, "appeal", "not me")
    assert OVER == (answer.status, answer.problem)
    assert 200 == (await say(harness, run, "appeal", "it was me", fresh)).status
    history = await harness.edge.ledger.read(queries.history_of(run.id))
    assert ["it was me"] == [each["detail"]["text"] for each in history if each["reason"] == "appealed"]


async def test_the_end_of_one_players_tokens_is_nobody_elses(harness: Harness, monkeypatch):
    """Players who share a bit are told apart by the ledger, also once its answers are no longer kept."""
    monkeypatch.setattr(ended_tokens, "KEPT", 1)
    shared = EndedTokens(harness.edge.ledger, bits=8)
    await shared.refresh()
    tokens = [await harness.new_player() for _ in range(20)]
    gone = [
        await harness.edge.ledger.write(end_tokens(bearer_of(harness, token).subject, Act("player:x", 1)))
        for token in tokens[:10]
    ]
    await shared.refresh()
    for _ in range(2):
        assert [True] * 10 + [False] * 10 == [
            await shared.has_ended(bearer_of(harness, token)) for token in tokens
        ]
    assert {1} == {ending.generation for ending in gone}


async def test_a_token_that_tells_no_generation_is_good_until_an_end_after_it(harness: Harness):
    """Those of earlier releases, and of a studio's own making, stay valid; they are judged by when they were issued."""
    player, now_s = await player_of(harness, "Ada"), harness.clock() // 1000
    old = Bearer(player, Role.PLAYER, now_s + 3600)
    token = harness.edge.tokens.mint(old, now_s=now_s - 60)
    assert 200 == (await harness.get("/v1/friends", token)).status
    fresh = await ended(harness, token)
    assert 401 == (await harness.get("/v1/friends", token)).status
    later = harness.edge.tokens.mint(replace(old, generation=None), now_s=now_s + 60)
    again = await ended(harness, fresh)
    assert [200, 200] == [(await harness.get("/v1/friends", each)).status for each in (later, again)]


async def test_an_end_is_an_event_of_the_player(harness: Harness):
    """By whom and which generation, and nothing of the token; a moderator's is in the trail."""
    token = await harness.new_player()
    player, moderator = bearer_of(harness, token).subject, harness.moderator()
    headers = {"Authorization": f"Bearer {moderator}"}
    answer = await harness.send(Request("DELETE", f"/v1/moderation/players/{player}/tokens", b"", headers))
    assert (200, player) == (answer.status, answer.body["player"])
    assert 401 == (await harness.get("/v1/friends", token)).status
    trail = await harness.get(f"/v1/moderation/trail?player={player}", moderator)
    [event] = trail.body["events"]
    assert ("tokens-ended", {"generation": 1}) == (event["reason"], event["detail"])


async def test_M01_nobody_ends_the_tokens_of_their_own_player_as_a_moderator(harness: Harness):
    """They have a way of their own, which leaves the event of a player."""
    token = await harness.new_player()
    player = bearer_of(harness, token).subject
    headers = {"Authorization": f"Bearer {harness.moderator(name=player)}"}
    answer = await harness.send(Request("DELETE", f"/v1/moderation/players/{player}/tokens", b"", headers))
    assert (403, "self-approval") == (answer.status, answer.problem)
    assert 200 == (await harness.get("/v1/friends", token)).status


async def test_an_end_is_logged_with_who_made_it(harness: Harness):
    """The player, or the moderator by name."""
    token = await harness.new_player()
    player, moderator = bearer_of(harness, token).subject, harness.moderator(name="mara")
    with logged(own_tokens, tokens_of_players) as lines:
        await ended(harness, token)
        headers = {"Authorization": f"Bearer {moderator}"}
        await harness.send(Request("DELETE", f"/v1/moderation/players/{player}/tokens", b"", headers))
    logged_ends = lines_of(lines, "tokens_ended")
    assert [(player, "player"), (player, "mara")] == [(each["player"], each["by"]) for each in logged_ends]


async def test_each_further_end_of_one_players_tokens_is_known_too(harness: Harness):
    """The tokens of between two ends are over after the second, on an edge that knows the first; an older note, which comes late, changes nothing."""
    token = await harness.new_player()
    player = bearer_of(harness, token).subject
    elsewhere = EndedTokens(harness.edge.ledger)
    endings, between = [], []
    for _ in range(3):
        endings.append(await harness.edge.ledger.write(end_tokens(player, Act("player:x", harness.clock()))))
        await elsewhere.refresh()
        between.append(replace(bearer_of(harness, token), generation=endings[-1].generation))
        assert [*[True] * (len(between) - 1), False] == [await elsewhere.has_ended(each) for each in between]
    elsewhere.note(endings[0])
    assert await elsewhere.has_ended(between[1])


async def test_an_end_that_is_made_while_the_ledger_is_asked_is_not_forgotten(harness: Harness, monkeypatch):
    """The answer of before is not kept, even if what was heard meanwhile is kept no longer."""
    monkeypatch.setattr(ended_tokens, "KEPT", 1)
    bearers = [bearer_of(harness, await harness.new_player()) for _ in range(2)]
    shared = EndedTokens(harness.edge.ledger, bits=8)
    answer = harness.edge.ledger.read

    async def ends_meanwhile(*asked: Any) -> Any:
        found = await answer(*asked)
        monkeypatch.setattr(harness.edge.ledger, "read", answer)
        for bearer in bearers:
            await harness.edge.ledger.write(end_tokens(bearer.subject, Act("player:x", harness.clock())))
        await shared.refresh()
        return found

    monkeypatch.setattr(harness.edge.ledger, "read", ends_meanwhile)
    assert not await shared.has_ended(bearers[0])
    assert await shared.has_ended(bearers[0])


async def test_what_the_ledger_said_of_a_player_holds_while_it_cannot_be_read(harness: Harness, monkeypatch):
    """It was asked about once, and answers no more: an ended token stays over, and an honest one good."""
    gone, honest = [bearer_of(harness, await harness.new_player()) for _ in range(2)]
    await harness.edge.ledger.write(end_tokens(gone.subject, Act("player:x", harness.clock())))
    new_edge = EndedTokens(harness.edge.ledger)
    assert [True, False] == [await new_edge.has_ended(each) for each in (gone, honest)]

    async def away(*asked: Any) -> None:
        raise LedgerUnavailable

    monkeypatch.setattr(harness.edge.ledger, "read", away)
    assert [True, False] == [await new_edge.has_ended(each) for each in (gone, honest)]


def test_a_token_that_tells_no_generation_is_judged_by_its_second():
    """One of the very second in which tokens were ended is over: it may have been issued before."""
    ending = TokenEnding("p1", generation=1, ended_at_ms=5_500, changed_seq=1)
    assert [True, True, False] == [ending.ends(None, issued_at_s) for issued_at_s in (4, 5, 6)]
    assert [True, False] == [ending.ends(generation, 4) for generation in (0, 1)]
