"""Our grammar of structured fields against that of `http-sf`, the library of the RFC's author."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import http_sf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.auth.structured_fields import (
    StructuredFieldError,
    parse_byte_sequences,
    parse_inner_lists,
)
from tests.support.thorough import examples

KEYS = st.from_regex(r"[a-z*][a-z0-9_\-.*]{0,3}", fullmatch=True)
BYTES = st.binary(min_size=1, max_size=9).map(lambda value: f":{b64encode(value).decode()}:")
BARE_ITEMS = st.one_of(
    st.from_regex(r"-?[0-9]{1,16}", fullmatch=True),
    st.from_regex(r"-?[0-9]{1,13}\.[0-9]{0,4}", fullmatch=True),
    st.from_regex(r'"([ !#-\[\]-~]|\\["\\]){0,6}"', fullmatch=True),
    st.from_regex(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]{0,6}", fullmatch=True),
    st.from_regex(r"@-?[0-9]{1,10}", fullmatch=True),
    st.from_regex(r'%"([ !#$&-~]|%[2-7][0-9a-f]){0,6}"', fullmatch=True),
    BYTES,
    st.sampled_from(["?0", "?1", "?2", "::", "", "'a'", '"', "-", "é", "\udcff", "(a)", "\t"]),
)
SPACES = st.sampled_from(["", "", "", " ", "  "])


@st.composite
def parameters(draw: st.DrawFn, *, are_unique: bool = False) -> str:
    key_of = (lambda pair: pair[1]) if are_unique else None
    pairs = draw(st.lists(st.tuples(SPACES, KEYS, st.none() | BARE_ITEMS), max_size=4, unique_by=key_of))
    return "".join(f";{space}{key}" + ("" if value is None else f"={value}") for space, key, value in pairs)


@st.composite
def inner_lists(draw: st.DrawFn) -> str:
    items = draw(st.lists(st.tuples(BARE_ITEMS, parameters(are_unique=True)), max_size=3))
    inside = draw(st.sampled_from([" ", " ", " ", "  ", "", ","])).join(
        f"{item}{more}" for item, more in items
    )
    return f"({draw(SPACES)}{inside}{draw(SPACES)}){draw(parameters())}"


def dictionaries(members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    separators = st.sampled_from([", ", ",", "\t,  ", ";", " ", ",,"])
    fields = st.lists(st.tuples(KEYS, members), min_size=1, max_size=3)
    return st.builds(
        lambda separator, pairs, space: (
            space + separator.join(f"{key}={value}" for key, value in pairs) + space
        ),
        separators,
        fields,
        SPACES,
    )


def refuse_duplicate(key: str, _where: str) -> None:
    raise http_sf.StructuredFieldError(f"{key} appears twice")


def by_library(text: str) -> dict[str, tuple[object, dict[str, object]]] | None:
    """The members of a dictionary, None for what is none; equal keys are refused, as ours are."""
    try:
        return http_sf.parse(text.encode(), tltype="dictionary", on_duplicate_key=refuse_duplicate)
    except (http_sf.StructuredFieldError, UnicodeEncodeError):
        return None


def by_us(parse: Callable[[str], dict[str, object]], text: str) -> dict[str, object] | None:
    try:
        return parse(text)
    except StructuredFieldError:
        return None


def value_of(text: str) -> object:
    """The value of a parameter's text; a parameter that stands alone is true."""
    return http_sf.parse(text.encode(), tltype="item")[0] if text else True


@settings(max_examples=examples(40))
@given(dictionaries(inner_lists()))
def test_inner_lists_are_read_as_the_library_reads_them(text: str) -> None:
    """Both refuse the same texts, and find the same items and parameters in the others."""
    expected, members = by_library(text), by_us(parse_inner_lists, text)
    assert (expected is None) == (members is None)
    for key, member in (members or {}).items():
        assert expected[key] == http_sf.parse(f"k={member.text}".encode(), tltype="dictionary")["k"]
        assert expected[key][1] == {name: value_of(value) for name, value in member.parameters.items()}


@given(dictionaries(BYTES | BYTES | BARE_ITEMS))
def test_byte_sequences_are_read_as_the_library_reads_them(text: str) -> None:
    """Ours are those dictionaries of the library that hold byte sequences alone, each in its only spelling."""
    members = by_library(text)
    is_bytes = members and all(
        isinstance(value, bytes) and value and not more for value, more in members.values()
    )
    expected = {key: value for key, (value, _) in members.items()} if is_bytes else None
    assert expected == by_us(parse_byte_sequences, text)


@pytest.mark.parametrize("value", ['%"%ff"', ":Y:", "@999999999999999"])
def test_we_look_less_closely_at_parameters_that_are_not_ours(value: str) -> None:
    """Text, bytes and dates of parameters are not decoded: a signature of ours has none of these."""
    assert by_library(f"a=();p={value}") is None
    assert {"p": value} == parse_inner_lists(f"a=();p={value}")["a"].parameters
