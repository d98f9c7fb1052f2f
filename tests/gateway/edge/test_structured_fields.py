"""What the structured-field parser takes, what it refuses, and that no text costs it much time."""

from __future__ import annotations

import time
from base64 import b64encode, urlsafe_b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.auth.structured_fields import (
    MAX_FIELD_CHARS,
    MAX_MEMBERS,
    StructuredFieldError,
    decode_base64,
    parse_byte_sequences,
    parse_inner_lists,
)

KEYS = st.from_regex(r"[a-z*][a-z0-9_\-.*]{0,8}", fullmatch=True)


def test_inner_list_is_taken_apart_and_its_text_kept() -> None:
    """A member gives its exact text, the part in parentheses and its parameters as raw items."""
    text = '("@method" "date";sf);created=17;keyid="a,b)=\\"c";flag'
    text += ';t=tok/en:1;b=:Yg==:;d=-1.5;q=?0;w=@12;u=%"f%c3%bc"'

    member = parse_inner_lists(f"sig={text}")["sig"]

    assert text == member.text
    assert member.items_text == '("@method" "date";sf)'
    assert member.parameters == {
        "created": "17",
        "keyid": '"a,b)=\\"c"',
        "flag": "",
        "t": "tok/en:1",
        "b": ":Yg==:",
        "d": "-1.5",
        "q": "?0",
        "w": "@12",
        "u": '%"f%c3%bc"',
    }


@pytest.mark.parametrize(
    "text", ["a=()", "a=( )", 'a=(  "x"   "y"  )', "a=(x 1 :Yg==:);  p", " a=() ", "*a.b-c_d*=()"]
)
def test_the_whitespace_and_keys_of_the_rfc_are_read(text: str) -> None:
    """RFC 9651 allows spaces inside an inner list, after a semicolon and around the field."""
    assert len(parse_inner_lists(text)) == 1


@pytest.mark.parametrize("separator", [",", ", ", " ,", "\t,\t", " \t, "])
def test_members_are_separated_by_commas_with_optional_whitespace(separator: str) -> None:
    """Every form of the separator gives both members."""
    assert list(parse_inner_lists(f'a=("x"){separator}b=()')) == ["a", "b"]
    assert parse_byte_sequences(f"a=:Yg==:{separator}c=:ZA==:") == {"a": b"b", "c": b"d"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ",",
        "a",
        "a=",
        "a=1",
        "a=(",
        "a=()x",
        "a=(),",
        "a=(), ",
        ",a=()",
        "a=(),,b=()",
        "a=() b=()",
        "A=()",
        "1=()",
        "a =()",
        "a= ()",
        "a=()\n",
        "a=(\t)",
        "a=() ;p",
        "a=();",
        "a=();P=1",
        "a=();p=",
        "a=();p =1",
        "a=();p=1;p=2",
        "a=();p=1;p",
        "a=();p=1234567890123456",
        "a=();p=1234567890123.5",
        "a=();p=1.2345",
        "a=();p=1.",
        "a=();p=--1",
        'a=();p="x',
        'a=();p="\\x"',
        'a=();p="\x7f"',
        'a=();p="\udcff"',
        'a=();p="ü"',
        "a=();p=?2",
        'a=();p=%"%C3"',
        'a=("x""y")',
        'a=("x","y")',
        "a=((x))",
        "a=(\u0661)",
        "a=();p=\u0661",
        "a=(),a=()",
    ],
)
def test_what_is_not_a_dictionary_of_inner_lists_is_refused(text: str) -> None:
    """Wrong types, broken syntax, control characters, non-ASCII digits, and equal keys are refused."""
    with pytest.raises(StructuredFieldError):
        parse_inner_lists(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a=1",
        "a=:Yg==",
        "a=Yg==:",
        "a=:Yg==:;p",
        "a=:Yg==:,",
        "a=:Yg==:\n",
        "a=(:Yg==:)",
        "a=:Yg==:,a=:Yg==:",
    ],
)
def test_what_is_not_a_dictionary_of_byte_sequences_is_refused(text: str) -> None:
    """Wrong types, parameters, trailing commas and equal keys are refused."""
    with pytest.raises(StructuredFieldError):
        parse_byte_sequences(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Y",
        "Yg",
        "Yg=",
        "Yg===",
        "Yg==Yg==",
        "Y g==",
        "Yg==\n",
        " Yg==",
        "Yh==",
        "YWJ=",
        "YR==",
        "-_8=",
        "=",
        "Yg\udcff=",
    ],
)
def test_base64_that_is_not_canonical_is_refused(text: str) -> None:
    """Truncation, whitespace, the url-safe alphabet, missing padding, trailing bits or data are refused."""
    with pytest.raises(StructuredFieldError):
        decode_base64(text)


@given(st.binary(min_size=1, max_size=200))
def test_every_byte_string_has_exactly_its_canonical_text(value: bytes) -> None:
    """Canonical base64 is read back; the url-safe spelling only where it is the same text."""
    text = b64encode(value).decode("ascii")
    assert value == decode_base64(text)
    assert {"a": value} == parse_byte_sequences(f"a=:{text}:")
    other = urlsafe_b64encode(value).decode("ascii")
    if other != text:
        with pytest.raises(StructuredFieldError):
            decode_base64(other)


@given(st.dictionaries(KEYS, st.binary(min_size=1, max_size=40), min_size=1, max_size=MAX_MEMBERS))
def test_dictionaries_of_bytes_round_trip(members: dict[str, bytes]) -> None:
    """What is written by the rules is read back, in order."""
    text = ", ".join(f"{key}=:{b64encode(value).decode('ascii')}:" for key, value in members.items())
    assert list(members.items()) == list(parse_byte_sequences(text).items())


def test_the_number_of_members_is_bounded() -> None:
    """Sixteen members pass, seventeen do not, in both dictionaries."""
    keys = [f"k{number}" for number in range(MAX_MEMBERS + 1)]
    assert len(parse_inner_lists(",".join(f"{key}=()" for key in keys[:-1]))) == MAX_MEMBERS
    assert len(parse_byte_sequences(",".join(f"{key}=:Yg==:" for key in keys[:-1]))) == MAX_MEMBERS
    with pytest.raises(StructuredFieldError):
        parse_inner_lists(",".join(f"{key}=()" for key in keys))
    with pytest.raises(StructuredFieldError):
        parse_byte_sequences(",".join(f"{key}=:Yg==:" for key in keys))


def test_the_length_is_bounded() -> None:
    """A field of 8 KiB passes, one character more does not."""
    text = "a=();p=" + "x" * (MAX_FIELD_CHARS - 7)
    assert list(parse_inner_lists(text)) == ["a"]
    with pytest.raises(StructuredFieldError):
        parse_inner_lists(text + "x")


@pytest.mark.parametrize(
    "unit",
    [
        '"a" ',
        '"a"',
        " ",
        ";a",
        ";a=1",
        ";  ",
        'a;b="c" ',
        "a=(),",
        "a=:Yg==:,",
        '\\"',
        "1",
        "1.1",
        "A",
        ":A:",
        "%20",
        ", ",
    ],
)
@pytest.mark.parametrize(
    "prefix", ["", "a=(", "a=()", 'a=("', 'a=();p="', "a=:", "a=();p=:", "a=();p=", 'a=();p=%"']
)
def test_no_repetition_makes_the_parser_slow(prefix: str, unit: str) -> None:
    """Text built to make a backtracking parser explode is answered in milliseconds."""
    text = (prefix + unit * MAX_FIELD_CHARS)[: MAX_FIELD_CHARS - 1] + "\x00"
    started = time.process_time()
    for parse in (parse_inner_lists, parse_byte_sequences):
        with pytest.raises(StructuredFieldError):
            parse(text)
    assert time.process_time() - started < 0.1


@given(st.text(st.characters() | st.sampled_from('a=();,: "\\'), max_size=60))
def test_any_text_gives_a_dictionary_or_a_refusal(text: str) -> None:
    """Nothing else than `StructuredFieldError` ever comes out."""
    for parse in (parse_inner_lists, parse_byte_sequences):
        with suppress(StructuredFieldError):
            parse(text)
