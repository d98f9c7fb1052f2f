"""Mutated vectors for everything that reads bytes of strangers: an answer or a refusal, and no third thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 12),
        st.one_of(
            st.binary(max_size=12),
            st.sampled_from([b'"', b";", b"=", b":", b",", b" ", b"\\", b"\xff", b"\x80"]),
        ),
    ),
    max_size=4,
)
"""Where, how many bytes are taken away, and what stands there instead."""


def mutated(seed: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for where, taken, put in edits:
        at = int(where * (len(seed) + 1))
        seed = seed[:at] + put + seed[at + taken :]
    return seed


@pytest.mark.parametrize("name", TARGETS)
def test_what_strangers_send_is_read_or_refused(name: str):
    """A promise of the target that does not hold is an AssertionError; any other error is a crash."""
    target, begin = TARGETS[name]
    seeds = begin()

    @given(st.sampled_from(seeds), EDITS)
    def holds(seed: bytes, edits: list[tuple[float, int, bytes]]) -> None:
        target(mutated(seed, edits))

    for seed in seeds:
        target(seed)
    holds()
