"""Runs a game's own headless program, or an adapter for it, in a sandbox, and asks it in JSON lines.

With bubblewrap the program has a machine of its own with nothing in it; without, resource limits and what Linux grants
to anybody have to do (`replay.simulators.confinement`), and the engine's name in the verdict says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final

from policies.digests import simulator_digest
from policies.vocabulary import Reason, SimulatorKind
from replay.simulators import Fault, SimulationRequest, bubblewrap
from replay.simulators.answers import VERSION
from replay.simulators.child_process import SandboxUnavailable, boot
from replay.simulators.confinement import NOBODY
from replay.simulators.launch import ALONE, INSIDE, SCRATCH
from replay.simulators.line_child import LineChild
from replay.simulators.lines import START_WALL_MS, LineSimulators

FILES_BYTES_LIMIT: Final = 1024 * 1024 * 1024
"""The most that a program and its files may have together; they are copied into the sandbox's memory."""

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/games"

FILES_VARIABLE: Final = "SCOREGATE_FILES"
"""Names the folder of the program's files, for the program."""

TASKS_INSIDE: Final = 16
TASKS_ALONE: Final = 4096
"""Processes and threads: of the sandbox, or of the user where there is none, whose other processes count as well."""

_LIMITED = """
ulimit -f {blocks} 2>/dev/null
ulimit -p {tasks} 2>/dev/null || ulimit -u {tasks} 2>/dev/null
exec "$0"
"""
"""Limits that bubblewrap itself, or its new user, must not have. Shells differ in the letter for processes."""
_BLOCK_BYTES = 512

_Contents = Mapping[str, bytes]


class ProcessSimulators(LineSimulators):
    """Native programs, each a warm child."""

    def __init__(
        self,
        *,
        start_wall_ms: int = START_WALL_MS,
        is_alone: bool = False,
        needs_bubblewrap: bool = False,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`is_alone` leaves bubblewrap out although it is there; `needs_bubblewrap` starts nothing without it.

        `variables` are more of the program's environment.
        """
        super().__init__(start_wall_ms=start_wall_ms)
        self._is_alone = is_alone
        self._needs_bubblewrap = needs_bubblewrap
        self._variables = variables

    def engine_of(self, kind: SimulatorKind) -> str:  # noqa: ARG002 - it has one kind
        """The protocol, and what holds the program: `json-lines 1, bubblewrap 0.8.0`, or `json-lines 1, rlimits`."""
        return f"json-lines {VERSION}, {self._bubblewrap() or 'rlimits'}"

    def _bubblewrap(self) -> str | None:
        return None if self._is_alone else bubblewrap.version()

    def _open(self, request: SimulationRequest) -> LineChild | Fault:
        is_inside = self._bubblewrap() is not None
        if self._needs_bubblewrap and not is_inside:
            raise SandboxUnavailable(
                f"no bubblewrap, without which no program is run: {bubblewrap.probe().trouble}"
            )
        contents = _contents(request)
        if isinstance(contents, Fault):
            return contents
        return (_inside if is_inside else _alone)(request, contents, self._variables)


class _LoneChild(LineChild):
    """A child without a sandbox, whose folder goes with it."""

    folder: Path

    def kill(self) -> None:
        """Ends it, and removes what it left behind."""
        super().kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _inside(request: SimulationRequest, contents: _Contents, variables: Mapping[str, str]) -> LineChild:
    """A child in a machine of its own. Its files go there through descriptors, so what runs is what was hashed."""
    with ExitStack() as opened:
        data = {}
        for path, content in contents.items():
            descriptor = os.memfd_create("simulator")
            opened.callback(os.close, descriptor)
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(content)
            os.lseek(descriptor, 0, os.SEEK_SET)
            data[f"/simulator/{path}"] = descriptor
        environment = {**_environment(bubblewrap.FILES, bubblewrap.SCRATCH), **variables}
        command = _limited(bubblewrap.PROGRAM, TASKS_INSIDE)
        program = shutil.which("bwrap") or "bwrap"
        enclosed = bubblewrap.enclosed(program, command, environment, data)
        return LineChild(_launched(request, INSIDE, "/", enclosed), pass_fds=tuple(data.values()))


def _alone(request: SimulationRequest, contents: _Contents, variables: Mapping[str, str]) -> LineChild:
    """A child that has a private folder, and limits."""
    folder = Path(tempfile.mkdtemp(prefix="scoregate-simulator-"))
    with ExitStack() as failed:
        failed.callback(shutil.rmtree, folder, ignore_errors=True)
        _fill(folder, contents)
        command = _limited(str(folder / "program"), TASKS_ALONE)
        environment = {**_environment(str(folder / "files"), str(folder / SCRATCH)), **variables}
        child = _LoneChild(_launched(request, ALONE, str(folder), command), environment=environment)
        child.folder = folder
        failed.pop_all()
    return child


def _fill(folder: Path, contents: _Contents) -> None:
    """Puts program and files there, to be read, and an empty folder, to be written by whoever the program will be."""
    folder.chmod(0o755)
    (folder / "files").mkdir()
    for path, content in contents.items():
        (folder / path).write_bytes(content)
        (folder / path).chmod(0o555 if path == "program" else 0o444)
    (folder / SCRATCH).mkdir(mode=0o700)
    if os.geteuid() == 0:
        with suppress(PermissionError):  # a container may have left root without the right to give files away
            os.chown(folder / SCRATCH, NOBODY, NOBODY)


def _launched(request: SimulationRequest, how: str, folder: str, command: Sequence[str]) -> tuple[str, ...]:
    memory_bytes = request.budget.memory_mib * 1024 * 1024
    processor_s = request.runs_per_process * ceil(request.budget.wall_ms / 1000)
    return boot("launch", how, folder, str(memory_bytes), str(processor_s), *command)


def _limited(program: str, tasks: int) -> tuple[str, ...]:
    blocks = bubblewrap.SCRATCH_BYTES // _BLOCK_BYTES
    return ("/bin/sh", "-c", _LIMITED.format(blocks=blocks, tasks=tasks), program)


def _environment(files: str, scratch: str) -> dict[str, str]:
    return {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": scratch,
        "TMPDIR": scratch,
        FILES_VARIABLE: files,
    }


def _contents(request: SimulationRequest) -> _Contents | Fault:
    """Program and files by their path in the sandbox, if together they have the digest that is asked for."""
    paths = {"program": request.module, **{f"files/{each.name}": each for each in request.files}}
    try:
        if sum(path.stat().st_size for path in paths.values()) > FILES_BYTES_LIMIT:
            return Fault(Reason.SIMULATOR_UNUSABLE)
        contents = {name: path.read_bytes() for name, path in paths.items()}
    except OSError:
        return Fault(Reason.SIMULATOR_MISSING)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    program = digests.pop("program")
    files = {name.removeprefix("files/"): digest for name, digest in digests.items()}
    return contents if simulator_digest(program, files) == request.digest else Fault(Reason.SIMULATOR_MISSING)
