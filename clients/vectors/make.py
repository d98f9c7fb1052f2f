"""Writes the vectors beside this file: `python -m clients.vectors.make`.

What they expect comes from hashlib, hmac, cryptography and json alone, never from a client or the gateway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from clients.vectors import claims, digests, recordings, requests, signatures

FOLDER: Final = Path(__file__).parent

FILES: Final[dict[str, Callable[[], Sequence[dict[str, Any]]]]] = {
    "signatures.json": signatures.vectors,
    "requests.json": requests.vectors,
    "digests.json": digests.vectors,
    "claims.json": claims.vectors,
    "recordings.json": recordings.valid,
    "unencodable.json": recordings.unencodable,
    "malformed.json": recordings.malformed,
}
"""The vectors of each file: an array of flat objects."""


def text_of(vectors: Sequence[dict[str, Any]]) -> str:
    """Return the text of a file: pure ASCII, an object a line."""
    names = [vector["name"] for vector in vectors]
    if len(set(names)) != len(names):
        raise ValueError(f"two vectors have the same name: {sorted(names)}")
    return "[\n" + ",\n".join(json.dumps(vector) for vector in vectors) + "\n]\n"


def main() -> None:
    """Write every file."""
    for name, vectors in FILES.items():
        (FOLDER / name).write_text(text_of(vectors()), "ascii")


if __name__ == "__main__":
    main()
