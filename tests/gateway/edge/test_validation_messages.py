"""What is wrong with a body, in words that its sender can mend it by: the field first, then what it should have been."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError, create_model

from gateway.edge import wire
from gateway.edge.http.request import parse_body, schema_violation
from gateway.edge.http.validation_messages import PATTERNS, first_fault
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import bodies

SCORE = {"score": 1, "ticks": 1}
MEMBER = {"operation": "o", "player": "p"}
WHOLE = "expected a whole number, written without a point, an exponent or quotes"
FAULTS: list[tuple[type[BaseModel], Any, str]] = [
    (bodies.NewPlayer, [], "body: expected an object"),
    (bodies.NewPlayer, {"name": 5}, "name: expected a text"),
    (bodies.NewPlayer, {"name": ""}, "name: expected at least 1 character"),
    (bodies.NewPlayer, {"name": "x" * 97}, "name: expected at most 96 characters"),
    (bodies.NewPlayer, {"nick": "x"}, "nick: unknown field; expected name, device_key, recovery_code"),
    (bodies.NewScore, SCORE | {"details": {"o": 1}}, "details.o: unknown field"),
    (bodies.NewRun, {}, "build: is missing"),
    (
        bodies.NewRun,
        {"build": "."},
        "build: expected up to 32 letters, digits, `.`, `_` and `-`, a letter or digit first",
    ),
    (bodies.NewScore, SCORE | {"score": 1.0}, f"score: {WHOLE}"),
    (bodies.NewScore, SCORE | {"ticks": "1"}, f"ticks: {WHOLE}"),
    (bodies.NewScore, SCORE | {"ticks": -1}, "ticks: expected at least 0"),
    (bodies.NewScore, SCORE | {"score": 2**53}, f"score: expected at most {2**53 - 1}"),
    (bodies.NewScore, SCORE | {"stats": []}, "stats: expected an object"),
    (
        bodies.NewScore,
        SCORE | {"stats": {"A": 1}},
        "stats.A.[key]: expected up to 32 small letters, digits and `_`, a letter first",
    ),
    (
        bodies.NewScore,
        SCORE | {"details": {"integers": [1] * 65}},
        "details.integers: expected at most 64 elements",
    ),
    (
        bodies.NewScore,
        SCORE | {"details": {"object": {"a": 2**63}}},
        "details.object: expected whole numbers of at most 64 bits; send others as strings",
    ),
    (
        bodies.NewScore,
        SCORE | {"recording_digest": "x"},
        "recording_digest: expected `sha256:` and 64 hex digits in small letters",
    ),
    (bodies.NewJoin, MEMBER | {"joined": "yes"}, "joined: expected true or false"),
    (bodies.NewFriends, {"operation": "o", "friends": "p"}, "friends: expected an array"),
    (bodies.NewMembership, MEMBER | {"segments": {}}, "segments: expected at least 1 element"),
    (
        bodies.NewMembership,
        MEMBER | {"segments": {"A": "x"}},
        "segments.A.[key]: expected up to 32 small letters, digits and `-`, a letter first",
    ),
    (
        bodies.NewMembership,
        MEMBER | {"segments": {"club": "X"}},
        "segments.club: expected 1 to 32 small letters, digits and `-`",
    ),
    (
        bodies.NewMembership,
        MEMBER | {"player": "p p", "segments": {"club": "x"}},
        "player: expected 1 to 64 letters, digits, `_` and `-`",
    ),
    (
        bodies.NewRemoval,
        MEMBER | {"submission": "X"},
        "submission: expected 1 to 64 small letters and digits",
    ),
]


@pytest.mark.parametrize(("model", "value", "detail"), FAULTS, ids=[fault for *_, fault in FAULTS])
def test_a_fault_is_told_by_its_field_and_what_was_expected(model: type[BaseModel], value: Any, detail: str):
    """In our words and not the library's; nothing of a value is repeated."""
    with pytest.raises(Problem) as refused:
        parse_body(json.dumps(value).encode(), model)
    assert ("schema-violation", detail) == (refused.value.kind.slug, refused.value.detail)


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({}, "action: is missing"),
        ({"action": "burn"}, "action: expected one of 'write', 'remove', 'increment'"),
        ({"action": "write", "operation": "o", "player": "p"}, "score: is missing"),
        ("write", "body: expected an object"),
    ],
)
def test_an_operation_of_a_batch_is_told_without_the_form_that_was_tried(value: Any, detail: str):
    """Who writes an operation knows its action, and no union."""
    adapter: TypeAdapter[Any] = TypeAdapter(bodies.BatchedOperation)
    with pytest.raises(ValidationError) as refused:
        adapter.validate_python(value)
    assert detail == schema_violation(refused.value, skip=1).detail


def test_the_fields_that_a_refusal_expects_are_bounded():
    """The first of them, and that there are more."""
    large = create_model("Large", __base__=bodies.Body, **{f"field_{at}": (int, 0) for at in range(100)})
    with pytest.raises(Problem) as refused:
        parse_body(b'{"x": 1}', large)
    shown = ", ".join(f"field_{at}" for at in range(16))
    assert f"x: unknown field; expected {shown} or others" == refused.value.detail


def test_a_wrong_form_is_not_said_to_be_of_a_body():
    """Most parameters are of the query."""
    assert "The request does not have the required form" == ProblemType.SCHEMA_VIOLATION.title


def patterns(schema: Any) -> Iterator[str]:
    """Every pattern of a JSON schema."""
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from patterns(each)
    if isinstance(schema, dict):
        yield from schema.get("patternProperties", ())
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]


def test_every_form_of_a_text_has_its_words():
    """Each pattern of a body is described; a regular expression would be told to nobody."""
    modules = [import_module(f"{wire.__name__}.{module.name}") for module in iter_modules(wire.__path__)]
    classes = {each for module in modules for _, each in getmembers(module, isclass)}
    models = [model for model in classes if issubclass(model, bodies.Body)]
    used = {pattern for model in models for pattern in patterns(model.model_json_schema())}
    assert PATTERNS.keys() == used
    assert [] == [words for words in PATTERNS.values() if re.search(r"[\\^$\[\]]", words)]


def test_of_several_faults_the_first_is_told():
    """By its place in the body, with each step of the way there."""
    with pytest.raises(ValidationError) as refused:
        bodies.NewScore.model_validate({"score": "x", "ticks": "y"})
    assert (("score",), WHOLE) == first_fault(refused.value)
