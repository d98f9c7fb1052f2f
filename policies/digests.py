"""The identity of a simulator: one SHA-256 over the file that runs and everything it may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from policies.trees import read_tree


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(path: Path) -> tuple[str, str]:
    """Return the name and digest of a program's file or folder, as listed by `simulator_digest`.

    A folder's name ends with a slash. Raises OSError and TreeRefused.
    """
    if path.is_dir():
        return f"{path.name}/", read_tree(path).digest
    return path.name, sha256_of(path)


def simulator_digest(simulator: str, files: Mapping[str, str]) -> str:
    """Return a simulator's digest (`sha256:<hex>`): its own SHA-256, or that of a list if it has files.

    The list has the form that `sha256sum` prints: the simulator first, under the name `-`, then the files by
    name. Two spaces separate digest and name; a line feed ends each line. `files` maps names to digests, as
    `digest_of` returns them.
    """
    if not files:
        return f"sha256:{simulator}"
    lines = [(simulator, "-"), *((files[name], name) for name in sorted(files))]
    listing = "".join(f"{digest}  {name}\n" for digest, name in lines)
    return "sha256:" + hashlib.sha256(listing.encode()).hexdigest()
