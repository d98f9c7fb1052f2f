"""Reads the fields of a request in the usual form from its bytes, as aiohttp's parser would.

What is not read here, be it right or wrong, means nothing: it goes through the parser.
"""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 8_000
"""The longest usual head: below the longest line that aiohttp's parser takes."""

FIELDS: Final = 64

_FIELD: Final = re.compile(r"^([A-Za-z][A-Za-z0-9-]*): ([!-~](?:[ -~]*[!-~])?)\r\n", re.MULTILINE)

_UNUSUAL: Final = frozenset(
    {"authorization", "content-encoding", "early-data", "expect", "transfer-encoding", "upgrade"}
)
"""Fields that ask for more than the usual."""


def usual_fields(head: str, begin: int) -> dict[str, str] | None:
    """Return the fields of a head by lower-case name, None if it has another form or one field twice.

    `head` ends with the line break of its last line, and its fields begin after the request line, at `begin`.
    """
    pairs = _FIELD.findall(head, begin)
    fields = {name.lower(): value for name, value in pairs}
    # Each field ends one line, so as many fields as lines are all of the head.
    is_whole = len(fields) == len(pairs) == head.count("\n") - 1 <= FIELDS
    if not is_whole or not _UNUSUAL.isdisjoint(fields):
        return None
    return fields if fields.get("connection", "keep-alive").lower() == "keep-alive" else None
