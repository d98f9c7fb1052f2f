"""The supervisor of the parts on one machine."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.runtime.settings import Settings
from scoregate import edges, processes
from scoregate.parts import Signals
from scoregate.processes import STOP_S, PartFailed, Supervisor, obeying_signals
from scoregate.shared_address import sharing

SLEEPING = [sys.executable, "-c", "import time; time.sleep(600)"]


class Ended(Exception):
    """Raised by the handler of a signal."""


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A supervisor, in a process that gets SIGTERM as soon as a part has started."""
    real = subprocess.Popen

    def popen(*arguments, **options):
        process = real(*arguments, **options)
        # To this thread: another test's may be left, and it would take a signal to the whole process.
        signal.raise_signal(signal.SIGTERM)
        return process

    def end(*_):
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    supervisor = Supervisor(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", popen)
    yield supervisor
    supervisor.stop()
    signal.signal(signal.SIGTERM, before)


def test_a_part_that_starts_as_the_end_comes_is_ended_too(supervisor: Supervisor):
    """A signal between the start of a process and its note leaves no process without an owner."""
    with pytest.raises(Ended):
        supervisor.start("sleeper", SLEEPING, os.environ)
    [part] = supervisor._parts
    supervisor.stop()
    assert part.process.returncode is not None


def test_a_part_that_is_revived_as_the_end_comes_is_ended_too(supervisor: Supervisor):
    """So does a signal in the middle of a restart."""
    with pytest.raises(Ended):
        supervisor.start("sleeper", SLEEPING, os.environ)
    [part] = supervisor._parts
    part.process.kill()
    first = part.process
    first.wait()
    with pytest.raises(Ended):
        supervisor.revive()
    assert part.process is not first
    supervisor.stop()
    assert part.process.returncode is not None


def test_a_supervisor_ends_though_what_a_handler_raised_was_swallowed(tmp_path: Path):
    """As in a hook of a fork: it looks itself whether it was told to end, and a second signal only hurries."""
    told = Supervisor(tmp_path)
    with obeying_signals(told):
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            told.keep_up()
    assert 0 == ended.value.code


def test_a_supervisor_that_was_started_in_the_background_ignores_ctrl_c(tmp_path: Path):
    """As its shell has it, and after it as before."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with obeying_signals(Supervisor(tmp_path)):
            signal.raise_signal(signal.SIGINT)
        assert signal.SIG_IGN == signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_reload_does_not_end_a_part_that_has_no_handler_yet(tmp_path: Path):
    """SIGHUP is ignored from the first moment of a new process on."""
    supervisor = Supervisor(tmp_path)
    hung_up = "import os, signal; os.kill(os.getpid(), signal.SIGHUP)"
    supervisor.start("starting", [sys.executable, "-S", "-c", hung_up], os.environ)
    [part] = supervisor._parts
    assert 0 == part.process.wait()
    supervisor.stop()


def test_a_start_that_takes_too_long_says_what_it_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The edge that runs and does not listen is named with its address."""
    monkeypatch.setattr(edges, "python", lambda *_: SLEEPING)
    monkeypatch.setattr(edges, "START_S", 0.05)
    silent = Supervisor(tmp_path)
    try:
        with sharing("127.0.0.1:0", 1) as address, pytest.raises(PartFailed) as failed:
            edges.start_edges(silent, Settings(), address, 1, os.environ)
    finally:
        silent.stop()
    assert f"waited 0.05 s for the edge to listen on {address.bind}; it runs" in str(failed.value)


def test_a_part_that_does_not_start_says_what_this_start_printed(tmp_path: Path):
    """Not what an earlier start left in the same log, which is kept."""
    (tmp_path / "edge.log").write_text("an earlier fault\n")
    failing = Supervisor(tmp_path)
    failing.start("edge", [sys.executable, "-c", "raise SystemExit('the real fault')"], os.environ)
    with pytest.raises(PartFailed) as failed:
        failing.await_ready(lambda: False, 60, "the edge")
    assert "edge ended with status 1:\nthe real fault" == str(failed.value)
    assert "an earlier fault\nthe real fault\n" == (tmp_path / "edge.log").read_text()


def test_a_full_disk_leaves_a_long_log_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The parts run on, and the log is put aside once there is room."""
    monkeypatch.setattr(processes, "LOG_BYTES", 3)
    supervisor = Supervisor(tmp_path)
    supervisor.start("talker", [sys.executable, "-S", "-c", "print('long')"], os.environ)
    [part] = supervisor._parts
    part.process.wait()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        supervisor.rotate_logs()
    assert "long\n" == (tmp_path / "talker.log").read_text()
    supervisor.rotate_logs()
    assert ["", "long\n"] == [(tmp_path / name).read_text() for name in ("talker.log", "talker.log.1")]


def test_parts_are_kept_up_though_nobody_reads_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever `up` printed to may be gone, such as a terminal or a pipe, and its parts are not."""
    supervisor = Supervisor(tmp_path)
    said: list[bytes] = []

    def gone(descriptor: int, text: bytes) -> int:
        assert 1 == descriptor
        said.append(text)
        supervisor.is_ending = True
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", gone)
    supervisor.start("short", [sys.executable, "-S", "-c", ""], os.environ)
    with pytest.raises(SystemExit) as ended:
        supervisor.keep_up()
    monkeypatch.undo()
    supervisor.stop()
    assert (0, [b"short had ended; it was started again\n"]) == (ended.value.code, said)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has descriptors of processes")
def test_a_supervisor_that_waits_keeps_no_descriptors(tmp_path: Path):
    """It waits for months, once a second."""
    supervisor = Supervisor(tmp_path)
    supervisor.start("sleeper", SLEEPING, os.environ)

    def of_processes() -> int:
        found = 0
        for path in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # that of the look itself
                found += path.readlink() == Path("anon_inode:[pidfd]")
        return found

    try:
        before = of_processes()
        for _ in range(3):
            supervisor._await_end(0.0)
        assert before == of_processes()
    finally:
        supervisor.stop()


def test_each_edge_has_a_port_of_its_own_for_metrics():
    """Those after the configured one, in their order, at the same address; without one there is none to share."""
    settings = Settings(metrics_bind="[::1]:9100")
    assert ["[::1]:9100", "[::1]:9102"] == [
        edges.metrics_bind_of(settings, place)["SCOREGATE_METRICS_BIND"] for place in (0, 2)
    ]
    assert {} == edges.metrics_bind_of(Settings(), 1)
    assert (["edge"], ["edge-1", "edge-2"]) == (edges.names_of("edge", 1), edges.names_of("edge", 2))


def test_a_part_is_given_the_time_that_its_settings_let_it_take():
    """Whoever lets requests end for a minute does not have them cut off after a quarter of it."""
    slow = Settings(shutdown_pause_s=20, shutdown_grace_s=40)
    quick = Settings(shutdown_pause_s=0, shutdown_grace_s=1)
    assert [60 + edges.SPARE_S, STOP_S] == [edges.stop_s_of(each) for each in (slow, quick)]


def test_a_second_signal_skips_the_pause_and_a_third_changes_nothing():
    """The first one stops in order; none of them reads the policies again."""
    signals, seen = Signals(), []
    for _ in range(3):
        signals.end()
        seen.append((signals.stop.is_set(), signals.hurry.is_set()))
    assert [(True, False), (True, True), (True, True)] == seen
    assert not signals.reload.is_set()
