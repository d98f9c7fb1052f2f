"""The ranges that the reference page promises are those that a policy may have: its ends are taken, what is beyond is not.

Whoever reads the page writes a file that loads; and no board has a number that nobody has thought of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from policies.model import Policy
from policies.vocabulary import SCORE_LIMIT

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policy.md"

NUMBER = r"[0-9][0-9,]*(?:\.[0-9]+)?"
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
POWER = re.compile("(\\d+)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)(\N{MINUS SIGN}1)?")


class Range(NamedTuple):
    """What a field takes, as the page has it; None where it names no end."""

    least: Decimal | None
    above: Decimal | None
    most: Decimal | None


def _stated(cell: str) -> Range | None:
    """The range in a cell of the page; None where it speaks of no number."""
    text = POWER.sub(lambda m: str(int(m[1]) ** int(m[2].translate(SUPERSCRIPTS)) - bool(m[3])), cell)
    if within := re.search(rf"within ±\(({NUMBER})\)", text):
        return Range(-Decimal(within[1]), None, Decimal(within[1]))
    patterns = {
        "least": rf"({NUMBER}) to|at least ({NUMBER})|({NUMBER}) or more",
        "above": rf"above ({NUMBER})",
        "most": rf"to ({NUMBER})",
    }
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    ends = {
        name: Decimal(next(filter(None, match.groups())).replace(",", "")) if match else None
        for name, match in found.items()
    }
    return Range(**ends) if any(each is not None for each in ends.values()) else None


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every field that holds a value, dotted; those of sections in lists and maps as well."""
    for name, field in model.model_fields.items():
        sections = [each for each in _parts(field.annotation) if issubclass(each, BaseModel)]
        if sections:
            yield from _fields(sections[0], f"{prefix}{name}.")
        else:
            yield prefix + name, field


def _parts(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from _parts(each)


@cache
def _page() -> dict[str, str]:
    """What the page says of the values of each field."""
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in PAGE.read_text().splitlines()]
    return {row[0].strip().strip("`"): row[1].strip() for row in rows if len(row) == 4}


FIELDS = dict(_fields(Policy))
COUNTED = {
    name
    for name, field in FIELDS.items()
    if set(_parts(field.annotation)) & {int, float} and name not in {"ranges", "rollup.points"}
}
NUMBERS = {name: stated for name in sorted(COUNTED) if (stated := _stated(_page()[name]))}
LISTS = {
    "ranges": (64, range),
    "rollup.points": (100, lambda count: count * [1]),
    "segments": (8, lambda count: [f"a{number}" for number in range(count)]),
    "self_declared": (8, lambda count: [f"a{number}" for number in range(count)]),
    "builds.files": (32, lambda count: [f"{number}.pak" for number in range(count)]),
    "replay.files": (32, lambda count: [f"{number}.pak" for number in range(count)]),
    "replay.stats": (16, lambda count: [f"a{number}" for number in range(count)]),
    "plugins.settings": (64, lambda count: {str(number): 1 for number in range(count)}),
}
SECTIONS = {"tie_fields": 4, "rules": 16, "plugins": 16, "stats": 16, "builds": 64}
TEXTS = {
    "board": ("a" + 47 * "-", "a" + 48 * "b", "Abc", "1a", "a_b", "a\n", ""),
    "rules.name": ("a" + 47 * "-", "a" + 48 * "b", "Abc", "1a", "a_b", "a\n", ""),
    "title": (80 * "É", 81 * "x", ""),
    "rules.rule": (500 * "1", 501 * "1"),
    "tie_fields.stat": ("a" + 31 * "_", "a" + 32 * "b", "A", "1a", "a-b", "a\n", ""),
    "replay.stats": (["a" + 31 * "_"], ["a" + 32 * "b"], ["A"], ["1a"], ["a-b"], ["a\n"]),
    "segments": (["a" + 31 * "-"], ["a" + 32 * "b"], ["A"], ["1a"], ["a_b"], ["a\n"]),
    "verification.audit.at": ("23:59", "24:00", "9:00", "00:60", "03:00\n", "03:00:00"),
}
"""One that is as the page says, and others that are not."""


def takes(name: str, value: Any) -> bool:
    """Whether a policy may have the value in that field."""
    field = FIELDS[name]
    kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    try:
        TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(value)
    except ValidationError:
        return False
    return True


def _is_whole(name: str) -> bool:
    return int in set(_parts(FIELDS[name].annotation))


def _beside(name: str, value: Decimal, way: int) -> float | int:
    """The next value that the field's kind of number has above or below."""
    return int(value) + way if _is_whole(name) else math.nextafter(float(value), way * math.inf)


def _exactly(name: str, value: Decimal) -> float | int:
    return int(value) if _is_whole(name) else float(value)


def test_the_page_says_the_range_of_every_number():
    """Or that it is a score's: points."""
    assert {"anomaly.prior.mean"} == COUNTED - NUMBERS.keys()
    assert len(NUMBERS) > 60


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_the_range_that_the_page_says(name: str):
    """Both ends are in it, the next values are not; and no number is without an end."""
    stated = NUMBERS[name]
    if stated.least is not None:
        assert takes(name, _exactly(name, stated.least))
        assert not takes(name, _beside(name, stated.least, -1))
    if stated.above is not None:
        assert not takes(name, _exactly(name, stated.above))
        assert takes(name, _exactly(name, stated.above) + (1 if _is_whole(name) else 1e-6))
    if stated.most is not None:
        assert takes(name, _exactly(name, stated.most))
        assert not takes(name, _beside(name, stated.most, 1))
    assert not any(takes(name, each) for each in (math.inf, -math.inf, math.nan, "1", True))
    assert not (_is_whole(name) and takes(name, 100.0))


@pytest.mark.parametrize(
    "name", ["anomaly.prior.mean", "anomaly.prior.spread", "anomaly.spread_floor", "progress.points"]
)
def test_points_are_those_of_a_score(name: str):
    """What a score cannot be is no mean, no spread, and no step of any."""
    assert takes(name, SCORE_LIMIT)
    assert not takes(name, _beside(name, Decimal(SCORE_LIMIT), 1))
    assert not takes(name, -SCORE_LIMIT - 2)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_as_many_as_the_page_says(name: str):
    """One more is refused: each costs something at every claim."""
    most, made = LISTS[name]
    assert str(most) in _page()[name] or name == "self_declared"
    assert takes(name, _listed(made(most)))
    assert not takes(name, _listed(made(most + 1)))


def _listed(made: Any) -> Any:
    return made if isinstance(made, dict) else list(made)


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_are_as_many_as_the_page_says(name: str):
    """Of what a board has several of, in a list or by name."""
    schema = Policy.model_json_schema()["properties"][name]
    assert SECTIONS[name] == schema.get("maxItems", schema.get("maxProperties"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_the_form_that_the_page_says(name: str):
    """A name is one everywhere it stands: in addresses, keys, logs, and metrics."""
    right, *wrong = TEXTS[name]
    assert takes(name, right)
    assert [] == [each for each in wrong if takes(name, each)]
