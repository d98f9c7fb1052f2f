"""Reads requests as people have them: from a file, a proxy's log, or the output of `curl -v`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_LENGTH: Final = re.compile(rb"(?im)^content-length:[ \t]*(\d{1,9})[ \t]*$")
_FRAMED: Final = re.compile(rb"(?im)^(?:content-length|transfer-encoding):")
_OF_CURL: Final = re.compile(rb"(?m)^> ")


class RawRequest(NamedTuple):
    """The bytes of a request, and whether its body is among them."""

    data: bytes
    has_body: bool


def raw_request(text: bytes, body: bytes | None = None) -> RawRequest:
    """Return a request with the line ends of HTTP; `body` replaces what follows its head.

    What follows the announced length is left out, and a length that is not announced is added.
    """
    head, rest = _of_curl(text) if _OF_CURL.search(text) else _parted(text)
    body = rest if body is None else body
    lines = re.split(rb"\r?\n", head.strip(b"\r\n"))
    length = _LENGTH.search(b"\n".join(lines))
    announced = int(length[1]) if length else None
    if announced is not None:
        body = body[:announced]
    if body and not _FRAMED.search(b"\n".join(lines)):
        lines.append(b"Content-Length: %d" % len(body))
    is_whole = announced is None or len(body) >= announced
    return RawRequest(b"\r\n".join(lines) + b"\r\n\r\n" + body, is_whole)


def _parted(text: bytes) -> tuple[bytes, bytes]:
    end = _END_OF_HEAD.search(text)
    return (text, b"") if end is None else (text[: end.start()], text[end.end() :])


def _of_curl(text: bytes) -> tuple[bytes, bytes]:
    """Return the head of the request that curl has printed; it prints no body."""
    sent = [line[2:] for line in re.split(rb"\r?\n", text) if line.startswith(b"> ")]
    return b"\n".join(line for line in sent if line.strip()), b""
