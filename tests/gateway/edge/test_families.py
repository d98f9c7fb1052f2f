"""Families over HTTP: boards that servers open, change and end, lists of them, and rollups of their scores."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.runtime.clock import rfc3339
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import BOARDS_OPENED
from gateway.settlement import rollups
from policies.loader import load_policies
from tests.support.attack import assert_reused, registered, until
from tests.support.harness import Answer, Harness, free_port, running_harness
from tests.support.policies import a_family, a_policy, write_policies
from tests.support.valkey import ValkeyServer

BOARDS = "/v1/families/track/boards"
WORLD = {"title": "World", "rollup": {"family": "track"}}
SCORE = {"minimum": 0, "maximum": 1000, "step": 1}


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    filters = {"country": "text", "length": "integer", "is_wet": "boolean"}
    policies = (
        a_policy("sprint"),
        a_family(writes="trusted", score=SCORE, metadata_filters=filters, names_free_after_delete=True),
        a_family("level", writes="trusted", score=SCORE),
        {"board": "world", **WORLD},
        {"board": "cup", "title": "Cup", "rollup": {"family": "track", "take": "points", "points": [3, 1]}},
    )
    folder = write_policies(tmp_path / "policies", *policies)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


class Studio:
    """A game server with a key, and an edge."""

    def __init__(self, harness: Harness, private: Ed25519PrivateKey) -> None:
        self.harness = harness
        self.private = private

    async def send(self, *boards: Any, path: str = BOARDS, operation: str = "", **draft: Any) -> Answer:
        body = {"operation": operation or secrets.token_hex(8), "boards": list(boards)}
        return await self.harness.as_server(self.private, "eu-1", path, body, **draft)

    async def done(self, *boards: Any, **how: Any) -> list[dict[str, Any]]:
        answer = await self.send(*boards, **how)
        assert answer.status == 200, answer.raw
        return answer.body["results"]

    async def write(self, board: str, player: str, score: int) -> str:
        entry = {"operation": secrets.token_hex(8), "player": player, "score": score}
        answer = await self.harness.as_server(self.private, "eu-1", f"/v1/boards/{board}/entries", entry)
        assert answer.status == 202, answer.raw
        return answer.body["submission"]

    async def remove(self, board: str, player: str) -> None:
        removal = {"operation": secrets.token_hex(8), "player": player}
        answer = await self.harness.as_server(self.private, "eu-1", f"/v1/boards/{board}/removals", removal)
        assert answer.status == 200, answer.raw

    async def entries(self, board: str, **query: str) -> list[tuple[int, str, int]]:
        token = self.harness.moderator() if query else None
        answer = await self.harness.get(f"/v1/boards/{board}/entries?{urlencode(query)}", token)
        assert answer.status == 200, answer.raw
        return [(entry["rank"], entry["player"], entry["score"]) for entry in answer.body["entries"]]


@pytest.fixture
async def studio(settings: Settings) -> AsyncIterator[Studio]:
    async with running_harness(settings) as harness:
        yield Studio(harness, await registered(harness))


CLOSE_A = {"action": "close", "board": "track.a"}


def opening(name: str, **facts: Any) -> dict[str, Any]:
    return {"action": "open", "board": f"track.{name}", "title": name.title()} | facts


async def test_a_board_is_opened_played_and_read_at_once(studio: Studio):
    """It is described with all that it was given, and its name, family and version."""
    facts = {
        "metadata": {"country": "it", "length": 5},
        "parameters": {"laps": 3},
        "bounds": {"score": {"maximum": 500}},
        "opens_at": "2026-01-01T00:00:00Z",
        "closes_at": "2099-01-01T00:00:00Z",
    }
    [opened] = await studio.done(opening("Monza_1", **facts))
    assert ("opened", None) == (opened["status"], opened["problem"])
    shown = (await studio.harness.get("/v1/boards/track.Monza_1")).body
    assert opened["board"] == shown["opened"]
    expected = {
        "board": "track.Monza_1",
        "family": "track",
        "title": "Monza_1",
        "state": "open",
        "version": 1,
    }
    assert expected == {name: shown["opened"][name] for name in expected}
    assert facts["metadata"] == shown["opened"]["metadata"]
    assert (facts["parameters"], facts["bounds"]) == (
        shown["opened"]["parameters"],
        shown["opened"]["bounds"],
    )
    await studio.write("track.Monza_1", "ada", 400)
    assert [(1, "ada", 400)] == await studio.entries("track.Monza_1")
    entry = {"operation": "op-2", "player": "ada", "score": 501}
    path = "/v1/boards/track.Monza_1/entries"
    answer = await studio.harness.as_server(studio.private, "eu-1", path, entry)
    assert "bounds-violation" == answer.problem
    assert "score: the board's policy allows 0 to 500" == answer.body["detail"]


async def test_each_operation_is_done_or_refused_by_itself(studio: Studio):
    """In order and in one request; what is wrong is named, and leaves nothing."""
    results = await studio.done(
        opening("a"),
        opening("a"),
        opening("a", title="Other"),
        opening("b", bounds={"score": {"maximum": 2000}}),
        opening("c", opens_at="yesterday"),
        opening("d", opens_at="2027-01-01T00:00:00Z", closes_at="2026-01-01T00:00:00Z"),
        opening("e", metadata={"length": "five"}),
        opening("f", asset="sha256:" + "0" * 64),
        {"action": "open", "board": "level.a", "title": "A"},
        {"action": "open", "board": "track.b c", "title": "B"},
        {"action": "sell", "board": "track.a"},
        {"action": "change", "board": "track.a", "version": 1, "title": "New"},
        {"action": "change", "board": "track.a", "version": 1, "title": "Newer"},
        {"action": "change", "board": "track.a", "version": 2, "bounds": {"score": {"maximum": 5000}}},
        {"action": "change", "board": "track.nobody", "version": 1, "title": "New"},
        {"action": "close", "board": "track.a", "reason": "the season is over"},
        {"action": "delete", "board": "track.a", "reason": "over"},
        {"action": "reopen", "board": "track.a"},
        opening("g"),
    )
    told = [(result["status"], (result["problem"] or {}).get("detail")) for result in results]
    slugs = [result["problem"]["type"].rsplit("/", 1)[1] if result["problem"] else "" for result in results]
    assert ["opened", "same"] == [status for status, _ in told[:2]]
    assert ("refused", "state-conflict") == (told[2][0], slugs[2])
    assert ["asset-missing" if at == 7 else "schema-violation" for at in range(3, 11)] == slugs[3:11]
    for (_, detail), begin in zip(
        told[3:11],
        (
            "bounds.score.maximum",
            "opens_at",
            "closes_at",
            "metadata.length",
            "asset",
            "board",
            "board",
            "",
        ),
        strict=True,
    ):
        assert detail.startswith(begin), (detail, begin)
    assert ["changed", "refused", "refused", "refused"] == [status for status, _ in told[11:15]]
    assert ["state-conflict", "schema-violation", "not-found"] == slugs[12:15]
    assert ["changed", "changed", "refused", "opened"] == [status for status, _ in told[15:]]
    assert "state-conflict" == slugs[17]
    assert ["track.g"] == [board["board"] for board in (await studio.harness.get(BOARDS)).body["boards"]]
    assert 404 == (await studio.harness.get("/v1/boards/track.a")).status


async def test_a_request_that_is_sent_again_gets_its_first_answer(studio: Studio, settings: Settings):
    """Of each part: what was done, or what was wrong and why. A policy that has changed since does not matter.

    No board is shown that the first answer did not show.
    """
    await studio.done(opening("a"), opening("b"))
    await studio.done(level("secret"), path="/v1/families/level/boards")
    missing = {"action": "change", "version": 1, "bounds": {"score": {"maximum": 5000}}}
    requests = (
        opening("a", title="Other"),
        {"action": "change", "board": "track.b", "version": 1, "title": "New"},
        {"action": "change", "board": "track.b", "version": 7, "title": "Newer"},
        {**missing, "board": "track.nobody"},
        {**missing, "board": "level.secret"},
        {"action": "close", "board": "level.secret"},
        opening("c", asset="sha256:" + "0" * 64),
        opening("d", opens_at="yesterday"),
        opening("e", bounds={"score": {"maximum": 2000}}),
        opening("f"),
        {"action": "sell", "board": ["track.a"]},
        opening("b"),
        opening("f"),
    )
    first = await studio.send(*requests, operation="once")
    statuses = [result["status"] for result in first.body["results"]]
    done = {1: "changed", 9: "opened", 11: "same", 12: "same"}
    assert [done.get(at, "refused") for at in range(13)] == statuses
    shown = [at for at, result in enumerate(first.body["results"]) if result["board"]]
    assert [0, 1, 2, 9, 11, 12] == shown
    assert all(first.body["results"][at]["problem"]["detail"] for at in (0, 2, 6, 7)), "and why"
    opened_before = BOARDS_OPENED.labels("track", "server")._value.get()
    for score, names in (({"minimum": 0, "maximum": 9000}, "[a-z]"), (SCORE, "[x-z]"), (SCORE, ["x"])):
        policy = a_family(writes="trusted", score=score, names=names)
        studio.harness.edge.catalogue.replace(load_policies(write_policies(settings.policies_dir, policy)))
        again = await studio.send(*requests, operation="once")
        assert ("true", first.body) == (again.headers["Idempotency-Replayed"], again.body)
    assert opened_before == BOARDS_OPENED.labels("track", "server")._value.get()


def level(name: str) -> dict[str, Any]:
    return {"action": "open", "board": f"level.{name}", "title": name}


async def test_servers_open_no_boards_of_players(studio: Studio, settings: Settings):
    """They change and close those that are there. Under `both` they may open some."""
    await studio.done(opening("a"))
    for opened_by, expected in (("players", "scope-forbidden"), ("both", "")):
        policy = a_family(score=SCORE, names="[a-z]+", opened_by=opened_by)
        studio.harness.edge.catalogue.replace(load_policies(write_policies(settings.policies_dir, policy)))
        close = {"action": "close" if expected else "reopen", "board": "track.a"}
        result, closed = await studio.done(opening("b"), close)
        assert expected == (result["problem"] or {"type": "/"})["type"].rsplit("/", 1)[1]
        assert "changed" == closed["status"]


async def test_a_number_of_any_size_is_refused_with_its_operation_alone(studio: Studio):
    """Also one that no machine word holds, wherever it stands."""
    results = await studio.done(
        opening("a", metadata={"length": 2**64}),
        opening("b", parameters={"seed": 10**400}),
        opening("c", bounds={"maximum_ticks": 10**30}),
        {"action": "change", "board": "track.a", "version": 10**500, "title": "New"},
        opening("d"),
    )
    assert ["refused"] * 4 + ["opened"] == [result["status"] for result in results]


async def test_an_operation_that_is_no_object_is_refused_alone(studio: Studio):
    """Whatever a program put in its place, those beside it are done."""
    results = await studio.done("close", 7, None, ["change"], [["action", "change"]], {}, opening("a"))
    assert ["refused"] * 6 + ["opened"] == [result["status"] for result in results]
    assert ["schema-violation"] * 6 == [
        result["problem"]["type"].rpartition("/")[2] for result in results[:6]
    ]


async def test_bounds_may_be_a_prior_alone(studio: Studio):
    """A part of them that is not given is the family's."""
    [result] = await studio.done(opening("a", bounds={"prior": {"mean": 10, "spread": 5}}))
    assert ("opened", {"mean": 10, "spread": 5}) == (result["status"], result["board"]["bounds"]["prior"])


@pytest.mark.parametrize("field", ["opens_at", "closes_at"])
async def test_a_time_that_no_answer_could_write_opens_nothing(studio: Studio, field: str):
    """An offset leads out of the year 9999, and reading such a board would fail for everybody."""
    for text in ("9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999-00:01"):
        [result] = await studio.done(opening("a", **{field: text}))
        assert ("refused", True) == (result["status"], "9999" in result["problem"]["detail"])
    [result] = await studio.done(opening("a", **{field: "9999-12-31T23:59:59.999Z"}))
    assert "opened" == result["status"]
    assert ["track.a"] == [board["board"] for board in (await studio.harness.get(BOARDS)).body["boards"]]


async def test_a_filter_without_a_field_is_refused(studio: Studio):
    """It would not filter."""
    assert "schema-violation" == (await studio.harness.get(f"{BOARDS}?metadata=1")).problem


async def test_a_request_that_is_sent_again_changes_nothing(studio: Studio):
    """Under a fresh signature, and after the board was changed; other content under its id is refused."""
    first = await studio.send(opening("a"), {"action": "close", "board": "track.a"}, operation="once")
    assert ["opened", "changed"] == [result["status"] for result in first.body["results"]]
    await studio.done({"action": "reopen", "board": "track.a"})
    again = await studio.send(opening("a"), {"action": "close", "board": "track.a"}, operation="once")
    assert "true" == again.headers["Idempotency-Replayed"]
    assert [("opened", "open"), ("changed", "open")] == [
        (result["status"], result["board"]["state"]) for result in again.body["results"]
    ]
    assert_reused("once", await studio.send(opening("b"), operation="once"))


async def test_boards_are_listed_by_name_by_newest_and_filtered(studio: Studio):
    """Page after page each board once; filters are by what the policy declares, of its type."""
    countries = ["it", "be", "it", "fi", "it"]
    await studio.done(
        *(
            opening(f"t{number}", metadata={"country": country, "length": number, "is_wet": number > 2})
            for number, country in enumerate(countries)
        )
    )
    names, cursor = [], ""
    while cursor is not None:
        query = f"?limit=2&cursor={cursor}" if cursor else "?limit=2"
        page = (await studio.harness.get(BOARDS + query)).body
        names += [board["board"] for board in page["boards"]]
        cursor = page["next"]
    assert [f"track.t{number}" for number in range(5)] == names

    async def listed(query: str) -> list[str]:
        answer = await studio.harness.get(f"{BOARDS}?{query}")
        assert answer.status == 200, answer.raw
        return [board["title"] for board in answer.body["boards"]]

    assert ["T4", "T3", "T2", "T1", "T0"] == await listed("order=newest")
    assert ["T0", "T2", "T4"] == await listed("metadata.country=it")
    assert ["T4"] == await listed("metadata.country=it&metadata.is_wet=true")
    assert ["T3"] == await listed("metadata.length=3")
    for query in (
        "metadata.colour=red",
        "metadata.is_wet=1",
        "metadata.length=03",
        "metadata.country=%00",
        f"metadata.country={'x' * 129}",
        "metadata.country=it&metadata.country=be",
        "order=best",
        "limit=0",
    ):
        assert (422, "schema-violation") == (
            (answer := await studio.harness.get(f"{BOARDS}?{query}")).status,
            answer.problem,
        )


async def test_a_cursor_is_of_one_list_of_boards(studio: Studio):
    """It goes on in its family, order and filters, in whatever order they are named; a foreign one is refused.

    So is one that no page gave: made up, of a board's entries, of the form before, or in another spelling.
    """
    wet = {"metadata": {"country": "it", "is_wet": True}}
    await studio.done(*(opening(name, **wet) for name in "abc"))
    await studio.done(level("a"), level("b"), path="/v1/families/level/boards")
    for player in ("ada", "bob"):
        await studio.write("track.a", player, 1)
    both, swapped = (
        "metadata.country=it&metadata.is_wet=true",
        "metadata.is_wet=true&metadata.country=it&order=name",
    )
    lists = ["", "order=newest", "order=played", "metadata.country=it", both]
    paths = [f"{BOARDS}?limit=1&{query}" for query in lists] + ["/v1/families/level/boards?limit=1"]
    given = [(await studio.harness.get(path)).body["next"] for path in paths]

    async def status(path: str, cursor: str) -> tuple[int, str]:
        answer = await studio.harness.get(f"{path}&cursor={quote(cursor)}")
        return answer.status, answer.problem

    for own, path in enumerate(paths):
        for at, cursor in enumerate(given):
            expected = (200, "") if at == own else (422, "schema-violation")
            assert expected == await status(path, cursor), (path, paths[at])
    assert (200, "") == await status(f"{BOARDS}?limit=1&{swapped}", given[4])
    entries = "/v1/boards/track.a/entries?limit=1"
    assert (422, "schema-violation") == await status(entries, given[0])
    other_end = given[0][:-2] + ("AQ" if given[0].endswith("AA") else "AA")
    made = [given[0][:-1], given[0] + "A", given[0] + "=", other_end, "", "x", "é", "1~0~track.a"]
    for cursor in (*made, (await studio.harness.get(entries)).body["next"]):
        assert (422, "schema-violation") == await status(paths[0], cursor), cursor


async def test_a_board_that_is_a_family_is_refused_as_one(studio: Studio):
    """Its reader learns how its boards are named; a name that nobody has is no such board."""
    for name, detail in (
        ("level", "`level` is a family: its boards are `level.<name>`"),
        ("nobody", "no such board: `nobody`"),
    ):
        answer = await studio.harness.get(f"/v1/boards/{name}/entries")
        assert (404, detail) == (answer.status, answer.body["detail"])


async def test_an_operation_that_is_known_with_other_content_is_named(studio: Studio):
    """Whoever sent many at once finds the one that was refused."""
    await studio.done(opening("a"))
    path, entry = "/v1/boards/track.a/entries", {"operation": "lap-7", "player": "ada", "score": 1}
    for score, status in ((1, 202), (2, 422)):
        body = entry | {"score": score}
        answer = await studio.harness.as_server(studio.private, "eu-1", path, body)
        assert status == answer.status
    assert "idempotency-mismatch" == answer.problem
    assert "lap-7: the operation id was used before, with another body" == answer.body["detail"]


async def test_an_operation_id_is_used_for_one_family(studio: Studio):
    """The same operations for another family are other content, and not what was done for the first one."""
    assert 200 == (await studio.send(opening("a"), operation="op-1")).status
    assert_reused("op-1", await studio.send(opening("a"), operation="op-1", path="/v1/families/level/boards"))


async def test_an_unknown_field_of_an_operation_is_refused_with_those_of_its_action(studio: Studio):
    """Of a board's operation, of their request, and of an operation in a batch."""
    [refused, unknown] = await studio.done(
        {"action": "close", "board": "track.a", "raeson": "over"}, {"action": "shut", "board": "track.a"}
    )
    assert "raeson: unknown field; expected action, board, reason" == refused["problem"]["detail"]
    assert unknown["problem"]["detail"].startswith("action: expected one of 'open', ")
    whole = {"operation": "o", "boards": [CLOSE_A], "operatoin": "o"}
    answer = await studio.harness.as_server(studio.private, "eu-1", BOARDS, whole)
    assert "operatoin: unknown field; expected operation, boards" == answer.body["detail"]
    await studio.done(opening("a"))
    batch = [{"action": "remove", "operation": "o", "player": "ada", "raeson": "over"}]
    answer = await studio.harness.as_server(studio.private, "eu-1", "/v1/boards/track.a/entries/batch", batch)
    [error] = answer.body["errors"]
    assert error["detail"].startswith("raeson: unknown field; expected operation, player, ")


async def test_a_rollup_is_described_with_what_it_does(studio: Studio):
    """It adds up, also points; a rollup's own operator says nothing."""
    for name in ("world", "cup"):
        assert "sum" == (await studio.harness.get(f"/v1/boards/{name}")).body["operator"]
    assert "best" == (await studio.harness.get("/v1/boards/sprint")).body["operator"]


async def test_the_families_are_listed_with_their_filters_and_rollups(studio: Studio):
    """By name, a page at a time; a family that is not there is not found."""
    page = (await studio.harness.get("/v1/families?limit=1")).body
    assert ["level"] == [family["family"] for family in page["families"]]
    page = (await studio.harness.get(f"/v1/families?limit=1&cursor={page['next']}")).body
    assert page["next"] is None
    [track] = page["families"]
    assert {"country": "text", "length": "integer", "is_wet": "boolean"} == track["filters"]
    assert (["cup", "world"], "servers") == (track["rollups"], track["opened_by"])
    assert 404 == (await studio.harness.get("/v1/families/car/boards")).status
    assert 422 == (await studio.harness.get("/v1/families?cursor=level")).status


async def test_a_key_of_a_family_opens_its_boards_and_writes_to_them(studio: Studio):
    """One of another family, or of one board, opens nothing; nobody without a key does."""
    harness = studio.harness
    of_track = Studio(harness, await registered(harness, "track-1", "track"))
    of_level = Studio(harness, await registered(harness, "level-1", "level", "track.a"))

    async def open_as(studio: Studio, key_id: str) -> Answer:
        body = {"operation": secrets.token_hex(8), "boards": [opening("a")]}
        return await harness.as_server(studio.private, key_id, BOARDS, body)

    await until(lambda: known(harness, "level-1"))
    assert (403, "scope-forbidden") == ((answer := await open_as(of_level, "level-1")).status, answer.problem)
    assert 200 == (await open_as(of_track, "track-1")).status
    entry = {"operation": "op-1", "player": "ada", "score": 7}
    path = "/v1/boards/track.a/entries"
    assert 202 == (await harness.as_server(of_track.private, "track-1", path, entry)).status
    body = {"operation": "x", "boards": [opening("b")]}
    assert 401 == (await harness.as_server(of_track.private, "level-1", BOARDS, body)).status


async def known(harness: Harness, key_id: str) -> bool:
    harness.edge.server_keys._read_at = float("-inf")
    return await harness.edge.server_keys.find(key_id) is not None


async def test_a_body_that_is_no_request_opens_nothing(studio: Studio):
    """Too many operations, none, no id, or what is not there."""
    path, key = BOARDS, studio.private
    for body in (
        {"operation": "x", "boards": []},
        {"operation": "x", "boards": [opening("a")] * 1001},
        {"boards": [opening("a")]},
        {"operation": "x", "boards": [opening("a")], "more": 1},
        [opening("a")],
    ):
        answer = await studio.harness.as_server(key, "eu-1", path, body)
        assert (422, "schema-violation") == (answer.status, answer.problem), body
    assert [] == (await studio.harness.get(BOARDS)).body["boards"]


async def test_a_thousand_boards_are_opened_by_one_request(studio: Studio):
    """In one commit, and each can be read."""
    results = await studio.done(*(opening(f"n{number}") for number in range(1000)))
    assert {"opened"} == {result["status"] for result in results}
    assert 200 == (await studio.harness.get("/v1/boards/track.n999")).status


async def test_rollups_follow_the_boards_of_the_family(studio: Studio):
    """Sums at once, points once a steward compared; after a removal and an emptied Redis as well."""
    await studio.done(opening("a"), opening("b"), opening("c"))
    for board, player, score in (
        ("a", "ada", 10), ("b", "ada", 20), ("a", "bob", 25), ("c", "bob", 1), ("c", "cyd", 40),
    ):  # fmt: skip
        await studio.write(f"track.{board}", player, score)
    assert [(1, "cyd", 40), (2, "ada", 30), (3, "bob", 26)] == await studio.entries("world")
    steward = studio.harness.steward()
    await steward.roll_up()
    assert [(1, "ada", 4), (2, "bob", 4), (3, "cyd", 3)] == await studio.entries("cup")
    await studio.remove("track.b", "ada")
    assert [(1, "cyd", 40), (2, "bob", 26), (3, "ada", 10)] == await studio.entries("world")
    await steward.roll_up()
    assert [(1, "bob", 4), (2, "cyd", 3), (3, "ada", 1)] == await studio.entries("cup")
    await studio.harness.edge.index.client.flushall()
    assert [(1, "cyd", 40), (2, "bob", 26), (3, "ada", 10)] == await studio.entries("world")


async def test_a_rollup_is_shown_as_it_stood(studio: Studio):
    """From the events of the family's boards: sums and points, before and after a run, and without deleted boards."""
    await studio.done(opening("a"), opening("b"))
    await studio.write("track.a", "ada", 10)
    await studio.write("track.b", "bob", 7)
    await asyncio.sleep(0.01)
    before = rfc3339(studio.harness.edge.clock())
    await asyncio.sleep(0.01)
    await studio.write("track.b", "ada", 20)
    await studio.done({"action": "delete", "board": "track.a", "reason": "over"})
    await asyncio.sleep(0.01)
    after = rfc3339(studio.harness.edge.clock())
    for at, world, cup in (
        (before, [(1, "ada", 10), (2, "bob", 7)], [(1, "ada", 3), (2, "bob", 3)]),
        (after, [(1, "ada", 20), (2, "bob", 7)], [(1, "ada", 3), (2, "bob", 1)]),
    ):
        assert world == await studio.entries("world", as_of=at)
        assert cup == await studio.entries("cup", as_of=at)


async def test_a_deleted_board_leaves_the_rollups(studio: Studio, monkeypatch: pytest.MonkeyPatch):
    """A slice of its players at a time, in every window, and no later run of it comes back."""
    monkeypatch.setattr(rollups, "PLAYERS", 2)
    await studio.done(opening("a"), opening("b"))
    for number in range(5):
        await studio.write("track.a", f"p{number}", 10 + number)
    await studio.write("track.b", "p0", 1)
    steward = studio.harness.steward()
    await steward.roll_up()
    await studio.done({"action": "delete", "board": "track.a", "reason": "over"})
    while await steward.roll_up():
        pass
    assert [(1, "p0", 1)] == await studio.entries("world")
    assert [(1, "p0", 3)] == await studio.entries("cup")
    await studio.write("track.b", "p4", 2)
    assert [(1, "p4", 2), (2, "p0", 1)] == await studio.entries("world")


async def follow_rules(harness: Harness) -> None:
    """All that a steward does about changed rules, which an edge sees at once."""
    steward = harness.steward()
    while await steward.follow_rules():
        pass
    harness.edge.outdated._looked_s = float("-inf")


async def test_nobody_reads_a_rollup_by_the_order_of_an_earlier_policy(settings: Settings):
    """After a restart it answers 503, until a steward has folded it anew by itself; then each score is right."""
    async with running_harness(settings) as harness:
        studio = Studio(harness, await registered(harness))
        await studio.done(opening("a"))
        for player, score in (("ada", 10), ("bob", 25)):
            await studio.write("track.a", player, score)
        await follow_rules(harness)
        assert [(1, "bob", 25), (2, "ada", 10)] == await studio.entries("world")
    write_policies(settings.policies_dir, {"board": "world", "order": "ascending", **WORLD})
    async with running_harness(settings) as harness:
        refused = await harness.get("/v1/boards/world/entries")
        assert (503, "board-rebuilding") == (refused.status, refused.problem)
        assert "ranks by another rule now" in refused.body["detail"]
        assert 200 == (await harness.get("/v1/boards/cup/entries")).status
        await follow_rules(harness)
        studio = Studio(harness, await registered(harness, "eu-2"))
        assert [(1, "ada", 10), (2, "bob", 25)] == await studio.entries("world")


async def test_nobody_writes_to_a_rollup(studio: Studio):
    """Neither a player nor a trusted server."""
    entry = {"operation": "op-1", "player": "ada", "score": 7}
    for key_id, private in (
        ("eu-1", studio.private),
        ("eu-2", await registered(studio.harness, "eu-2", "track.")),
    ):
        for path, body in (("entries", entry), ("entries/batch", [entry]), ("entries:batch", [entry])):
            answer = await studio.harness.as_server(private, key_id, f"/v1/boards/world/{path}", body)
            assert (403, "scope-forbidden") == (answer.status, answer.problem)
            assert "to which nobody writes: write to the boards of its family" in answer.body["detail"]
    token = await studio.harness.new_player()
    answer = await studio.harness.post("/v1/boards/world/runs", {"build": "b-1"}, token)
    assert (403, "scope-forbidden") == (answer.status, answer.problem)


async def test_a_board_that_nobody_played_has_none_of_the_listed_players(studio: Studio):
    """Nothing of it is ever in Redis, so waiting for that would never end; once played, it lists who plays."""
    await studio.done(opening("a"))
    path = "/v1/boards/track.a/entries?players=p_ada,p_bob"
    answer = await studio.harness.get(path)
    assert (200, 0, ["p_ada", "p_bob"]) == (answer.status, answer.body["total"], answer.body["unranked"])


async def test_a_servers_board_of_a_schedule_is_not_open_before_its_time(settings: Settings):
    """Without times in the request it has those of its day, so nobody sees its seed earlier."""
    write_policies(settings.policies_dir, a_family("daily", writes="trusted", score=SCORE, schedule="daily"))
    async with running_harness(settings) as harness:
        server = Studio(harness, await registered(harness))
        opened = {"action": "open", "board": "daily.2098-12-24", "title": "Eve"}
        [result] = await server.done(opened, path="/v1/families/daily/boards")
        expected = ["2098-12-24T00:00:00.000Z", "2098-12-25T00:00:00.000Z"]
        assert expected == [result["board"][name] for name in ("opens_at", "closes_at")]
