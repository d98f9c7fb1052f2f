"""The clients that the conformance tests drive: one entry for each."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.clients import csharp

ROOT = Path(__file__).parents[2]
DRIVERS = Path(__file__).with_name("drivers")


@dataclass(frozen=True)
class Language:
    """A client: what starts its driver, the programs that this needs, and the commands that it may lack.

    It may also lack `ed25519`, with which servers sign and games do not. `command` gets a folder that is kept
    between sessions, for what it compiles: see `built`.
    """

    name: str
    command: Callable[[Path], Sequence[str]]
    needs: tuple[str, ...] = ()
    lacks: frozenset[str] = frozenset()

    def missing(self) -> list[str]:
        """The programs that it needs and that are not here."""
        return [program for program in self.needs if not shutil.which(program)]


def built(folder: Path, sources: Sequence[Path], compile_to: Callable[[Path], object]) -> Path:
    """What `compile_to` makes of these sources, which is made once for each content of them."""
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:16]
    made = folder / digest
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of one suite, and suites beside it
        if not made.exists():
            fresh = folder / f"{digest}.new"
            compile_to(fresh)
            fresh.replace(made)
    return made


C_CLIENT = ROOT / "clients" / "c"
CHECKED_C = (
    *("-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-fno-sanitize-recover=all"),
    "-fsanitize=address,undefined",
)


def c_driver(folder: Path) -> Path:
    """The driver of the client in C, which ends at the first error that a sanitizer sees."""
    compiled = [C_CLIENT / "examples" / "scoregate.c", C_CLIENT / "examples" / "posix.c"]
    compiled.append(DRIVERS / "c" / "driver.c")
    included = [C_CLIENT / "scoregate.h", C_CLIENT / "examples" / "posix.h"]

    def compile_to(made: Path) -> None:
        subprocess.run(["gcc", *CHECKED_C, "-o", made, *compiled, "-lcurl"], check=True)

    return built(folder, compiled + included, compile_to)


def _csharp(folder: Path) -> list[str]:
    return [
        "mono",
        str(csharp.compiled(folder, [*csharp.RUNTIME, *sorted((DRIVERS / "csharp").glob("*.cs"))])),
    ]


LANGUAGES: tuple[Language, ...] = (
    Language(
        "python",
        lambda _: [sys.executable, str(DRIVERS / "python.py")],
    ),
    Language(
        "python-sync",
        lambda _: [sys.executable, str(DRIVERS / "python.py"), "--sync"],
    ),
    Language("csharp", _csharp, needs=csharp.NEEDS, lacks=frozenset({"ed25519"})),
    Language("javascript", lambda _: ["node", str(DRIVERS / "javascript.mjs")], needs=("node",)),
    Language(
        "c",
        lambda folder: [str(c_driver(folder))],
        needs=("gcc", "curl-config"),
        lacks=frozenset({"ed25519"}),
    ),
)
"""All of them. A client answers `unsupported` to what it lacks; any other lack fails its tests."""
