"""The recording container: it gives back what went in, in one form only, and survives whatever it is fed."""

from __future__ import annotations

import struct
import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.recording import Recording, RecordingError, decode, encode, pack_inputs

MAXIMUM_TICKS = 50_000
WORDS = st.integers(0, 2**32 - 1)
HASHES = st.integers(0, 2**64 - 1)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Any recording: few or many runs, short or long, small or large words."""
    runs = draw(
        st.lists(st.tuples(st.integers(1, 300), st.one_of(st.integers(0, 3), WORDS)), min_size=1, max_size=40)
    )
    inputs = pack_inputs([word for length, word in runs for _ in range(length)])
    ticks, interval = len(inputs) // 4, draw(st.sampled_from([0, 1, 7, 60, 100_000]))
    count = ticks // interval if interval else 0
    hashes = [(draw(HASHES) + index) % 2**64 for index in range(min(count, 1))] * count
    return Recording(ticks, interval, inputs, tuple(hashes))


def encoded(recording: Recording) -> bytes:
    """The recording's bytes."""
    return encode(recording.inputs, recording.checkpoints, recording.checkpoint_ticks)


def container(ticks: bytes, interval: bytes, runs: bytes, body: bytes, checkpoints: bytes = b"") -> bytes:
    """A container of raw parts."""
    return b"SGR1" + ticks + interval + runs + body + checkpoints


def test_the_layout_is_the_documented_one() -> None:
    """The bytes of a small recording, spelled out."""
    data = encode(pack_inputs([5, 5, 5, 300]), [1, 2**64 - 1], 2)
    assert (
        b"SGR1" + b"\x04\x02\x02" + b"\x03\x05" + b"\x01\xac\x02" + struct.pack("<2Q", 1, 2**64 - 1) == data
    )


@given(recordings())
def test_what_was_encoded_is_decoded(recording: Recording) -> None:
    """Encoding and decoding gives back the same inputs, interval and checkpoints."""
    assert recording == decode(encoded(recording), maximum_ticks=MAXIMUM_TICKS)


@given(recordings(), st.data())
def test_mutations_are_refused_or_canonical(recording: Recording, data: st.DataObject) -> None:
    """Changed bytes give a RecordingError or another recording of exactly these bytes; nothing else."""
    mutated = bytearray(encoded(recording))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated)))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    _refused_or_canonical(bytes(mutated))


@given(st.binary(max_size=60).map(lambda tail: b"SGR1" + tail))
@example(b"SGR1\x01\x00\x01\x01\x00")
@example(b"SGR1" + b"\x80" * 50)
def test_any_bytes_are_refused_or_canonical(data: bytes) -> None:
    """Whatever decodes encodes to the very same bytes."""
    _refused_or_canonical(data)


def _refused_or_canonical(data: bytes) -> None:
    try:
        recording = decode(data, maximum_ticks=MAXIMUM_TICKS)
    except RecordingError:
        return
    assert data == encoded(recording)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "SGR1"),
        (b"SGR2\x01\x00\x01\x01\x00", "SGR1"),
        (b"SGR1", "cut short"),
        (b"SGR1\x80", "cut short"),
        (b"SGR1\xff\xff\xff\xff\xff\x01", "longer than 5 bytes"),
        (b"SGR1\xff\xff\xff\xff\x1f\x00\x01\x01\x00", "larger than 32 bits"),
        (b"SGR1\x00\x00\x01\x01\x00", "0 ticks"),
        (b"SGR1\xd1\x86\x03\x00\x01\xd1\x86\x03\x00", "50001 ticks"),
        (container(b"\x02", b"\x00", b"\x00", b""), "0 runs"),
        (container(b"\x02", b"\x00", b"\x03", b"\x01\x00\x01\x01\x01\x00"), "3 runs for 2 ticks"),
        (container(b"\x02", b"\x00", b"\x01", b"\x82\x00\x00"), "shortest form"),
        (container(b"\x82\x00", b"\x00", b"\x01", b"\x02\x00"), "shortest form"),
        (container(b"\x02", b"\x00", b"\x01", b"\x02\xff\xff\xff\xff\x10"), "larger than 32 bits"),
        (container(b"\x02", b"\x00", b"\x02", b"\x01\x00\x81\x80\x80\x80"), "cut short"),
        (container(b"\x02", b"\x00", b"\x01", b"\x01\x00\x01\x01"), "announces 1 runs"),
        (container(b"\x02", b"\x00", b"\x02", b"\x00\x00\x02\x01"), "a run is empty"),
        (container(b"\x02", b"\x00", b"\x01", b"\x03\x00"), "last 3 ticks"),
        (container(b"\x04", b"\x00", b"\x01", b"\x03\x00"), "last 3 ticks"),
        (container(b"\x02", b"\x00", b"\x02", b"\x01\x07\x01\x07"), "same input"),
        (container(b"\x02", b"\x01", b"\x01", b"\x02\x00", bytes(15)), "does not fit"),
        (container(b"\x02", b"\x00", b"\x01", b"\x02\x00", b"\x00"), "announces 1 runs"),
        (container(b"\x02", b"\x00", b"\x01", b"\x02\x00", bytes(20)), "does not fit"),
    ],
)
def test_each_fault_is_named(data: bytes, message: str) -> None:
    """A container that breaks a rule is refused with the rule it breaks."""
    with pytest.raises(RecordingError, match=message):
        decode(data, maximum_ticks=MAXIMUM_TICKS)


LARGEST, BEYOND = b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10"
"""2^32 - 1, and 2^32, which would be another spelling of 0."""


def test_the_largest_word_is_one_and_one_more_is_none() -> None:
    """In each place where a number may stand, and beside small ones and large ones."""
    alone, beside = (b"\x01", b"\x00", b"\x01", b"\x01%b"), (b"\x02", b"\x00", b"\x02", b"\x01\x05\x01%b")
    for *head, body in (alone, beside):
        played = decode(container(*head, body % LARGEST), maximum_ticks=2)
        assert pack_inputs([2**32 - 1]) == played.inputs[-4:]
        with pytest.raises(RecordingError, match="larger than 32 bits"):
            decode(container(*head, body % BEYOND), maximum_ticks=2)
    assert (
        2**32 - 1
        == decode(container(b"\x01", LARGEST, b"\x01", b"\x01\x05"), maximum_ticks=1).checkpoint_ticks
    )
    parts = [b"\x01", b"\x00", b"\x01"]
    for at in range(3):
        with pytest.raises(RecordingError, match="larger than 32 bits"):
            decode(container(*parts[:at], BEYOND, *parts[at + 1 :], b"\x01\x05"), maximum_ticks=1)


def test_a_run_may_last_exactly_as_long_as_is_allowed() -> None:
    """The longest run of a board is taken; with one tick more it is refused."""
    longest = encode(pack_inputs([7] * 5), [], 0)
    assert 5 == decode(longest, maximum_ticks=5).ticks
    with pytest.raises(RecordingError, match="it has 5 ticks where 1 to 4 are allowed"):
        decode(longest, maximum_ticks=4)


def test_a_run_length_is_checked_before_it_is_expanded() -> None:
    """J14: a few bytes that claim four billion ticks take neither memory nor time."""
    bomb = container(b"\x02", b"\x00", b"\x01", b"\xff\xff\xff\xff\x0f\x00")
    tracemalloc.start()
    with pytest.raises(RecordingError, match="last 4294967295 ticks"):
        decode(bomb, maximum_ticks=MAXIMUM_TICKS)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("filling", [b"\x80", b"\xff", b"\x80\x00", b"\x01"])
def test_a_large_hostile_recording_costs_little(filling: bytes) -> None:
    """A megabyte of endless or endlessly many numbers is refused in a fraction of a second."""
    data = container(
        b"\xff\xff\xff\x03", b"\x00", b"\x80\x80\x20", filling * (2**20 // len(filling)) + b"\x80"
    )
    started = time.process_time()
    with pytest.raises(RecordingError):
        decode(data, maximum_ticks=10_000_000)
    with pytest.raises(RecordingError):
        decode(data[:-1] + b"\x00", maximum_ticks=10_000_000)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("inputs", "checkpoints", "interval"),
    [(b"", [], 0), (b"\x00" * 5, [], 0), (b"\x00" * 8, [1], 3), (b"\x00" * 8, [], 1), (b"\x00" * 4, [], -1)],
)
def test_what_does_not_belong_together_is_not_encoded(
    inputs: bytes, checkpoints: list[int], interval: int
) -> None:
    """Nothing is encoded that could not be decoded."""
    with pytest.raises(RecordingError):
        encode(inputs, checkpoints, interval)


def test_numbers_out_of_range_are_not_encoded() -> None:
    """A word has 32 bits and a checkpoint 64."""
    with pytest.raises(RecordingError, match="64-bit"):
        encode(bytes(4), [2**64], 1)
    with pytest.raises(RecordingError, match="32-bit"):
        pack_inputs([2**32])
