"""The Doom example for tests: its files, its engine, and its verifier as a worker starts it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.doom import verify
from tests.support.gate import missing

DOOM = Path(__file__).parents[2] / "examples" / "doom"
FILES = DOOM / "files"
BOARD = "doom-hall"
BUILD = "hall-1"
NUMBER = 11


def recorded(name: str) -> bytes:
    """A committed demo."""
    return (DOOM / "demos" / f"{name}.lmp").read_bytes()


def require_engine() -> None:
    """Skips the test without dsda-doom and freedoom; in CI their absence is a failure."""
    if shutil.which("dsda-doom", path=verify.ENGINE_FOLDERS) and verify.IWAD.is_file():
        return
    missing("the Doom verifier needs its engine: apt-get install dsda-doom freedoom")


class Asked:
    """The verifier's process, and questions for it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ask(self, demo: bytes) -> dict[str, Any]:
        """Its answer to a request with this demo."""
        answer = self.ask_line(json.dumps(a_request(demo)).encode())
        assert NUMBER == answer.pop("id")
        return answer

    def ask_line(self, line: bytes) -> dict[str, Any]:
        """Its answer to one line, whatever that is."""
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def a_request(demo: bytes) -> dict[str, Any]:
    return {
        "version": 1,
        "id": NUMBER,
        "seed": "7",
        "ticks": 1,
        "checkpoint_ticks": 60,
        "inputs": None,
        "recording": base64.b64encode(demo).decode(),
    }


@contextmanager
def running_verifier(private: Path, files: Path = FILES) -> Iterator[Asked]:
    """The verifier with nothing around it but what a worker gives it."""
    environment = {"SCOREGATE_FILES": str(files), "HOME": str(private), "TMPDIR": str(private)}
    with subprocess.Popen(
        [sys.executable, str(DOOM / "verify.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        yield Asked(process)
        process.stdin.close()
        assert process.wait(30) == 0
