"""The client in C#, compiled by Debian's Mono, whose language is 7.2 at most."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

NEEDS = ("mcs", "mono")
PACKAGE = Path(__file__).parents[2] / "clients" / "unity"
RUNTIME = tuple(sorted((PACKAGE / "Runtime").rglob("*.cs")))
STUB = tuple(sorted((PACKAGE / "Tests" / "Stub~").glob("*.cs")))
SAMPLE = tuple(sorted((PACKAGE / "Samples~").rglob("*.cs")))

_OPTIONS = ("-langversion:7.2", "-warnaserror", "-r:System.Net.Http.dll", "-r:System.Core.dll")


def compiled(folder: Path, sources: Sequence[Path], *options: str) -> Path:
    """The program of these sources, compiled once for each content of them."""
    digest = hashlib.sha256(repr((_OPTIONS, options)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    program = folder / f"{digest.hexdigest()[:16]}.exe"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{os.getpid()}-{program.name}"
        made = subprocess.run(
            ["mcs", *_OPTIONS, *options, f"-out:{fresh}", *sources],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        fresh.replace(program)
    return program
