"""Players merge who hold both tokens, take along their own and erase themselves; nobody does so to another."""

from __future__ import annotations

import json
from collections import Counter
from unittest.mock import Mock

import pytest

from gateway.edge.identities import own_data
from gateway.edge.identities.identity_parts import EXPORT_RATE
from gateway.edge.reads.read_budget import PAGE_US
from gateway.index import keys, lane_stream
from gateway.ledger.acts import Act
from gateway.ledger.players import merges
from gateway.ledger.players.merges import Merge
from gateway.ledger.players.player_names import unnamed
from gateway.settlement import erasing
from gateway.settlement.erasing import Eraser
from gateway.settlement.merges import begin
from policies.errors import IndexUnavailable
from tests.attacks.test_bans import a_held_run, approve, ban, stands
from tests.gateway.edge.test_live_feed import write
from tests.support.attack import CLAIM, registered
from tests.support.charges import noted_charges
from tests.support.feeds import sse
from tests.support.harness import Answer, Harness, Request

CONFLICT, FORBIDDEN = (409, "state-conflict"), (401, "token-invalid")


async def a_player(harness: Harness, name: str) -> tuple[str, str]:
    answer = await harness.post("/v1/players", {"name": name})
    return answer.body["player"], answer.body["token"]


async def ask(harness: Harness, method: str, path: str, bearer: str, **body: object) -> Answer:
    headers = {"Authorization": f"Bearer {bearer}"}
    if body:
        headers["Content-Type"] = "application/json"
    return await harness.send(Request(method, path, json.dumps(body).encode() if body else b"", headers))


async def test_who_holds_both_tokens_merges_two_players_and_parts_them(harness: Harness):
    """Again, nothing changes; with a forged token, or as a stranger, there is no merge and no parting."""
    (ada, token), (bob, other), (_, stranger) = [
        await a_player(harness, name) for name in ("Ada", "Bob", "Cyd")
    ]
    forged = await ask(harness, "POST", "/v1/merges", other, token=token[:-4] + "AAAA")
    assert FORBIDDEN == (forged.status, forged.problem)
    first, again = [await ask(harness, "POST", "/v1/merges", other, token=token) for _ in range(2)]
    assert (200, ada, bob, True) == (
        first.status,
        first.body["source"],
        first.body["target"],
        first.body["is_done"],
    )
    assert (first.body, "true") == (again.body, again.headers["Idempotency-Replayed"])
    circle = await ask(harness, "POST", "/v1/merges", token, token=other)
    assert CONFLICT == (circle.status, circle.problem)
    path = f"/v1/merges/{first.body['merge']}"
    for whose in (stranger, token):
        refused = await ask(harness, "DELETE", path, whose)
        assert (404, "not-found") == (refused.status, refused.problem)
    parted = await ask(harness, "DELETE", path, other)
    assert (200, True) == (parted.status, parted.body["undone_at"] is not None)


async def test_a_player_takes_their_data_along_and_has_a_week_to_keep_it(harness: Harness):
    """The export ends with its number of rows, and is no way to keep an edge busy; an erasure is asked for once, taken back, and refused of the merged."""
    (ada, token), (_, other) = await a_player(harness, "Ada Lovelace"), await a_player(harness, "Bob")
    exported = await ask(harness, "GET", "/v1/export", token)
    lines = [json.loads(line) for line in exported.raw.splitlines()]
    assert (200, ada, len(lines) - 2) == (exported.status, lines[0]["player"], lines[-1]["rows"])
    more = [await ask(harness, "GET", "/v1/export", token) for _ in range(EXPORT_RATE.per_hour)]
    assert [200] * (EXPORT_RATE.per_hour - 1) + [429] == [answer.status for answer in more]
    assert 200 == (await ask(harness, "GET", "/v1/export", other)).status
    assert ["Ada Lovelace"] == [line["name"] for line in lines if line.get("table") == "players"]
    first, again = [await ask(harness, "PUT", "/v1/erasure", token) for _ in range(2)]
    assert (200, first.body, "true") == (first.status, again.body, again.headers["Idempotency-Replayed"])
    merge = await ask(harness, "POST", "/v1/merges", other, token=token)
    assert CONFLICT == (merge.status, merge.problem)
    kept = await ask(harness, "DELETE", "/v1/erasure", token)
    assert (200, None) == (kept.status, kept.body["due_at"])
    assert 200 == (await ask(harness, "POST", "/v1/merges", other, token=token)).status
    refused = await ask(harness, "PUT", "/v1/erasure", token)
    assert CONFLICT == (refused.status, refused.problem)


async def test_a_shadow_banned_player_finds_no_word_of_it_in_their_copy(harness: Harness):
    """They stand there where they see themselves, and their merges say nothing of what a ban keeps."""
    run = await a_held_run(harness)
    await approve(harness, run)
    before, _ = [await standings_in_copy(harness, run.token) for _ in range(2)]
    assert 201 == (await ban(harness, run.player, shadow=True, message="")).status
    assert [] == await stands(harness)
    assert before == await standings_in_copy(harness, run.token)
    assert [("sprint", CLAIM["score"])] == before


async def standings_in_copy(harness: Harness, token: str) -> list[tuple[str, int]]:
    lines = [json.loads(line) for line in (await ask(harness, "GET", "/v1/export", token)).raw.splitlines()]
    assert None is lines[-1]["next"]
    return [(line["board"], line["score"]) for line in lines if line.get("table") == "standings"]


async def test_a_player_pays_for_each_page_of_runs_in_their_copy(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Beside what any read costs, which who has played nothing pays alone."""
    run = await a_held_run(harness)
    _, newcomer = await a_player(harness, "Ada")
    charged = noted_charges(monkeypatch)
    pages = []
    for token in (run.token, newcomer):
        charged.clear()
        assert 200 == (await ask(harness, "GET", "/v1/export", token)).status
        pages.append(charged.count(PAGE_US))
    assert [1, 0] == pages


async def test_a_copy_goes_on_where_the_last_one_ended(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Each part is charged; another number than those of events is refused."""
    monkeypatch.setattr(own_data, "EXPORT_RUNS", 1)
    run = await a_held_run(harness)
    first = await ask(harness, "GET", "/v1/export", run.token)
    after = json.loads(first.raw.splitlines()[-1])["next"]
    rest = (await ask(harness, "GET", f"/v1/export?after={after}", run.token)).raw.splitlines()
    assert ({"table": "", "rows": 0, "next": None}, 2) == (json.loads(rest[-1]), len(rest))
    refused = await ask(harness, "GET", "/v1/export?after=-1", run.token)
    assert (422, "schema-violation") == (refused.status, refused.problem)


async def test_a_merge_does_not_wait_for_ever_for_what_a_shadow_ban_keeps(harness: Harness):
    """One that began before the ban reads as any other: that runs stay behind would tell of it."""
    run = await a_held_run(harness)
    await approve(harness, run)
    target, token = await a_player(harness, "Bob")
    act = Act(f"player:{target}", harness.clock())
    await harness.edge.ledger.write(begin(Merge("m1", run.player, target, act.actor, act.at_ms)))
    assert 201 == (await ban(harness, run.player, shadow=True, message="")).status
    told = await ask(harness, "POST", "/v1/merges", token, token=run.token)
    assert (200, True, None) == (told.status, told.body["is_done"], told.body["undone_at"])
    stored = await harness.edge.ledger.read(merges.merge("m1"))
    assert stored is not None
    assert stored.seen_seq is not None, "a steward goes on once the ban ends"


async def test_who_is_erased_hears_nothing_of_friends_any_more(harness: Harness):
    """An open feed ends before the next change; whom they were merged into goes on."""
    private, (ada, token) = await registered(harness), await a_player(harness, "Ada")
    (_, other), query = await a_player(harness, "Bob"), "window=alltime&friends=true"
    for whose in (token, other):
        assert 200 == (await ask(harness, "PUT", "/v1/friends/eve", whose)).status
    edge = harness.edge
    async with sse(harness, query, token=token) as feed, sse(harness, query, token=other) as kept:
        await edge.ledger.write(erasing.ask(ada, Act("cli:op", harness.clock()), grace_ms=0))
        await Eraser(edge.ledger, edge.index, edge.catalogue).finish_all(ada, now_ms=harness.clock())
        await edge.ended_tokens.refresh()
        await write(harness, private, 4, "eve")
        assert await feed.has_ended()
        assert [4] == await kept.scores(1)


async def test_who_is_erased_has_another_name_on_boards_at_once(harness: Harness):
    """Nobody waits until a steward compares the names."""
    private, (ada, _), edge = await registered(harness), await a_player(harness, "Ada Lovelace"), harness.edge
    await write(harness, private, 4, ada)

    async def shown() -> list[tuple[str, str]]:
        entries = (await harness.get("/v1/boards/vault/entries")).body["entries"]
        return [(entry["player"], entry["name"]) for entry in entries]

    assert [(ada, "Ada Lovelace")] == await shown()
    await edge.ledger.write(erasing.ask(ada, Act("cli:op", harness.clock()), grace_ms=0))
    await Eraser(edge.ledger, edge.index, edge.catalogue).finish_all(ada, now_ms=harness.clock())
    assert [(ada, unnamed(ada))] == await shown()


async def test_the_past_of_a_feed_tells_nothing_of_who_is_erased(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """However long it is: the name is in each change. The changes of others stay, for who resumes."""
    monkeypatch.setattr(lane_stream, "TRIMMED_AT_ONCE", 2)
    private, edge = await registered(harness), harness.edge
    for score in range(1, 6):
        for player in ("eve", "bob"):
            await write(harness, private, score, player)

    async def told() -> Counter[str]:
        entries = await edge.index.client.xrange(keys.changes("vault"))
        return Counter(fields["player"] for _, fields in entries)

    before = await told()
    assert {"eve", "bob"} == before.keys()
    await edge.ledger.write(erasing.ask("eve", Act("cli:op", harness.clock()), grace_ms=0))
    await Eraser(edge.ledger, edge.index, edge.catalogue).finish_all("eve", now_ms=harness.clock())
    assert {"bob": before["bob"]} == await told()


async def test_an_erasure_waits_for_redis_which_has_names_too(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """On a board on which little happens nothing else would take the name out of the feed's past."""
    private, edge = await registered(harness), harness.edge
    await write(harness, private, 1, "eve")
    eraser = Eraser(edge.ledger, edge.index, edge.catalogue)
    await edge.ledger.write(erasing.ask("eve", Act("cli:op", harness.clock()), grace_ms=0))
    with monkeypatch.context() as away:
        away.setattr(erasing, "forget_name", Mock(side_effect=IndexUnavailable))
        with pytest.raises(IndexUnavailable):
            await eraser.finish_all("eve", now_ms=harness.clock())
    assert 0 < await edge.index.client.xlen(keys.changes("vault"))
    await eraser.finish_all("eve", now_ms=harness.clock())
    assert 0 == await edge.index.client.xlen(keys.changes("vault"))


async def test_a_stolen_player_who_was_merged_away_comes_back_by_a_senior(harness: Harness):
    """The thief's own token keeps the runs until then; afterwards neither token merges the two again that day."""
    run = await a_held_run(harness)
    await approve(harness, run)
    thief, token = await a_player(harness, "Eve")
    merge = (await ask(harness, "POST", "/v1/merges", token, token=run.token)).body["merge"]
    assert [(thief, CLAIM["score"])] == await stands(harness)
    taken = await ask(harness, "DELETE", f"/v1/merges/{merge}", run.token)
    assert (404, "not-found") == (taken.status, taken.problem)
    path = f"/v1/moderation/players/{run.player}/merges/{merge}"
    assert 200 == (await ask(harness, "DELETE", path, harness.moderator())).status
    assert [(run.player, CLAIM["score"])] == await stands(harness)
    again = await ask(harness, "POST", "/v1/merges", token, token=run.token)
    assert CONFLICT == (again.status, again.problem)
