"""Seats that are bounded for each client: how many its address holds, and the network around that."""

from __future__ import annotations

from collections import Counter

from gateway.edge.admission.address import ClientName


class Seats:
    """Counts what clients hold. Who holds nothing takes no memory."""

    def __init__(self, of_address: int, of_network: int) -> None:
        self._limits = (of_address, of_network)
        self._held: Counter[str] = Counter()

    def enter(self, names: ClientName) -> bool:
        """Takes one more place; False, with nothing taken, if address or network have all that they may have."""
        if any(self._held[name] >= limit for name, limit in zip(names, self._limits, strict=True)):
            return False
        self._held.update(names)
        return True

    def leave(self, names: ClientName) -> None:
        """Gives one place back."""
        for name in names:
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]

    def __len__(self) -> int:
        """How many names are counted."""
        return len(self._held)
