"""Batches whose operations are done each by itself, and increments: once each, durable first, shown when the policy says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.index import keys
from gateway.runtime.settings import Settings
from tests.support.attack import registered, rows
from tests.support.groups import BOARDS, by_server
from tests.support.harness import Answer, Harness, Request, free_port
from tests.support.policies import arcade_policy, write_policies
from tests.support.valkey import ValkeyServer


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer) -> Settings:
    folder = write_policies(tmp_path / "policies", arcade_policy(), *BOARDS)
    bind = f"127.0.0.1:{free_port()}"
    return Settings(data_dir=tmp_path / "data", policies_dir=folder, redis_url=valkey.url, bind=bind)


def write(operation: str, score: int, player: str = "ada", **more: Any) -> dict[str, Any]:
    return {"action": "write", "operation": operation, "player": player, "score": score} | more


def add(operation: str, by: int, player: str = "ada") -> dict[str, Any]:
    return {"action": "increment", "operation": operation, "player": player, "by": by}


async def each_of(harness: Harness, key, operations: Any, board: str = "vault", **draft: Any) -> Answer:
    return await harness.send(
        by_server(harness, key, "POST", f"/v1/boards/{board}/entries:batch", operations, **draft)
    )


async def increment(
    harness: Harness, key, operation: str, by: int, board: str, player: str = "ada"
) -> Answer:
    body = {"operation": operation, "player": player, "by": by}
    return await harness.send(by_server(harness, key, "POST", f"/v1/boards/{board}/increments", body))


async def standing(harness: Harness, board: str) -> list[tuple[str, int]]:
    page = (await harness.get(f"/v1/boards/{board}/entries?limit=100")).body
    return [(entry["player"], entry["score"]) for entry in page["entries"]]


def told(answer: Answer) -> list[str]:
    """`done`, `again`, or the problem of each operation."""
    assert 200 == answer.status, answer.raw
    return [
        each["problem"]["type"].rsplit("/", 1)[1]
        if each["problem"]
        else "again"
        if each["is_replay"]
        else "done"
        for each in answer.body["results"]
    ]


async def test_T07_each_operation_is_done_or_refused_by_itself(harness: Harness):
    """Seven kinds of wrong ones among right ones: each is told its problem, and the right ones stand."""
    key = await registered(harness)
    operations = [
        write("op-1", 70, version=5),
        write("op-2", -1),
        {"action": "fly", "operation": "op-3"},
        write("op-4", 10, "bob", replaces="op0"),
        {"action": "remove", "operation": "op-5", "player": "eve", "version": 9},
        write("op-6", 40, "eve", version=9),
        add("op-7", 3),
        write("op-1", 71, version=5),
        write("op-8", 90, "bob"),
        "nothing",
    ]
    answer = await each_of(harness, key, operations)
    expected = ["done", "bounds-violation", "schema-violation", "state-conflict", "done", "stale-version"]
    expected += ["operator-mismatch", "idempotency-mismatch", "done", "schema-violation"]
    assert expected == told(answer)
    assert 7 == answer.body["refused"]
    assert not [each for each in answer.body["results"] if each["is_replay"]]
    assert [("bob", 90), ("ada", 70)] == await standing(harness, "vault")
    assert 2 == await rows(harness)


async def test_T07_what_a_board_does_not_take_with_an_entry_is_refused_by_itself(harness: Harness):
    """More details than its policy allows, and a time that is to come; the entries beside them stand."""
    key = await registered(harness)
    operations = [
        write("op-1", 70, details={"integers": [0] * 64, "object": {}}),
        write("op-2", 50, achieved_at="9999-01-01T00:00:00Z"),
        write("op-3", 60, "bob"),
    ]
    assert ["schema-violation", "schema-violation", "done"] == told(await each_of(harness, key, operations))
    assert [("bob", 60)] == await standing(harness, "vault")
    refused = await each_of(harness, key, operations[:2])
    assert ["details", "achieved_at"] == [
        re.split(r"[.:]", each["problem"]["detail"])[0] for each in refused.body["results"]
    ]


async def test_B11_a_refused_batch_names_all_that_is_wrong_with_it(harness: Harness):
    """What cannot be read and what the ledger refuses are told together, each by its place; nothing of it is done."""
    key = await registered(harness)
    assert ["done"] == told(await each_of(harness, key, [write("op-1", 70, version=5)]))
    batch = [
        write("op-2", 80, version=4),
        write("op-3", 10**16),
        write("op-4", 90),
        {"action": "write", "operation": "op-5"},
        write("op-1", 71, version=5),
    ]
    answer = await harness.send(by_server(harness, key, "POST", "/v1/boards/vault/entries/batch", batch))
    assert (422, "batch-refused") == (answer.status, answer.problem)
    kinds = {each["index"]: each["type"].rsplit("/", 1)[1] for each in answer.body["errors"]}
    assert {1: "schema-violation", 3: "schema-violation", 4: "idempotency-mismatch"} == kinds
    known = "op-1: the operation id was used before, with another body"
    assert known == answer.body["errors"][2]["detail"]
    [alone] = (await each_of(harness, key, batch[-1:])).body["results"]
    assert known == alone["problem"]["detail"]
    assert [("ada", 70)] == await standing(harness, "vault")
    assert ["done"] == told(await each_of(harness, key, [write("op-4", 91)]))


async def test_T08_a_batch_that_is_sent_again_does_what_was_not_done(harness: Harness):
    """The first half was done before the connection was lost: a resend of all does the other half, and once."""
    key = await registered(harness)
    operations = [write(f"op-{n}", n, f"p{n}") for n in range(20)]
    await each_of(harness, key, operations[:10])
    again = await each_of(harness, key, operations)
    assert ["again"] * 10 + ["done"] * 10 == told(again)
    assert ["again"] * 20 == told(await each_of(harness, key, operations))
    assert 20 == len(await standing(harness, "vault"))
    assert 20 == await rows(harness)


async def test_a_thousand_are_done_and_one_more_is_too_many(harness: Harness):
    """A thousand in an array or by the line, in four commits; 1001, none, and what is no list are refused whole."""
    key = await registered(harness)
    assert ["done"] * 1000 == told(
        await each_of(harness, key, [write(f"op-{n}", n % 7, f"p{n % 50}") for n in range(1000)])
    )
    assert 50 == len(await standing(harness, "vault"))
    for wrong in ([write(f"x-{n}", 1) for n in range(1001)], [], {"action": "write"}):
        assert "schema-violation" == (await each_of(harness, key, wrong)).problem
    assert 1000 == await rows(harness)


async def test_a_batch_by_the_line_is_one_too(harness: Harness):
    """NDJSON; a line that is no JSON is refused with its number, and nothing of the batch is done."""
    key, path = await registered(harness), "/v1/boards/vault/entries:batch"
    for last, status in ((json.dumps(write("op-2", 2, "bob")), 200), ("{", 400)):
        raw = "\n".join([json.dumps(write("op-1", 1)), "", last]).encode()
        draft = {"path": path, "body": raw, "content_type": "application/x-ndjson"}
        headers = harness.server_signed(key, "eu-1", None, board="vault", **draft).headers
        answer = await harness.send(
            Request("POST", path, raw, headers | {"Content-Type": "application/x-ndjson"})
        )
        assert status == answer.status, answer.raw
    assert "line 3" in answer.body["detail"]
    assert [("bob", 2), ("ada", 1)] == await standing(harness, "vault")


async def test_T01_a_batch_is_within_the_scope_of_its_key_and_nonce(harness: Harness):
    """A key of another board does nothing; a nonce that was used with another batch neither."""
    other, key = await registered(harness, "eu-2", "lap"), await registered(harness)
    assert "scope-forbidden" == (await each_of(harness, other, [write("a", 1)], key_id="eu-2")).problem
    assert ["done"] == told(await each_of(harness, key, [write("b", 1)], nonce="n" * 24))
    assert "nonce-reused" == (await each_of(harness, key, [write("c", 1)], nonce="n" * 24)).problem
    assert [("ada", 1)] == await standing(harness, "vault")


async def test_increments_add_up_once_each(harness: Harness):
    """Up and down, a resend adds nothing, alone or in either batch; other boards and impossible ones refuse."""
    key = await registered(harness)
    assert 202 == (await increment(harness, key, "i-1", 10, "total")).status
    assert [("ada", 10)] == await standing(harness, "total")
    again = await increment(harness, key, "i-1", 10, "total")
    assert (202, "true") == (again.status, again.headers.get("Idempotency-Replayed"))
    assert ["again", "done"] == told(await each_of(harness, key, [add("i-1", 10), add("i-2", -3)], "total"))
    whole = by_server(
        harness, key, "POST", "/v1/boards/total/entries/batch", [add("i-3", 5), add("i-4", 1, "bob")]
    )
    assert 200 == (await harness.send(whole)).status
    assert [("ada", 12), ("bob", 1)] == await standing(harness, "total")
    for board in ("vault", "latest"):
        refused = await increment(harness, key, "i-9", 1, board)
        assert (422, "operator-mismatch") == (refused.status, refused.problem)
    assert "bounds-violation" == (await increment(harness, key, "i-8", -1001, "total")).problem
    assert "idempotency-mismatch" == (await increment(harness, key, "i-1", 11, "total")).problem


async def test_increments_of_a_stale_board_are_durable_at_once_and_shown_together(
    harness: Harness, valkey: ValkeyServer
):
    """Fifty of one player are in the ledger when they are answered, and come to the index as one change each window."""
    key = await registered(harness)
    for n in range(50):
        assert 202 == (await increment(harness, key, f"i-{n}", 2, "clicks", "ada" if n % 2 else "bob")).status
    assert 50 == await rows(harness)
    assert [] == await standing(harness, "clicks")
    await harness.edge.coalescers.drained()
    assert {("ada", 50), ("bob", 50)} == set(await standing(harness, "clicks"))
    with valkey.client() as client:
        assert 2 == client.xlen(keys.changes("clicks"))
    assert 0 == await harness.steward().project()
    harness.clock.shift(120)
    assert 0 == await harness.steward().project()


async def test_what_a_dead_process_had_gathered_is_shown_by_the_steward(harness: Harness):
    """The outbox has it, and waits for longer than the board may be stale; a write is shown at once all the same."""
    key = await registered(harness)
    assert ["done"] * 2 == told(await each_of(harness, key, [add("i-1", 3), add("i-2", 4)], "clicks"))
    harness.edge.coalescers._waiting["clicks"]._gathered.clear()
    harness.clock.shift(30)
    assert 0 == await harness.steward().project()
    harness.clock.shift(40)
    assert 2 == await harness.steward().project()
    assert [("ada", 7)] == await standing(harness, "clicks")
    assert ["done", "done"] == told(await each_of(harness, key, [add("i-3", 1), write("w-1", 1)], "clicks"))
    assert [("ada", 9)] == await standing(harness, "clicks")
