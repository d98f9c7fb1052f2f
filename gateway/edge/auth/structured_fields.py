"""A strict, linear-time parser for the three RFC 9651 dictionaries of a signed request.

Its regular expressions have possessive quantifiers (`*+`) and atomic groups, so no text makes them backtrack.
They have only ASCII ranges, so a header byte above 0x7F, which aiohttp turns into a lone surrogate, matches
nothing. A repeated key is an error here, while RFC 9651 lets the last one win.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass

from policies.errors import ScoregateError

MAX_FIELD_CHARS = 8192
MAX_MEMBERS = 16

# A group is repeated within an atomic one: before 3.11.5, CPython takes with `(?:...)*+` what does not match.
_KEY = r"[a-z*][a-z0-9_\-.*]*+"
_STRING = r'"[ !#-\[\]-~]*+(?>(?:\\["\\][ !#-\[\]-~]*+)*)"'
_NUMBER = r"-?(?>[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})"
_WORD = r"[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*+"
_OTHER = r':[A-Za-z0-9+/=]*+:|\?[01]|@-?[0-9]{1,15}+|%"(?>(?:[ !#$&-~]|%[0-9a-f]{2})*)"'
_BARE_ITEM = rf"(?:{_STRING}|{_NUMBER}|{_WORD}|{_OTHER})"
_PARAMETERS = rf"(?>(?:; *+{_KEY}(?>(?:={_BARE_ITEM})?))*)"
_ITEM = rf"{_BARE_ITEM}{_PARAMETERS}"
_ITEMS = rf" *+(?>(?:{_ITEM}(?: ++(?=[^ )])| *+(?=\))))*)"
_NEXT = r"(?:[ \t]*+,[ \t]*+(?!\Z)|\Z)"

_INNER_LIST_MEMBER = re.compile(rf"({_KEY})=((\({_ITEMS}\))({_PARAMETERS})){_NEXT}")
_BYTES_MEMBER = re.compile(rf"({_KEY})=:([A-Za-z0-9+/]++={{0,2}}):{_NEXT}")
_PARAMETER = re.compile(rf"; *+({_KEY})(?>(?:=({_BARE_ITEM}))?)")


class StructuredFieldError(ScoregateError):
    """A header field is not the required structured field."""


@dataclass(frozen=True, slots=True)
class InnerList:
    """A member of `Signature-Input`: its text as received, the part in parentheses, and its parameters.

    The value of a parameter is the text of its bare item (`17`, `"text"`, `:Yg==:`), empty if it has none.
    """

    text: str
    items_text: str
    parameters: dict[str, str]


def parse_inner_lists(text: str) -> dict[str, InnerList]:
    """Return the members of a dictionary of inner lists by key. Raises StructuredFieldError."""
    return {
        match[1]: InnerList(match[2], match[3], _parse_parameters(match[4]))
        for match in _match_members(_INNER_LIST_MEMBER, text)
    }


def parse_byte_sequences(text: str) -> dict[str, bytes]:
    """Return the members of a dictionary of byte sequences by key. Raises StructuredFieldError."""
    return {match[1]: decode_base64(match[2]) for match in _match_members(_BYTES_MEMBER, text)}


def decode_base64(text: str) -> bytes:
    """Return the bytes of canonical base64 (RFC 4648, §3.5). Raises StructuredFieldError, also if empty."""
    try:
        decoded = a2b_base64(text)
    except (Base64Error, ValueError) as error:  # ValueError: text beyond ASCII
        raise StructuredFieldError("A byte sequence is not base64.") from error
    if not decoded or b2a_base64(decoded, newline=False) != text.encode("ascii"):
        raise StructuredFieldError("A byte sequence is not canonical base64, or is empty.")
    return decoded


def byte_sequence(value: bytes) -> str:
    """Return bytes as a structured field's byte sequence."""
    return f":{b64encode(value).decode('ascii')}:"


def _match_members(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    if len(text) > MAX_FIELD_CHARS:
        raise StructuredFieldError(f"A field is longer than {MAX_FIELD_CHARS} characters.")
    text = text.strip(" ")
    members: list[re.Match[str]] = []
    position = 0
    while not members or position < len(text):
        match = pattern.match(text, position)
        if match is None or len(members) == MAX_MEMBERS:
            raise StructuredFieldError(
                f"A field is not a dictionary of 1 to {MAX_MEMBERS} members of its type."
            )
        members.append(match)
        position = match.end()
    if len({match[1] for match in members}) != len(members):
        raise StructuredFieldError("A dictionary has the same key twice.")
    return members


def _parse_parameters(text: str) -> dict[str, str]:
    pairs = _PARAMETER.findall(text)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise StructuredFieldError("A parameter appears twice.")
    return parameters
