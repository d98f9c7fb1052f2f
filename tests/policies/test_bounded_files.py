"""Files that somebody names are read up to a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.bounded_files import bytes_of
from policies.errors import SettingsError


def test_a_file_is_read_whole_or_not_at_all(tmp_path: Path):
    """Up to its limit, to the byte; a device that never ends is refused like a file that is longer."""
    file = tmp_path / "file"
    file.write_bytes(b"four")
    assert b"four" == bytes_of(file, 4)
    for path in (file, Path("/dev/zero")):
        with pytest.raises(SettingsError, match="expected up to 3 bytes"):
            bytes_of(path, 3)
