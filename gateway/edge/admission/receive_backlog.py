"""Bounds on the bodies that are still arriving, which an edge has to keep until they are whole.

Most bodies come with their head. A client that sends slowly makes the edge keep what has come so far, on each
connection that it opens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.edge.admission.address import ClientName
from gateway.edge.problems import Problem, ProblemType

ADDRESS_PART: Final = 4
NETWORK_PART: Final = 2
"""An address, or a network, may have one part in this many of the process' limit."""


class ReceiveBacklog:
    """The announced bytes of the bodies that are arriving. It belongs to one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes_by_name: Counter[str] = Counter()
        self.total_bytes = 0

    @contextmanager
    def receiving(self, names: ClientName, size_bytes: int) -> Iterator[None]:
        """Count a body of up to `size_bytes` during the block.

        Raises `quota-exceeded` if the client's bodies would have too many bytes, and
        `temporary-reduced-capacity` if all of them would.
        """
        if self.total_bytes + size_bytes > self._limit_bytes:
            raise Problem(ProblemType.REDUCED_CAPACITY, "too many large bodies are arriving")
        parts = ((names.address, ADDRESS_PART), (names.network, NETWORK_PART))
        for name, part in parts:
            if self._bytes_by_name[name] + size_bytes > self._limit_bytes // part:
                detail = "your address, or its network, is sending too many large bodies at once"
                raise Problem(ProblemType.QUOTA_EXCEEDED, detail)
        self._add(names, size_bytes)
        try:
            yield
        finally:
            self._add(names, -size_bytes)

    def _add(self, names: ClientName, size_bytes: int) -> None:
        self.total_bytes += size_bytes
        for name in names:
            self._bytes_by_name[name] += size_bytes
            if not self._bytes_by_name[name]:
                del self._bytes_by_name[name]
