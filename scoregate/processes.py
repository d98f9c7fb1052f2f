"""Starts the parts as processes of their own, keeps them up, and ends them in order."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from gateway.runtime.reload import is_terminal_gone
from policies.errors import ScoregateError
from scoregate.shared_address import SharedAddress, are_listening

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
    """The process of a part, and how to start it again.

    A part that listens inherits its sockets, and this process keeps a copy of them.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None
    address: SharedAddress | None
    inherited: Sequence[int] = ()
    """Descriptors that it keeps open besides those of its sockets."""
    process: subprocess.Popen[bytes] = field(init=False)
    sockets: Sequence[socket.socket] = ()
    ended_s: float | None = None
    log_begin: int = 0
    """Length of the log when the process started, in bytes: what is before is of other processes."""

    @property
    def is_ours(self) -> bool:
        """Return whether it runs one of our commands, and not Valkey."""
        return self.command[1:3] == _OURS

    @property
    def kind(self) -> str:
        """Return what several parts of a kind have in common: `worker` of `worker-2`."""
        return self.name.partition("-")[0]

    def spawn(self) -> None:
        """Start a process. Raises OSError."""
        if self.address and not self.sockets:
            self.sockets = self.address.sockets()
        descriptors = [each.fileno() for each in self.sockets]
        words = [word for number in descriptors for word in ("--fd", str(number))]
        self.log_begin = self.log.stat().st_size if self.log and self.log.exists() else 0
        kept = [*descriptors, *self.inherited]
        self.process = _spawn([*self.command, *words], self.environment, self.log, kept)
        self.ended_s = None

    def let_go(self) -> None:
        """Close the copies of its sockets: once the process is gone too, nobody listens on them."""
        for copy in self.sockets:
            copy.close()
        self.sockets = ()

    def note_end(self) -> None:
        """Note when the process has ended.

        If it ended in order, connections wait on its sockets for the next process. After a crash, the other
        edges should have them at once: the next process may crash too.
        """
        if self.ended_s is None and self.process.poll() is not None:
            self.ended_s = time.monotonic()
            if self.process.returncode:
                self.let_go()

    def restart_at_s(self, pause_s: float) -> float:
        """Return when it may be started again (monotonic seconds); after an orderly end, at once."""
        assert self.ended_s is not None
        return self.ended_s + (pause_s if self.process.returncode else 0.0)


class Supervisor:
    """The processes of one machine, started in order and ended in the opposite order."""

    def __init__(self, log_dir: Path | None, stop_s: float = STOP_S) -> None:
        """Take the folder of the logs; None lets the parts print to our standard output."""
        self._log_dir = log_dir
        self._stop_s = stop_s
        self._parts: list[PartProcess] = []
        self.is_ending = False
        if log_dir:
            log_dir.mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        address: SharedAddress | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Start a part, whose output goes to `<name>.log` or to our own.

        It may listen at an address, and inherit open descriptors.
        """
        log = self._log_dir / f"{name}.log" if self._log_dir else None
        part = PartProcess(name, command, environment, log, address, inherited)
        with holding_signals():  # until the part is among those that `stop` ends
            part.spawn()
            self._parts.append(part)

    def are_listening(self) -> bool:
        """Return whether each part with an address listens there."""
        return all(are_listening(part.sockets) for part in self._parts)

    def await_ready(self, is_ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for `what`, until `is_ready()` is True.

        Raises PartFailed if a part dies first, or after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            self._check()
            if time.monotonic() > deadline:
                where = f"the logs in {self._log_dir}" if self._log_dir else "what it printed"
                raise PartFailed(
                    f"waited {timeout_s:g} s for {what}; it runs, so the machine may be busy; see {where}"
                )
            time.sleep(0.02)

    def keep_up(self) -> None:
        """Start parts again when they end, until a signal ends this process."""
        while True:
            self._await_end(RESTART_PAUSE_S)
            if self.is_ending:  # the handler has raised where that was swallowed, as in a fork
                sys.exit(0)
            self.rotate_logs()
            for name in self.revive(RESTART_PAUSE_S):
                with suppress(OSError):  # whoever read what we say may be gone
                    os.write(1, f"{name} had ended; it was started again\n".encode())

    def revive(self, pause_s: float = 0.0) -> list[str]:
        """Start dead parts again, crashed ones `pause_s` after their end, and return their names."""
        for part in self._parts:
            part.note_end()
        now_s = time.monotonic()
        dead = [part for part in self._parts if part.ended_s is not None]
        due = [part for part in dead if part.restart_at_s(pause_s) <= now_s]
        for part in due:
            with holding_signals():
                part.spawn()
        return [part.name for part in due]

    def rotate_logs(self) -> None:
        """Put long logs aside."""
        for part in self._parts:
            if part.log and part.log.exists() and part.log.stat().st_size > LOG_BYTES:
                with suppress(OSError):  # such as a full disk: the next call tries again
                    _put_aside(part.log)

    def hang_up(self) -> None:
        """Have our own parts read their policies again. Others read them when they start."""
        self._send(signal.SIGHUP, [part for part in self._parts if part.is_ours])

    def hurry(self) -> None:
        """Have parts that were told to end skip their pause."""
        self._send(signal.SIGTERM, self._parts)

    def stop(self) -> None:
        """End the parts kind by kind, those of a kind together: SIGTERM, then SIGKILL after `stop_s`."""
        for part in self._parts:
            part.let_go()
        for _, group in groupby(reversed(self._parts), key=lambda part: part.kind):
            parts = list(group)
            self._send(signal.SIGTERM, parts)
            deadline = time.monotonic() + self._stop_s
            for part in parts:
                try:
                    part.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    part.process.kill()
                    part.process.wait()

    def _await_end(self, timeout_s: float) -> None:
        """Return once a part ends or is to be started again, at the latest after `timeout_s`."""
        restarts_s = [part.restart_at_s(RESTART_PAUSE_S) for part in self._parts if part.ended_s is not None]
        living = [part.process for part in self._parts if part.ended_s is None]
        until_s = min([*restarts_s, time.monotonic() + timeout_s])
        _await_end_of(living, max(0.0, until_s - time.monotonic()))

    def _send(self, number: signal.Signals, parts: Sequence[PartProcess]) -> None:
        for part in parts:
            if part.process.poll() is None:
                part.process.send_signal(number)

    def _check(self) -> None:
        for part in self._parts:
            if part.process.poll() is not None:
                output = f":\n{_end_of(part.log, part.log_begin)}" if part.log else ""
                raise PartFailed(f"{part.name} ended with status {part.process.returncode}{output}")


def python(*arguments: str) -> list[str]:
    """Return the command line that runs one of our own commands in this installation."""
    return [sys.executable, *_OURS, *arguments]


def _await_end_of(processes: Sequence[subprocess.Popen[bytes]], timeout_s: float) -> None:
    """Return after `timeout_s`, or on Linux once one of our processes has ended."""
    if any(process.poll() is not None for process in processes):
        return
    if sys.platform != "linux":
        time.sleep(timeout_s)
        return
    poller, descriptors = select.poll(), list[int]()
    try:
        for process in processes:
            descriptors.append(os.pidfd_open(process.pid))
            poller.register(descriptors[-1], select.POLLIN)
        poller.poll(timeout_s * 1000)
    except ProcessLookupError:
        pass  # a signal handler has just heard of its end
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], log: Path | None, descriptors: Sequence[int]
) -> subprocess.Popen[bytes]:
    with log.open("ab") if log else nullcontext() as output:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output or subprocess.STDOUT,
            pass_fds=descriptors,
            start_new_session=True,  # so that Ctrl-C reaches only us, and we end the parts in order
            preexec_fn=_become_part,  # noqa: PLW1509 - the front door has one thread
        )


@contextmanager
def obeying_signals(supervisor: Supervisor) -> Iterator[None]:
    """Exit on SIGTERM or SIGINT, a second one of which skips the parts' pause; reload on SIGHUP."""

    def end(*_: object) -> None:
        if supervisor.is_ending:
            supervisor.hurry()
        else:
            supervisor.is_ending = True
            sys.exit(0)

    def hang_up(*_: object) -> None:
        if is_terminal_gone():
            end()
        else:
            supervisor.hang_up()

    handlers: dict[int, Callable[..., None]] = {
        signal.SIGTERM: end,
        signal.SIGINT: end,
        signal.SIGHUP: hang_up,
    }
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        del handlers[signal.SIGINT]  # a shell has what a script starts with `&` ignore Ctrl-C
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def holding_signals() -> Iterator[None]:
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


def _end_of(log: Path, begin: int, lines: int = 15) -> str:
    """Return the last lines of a log from an offset in bytes."""
    return "\n".join(log.read_bytes()[begin:].decode(errors="replace").splitlines()[-lines:])
