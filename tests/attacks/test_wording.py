"""What a refusal says: which field, what is wrong with it, and what to write instead; and numbers that no field takes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gateway.edge.http import strict_json
from gateway.edge.http.validation_messages import first_fault
from gateway.edge.problems import Problem
from gateway.edge.wire import bodies
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339
from policies.vocabulary import LATEST_MS
from tests.support.attack import CLAIM, ENTRY, about, accept, honest, issued, refuse, registered
from tests.support.harness import Answer, Harness
from tests.support.thorough import examples

SCHEMA = (422, "schema-violation")
RAW = ("Input should", "Field required", "Extra inputs", "should match pattern", "Value error", "valid ")
ENTRIES: TypeAdapter[Any] = TypeAdapter(bodies.BatchedOperation)


def instant_ms(*at: int) -> int:
    return int(datetime(*at, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T12:00:00.123456789Z", instant_ms(2026, 11, 20, 12, 0, 0) + 123),
        ("2026-11-20T12:00:00." + "9" * 60 + "+00:00", instant_ms(2026, 11, 20, 12, 0, 0) + 999),
        ("2026-11-20T13:00:00.5+01:00", instant_ms(2026, 11, 20, 12, 0, 0) + 500),
        ("2026-11-20t12:00:00z", instant_ms(2026, 11, 20, 12, 0, 0)),
        ("2026-11-20T12:00:00.Z", None),
        ("2026-11-20T12:00:00", None),
        ("2026-11-20 12:00:00Z", None),
        ("9999-12-31T23:59:59.9999Z", LATEST_MS),
        ("9999-12-31T23:59:59-00:01", None),
    ],
)
def test_B13_fractions_of_any_length_are_taken(text: str, expected: int | None):
    """What Go and Java write is read; what is finer than a millisecond is cut off."""
    assert expected == parse_rfc3339(text)


NO_TIMES = (
    ("2026-11-20T12:00:00", "no time zone"),
    ("2026-11-20T12:00:00.123456789", "no time zone"),
    ("2016-12-31T23:59:60Z", "leap second"),
    ("2016-12-31T23:59:60.5+00:00", "leap second"),
    ("1969-07-20T20:17:00Z", "before 1970"),
    ("9999-12-31T23:59:59-00:01", "after the year 9999"),
    ("9999-12-31T10:00:00", "no time zone"),
    ("9999-12-31T23:59:60Z", "leap second"),
    ("9999-12-31T25:00:00Z", "RFC 3339"),
    ("yesterday", "RFC 3339"),
    ("2026-13-01T00:00:00Z", "RFC 3339"),
)


async def test_B13_a_time_that_is_refused_says_what_to_write(harness: Harness):
    """Each fault has its own sentence, and the future one of its own."""
    private = await registered(harness)
    for text, told in NO_TIMES:
        with about(text):
            assert told in fault_of_rfc3339(text)
            hostile = harness.server_signed(private, "eu-1", ENTRY | {"achieved_at": text}, board="vault")
            answer = await refuse(harness, hostile, SCHEMA)
            assert answer.body["detail"].startswith("achieved_at: ")
            assert told in answer.body["detail"]


async def test_B13_other_refusals_say_what_to_do(harness: Harness):
    """The future, a week that there is not, an impossible score, a token that does not verify."""
    private = await registered(harness)
    ahead = harness.server_signed(
        private, "eu-1", ENTRY | {"achieved_at": "2999-01-01T00:00:00Z"}, board="vault"
    )
    assert "is in the future; by our clock" in (await refuse(harness, ahead, SCHEMA)).body["detail"]
    week = await harness.get("/v1/boards/arcade/entries?window=weekly:2026W54")
    assert (404, "not-found") == (week.status, week.problem)
    assert "no such window; the current one is weekly:" in week.body["detail"]
    impossible = honest(harness, issued(harness), {"score": -1, "ticks": 60})
    answer = await refuse(harness, impossible, (422, "bounds-violation"))
    assert "there cannot be such a run" in answer.body["detail"]
    for token, told in ((None, "send Authorization"), ("e30.e30.AA", "get a new one")):
        refused = await harness.get("/v1/friends", token)
        assert (401, "token-invalid") == (refused.status, refused.problem)
        assert told in refused.body["detail"]


FAULTY: list[tuple[type[Any] | TypeAdapter[Any], Any]] = [
    (bodies.NewScore, value)
    for value in (
        None, [], "x", {}, {"score": "1", "ticks": 1}, {"score": 1.5, "ticks": 1}, {"score": True, "ticks": 1}, {"score": 2**53, "ticks": 1},
        {"score": 1, "ticks": -1}, CLAIM | {"verified": True}, CLAIM | {"stats": {"A!": 1}}, CLAIM | {"stats": []},
        CLAIM | {"recording": 5}, CLAIM | {"recording_digest": "md5:0"}, CLAIM | {"details": {"integers": [0] * 65}},
        CLAIM | {"details": {"object": {"a": 2**63}}},
    )
] + [
    (ENTRIES, value)
    for value in ({}, {"action": "burn"}, ENTRY | {"action": "write", "player": ""}, ENTRY | {"action": "write", "version": 0},
                  {"action": "remove", "operation": "a", "player": "b", "submission": "c", "version": 1})
]  # fmt: skip


@pytest.mark.parametrize(("model", "value"), FAULTY)
def test_B13_no_raw_validator_text_reaches_a_client(model: Any, value: Any):
    """Every fault has words of ours, and none of them is a place holder."""
    with pytest.raises(ValidationError) as caught:
        model.validate_python(value) if isinstance(model, TypeAdapter) else model.model_validate(value)
    _, words = first_fault(caught.value)
    assert not [each for each in RAW if each in words], words
    assert words not in {"expected another value", "expected another form"}


HUGE = [str(2**63), str(-(2**63) - 1), str(2**64), "1" + "0" * 40, "9" * 5000, "-" + "9" * 5000]


PLACES: tuple[dict[str, Any], ...] = (
    {"score": "@"},
    {"version": "@"},
    {"stats": {"a": "@"}},
    {"details": {"integers": ["@"]}},
    {"details": {"object": {"a": "@"}}},
    {"details": {"object": {"a": [{"b": ["@"]}]}}},
)


@pytest.mark.parametrize("text", HUGE, ids=lambda text: f"{text[:2]}-{len(text)}")
async def test_F03_a_number_beyond_64_bits_is_refused_and_in_a_batch_its_item_alone(
    harness: Harness, text: str
):
    """422 for the write by itself; in a batch of single operations the others are done."""
    private = await registered(harness)
    for place in PLACES:
        with about(place):
            await _refuse_number(harness, private, text, place)


async def _refuse_number(harness: Harness, private: Any, text: str, place: dict[str, Any]) -> None:
    entries = [ENTRY | {"operation": f"op-{PLACES.index(place)}-{at}", "action": "write"} for at in range(3)]
    entries[1] |= place
    body = json.dumps(entries).replace('"@"', text).encode()
    single = json.dumps(ENTRY | {"operation": "alone"} | place).replace('"@"', text).encode()
    due = SCHEMA if len(text) < 1000 else (413, "payload-too-large")
    assert due == (await _sent(harness, private, "entries", single))[:2]
    status, _, answer = await _sent(harness, private, "entries:batch", body)
    assert 200 == status
    assert [None, "schema-violation", None] == [
        (each.get("problem") or {}).get("type", "").rpartition("/")[2] or None
        for each in answer.body["results"]
    ]


async def _sent(harness: Harness, private: Any, what: str, body: bytes) -> tuple[int, str, Answer]:
    path = f"/v1/boards/vault/{what}"
    signed = harness.server_signed(private, "eu-1", None, board="vault", path=path, body=body)
    answer = await harness.send(replace(signed, path=path, body=body))
    return answer.status, answer.problem, answer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_F03_whatever_is_taken_can_be_written_and_read_again(value: dict[str, Any]):
    """Of any object: it is refused as a problem or a fault of its model, or orjson writes what it reads again."""
    body = json.dumps({"score": 1, "ticks": 1, "details": {"object": value}}).encode()
    try:
        claim = bodies.NewScore.model_validate(strict_json.parse(body))
    except (Problem, ValidationError):
        return
    assert claim.details is not None
    assert value == orjson.loads(orjson.dumps(claim.details.object))


async def test_F03_nesting_that_cannot_be_written_is_refused(harness: Harness):
    """A batch may have many arrays, and not all of them in one item."""
    private = await registered(harness)
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    entries = [
        ENTRY | {"operation": "deep", "action": "write", "details": {"object": {"a": deep}}},
        ENTRY | {"operation": "flat", "action": "write"},
    ]
    status, _, answer = await _sent(harness, private, "entries:batch", json.dumps(entries).encode())
    assert (200, 1) == (status, answer.body["refused"])


async def test_the_honest_control(harness: Harness):
    """A claim with details at the very ends of 64 bits is no fault of its numbers."""
    bodies.Details(object={"a": 2**63 - 1, "b": -(2**63)})
    await accept(harness, honest(harness, issued(harness)))
