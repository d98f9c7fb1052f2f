"""`scoregate reload` waits for the answer of each part, whatever becomes of the parts meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment import reload_answers
from gateway.deployment.reload_answers import (
    CHANGED_LIMIT,
    REFUSAL_LENGTH,
    PartReload,
    ReloadAnswer,
    ReloadOutcome,
    last_answer,
    reload_parts,
    teller,
)
from gateway.deployment.run_files import FOLDER, PartFile, RunningPart, noted, running_parts
from gateway.runtime.reload import Reload
from policies.loader import Policies
from scoregate.cli import app

PART = """
import fcntl, json, os, signal, sys, time

def held(name):
    unready = os.path.join(folder, "." + name + ".new")
    file = open(unready, "w+")
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(json.dumps({"part": "edge", "since_ms": 0}))
    file.flush()
    os.rename(unready, os.path.join(folder, name))
    return file

def note(name, began_ns, **facts):
    path = os.path.join(folder, "." + name)
    with open(path, "w") as file:
        json.dump({"began_ns": began_ns, "policies": "0" * 16, **facts}, file)
    os.replace(path, path + ".note")

def ends():
    sys.exit(0)

def is_silent():
    pass

def was_reading_already():
    note("edge-1", began_ns, changed=["early"])
    time.sleep(0.3)
    note("edge-1", time.monotonic_ns(), changed=["late"])

def refuses():
    note("edge-1", time.monotonic_ns(), refusal="tiny.yaml:1: unknown setting")

def has_a_successor():
    kept.append(held("edge-2"))
    note("edge-1", time.monotonic_ns())
    time.sleep(0.3)
    note("edge-2", time.monotonic_ns(), changed=["second"])

folder, behaviour = sys.argv[1:]
began_ns, kept = time.monotonic_ns(), [held("edge-1")]
note("edge-1", began_ns)
signal.signal(signal.SIGHUP, lambda *_: globals()[behaviour]())
print("held", flush=True)
while True:
    time.sleep(600)
"""

LONG_S = 60.0


@contextmanager
def part_that(behaviour: str, folder: Path) -> Iterator[int]:
    """A process that is noted as an edge, and behaves so at a SIGHUP."""
    (folder / FOLDER).mkdir()
    command = [sys.executable, "-c", PART, str(folder / FOLDER), behaviour]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert b"held\n" == process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def outcomes(reloads: Sequence[PartReload]) -> list[tuple[ReloadOutcome, tuple[str, ...], str | None]]:
    return [
        (each.outcome, each.answer.changed if each.answer else (), each.answer and each.answer.refusal)
        for each in reloads
    ]


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("ends", [(ReloadOutcome.ENDED, (), None)]),
        ("was_reading_already", [(ReloadOutcome.RELOADED, ("late",), None)]),
        ("refuses", [(ReloadOutcome.REFUSED, (), "tiny.yaml:1: unknown setting")]),
        (
            "has_a_successor",
            [(ReloadOutcome.RELOADED, (), None), (ReloadOutcome.RELOADED, ("second",), None)],
        ),
    ],
)
def test_NR_a_reload_ends_when_each_part_has_answered_or_ended(
    tmp_path: Path, behaviour: str, expected: list[object]
):
    """A reading that began before the files were in place is no answer; a part that starts meanwhile has to give one."""
    with part_that(behaviour, tmp_path):
        assert expected == outcomes(reload_parts(tmp_path, wait_s=LONG_S))


def test_NR_a_part_that_does_not_answer_is_waited_for_no_longer_than_is_said(tmp_path: Path):
    """The note of its start is no answer. A part in another container gets no signal, and is not waited for."""
    with part_that("is_silent", tmp_path):
        [reload] = reload_parts(tmp_path, wait_s=0.2)
    assert (ReloadOutcome.SILENT, None) == (reload.outcome, reload.answer)


def test_NR_a_part_notes_the_first_names_and_the_beginning_of_a_refusal(tmp_path: Path):
    """In the order of the names, and not without end: each note is read by whoever asks for the state of the parts."""
    tell = teller(PartFile("edge", tmp_path / "edge"), Catalogue(Policies({})))
    names = [f"b{number:03}" for number in range(2 * CHANGED_LIMIT)]
    refusal = "wrong" * REFUSAL_LENGTH
    tell(Reload(7, None, dict.fromkeys(reversed(names), "sha256:a"), refusal))
    answer = last_answer(RunningPart("edge", 0, 0, tmp_path / "edge"))
    assert answer is not None
    assert (7, tuple(names[:CHANGED_LIMIT])) == (answer.began_ns, answer.changed)
    assert refusal[:REFUSAL_LENGTH] == answer.refusal


def test_NR_a_part_in_another_container_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No signal reaches it, though its file is in the same folder."""
    there = RunningPart("edge", 0, 0, tmp_path / FOLDER / "edge-1")
    monkeypatch.setattr(reload_answers, "running_parts", lambda _: [there])
    assert [(ReloadOutcome.ELSEWHERE, (), None)] == outcomes(reload_parts(tmp_path, wait_s=LONG_S))


def test_NR_a_note_goes_with_its_part(tmp_path: Path):
    """What a dead part had to say is taken away with its file, and what nobody understands is no answer."""
    with part_that("is_silent", tmp_path):
        [part] = running_parts(tmp_path)
        assert last_answer(part) is not None
        (tmp_path / FOLDER / ".edge-1.note").write_text('{"of": "another version"}')
        assert last_answer(part) is None
    assert ([], []) == (running_parts(tmp_path), list((tmp_path / FOLDER).iterdir()))
    with noted(tmp_path, "edge") as part_file:
        part_file.put_note(b"{}")
        assert 2 == len(list((tmp_path / FOLDER).iterdir()))
    assert [] == list((tmp_path / FOLDER).iterdir())


OF_EDGE = PartReload(
    RunningPart("edge", 11, 0, Path("edge-11")),
    ReloadOutcome.RELOADED,
    ReloadAnswer(began_ns=1, policies="a" * 16, changed=("track", "daily")),
)
OF_WORKER = replace(OF_EDGE, part=RunningPart("worker", 12, 0, Path("worker-12")))
OTHERS = replace(OF_WORKER, answer=ReloadAnswer(began_ns=1, policies="b" * 16))


@pytest.mark.parametrize(
    ("second", "status", "said"),
    [
        (OF_WORKER, 0, ""),
        (
            replace(OF_WORKER, outcome=ReloadOutcome.SILENT, answer=None),
            1,
            "worker 12: did not answer within 30 s",
        ),
        (
            replace(OF_WORKER, outcome=ReloadOutcome.ENDED, answer=None),
            1,
            "worker 12: ended before it answered",
        ),
        (
            replace(OF_WORKER, outcome=ReloadOutcome.ELSEWHERE, answer=None),
            2,
            "1 more run in other containers",
        ),
        (OTHERS, 1, "the parts go by different policies"),
    ],
)
def test_NR_reload_says_what_became_of_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: PartReload, status: int, said: str
):
    """In its table, with what has changed, and in its status; what is wrong is on standard error."""
    monkeypatch.setattr(reload_answers, "reload_parts", lambda _: [OF_EDGE, second])
    answer = CliRunner().invoke(app, ["reload", "--data-dir", str(tmp_path)])
    lines = answer.stdout.splitlines()
    assert ["edge", "11", "reloaded"] == lines[1].split()
    assert ["worker", "12", str(second.outcome)] == lines[2].split()
    assert "changed: daily, track" == lines[3]
    assert (status, said) == (answer.exit_code, answer.stderr[: len(said)])
    assert bool(said) == bool(answer.stderr)
    programs = CliRunner().invoke(app, ["reload", "--json", "--data-dir", str(tmp_path)])
    assert (status, answer.stderr) == (programs.exit_code, programs.stderr)
    assert [("edge", 11), ("worker", 12)] == [
        (row["part"], row["pid"]) for row in map(json.loads, programs.stdout.splitlines())
    ]
