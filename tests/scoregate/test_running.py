"""`scoregate status` and `scoregate reload`, with two deployments beside each other on one machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.deployment import run_files
from gateway.deployment.policies_folder import noted_policies_folder
from gateway.deployment.run_files import FOLDER, hang_up, noted, running_parts
from gateway.runtime import forced_exit
from gateway.runtime.settings import Settings
from policies.loader import Policies
from scoregate.commands.steward import _do_rounds
from scoregate.parts import Signals
from tests.support import boards, preloaded
from tests.support.deployment import Deployment, deployed, ended, eventually
from tests.support.logs import lines_of, logged
from tests.support.valkey import running_valkey

PARTS = ["edge", "steward", "worker"]


def scoregate(deployment: Deployment, *words: str) -> subprocess.CompletedProcess[str]:
    """A finished call of the command, beside the parts of a deployment."""
    environment = {f"SCOREGATE_{name.upper()}": str(value) for name, value in deployment.settings.items()}
    return preloaded.finished(words, os.environ | environment)


def objects(told: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.stdout.splitlines()]


def parts_in(status: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [row for row in objects(status) if "part" in row]


def said(deployment: Deployment, event: str) -> int:
    return deployment.log.read_text().count(f'"{event}"')


async def test_N07_a_deployment_finds_its_own_parts_and_no_others(tmp_path: Path):
    """Status lists them with their processes and policies; reload reaches each of them, and none of the deployment beside."""
    with (
        running_valkey() as one_valkey,
        running_valkey() as other_valkey,
        deployed(tmp_path / "one", one_valkey, log_level="info") as one,
        deployed(tmp_path / "other", other_valkey, log_level="info") as other,
    ):
        processes = {part: one.start(part.replace("edge", "serve")) for part in PARTS}
        beside = other.start("serve")
        data = one.folder / "data"
        await eventually(lambda: len(running_parts(data)) == len(PARTS), one.log)
        await eventually(lambda: len(running_parts(other.folder / "data")) == 1, other.log)
        await eventually(lambda: said(one, "started") == 2, one.log)
        await one.is_answering()
        await other.is_answering()

        assert [one.policies, other.policies] == [
            noted_policies_folder(each.folder / "data") for each in (one, other)
        ]
        boards.write_board(one.policies, title="Changed")
        boards.write_board(other.policies, title="Changed too")
        reloaded = scoregate(one, "reload", "--json")
        assert [(part, processes[part].pid, "reloaded", ["tiny"], None) for part in PARTS] == [
            (each["part"], each["pid"], each["outcome"], each["changed"], each["refusal"])
            for each in objects(reloaded)
        ]
        digests = [each["policies"] for each in objects(reloaded)]
        assert (0, 1, len(PARTS)) == (reloaded.returncode, len(set(digests)), said(one, "policy_reloaded"))
        again = scoregate(one, "reload")
        assert (0, "no policy has changed") == (again.returncode, again.stdout.splitlines()[-1])
        assert 2 * len(PARTS) == said(one, "policy_reloaded")

        good = (one.policies / "tiny.yaml").read_text()
        (one.policies / "tiny.yaml").write_text(good.replace('"maximum_ticks"', '"maximal_ticks"'))
        refused = scoregate(one, "reload")
        assert (1, len(PARTS), len(PARTS)) == (
            refused.returncode,
            refused.stdout.count("refused"),
            said(one, "policy_refused"),
        )
        named = ", ".join(f"{part} {processes[part].pid}" for part in PARTS)
        assert refused.stderr.startswith(f"{named}: refused the files and kept the old policies:\n")
        assert 1 == refused.stderr.count("tiny.yaml:1: replay.maximal_ticks: unknown setting")
        (one.policies / "tiny.yaml").write_text(good)
        assert 0 == scoregate(one, "reload").returncode
        status = scoregate(one, "status", "--json")
        assert [(part, processes[part].pid) for part in PARTS] == [
            (each["part"], each["pid"]) for each in parts_in(status)
        ]
        assert {digests[0]} == {each["policies"] for each in parts_in(status)}
        assert "different policies" not in status.stderr
        assert [("edge", beside.pid)] == [
            (e["part"], e["pid"]) for e in parts_in(scoregate(other, "status", "--json"))
        ]
        assert (0, None) == (said(other, "policy_reloaded"), beside.poll())

        processes["worker"].kill()
        for part in PARTS:
            processes[part].send_signal(signal.SIGTERM)
            await ended(processes[part])
        gone = scoregate(one, "reload")
        assert (2, "") == (gone.returncode, gone.stdout)
        assert "runs on this machine" in gone.stderr
        assert [] == list((data / FOLDER).iterdir())


def test_N07_a_file_that_no_process_holds_is_never_believed(tmp_path: Path):
    """Though its number is that of a living process, nobody is signalled, and the file is taken away."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "lost+found").mkdir()  # as where a file system of its own is
    file = tmp_path / FOLDER / f"edge-{os.getpid()}-0"
    file.write_text('{"part": "edge", "since_ms": 0}')
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(file)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        [part] = running_parts(tmp_path)
        holder.kill()
        holder.wait()

    assert holder.pid == part.pid
    assert not hang_up(part)
    assert [] == running_parts(tmp_path)
    assert ["lost+found"] == [path.name for path in (tmp_path / FOLDER).iterdir()]


HOLDING = """
import fcntl, sys, time
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_N07_a_number_that_another_process_has_by_now_is_not_signalled(tmp_path: Path):
    """The part that was found has ended, and its number went to somebody else: only who holds the file is hung up on."""
    (tmp_path / FOLDER).mkdir()
    file = tmp_path / FOLDER / "edge-1-0"
    file.write_text('{"part": "edge", "since_ms": 0}')
    with (
        subprocess.Popen([sys.executable, "-c", HOLDING, str(file)], stdout=subprocess.PIPE) as holder,
        subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        ) as other,
    ):
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        [part] = running_parts(tmp_path)
        assert not hang_up(replace(part, pid=other.pid))
        assert not hang_up(replace(part, pid=0))
        assert hang_up(part)
        ends = (holder.wait(), other.communicate() and other.wait())
    assert (-signal.SIGHUP, 0) == ends


def test_N07_a_part_that_cannot_be_noted_runs_all_the_same(tmp_path: Path):
    """It is only not found by `status` and `reload`, which its log says; one that can be leaves nothing behind."""
    (tmp_path / FOLDER).write_text("in the way")
    with logged(run_files) as lines, noted(tmp_path, "edge"):
        [told] = lines_of(lines, "part_not_noted")
    assert ("edge", "warning") == (told["part"], told["log_level"])
    assert "File exists" in told["error"]
    other = tmp_path / "other"
    (other / FOLDER).mkdir(parents=True)
    (other / FOLDER / "edge-1-0").write_text('{"part": "edge", "since_ms": 0}')  # of a process that is gone
    with noted(other, "steward", "redis://:secret@a/0"):
        [file] = (other / FOLDER).iterdir()
        assert file.name.startswith(f"steward-{os.getpid()}-")
        facts = {"part": "steward", "since_ms": run_files.BEGAN_MS, "redis": "redis://***@a/0", "bind": None}
        assert facts == json.loads(file.read_text())
        assert 0o600 == file.stat().st_mode & 0o777
    assert [] == list((other / FOLDER).iterdir())
    with noted(tmp_path / "third", "edge"):
        assert 0o700 == (tmp_path / "third" / FOLDER).stat().st_mode & 0o777


async def test_a_steward_that_ends_makes_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Only changed policies need another one, which would say at every end that they were reloaded."""
    graces: list[tuple[float, str]] = []
    monkeypatch.setattr(forced_exit, "end_within", lambda *of: graces.append(of))
    signals, begun, made = Signals(), asyncio.Event(), []

    class Duties:
        catalogue = Catalogue(Policies({}))

        def under(self, policies: Policies) -> Duties:
            made.append(policies)
            return self

        async def run(self) -> None:
            begun.set()
            await asyncio.Event().wait()

    rounds = asyncio.create_task(
        _do_rounds(Duties(), Settings(data_dir=tmp_path, shutdown_grace_s=7), signals, print)
    )  # type: ignore[arg-type]
    await begun.wait()
    assert [] == graces
    signals.end()
    await asyncio.wait_for(rounds, 20)
    assert [] == made
    assert [(7.0, "steward")] == graces, "a duty that hangs would keep it from its end"
