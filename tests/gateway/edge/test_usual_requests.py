"""Usual requests, beside aiohttp's parser and the model of the body: the same meaning, or none."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.http.request import parse_body
from gateway.edge.problems import Problem
from gateway.edge.submissions.usual_requests import (
    is_submission,
    read_usual_request,
    read_usual_score,
)
from gateway.edge.wire import bodies

HONEST = {"score": 120, "ticks": 60, "stats": {"kills": 1, "coins": 3}, "recording": "AAAA"}
VALUES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.just(-0.0),
    st.floats(allow_nan=True),
    st.booleans(),
    st.none(),
    st.text(max_size=8),
    st.dictionaries(st.sampled_from(("kills", "coins", "Kills", "a" * 40, "")), st.integers(-(2**60), 2**60)),
    st.lists(st.integers(), max_size=2),
)
CLAIMS = st.dictionaries(
    st.sampled_from((*HONEST, "details", "recording_digest", "more")), VALUES, max_size=3
).map(lambda changed: HONEST | changed)
CUTS = st.tuples(
    st.integers(0, 200),
    st.integers(0, 3),
    st.sampled_from(
        (
            b"",
            b'"',
            b"\\",
            b"{",
            b"}",
            b"[",
            b",",
            b":",
            b"-",
            b"0",
            b"\x00",
            b"\xff",
            b"\xef\xbb\xbf",
            b" ",
            b"\n",
            b'"score":1,',
            b'"kills":1,',
            b"\\u0000",
            b"NaN",
            b"1e400",
            b".0",
        )
    ),
)


def altered(text: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, put in cuts:
        text = text[:at] + put + text[at + length :]
    return text


@given(CLAIMS, st.lists(CUTS, max_size=2), st.sampled_from(((",", ":"), (", ", ": "))))
def test_a_usual_body_is_read_as_the_model_reads_it(claim: dict[str, Any], cuts: Any, separators: Any):
    """Whatever is usual is valid, and has the same members; duplicate keys and all else wrong are never usual."""
    body = altered(json.dumps(claim, separators=separators).encode(), cuts)
    usual = read_usual_score(body)
    if usual is None:
        return
    model = parse_body(body, bodies.NewScore)  # which raises for what is not valid
    assert usual._asdict() == {name: getattr(model, name) for name in usual._fields}


def test_an_honest_body_is_usual_and_one_with_a_key_twice_is_not():
    """In either style of the clients; the refusal of the other comes from the strict parser."""
    for separators in ((",", ":"), (", ", ": ")):
        body = json.dumps(HONEST, separators=separators).encode()
        assert HONEST == {name: getattr(read_usual_score(body), name) for name in HONEST}
        for twice in (b'"score":1,', b'"stats":{},', b'"recording":"",'):
            wrong = body.replace(b"{", b"{" + twice, 1)
            assert read_usual_score(wrong) is None
            with pytest.raises(Problem, match="an object has the same key twice"):
                parse_body(wrong, bodies.NewScore)


MOST = 2**53 - 1


@pytest.mark.parametrize(
    "changed",
    [
        {"score": MOST + 1},
        {"score": -MOST - 1},
        {"ticks": MOST + 1},
        {"ticks": -1},
        {"stats": {"kills": MOST + 1}},
        {"stats": {"kills": -MOST - 1}},
        {"stats": {"kills": True}},
        {"stats": {"Kills": 1}},
        {"stats": {f"s{number}": 1 for number in range(17)}},
        {"recording": "A" * 1_400_001},
        {"recording": None},
        {"more": 1},
    ],
)
def test_a_body_beyond_the_bounds_of_the_model_is_not_usual(changed: dict[str, Any]):
    """Each number one past its bound, each text and table one too long."""
    assert read_usual_score(json.dumps(HONEST | changed).encode()) is None


def test_a_body_at_the_bounds_of_the_model_is_usual():
    """The largest numbers, as many statistics, and as long a recording."""
    stats = {f"s{number}": MOST for number in range(16)}
    for score, ticks in ((MOST, 0), (-MOST, MOST)):
        claim = {"score": score, "ticks": ticks, "stats": stats, "recording": "A" * 1_400_000}
        usual = read_usual_score(json.dumps(claim).encode())
        assert usual is not None
        assert claim == {name: getattr(usual, name) for name in claim}


FIELDS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "Host",
                "host",
                "Content-Type",
                "Content-Digest",
                "Signature",
                "Signature-Input",
                "Accept",
                "X-Forwarded-For",
                "Connection",
                "Expect",
                "Transfer-Encoding",
                "Authorization",
                "A b",
                "",
            )
        ),
        st.sampled_from(
            (
                "x",
                "keep-alive",
                "close",
                "a, b",
                " x",
                "x ",
                "",
                "a\tb",
                "\u00e9",
                "application/json",
                "chunked",
            )
        ),
    ),
    max_size=4,
)
HEADS = st.tuples(
    st.sampled_from(
        (
            "POST /v1/boards/arcade/scores HTTP/1.1",
            "POST /v1/boards/track.a/scores HTTP/1.1",
            "POST /v1/boards/arcade/scores HTTP/1.0",
            "POST /v1/boards/arcade/scores?x HTTP/1.1",
            "POST /v1/boards/../scores HTTP/1.1",
            "PUT /v1/boards/arcade/scores HTTP/1.1",
            "POST  /v1/boards/arcade/scores HTTP/1.1",
        )
    ),
    FIELDS,
)
SIGNED = [
    ("Host", "h"),
    ("Content-Type", "application/json"),
    ("Content-Digest", "d"),
    ("Signature", "s"),
    ("Signature-Input", "i"),
    ("Content-Length", "2"),
]


@given(HEADS, st.lists(CUTS, max_size=1), st.integers(0, 6))
def test_a_usual_head_is_read_as_aiohttp_reads_it(head: Any, cuts: Any, fields: int):
    """The same path, the same fields, the same body, and nothing behind it."""
    line, others = head
    lines = [line, *(f"{name}: {value}" for name, value in [*others, *SIGNED[fields:], *SIGNED[:fields]])]
    data = altered("\r\n".join(lines).encode(), cuts) + b"\r\n\r\n{}"
    usual = read_usual_request(data)
    if usual is None:
        return
    assert is_submission(data)
    loop = asyncio.new_event_loop()
    try:
        [(message, payload)], upgraded, tail = HttpRequestParser(_Protocol(), loop, 2**16).feed_data(data)
        body = payload.read_nowait()
    finally:
        loop.close()
    assert (False, b"") == (upgraded, tail)
    assert ("POST", usual.path, (1, 1)) == (message.method, message.path, tuple(message.version))
    assert {name.lower(): value for name, value in message.headers.items()} == usual.fields
    assert len(message.headers) == len(usual.fields)
    assert body == usual.body
    assert not message.should_close


class _Protocol:
    """What the parser asks of a connection."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_rest, **_options: None


def test_the_head_of_an_honest_client_is_usual():
    """In any order, in small letters too, and behind a proxy."""
    lines = [f"{name.lower()}: {value}" for name, value in reversed(SIGNED)]
    data = "\r\n".join(
        ["POST /v1/boards/arcade/scores HTTP/1.1", *lines, "x-forwarded-for: ::1", "", "{}"]
    ).encode()
    usual = read_usual_request(data)
    assert usual is not None
    assert ("/v1/boards/arcade/scores", "arcade", b"{}") == (usual.path, usual.board, usual.body)
