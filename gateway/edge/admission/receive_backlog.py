"""Bounds on the bodies that are still arriving, which an edge has to keep until they are whole.

Most bodies come with their head. A client that sends slowly makes the edge keep what has come so far, on each
connection that it opens. What is only announced costs nothing, so it does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gateway.edge.admission.address import ClientName
from gateway.edge.problems import Problem, ProblemType

ADDRESS_PART: Final = 4
NETWORK_PART: Final = 2
"""An address, or a network, may have one part in this many of the process' limit."""

UNCOUNTED_BYTES: Final = 8_192
"""The first bytes of each body, which do not count: no more than a line of its head may have.

The bounds on connections bound them, and a small body is never refused for the large ones of others.
"""


class ReceiveBacklog:
    """The bytes that have come of the bodies that are arriving. It belongs to one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes_by_name: Counter[str] = Counter()
        self.total_bytes = 0

    @contextmanager
    def receiving(self, names: ClientName) -> Iterator[Callable[[int], None]]:
        """Count a body during the block, which calls what it gets with the size that has come so far.

        The call raises `quota-exceeded` if the client's bodies have too many bytes, and
        `temporary-reduced-capacity` if all of them have.
        """
        counted = 0

        def count(size_bytes: int) -> None:
            nonlocal counted
            more = max(0, size_bytes - UNCOUNTED_BYTES) - counted
            if more > 0:
                self._refuse_beyond(names, more)
                self._add(names, more)
                counted += more

        try:
            yield count
        finally:
            self._add(names, -counted)

    def _refuse_beyond(self, names: ClientName, more: int) -> None:
        if self.total_bytes + more > self._limit_bytes:
            raise Problem(ProblemType.REDUCED_CAPACITY, "too many large bodies are arriving")
        for name, part in ((names.address, ADDRESS_PART), (names.network, NETWORK_PART)):
            if self._bytes_by_name[name] + more > self._limit_bytes // part:
                detail = "your address, or its network, is sending too many large bodies at once"
                raise Problem(ProblemType.QUOTA_EXCEEDED, detail)

    def _add(self, names: ClientName, more: int) -> None:
        self.total_bytes += more
        for name in names:
            self._bytes_by_name[name] += more
            if not self._bytes_by_name[name]:
                del self._bytes_by_name[name]
