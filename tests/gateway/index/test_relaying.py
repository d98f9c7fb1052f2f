"""Changes of shards on the stream of the whole board: told once, though several processes tell them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.shards import ShardedIndex
from gateway.shared_records import Change
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


FOREIGN: dict[str, dict[str, str | bytes]] = {
    "half of an entry": {"player": "eve"},
    "bytes that are no text": {"player": b"\xff"},
    "an order that is no number": {"order": "much"},
    "a window that the board never has": {"window": "names"},
    "fields of its own": {"more": "of it"},
}


@pytest.mark.parametrize("foreign", FOREIGN)
async def test_I26_what_somebody_adds_to_the_stream_of_a_shard_stops_no_change(client: Redis, foreign: str):
    """It is passed over, and the changes around it are told as they are, each once."""
    index = ShardedIndex(client, RANKING)
    shard = index._of("ada")

    async def score(seq: int) -> None:
        standing = a_standing("ada", seq, at_ms=seq, seq=seq, ranking=RANKING)
        await index.project(Change(seq, f"s{seq}", "b", "ada", State.PROMOTED, (standing,)))

    await score(1)
    [(_, ours)] = await client.xrange(keys.changes(shard.board))
    is_whole = foreign not in {"half of an entry", "bytes that are no text"}
    added: Any = (ours if is_whole else {}) | FOREIGN[foreign]
    for _ in range(2):
        await client.xadd(keys.changes(shard.board), added)
    for seq in (2, 3):
        await score(seq)
    told = [fields for _, fields in await client.xrange(keys.changes("b"))]
    expected = ["1", "1", "1", "2", "3"] if foreign == "fields of its own" else ["1", "2", "3"]
    assert (expected, {"ada"}) == ([each["seq"] for each in told], {each["player"] for each in told})
    assert {tuple(ours)} == {tuple(each) for each in told}


@pytest.mark.parametrize("place", ["nowhere", b"\xff", "99999999999999-0"])
async def test_I26_a_place_that_a_shard_never_came_to_has_it_told_from_its_beginning(
    client: Redis, place: str | bytes
):
    """By whoever it was written, or of a shard that was lost with a clock that was ahead: nothing is left out for that."""
    index = ShardedIndex(client, RANKING)
    for seq in (1, 2):
        await client.hset(keys.relayed("b"), str(index._of("ada").number), place)
        standing = a_standing("ada", seq, at_ms=seq, seq=seq, ranking=RANKING)
        await index.project(Change(seq, f"s{seq}", "b", "ada", State.PROMOTED, (standing,)))
    assert ["1", "1", "2"] == [fields["seq"] for _, fields in await client.xrange(keys.changes("b"))]


async def test_ranks_before_and_after_a_change_are_those_of_the_whole_board(client: Redis):
    """Of who goes up and of who goes down: nobody is behind or ahead of themself."""
    index = ShardedIndex(client, RANKING)
    for seq, (player, score) in enumerate(
        [("ada", 5), ("bob", 7), ("cy", 3), ("ada", 9), ("ada", 1)], start=1
    ):
        await index.restore(player, [a_standing(player, score, seq, seq, RANKING)], [])
    told = [
        (each["player"], each["was_rank"], each["rank"]) for _, each in await client.xrange(keys.changes("b"))
    ]
    assert [
        ("ada", "0", "1"),
        ("bob", "0", "1"),
        ("cy", "0", "3"),
        ("ada", "2", "1"),
        ("ada", "1", "3"),
    ] == told


async def test_no_ranks_are_told_while_another_shard_is_not_whole(client: Redis):
    """Neither that after a change nor that before it, though the player's own shard has both."""
    index = ShardedIndex(client, RANKING)
    index.guard()
    own = index._of("ada").board
    [other] = {shard.board for shard in index.shards} - {own}
    await client.set(keys.sentinel(own), "1")
    for seq, is_whole in enumerate((True, False, True), start=1):
        if is_whole:
            await client.set(keys.sentinel(other), "1")
        else:
            await client.delete(keys.sentinel(other))
        standing = a_standing("ada", seq, at_ms=seq, seq=seq, ranking=RANKING)
        await index.project(Change(seq, f"s{seq}", "b", "ada", State.PROMOTED, (standing,)))
    told = [(each["rank"], each["was_rank"]) for _, each in await client.xrange(keys.changes("b"))]
    assert [("1", "0"), ("0", "0"), ("1", "1")] == told
