"""Bodies that mean two things, too much, or nothing: what a strict reader refuses, and what it keeps exact."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.edge.http import strict_json
from gateway.edge.problems import Problem
from gateway.edge.submissions.submitted_recording import body_limit
from gateway.ledger import queries
from gateway.runtime.settings import Settings
from tests.support.attack import (
    CLAIM,
    ENTRY,
    a_run,
    about,
    accept,
    as_server,
    honest,
    refuse,
    registered,
    rows,
)
from tests.support.harness import Harness, running_harness
from tests.support.policies import EXACT_LIMIT
from tests.support.raw import RawConnection, as_bytes
from tests.support.valkey import ValkeyServer

READ = (400, "malformed-request")
SCHEMA = (422, "schema-violation")
TOO_LARGE = (413, "payload-too-large")


async def refuse_bodies(harness: Harness, bodies: Iterable[bytes], *expected: tuple[int, str]) -> None:
    """Refuses each of them, that was signed as it is, and then takes the run's honest claim."""
    for raw in bodies:
        with about(raw):
            run = await a_run(harness)
            await refuse(harness, honest(harness, run, raw=raw), *expected)
            await accept(harness, honest(harness, run))


async def test_J01_a_key_twice_is_refused(harness: Harness):
    """Readers differ on which of two equal keys counts, so neither does."""
    bodies = (
        b'{"score":1,"score":999,"ticks":60}',
        b'{"score":1,"ticks":60,"\\u0073core":999}',
        b'{"score":1,"ticks":60,"stats":{"a":1,"a":2}}',
    )
    await refuse_bodies(harness, bodies, READ)


async def test_J02_numbers_that_json_has_not_are_refused(harness: Harness):
    """Not a number, infinities, and what reads as one are no JSON; a number with thousands of digits is, and is no score."""
    literals = (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400")
    await refuse_bodies(harness, (b'{"ticks":60,"score":%b}' % each for each in literals), READ)
    await refuse_bodies(harness, [b'{"ticks":60,"score":%b}' % (b"1" * 5000)], SCHEMA)


async def test_J03_only_plain_integers_are_integers(harness: Harness):
    """What only looks like an integer is of the wrong form."""
    literals = (b"-0.0", b"1.0", b"1e2", b"true", b'"12"', b"null", b"[1]", b"{}")
    await refuse_bodies(harness, (b'{"ticks":60,"score":%b}' % each for each in literals), SCHEMA)


async def test_J03_minus_zero_is_zero(harness: Harness):
    """`-0` is an integer of JSON and reads as 0."""
    run = await a_run(harness)
    answer = await accept(harness, honest(harness, run, raw=b'{"score":-0,"ticks":60}'))
    assert b'"score":0' in answer.raw
    found = await harness.edge.ledger.read(queries.submission(run.id))
    assert 0 == found.claim.score


async def test_J04_the_largest_score_is_exact_everywhere(harness: Harness, valkey: ValkeyServer):
    """2^53-1 is the same number in the answer, the ledger, Redis and on the board."""
    private = await registered(harness)
    for operation, player, score in (("a", "ada", EXACT_LIMIT), ("b", "bea", EXACT_LIMIT - 1)):
        answer = await as_server(harness, private, {"operation": operation, "player": player, "score": score})
        assert (202, score) == (answer.status, answer.body["score"])
        found = await harness.edge.ledger.read(queries.submission(answer.body["submission"]))
        assert score == found.claim.score
    page = (await harness.get("/v1/boards/vault/entries")).body
    assert [("ada", EXACT_LIMIT), ("bea", EXACT_LIMIT - 1)] == [
        (e["player"], e["score"]) for e in page["entries"]
    ]
    with valkey.client() as client:
        assert {-EXACT_LIMIT, 1 - EXACT_LIMIT} == {
            int(s) for _, s in client.zrange("lb:{33}:vault:alltime", 0, -1, withscores=True)
        }


async def test_J04_what_a_double_cannot_hold_is_refused(harness: Harness):
    """Above the exact range a score would be rounded somewhere, so it is not taken."""
    scores = (2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30)
    await refuse_bodies(harness, (json.dumps(CLAIM | {"score": each}).encode() for each in scores), SCHEMA)


DEEP = b'{"score":1,"ticks":60,"stats":'
BOMBS = {
    "90,000 nested arrays": b"[" * 45_000 + b"]" * 45_000,
    "900 nested objects": DEEP + b'{"a":' * 900 + b"1" + b"}" * 901,
    "33 nested arrays": DEEP + b"[" * 33 + b"]" * 33 + b"}",
    "65 keys": b"{" + b",".join(b'"k%d":1' % each for each in range(65)) + b"}",
    "8,000 keys": b"{" + b",".join(b'"k%d":1' % each for each in range(8000)) + b"}",
    "a key of 80 kB": b'{"' + b"k" * 80_000 + b'":1}',
    "a key of 65 characters": b'{"' + b"k" * 65 + b'":1}',
}


async def test_J06_deep_wide_and_long_bodies_are_refused(harness: Harness):
    """Depth, number of keys and their length are bounded."""
    await refuse_bodies(harness, BOMBS.values(), READ)


async def test_J06_a_body_beyond_the_limit_is_not_read(harness: Harness):
    """A hundred thousand nested arrays, and a key of a megabyte, are more than a body may have."""
    await refuse_bodies(harness, (b"[" * 100_000, b'{"' + b"k" * 2**20 + b'":1}'), TOO_LARGE)


@pytest.mark.parametrize("name", BOMBS)
def test_J06_refusing_costs_less_than_50_ms(name: str):
    """The worst body of a size that is read costs little to refuse."""
    started = time.process_time()
    with pytest.raises(Problem):
        strict_json.parse(BOMBS[name])
    assert time.process_time() - started < 0.05


NO_STRICT_JSON = (
    b'{"score":1,"ticks":60,"recording":"\\ud800"}',
    b'{"score":1,"ticks":60,"\\udfff":1}',
    b'{"score":1,"ticks":60,"recording":"a\\u0000b"}',
    b'{"score":1,"ticks":60,"recording":["a",["\\ud800"]]}',
    b'{"score":1,"ticks":60,"recording":[{"a":"\\u0000"}]}',
    b'{"score":1,"ticks":60,"recording":"a\x00b"}',
    b'{"score":1,"ticks":60,"recording":"a\nb"}',
    b"\xef\xbb\xbf" + json.dumps(CLAIM).encode(),
    json.dumps(CLAIM).encode("utf-16"),
    json.dumps(CLAIM).encode("utf-16-le"),
    json.dumps(CLAIM).encode("utf-32"),
    b'{"score":1,"ticks":60,"recording":"\xc0\x80"}',
    b'{"score":1,"ticks":60,"recording":"\xed\xa0\x80"}',
    b"",
    b"{",
    b"{} {}",
    b'{"score":1,"ticks":60,}',
    b"{'score':1}",
)


async def test_J07_text_that_is_not_strict_json_in_utf8_is_refused(harness: Harness):
    """Lone surrogates, NUL, marks, other encodings, overlong forms and raw control characters do not get in."""
    await refuse_bodies(harness, NO_STRICT_JSON, READ)


async def test_J10_unknown_fields_are_refused(harness: Harness):
    """A client cannot set what it was not asked for."""
    extras: tuple[dict[str, Any], ...]
    extras = ({"verified": True}, {"state": "promoted"}, {"role": "admin"}, {"player": "p2"})
    await refuse_bodies(harness, (json.dumps(CLAIM | each).encode() for each in extras), SCHEMA)


MEDIA_TYPES = (
    "text/plain",
    "",
    "application/json; charset=utf-16",
    "multipart/form-data; boundary=x",
    "application/jsonp",
)


async def test_J12_other_media_types_are_refused(harness: Harness):
    """A body is JSON in UTF-8 and says so."""
    for media_type in MEDIA_TYPES:
        with about(media_type):
            request = honest(harness, await a_run(harness))
            raw = as_bytes(request, harness.authority, headers={"Content-Type": media_type})
            await refuse(harness, raw, (415, "unsupported-media-type"))
            await accept(harness, request)


async def test_J12_a_missing_media_type_is_refused(harness: Harness):
    """No media type is none of ours."""
    run = await a_run(harness)
    request = honest(harness, run)
    raw = as_bytes(request, harness.authority).replace(b"Content-Type: application/json\r\n", b"")
    await refuse(harness, raw, (415, "unsupported-media-type"))
    await accept(harness, request)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("beyond", "passes"), [(-1, True), (0, True), (1, False)])
async def test_J13_the_limit_of_a_body_is_inside(
    harness: Harness, *, beyond: int, passes: bool, is_chunked: bool
):
    """A body of exactly the limit is read, one byte more is not, whether its length is told or found out."""
    size = body_limit(harness.edge.catalogue.of_files["sprint"]) + beyond
    run = await a_run(harness)
    raw = json.dumps(CLAIM).encode()
    request = honest(harness, run, raw=raw + b" " * (size - len(raw)))
    sent = as_bytes(request, harness.authority)
    if is_chunked:
        told, body = f"Content-Length: {size}".encode(), request.body
        sent = sent[: -len(body)].replace(told, b"Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (
            size,
            body,
        )
    if not passes:
        await refuse(harness, sent, TOO_LARGE)
        return
    async with RawConnection(harness.authority) as connection:
        await connection.send(sent)
        assert 202 == (await connection.answer()).status
    assert 1 == await rows(harness)


async def test_J13_a_length_that_is_too_small_cuts_the_body_off(harness: Harness):
    """The rest of the body is no second request: it is not HTTP, and ends the connection."""
    run = await a_run(harness)
    request = honest(harness, run)
    raw = as_bytes(request, harness.authority, length=10)
    async with RawConnection(harness.authority) as connection:
        await connection.send(raw)
        answer = await connection.answer()
        assert READ == (answer.status, answer.problem)
        assert await connection.is_closed()
    assert 0 == await rows(harness)
    await accept(harness, request)


async def test_J13_a_body_that_stops_half_way_is_given_up(settings: Settings):
    """After the deadline the answer is 408 and the connection is closed; others are answered meanwhile."""
    async with running_harness(settings.model_copy(update={"body_timeout_s": 0.4})) as harness:
        run = await a_run(harness)
        request = honest(harness, run)
        async with RawConnection(harness.authority) as connection:
            await connection.send(as_bytes(request, harness.authority)[:-5])
            started = asyncio.get_running_loop().time()
            await accept(harness, honest(harness, await a_run(harness)))
            answer = await connection.answer()
            assert (408, "request-timeout") == (answer.status, answer.problem)
            assert asyncio.get_running_loop().time() - started < settings.body_timeout_s / 2
            assert await connection.is_closed()
        await accept(harness, request)


async def test_J13_a_client_that_leaves_half_way_is_no_bug_of_ours(harness: Harness):
    """A connection that ends inside a body stores nothing and is not reported as a failure of the service."""
    request = honest(harness, await a_run(harness))
    with capture_logs() as events:
        for reset in (True, False):
            async with RawConnection(harness.authority) as connection:
                await connection.send(as_bytes(request, harness.authority)[:-5])
                assert 200 == (await harness.get("/livez")).status
                if reset:
                    connection.reset()
            assert 200 == (await harness.get("/livez")).status
    assert [] == events
    assert 0 == await rows(harness)
    await accept(harness, request)


async def test_a_recording_that_is_not_base64_is_of_the_wrong_form(harness: Harness):
    """Bad base64 is a schema violation; too much of it is too large."""
    run = await a_run(harness)
    await refuse(harness, honest(harness, run, CLAIM | {"recording": "a*b="}), SCHEMA)
    await refuse(harness, honest(harness, run, CLAIM | {"recording": "AAAA" * 21_900}), TOO_LARGE)
    await accept(harness, honest(harness, run, CLAIM | {"recording": "AAAA"}))


async def test_a_servers_body_is_read_as_strictly(harness: Harness):
    """The other writer's endpoint refuses the same bodies."""
    private = await registered(harness)
    for entry in (
        ENTRY | {"verified": True},
        ENTRY | {"score": 1.5},
        ENTRY | {"player": "a b"},
        ENTRY | {"operation": ""},
    ):
        answer = await as_server(harness, private, entry)
        assert SCHEMA == (answer.status, answer.problem)
    assert 202 == (await as_server(harness, private, ENTRY)).status
