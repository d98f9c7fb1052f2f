"""A child process that simulates: started in its own session, used over pipes, killed from outside.

Every wait has a deadline in seconds of this side's monotonic clock, so no child makes anybody wait longer.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from policies.errors import ScoregateError
from policies.vocabulary import Reason
from replay.simulators import SimulatorFault, last_lines

READ_BYTES = 65_536
LAST_WORDS_BYTES = 16_384

_ROOT = Path(__file__).resolve().parents[2]
_BOOT = """
import sys
sys.path.insert(0, sys.argv[1])
from {module} import main
main(int(sys.argv[2]), *sys.argv[3:])
"""
_BY_SHELL = 128
"""A shell, and bubblewrap, report that a signal ended a program as this exit status plus the signal."""


class SandboxUnavailable(ScoregateError):
    """The sandbox's child process cannot be started."""


class ChildTimedOut(Exception):
    """The child did not answer in time."""


class ChildDied(Exception):
    """The child ended."""


class ChildProcess:
    """A child process and its three pipes. Raises SandboxUnavailable if it cannot be started."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self._owner = os.getpid()
        self._process = _start(command, pass_fds, environment or {})
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._stderr = self._process.stderr.fileno()
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._answers = _poll_of(self._stdout, select.POLLIN)

    @property
    def is_ours(self) -> bool:
        """Return whether this process started it; a forked copy must not mix its questions with ours."""
        return self._owner == os.getpid()

    def is_idle(self) -> bool:
        """Return whether it is alive and wrote nothing unasked."""
        return self._process.poll() is None and not self._answers.poll(0)

    def cause_of_death(self) -> SimulatorFault:
        """Return why the child ended, from its exit status and last words."""
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:  # it closed its output but still runs
            return SimulatorFault(Reason.SIMULATOR_UNUSABLE)
        if status in {-signal.SIGXCPU, _BY_SHELL + signal.SIGXCPU}:
            return SimulatorFault(Reason.TIMED_OUT)
        words = self.last_words()
        if b"MemoryError" in words or b"memory allocation of" in words:  # as Python and Rust say it
            return SimulatorFault(Reason.OUT_OF_MEMORY)
        how = {"signal": -status} if status < 0 else {"exit_status": status}
        return SimulatorFault(Reason.SIMULATOR_TRAPPED, how, last_lines(words))

    def kill(self) -> None:
        """Kill the process and everything that it may have started, at once."""
        self._process.poll()
        with suppress(ProcessLookupError):  # its group may outlive it, or be gone too
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def last_words(self) -> bytes:
        """Return the beginning of its standard error."""
        try:
            return os.read(self._stderr, LAST_WORDS_BYTES)
        except BlockingIOError:
            return b""

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                _await(_poll_of(self._stdin, select.POLLOUT), deadline)
            except BrokenPipeError:
                raise ChildDied from None

    def _receive(self, least: int, most: int, deadline: float) -> bytearray:
        """Return at least `least` bytes, and what else has arrived, up to `most`."""
        data = bytearray()
        while len(data) < least:
            _await(self._answers, deadline)
            more = os.read(self._stdout, min(most - len(data), READ_BYTES))
            if not more:
                raise ChildDied
            data += more
        return data


def boot(module: str, *arguments: str, hash_seed: bool = False) -> tuple[str, ...]:
    """Return the command that runs `main` of a module, isolated.

    `main` gets the parent's process id, then `arguments`. With `hash_seed` the interpreter reads its
    environment's variables, which `-I` would have it ignore.
    """
    program = _BOOT.format(module=module)
    isolation = ("-s", "-P") if hash_seed else ("-I",)
    return (sys.executable, *isolation, "-B", "-c", program, str(_ROOT), str(os.getpid()), *arguments)


def deadline_in(wall_ms: int) -> float:
    """Return the deadline `wall_ms` milliseconds from now."""
    return time.monotonic() + wall_ms / 1000


def left_ms(deadline: float) -> float:
    """Return the milliseconds to the deadline. Raises ChildTimedOut past it."""
    left = (deadline - time.monotonic()) * 1000
    if left <= 0:
        raise ChildTimedOut
    return left


def _start(
    command: Sequence[str], pass_fds: Sequence[int], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            close_fds=True,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxUnavailable(f"the simulator process cannot be started: {error}") from None


def _await(awaited: select.poll, deadline: float) -> None:
    """Wait until the descriptor is ready. Raises ChildTimedOut past the deadline."""
    if not awaited.poll(left_ms(deadline)):
        raise ChildTimedOut


def _poll_of(descriptor: int, event: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, event)
    return poll
