"""Whoever starts a part may have closed its standard streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from scoregate.light import open_standard_streams
open_standard_streams()
file = os.open({file!r}, os.O_RDWR | os.O_CREAT)
print("whatever is said")
sys.stderr.write("and this")
sys.stdin.read()
sys.stdout.flush()
os.write(file, str(file).encode())
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_has_the_number_of_a_closed_stream(closed: str, tmp_path: Path):
    """What is printed would go into a ledger, and an event loop that closes such a number ends the process."""
    file = tmp_path / "file"
    command = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, PROGRAM.format(file=str(file))]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    assert 2 < int(file.read_text())
