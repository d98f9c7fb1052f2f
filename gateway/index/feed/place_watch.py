"""The places of watched players, updated with each change, and the changes of their ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.index.changes import ChangeStream, RankedPlace, StandingChange, rank_shift
from gateway.index.feed.events import EventKind, FeedEvent

WINDOWS_KEPT: Final = 64
"""Windows whose places a watch remembers: more than a board has at a time. An older one is read again."""


class PlaceWatch:
    """The places of some players in every changed window, at one read of Redis per window."""

    def __init__(self, stream: ChangeStream, players: Iterable[str]) -> None:
        self._stream = stream
        self._players = tuple(players)
        self._places: dict[str, dict[str, RankedPlace | None]] = {}

    def forget(self) -> None:
        """Forget every place, after missed changes."""
        self._places.clear()

    async def follow(self, change: StandingChange) -> list[FeedEvent]:
        """Return how a change moved the watched players' ranks. Raises StreamTrimmed and IndexUnavailable."""
        if change.place and not change.place.rank:
            # The board is cold or not whole; places are read again when it is back.
            self._places.pop(change.window, None)
            return []
        places = self._places.get(change.window)
        if places is None:
            places = await self._stream.places_before(change, self._players)
            self._keep(change.window, places)
        moved = []
        for player, known in places.items():
            before, after = await self._moved(player, known, change)
            places[player] = after
            rank, was_rank = after and after.rank, before and before.rank
            if rank != was_rank:
                is_passed = player != change.player and (rank or 0) > (was_rank or 0)
                kind = EventKind.OVERTAKEN if is_passed else EventKind.RANK
                moved.append(FeedEvent(kind, None, change, player, rank, was_rank))
        return moved

    async def _moved(
        self, player: str, known: RankedPlace | None, change: StandingChange
    ) -> tuple[RankedPlace | None, RankedPlace | None]:
        """Return a player's place right before a change and right after it."""
        if player == change.player:
            # The change has the player's place, which is right even after a rebuild moved the player.
            return known, change.place
        steps = rank_shift(known, change) if known else 0
        if not known or not steps:
            return known, known
        after = await self._stream.ranked(change.window, known._replace(rank=known.rank + steps))
        return after._replace(rank=after.rank - steps), after

    def _keep(self, window: str, places: dict[str, RankedPlace | None]) -> None:
        if len(self._places) >= WINDOWS_KEPT:
            del self._places[next(iter(self._places))]
        self._places[window] = places
