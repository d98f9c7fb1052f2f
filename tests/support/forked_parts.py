"""Parts that a supervisor forks instead of starting a Python for each, which would import everything again.

`FORK_PARTS` has a supervisor that `tests.support.preloaded` started do so. What it forks has its own session,
descriptors, environment and signals, and ends like any process.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from gateway.runtime import failpoints
from scoregate import cli, processes

FORK_PARTS: Final = "from tests.support.forked_parts import fork_parts\nfork_parts()"
"""What such a supervisor runs before anything else."""

_spawn = processes._spawn


class ForkedPart:
    """A child process, as far as a supervisor needs a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_parts() -> None:
    """Have the supervisors of this process fork their parts. Valkey is a program of its own."""
    if hasattr(os, "pidfd_open"):
        processes._spawn = _forked  # type: ignore[assignment]


def _forked(
    command: Sequence[str], environment: Mapping[str, str], log: Path | None, descriptors: Sequence[int]
) -> Any:
    if list(command[:3]) != processes.python():
        return _spawn(command, environment, log, descriptors)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        try:
            _become(environment, log, descriptors)
        except BaseException:  # noqa: BLE001 - nothing of the parent may run in its child
            traceback.print_exc()
            os._exit(1)
        _run(command[3:])
    return ForkedPart(pid)


def _become(environment: Mapping[str, str], log: Path | None, descriptors: Sequence[int]) -> None:
    atexit._clear()
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes._become_part()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if log:
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), 1)
        os.dup2(1, 2)
    first = 3
    for descriptor in (*sorted(descriptors), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.environ.clear()
    os.environ.update(environment)
    failpoints._armed.clear()
    failpoints._armed.update(failpoints._read(os.environ.get(failpoints.VARIABLE, "")))


def _run(words: Sequence[str]) -> NoReturn:
    sys.argv[:] = ["scoregate", *words]
    status: Any = 0
    try:
        cli.main()
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - as Python ends
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
