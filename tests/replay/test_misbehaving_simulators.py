"""Whatever a simulator does but answer the question, once and in time, is inconclusive: no player is called a cheat for it.

Each lies about the score in whatever way it answers, so that an answer that is taken by mistake is a mismatch.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.loader import Simulator
from policies.replaying import Budget, Replay
from policies.vocabulary import Claim, Reason, VerdictKind
from replay.simulators import Simulators
from replay.simulators.plugin import PluginSimulators
from replay.simulators.process import ProcessSimulators
from replay.verify import verify
from tests.replay.games import STATS, play
from tests.support.programs import PLUGIN, SEED, WORDS, need_programs, serving, write

PLAY = play(WORDS, SEED, 50)
CLAIM = Claim(PLAY.score, PLAY.ticks, PLAY.stats)
BUDGET = Budget(memory_mib=64, wall_ms=3000)
UNUSABLE, TRAPPED, LATE = Reason.SIMULATOR_UNUSABLE, Reason.SIMULATOR_TRAPPED, Reason.TIMED_OUT

GUESSES = range(5)
LIE = f'{{"id": %d, "ticks": 1, "is_over": true, "score": 99, "stats": {{"{STATS[0]}": 1, "{STATS[1]}": 1}}, "checkpoints": []}}'
"""An answer in which nothing is wrong but its number."""


@pytest.fixture(scope="module")
def programs() -> Iterator[ProcessSimulators]:
    need_programs()
    with ProcessSimulators(is_alone=True, start_wall_ms=2000) as simulators:
        yield simulators


@pytest.fixture(scope="module")
def plugins() -> Iterator[PluginSimulators]:
    with PluginSimulators() as simulators:
        yield simulators


def judged(simulator: Simulator, kind: str, simulators: Simulators) -> tuple[VerdictKind, Reason]:
    replay = Replay(simulator=kind, maximum_ticks=1000, checkpoint_ticks=50, stats=STATS, budget=BUDGET)
    verdict = verify(CLAIM, PLAY.recording, SEED, replay, simulator, simulators)
    return verdict.kind, verdict.reason


@pytest.mark.parametrize("number", GUESSES)
def test_F14_an_early_answer_convicts_nobody_whatever_its_number(
    programs: ProcessSimulators, plugins: PluginSimulators, tmp_path: Path, number: int
):
    """A whole answer to a question that nobody asked yet, and nothing after it: its number cannot be guessed."""
    early = f"print({LIE % number!r}, flush=True)\nwhile True: time.sleep(600)"
    program = serving(tmp_path, before=early)
    assert (VerdictKind.INCONCLUSIVE, UNUSABLE) == judged(program, "process", programs)
    assert (VerdictKind.INCONCLUSIVE, UNUSABLE) == judged(
        plugin(tmp_path, written(LIE % number)), "plugin", plugins
    )


PROGRAMS = {
    "two answers": ("lie = json.dumps(lie); print(lie + '\\n' + lie, flush=True)", UNUSABLE),
    "another question's answer": ("say(dict(lie, id=asked['id'] ^ 1))", UNUSABLE),
    "half a line": ("sys.stdout.write(json.dumps(lie)); sys.exit(0)", TRAPPED),
    "a number as text": ("say(dict(lie, score='7'))", UNUSABLE),
    "a fraction": ("say(dict(lie, score=7.0))", UNUSABLE),
    "its question's number as text": ("say(dict(lie, id=str(asked['id'])))", UNUSABLE),
    "a field too many": ("say(dict(lie, rank=1))", UNUSABLE),
    "something before it": ("print('score: 7\\n' + json.dumps(lie), flush=True)", UNUSABLE),
    "too much": ("print(' ' * 10**6 + json.dumps(lie), flush=True)", UNUSABLE),
    "an end instead": ("os._exit(0)", TRAPPED),
    "a late answer": ("time.sleep(6); say(lie)", LATE),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_F14_a_program_that_does_not_answer_the_question_convicts_nobody(
    programs: ProcessSimulators, tmp_path: Path, name: str
):
    """Each way of it has a reason of ours."""
    body, reason = PROGRAMS[name]
    program = serving(tmp_path, f"lie = dict(honest(asked), score=99)\n{body}")
    assert (VerdictKind.INCONCLUSIVE, reason) == judged(program, "process", programs)


PLUGINS = {
    "a line of its own and its answer": ("WRITE\nreturn lie", UNUSABLE),
    "half a line, and an end": ("WRITE_HALF\nraise SystemExit", TRAPPED),
    "a number as text": ("return dict(lie, score='7')", UNUSABLE),
    "a fraction": ("return dict(lie, score=7.0)", UNUSABLE),
    "a field too many": ("return dict(lie, rank=1)", UNUSABLE),
    "no object": ("return [lie]", UNUSABLE),
    "an exception": ("raise ArithmeticError", TRAPPED),
    "no answer": ("while True: pass", LATE),
}


@pytest.mark.parametrize("name", PLUGINS)
def test_F14_a_plugin_that_does_not_answer_the_question_convicts_nobody(
    plugins: PluginSimulators, tmp_path: Path, name: str
):
    """Each way of it has a reason of ours, though it finds the pipe to its parent."""
    body, reason = PLUGINS[name]
    body = body.replace("WRITE_HALF", written(LIE[:20] % 1, end="")).replace("WRITE", written(LIE % 1))
    found = plugin(tmp_path, f"lie = dict(play(seed, inputs, 50), score=99)\n{body}")
    assert (VerdictKind.INCONCLUSIVE, reason) == judged(found, "plugin", plugins)


def plugin(folder: Path, body: str) -> Simulator:
    inside = textwrap.indent(body, "    ")
    return write(folder, PLUGIN.replace("    return play(", f"{inside}\n    return play("), "plugin.py")


def written(line: str, end: str = "\n") -> str:
    """What writes a line to every file that the process has open, of which one is the pipe to its parent."""
    return textwrap.dedent(f"""\
        import os
        for number in range(3, 16):
            try:
                os.write(number, {(line + end).encode()!r})
            except OSError:
                pass""")
