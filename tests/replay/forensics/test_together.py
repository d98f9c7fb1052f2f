"""What is found of many recordings at once is the very same as of each alone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.forensics import similarity as forensic_similarity
from replay.forensics import toggles
from replay.forensics.inputs import inputs_of
from replay.forensics.shingles import GAPS, MOST_SHINGLES, bands_of, bands_of_all
from replay.forensics.similarity import ComparableRecording, read_together
from tests.replay.forensics import players
from tests.support.thorough import examples

BUTTONS, ALL_BITS = 31, 2**32 - 1

Spans = list[tuple[int, int]]

_words = st.integers(0, 7) | st.sampled_from([2**31, 2**32 - 1])
_spans: st.SearchStrategy[Spans] = st.lists(st.tuples(_words, st.integers(1, 40)), max_size=60)
_recordings = st.lists(_spans, max_size=9)


def recording(spans: Spans, mask: int = ALL_BITS) -> ComparableRecording:
    words = np.repeat([word for word, _ in spans], [ticks for _, ticks in spans]).astype("<u4")
    return ComparableRecording(words.tobytes(), inputs_of(words.tobytes(), mask))


def contents(recordings: Sequence[ComparableRecording]) -> list[object]:
    """Everything that is found of each: its buttons, how their presses scatter, its shingles and its bands."""
    return [
        (
            [(button.bit, button.toggles.tolist()) for button in each.inputs.buttons]
            if each.inputs
            else None,
            list(each.scatter),
            each.shingles.tolist(),
            bands_of(each.shingles),
        )
        for each in recordings
    ]


def alone(spans: Spans, mask: int) -> object:
    return contents([recording(spans, mask)])[0]


@given(_recordings, st.sampled_from([BUTTONS, ALL_BITS]))
@settings(max_examples=examples(40), deadline=None)
def test_recordings_that_are_read_together_give_what_each_gives_alone(jobs: list[Spans], mask: int):
    """Whatever their lengths are: empty, too short for a shingle, or without a press."""
    together = [recording(spans, mask) for spans in jobs]
    read_together(together)
    assert [alone(spans, mask) for spans in jobs] == contents(together)
    assert [bands_of(each.shingles) for each in together] == bands_of_all(
        [each.shingles for each in together]
    )


def test_a_button_has_the_shingles_that_its_gaps_spell():
    """Of a few known presses, from the definition: gaps in quarter octaves, four to a shingle."""
    press_ticks = [3, 10, 13, 40, 41, 60, 100]
    words = np.zeros(120, "<u4")
    for begin, end in zip(press_ticks[::2], [*press_ticks[1::2], 120], strict=True):
        words[begin:end] = 4
    steps = [int(4 * np.log2(gap)) for gap in np.diff(press_ticks)]
    packed = [
        sum(step << 7 * (GAPS - 1 - place) for place, step in enumerate(steps[begin : begin + GAPS]))
        | (2 << 1 | begin & 1) << 7 * GAPS
        for begin in range(len(steps) - GAPS + 1)
    ]
    found = ComparableRecording(words.tobytes(), inputs_of(words.tobytes(), BUTTONS))
    assert sorted(map(splitmix64, packed)) == found.shingles.tolist()


def splitmix64(value: int) -> int:
    """The finalizer as it was published, on Python's integers."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def test_numbers_foreign_formats_and_long_runs_are_read_among_buttons():
    """A stick has shingles of its values, a foreign format of its bytes, and a long run only the smallest."""
    words = [players.honest(1), players.analog(2), players.honest(3, ticks=90_000), players.honest(4)]
    foreign = ComparableRecording(bytes(range(256)) * 3, None)

    def read() -> list[ComparableRecording]:
        return [
            *(ComparableRecording(each.tobytes(), inputs_of(each.tobytes(), ALL_BITS)) for each in words),
            foreign,
        ]

    together = read()
    read_together(together)
    assert [contents([each])[0] for each in read()] == contents(together)
    assert MOST_SHINGLES >= max(each.shingles.size for each in together) > 1_000
    assert all(each.shingles.size for each in together)


@given(_recordings, st.integers(0, 60))
@settings(max_examples=examples(40), deadline=None)
def test_how_much_is_read_at_once_changes_nothing(jobs: list[Spans], most: int):
    """Recordings are read in groups of so many toggles, and one with more a button at a time."""
    expected = [alone(spans, ALL_BITS) for spans in jobs]
    with patch.object(toggles, "TOGETHER", most), patch.object(forensic_similarity, "TOGETHER", most):
        together = [recording(spans) for spans in jobs]
        read_together(together)
        assert expected == contents(together)


def busy(ticks: int) -> ComparableRecording:
    """A recording whose words are all ones in every second tick."""
    words = np.zeros(ticks, "<u4")
    words[::2] = ALL_BITS
    return ComparableRecording(b"", inputs_of(words.tobytes(), ALL_BITS))


def test_P09_a_job_of_recordings_that_toggle_all_bits_in_every_tick_takes_bounded_memory():
    """64 KiB hold half a million toggles, and a job has 64 recordings: its worker must live to hold them all."""
    jobs = [busy(16_000) for _ in range(64)]
    assert [512_000] * 64 == [each.inputs.toggle_count for each in jobs if each.inputs]
    tracemalloc.start()
    read_together(jobs)
    shingles = {each.shingles.size for each in jobs}
    scattered = len(jobs[0].scatter)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (32, {64}) == (scattered, shingles)
    assert peak < 48 * 2**20


def test_P09_a_job_of_recordings_that_each_fit_is_read_in_groups():
    """Each of them is read with others, and all of them never at once."""
    jobs = [busy(1_500) for _ in range(64)]
    tracemalloc.start()
    read_together(jobs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all({"scatter", "shingles"} <= vars(each).keys() for each in jobs)
    assert peak < 80 * 2**20
