"""A writing process killed without warning: what it acknowledged is in the file, whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.ledger import is_intact, rows

WRITER = """
import asyncio, sys
from pathlib import Path
from tests.support.ledger import new_submission, opened

async def write_for_ever(ledger, name):
    for n in range(1_000_000):
        await ledger.append(new_submission(f"{name}-{n}", recording=f"{name}{n}".encode() * 50))
        sys.stdout.write(f"{name}-{n}\\n")
        sys.stdout.flush()

async def main():
    async with opened(Path(sys.argv[1])) as ledger:
        await asyncio.gather(*(write_for_ever(ledger, name) for name in "abcdefgh"))

asyncio.run(main())
"""
ROOT = Path(__file__).parents[2]


def test_I10_every_acknowledged_row_survives_kill_9(tmp_path: Path):
    """Acknowledged is a subset of the ledger; every row there is whole, and the file is intact."""
    path = tmp_path / "ledger.sqlite3"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert writer.stdout is not None
    with writer:
        try:
            acknowledged = [writer.stdout.readline().strip() for _ in range(400)]
        finally:
            writer.kill()
        acknowledged += [
            line.strip() for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")
        ]

    stored = {row[0] for row in rows(path, "SELECT submission_id FROM submissions")}
    whole = rows(
        path,
        "SELECT count(*) FROM submissions JOIN events USING (seq) JOIN outbox USING (seq) "
        "JOIN recordings ON digest = recording_digest",
    )
    assert set() == set(acknowledged) - stored
    assert [(len(stored),)] == whole
    assert is_intact(path)
