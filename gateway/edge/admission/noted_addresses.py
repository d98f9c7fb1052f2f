"""What an edge knows of the addresses that the ledger has noted, so that a submission asks it once a day."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gateway.edge.admission.address import ClientAddresses
from gateway.ledger.players.addresses import AGAIN_MS

LIMIT: Final = 65_536
"""Most players with an address that an edge remembers. The ledger is asked again for others."""


class NotedAddresses:
    """The hashed addresses of players that are noted already. Without `is_on` none ever is to be."""

    def __init__(self, addresses: ClientAddresses, *, is_on: bool) -> None:
        self._nobody = addresses.name(None, ())
        self._is_on = is_on
        self._noted: OrderedDict[tuple[str, str], int] = OrderedDict()

    def to_note(self, player: str, address: str, *, now_ms: int) -> str:
        """Return the address if the ledger may lack it, else an empty text."""
        if not self._is_on or address == self._nobody:
            return ""
        return "" if now_ms < self._noted.get((player, address), 0) + AGAIN_MS else address

    def note(self, player: str, address: str, *, now_ms: int) -> None:
        """Remember that the ledger has the address of a player, unless it is empty."""
        if not address:
            return
        self._noted[player, address] = now_ms
        self._noted.move_to_end((player, address))
        if len(self._noted) > LIMIT:
            self._noted.popitem(last=False)
