"""What a simulator is known by: one SHA-256 for the file that is run and all that it may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def simulator_digest(simulator: str, files: Mapping[str, str]) -> str:
    """The digest (`sha256:<hex>`) of a simulator: its own SHA-256, or that of a list of digests where it has files.

    The list is what `sha256sum` prints, the simulator first under the name `-`, then the files by name: two spaces
    between digest and name, a line feed after each. `files` are digests by name.
    """
    if not files:
        return f"sha256:{simulator}"
    lines = [(simulator, "-"), *((files[name], name) for name in sorted(files))]
    listed = "".join(f"{digest}  {name}\n" for digest, name in lines)
    return "sha256:" + hashlib.sha256(listed.encode()).hexdigest()
