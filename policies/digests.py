"""What a simulator is known by: one SHA-256 for the file that is run and all that it may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from policies.trees import read_tree


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(path: Path) -> tuple[str, str]:
    """The name and the digest that a file or folder among a program's files has in the list of `simulator_digest`.

    The name of a folder ends with a slash. Raises OSError and TreeRefused.
    """
    if path.is_dir():
        return f"{path.name}/", read_tree(path).digest
    return path.name, sha256_of(path)


def simulator_digest(simulator: str, files: Mapping[str, str]) -> str:
    """The digest (`sha256:<hex>`) of a simulator: its own SHA-256, or that of a list of digests where it has files.

    The list is what `sha256sum` prints, the simulator first under the name `-`, then the files by name: two spaces
    between digest and name, a line feed after each. `files` are digests by name, as `digest_of` gives them.
    """
    if not files:
        return f"sha256:{simulator}"
    lines = [(simulator, "-"), *((files[name], name) for name in sorted(files))]
    listed = "".join(f"{digest}  {name}\n" for digest, name in lines)
    return "sha256:" + hashlib.sha256(listed.encode()).hexdigest()
