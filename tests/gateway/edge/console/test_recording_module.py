"""The console's decoder in JavaScript, beside the decoder that judges: the same bytes taken, read alike and refused alike."""

from __future__ import annotations

import json
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scoregate_client import encode_recording

from examples.arcade.players import play
from gateway.edge import console
from replay.forensics.inputs import inputs_of
from replay.recording import RecordingError, decode, encode, pack_inputs
from tests.support.game import ROOT, arcade
from tests.support.gate import missing
from tests.support.thorough import seeds

MODULE = Path(console.__file__).parent / "static" / "recording.js"
SCRIPT = Path(__file__).parent / "decode.mjs"
MAXIMUM_TICKS = 50_000
BUTTONS = 0b10111

MALFORMED = [
    b"",
    b"SGR2\x01\x00\x01\x01\x00",
    b"SGR1",
    b"SGR1\x80",
    b"SGR1\xff\xff\xff\xff\xff\x01",
    b"SGR1\xff\xff\xff\xff\x1f\x00\x01\x01\x00",
    b"SGR1\x00\x00\x01\x01\x00",
    b"SGR1\xd1\x86\x03\x00\x01\xd1\x86\x03\x00",
    b"SGR1\x02\x00\x00",
    b"SGR1\x02\x00\x03\x01\x00\x01\x01\x01\x00",
    b"SGR1\x02\x00\x01\x82\x00\x00",
    b"SGR1\x82\x00\x00\x01\x02\x00",
    b"SGR1\x02\x00\x01\x02\xff\xff\xff\xff\x10",
    b"SGR1\x02\x00\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"SGR1\x02\x00\x02\x82\x00\xff\xff\xff\xff\x1f\x00\x01",
    b"SGR1\x02\x00\x02\x01\x00\x81\x80\x80\x80",
    b"SGR1\x02\x00\x01\x01\x00\x01\x01",
    b"SGR1\x02\x00\x02\x00\x00\x02\x01",
    b"SGR1\x02\x00\x01\x03\x00",
    b"SGR1\x02\x00\x02\x01\x07\x01\x07",
    b"SGR1\x02\x01\x01\x02\x00" + bytes(15),
    b"SGR1\x02\x00\x01\x02\x00\x00",
    b"SGR1\x02\x00\x01\x02\x00" + bytes(20),
    b"SGR1\xff\xff\xff\xff\x0f\x01\x01\x00",
]
"""Each rule of the format broken, some of them twice: then both name the same one."""


def said_by_javascript(recordings: Sequence[bytes]) -> list[dict[str, Any]]:
    node = shutil.which("node")
    if node is None:
        missing("node is not on PATH")
    lines = "\n".join(data.hex() for data in recordings)
    command = [node, str(SCRIPT), str(MODULE), str(MAXIMUM_TICKS), str(BUTTONS)]
    done = subprocess.run(command, input=lines + "\n", capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def said_by_the_judge(data: bytes) -> dict[str, Any]:
    try:
        recording = decode(data, maximum_ticks=MAXIMUM_TICKS)
    except RecordingError as error:
        return {"error": str(error)}
    every, hashes = recording.checkpoint_ticks, [f"{number:016x}" for number in recording.checkpoints]
    inputs = inputs_of(recording.inputs, BUTTONS)
    words = np.frombuffer(recording.inputs, "<u4")
    ends = [
        (button, [*button.toggles[1::2], recording.ticks][: button.presses.size]) for button in inputs.buttons
    ]
    starts = sorted(int(tick) for tick in inputs.presses)
    events = [
        (int(tick) + 1, button.bit, index % 2 == 0)
        for button in inputs.buttons
        for index, tick in enumerate(button.toggles)
    ]
    intervals = [float(gap) for button in inputs.buttons for gap in np.diff(button.presses)]
    return {
        "ticks": recording.ticks,
        "checkpoint_ticks": every,
        "inputs": recording.inputs.hex(),
        "checkpoints": [{"tick": at * every, "hash": text} for at, text in enumerate(hashes, 1)],
        "last_hash": hashes[-1] if hashes else None,
        "is_analog": inputs_of(recording.inputs, 2**32 - 1).is_analog,
        "presses": [
            [button.bit, [[int(a) + 1, int(b)] for a, b in zip(button.presses, end, strict=True)]]
            for button, end in ends
        ],
        "events": [list(event) for event in sorted(events)],
        "intervals_ms": intervals,
        "pace": [sum(start // 60 == at for start in starts) for at in range(-(-recording.ticks // 60))],
        "words": [0, *(int(words[tick - 1]) if tick <= words.size else 0 for tick in (1, 2, words.size)), 0],
        "histogram": [
            *(sum(2 * at <= gap < 2 * at + 2 for gap in intervals) for at in range(3)),
            sum(gap >= 6 for gap in intervals),
        ],
    }


def assert_alike(recordings: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return what both say."""
    ours = [said_by_the_judge(data) for data in recordings]
    for data, expected, actual in zip(recordings, ours, said_by_javascript(recordings), strict=True):
        if "error" in expected and "error" in actual:
            expected["error"], actual["error"] = map(
                _without_the_form_of_numbers, (expected["error"], actual["error"])
            )
        assert expected == actual, data.hex()
    return ours


def _without_the_form_of_numbers(error: str) -> str:
    return re.sub(r"holds \S+", "holds", error)


def mutations(whole: bytes, draw: random.Random) -> Iterator[bytes]:
    """Recordings with a few bytes changed, put in or taken out, and shortened ones."""
    for _ in range(60):
        mutated = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(min(len(mutated), 40) or 1)
            mutated[at : at + draw.randint(0, 2)] = draw.choice(
                [b"", b"\x00", b"\x80", b"\xff", draw.randbytes(2)]
            )
        yield bytes(mutated)
        yield whole[: draw.randrange(len(whole))]


def any_recording(draw: random.Random) -> bytes:
    words = draw.choice([range(4), range(2**32), range(120, 140)])
    runs = [(draw.choice([1, 2, 300]), draw.choice(words)) for _ in range(draw.randint(1, 90))]
    inputs = pack_inputs([word for length, word in runs for _ in range(length)])
    every = draw.choice([0, 1, 7, 60, 100_000])
    count = len(inputs) // 4 // every if every else 0
    return encode(inputs, [draw.randrange(2**64) for _ in range(count)], every)


def test_documented_recordings_are_read_alike():
    """The vectors for encoders, and the largest numbers of the format."""
    vectors = json.loads((ROOT / "clients" / "vectors" / "recordings.json").read_text())
    said = assert_alike([bytes.fromhex(vector["recording"]) for vector in vectors])
    assert ["error" in each for each in said] == [False] * len(vectors)
    assert [each["ticks"] for each in said] == [vector["ticks"] for vector in vectors]


def test_runs_of_players_are_read_alike():
    """Presses, releases, intervals and pace of whole runs of the arcade."""
    played = [play(arcade(), seed, 0.6, random.Random(seed)) for seed in (3, 5)]
    [first, second] = assert_alike([encode_recording(run.inputs, run.checkpoints, 60) for run in played])
    assert [run.ticks for run in played] == [first["ticks"], second["ticks"]]
    assert min(len(first["events"]), len(second["events"])) > 20


def test_malformed_recordings_are_refused_alike():
    """For the same reason in the same words; nothing is thrown, and no count is believed."""
    said = assert_alike(MALFORMED)
    assert all("error" in each for each in said)


@pytest.mark.parametrize("seed", seeds(12, ordinarily=2))
def test_any_recording_and_what_becomes_of_it_is_read_alike(seed: int):
    """Random recordings, changed and cut short: both take the same ones and name the same fault of the others."""
    draw = random.Random(seed)
    whole = [any_recording(draw) for _ in range(8)]
    said = assert_alike([*whole, *(each for one in whole for each in mutations(one, draw))])
    assert [] == [each["error"] for each in said[: len(whole)] if "error" in each]
    assert sum("error" in each for each in said) > 400


def test_numbers_are_told_from_buttons_alike():
    """A stick's words are numbers, a few combinations of buttons are not, and a board that names buttons has them."""
    for count, is_analog in ((64, False), (65, True)):
        words = [0, *range(1, count + 1)]
        [said] = assert_alike([encode(struct.pack(f"<{len(words)}I", *words), [], 0)])
        assert is_analog == said["is_analog"]
