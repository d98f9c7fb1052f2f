"""The sandbox of native programs: an empty machine made by bubblewrap that holds nothing but the program.

There is no network, no other process, user or file. The program sees the system's programs and libraries,
which are the same for everybody, its own files, and two small file systems in memory that end with it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from policies.system import SYSTEM
from replay.confined.launch import INSIDE
from replay.simulators import printable
from replay.simulators.child_process import boot

PROGRAM: Final = "/simulator/program"
FILES: Final = "/simulator/files"
SCRATCH: Final = "/tmp"  # noqa: S108 - the sandbox's own
SCRATCH_BYTES: Final = 64 * 1024 * 1024
SHARED_MEMORY_BYTES: Final = 16 * 1024 * 1024

NO_FOLDERS: Final[Mapping[str, Path]] = MappingProxyType({})

PROBE_MEMORY_BYTES: Final = 64 * 1024 * 1024
PROBE_S: Final = 20
PROBES: Final = 2


class Probe(NamedTuple):
    """Name and version of bubblewrap; or None, and why it cannot be used here."""

    version: str | None
    trouble: str = ""


@cache
def probe() -> Probe:
    """Return whether bubblewrap is present and permitted. A failure is tried again, in case it was chance."""
    path = shutil.which("bwrap")
    if path is None:
        return Probe(None, "there is no `bwrap` on the PATH")
    result = Probe(None)
    for _ in range(PROBES):
        result = _try(path)
        if result.version is not None:
            break
    return result


def version() -> str | None:
    """Return name and version of bubblewrap, or None if it is missing or not permitted."""
    return probe().version


def _try(path: str) -> Probe:
    limits = str(PROBE_MEMORY_BYTES), str(PROBE_S)
    command = boot("replay.confined.launch", INSIDE, "/", *limits, *enclosed(path, ("/bin/true",), {}, {}))
    try:
        subprocess.run(command, env={}, capture_output=True, timeout=PROBE_S, check=True)
        version_line = subprocess.run(
            (path, "--version"), env={}, capture_output=True, timeout=PROBE_S, check=True
        )
    except subprocess.CalledProcessError as error:
        words = error.stderr.decode("utf-8", "replace").strip()
        return Probe(None, printable(words) or f"it ended with status {error.returncode}")
    except subprocess.TimeoutExpired:
        return Probe(None, f"it did not start within {PROBE_S} s")
    except OSError as error:
        return Probe(None, f"it cannot be started: {error.strerror}")
    return Probe(version_line.stdout.decode("ascii", "replace").strip())


def enclosed(
    bubblewrap: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    data: Mapping[str, int],
    folders: Mapping[str, Path] = NO_FOLDERS,
) -> tuple[str, ...]:
    """Return the command that runs `command` in a sandbox.

    `data` maps paths in the sandbox to descriptors of their contents. `folders` maps paths in it to folders
    that are shown there read-only.
    """
    variables = (("--setenv", name, value) for name, value in environment.items())
    return (
        bubblewrap,
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *_flat(_system(Path(path)) for path in SYSTEM),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - the sandbox's own
        *("--size", str(SCRATCH_BYTES), "--tmpfs", SCRATCH),
        *("--dir", FILES),
        *_flat(_placed(path, descriptor) for path, descriptor in data.items()),
        *_flat(("--ro-bind", str(folder), path) for path, folder in folders.items()),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH),
        *_flat(variables),
        "--",
        *command,
    )


def _system(path: Path) -> tuple[str, ...]:
    """Return the options for a part of the system; a link where it is one, as /bin is on merged systems."""
    if path.is_symlink():
        return ("--symlink", str(path.readlink()), str(path))
    return ("--ro-bind-try", str(path), str(path))


def _placed(path: str, descriptor: int) -> tuple[str, ...]:
    return ("--perms", "0555" if path == PROGRAM else "0444", "--ro-bind-data", str(descriptor), path)


def _flat(parts: Iterable[Sequence[str]]) -> Iterable[str]:
    return (option for part in parts for option in part)
