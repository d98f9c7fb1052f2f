"""Reads a submission in the usual form from its bytes: a plain head, and a body with the usual fields.

What is read here means the same to aiohttp and to `bodies.NewScore`. Whatever has another form, be it right
or wrong, is nothing here, and goes the plain way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

import orjson

from gateway.edge.http.usual_heads import HEAD_BYTES, usual_fields
from gateway.edge.wire.bodies import Details
from policies.vocabulary import SCORE_LIMIT

STATS: Final = 16
RECORDING_CHARS: Final = 1_400_000
"""As many statistics, and as long a recording, as `bodies.NewScore` takes."""

_REQUEST_LINE: Final = re.compile(
    r"POST (/v1/boards/([a-z][a-z0-9-]*(?:\.[A-Za-z0-9_-]+)?)/scores) HTTP/1\.1\r\n"
)
_STAT: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")

_MEMBERS: Final = ("score", "ticks", "stats", "recording")
_values_of: Final = itemgetter(*_MEMBERS)

_SIGNED: Final = frozenset(
    {"content-digest", "content-length", "content-type", "host", "signature", "signature-input"}
)


class UsualRequest(NamedTuple):
    """A request to submit a score: path, name of the board, fields by lower-case name, and body."""

    path: str
    board: str
    fields: Mapping[str, str]
    body: bytes


class UsualScore(NamedTuple):
    """The body of a submission with its usual fields; all of `bodies.NewScore` can be read of it."""

    score: int
    ticks: int
    stats: dict[str, int]
    recording: str | None
    recording_digest: str | None = None
    recording_bytes: int | None = None
    details: Details | None = None


def is_submission(data: bytes) -> bool:
    """Return whether a write may be the submission of a score, by its first bytes."""
    return data.startswith(b"POST /v1/boards/") and data.find(b"/scores HTTP/1.1\r\n", 16, 200) > 0


def read_usual_request(data: bytes) -> UsualRequest | None:
    """Return the submission in bytes that are exactly one request, None for any other form."""
    end = data.find(b"\r\n\r\n") + 2
    head = data[:end]
    if end > HEAD_BYTES or not head.isascii():
        return None
    text = head.decode("ascii")
    line = _REQUEST_LINE.match(text)
    if line is None:
        return None
    fields = usual_fields(text, line.end())
    if fields is None or not _SIGNED.issubset(fields):
        return None
    return UsualRequest(line[1], line[2], fields, data[end + 2 :])


def read_usual_score(body: bytes) -> UsualScore | None:
    """Return a claim of score, ticks, stats and recording alone, None for any other body."""
    # Without escapes each text takes two quotes, so their number tells whether a key came twice.
    if b"\\" in body or b"[" in body:
        return None
    try:
        members = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if type(members) is not dict or not _is_usual(members, body):
        return None
    return UsualScore(*_values_of(members))


def _is_usual(members: dict[str, Any], body: bytes) -> bool:
    if members.keys() != {*_MEMBERS}:
        return False
    score, ticks, stats, recording = _values_of(members)
    if type(stats) is not dict or len(stats) > STATS or type(recording) is not str:
        return False
    texts = len(members) + len(stats) + 1
    if body.count(b'"') != 2 * texts or body.count(b"{") != 2:  # noqa: PLR2004 - two for each
        return False
    if type(ticks) is not int or ticks < 0 or len(recording) > RECORDING_CHARS:
        return False
    # One loop, since a call for each would cost more than all that is asked.
    for number in (score, ticks, *stats.values()):
        if type(number) is not int or not -SCORE_LIMIT <= number <= SCORE_LIMIT:
            return False
    return all(map(_STAT.fullmatch, stats))
