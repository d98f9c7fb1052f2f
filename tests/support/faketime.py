"""Clocks of single processes that can be set, also while they run (libfaketime)."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.support.gate import missing

_SLEEP = """import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
"""Python sleeps until a moment of the steady clock, which libfaketime takes for its own."""

_PLACES = ("/usr/lib", "/usr/local/lib", "/opt/homebrew/lib")


def _library() -> str:
    for place in _PLACES:
        for found in sorted(Path(place).glob("**/faketime/libfaketime.so.1")):
            return str(found)
    return missing("libfaketime is not here (Debian: faketime)")


@cache
def _python() -> str:
    """A folder with what Python runs before anything else."""
    folder = Path(tempfile.mkdtemp(prefix="sg-python-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "sitecustomize.py").write_text(_SLEEP)
    return str(folder)


class SetClock:
    """The wall clock of processes started under it. The steady clock stays, as when a date is set."""

    def __init__(self, file: Path, ahead_s: int = 0) -> None:
        self._file = file
        self._library = _library()
        self.set(ahead_s)

    def set(self, ahead_s: int) -> None:
        """Makes it so much later, at once; earlier if negative."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{ahead_s:+d}\n")
        beside.replace(self._file)

    @contextmanager
    def imposed(self) -> Iterator[None]:
        """What this process starts meanwhile goes by this clock."""
        told = {
            "LD_PRELOAD": self._library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # or every wait for Python's lock goes by the file, and spins
            "PYTHONPATH": _python(),
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, value in told.items():
                patch.setenv(name, value)
            yield
