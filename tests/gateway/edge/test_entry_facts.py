"""What a score brings along, over HTTP: tie fields, the time it was achieved, details; and the ranks that follow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.runtime.clock import rfc3339
from gateway.runtime.settings import Settings
from tests.support.attack import as_server, registered
from tests.support.harness import Answer, Harness, free_port
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer

MEDALS = {"tie_break": "fields", "tie_fields": [{"stat": "silver"}, {"stat": "faults", "order": "ascending"}]}


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    boards = (
        a_policy("medals", writes="trusted", ranks=["sparse", "unique", "dense"], **MEDALS),
        a_policy("vault", writes="trusted", windows=["alltime", "daily"], time_zone="Asia/Kathmandu"),
        a_policy("noted", writes="trusted", details={"integers": 2, "object_bytes": 20}, decimals=3),
        a_policy("counted", writes="trusted", operator="count"),
        a_policy("played", details={"integers": 2}),
    )
    folder = write_policies(tmp_path / "policies", *boards)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


@pytest.fixture
async def key(harness: Harness) -> Ed25519PrivateKey:
    return await registered(harness)


async def write(harness: Harness, key: Any, number: int, board: str, **entry: Any) -> Answer:
    asked = {"operation": f"op-{number}", "player": f"p{number}", "score": 1} | entry
    return await as_server(harness, key, asked, board=board)


async def ranks(harness: Harness, board: str, query: str = "") -> list[tuple[int, str]]:
    answer = await harness.get(f"/v1/boards/{board}/entries?{query}")
    assert 200 == answer.status, answer.raw
    return [(entry["rank"], entry["player"]) for entry in answer.body["entries"]]


async def test_tie_fields_decide_and_then_make_the_tie(harness: Harness, key: Any):
    """A medal table: by gold, silver, fewest faults; equal in all is the same rank, by the board's kind or the asked one."""
    for number, stats in enumerate(
        ({"silver": 1}, {"silver": 2, "faults": 1}, {"silver": 2, "faults": 0}, {"silver": 2, "faults": 1}), 1
    ):
        assert 202 == (await write(harness, key, number, "medals", stats=stats)).status
    assert [(1, "p3"), (2, "p2"), (2, "p4"), (4, "p1")] == await ranks(harness, "medals")
    assert [(1, "p3"), (2, "p2"), (2, "p4"), (3, "p1")] == await ranks(harness, "medals", "ranks=dense")
    assert [(1, "p3"), (2, "p2"), (3, "p4"), (4, "p1")] == await ranks(harness, "medals", "ranks=unique")
    around = await harness.get("/v1/boards/medals/entries/p4/around?radius=1&ranks=sparse")
    assert [2, 2, 4] == [entry["rank"] for entry in around.body["entries"]]
    assert 2 == (await harness.get("/v1/boards/medals/entries/p4")).body["rank"]


async def test_B06_the_past_has_the_kind_of_ranks_that_is_asked_for(harness: Harness, key: Any):
    """As of now it is the live board, whichever kind is asked for or none, from the first entry or from a later one."""
    for number, silver in enumerate((1, 2, 2, 3, 1), 1):
        assert 202 == (await write(harness, key, number, "medals", stats={"silver": silver})).status
    at = rfc3339(harness.clock() + 1000)
    harness.clock.shift(2)
    for asked in ("", "&ranks=unique", "&ranks=sparse", "&ranks=dense"):
        for offset in range(6):
            live = await harness.get(f"/v1/boards/medals/entries?offset={offset}{asked}")
            path = f"/v1/boards/medals/entries?as_of={at}&offset={offset}{asked}"
            past = await harness.get(path, harness.moderator("medals"))
            assert 200 == past.status
            assert live.body["entries"] == past.body["entries"]
    path = f"/v1/boards/vault/entries?as_of={at}&ranks=dense"
    refused = await harness.get(path, harness.moderator("vault"))
    assert (422, "schema-violation") == (refused.status, refused.problem)


@pytest.mark.parametrize("asked", ["dense", "Unique", ""])
async def test_ranks_that_a_board_does_not_keep_are_refused(harness: Harness, asked: str):
    """Dense ranks cost memory, so a board keeps them if its policy says so; the refusal names those there are."""
    answer = await harness.get(f"/v1/boards/vault/entries?ranks={asked}")
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert "unique, sparse" in answer.body["detail"]


async def test_the_time_is_data(harness: Harness, key: Any):
    """An import says when a score was achieved: it counts in the window of then, in the board's time zone, and ties go by it."""
    now = datetime.fromtimestamp(harness.clock() / 1000, UTC)
    earlier, yesterday = now - timedelta(seconds=5), now - timedelta(days=1)
    assert 202 == (await write(harness, key, 1, "vault")).status
    assert 202 == (await write(harness, key, 2, "vault", achieved_at=earlier.isoformat())).status
    assert 202 == (await write(harness, key, 3, "vault", achieved_at=yesterday.isoformat())).status
    assert [(1, "p3"), (2, "p2"), (3, "p1")] == await ranks(harness, "vault")
    there = yesterday + timedelta(hours=5, minutes=45)
    assert [(1, "p3")] == await ranks(harness, "vault", f"window=daily:{there:%Y%m%d}")


async def test_a_ban_that_is_lifted_restores_the_tie(harness: Harness, key: Any):
    """Who was first is first again after being taken off the board and put back."""
    firsts = [(await write(harness, key, number, "vault")).body["submission"] for number in (1, 2)]
    moderator = harness.moderator("vault")
    for decision, expected in (("revoke", [(1, "p2")]), ("reinstate", [(1, "p1"), (2, "p2")])):
        answer = await harness.post(
            f"/v1/moderation/cases/{firsts[0]}/{decision}",
            {"code": "other", "note": "checked"},
            token=moderator,
        )
        assert 200 == answer.status, answer.raw
        assert expected == await ranks(harness, "vault")


@pytest.mark.parametrize(
    "moment", ["2999-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "yesterday", "2026-01-01"]
)
async def test_a_moment_that_has_not_been_is_refused(harness: Harness, key: Any, moment: str):
    """Nobody achieves tomorrow's score today; nothing is written."""
    answer = await write(harness, key, 1, "vault", achieved_at=moment)
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert [] == await ranks(harness, "vault")


@pytest.mark.parametrize(
    "details",
    [
        {"integers": [1, 2, 3]},
        {"object": {"a": "b" * 20}},
        {"integers": [1.5]},
        {"integers": [2**53]},
        {"other": 1},
    ],
)
async def test_details_beyond_the_policy_are_refused(harness: Harness, key: Any, details: Any):
    """So many integers, and an object of so many bytes; a board that states neither takes none."""
    answer = await write(harness, key, 1, "noted", details=details)
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert "details" in answer.body["detail"]
    assert 422 == (await write(harness, key, 2, "vault", details={"integers": [1]})).status


async def test_details_come_back_with_the_submission_of_an_entry(harness: Harness, key: Any):
    """One call for a page: its entries name their submissions, and what those brought along stands with the best of them."""
    details = {"integers": [7, -1], "object": {"ghost": True}}
    for number, (score, brought) in enumerate([(5, details), (4, {"integers": [9]})]):
        entry = {"player": "ada", "score": score, "details": brought, "stats": {"laps": 3}}
        assert 202 == (await write(harness, key, number, "noted", **entry)).status
    [entry] = (await harness.get("/v1/boards/noted/entries")).body["entries"]
    answer = await harness.get(f"/v1/boards/noted/details?submissions={entry['submission']},unknown")
    shown = {"submission": entry["submission"], "player": "ada", "stats": {"laps": 3}, **details}
    assert {"board": "noted", "details": [shown]} == answer.body
    elsewhere = await harness.get(f"/v1/boards/vault/details?submissions={entry['submission']}")
    assert [] == elsewhere.body["details"]
    for asked in ("", "A", "a,,b", ",".join(["a"] * 101)):
        refused = await harness.get(f"/v1/boards/noted/details?submissions={asked}")
        assert (422, "schema-violation") == (refused.status, refused.problem)


async def test_a_players_details_are_kept_as_they_were_sent(harness: Harness):
    """A client's details are a claim like its score: taken as far as the policy allows, and refused past it."""
    run = await harness.open_run(board="played")
    claim = {"score": 7, "ticks": 60, "details": {"integers": [1, 2]}}
    answer = await harness.send(harness.signed(run, claim, board="played"))
    assert 202 == answer.status, answer.raw
    moderator = harness.moderator("played")
    await harness.post(
        f"/v1/moderation/cases/{answer.body['submission']}/approve",
        {"code": "other", "note": "seen"},
        token=moderator,
    )
    shown = await harness.get(f"/v1/boards/played/details?submissions={answer.body['submission']}")
    assert [[1, 2]] == [each["integers"] for each in shown.body["details"]]
    other = await harness.open_run(board="played")
    refused = await harness.send(
        harness.signed(other, claim | {"details": {"integers": [1, 2, 3]}}, board="played")
    )
    assert (422, "schema-violation") == (refused.status, refused.problem)


async def test_a_board_of_counts_counts(harness: Harness, key: Any):
    """Each promoted submission is one, whatever its score."""
    for number, player in enumerate(("ada", "bob", "ada")):
        assert 202 == (await write(harness, key, number, "counted", player=player, score=100 - number)).status
    answer = await harness.get("/v1/boards/counted/entries")
    assert [("ada", 2), ("bob", 1)] == [(each["player"], each["score"]) for each in answer.body["entries"]]
