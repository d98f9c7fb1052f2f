"""What a board of a family gives its simulator besides the run: parameters, and a file such as a map."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Asset:
    """A board's file, and the SHA-256 that it is known by. The bytes have that digest."""

    digest: bytes
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> Self:
        """Return the asset with this content."""
        return cls(hashlib.sha256(content).digest(), content)


@dataclass(frozen=True, slots=True)
class BoardContent:
    """A board's parameters (canonical JSON, empty for none) and its asset, if it has one."""

    parameters: bytes = b""
    asset: Asset | None = None


EMPTY_CONTENT: Final = BoardContent()
"""The content of a board of its own, and of a board that was opened without any."""
