"""Starts the parts as processes of their own, keeps them up, and ends them in order."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from policies.errors import ScoregateError

STOP_S: Final = 15.0
RESTART_PAUSE_S: Final = 1.0
LOG_BYTES: Final = 10 * 1024 * 1024
LOGS_KEPT: Final = 3
"""A log that reaches LOG_BYTES is put aside as `<name>.log.1`; this many older logs are kept."""

_PR_SET_PDEATHSIG: Final = 1
_OURS: Final = ["-m", "scoregate"]
_CONTROLLING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that control this process."""


class PartFailed(ScoregateError):
    """A part did not start."""


@dataclass(slots=True)
class PartProcess:
    """The process of a part, and how to start it again."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None
    process: subprocess.Popen[bytes]

    @property
    def is_ours(self) -> bool:
        """Return whether it runs one of our commands, and not Valkey."""
        return self.command[1:3] == _OURS


class Supervisor:
    """The processes of one machine, started in order and ended in the opposite order."""

    def __init__(self, log_dir: Path | None) -> None:
        """Take the folder of the logs; None lets the parts print to our standard output."""
        self._log_dir = log_dir
        self._parts: list[PartProcess] = []
        if log_dir:
            log_dir.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a part, whose output goes to `<name>.log` or to our own."""
        log = self._log_dir / f"{name}.log" if self._log_dir else None
        with _holding_signals():  # until the part is among those that `stop` ends
            self._parts.append(
                PartProcess(name, command, environment, log, _spawn(command, environment, log))
            )

    def await_ready(self, is_ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait until `is_ready()` is True. Raises PartFailed if a part dies first, or after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            self._check()
            if time.monotonic() > deadline:
                where = f"the logs in {self._log_dir}" if self._log_dir else "what it printed"
                raise PartFailed(f"{what} did not get ready within {timeout_s:g} s; see {where}")
            time.sleep(0.02)

    def revive(self) -> list[str]:
        """Start dead parts again, and return their names."""
        dead = [part for part in self._parts if part.process.poll() is not None]
        for part in dead:
            with _holding_signals():
                part.process = _spawn(part.command, part.environment, part.log)
        return [part.name for part in dead]

    def rotate_logs(self) -> None:
        """Put long logs aside."""
        for part in self._parts:
            if part.log and part.log.exists() and part.log.stat().st_size > LOG_BYTES:
                with suppress(OSError):  # such as a full disk: the next call tries again
                    _put_aside(part.log)

    def hang_up(self) -> None:
        """Have our own parts read their policies again. Others read them when they start."""
        for part in self._parts:
            if part.is_ours and part.process.poll() is None:
                part.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End each part with SIGTERM, and after STOP_S with SIGKILL."""
        for part in reversed(self._parts):
            if part.process.poll() is None:
                part.process.send_signal(signal.SIGTERM)
            try:
                part.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                part.process.kill()
                part.process.wait()

    def _check(self) -> None:
        for part in self._parts:
            if part.process.poll() is not None:
                output = f":\n{_end_of(part.log)}" if part.log else ""
                raise PartFailed(f"{part.name} ended with status {part.process.returncode}{output}")


def python(*arguments: str) -> list[str]:
    """Return the command line that runs one of our own commands in this installation."""
    return [sys.executable, *_OURS, *arguments]


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], log: Path | None
) -> subprocess.Popen[bytes]:
    with log.open("ab") if log else nullcontext() as output:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output or subprocess.STDOUT,
            start_new_session=True,  # so that Ctrl-C reaches only us, and we end the parts in order
            preexec_fn=_become_part,  # noqa: PLW1509 - the front door has one thread
        )


@contextmanager
def _holding_signals() -> Iterator[None]:
    """Hold signals until the end of the block.

    The hooks of a fork swallow what a handler raises. A handler that raised before the new process is kept
    would leave it running.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _CONTROLLING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become_part() -> None:
    """Prepare a new process: Linux ends it when its parent is gone, even by SIGKILL."""
    # A reload must not kill a part that has no handler yet.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CONTROLLING)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _put_aside(log: Path) -> None:
    """Copy a log and empty it: parts keep appending to the file that they have open."""
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)


def _end_of(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
