"""A worker that has to do without bubblewrap says so, or does not start, as its setting has it."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from gateway.deployment.run_files import FOLDER
from gateway.runtime.settings import Settings, load_settings
from policies.errors import SettingsError
from policies.loader import load_policies
from replay.simulators import bubblewrap
from replay.simulators.all_simulators import AllSimulators
from replay.simulators.bubblewrap import Probe
from replay.simulators.child_process import SandboxUnavailable
from replay.worker.process import run_worker, trouble_with_bubblewrap
from replay.worker.verifier import longest_s
from tests.support.boards import write_board
from tests.support.deployment import PATIENCE_S, deployed, eventually
from tests.support.programs import need_programs, request, serving
from tests.support.valkey import ValkeyServer

TROUBLE = "user namespaces are not allowed"


def write_programs(folder: Path) -> Path:
    """The folder, with a board of native programs in it."""
    folder.mkdir(exist_ok=True)
    write_board(folder, "native", serving(folder), replay={"simulator": "process", "maximum_ticks": 1000})
    return folder


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which bubblewrap may do nothing."""
    monkeypatch.setattr(bubblewrap, "probe", lambda: Probe(None, TROUBLE))


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    """A board of native programs."""
    return write_programs(tmp_path / "policies")


@pytest.mark.usefixtures("without")
def test_a_worker_that_needs_bubblewrap_does_not_start_without_it(boards: Path, tmp_path: Path):
    """Its message names the setting and the trouble, before anything is opened; nothing of it is left behind."""
    settings = Settings(policies_dir=boards, data_dir=tmp_path / "data", sandbox="bubblewrap")
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    try:
        with pytest.raises(SettingsError, match=f"SCOREGATE_SANDBOX: .*{TROUBLE}"):
            run_worker(settings)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [FOLDER] == [path.name for path in (tmp_path / "data").iterdir()]
    assert [] == list((tmp_path / "data" / FOLDER).iterdir())


@pytest.mark.usefixtures("without")
def test_boards_without_programs_need_none(boards: Path, tmp_path: Path):
    """Modules and plug-ins have sandboxes of their own."""
    write_board(tmp_path / "modules")
    found = [trouble_with_bubblewrap(load_policies(each)) for each in (tmp_path / "modules", boards)]
    assert ["", TROUBLE] == found


@pytest.mark.usefixtures("without")
def test_no_program_is_run_without_the_sandbox_that_is_asked_for(tmp_path: Path):
    """Nor after a reload has brought the first board of programs: that is a fault of ours, and comes again."""
    need_programs()
    asked = request(serving(tmp_path))
    with AllSimulators(needs_bubblewrap=True) as simulators, pytest.raises(SandboxUnavailable, match=TROUBLE):
        simulators.simulate(asked)


async def test_a_worker_says_at_its_start_that_it_has_no_bubblewrap(
    tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """One line with the reason, and it works; told to need it, it ends with one."""
    with deployed(tmp_path / "house", valkey) as house:
        write_programs(house.policies)
        monkeypatch.setenv("PATH", str(tmp_path))
        house.start("worker")
        await eventually(lambda: "no_bubblewrap" in house.log.read_text(), house.log)
        [line] = [line for line in house.log.read_text().splitlines() if "no_bubblewrap" in line]
        assert "there is no `bwrap` on the PATH" == json.loads(line)["trouble"]
        refused = house.start("worker", sandbox="bubblewrap")
        assert 2 == await asyncio.to_thread(refused.wait, PATIENCE_S)
    assert "SCOREGATE_SANDBOX: bubblewrap cannot be used here: there is no `bwrap`" in house.log.read_text()


def test_the_start_of_a_program_is_part_of_its_lease(boards: Path, tmp_path: Path):
    """Each run may have to start one, which has ten seconds for it; a module's process is there already."""
    write_board(tmp_path / "modules")
    assert [2, 20] == [longest_s(load_policies(each)) for each in (tmp_path / "modules", boards)]


def test_a_failed_probe_is_made_again(monkeypatch: pytest.MonkeyPatch):
    """A machine that was too busy once has its sandbox all the same; what fails twice is told."""
    answers = iter(
        [Probe(None, "too slow"), Probe("bubblewrap 1.0"), Probe(None, "no"), Probe(None, "never")]
    )
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: "/usr/bin/bwrap")
    monkeypatch.setattr(bubblewrap, "_try", lambda path: next(answers))

    assert Probe("bubblewrap 1.0") == bubblewrap.probe.__wrapped__()
    assert Probe(None, "never") == bubblewrap.probe.__wrapped__()


def test_a_probe_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """There is none, or it ends with a complaint."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Probe(None, "there is no `bwrap` on the PATH") == bubblewrap.probe.__wrapped__()
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho refused >&2\nexit 1\n")
    refusing.chmod(0o755)
    version, trouble = bubblewrap.probe.__wrapped__()
    assert (None, True) == (version, "refused" in trouble or "Permission denied" in trouble)


def test_the_setting_is_one_of_two(monkeypatch: pytest.MonkeyPatch):
    """Anything else is refused at start."""
    monkeypatch.setenv("SCOREGATE_SANDBOX", "bubblewrap")
    assert load_settings().needs_bubblewrap
    monkeypatch.setenv("SCOREGATE_SANDBOX", "none")
    with pytest.raises(SettingsError, match="SCOREGATE_SANDBOX"):
        load_settings()
