"""The changes of a board in shards, copied from the shards' streams to its lane a moment later."""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from gateway.index.changes import ChangeStream, RankedPlace
from gateway.index.shards import QUESTIONS_AT_ONCE, ShardedIndex
from gateway.runtime.concurrency import in_turns
from policies.ranking import BoardPlace, Ranking


class ShardedChangeStream(ChangeStream):
    """The changes of a board in shards.

    Overtaking follows from places alone, and is exact. Ranks are counted in the shards when an event is sent:
    the shards are ahead of the board's stream, so ranks cannot be followed from entry to entry.
    """

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        super().__init__(client, ranking)
        self._index = ShardedIndex(client, ranking)

    async def ranked(self, window: str, place: RankedPlace) -> RankedPlace:
        """Return the place with its current rank."""
        ahead = await self._index.position(window, BoardPlace(place.order, place.member))
        return place._replace(rank=ahead + 1)

    async def _places_now(
        self, window: str, players: Sequence[str]
    ) -> tuple[str, dict[str, RankedPlace | None]]:
        # The entry is read before the places: its change is in the shards already.
        as_of = await self.lane.newest_id() or ""
        reads = (self._place_of(window, player) for player in players)
        places = await in_turns(reads, at_once=QUESTIONS_AT_ONCE)
        return as_of, dict(zip(players, places, strict=True))

    async def _place_of(self, window: str, player: str) -> RankedPlace | None:
        page = await self._index.around(window, player, 0)
        if page is None:
            return None
        [entry] = page.entries
        return RankedPlace(*entry.place, entry.rank)


def change_stream(client: Redis, ranking: Ranking) -> ChangeStream:
    """Return the stream of a board's changes."""
    kind = ShardedChangeStream if ranking.policy.shards > 1 else ChangeStream
    return kind(client, ranking)
