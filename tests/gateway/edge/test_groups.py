"""Boards of groups: they follow scores and memberships exactly, are rebuilt and compared, and say who may say what."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gateway.edge.auth.ended_tokens import EndedTokens
from gateway.edge.routes import ROUTES, Caller
from gateway.index import keys
from gateway.index.inspection import Inspection
from gateway.ledger.acts import Act
from gateway.ledger.players.memberships import change_membership
from gateway.ledger.players.token_endings import end_tokens
from gateway.runtime.settings import Settings
from gateway.steward.index.check import check
from gateway.steward.index.comparison.difference import BoardView, Kind
from gateway.steward.index.rebuild import Rebuilder
from policies.errors import PolicyError
from policies.loader import load_board
from tests.support.attack import assert_reused, registered
from tests.support.groups import BOARDS, by_server, call, fill, ranks, token_of
from tests.support.harness import Answer, Harness, free_port
from tests.support.policies import a_policy, arcade_policy, write_policies
from tests.support.valkey import ValkeyServer

SCORES = {f"p{n}": n * 10 for n in range(1, 7)}


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", arcade_policy(), *BOARDS)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def group(harness: Harness, name: str, query: str = "", board: str = "vault") -> Answer:
    return await harness.get(f"/v1/boards/{board}/entries?segment={name}{query}")


async def put(
    harness: Harness, key, player: str, operation: str = "", board: str = "vault", **segments
) -> Answer:
    body = {
        "operation": operation or f"{player}-{random.getrandbits(60)}",
        "player": player,
        "segments": segments,
    }
    return await harness.send(by_server(harness, key, "POST", f"/v1/boards/{board}/memberships", body))


async def declare(
    harness: Harness, player: str, segment: str, value: str | None, board: str = "vault"
) -> Answer:
    path = f"/v1/boards/{board}/memberships/{segment}"
    return await call(harness, "PUT", path, token_of(harness, player), {"value": value})


def view_of(harness: Harness, board: str = "vault") -> BoardView:
    edge = harness.edge
    inspection = Inspection(edge.index.client, board)
    return BoardView(
        edge.ledger,
        edge.index.of(edge.catalogue.of_files[board]),
        inspection,
        edge.catalogue.of_files[board].policy,
        harness.clock,
    )


async def differences(harness: Harness, *, is_repaired: bool = False) -> list[Kind]:
    checked = await check(view_of(harness), is_repaired=is_repaired, in_flight_s=0)
    assert checked.failure is None
    return sorted(each.kind for each in checked.differences)


async def test_a_group_has_its_players_by_rank_in_every_window(harness: Harness):
    """Who is in it before the score and who comes after, by page and around one of them, now and in each window."""
    key = await registered(harness)
    for player in ("p1", "p2"):
        assert 200 == (await put(harness, key, player, country="de", club="reds")).status
    await fill(harness, key, "vault", SCORES)
    assert 200 == (await put(harness, key, "p5", country="de")).status
    for window in ("alltime", "daily", "weekly", "monthly"):
        page = await group(harness, "country:de", f"&window={window}")
        assert [(1, "p5", 2), (2, "p2", 5), (3, "p1", 6)] == ranks(page)
    assert [(1, "p2", 5), (2, "p1", 6)] == ranks(await group(harness, "club:reds"))
    assert [(2, "p2", 5)] == ranks(await group(harness, "country:de", "&offset=1&limit=1"))
    around = "/v1/boards/vault/entries/{}/around?segment=country:de&radius=1"
    assert [(2, "p2", 5), (3, "p1", 6)] == ranks(await harness.get(around.format("p1")))
    assert (404, False) == ((gone := await harness.get(around.format("p6"))).status, gone.body["ranked"])
    assert (0, []) == ((empty := (await group(harness, "country:fr")).body)["total"], empty["entries"])


async def test_a_player_moves_between_groups_with_all_they_have(harness: Harness, valkey: ValkeyServer):
    """From one club to another and out again: nothing stays behind, and a better score goes to the new one alone."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await put(harness, key, "p3", club="reds")
    await put(harness, key, "p4", club="reds")
    moved = await put(harness, key, "p3", club="blues")
    assert {"club": "blues"} == moved.body["segments"]
    assert [(1, "p4", 3)] == ranks(await group(harness, "club:reds"))
    await fill(harness, key, "vault", {"p3": 500})
    assert [(1, "p3", 1)] == ranks(await group(harness, "club:blues"))
    removal = {"operation": "r-1", "player": "p3"}
    await harness.send(by_server(harness, key, "POST", "/v1/boards/vault/removals", removal))
    assert [] == ranks(await group(harness, "club:blues"))
    await fill(harness, key, "vault", {"p3": 5})
    assert [(1, "p3", 6)] == ranks(await group(harness, "club:blues"))
    assert {} == (await put(harness, key, "p3", club=None)).body["segments"]
    assert [] == ranks(await group(harness, "club:blues"))
    with valkey.client() as client:
        assert [] == client.keys("lb:{33}:vault:segment:club:blues:*")
        for kind in ("daily", "weekly", "monthly"):
            [held] = client.keys(f"lb:{{33}}:vault:segment:club:reds:{kind}:*")
            window = held.removeprefix("lb:{33}:vault:segment:club:reds:")
            assert client.pexpiretime(keys.window("vault", window)) == client.pexpiretime(held)
    assert [] == await differences(harness)


async def test_players_say_what_the_policy_lets_them_say(harness: Harness):
    """A country, themselves; a club, never; nothing that the board does not declare; and what is said is shown."""
    assert {"country": "de"} == (await declare(harness, "ada", "country", "de")).body["segments"]
    refused = await declare(harness, "ada", "club", "reds")
    assert (403, "scope-forbidden") == (refused.status, refused.problem)
    assert "not-found" == (await declare(harness, "ada", "planet", "mars")).problem
    for wrong in ("DE", "", "a" * 33, "de:x", 7):
        assert "schema-violation" == (await declare(harness, "ada", "country", wrong)).problem
    of_before = change_membership("vault", "ada", {"planet": "mars"})  # as the policy once had it
    await harness.edge.ledger.write(of_before)
    shown = await harness.get("/v1/boards/vault/players/ada/memberships")
    assert {"board": "vault", "player": "ada", "segments": {"country": "de"}} == shown.body
    assert {} == (await declare(harness, "ada", "country", None)).body["segments"]
    assert (
        "token-invalid"
        == (await call(harness, "PUT", "/v1/boards/vault/memberships/country", "", {"value": "de"})).problem
    )


async def test_servers_say_once_and_what_is_declared(harness: Harness):
    """A resend changes nothing, in whatever order its groups are; another content is refused, and so is a segment that is not the board's."""
    key = await registered(harness)
    first = await put(harness, key, "ada", "m-1", country="de", club="reds")
    await declare(harness, "ada", "country", "fr")
    again = await put(harness, key, "ada", "m-1", club="reds", country="de")
    assert 200 == again.status, again.raw
    assert ("true", {"country": "fr", "club": "reds"}) == (
        again.headers["Idempotency-Replayed"],
        again.body["segments"],
    )
    assert 200 == first.status
    assert_reused("m-1", await put(harness, key, "ada", "m-1", country="us"))
    assert "schema-violation" == (await put(harness, key, "ada", planet="mars")).problem
    assert "schema-violation" == (await put(harness, key, "ada", board="lap", country="de")).problem
    for wrong in (
        "country",
        "country:",
        "country:DE",
        "planet:mars",
        ":de",
        "country:de&friends=true",
        "country:de&ranks=dense",
    ):
        assert "schema-violation" == (await group(harness, wrong)).problem
    assert "schema-violation" == (await group(harness, "country:de", board="lap")).problem


async def test_groups_are_what_board_and_memberships_are_whatever_happens(harness: Harness):
    """Random scores, removals and moves: each group is the whole board with everybody else left out."""
    key, chance = await registered(harness), random.Random(11)
    club_of: dict[str, str | None] = {}
    for turn in range(50):
        player, kind = f"p{chance.randrange(6)}", chance.random()
        if kind < 0.5:
            await fill(harness, key, "vault", {player: chance.randrange(60)})
        elif kind < 0.65:
            removal = {"operation": f"r-{turn}", "player": player}
            await harness.send(by_server(harness, key, "POST", "/v1/boards/vault/removals", removal))
        else:
            club_of[player] = chance.choice(["reds", "blues", None])
            await put(harness, key, player, club=club_of[player])
        whole = (await harness.get("/v1/boards/vault/entries?window=daily")).body["entries"]
        for club in ("reds", "blues"):
            due = [(each["player"], each["rank"]) for each in whole if club_of.get(each["player"]) == club]
            found = ranks(await group(harness, f"club:{club}", "&window=daily"))
            assert [(n, *each) for n, each in enumerate(due, 1)] == found
    assert [] == await differences(harness)


async def test_groups_are_rebuilt_from_the_ledger(harness: Harness, valkey: ValkeyServer):
    """After the index was wiped, and after a rebuild of a whole one, groups are as they were."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    for player in ("p1", "p4"):
        await put(harness, key, player, club="reds")
    expected = ranks(await group(harness, "club:reds"))
    with valkey.client() as client:
        client.flushall()
    await harness.steward().reconcile()
    assert expected == ranks(await group(harness, "club:reds"))
    view = view_of(harness)
    await Rebuilder(view.ledger, view.index, view.policy, clock=harness.clock).rebuild()
    assert expected == ranks(await group(harness, "club:reds"))
    assert [] == await differences(harness)


async def test_what_differs_in_groups_is_named_and_put_right(harness: Harness, valkey: ValkeyServer):
    """A member that is gone, one of a stranger, a membership of nobody, and a board of a group that there is not."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await put(harness, key, "p1", club="reds")
    expected = ranks(await group(harness, "club:reds"))
    board = keys.segment("vault", "club", "reds", "alltime")
    with valkey.client() as client:
        [member] = client.zrange(board, 0, 0)
        client.zrem(board, member)
        client.zadd(board, {"f" * 22 + ":p6": -1000})
        client.hset(keys.memberships("vault"), "p2", "9 club:reds")
        client.zadd(keys.segment("vault", "planet", "mars", "alltime"), {"x": 1})
        client.set(keys.segment("vault", "club", "reds", "daily:19990101"), "x")
    found = await differences(harness, is_repaired=True)
    assert {Kind.MISSING_GROUP, Kind.FORGED_GROUP, Kind.WRONG_MEMBERSHIP, Kind.FORGED_KEY} == set(found)
    assert expected == ranks(await group(harness, "club:reds"))
    assert [] == await differences(harness)


async def test_a_move_that_redis_missed_is_made_by_the_steward(harness: Harness, valkey: ValkeyServer):
    """The membership is durable, so comparing brings it to the index."""
    key = await registered(harness)
    await fill(harness, key, "vault", SCORES)
    await put(harness, key, "p1", club="reds")
    with valkey.client() as client:
        client.hdel(keys.memberships("vault"), "p1")
    await harness.edge.index.of(harness.edge.catalogue.of_files["vault"]).segments.follow("p1", ["alltime"])
    assert [] == ranks(await group(harness, "club:reds"))
    await differences(harness, is_repaired=True)
    assert [(1, "p1", 6)] == ranks(await group(harness, "club:reds"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segments": ["club", "club"]}, "each segment may be named once"),
        ({"segments": ["club"], "self_declared": ["country"]}, "country is not among the segments"),
        ({"segments": ["Club"]}, "segments"),
        ({"staleness_s": 5}, "operator: sum"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(tmp_path: Path, changes, message):
    """The loader says what is wrong with segments and staleness."""
    folder = write_policies(tmp_path, a_policy("odd", writes="trusted", **changes))
    with pytest.raises(PolicyError, match=message):
        load_board(folder / "odd.yaml")


async def league(harness: Harness, window: str = "alltime") -> list[tuple[str, int]]:
    page = (await harness.get(f"/v1/boards/league/entries?window={window}")).body
    return [(each["player"], each["score"]) for each in page["entries"]]


async def join(harness: Harness, player: str, method: str = "PUT", board: str = "league") -> Answer:
    return await call(harness, method, f"/v1/boards/{board}/join", token_of(harness, player))


async def test_a_score_counts_where_its_player_joined_and_hides_when_they_leave(harness: Harness):
    """What was scored before, meanwhile and after comes back whole with joining, as often as that happens."""
    key = await registered(harness)
    await fill(harness, key, "league", {"ada": 10, "bob": 20})
    assert [] == await league(harness)
    for player in ("ada", "bob", "ada"):
        assert {"board": "league", "player": player, "joined": True} == (await join(harness, player)).body
    assert [("bob", 20), ("ada", 10)] == await league(harness)
    assert {"board": "league", "player": "bob", "joined": False} == (
        await join(harness, "bob", "DELETE")
    ).body
    assert [("ada", 10)] == await league(harness) == await league(harness, "alltime")
    await fill(harness, key, "league", {"bob": 30, "ada": 15})
    assert [("ada", 15)] == await league(harness)
    assert False is (await join(harness, "bob", "GET")).body["joined"]
    await join(harness, "bob")
    await fill(harness, key, "league", {"bob": 5})
    assert [("bob", 30), ("ada", 15)] == await league(harness)


async def test_leaving_right_after_scoring_shows_at_once(harness: Harness):
    """The newest event of the whole ledger is the player's own: leaving, which has no event, shows all the same."""
    key = await registered(harness)
    await join(harness, "ada")
    await fill(harness, key, "league", {"ada": 10})
    await join(harness, "ada", "DELETE")
    assert [] == await league(harness)
    await join(harness, "ada")
    assert [("ada", 10)] == await league(harness)
    checked = await check(view_of(harness, "league"), is_repaired=False, in_flight_s=0)
    assert ((), None) == (checked.differences, checked.failure)


async def test_leaving_is_seen_by_a_rebuild_and_without_redis(harness: Harness, valkey: ValkeyServer):
    """The ledger knows who is on the board: what the index missed is put right by the steward."""
    key = await registered(harness)
    for player, score in (("ada", 10), ("bob", 20)):
        await join(harness, player)
        await fill(harness, key, "league", {player: score})
    await join(harness, "ada", "DELETE")
    with valkey.client() as client:
        client.flushall()
    await harness.steward().reconcile()
    assert [("bob", 20)] == await league(harness)


async def test_servers_have_players_join_and_boards_without_joins_refuse(harness: Harness):
    """Once by operation id, for the boards of the key; a board that everybody is on is neither joined nor left."""
    key, other = await registered(harness), await registered(harness, "eu-2", "lap")
    await fill(harness, key, "league", {"ada": 10})
    said = {"operation": "j-1", "player": "ada", "joined": True}
    path = "/v1/boards/league/joins"
    for replay in (None, "true"):
        answer = await harness.send(by_server(harness, key, "POST", path, said))
        assert (200, replay) == (answer.status, answer.headers.get("Idempotency-Replayed"))
    assert [("ada", 10)] == await league(harness)
    other_content = by_server(harness, key, "POST", path, said | {"joined": False})
    assert_reused("j-1", await harness.send(other_content))
    assert (
        "scope-forbidden"
        == (await harness.send(by_server(harness, other, "POST", path, said, key_id="eu-2"))).problem
    )
    await harness.send(by_server(harness, key, "POST", path, said | {"operation": "j-2", "joined": False}))
    assert [] == await league(harness)
    for method in ("GET", "PUT", "DELETE"):
        assert "state-conflict" == (await join(harness, "ada", method, "vault")).problem
        assert "not-found" == (await join(harness, "ada", method, "nowhere")).problem


async def test_nothing_that_players_have_changes_by_a_token_that_was_just_ended(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """An edge hears of an end a second late, so each change looks for it in the transaction that stores it."""
    token = await harness.new_player()
    bearer = harness.edge.tokens.check(token, now_s=0)
    assert bearer is not None
    await harness.edge.ledger.write(end_tokens(bearer.subject, Act("cli", harness.clock())))

    async def knows_of_none(*_: object) -> bool:
        return False

    monkeypatch.setattr(EndedTokens, "has_ended", knows_of_none)
    changes = [
        (each.method, each.path.format(player="bob", segment="country", board="{board}"))
        for each in ROUTES
        if each.caller is Caller.PLAYER
        and each.method in {"PUT", "DELETE"}
        and not {"{submission}", "{identity}", "{merge}"} & set(each.path.split("/"))
    ]
    for method, path in changes:
        board = "league" if path.endswith("join") else "vault"
        body = {"name": "Ada"} if path.endswith("name") else {"value": "de"}
        answer = await call(harness, method, path.format(board=board), token, body)
        assert (401, "token-invalid") == (answer.status, answer.problem), path
    assert 9 == len(changes)


async def test_whatever_players_change_about_themselves_is_limited(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Friends, groups and boards they join: each change is a commit, and asks the same limits first, of player and address."""
    token = token_of(harness, "ada")

    async def used_up(*_who: str) -> int:
        return 1000

    changes = [
        (each.method, each.path.format(player="bob", segment="country", merge="m0", board="{board}"))
        for each in ROUTES
        if each.caller is Caller.PLAYER
        and each.method in {"PUT", "DELETE"}
        and not {"{submission}", "{identity}"} & set(each.path.split("/"))
    ]
    for limit in (harness.edge.profile_limit, harness.edge.profile_changes):
        with monkeypatch.context() as patched:
            patched.setattr(limit, "wait_ms", used_up)
            for method, path in changes:
                board = "league" if path.endswith("join") else "vault"
                body = {"name": "Ada"} if path.endswith("name") else {"value": "de"}
                answer = await call(harness, method, path.format(board=board), token, body)
                assert (429, "quota-exceeded") == (answer.status, answer.problem), path
    assert 10 == len(changes)
