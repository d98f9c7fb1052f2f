"""A stolen recording is found in an index and known again, whatever was changed in it to hide that."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from policies.judging import Forensics
from policies.vocabulary import Reason
from replay.forensics import similarity as forensic_similarity
from replay.forensics.inputs import Inputs, inputs_of
from replay.forensics.shingles import (
    BANDS,
    MOST_SHINGLES,
    ROWS,
    bands_of,
    bands_of_all,
    resemblance,
    shingles_of,
    shingles_of_bytes,
)
from replay.forensics.similarity import ComparableRecording, correlation, similarity
from tests.replay.forensics import players
from tests.replay.forensics.players import Words

SEEDS = range(20)
LIMITS = Forensics()

THEFTS: dict[str, Callable[[Words, int], Words]] = {
    "a tick later": lambda words, _: players.moved(words, 1),
    "a tick earlier": lambda words, _: players.moved(words, -1),
    "a second later": lambda words, _: players.moved(words, 60),
    "an unused button pressed": players.with_noise,
    "1 % edited": lambda words, seed: players.edited(words, seed, 0.01),
    "5 % edited": lambda words, seed: players.edited(words, seed, 0.05),
    "ticks put in": players.with_pauses,
    "the end cut off": lambda words, _: players.cut(words, 0.2),
}


def of(words: Words) -> Inputs:
    return inputs_of(words.tobytes(), LIMITS.buttons)


def play(words: Words) -> ComparableRecording:
    return ComparableRecording(words.tobytes(), of(words))


def share_a_band(one: Words, other: Words) -> bool:
    return bool(set(bands_of(shingles_of(of(one)))) & set(bands_of(shingles_of(of(other)))))


@pytest.mark.parametrize("name", THEFTS)
def test_P02_a_mutated_recording_is_found_and_known_again(name: str):
    """By a band that it shares with the original, and by inputs that fit where they were moved to."""
    for seed in SEEDS:
        original = players.honest(seed)
        stolen = THEFTS[name](original, seed)
        assert share_a_band(stolen, original)
        [finding] = similarity(
            play(stolen), [("other", play(players.honest(99))), ("it", play(original))], LIMITS
        )
        assert (Reason.RECORDING_SIMILAR, ("it",)) == (finding.reason, finding.others)
        assert finding.value > LIMITS.correlation
        assert finding.sample_size >= LIMITS.minimum_shingles


def test_P02_the_very_same_bytes_fit_as_they_are():
    """What the correlation of a recording with itself comes to, without calculating it; also in raw bytes."""
    for seed in SEEDS:
        original = play(players.honest(seed))
        assert original.inputs is not None
        assert correlation(original.inputs, original.inputs) == pytest.approx(1, abs=1e-4)
        [finding] = similarity(play(players.honest(seed)), [("a", original), ("b", original)], LIMITS)
        assert (1.0, ("b", "a"), {"resemblance": 1.0}) == (finding.value, finding.others, finding.detail)
        raw = ComparableRecording(original.recording, None)
        [finding] = similarity(raw, [("a", ComparableRecording(original.recording, None))], LIMITS)
        assert (1.0, {"resemblance": 1.0}) == (finding.value, finding.detail)


def test_P02_a_button_without_effect_hides_nothing_however_often_it_is_pressed():
    """Only what both pressed is compared: half of all ticks with one button more leave a stolen recording what it is."""
    for seed in SEEDS:
        original = players.honest(seed)
        stolen = players.with_noise(original, seed, times=original.size // 2)
        assert correlation(of(stolen), of(original)) > 0.99


def test_P02_a_tenth_edited_is_found_nearly_always():
    """A search by bands is one by chance: at this resemblance it finds more than nine in ten."""
    pairs = [(players.honest(seed), seed) for seed in range(60)]
    hits = sum(share_a_band(players.edited(words, seed, 0.1), words) for words, seed in pairs)

    assert hits > 54


def test_P02_recordings_of_two_hands_are_not_alike():
    """Neither in their shingles nor at any shift, though both play the same game in the same way."""
    runs = [of(players.honest(seed)) for seed in range(8)]
    pairs = [(one, other) for number, one in enumerate(runs) for other in runs[:number]]

    assert max(correlation(*pair) for pair in pairs) < LIMITS.correlation / 2
    assert max(resemblance(shingles_of(one), shingles_of(other)) for one, other in pairs) < 0.05


@pytest.mark.parametrize("make", [players.analog, lambda seed: players.analog(seed) << np.uint32(3)])
def test_P02_a_stick_has_shingles_of_its_own(make: Callable[[int], Words]):
    """Values that follow each other, whenever they do: two sticks share few, a moved copy nearly all."""
    one, other = make(1), make(2)

    assert of(one).is_analog
    assert resemblance(shingles_of(of(players.moved(one, 1))), shingles_of(of(one))) > 0.95
    assert resemblance(shingles_of(of(one)), shingles_of(of(other))) < 0.1
    assert [] == list(similarity(play(other), [("it", play(one))], LIMITS))


def test_too_little_is_like_nothing():
    """A run with few presses, or none, has no bands worth looking for, and resembles nobody."""
    for words in (players.honest(1, ticks=200), np.zeros(600, np.uint32)):
        short = play(words)
        assert short.shingles.size < LIMITS.minimum_shingles
        assert [] == list(similarity(short, [("it", short)], LIMITS))
    assert [] == bands_of(shingles_of(of(np.zeros(600, np.uint32))))


def test_the_probability_of_a_common_band_is_that_of_the_theory():
    """1 - (1 - s^ROWS)^BANDS, for sets whose resemblance is known."""
    rng = np.random.default_rng(1)
    for shared in (120, 200, 320):
        union = [np.unique(rng.integers(2**63, size=400, dtype=np.uint64)) for _ in range(300)]
        firsts = [set(bands) for bands in bands_of_all([each[: 200 + shared // 2] for each in union])]
        lasts = [set(bands) for bands in bands_of_all([each[200 - shared // 2 :] for each in union])]
        found = [bool(ours & theirs) for ours, theirs in zip(firsts, lasts, strict=True)]
        expected = 1 - (1 - (shared / 400) ** ROWS) ** BANDS
        assert abs(np.mean(found) - expected) < 0.1


def test_a_recording_in_another_format_is_compared_by_its_bytes():
    """A header, a cut and a changed byte leave most of it; another file shares nothing. Nothing is decoded."""
    rng = np.random.default_rng(1)
    one, other = (rng.integers(256, size=3000, dtype=np.uint8).tobytes() for _ in range(2))
    changed = b"new header" + one[:1000] + b"!" + one[1001:2800]

    [finding] = similarity(
        ComparableRecording(changed, None),
        [("a", ComparableRecording(other, None)), ("b", ComparableRecording(one, None))],
        LIMITS,
    )
    assert ("b",) == finding.others
    assert set(bands_of(shingles_of_bytes(changed))) & set(bands_of(shingles_of_bytes(one)))


def test_large_recordings_are_bounded():
    """The work does not grow with what a client sends; a part stands for the whole."""
    rng = np.random.default_rng(1)
    one = rng.integers(256, size=100_000, dtype=np.uint8).tobytes()

    assert MOST_SHINGLES == shingles_of_bytes(one).size
    assert resemblance(shingles_of_bytes(one[5:]), shingles_of_bytes(one)) > 0.95
    assert 0.3 < resemblance(shingles_of_bytes(one[:50_000]), shingles_of_bytes(one)) < 0.7


def test_P09_the_memory_of_a_comparison_does_not_grow_with_the_buttons():
    """32 buttons that are pressed at random in each tick take as much as a few do."""
    busy = [np.random.default_rng(seed).integers(2**32, size=32_768, dtype=np.uint32) for seed in (1, 2)]
    ours, theirs = of(busy[0]), of(busy[1])
    assert 32 == len(ours.buttons) == len(theirs.buttons)
    tracemalloc.start()
    fit = correlation(ours, theirs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < fit < 0.05
    assert peak < 64 * 2**20


def test_P02_buttons_that_are_compared_together_are_compared_as_one_by_one(monkeypatch: pytest.MonkeyPatch):
    """How many are multiplied at once changes nothing of the fit."""
    words = players.honest(3)
    ours, theirs = of(words), of(players.edited(players.moved(words, 7), 5, 0.05))
    together = correlation(ours, theirs)
    monkeypatch.setattr(forensic_similarity, "MULTIPLIED", 1)
    assert 1 < len(ours.buttons)
    assert 0.5 < together == pytest.approx(correlation(ours, theirs), abs=1e-5)
