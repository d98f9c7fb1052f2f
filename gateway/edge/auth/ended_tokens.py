"""Which tokens of players are over, as an edge knows it: a bit for each of many players, and the ledger.

The bits take the same memory however many players there are. A bit that is not set says that none of its
players' tokens was ever ended; for the others the ledger is asked, and its answer kept while there is room.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from gateway.edge.auth.tokens import Bearer
from gateway.ledger.ledger import Ledger
from gateway.ledger.players.token_endings import TokenEnding, ending_of, endings_after
from gateway.ledger.reads import ReadKind
from gateway.runtime.refreshing import refresh_for_ever
from gateway.runtime.unexpected import FaultPlace

REFRESH_S: Final = 1.0
"""Time between two reads of the ledger, and so the delay of an end that another process made."""

BITS: Final = 2**23
"""One mebibyte. After the ends of a hundred thousand players one other player in eighty shares a bit."""

KEPT: Final = 4_096
"""Answers of the ledger that are kept."""

PAGE: Final = 1_000
"""Ends of one read."""


class EndedTokens:
    """The ends of players' tokens. While the ledger cannot be read, those that were last read hold.

    Until they have been read for the first time, the ledger is asked about each token.
    """

    def __init__(self, ledger: Ledger, *, bits: int = BITS) -> None:
        self._ledger = ledger
        self._bits = bytearray(bits // 8)
        self._kept: OrderedDict[str, TokenEnding | None] = OrderedDict()
        self._seen = 0
        self._is_read = False
        self._refreshing = asyncio.Lock()

    async def has_ended(self, bearer: Bearer) -> bool:
        """Return whether a token is over. Raises LedgerUnavailable."""
        if self._is_read and not self._is_set(bearer.subject):
            return False
        ending = await self._ending_of(bearer.subject)
        return ending is not None and ending.ends(bearer.generation, bearer.issued_at_s)

    def note(self, ending: TokenEnding) -> None:
        """Know of an end from now on."""
        byte, bit = self._place(ending.player)
        self._bits[byte] |= bit
        kept = self._kept.get(ending.player)
        if kept is None or kept.changed_seq < ending.changed_seq:
            self._keep(ending.player, ending)

    async def refresh(self) -> None:
        """Read what has changed, one at a time. Raises LedgerUnavailable."""
        async with self._refreshing:
            while page := await self._ledger.read(endings_after(self._seen, count=PAGE), ReadKind.REQUESTS):
                for ending in page:
                    self.note(ending)
                self._seen = page[-1].changed_seq
                if len(page) < PAGE:
                    break
            self._is_read = True

    async def keep_fresh(self) -> None:
        """Read what has changed every REFRESH_S until cancelled."""
        await refresh_for_ever(self.refresh, REFRESH_S, part="tokens", place=FaultPlace.TOKENS)

    async def _ending_of(self, player: str) -> TokenEnding | None:
        if player in self._kept:
            self._kept.move_to_end(player)
            return self._kept[player]
        seen = self._seen
        ending = await self._ledger.read(ending_of(player), ReadKind.REQUESTS)
        if ending is not None:
            self.note(ending)
        elif self._seen == seen and player not in self._kept:  # else it may have been ended meanwhile
            self._keep(player, None)
        return self._kept.get(player, ending)

    def _keep(self, player: str, ending: TokenEnding | None) -> None:
        self._kept[player] = ending
        self._kept.move_to_end(player)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _is_set(self, player: str) -> bool:
        byte, bit = self._place(player)
        return bool(self._bits[byte] & bit)

    def _place(self, player: str) -> tuple[int, int]:
        at = hash(player) % (len(self._bits) * 8)
        return at // 8, 1 << at % 8
