"""Starting the parts as processes of their own, keeping them up, and ending them in order."""

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
"""A part's log is put aside at LOG_BYTES, as `<name>.log.1`; so many that were put aside are kept."""

_PR_SET_PDEATHSIG: Final = 1
_OURS: Final = ["-m", "scoregate"]
_TELLING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals by which we are told what to do."""


class PartFailed(ScoregateError):
    """A part did not start."""


@dataclass(slots=True)
class Part:
    """A running part, and how to start it again."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None
    process: subprocess.Popen[bytes]

    @property
    def is_ours(self) -> bool:
        """True for what runs one of our commands, False for Valkey."""
        return self.command[1:3] == _OURS


class Parts:
    """The processes of one machine. Started in order, ended in the opposite one."""

    def __init__(self, log_dir: Path | None) -> None:
        """`log_dir`: the folder of their logs; None where they print to our own standard output."""
        self._log_dir = log_dir
        self._parts: list[Part] = []
        if log_dir:
            log_dir.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts a part; what it prints goes to `<name>.log`, or where we print ourselves."""
        log = self._log_dir / f"{name}.log" if self._log_dir else None
        self._parts.append(Part(name, command, environment, log, _spawn(command, environment, log)))

    def await_ready(self, is_ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Returns once `is_ready`. Raises PartFailed if a part dies before, or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            self._check()
            if time.monotonic() > deadline:
                where = f"the logs in {self._log_dir}" if self._log_dir else "what it printed"
                raise PartFailed(f"{what} did not get ready within {timeout_s:g} s; see {where}")
            time.sleep(0.02)

    def revive(self) -> list[str]:
        """The names of parts that had died, now started again."""
        dead = [part for part in self._parts if part.process.poll() is not None]
        for part in dead:
            part.process = _spawn(part.command, part.environment, part.log)
        return [part.name for part in dead]

    def rotate_logs(self) -> None:
        """Puts logs aside that are long. Parts append to the file they have open, so it is emptied and not replaced."""
        for part in self._parts:
            if part.log and part.log.exists() and part.log.stat().st_size > LOG_BYTES:
                with suppress(OSError):  # a full disk: the next look tries again
                    _put_aside(part.log)

    def hang_up(self) -> None:
        """Has our own parts read their policies again; those that are not up do so when they start."""
        for part in self._parts:
            if part.is_ours and part.process.poll() is None:
                part.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """Asks each part to end, and makes it if it does not."""
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
                said = f":\n{_end_of(part.log)}" if part.log else ""
                raise PartFailed(f"{part.name} ended with status {part.process.returncode}{said}")


def python(*arguments: str) -> list[str]:
    """The command that runs one of our own commands in this installation."""
    return [sys.executable, *_OURS, *arguments]


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], log: Path | None
) -> subprocess.Popen[bytes]:
    with log.open("ab") if log else nullcontext() as output, _signals_held():
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output or subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C reaches us alone; we end the parts in order
            preexec_fn=_as_a_part,  # noqa: PLW1509 - the front door has one thread
        )


@contextmanager
def _signals_held() -> Iterator[None]:
    """Has signals wait for the end of the block: what a handler raises within a fork is swallowed by its hooks."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TELLING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _as_a_part() -> None:
    """Has Linux end this process when the one that started it is gone, even by SIGKILL; SIGHUP is for who is ready for it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TELLING)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _put_aside(log: Path) -> None:
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    shutil.copyfile(log, log.with_name(f"{log.name}.1"))
    os.truncate(log, 0)


def _end_of(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
