"""Trusted servers' versions, removals, corrections and batches: all or none, once, whatever gets lost on the way."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from redis import Redis
from scoregate_client import ScoregateError, ServerClient

from gateway.ledger import queries
from gateway.runtime.failpoints import Point
from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from scoregate import quarantine as quarantining
from scoregate.commands.keys import all_keys, moment_of, register, revoke
from tests.support import boards
from tests.support.attack import (
    ENTRY,
    INVALID,
    a_run,
    accept,
    as_server,
    honest,
    refuse,
    registered,
    rows,
    until,
)
from tests.support.deployment import KILLED, client_of, deployed, ended, eventually
from tests.support.harness import Answer, Harness, Request
from tests.support.ledger import rows as file_rows
from tests.support.oracle import due_on_board, shown_on_board
from tests.support.raw import RawConnection, as_bytes
from tests.support.valkey import ValkeyServer

FORBIDDEN = (403, "scope-forbidden")
NDJSON = "application/x-ndjson"


def signed(
    harness: Harness, private: Ed25519PrivateKey, what: str, body: Any, board: str = "vault", **draft: Any
) -> Request:
    """A trusted server's request: `what` is `removals` or `entries/batch`, a body of bytes is NDJSON."""
    path = f"/v1/boards/{board}/{what}"
    key_id, raw = draft.pop("key_id", "eu-1"), body if isinstance(body, bytes) else json.dumps(body).encode()
    media = NDJSON if isinstance(body, bytes) else "application/json"
    parts = {"path": path, "body": raw, "content_type": media}
    request = harness.server_signed(private, key_id, body if raw is not body else None, **parts, **draft)
    return Request("POST", path, raw, request.headers | {"Content-Type": media})


def write(operation: str, score: int = 7, player: str = "ada", **more: Any) -> dict[str, Any]:
    return {"action": "write", "operation": operation, "player": player, "score": score} | more


def remove(operation: str, player: str = "ada", **more: Any) -> dict[str, Any]:
    return {"action": "remove", "operation": operation, "player": player} | more


async def standing(harness: Harness, board: str = "vault") -> list[tuple[str, int]]:
    page = (await harness.get(f"/v1/boards/{board}/entries?limit=100")).body
    return [(entry["player"], entry["score"]) for entry in page["entries"]]


def told(answer: Answer) -> tuple[int, str, bool]:
    return answer.status, answer.problem, "Idempotency-Replayed" in answer.headers


async def test_T05_a_write_that_a_later_removal_has_settled_is_stale(harness: Harness):
    """Write 1, removal 3, write 2: the third is told 409, again and again, and the slot stays empty."""
    private = await registered(harness)
    assert (202, "", False) == told(await as_server(harness, private, ENTRY | {"version": 1}))
    removal = {"operation": "gone", "player": "ada", "version": 3}
    removed = await harness.send(signed(harness, private, "removals", removal))
    assert (200, "", False) == told(removed)
    assert 1 == len(removed.body["removed"])
    for _ in range(2):
        late = await as_server(harness, private, ENTRY | {"operation": "op-2", "version": 2})
        assert (409, "stale-version", False) == told(late)
    assert [] == await standing(harness)
    again = await harness.send(signed(harness, private, "removals", removal))
    assert (200, "", True) == told(again)
    assert removed.raw == again.raw
    await accept(
        harness,
        harness.server_signed(private, "eu-1", ENTRY | {"operation": "op-4", "version": 4}, board="vault"),
    )
    assert [("ada", 7)] == await standing(harness)


async def test_a_correction_replaces_and_a_removal_gives_way_to_the_next_best(harness: Harness):
    """900 should have been 90, and then 80 is the best that is left; on a summing board the sum follows."""
    private = await registered(harness)
    async with ServerClient(harness.url, "eu-1", private) as server:
        for board, stood in (("vault", [900, 90, 80]), ("total", [980, 170, 80])):
            await server.write_entry(board, f"{board}-1", "ada", 80)
            wrong = await server.write_entry(board, f"{board}-2", "ada", 900)
            assert [("ada", stood[0])] == await standing(harness, board)
            right = await server.write_entry(board, f"{board}-3", "ada", 90, replaces=wrong["submission"])
            assert [("ada", stood[1])] == await standing(harness, board)
            removed = await server.remove(board, f"{board}-4", "ada", submission=right["submission"])
            assert [right["submission"]] == removed
            assert [("ada", stood[2])] == await standing(harness, board)
            with pytest.raises(ScoregateError, match="state-conflict"):
                await server.remove(board, f"{board}-5", "ada", submission=right["submission"])


async def test_a_server_takes_back_a_run_that_a_moderator_approved(harness: Harness):
    """A removal reaches all that counts for the player, whoever brought it there."""
    private, run = await registered(harness), await a_run(harness)
    await accept(harness, honest(harness, run))
    await harness.post(
        f"/v1/moderation/cases/{run.id}/approve", {"code": "other", "note": "fine"}, harness.moderator()
    )
    removal = {"operation": "ban-1", "player": run.player, "reason": "banned"}
    answer = await harness.send(signed(harness, private, "removals", removal, "sprint"))
    assert [run.id] == answer.body["removed"]
    [*_, event] = await harness.edge.ledger.read(queries.history_of(run.id))
    assert ("server:eu-1", "removed-by-server", "banned") == (
        event["actor"],
        event["reason"],
        event["detail"]["why"],
    )


async def test_T01_removals_and_batches_are_within_the_scope_of_their_key(harness: Harness):
    """A key for another board, and an unknown one, remove and batch nothing."""
    await registered(harness)
    private = await registered(harness, "eu-2", "total")
    for what, body in (("removals", {"operation": "x", "player": "ada"}), ("entries/batch", [write("y")])):
        await refuse(harness, signed(harness, private, what, body, key_id="eu-2"), FORBIDDEN)
        await refuse(harness, signed(harness, private, what, body, key_id="eu-1"), INVALID)
        answer = await harness.send(signed(harness, private, what, body, "total", key_id="eu-2"))
        assert 200 == answer.status


def batch_of(count: int) -> list[dict[str, Any]]:
    return [write(f"op-{at}", at, f"p{at}", version=1) for at in range(count)]


@pytest.mark.parametrize("media", ["array", "lines"])
async def test_T07_a_batch_with_two_wrong_items_does_nothing_and_names_both(harness: Harness, media: str):
    """500 operations of which 7 and 301 cannot be: 422 with both, nothing stored; put right they all stand."""
    private = await registered(harness)
    operations = batch_of(500)
    wrong = [*operations]
    wrong[7], wrong[301] = write("op-7", -1, "p7"), write("op-301", 301, "no player!")

    def request(batch: list[dict[str, Any]]) -> Request:
        lines = b"\n".join(json.dumps(each).encode() for each in batch) + b"\n"
        return signed(harness, private, "entries/batch", batch if media == "array" else lines)

    refused = await refuse(harness, request(wrong), (422, "batch-refused"))
    errors = [(each["index"], each["type"].rpartition("/")[2]) for each in refused.body["errors"]]
    assert [(7, "bounds-violation"), (301, "schema-violation")] == errors
    assert "player" in refused.body["errors"][1]["detail"]
    assert ([], 0) == (await standing(harness), await rows(harness))

    done = await harness.send(request(operations))
    assert (200, "", False) == told(done)
    assert [f"p{at}" for at in range(500)] == [result["player"] for result in done.body["results"]]
    await until(lambda: shows(harness, 500))
    page = (await harness.get("/v1/boards/vault/entries?limit=1")).body
    assert (500, 500, 499) == (await rows(harness), page["total"], page["entries"][0]["score"])


async def shows(harness: Harness, total: int) -> bool:
    """True once the vault has so many entries; shows what a slow Redis has left to the steward."""
    harness.clock.shift(2)
    await harness.steward().project()
    return total == (await harness.get("/v1/boards/vault/entries")).body["total"]


async def test_T07_what_only_the_ledger_can_tell_is_named_by_item_too(harness: Harness):
    """A used operation id, a stale version and a target that is not there, each by its place; the others wait."""
    private = await registered(harness)
    async with ServerClient(harness.url, "eu-1", private) as server:
        first = [write("a", 1), remove("b", "bea", version=5)]
        await server.write_batch("vault", first)
        with pytest.raises(ScoregateError) as refused:
            await server.write_batch(
                "vault",
                [
                    write("c"),
                    write("a", 2),
                    write("d", player="bea", version=4),
                    remove("e", submission="opx"),
                ],
            )
        errors = refused.value.problem["errors"]
        assert [(1, "idempotency-mismatch"), (2, "stale-version"), (3, "state-conflict")] == [
            (each["index"], each["type"].rpartition("/")[2]) for each in errors
        ]
        assert [("ada", 1)] == await standing(harness)
        again = await server.write_batch("vault", [*first, write("c", 3)])
    assert [("ada", 3)] == await standing(harness)
    assert [1, None, 3] == [result.get("score") for result in again]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([], (422, "schema-violation")),
        (b"\n\n", (422, "schema-violation")),
        ({"action": "write"}, (422, "schema-violation")),
        ([write(f"o{at}") for at in range(501)], (422, "schema-violation")),
        (b'{"action": "write"}\n{]\n', (400, "malformed-request")),
        ([{"operation": "o", "player": "ada", "score": 1}], (422, "batch-refused")),
        ([remove("o", version=1, submission="opx")], (422, "batch-refused")),
        ([write("o", 7.5)], (422, "batch-refused")),
        ([write("o", version=0)], (422, "batch-refused")),
    ],
)
async def test_T07_a_batch_of_another_form_is_refused(harness: Harness, body: Any, expected: tuple[int, str]):
    """Empty, too long, no list, no JSON, no action, two extents, no whole score, no version at all."""
    private = await registered(harness)
    answer = await refuse(harness, signed(harness, private, "entries/batch", body), expected)
    if isinstance(body, bytes) and expected[0] == 400:
        assert answer.body["detail"].startswith("line 2: ")


async def test_T04_an_operation_is_the_same_alone_and_in_a_batch(harness: Harness):
    """Written alone, repeated in a batch: stored once. Twice in one batch: done once."""
    private = await registered(harness)
    first = await as_server(harness, private, ENTRY)
    entry = ENTRY | {"action": "write"}
    batch = await harness.send(
        signed(harness, private, "entries/batch", [entry, write("op-2"), write("op-2")])
    )
    assert (200, "", False) == told(batch)
    assert first.body == batch.body["results"][0]
    assert batch.body["results"][1] == batch.body["results"][2]
    assert 2 == await rows(harness)


async def test_S18_a_servers_nonce_with_other_content_is_refused(harness: Harness):
    """One nonce, one request: other content, or the same for another board, is 401; the very bytes are a repetition."""
    private, another = await registered(harness), await registered(harness, "eu-2")
    nonce = {"nonce": "a-nonce-of-24-characters"}
    request = harness.server_signed(private, "eu-1", ENTRY, board="vault", **nonce)
    await accept(harness, request)
    reused = (401, "nonce-reused")
    other = ENTRY | {"operation": "op-2"}
    await refuse(harness, harness.server_signed(private, "eu-1", other, board="vault", **nonce), reused)
    await refuse(harness, harness.server_signed(private, "eu-1", ENTRY, board="total", **nonce), reused)
    removal = {"operation": "op-3", "player": "ada"}
    await refuse(harness, signed(harness, private, "removals", removal, **nonce), reused)
    assert (202, "", True) == told(await harness.send(request))
    assert [("ada", 7)] == await standing(harness)
    await accept(harness, harness.server_signed(another, "eu-2", ENTRY, board="vault", **nonce))


async def test_T08_a_batch_whose_answer_was_lost_gives_the_same_answer_again(harness: Harness):
    """The connection is gone after the commit; the same bytes, and a new signature too, get what was stored, once."""
    private = await registered(harness)
    operations = [*batch_of(20), remove("op-20", "p3"), write("op-21", 50, "p4")]
    request = signed(harness, private, "entries/batch", operations)
    async with RawConnection(harness.authority) as connection:
        await connection.send(as_bytes(request, harness.authority))
    await until(lambda: rows(harness))
    answers = [
        await harness.send(request),
        await harness.send(signed(harness, private, "entries/batch", operations)),
    ]
    assert {(200, "", True)} == {told(answer) for answer in answers}
    assert answers[0].raw == answers[1].raw
    results = answers[0].body["results"]
    assert [results[3]["submission"]] == results[20]["removed"]
    assert 21 == await rows(harness)
    await until(lambda: shows(harness, 19))


async def test_T04_twenty_of_one_batch_at_once_have_one_effect(harness: Harness):
    """All get the same results; one of them was the first."""
    private = await registered(harness)
    operations = [write("a", 1), write("b", 2), remove("c", "bea")]
    sending = [harness.send(signed(harness, private, "entries/batch", operations)) for _ in range(20)]
    answers = await asyncio.gather(*sending)
    assert {200} == {answer.status for answer in answers}
    assert 1 == sum("Idempotency-Replayed" not in answer.headers for answer in answers)
    assert 1 == len({answer.raw for answer in answers})
    assert 2 == await rows(harness)


async def test_T09_a_batch_whose_edge_died_before_the_index_is_shown_by_the_steward(
    tmp_path: Path, valkey: ValkeyServer
):
    """Killed between the ledger and Redis: the steward shows it, and the same bytes get the stored answer."""
    with deployed(tmp_path, valkey) as house:
        settings = Settings(data_dir=house.folder / "data")
        private = Ed25519PrivateKey.generate()
        public = private.public_key().public_bytes_raw()
        edge = house.start("serve", Point.AFTER_SETTLE)
        await house.is_answering()
        await register(settings, "eu-1", base64.b64encode(public).decode(), ("*",))
        policy = boards.board(house.policies).policy
        async with client_of(house) as client:
            operations = [*batch_of(30), remove("gone", "p29"), write("worse", 3, "p28")]
            request = signed(client.harness, private, "entries/batch", operations, "tiny")
            with pytest.raises(aiohttp.ClientError):
                await client.harness.send(request)
            assert KILLED == await ended(edge)
            assert 31 == len(house.states())
            with Redis.from_url(valkey.url) as redis:
                assert {} == shown_on_board(redis, policy)
                house.start("serve")
                house.start("steward")
                await house.is_answering()
                answer = await client.harness.send(request)
                assert (200, "", True) == told(answer)
                await eventually(
                    lambda: due_on_board(house.ledger, policy) == shown_on_board(redis, policy), house.log
                )
                assert 29 == redis.zcard("lb:{201}:tiny:alltime")
        assert [("promoted", 30), ("revoked", 1)] == file_rows(
            house.ledger, "SELECT state, count(*) FROM submissions GROUP BY 1 ORDER BY 1"
        )


@pytest.mark.parametrize("off_by_s", [-600, 600])
async def test_T10_the_client_signs_again_with_the_time_it_is_told(harness: Harness, off_by_s: int):
    """Ten minutes off: every call passes at the second try, and made again it is answered alike."""
    private = await registered(harness)
    clock = lambda: harness.clock() / 1000 + off_by_s  # noqa: E731
    async with ServerClient(harness.url, "eu-1", private, clock=clock) as server:
        written = await server.write_entry("vault", "one", "ada", 7, version=1)
        assert written == await server.write_entry("vault", "one", "ada", 7, version=1)
        done = await server.write_batch("vault", [write("two", 8, "bea"), remove("three", "ada", version=2)])
        assert [written["submission"]] == done[1]["removed"]
        assert done[0]["submission"] in await server.remove("vault", "four", "bea")
        operations = [write("five", 9, "cyd"), write("six", version=0)]
        for is_replay in (False, True):
            passed, failed = await server.write_each("vault", operations)
            assert ("done", is_replay, 9) == (
                passed["status"],
                passed["is_replay"],
                passed["result"]["score"],
            )
            assert ("refused", 422) == (failed["status"], failed["problem"]["status"])
        await server.remove("vault", "seven", "cyd")
    assert [] == await standing(harness)
    assert 3 == await rows(harness)


async def test_T02_a_stolen_key_is_taken_back_with_all_that_it_wrote_since(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """Refused from then on; what it wrote since counts no more, what it wrote before does; a moderator may differ."""
    private, other = await registered(harness), await registered(harness, "eu-2")
    settings = harness.edge.settings
    async with ServerClient(harness.url, "eu-1", private, clock=lambda: harness.clock() / 1000) as thief:
        await thief.write_entry("vault", "before", "ada", 10)
        harness.clock.shift(60)
        since_ms = harness.clock()
        forged = [
            (await thief.write_entry(board, f"{board}-{at}", "ada", 90 + at))["submission"]
            for board in ("vault", "total")
            for at in range(3)
        ]
        monkeypatch.setattr(quarantining, "SLICE", 1)
        hidden = []
        for player in ("bea", "cyd"):
            entry = ENTRY | {"player": player, "operation": f"of-{player}"}
            await as_server(harness, other, entry, keyid="eu-2")
            hidden += await thief.remove("vault", f"hide-{player}", player)
        assert [("ada", 92)] == await standing(harness)

        preview = await revoke(settings, "eu-1", compromised_since_ms=since_ms, clock=harness.clock)
        assert [("ada", 92)] == await standing(harness)
        assert {"vault", "total"} == {each["board"] for each in preview.batch.preview["podiums"]}
        found = await revoke(
            settings, "eu-1", compromised_since_ms=since_ms, is_applied=True, clock=harness.clock
        )
        quarantined = [(name, "quarantined") for name in forged]
        taken_back = [(name, "taken-back-by-the-key") for name in hidden]
        assert 2 == len(taken_back)
        assert sorted([*quarantined, *taken_back]) == sorted(found.rows())
        assert [("ada", 10)] == await standing(harness)
        assert [] == await standing(harness, "total")
        with pytest.raises(ScoregateError) as refused:
            await thief.write_entry("vault", "after", "ada", 99)
        assert INVALID == (refused.value.status, refused.value.name)
    assert 9 == await rows(harness)
    again = await revoke(
        settings, "eu-1", compromised_since_ms=since_ms, is_applied=True, clock=harness.clock
    )
    assert again.batch is None
    back = await harness.post(
        f"/v1/moderation/cases/{hidden[0]}/reinstate",
        {"code": "other", "note": "it was the thief"},
        harness.moderator(),
    )
    assert 200 == back.status
    assert [("ada", 10), ("bea", 7)] == await standing(harness)
    [key, _] = await all_keys(settings)
    assert ("eu-1", True) == (key.key_id, key.revoked_at_ms is not None)
    with pytest.raises(SettingsError, match="revoked"):
        await registered(harness, "eu-1")


async def test_T03_keys_are_exchanged_without_a_gap(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Old and new write side by side; the old one is refused once it is taken back, and nothing is lost."""
    monkeypatch.setattr("gateway.edge.auth.server_keys.REFRESH_S", 0.2)
    old = await registered(harness, "eu-1")
    await accept(harness, harness.server_signed(old, "eu-1", ENTRY, board="vault"))
    new = await registered(harness, "eu-2")

    async def is_known() -> bool:
        return await harness.edge.server_keys.find("eu-2") is not None

    await until(is_known)
    await accept(harness, harness.server_signed(new, "eu-2", ENTRY | {"player": "bea"}, board="vault"))
    await accept(harness, harness.server_signed(old, "eu-1", ENTRY | {"operation": "op-2"}, board="vault"))
    await revoke(harness.edge.settings, "eu-1")
    late = ENTRY | {"operation": "op-3"}
    await refuse(harness, harness.server_signed(old, "eu-1", late, board="vault"), INVALID)
    await until(lambda: is_forgotten(harness))
    await refuse(harness, harness.server_signed(old, "eu-1", late, board="vault"), INVALID)
    await accept(harness, harness.server_signed(new, "eu-2", late, board="vault"))
    assert 4 == await rows(harness)


async def is_forgotten(harness: Harness) -> bool:
    """True once the edge itself has read of the revocation."""
    return await harness.edge.server_keys.find("eu-1") is None


@pytest.mark.parametrize("text", ["yesterday", "2026-11-20T14:00:00", ""])
def test_T02_a_time_without_a_zone_is_none(text: str):
    """The moment of a theft must not depend on where the command runs."""
    assert 1_795_183_200_000 == moment_of("2026-11-20T14:00:00Z") == moment_of("2026-11-20T15:00:00+01:00")
    with pytest.raises(SettingsError, match="zone"):
        moment_of(text)
