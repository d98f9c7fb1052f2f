"""Processes of Scoregate that need not import it first: forks of one that has, and otherwise like any other.

Importing a part takes more than a second of CPU time, and the suite starts hundreds. A fork has its own
environment, working directory, output and process group; it ends like any process, and can always be killed.

Run as a program, this is the process that is forked, with the number of its control socket's file descriptor.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, Final, NamedTuple

from pydantic import BaseModel

from gateway.ledger.transaction import Query
from gateway.runtime import failpoints

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = (
    "gateway.edge.listening",
    "gateway.edge_wiring",
    "gateway.steward_wiring",
    "replay.worker.process",
    "rich.console",
    "scoregate.cli",
    "scoregate.metrics",
    "scoregate.parts",
)
"""What the parts import once they are told which they are."""

CALLER: Final = Path(__file__).with_name("preloaded_command.py")

RUN: Final = "from scoregate.cli import main\nmain()"

READ_EARLY: Final = (
    "LD_PRELOAD",
    "FAKETIME_NO_CACHE",
    "FAKETIME_DONT_FAKE_MONOTONIC",
    "FAKETIME_FORCE_MONOTONIC_FIX",
    "PYTHONPATH",
)
"""Variables that count only at the start of a process; libfaketime reads its file again and again."""

LONGEST: Final = 1 << 17
"""Of a request (bytes): an environment and the words of a command."""


class Fork:
    """A process that was forked; what can be done to it is what can be done to a `subprocess.Popen`."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = int(told.recv(64))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        try:
            return self._ended(0)
        except BlockingIOError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended. Raises TimeoutExpired."""
        try:
            return self._ended(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended just now: who forked it hears of that first
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int:
        if self.returncode is None:
            self._told.settimeout(timeout)
            self.returncode = int(self._told.recv(64))
            self._told.close()
        return self.returncode


Process = Fork | subprocess.Popen[bytes]


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    *,
    before: str = "",
) -> Process:
    """Start `scoregate` with these words; `before` is Python that it runs first.

    It is a new process after all where a fork could not be waited for.
    """
    errors = errors or output
    program = f"{before}\n{RUN}"
    if not hasattr(os, "pidfd_open"):
        command = [sys.executable, "-c", program, *words]
        return subprocess.Popen(command, env=environment, stdout=output, stderr=errors)
    ours, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {
        "program": program,
        "words": list(words),
        "environment": dict(environment),
        "directory": str(Path.cwd()),
        "umask": _umask(),
    }
    with told:
        ends = [told.fileno(), output.fileno(), errors.fileno()]
        socket.send_fds(_control(*_early(environment)), [json.dumps(request).encode()], ends)
    return Fork(ours)


def finished(
    words: Sequence[str], environment: Mapping[str, str], *, before: str = "", timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run `scoregate` with these words, and return its output and exit code. Raises TimeoutExpired."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = start(words, environment, output, errors, before=before)
        try:
            status = process.wait(timeout_s)
        finally:
            process.kill()
        said = [_all_of(each) for each in (output, errors)]
    return subprocess.CompletedProcess(list(words), status, *said)


@contextmanager
def at_hand(environment: Mapping[str, str]) -> Iterator[tuple[dict[str, str], int]]:
    """Have the `scoregate` of a shell be such a fork, with its parts, while the block runs.

    Yields what the shell needs in its environment, and the descriptor that it has to inherit.
    """
    control = _control(*_early(environment))
    with TemporaryDirectory(prefix="sg-bin-") as folder:
        command = Path(folder) / "scoregate"
        command.write_text(f"#!{sys.executable} -IS\n{CALLER.read_text()}")
        command.chmod(0o755)
        path = f"{folder}:{environment['PATH']}"
        yield {"PATH": path, "PRELOADED": str(control.fileno())}, control.fileno()


def _umask() -> int:
    umask = os.umask(0o022)
    os.umask(umask)
    return umask


def _all_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _early(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a fork must have of who is forked."""
    return [(name, environment[name]) for name in READ_EARLY if name in environment]


@cache
def _control(*early: tuple[str, str]) -> socket.socket:
    """The socket by which a preloaded process of this one is asked, which began with these variables.

    It ends once this is closed.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.support.preloaded", str(its.fileno())]
    environment = os.environ | dict(early)
    with its:
        subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[its.fileno()], start_new_session=True)
    return ours


def serve(control: socket.socket) -> str:
    """Fork whenever it is asked; returns in each fork, with the program that it is to run."""
    for name in MODULES:
        import_module(name)
    _do_first_uses()
    gc.collect()
    gc.freeze()
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not control:
                _note_end(selector, key)
                continue
            message, given, _, _ = socket.recv_fds(control, LONGEST, 4)
            if not message:
                os._exit(0)
            told, *streams = given
            caller = socket.socket(fileno=told)
            request = json.loads(message)
            pid = os.fork()
            if pid == 0:
                _let_go(selector, control, caller)
                return _become(request, streams)
            for stream in streams:
                os.close(stream)
            caller.send(str(pid).encode())
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, Forked(pid, caller))
            if request.get("is_tied"):
                selector.register(caller, selectors.EVENT_READ, pid)


def _do_first_uses() -> None:
    """Do once what each part does at its first use: compile statements for SQLite, build models."""
    for query in [each for each in gc.get_objects() if isinstance(each, Query)]:
        query.values({})
    for model in _below(BaseModel):
        if not model.__pydantic_complete__:
            model.model_rebuild()


def _below(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _below(model)


class Forked(NamedTuple):
    """A fork that runs, and the socket of whoever waits for its end."""

    pid: int
    caller: socket.socket


def _note_end(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """A fork has ended, which its caller is told; or the caller of a fork has, which ends with it."""
    if isinstance(key.data, Forked):
        selector.unregister(key.fileobj)
        with suppress(KeyError):  # it is not tied
            selector.unregister(key.data.caller)
        _tell_end(key.fd, *key.data)
    elif key.fileobj in selector.get_map():
        selector.unregister(key.fileobj)
        for pid in (*_children(key.data), key.data):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return []


def _tell_end(descriptor: int, pid: int, caller: socket.socket) -> None:
    os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    with caller, suppress(ConnectionError):  # nobody may wait for it any more
        caller.send(str(os.waitstatus_to_exitcode(status)).encode())


def _let_go(selector: selectors.BaseSelector, *ends: socket.socket) -> None:
    """Close in a fork what is not its own."""
    others = [entry for entry in selector.get_map().values() if isinstance(entry.data, Forked)]
    selector.close()
    for entry in others:
        os.close(entry.fd)
    for end in (*ends, *(entry.data.caller for entry in others)):
        end.close()


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> str:
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    failpoints._armed.update(
        failpoints._read(os.environ.get(failpoints.VARIABLE, ""))
    )  # as its import would have
    os.chdir(request["directory"])
    for stream, given in zip((1, 2, 0), streams, strict=False):
        os.dup2(given, stream)
        os.close(given)
    sys.argv[:] = ["scoregate", *request["words"]]
    return str(request["program"])


if __name__ == "__main__":
    exec(serve(socket.socket(fileno=int(sys.argv[1]))))
