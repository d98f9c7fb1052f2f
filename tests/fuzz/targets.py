"""What reads bytes of strangers, as functions of bytes: each raises nothing but a broken promise.

`tests/fuzz/test_targets.py` gives them mutated vectors, and `python -m tests.fuzz.run` what coverage leads to.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from clients.vectors import make
from gateway.edge.auth.keyring import Keyring
from gateway.edge.auth.signatures import (
    _parse_any,
    _parse_usual,
    check_content_digest,
    parse,
    signature_base,
)
from gateway.edge.auth.tickets import Ticket, Tickets, _pack
from gateway.edge.http import strict_json
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.cursors import Cursors
from replay.recording import RecordingError, decode, encode
from scoregate.raw_requests import raw_request
from tests.fuzz.export_targets import EXPORTS

MOST_TICKS: Final = 1000
LONG_NUMBER: Final = re.compile(rb"[0-9]{15}|[eE]")
"""Numbers that one parser may take for a float, and the other for an integer."""

_SIGNATURE_PROBLEMS: Final = {
    ProblemType.SIGNATURE_MISSING,
    ProblemType.SIGNATURE_MALFORMED,
    ProblemType.SIGNATURE_COVERAGE,
    ProblemType.SIGNATURE_INVALID,
}
_TICKETS: Final = Tickets(Keyring(bytes(32)))
_CURSORS: Final = Cursors(bytes(64))
_LIST: Final = ("boards", "tiny")


def signature(data: bytes) -> None:
    """Signature-Input, a line feed, Signature: one reading, by both parsers, or a problem with a detail in UTF-8."""
    signature_input, _, proof = data.decode("latin-1").partition("\n")
    try:
        parsed = parse(signature_input, proof)
        base = signature_base(
            parsed, method="POST", authority="a", path="/", query="?", content_type="t", content_digest="d"
        )
    except Problem as problem:
        _is_one_of(_SIGNATURE_PROBLEMS, problem)
        parsed = None
    if parsed is None:
        assert _parse_usual(signature_input, proof) is None
        return
    assert parsed == _parse_any(signature_input, proof)
    assert 7 == len(base.split(b"\n"))
    assert base.decode("ascii").endswith(f'"@signature-params": {parsed.params_text}')
    assert f"{parsed.label}={parsed.params_text}" in signature_input


def digest(data: bytes) -> None:
    """Content-Digest, a line feed, a body: it holds, or it is refused with a problem."""
    field, _, body = data.partition(b"\n")
    try:
        found = check_content_digest(field.decode("latin-1"), body)
    except Problem as problem:
        _is_one_of(_SIGNATURE_PROBLEMS, problem)
    else:
        assert 32 == len(found)


def strict_body(data: bytes) -> None:
    """A body: what we read, another parser reads in the same way."""
    try:
        value = strict_json.parse(data)
    except Problem as problem:
        _is_one_of({ProblemType.MALFORMED_REQUEST}, problem)
        return
    if not LONG_NUMBER.search(data):
        assert value == orjson.loads(data)


def recording(data: bytes) -> None:
    """A recording: what decodes is the only encoding of what it says."""
    try:
        play = decode(data, maximum_ticks=MOST_TICKS)
    except RecordingError:
        return
    assert data == encode(play.inputs, play.checkpoints, play.checkpoint_ticks)


def ticket(data: bytes) -> None:
    """A ticket whose text nobody issued: a ticket of the right types, or ValueError."""
    text = urlsafe_b64encode(data).rstrip(b"=").decode()
    try:
        found = _TICKETS.read(text)
    except ValueError:
        return
    assert all(isinstance(name, str) for name in (found.run, found.board, found.player, found.build))
    assert 32 == len(found.simulator)
    assert 32 == len(_TICKETS.key(text))


def cursor(data: bytes) -> None:
    """A cursor: the only spelling of what we sealed, or a problem."""
    text = data.decode("latin-1")
    try:
        place = _CURSORS.place_of(text, _LIST)
    except Problem as problem:
        _is_one_of({ProblemType.SCHEMA_VIOLATION}, problem)
        return
    assert text == _CURSORS.next_of(_LIST, place)


def explained(data: bytes) -> None:
    """A request as somebody has copied it: a head, an empty line and a body, which read the same once more."""
    read = raw_request(data)
    head = read.data.partition(b"\r\n\r\n")[0]
    assert len(read.data) <= 2 * len(data) + 64
    assert b"\n" not in head.replace(b"\r\n", b"")


def _is_one_of(kinds: set[ProblemType], problem: Problem) -> None:
    """A problem of these kinds, whose detail an answer can carry."""
    assert problem.kind in kinds
    (problem.detail or "").encode()


def _vectors(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((make.FOLDER / f"{name}.json").read_text("ascii"))
    return found


def _signatures() -> Iterator[bytes]:
    for vector in _vectors("requests"):
        told, proof = vector["signature_input"] or "", vector["signature"] or ""
        yield f"{told}\n{proof}".encode("latin-1")


def _issued() -> Iterator[bytes]:
    plain: dict[str, Any] = {
        "run": "r" * 26,
        "board": "tiny",
        "player": "p1",
        "build": "b-1",
        "simulator": bytes(32),
    }
    times = {"seed": 7, "issued_at_ms": 1, "expires_at_ms": 2}
    yield _pack(Ticket(**plain, **times))
    yield _pack(Ticket(**plain, **times, runs_opened=3, clock_error_ms=9, board_content=b"\x01" * 32))


BODIES: Final = (
    b'{"score":1200,"ticks":3600,"stats":{"coins":7},"recording":"U0dSMQEAAQEA"}',
    b'[{"a":[1,-0,2.5e3,true,null,"\\u00e9\\ud83c\\udfae"]},{}]',
    b' { "a" : [ ] , "b" : "\\n\\"" } ',
    b'{"a":1,"a":2}',
    b'["\\ud800", NaN, Infinity, 1e999]',
    b"[" * 40,
)

TARGETS: Final[dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]]] = {
    "signature": (signature, lambda: [*_signatures()]),
    "digest": (digest, lambda: [b"sha-256=:AAAA:, sha-512=:AAAA:;a\n{}", b'md5="x"\n']),
    "strict_body": (strict_body, lambda: [*BODIES]),
    "recording": (
        recording,
        lambda: [
            bytes.fromhex(each["recording"]) for each in (*_vectors("recordings"), *_vectors("malformed"))
        ],
    ),
    "ticket": (ticket, lambda: [*_issued()]),
    "cursor": (cursor, lambda: [(_CURSORS.next_of(_LIST, ["a", 7]) or "").encode(), b"", b"AAAA", b"\xff"]),
    "explained": (
        explained,
        lambda: [
            b"POST /v1/boards/b/scores HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
            b"> GET / HTTP/1.1\n> Host: a\n> \n< HTTP/1.1 200\n",
        ],
    ),
    **EXPORTS,
}
"""Each target with the bytes to begin from."""
