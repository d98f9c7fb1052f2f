"""Merkle trees of RFC 9162 (and RFC 6962): roots, inclusion paths, and their check. Pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

DIGEST_BYTES: Final = 32

_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"
"""Leaves and nodes have different prefixes, so that neither can pass as the other (RFC 9162, §2.1.1)."""


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry as a leaf: SHA-256(0x00 || entry)."""
    return hashlib.sha256(_LEAF + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node over its two children: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(_NODE + left + right).digest()


class Fold:
    """The running root of leaves that come one by one. It keeps one hash per bit of their number.

    The stack is that of RFC 9162, §2.1.2: the roots of the full subtrees to the left, the largest first.
    """

    def __init__(self) -> None:
        self.size = 0
        self._stack: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add the hash of the next leaf."""
        for _ in range((~self.size & (self.size + 1)).bit_length() - 1):  # trailing ones of the old size
            leaf = node_hash(self._stack.pop(), leaf)
        self._stack.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the root so far. Without leaves it is the hash of no bytes."""
        if not self._stack:
            return hashlib.sha256().digest()
        *rest, root = self._stack
        for left in reversed(rest):
            root = node_hash(left, root)
        return root


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over the hashes of leaves."""
    fold = Fold()
    for leaf in leaves:
        fold.append(leaf)
    return fold.root()


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the siblings on the way from leaf `index` up to the root, lowest first (RFC 9162, §2.1.3.1)."""
    path: list[bytes] = []
    while len(leaves) > 1:
        split = 1 << ((len(leaves) - 1).bit_length() - 1)  # the largest power of two below their number
        if index < split:
            path.append(root_of(leaves[split:]))
            leaves = leaves[:split]
        else:
            path.append(root_of(leaves[:split]))
            leaves, index = leaves[split:], index - split
    return path[::-1]


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that a path leads to from leaf `index` of `size`, or None if its length is wrong.

    The algorithm is that of RFC 9162, §2.1.3.2.
    """
    if not 0 <= index < size:
        return None
    at, last, root = index, size - 1, leaf
    for sibling in path:
        if not last:
            return None
        if at & 1 or at == last:
            root = node_hash(sibling, root)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            root = node_hash(root, sibling)
        at, last = at >> 1, last >> 1
    return root if not last else None
