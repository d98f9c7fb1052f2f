"""A board with `exact_ranks` over HTTP: exact at the top, and below it estimates that state their error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.index import keys
from gateway.ledger import queries
from gateway.runtime.settings import Settings
from policies import model
from tests.attacks.test_bans import ban
from tests.support.attack import as_server, registered
from tests.support.groups import by_server
from tests.support.harness import Harness, free_port
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer

PLAYERS = 30


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(model, "RANKS_TO_LOSE", 2)
    boards = [
        a_policy("vault", writes="trusted", exact_ranks=10),
        a_policy("dash", writes="trusted", exact_ranks=10, order="ascending"),
    ]
    folder = write_policies(tmp_path / "policies", *boards)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


async def fill(harness: Harness, board: str = "vault", *, is_sketched: bool = True) -> Ed25519PrivateKey:
    """Players p0 to p29, with ten times as many points; gives the key of the server that wrote them."""
    steward, key = harness.steward(), await registered(harness)
    await steward.reconcile()
    for at in range(PLAYERS):
        entry = {"operation": f"{board}-{at}", "player": f"p{at}", "score": 10 * at}
        assert 202 == (await as_server(harness, key, entry, board=board)).status
    while is_sketched and await steward.keep_tails():
        pass
    return key


async def read(harness: Harness, path: str, source: str | None) -> Any:
    answer = await harness.get(f"/v1/boards/{path}")
    assert (200, source) == (answer.status, answer.headers.get("Scoregate-Source")), answer.raw
    return answer.body


async def test_the_top_is_exact(harness: Harness):
    """Ranks, percentile and gap of an entry that is kept are those among all."""
    await fill(harness)
    page = await read(harness, "vault/entries?limit=5", None)
    assert (PLAYERS, [1, 2, 3, 4, 5]) == (page["total"], [entry["rank"] for entry in page["entries"]])
    entry = await read(harness, "vault/entries/p26", None)
    assert (4, 90.0, 0.0, 10, PLAYERS) == tuple(
        entry[name] for name in ("rank", "percentile", "percentile_error", "gap", "total")
    )


@pytest.mark.parametrize("board", ["vault", "dash"])
async def test_below_the_top_there_is_a_percentile_with_its_error(harness: Harness, board: str):
    """The score is from the ledger, rank and gap are not told, and the percentile is right within what it states."""
    await fill(harness, board)
    entry = await read(harness, f"{board}/entries/p14", "sketch")
    assert (None, None, 140, "p14", PLAYERS) == tuple(
        entry[name] for name in ("rank", "gap", "score", "name", "total")
    )
    due = 50.0 if board == "vault" else 100 * 16 / 30
    assert 0 < entry["percentile_error"] < 0.5
    assert abs(due - entry["percentile"]) <= entry["percentile_error"]
    absent = await harness.get(f"/v1/boards/{board}/entries/nobody")
    assert (404, False, PLAYERS) == (absent.status, absent.body["ranked"], absent.body["total"])
    assert 404 == (await harness.get(f"/v1/boards/{board}/entries/p14/around")).status


async def test_below_the_top_players_have_their_names_and_whoever_is_gone_has_no_entry(harness: Harness):
    """As at the top: the ledger's standing is told by name, and one whose only score was taken back is none."""
    key = await fill(harness)
    await harness.edge.ledger.write(queries.add_player("p14", "Ada", now_ms=harness.clock()))
    shown = await harness.get("/v1/boards/vault/entries/p14")
    assert ("p14", "Ada", 140) == tuple(shown.body[name] for name in ("player", "name", "score"))
    removal = {"operation": "gone", "player": "p14"}
    path = "/v1/boards/vault/removals"
    removed = await harness.send(by_server(harness, key, "POST", path, removal))
    assert 200 == removed.status, removed.raw
    absent = await harness.get("/v1/boards/vault/entries/p14")
    assert (404, False, PLAYERS - 1) == (absent.status, absent.body["ranked"], absent.body["total"])


async def test_below_the_top_a_shadow_banned_player_has_no_rank_either(harness: Harness):
    """They are counted, on no page, and found with an estimate; so are others, and all as before the ban."""
    key, token = await fill(harness, is_sketched=False), await harness.new_player("Ada")
    own = harness.edge.tokens.check(token, now_s=0).subject  # type: ignore[union-attr]
    assert 202 == (await as_server(harness, key, {"operation": "o", "player": own, "score": 145})).status
    while await harness.steward().keep_tails():
        pass
    names = (own, "p14", "p26", "nobody")
    paths = [f"/v1/boards/vault/entries{rest}" for rest in ("", f"/{own}/around", f"?players={own},p26")]
    paths += [f"/v1/boards/vault/entries/{name}" for name in names]

    async def seen() -> tuple[list[Any], list[float]]:
        answers = [await harness.get(path, token) for path in paths]
        shares = [answer.body.get("percentile", 0.0) for answer in answers]
        moving = ("percentile", "percentile_error", "next", "previous", "instance")
        facts = [
            (answer.status, answer.headers.get("Scoregate-Source"))
            + tuple(item for item in answer.body.items() if item[0] not in moving)
            for answer in answers
        ]
        return facts, shares

    before, shares = await seen()
    assert [200, 404, 200, 200, 200, 200, 404] == [status for status, *_ in before]
    assert ("sketch", ("rank", None)) == before[3][1:3]
    banned = await ban(harness, own, shadow=True, message="")
    assert (201, 1) == (banned.status, banned.body["followed"])
    after, shares_after = await seen()
    assert before == after
    assert shares == pytest.approx(shares_after, abs=100 * 2 / PLAYERS)


async def test_percentiles_and_histogram_are_of_all(harness: Harness):
    """From the sketch, with what positions may be off by; it counts everybody once."""
    await fill(harness)
    shown = await read(harness, "vault/percentiles?at=10,50,100", "sketch")
    assert [20, 140, 290] == [each["score"] for each in shown["percentiles"]]
    assert 0 < shown["error"] < 0.5
    shown = await read(harness, "vault/distribution?edges=100,200", "sketch")
    assert (PLAYERS, [10, 10, 10]) == (shown["total"], [each["count"] for each in shown["bins"]])
    shown = await read(harness, "vault/distribution?bins=3", "sketch")
    assert [(0, 96, 10), (97, 193, 10), (194, 290, 10)] == [
        (each["least"], each["most"], each["count"]) for each in shown["bins"]
    ]


async def test_what_a_sketch_lacks_is_part_of_its_error(harness: Harness):
    """An old sketch says so: each change since may move a percentile by one entry's share."""
    await fill(harness)
    kept = await read(harness, "vault/percentiles", "sketch")
    await harness.edge.index.client.hincrby(keys.sketch("vault", "alltime"), "version", -3)
    lacks = await read(harness, "vault/percentiles?at=50", "sketch")
    assert pytest.approx(kept["error"] + 100 * 3 / PLAYERS) == lacks["error"]


async def test_without_a_sketch_the_ledger_is_asked(harness: Harness):
    """Until the steward has made one, every answer is exact, from SQL."""
    await fill(harness, is_sketched=False)
    entry = await read(harness, "vault/entries/p14", "ledger")
    assert (None, 50.0, 0.0) == (entry["rank"], entry["percentile"], entry["percentile_error"])
    shown = await read(harness, "vault/percentiles?at=50", "ledger")
    assert (0.0, 140) == (shown["error"], shown["percentiles"][0]["score"])


async def test_a_forged_sketch_is_not_believed(harness: Harness):
    """What is no sketch is none: SQL answers until there is one again."""
    await fill(harness)
    await harness.edge.index.client.hset(keys.sketch("vault", "alltime"), "sketch", "forged")
    assert 0.0 == (await read(harness, "vault/percentiles", "ledger"))["error"]
