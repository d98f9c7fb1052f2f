"""Headless programs and plug-ins that play the tiny game of `tests.replay.games`, and others that do not."""

from __future__ import annotations

import hashlib
import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import WARM_RUNS, Budget
from policies.vocabulary import SimulatorKind
from replay.simulators import SimulationOutcome, SimulationRequest, SimulatorFault, bubblewrap
from replay.simulators.process import PATH
from tests.replay.games import END, MULTIPLIER, STATS
from tests.support.gate import missing

SEED = 2**64 - 12345
WORDS = [1, 2, 3, 4, 5, 6, 7] * 30 + [END]
BUDGET = Budget(memory_mib=64, wall_ms=20_000)
HURRIED = Budget(memory_mib=64, wall_ms=300)

GAME = f"""
def play(seed, words, checkpoint_ticks):
    state, score, largest, checkpoints, ticks = seed, 0, 0, [], 0
    for ticks, word in enumerate(words, 1):
        state = (state * {MULTIPLIER} + word) % 2**64
        score, largest = score + (word & 1), max(largest, word)
        if ticks % checkpoint_ticks == 0:
            checkpoints.append("%016x" % state)
        if word == {END}:
            break
    return dict(ticks=ticks, is_over=word == {END}, score=score, state_hash="%016x" % state,
                stats={{"{STATS[1]}": largest, "{STATS[0]}": score}}, checkpoints=checkpoints)
"""

PROGRAM = f"""#!/usr/bin/env python3
import base64, json, os, struct, sys, time
{GAME}
def honest(asked):
    inputs = base64.b64decode(asked["inputs"])
    words = struct.unpack("<%dI" % (len(inputs) // 4), inputs)
    return dict(play(int(asked["seed"]), words, asked["checkpoint_ticks"]), id=asked["id"])
def say(answer):
    print(json.dumps(dict(id=asked["id"]) | answer), flush=True)
def number(value):
    say(dict(honest(asked), score=value))
"""

SERVE = """
for line in sys.stdin:
    asked = json.loads(line)
    {body}
"""

PLUGIN = f"""
{GAME}
def simulate(seed, inputs, ticks, checkpoint_ticks, recording):
    return play(seed, inputs, checkpoint_ticks)
"""


def need_programs() -> None:
    """Programs of these tests are Python scripts, which need an interpreter that a sandbox can see."""
    if shutil.which("python3", path=PATH) is None:
        missing(f"no python3 in {PATH}")


def need_bubblewrap() -> None:
    """The sandbox of programs, on a system that has it."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap is Linux's")
    if bubblewrap.version() is None:
        missing("bubblewrap is not installed, or may not make namespaces")


def wordless(outcome: SimulationOutcome) -> SimulationOutcome:
    """The outcome without what a program itself said of it."""
    return replace(outcome, said="") if isinstance(outcome, SimulatorFault) else outcome


def write(directory: Path, text: str, name: str = "program") -> Simulator:
    """A simulator of this text."""
    path = directory / name
    path.write_text(text)
    return Simulator("sha256:" + hashlib.sha256(path.read_bytes()).hexdigest(), path)


def serving(directory: Path, body: str = "say(honest(asked))", before: str = "") -> Simulator:
    """A program that does `body` for every question, and `before` at its start."""
    text = (
        PROGRAM
        + textwrap.dedent(before)
        + SERVE.format(body=textwrap.indent(textwrap.dedent(body), "    ").strip())
    )
    return write(directory, text)


def request(
    simulator: Simulator,
    kind: SimulatorKind = SimulatorKind.PROCESS,
    words: list[int] = WORDS,
    budget: Budget = BUDGET,
    recording: bytes = b"as it was sent",
) -> SimulationRequest:
    """Return a request to play the words, or the game's own recording, with a checkpoint every 50 ticks."""
    inputs = b"".join(word.to_bytes(4, "little") for word in words)
    return SimulationRequest(
        simulator.path,
        simulator.digest,
        SEED,
        inputs,
        len(words) or 7,
        50,
        budget,
        kind,
        recording,
        simulator.files,
        STATS,
        WARM_RUNS,
    )
