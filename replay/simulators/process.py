"""Runs a game's own headless program, or an adapter for it, in a sandbox that is asked in JSON lines.

With bubblewrap the program has an empty machine of its own. Without it, resource limits and what Linux grants
to any user must do (`replay.confined.confinement`), and the engine's name in the verdict says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final

from policies.digests import simulator_digest
from policies.trees import Tree, TreeRefused
from policies.vocabulary import Reason, SimulatorKind
from replay.confined.confinement import NOBODY
from replay.confined.launch import ALONE, INSIDE, SCRATCH
from replay.simulators import SimulationRequest, SimulatorFault, bubblewrap
from replay.simulators.child_process import SandboxUnavailable, boot
from replay.simulators.folder_copies import FolderCopies, copy_folder
from replay.simulators.line_child import LineChild
from replay.simulators.line_protocol import VERSION, question
from replay.simulators.line_simulators import START_WALL_MS, Key, LineSimulators
from replay.simulators.workspace import writing

FILES_BYTES_LIMIT: Final = 1024 * 1024 * 1024
"""Total bytes of a program and its files. Files are copied into the sandbox's memory, folders only once."""

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/games"

FILES_VARIABLE: Final = "SCOREGATE_FILES"
"""The environment variable with the folder of the program's files."""

ASSET: Final = "asset"
"""Path of the board's asset in the sandbox, beside the program and its files."""

TASKS_INSIDE: Final = 16
TASKS_ALONE: Final = 4096
"""Processes and threads: of the sandbox, or, without one, of the user with all other processes."""

_LIMITED = """
ulimit -f {blocks} 2>/dev/null
ulimit -p {tasks} 2>/dev/null || ulimit -u {tasks} 2>/dev/null
exec "$0"
"""
"""Limits that must not apply to bubblewrap or its new user. Shells differ in the letter for processes."""
_BLOCK_BYTES = 512

_Contents = Mapping[str, bytes]
_Trees = Mapping[str, Tree]


_MISSING: Final = SimulatorFault(Reason.SIMULATOR_MISSING)


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
        """Create simulators of native programs.

        `is_alone` ignores bubblewrap even if present; `needs_bubblewrap` starts nothing without it;
        `variables` are added to the program's environment.
        """
        super().__init__(start_wall_ms=start_wall_ms)
        self._is_alone = is_alone
        self._needs_bubblewrap = needs_bubblewrap
        self._variables = variables
        self._copies = FolderCopies()

    def close(self) -> None:
        """End all children and remove what was copied for them."""
        super().close()
        with self._lock:
            self._copies.close()

    def engine_of(self, kind: SimulatorKind) -> str:  # noqa: ARG002 - it has one kind
        """Return protocol and confinement: `json-lines 1, bubblewrap 0.8.0`, or `json-lines 1, rlimits`."""
        return f"json-lines {VERSION}, {self._bubblewrap() or 'rlimits'}"

    def _bubblewrap(self) -> str | None:
        return None if self._is_alone else bubblewrap.version()

    def _key_of(self, request: SimulationRequest) -> Key:
        # The asset is a file of its sandbox, so a warm child serves the boards with that very asset.
        return super()._key_of(request)._replace(asset=request.asset.digest if request.asset else None)

    def _question(self, child: LineChild, request: SimulationRequest, number: int) -> bytes:
        assert isinstance(child, _Program)
        return question(request, number, child.asset)

    def _open(self, request: SimulationRequest) -> LineChild | SimulatorFault:
        is_inside = self._bubblewrap() is not None
        if self._needs_bubblewrap and not is_inside:
            raise SandboxUnavailable(
                f"programs need bubblewrap, which cannot be used: {bubblewrap.probe().trouble}"
            )
        with ExitStack() as belongings:
            child = self._started(request, belongings, is_inside=is_inside)
            if isinstance(child, _Program):
                child.belongings = belongings.pop_all()
        return child

    def _started(
        self, request: SimulationRequest, belongings: ExitStack, *, is_inside: bool
    ) -> _Program | SimulatorFault:
        try:
            return (self._inside if is_inside else self._alone)(request, belongings)
        except _Unfit as unfit:
            return unfit.fault
        except TreeRefused as refused:
            return SimulatorFault(Reason.SIMULATOR_UNUSABLE, said=str(refused))
        except OSError:
            return _MISSING

    def _inside(self, request: SimulationRequest, belongings: ExitStack) -> _Program:
        """Return a child in a machine of its own, with files passed as descriptors and folders as copies."""
        contents = _contents(request)
        copies = {
            path: belongings.enter_context(self._copies.copy_of(source))
            for path, source in _folders(request).items()
        }
        _refuse_other(request, contents, {path: copy.tree for path, copy in copies.items()})
        environment = {**_environment(bubblewrap.FILES, bubblewrap.SCRATCH), **self._variables}
        command = _limited(bubblewrap.PROGRAM, TASKS_INSIDE)
        program = shutil.which("bwrap") or "bwrap"
        contents = {**contents, **_asset(request)}
        with ExitStack() as opened:
            data = {_inside_path(path): _descriptor(content, opened) for path, content in contents.items()}
            folders = {_inside_path(path): copy.path for path, copy in copies.items()}
            enclosed = bubblewrap.enclosed(program, command, environment, data, folders)
            child = _Program(_launched(request, INSIDE, "/", enclosed), pass_fds=tuple(data.values()))
            child.asset = _inside_path(ASSET) if request.asset else None
            return child

    def _alone(self, request: SimulationRequest, belongings: ExitStack) -> _Program:
        """Return a child with limits and a private folder."""
        contents, folder = _contents(request), self._copies.workspace.folder()
        belongings.callback(shutil.rmtree, folder, ignore_errors=True)
        with writing():
            _fill(folder, {**contents, **_asset(request)})
        trees = {path: _copied(source, folder / path) for path, source in _folders(request).items()}
        _refuse_other(request, contents, trees)
        command = _limited(str(folder / "program"), TASKS_ALONE)
        environment = {**_environment(str(folder / "files"), str(folder / SCRATCH)), **self._variables}
        child = _Program(_launched(request, ALONE, str(folder), command), environment=environment)
        child.asset = str(folder / ASSET) if request.asset else None
        return child


class _Program(LineChild):
    """A child, the path at which it finds its asset, and the resources that exist as long as it runs."""

    asset: str | None = None
    belongings: ExitStack | None = None

    def kill(self) -> None:
        """End it, and release its resources."""
        super().kill()
        if self.belongings is not None:
            self.belongings.close()


class _Unfit(Exception):
    """The program cannot be started as the policy describes it; `fault` says why."""

    def __init__(self, fault: SimulatorFault) -> None:
        super().__init__()
        self.fault = fault


def _inside_path(path: str) -> str:
    return f"/simulator/{path}"


def _descriptor(content: bytes, opened: ExitStack) -> int:
    """Return a file in memory with the content. It closes with `opened`."""
    with writing():
        descriptor = os.memfd_create("simulator")
        opened.callback(os.close, descriptor)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _copied(source: Path, target: Path) -> Tree:
    with writing():
        target.mkdir()
        target.chmod(0o755)
    return copy_folder(source, target)


def _fill(folder: Path, contents: _Contents) -> None:
    """Write the program and its files read-only, and an empty scratch folder for the program's user."""
    folder.chmod(0o755)
    (folder / "files").mkdir()
    (folder / "files").chmod(0o755)  # despite the umask, since the program may run as another user
    for path, content in contents.items():
        (folder / path).write_bytes(content)
        (folder / path).chmod(0o555 if path == "program" else 0o444)
    (folder / SCRATCH).mkdir(mode=0o700)
    if os.geteuid() == 0:
        with suppress(PermissionError):  # in a container, root may not be allowed to change owners
            os.chown(folder / SCRATCH, NOBODY, NOBODY)


def _launched(request: SimulationRequest, how: str, folder: str, command: Sequence[str]) -> tuple[str, ...]:
    memory_bytes = request.budget.memory_mib * 1024 * 1024
    processor_s = request.runs_per_process * ceil(request.budget.wall_ms / 1000)
    return boot("replay.confined.launch", how, folder, str(memory_bytes), str(processor_s), *command)


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


def _contents(request: SimulationRequest) -> _Contents:
    """Return the bytes of program and files by their paths in the sandbox. Raises OSError and _Unfit."""
    files = {f"files/{file.name}": file for file in request.files if not file.is_dir()}
    paths = {"program": request.module, **files}
    _refuse_much(sum(path.stat().st_size for path in paths.values()))
    return {name: path.read_bytes() for name, path in paths.items()}


def _asset(request: SimulationRequest) -> _Contents:
    """Return the bytes of the board's asset by its path in the sandbox. The program's digest excludes it."""
    return {ASSET: request.asset.content} if request.asset else {}


def _folders(request: SimulationRequest) -> Mapping[str, Path]:
    """Return the folders among the files, by their paths in the sandbox."""
    return {f"files/{folder.name}": folder for folder in request.files if folder.is_dir()}


def _refuse_much(size_bytes: int) -> None:
    if size_bytes > FILES_BYTES_LIMIT:
        raise _Unfit(SimulatorFault(Reason.SIMULATOR_UNUSABLE))


def _refuse_other(request: SimulationRequest, contents: _Contents, trees: _Trees) -> None:
    """Raise _Unfit unless everything together has the requested digest."""
    _refuse_much(sum(map(len, contents.values())) + sum(tree.size_bytes for tree in trees.values()))
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
    digests |= {f"{path}/": tree.digest for path, tree in trees.items()}
    program = digests.pop("program")
    files = {path.removeprefix("files/"): digest for path, digest in digests.items()}
    if simulator_digest(program, files) != request.digest:
        raise _Unfit(_MISSING)
