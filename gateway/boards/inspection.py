"""Looking at what the index holds, so that it can be compared with the ledger, and taking out what is not true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.boards import keys
from gateway.boards.scripts import Script
from gateway.records import Standing, StoredBaseline
from policies.errors import IndexUnavailable
from policies.model import Order


@dataclass(frozen=True, slots=True)
class Seen:
    """A member of a window as it stands in Redis, with the slot that should explain it."""

    member: str
    order_value: float
    player: str
    slot: str


class Inspection:
    """One board's index from the outside. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis, board: str, order: Order) -> None:
        self.board = board
        self._client = client
        self._order = order
        self._prune = Script(client, "prune")

    async def is_whole(self) -> bool:
        """False once Redis was emptied, until `mark_whole`."""
        with _answering():
            return bool(await self._client.exists(keys.sentinel(self.board)))

    async def mark_whole(self) -> None:
        """Says that the index holds all that the ledger has."""
        with _answering():
            await self._client.set(keys.sentinel(self.board), "1")

    async def missing(self, standings: Sequence[Standing]) -> list[Standing]:
        """Those standings that the index does not show exactly so."""
        with _answering():
            async with self._client.pipeline(transaction=False) as pipe:
                for each in standings:
                    pipe.hget(keys.members(self.board, each.window), each.player)
                    pipe.zscore(keys.window(self.board, each.window), keys.member_of(each))
                answers = await pipe.execute()
        shown = zip(standings, answers[::2], answers[1::2], strict=True)
        return [each for each, slot, score in shown if not self._is_shown(each, slot, score)]

    async def missing_baselines(self, baselines: Sequence[StoredBaseline]) -> list[StoredBaseline]:
        """Those baselines that the index does not hold exactly so."""
        if not baselines:
            return []
        fields = [keys.baseline_field(each) for each in baselines]
        with _answering():
            held = await self._client.hmget(keys.baselines(self.board), fields)
        return [
            each for each, value in zip(baselines, held, strict=True) if value != keys.baseline_value(each)
        ]

    async def forget(self, standings: Sequence[Standing], baselines: Sequence[StoredBaseline]) -> None:
        """Empties slots and baselines, so that what the ledger has can be shown whatever stands there."""
        with _answering():
            async with self._client.pipeline(transaction=True) as pipe:
                for each in standings:
                    pipe.hdel(keys.members(self.board, each.window), each.player)
                for learnt in baselines:
                    pipe.hdel(keys.baselines(self.board), keys.baseline_field(learnt))
                await pipe.execute()

    async def members(self, window: str, first: int, count: int) -> list[Seen]:
        """Members of a window from 0-based rank `first`, with their slots."""
        with _answering():
            rows: Any = await self._client.zrange(
                keys.window(self.board, window), first, first + count - 1, withscores=True
            )
            players = [keys.player_of(member) for member, _ in rows]
            slots: Any = (
                await self._client.hmget(keys.members(self.board, window), players) if players else []
            )
        seen = zip(rows, players, slots, strict=True)
        return [Seen(member, score, player, slot or "") for (member, score), player, slot in seen]

    async def prune(self, window: str, seen: Sequence[Seen]) -> int:
        """Takes members out of a window; how many were still there unchanged."""
        if not seen:
            return 0
        arguments = list(chain(*((each.member, each.player, each.slot) for each in seen)))
        window_keys = [keys.window(self.board, window), keys.members(self.board, window)]
        return int(await self._prune(window_keys, arguments))

    async def pending(self, first: int, count: int) -> list[str]:
        """Ids on the pending set, longest there first."""
        with _answering():
            found: Any = await self._client.zrange(keys.pending(self.board), first, first + count - 1)
        return list(found)

    async def drop_pending(self, submission_ids: Sequence[str]) -> None:
        """Takes ids off the pending set."""
        if not submission_ids:
            return
        with _answering():
            await self._client.zrem(keys.pending(self.board), *submission_ids)

    def agrees(self, seen: Seen, standing: Standing) -> bool:
        """True if a member is what the ledger's standing says, or an older version of it that is on its way out."""
        is_shown = self._is_shown(standing, seen.slot, seen.order_value)
        return is_shown and seen.member == keys.member_of(standing)

    def _is_shown(self, standing: Standing, slot: str | None, score: float | None) -> bool:
        if slot != keys.slot_value(standing):
            return False
        if standing.score is None:
            return True
        return score == keys.order_value(standing.score, self._order)


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise IndexUnavailable(f"Redis: {error or type(error).__name__}") from error
