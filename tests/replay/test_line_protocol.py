"""What a program answers is a simulation of exactly the expected shape, or it is a fault of the program."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.vocabulary import Reason
from replay.simulators import MalformedRecording, Simulation, SimulatorFault
from replay.simulators.line_protocol import (
    ANSWER_BYTES,
    CHECKPOINT_BYTES,
    BrokenProtocolRule,
    ProtocolRule,
    answer_limit,
    meaning,
    question,
)
from tests.support.programs import SEED, WORDS, request

ASKED = request(Simulator("sha256:" + "a" * 64, Path("/nowhere")), words=WORDS[:100])
RAW = request(Simulator("sha256:" + "a" * 64, Path("/nowhere")), words=[], recording=b"DEMO\x00")
HASHES = ["0" * 15 + "1", "f" * 16]
NUMBER = 3
HONEST = {
    "id": NUMBER,
    "ticks": 100,
    "is_over": True,
    "score": -5,
    "state_hash": "00000000000000ff",
    "stats": {"largest_word": 7, "scoring_ticks": 4},
    "checkpoints": HASHES,
}


def line(**changes: object) -> bytes:
    return json.dumps(
        {name: value for name, value in {**HONEST, **changes}.items() if value is not ...}
    ).encode()


def test_the_question_is_version_1() -> None:
    """One line; the seed as decimal text, which no JSON reader rounds; what is binary in base64."""
    asked = question(ASKED, NUMBER)
    assert (1, b"\n") == (asked.count(b"\n"), asked[-1:])
    document = json.loads(asked)
    assert (1, NUMBER, str(SEED), 100, 50) == tuple(
        document[name] for name in ("version", "id", "seed", "ticks", "checkpoint_ticks")
    )
    assert document["inputs"].startswith("AQAAAAIAAAADAAAA")
    assert "YXMgaXQgd2FzIHNlbnQ=" == document["recording"]
    raw = json.loads(question(RAW, NUMBER))
    assert (None, "REVNTwA=") == (raw["inputs"], raw["recording"])


def test_an_answer_is_read_whole() -> None:
    """Statistics come in the order of the policy, hashes as numbers."""
    assert Simulation(100, True, -5, 255, (4, 7), (1, 2**64 - 1), 0) == meaning(line(), ASKED, NUMBER)


def test_what_is_optional() -> None:
    """Without a hash it is 0; a recording of the game's own has no checkpoints to be compared."""
    found = meaning(line(state_hash=..., checkpoints=..., ticks=5000), RAW, NUMBER)
    assert Simulation(5000, True, -5, 0, (4, 7), (), 0) == found
    assert () == meaning(line(checkpoints=HASHES), RAW, NUMBER).checkpoints


def test_a_program_can_say_that_it_could_not() -> None:
    """Its words are shortened and printable, and belong to whoever tries it out."""
    assert SimulatorFault(Reason.SIMULATOR_TRAPPED, said="no map E9M9[2J") == meaning(
        b'{"id": 3, "fault": "no map\\n E9M9\\u001b[2J"}'.replace(b"\\n", b""), ASKED, NUMBER
    )
    assert 200 == len(meaning(json.dumps({"id": 3, "fault": "x" * 300}).encode(), ASKED, NUMBER).said)


def test_a_program_can_say_that_it_is_no_recording() -> None:
    """That is an answer, and no fault."""
    assert MalformedRecording() == meaning(b'{"id": 3, "malformed": true}', RAW, NUMBER)


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (b"", ProtocolRule.STRICT_JSON),
        (b"null", ProtocolRule.STRICT_JSON),
        (b"[1]", ProtocolRule.STRICT_JSON),
        (b"VERIFIED", ProtocolRule.STRICT_JSON),
        (line()[:-1], ProtocolRule.STRICT_JSON),
        (line() + line(), ProtocolRule.STRICT_JSON),
        (b"\xff" + line(), ProtocolRule.STRICT_JSON),
        (line().replace(b"-5", b"NaN"), ProtocolRule.STRICT_JSON),
        (line().replace(b"-5", b"-Infinity"), ProtocolRule.STRICT_JSON),
        (line().replace(b"-5", b"5.0"), ProtocolRule.STRICT_JSON),
        (line().replace(b"-5", b"5e3"), ProtocolRule.STRICT_JSON),
        (line().replace(b"-5", b"9" * 5000), ProtocolRule.STRICT_JSON),
        (line().replace(b'"score"', b'"ticks"'), ProtocolRule.STRICT_JSON),
        (line().replace(b'"largest_word"', b'"scoring_ticks"'), ProtocolRule.STRICT_JSON),
        (b"[" * 10_000, ProtocolRule.STRICT_JSON),
        (line(extra=1), ProtocolRule.FIELDS),
        (line(score=...), ProtocolRule.FIELDS),
        (line(is_over=...), ProtocolRule.FIELDS),
        (line(stats=...), ProtocolRule.FIELDS),
        (line(score=True), ProtocolRule.FIELDS),
        (line(score="5"), ProtocolRule.FIELDS),
        (line(score=None), ProtocolRule.FIELDS),
        (line(score=2**63), ProtocolRule.FIELDS),
        (line(score=-(2**63) - 1), ProtocolRule.FIELDS),
        (line(is_over=1), ProtocolRule.FIELDS),
        (line(ticks=-1), ProtocolRule.FIELDS),
        (line(ticks=2**32), ProtocolRule.FIELDS),
        (line(state_hash="0xff"), ProtocolRule.FIELDS),
        (line(state_hash="F" * 16), ProtocolRule.FIELDS),
        (line(state_hash=255), ProtocolRule.FIELDS),
        (line(stats=[4, 7]), ProtocolRule.FIELDS),
        (line(stats={"largest_word": 7, "scoring_ticks": "4"}), ProtocolRule.FIELDS),
        (line(checkpoints={}), ProtocolRule.FIELDS),
        (line(checkpoints=["0" * 15, "0" * 16]), ProtocolRule.FIELDS),
        (line(fault="none"), ProtocolRule.FIELDS),
        (b'{"id": 3, "fault": 3}', ProtocolRule.FIELDS),
        (b'{"id": 3, "malformed": false}', ProtocolRule.FIELDS),
        (b'{"id": 3, "malformed": true, "score": 5}', ProtocolRule.FIELDS),
        (b'{"malformed": true}', ProtocolRule.FIELDS),
        (b'{"id": 2, "malformed": true}', ProtocolRule.ANOTHER_QUESTION),
        (b'{"id": 2, "fault": "no map"}', ProtocolRule.ANOTHER_QUESTION),
        (line(id=2), ProtocolRule.ANOTHER_QUESTION),
        (line(id=...), ProtocolRule.FIELDS),
        (line(id=True), ProtocolRule.FIELDS),
        (line(id="3"), ProtocolRule.FIELDS),
        (line(ticks=101), ProtocolRule.TICKS),
        (line(stats={}), ProtocolRule.STATS),
        (line(stats={"largest_word": 7}), ProtocolRule.STATS),
        (line(stats={"largest_word": 7, "scoring_ticks": 4, "kills": 1}), ProtocolRule.STATS),
        (line(checkpoints=...), ProtocolRule.CHECKPOINTS),
        (line(checkpoints=HASHES[:1]), ProtocolRule.CHECKPOINTS),
        (line(checkpoints=[*HASHES, HASHES[0]]), ProtocolRule.CHECKPOINTS),
        (line(ticks=99), ProtocolRule.CHECKPOINTS),
    ],
)
def test_whatever_else_it_says_breaks_a_rule(answer: bytes, rule: ProtocolRule) -> None:
    """A simulator that lies about the shape of things is no evidence against anybody."""
    with pytest.raises(BrokenProtocolRule) as raised:
        meaning(answer, ASKED, NUMBER)
    assert rule is raised.value.rule
    assert SimulatorFault(Reason.SIMULATOR_UNUSABLE, {"broken_rule": rule}) == raised.value.as_fault()


def test_an_honest_answer_fits_its_limit() -> None:
    """The longest names and numbers, and every checkpoint, are well within."""
    stats = {f"{number:032d}": -(2**63) for number in range(16)}
    honest = line(stats=stats, checkpoints=["f" * 16] * 2, score=-(2**63))
    assert len(honest) < answer_limit(ASKED) / 8


def test_an_answer_has_room_for_each_of_its_checkpoints_and_no_more():
    """However many ticks a run has, a program cannot fill memory beyond what an answer to it may say."""
    for ticks, checkpoint_ticks, checkpoints in (
        (100, 50, 2),
        (10**6, 10**5, 10),
        (10**6, 0, 0),
        (49, 50, 0),
    ):
        asked = replace(ASKED, ticks=ticks, checkpoint_ticks=checkpoint_ticks)
        assert ANSWER_BYTES + checkpoints * CHECKPOINT_BYTES == answer_limit(asked)
