"""Changes of shards on the stream of the whole board: told once, though several processes tell them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.shards import ShardedIndex
from gateway.records import Change
from policies.vocabulary import State
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

RANKING = a_ranking("b", shards=2)


class Interrupted(ShardedIndex):
    """One process, between whose look at a shard and its telling another does the same, once."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def _told(self, changes: Any) -> Any:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            await meanwhile()
        return await super()._told(changes)


async def test_a_change_that_two_processes_relay_at_once_is_told_once(client: Redis):
    """Who was slower finds that the shard has been told of, and the next change is told all the same."""
    slow, other = Interrupted(client, RANKING), ShardedIndex(client, RANKING)
    for seq in (1, 2):
        standing = a_standing("ada", seq, at_ms=seq, seq=seq, ranking=RANKING)
        change = Change(seq, f"s{seq}", "b", "ada", State.PROMOTED, (standing,))
        await slow._of("ada").project(change)
        slow.meanwhile = other.relay
        await slow.relay()
        assert [str(number) for number in range(1, seq + 1)] == [
            fields["seq"] for _, fields in await client.xrange(keys.changes("b"))
        ]
