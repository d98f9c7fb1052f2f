"""Whom players follow, and boards among friends and of players by their ids: exact, at once, and of the asking player alone."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from gateway.index import keys
from gateway.ledger.players.friends import FRIENDS_LIMIT
from gateway.runtime.settings import Settings
from tests.support.attack import assert_reused, registered
from tests.support.groups import BOARDS, by_server, call, fill, ranks, token_of
from tests.support.harness import Answer, Harness, free_port
from tests.support.policies import arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORES = {f"p{n}": n * 10 for n in range(1, 10)}


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", arcade_policy(), *BOARDS)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def among(harness: Harness, player: str, query: str = "", board: str = "vault") -> Answer:
    return await harness.get(f"/v1/boards/{board}/entries?friends=true{query}", token_of(harness, player))


async def follow(harness: Harness, player: str, *friends: str) -> None:
    for friend in friends:
        answer = await call(harness, "PUT", f"/v1/friends/{friend}", token_of(harness, player))
        assert 200 == answer.status, answer.raw


async def bring(
    harness: Harness, key, player: str, friends: list[str], operation: str = "f-1", **how
) -> Answer:
    body = {"operation": operation, "friends": friends}
    return await harness.send(by_server(harness, key, "PUT", f"/v1/players/{player}/friends", body, **how))


async def test_a_player_follows_and_unfollows_and_lists_them(harness: Harness):
    """Twice does no more, the list is by id with names, and following is of one direction."""
    ada = token_of(harness, "ada")
    bob = (await harness.post("/v1/players", {"name": "Bob"})).body["player"]
    await follow(harness, "ada", "zoe", bob, bob)
    listed = await harness.get("/v1/friends", ada)
    assert [(bob, "Bob"), ("zoe", "zoe")] == [(e["player"], e["name"]) for e in listed.body["friends"]]
    for _ in range(2):
        gone = await call(harness, "DELETE", "/v1/friends/zoe", ada)
        assert (200, {"player": "ada", "total": 1}) == (gone.status, gone.body)
    assert 0 == (await harness.get("/v1/friends", token_of(harness, bob))).body["total"]


async def test_a_list_has_its_bounds(harness: Harness):
    """Oneself and what is no id cannot be followed, a full list takes nobody more, and nobody asks without a token."""
    ada, key = token_of(harness, "ada"), await registered(harness)
    for path in ("/v1/friends/ada", "/v1/friends/a.b", f"/v1/friends/{'a' * 65}"):
        assert "not-found" == (await call(harness, "PUT", path, ada)).problem
    assert 200 == (await bring(harness, key, "ada", [f"f{n}" for n in range(FRIENDS_LIMIT)])).status
    full = await call(harness, "PUT", "/v1/friends/one-more", ada)
    assert (409, "list-full") == (full.status, full.problem)
    assert 200 == (await call(harness, "PUT", "/v1/friends/f7", ada)).status
    too_many = await bring(harness, key, "ada", [f"f{n}" for n in range(FRIENDS_LIMIT + 1)], "f-2")
    assert "schema-violation" == too_many.problem
    assert "token-invalid" == (await harness.get("/v1/friends")).problem
    assert "token-invalid" == (await harness.get("/v1/boards/vault/entries?friends=true")).problem
    assert "scope-forbidden" == (await harness.get("/v1/friends", harness.moderator())).problem


async def test_a_server_replaces_a_whole_list_once(harness: Harness):
    """The list is what was said last, a resend is one, and the same operation id for another list is refused."""
    key = await registered(harness)
    first = await bring(harness, key, "ada", ["bob", "eve", "ada", "bob"])
    assert (200, {"player": "ada", "total": 2}) == (first.status, first.body)
    again = await bring(harness, key, "ada", ["eve", "bob"])
    assert (first.raw, "true") == (again.raw, again.headers.get("Idempotency-Replayed"))
    assert_reused("f-1", await bring(harness, key, "ada", ["mel"]))
    assert 200 == (await bring(harness, key, "ada", ["mel"], "f-2")).status
    listed = await harness.get("/v1/friends", token_of(harness, "ada"))
    assert ["mel"] == [each["player"] for each in listed.body["friends"]]


async def test_the_order_of_a_list_does_not_make_it_another(harness: Harness):
    """A resend is the same whatever order its friends are in, also if another edge answers it."""
    key, friends = await registered(harness), [f"f{number}" for number in range(40)]
    assert 200 == (await bring(harness, key, "ada", friends)).status
    again = await bring(harness, key, "ada", friends[::-1])
    assert (200, "true") == (again.status, again.headers.get("Idempotency-Replayed"))


async def test_T01_lists_are_for_keys_of_every_board(harness: Harness):
    """A key of one board changes no list, for that would show on the others; nor does a nonce that was used."""
    key, every = await registered(harness, "eu-2", "vault"), await registered(harness)
    refused = await bring(harness, key, "ada", ["bob"], key_id="eu-2")
    assert (403, "scope-forbidden") == (refused.status, refused.problem)
    assert 200 == (await bring(harness, every, "ada", ["bob"], nonce="n" * 24)).status
    assert "nonce-reused" == (await bring(harness, every, "ada", ["mel"], "f-2", nonce="n" * 24)).problem


async def test_a_board_among_friends_has_both_ranks(harness: Harness):
    """Ranks among them beside those of the board, by page and around one of them, on either order of scores."""
    key = await registered(harness)
    for board in ("vault", "lap"):
        await fill(harness, key, board, SCORES)
    await follow(harness, "p5", "p1", "p8", "p9", "nobody")
    page = await among(harness, "p5")
    assert [(1, "p9", 1), (2, "p8", 2), (3, "p5", 5), (4, "p1", 9)] == ranks(page)
    assert (4, 50) == (page.body["total"], page.body["entries"][2]["score"])
    assert [(2, "p8", 2), (3, "p5", 5)] == ranks(await among(harness, "p5", "&offset=1&limit=2"))
    assert [(1, "p1", 1), (2, "p5", 5)] == ranks(await among(harness, "p5", "&limit=2", "lap"))
    around = "/v1/boards/vault/entries/{}/around?friends=true&radius=1"
    p5 = token_of(harness, "p5")
    assert [(2, "p8", 2), (3, "p5", 5), (4, "p1", 9)] == ranks(await harness.get(around.format("p5"), p5))
    for stranger in ("p7", "nobody"):
        absent = await harness.get(around.format(stranger), p5)
        assert (404, False) == (absent.status, absent.body["ranked"])
    listed = await harness.get("/v1/boards/vault/entries/p5/around?players=p5")
    assert "schema-violation" == listed.problem
    assert [(1, "p2", 8)] == ranks(await among(harness, "p2"))
    assert "private" in page.headers["Cache-Control"]


async def test_a_change_of_scores_or_friends_shows_at_once(harness: Harness, valkey: ValkeyServer):
    """The circle is kept, yet the next page has what was written since: a better score, a removal, a new friend."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await follow(harness, "p5", "p1", "p8")
    assert [(1, "p8", 2), (2, "p5", 5), (3, "p1", 9)] == ranks(await among(harness, "p5"))
    await fill(harness, key, "vault", {"p1": 900, "p7": 950})
    assert [(1, "p1", 2), (2, "p8", 4), (3, "p5", 6)] == ranks(await among(harness, "p5"))
    removal = {"operation": "r-1", "player": "p8"}
    await harness.send(by_server(harness, key, "POST", "/v1/boards/vault/removals", removal))
    assert [(1, "p1", 2), (2, "p5", 5)] == ranks(await among(harness, "p5"))
    await fill(harness, key, "vault", {"p8": 1})
    assert [(1, "p1", 2), (2, "p5", 5), (3, "p8", 9)] == ranks(await among(harness, "p5"))
    await harness.send(
        by_server(harness, key, "POST", "/v1/boards/vault/removals", removal | {"operation": "r-2"})
    )
    await follow(harness, "p5", "p7")
    assert [(1, "p7", 1), (2, "p1", 2), (3, "p5", 5)] == ranks(await among(harness, "p5"))
    with valkey.client() as client:
        circle = keys.circle("vault", "p5", 3, "alltime")
        assert 0 < client.pttl(circle) <= 10_000
        assert 0 < client.pttl(keys.circle_members("vault", "p5", 3, "alltime")) <= 10_000


async def test_a_circle_of_nobody_expires_when_somebody_comes(harness: Harness, valkey: ValkeyServer):
    """Nobody of a circle stands at first: the set that the first of them makes goes by itself as well."""
    key = await registered(harness)
    await fill(harness, key, "vault", {"p9": 5})
    assert [] == ranks(await among(harness, "p5"))
    await fill(harness, key, "vault", {"p5": 1})
    assert [(1, "p5", 2)] == ranks(await among(harness, "p5"))
    with valkey.client() as client:
        assert 0 < client.pttl(keys.circle("vault", "p5", 0, "alltime")) <= 10_000


async def test_a_circle_survives_more_changes_than_are_replayed(harness: Harness):
    """After hundreds of changes, and after a repair that no stream tells of, everybody is looked up anew."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await follow(harness, "p5", "p1")
    await among(harness, "p5")
    await fill(harness, key, "vault", {f"q{n}": n for n in range(150)} | {"p1": 5000})
    assert [(1, "p1", 1), (2, "p5", 105)] == ranks(await among(harness, "p5"))
    await harness.edge.index.client.zremrangebyrank(keys.window("vault", "alltime"), 0, 0)
    assert [(1, "p5", 104)] == ranks(await among(harness, "p5"))


async def test_a_friend_who_comes_with_more_changes_than_are_replayed_is_seen(harness: Harness):
    """Who stood nowhere before left nothing by which the page could tell that it is old."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await follow(harness, "p5", "p1", "zoe")
    await among(harness, "p5")
    await fill(harness, key, "vault", {f"q{n}": n for n in range(100)} | {"zoe": 5000})
    assert ["zoe", "p5", "p1"] == [player for _, player, _ in ranks(await among(harness, "p5"))]


async def test_lost_copies_come_back_from_the_ledger(harness: Harness, valkey: ValkeyServer):
    """Wiped and rebuilt, boards and friends are as before; a late copy of an old list replaces none."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await follow(harness, "p5", "p1")
    expected = ranks(await among(harness, "p5"))
    old = await harness.edge.friends.kept("p5")
    await follow(harness, "p5", "p2")
    await harness.edge.friends.keep(old)
    assert 3 == len(ranks(await among(harness, "p5")))
    await call(harness, "DELETE", "/v1/friends/p2", token_of(harness, "p5"))
    with valkey.client() as client:
        client.flushall()
    await harness.steward().reconcile()
    assert expected == ranks(await among(harness, "p5"))


async def test_circles_are_no_differences(harness: Harness):
    """The steward's comparison takes what is kept for friends for what it is, and deletes nothing."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await harness.steward().reconcile()
    await among(harness, "p5")
    steward = harness.steward()
    assert 0 == sum([await steward.reconcile() for _ in range(12)])


@pytest.mark.parametrize("board", ["latest", "packed"])
async def test_a_circle_is_what_the_board_is_whatever_happens(harness: Harness, board: str):
    """Random writes, removals, follows and reads: each page is the whole board with everybody else left out."""
    key, chance = await registered(harness), random.Random(7)
    everybody = [f"p{n}" for n in range(8)]
    followed: set[str] = set()
    for turn in range(40):
        player, kind = chance.choice(everybody), chance.random()
        if kind < 0.5:
            await fill(harness, key, board, {player: chance.randrange(4)})
        elif kind < 0.7:
            removal = {"operation": f"r-{turn}", "player": player}
            await harness.send(by_server(harness, key, "POST", f"/v1/boards/{board}/removals", removal))
        elif player != "p0":
            method, followed = (
                ("DELETE", followed - {player}) if player in followed else ("PUT", followed | {player})
            )
            await call(harness, method, f"/v1/friends/{player}", token_of(harness, "p0"))
        whole = (await harness.get(f"/v1/boards/{board}/entries")).body["entries"]
        due = [(each["player"], each["rank"]) for each in whole if each["player"] in {"p0", *followed}]
        assert [(n, *each) for n, each in enumerate(due, 1)] == ranks(await among(harness, "p0", board=board))


async def test_players_are_looked_up_by_their_ids(harness: Harness):
    """One call tells where each stands and who does not; a hundred at most, and each must be an id."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    answer = await harness.get("/v1/boards/vault/entries?players=p2,stranger,p9,p2&window=daily")
    assert [(1, "p9", 1), (2, "p2", 8)] == ranks(answer)
    assert (2, ["stranger"]) == (answer.body["total"], answer.body["unranked"])
    most = ",".join(f"x{n}" for n in range(100))
    assert 100 == len((await harness.get(f"/v1/boards/vault/entries?players={most}")).body["unranked"])
    for wrong in (
        f"players={most},one-more",
        "players=",
        "players=a,,b",
        "players=a%20b",
        "friends=yes",
        "players=a&friends=true",
    ):
        assert "schema-violation" == (await harness.get(f"/v1/boards/vault/entries?{wrong}")).problem


async def test_follows_at_once_lose_none(harness: Harness):
    """Ten changes of one list at the same moment are ten changes."""
    await asyncio.gather(*(follow(harness, "ada", f"f{n}") for n in range(10)))
    kept = await harness.edge.friends.kept("ada")
    assert (10, {f"f{n}" for n in range(10)}) == (kept.version, set(kept.friends))
