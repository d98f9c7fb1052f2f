"""Tie fields: that their packed form sorts as they do, to the ends of what an integer may be, and whose rule they are."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.ranking import Ranking
from tests.support.policies import EXACT_LIMIT, a_ranking

ENDS = [None, -EXACT_LIMIT, 1 - EXACT_LIMIT, -1, 0, 1, EXACT_LIMIT - 1, EXACT_LIMIT]
VALUES = st.sampled_from(ENDS) | st.integers(-EXACT_LIMIT, EXACT_LIMIT)


def ranking(*orders: str) -> Ranking:
    fields: list[dict[str, Any]] = [{"stat": f"field{at}", "order": each} for at, each in enumerate(orders)]
    return a_ranking(tie_break="fields", tie_fields=fields)


def packed(order: str, value: int | None) -> bytes:
    return ranking(order).ties({} if value is None else {"field0": value}).encode()


def merit(order: str, value: int | None) -> tuple[bool, int]:
    """What a lower one of is ahead: any value of none at all."""
    return value is None, (value or 0) * (1 if order == "ascending" else -1)


@settings(deadline=None)
@given(st.sampled_from(["ascending", "descending"]), VALUES, VALUES)
def test_B10_packed_ties_sort_as_their_values_and_a_missing_one_is_behind_all(order, one, other):
    """Byte by byte, as Redis and SQL compare them; each value has one of its own, of the same width."""
    assert (merit(order, one) < merit(order, other)) == (packed(order, one) < packed(order, other))
    assert (one == other) == (packed(order, one) == packed(order, other))
    assert {14} == {len(packed(order, each)) for each in (one, other)}


def test_B10_the_end_of_what_a_field_can_be_is_ahead_of_a_missing_one():
    """The largest value of an ascending field, the lowest of a descending one."""
    for order, worst in (("ascending", EXACT_LIMIT), ("descending", -EXACT_LIMIT)):
        assert packed(order, worst) < packed(order, None)


def test_M11_the_direction_of_each_tie_field_is_in_the_rule():
    """Places of boards that differ in nothing but a direction do not compare, so they have rules of their own."""
    rules = {
        ranking(one, other).rule
        for one in ("ascending", "descending")
        for other in ("ascending", "descending")
    }
    assert 4 == len(rules)
