"""Seats of clients, limited for each address and for the network around it."""

from __future__ import annotations

from collections import Counter

from gateway.edge.admission.address import ClientName


class Seats:
    """The seats that clients hold. A client without one takes no memory."""

    def __init__(self, per_address: int, per_network: int) -> None:
        self._limits = (per_address, per_network)
        self._counts: Counter[str] = Counter()

    def enter(self, names: ClientName) -> bool:
        """Take a seat and return True, or False if the address or the network has no seat left."""
        if any(self._counts[name] >= limit for name, limit in zip(names, self._limits, strict=True)):
            return False
        self._counts.update(names)
        return True

    def leave(self, names: ClientName) -> None:
        """Give a seat back."""
        for name in names:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]

    def __len__(self) -> int:
        """Return the number of names that hold seats."""
        return len(self._counts)
