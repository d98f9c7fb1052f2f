"""What a family's board may be called and carry, and the digest that binds its content."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import SettingRefused
from policies.judging import Prior
from policies.opened_board import (
    JSON_DEPTH,
    METADATA_BYTES,
    NO_CONTENT,
    PARAMETER_BYTES,
    BoardState,
    NarrowedBounds,
    NarrowedScore,
    OpenedBoard,
    canonical_json,
    canonical_parameters,
    content_digest,
    family_named_by,
    is_name_in_family,
    refuse_unfit,
)
from policies.vocabulary import LATEST_MS

MONZA = OpenedBoard("track.monza", "track", "Monza")

_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)
VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner), max_leaves=8)


@pytest.mark.parametrize(
    ("board", "family"),
    [
        ("track.monza", "track"),
        ("track.Monza_GP-2", "track"),
        ("a.b", "a"),
        (f"{'a' * 48}.{'b' * 64}", "a" * 48),
        ("track", None),
        ("track.", None),
        (".monza", None),
        ("Track.monza", None),
        ("track.monza.2", None),
        ("track.monza\n", None),
        ("track.monzé", None),
        (f"track.{'b' * 65}", None),
        (f"{'a' * 49}.b", None),
    ],
)
def test_a_name_says_its_family(board, family):
    """Family, dot, and up to 64 characters that stand in a URL and a key as they are."""
    assert (family, family is not None) == (family_named_by(board), is_name_in_family(board))


def test_the_part_after_the_dot_is_case_sensitive_and_readable():
    """`track.Monza` is another board than `track.monza`."""
    assert ("monza", "Monza") == (MONZA.rest, replace(MONZA, board="track.Monza").rest)


@settings(deadline=None)
@given(VALUES)
def test_canonical_json_is_read_back_as_it_was(value):
    """Nothing is rounded, dropped or rewritten on the way."""
    depth_ok = _depth(value) <= JSON_DEPTH
    if depth_ok:
        assert value == json.loads(canonical_json(value))


@settings(deadline=None)
@given(st.dictionaries(_TEXTS, _LEAVES, min_size=2, max_size=5))
def test_equal_objects_have_one_text(value):
    """The order in which somebody wrote the keys changes nothing."""
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))
    assert canonical_json(value) == canonical_json(MappingProxyType(value))


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (2**53, "an integer is beyond"),
        ({"a": -(2**53)}, "an integer is beyond"),
        ([float("nan")], "not finite"),
        ([float("inf")], "not finite"),
        ({"a": "\0"}, "U\\+0000"),
        ({"\0": 1}, "U\\+0000"),
        ("\ud800", "not JSON"),
        ({1: 2}, "a key is not a text"),
        (b"bytes", "a bytes is not JSON"),
        ({"a": {1, 2}}, "a set is not JSON"),
    ],
)
def test_what_two_programs_could_read_differently_is_refused(value, fault):
    """JSON that means one thing to us means the same to a game's simulator."""
    with pytest.raises(ValueError, match=fault):
        canonical_json(value)


def test_nesting_ends():
    """The deepest allowed value is written, one deeper is refused."""
    deepest: Any = 1
    for _ in range(JSON_DEPTH):
        deepest = [deepest]
    assert b"[" * JSON_DEPTH == canonical_json(deepest)[:JSON_DEPTH]
    with pytest.raises(ValueError, match="nested deeper than 8"):
        canonical_json([deepest])


def test_parameters_are_one_text_or_nothing():
    """A board without parameters and one with an empty object are the same."""
    assert (b"", b"") == (canonical_parameters(None), canonical_parameters({}))
    assert b'{"a":1,"b":[2,"x"]}' == canonical_parameters({"b": [2, "x"], "a": 1})
    text = "x" * (PARAMETER_BYTES - len('{"a":""}'))
    assert PARAMETER_BYTES == len(canonical_parameters({"a": text}))
    with pytest.raises(SettingRefused, match="at most 4096 bytes of JSON, not 4097") as refused:
        canonical_parameters({"a": text + "x"})
    assert ("parameters",) == refused.value.location
    with pytest.raises(SettingRefused, match="expected an object"):
        canonical_parameters([1])  # type: ignore[arg-type]


def test_without_content_the_digest_is_zeros():
    """A ticket of a board of a file and one of a bare board of a family bind the same nothing."""
    assert (bytes(32), bytes(32)) == (NO_CONTENT, MONZA.content_digest)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(min_size=32, max_size=32)), max_size=20)
)
def test_a_content_digest_has_one_content(contents):
    """No bytes move from the parameters to the asset's digest or back without changing it."""
    moved = [(parameters + (asset or b""), None) for parameters, asset in contents]
    different = {*contents, *moved}
    assert len(different) == len({content_digest(*content) for content in different})


def test_the_digest_of_a_board_is_that_of_its_content():
    """Title, metadata, times and bounds are no part of the content."""
    board = replace(MONZA, parameters=b'{"laps":3}', asset=bytes(range(32)))
    assert content_digest(b'{"laps":3}', bytes(range(32))) == board.content_digest
    other = replace(board, title="Autodromo", metadata={"a": 1}, closes_at_ms=5, version=2)
    assert board.content_digest == other.content_digest


@pytest.mark.parametrize(
    ("changes", "field", "fault"),
    [
        ({"board": "track"}, "board", "expected `track\\.` and up to 64"),
        ({"board": "road.monza"}, "board", "expected `track\\.`"),
        ({"title": ""}, "title", "1 to 80 characters"),
        ({"title": "x" * 81}, "title", "1 to 80 characters"),
        ({"title": "two\nlines"}, "title", "1 to 80 characters on one line"),
        ({"title": "half \ud800"}, "title", "1 to 80 characters on one line"),
        ({"metadata": {"a": "x" * METADATA_BYTES}}, "metadata", "at most 4096 bytes of JSON"),
        ({"metadata": {"a": float("nan")}}, "metadata", "not finite"),
        ({"metadata": [1]}, "metadata", "expected an object"),
        ({"parameters": b"x" * 4097}, "parameters", "at most 4096 bytes"),
        ({"asset": bytes(31)}, "asset", "expected a SHA-256"),
        ({"opens_at_ms": -1}, "opens_at", "from 1970 to 9999"),
        ({"closes_at_ms": 253_402_300_800_000}, "closes_at", "from 1970 to 9999"),
        ({"opens_at_ms": 5, "closes_at_ms": 5}, "closes_at", "after `opens_at`"),
        ({"closes_at_ms": 0}, "closes_at", "after `opens_at`"),
    ],
)
def test_a_board_that_nobody_may_open_says_why(changes, field, fault):
    """The field and what was expected there."""
    with pytest.raises(SettingRefused, match=fault) as refused:
        refuse_unfit(replace(MONZA, **changes))
    assert (field,) == refused.value.location


def test_the_largest_board_may_be_opened():
    """Every limit belongs to what is allowed."""
    text = "x" * (METADATA_BYTES - len('{"a":""}'))
    refuse_unfit(
        OpenedBoard(
            f"track.{'x' * 64}",
            "track",
            "x" * 80,
            {"a": text},
            b"x" * PARAMETER_BYTES,
            bytes(32),
            opens_at_ms=0,
            closes_at_ms=LATEST_MS,
        )
    )


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, True),
        ({"state": BoardState.CLOSED}, False),
        ({"state": BoardState.DELETED}, False),
        ({"opens_at_ms": 100}, True),
        ({"opens_at_ms": 101}, False),
        ({"closes_at_ms": 101}, True),
        ({"closes_at_ms": 100}, False),
    ],
)
def test_runs_are_taken_from_the_first_moment_to_the_last(changes, is_open):
    """`opens_at` is inside, `closes_at` is outside."""
    assert is_open == replace(MONZA, **changes).takes_runs_at(100)


def test_bounds_stand_as_json_and_come_back():
    """Only what is narrowed is written."""
    bounds = NarrowedBounds(
        score=NarrowedScore(maximum=500), maximum_ticks=60, prior=Prior(mean=10.0, spread=2.5)
    )
    written = {"score": {"maximum": 500}, "maximum_ticks": 60, "prior": {"mean": 10.0, "spread": 2.5}}
    assert written == bounds.as_json()
    assert bounds == NarrowedBounds.model_validate(bounds.as_json())
    assert ({}, False, True) == (NarrowedBounds().as_json(), NarrowedBounds().narrows, bounds.narrows)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
