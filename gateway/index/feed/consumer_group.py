"""Consumer groups on the stream of changes: each entry goes to one consumer, or to another if it dies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.changes import StandingChange, change_of, position_of
from gateway.index.scripts import Script, index_boundary
from policies.ranking import Ranking

LEFT_MS: Final = 30_000
"""Idle time after which another consumer takes over an entry. It exceeds the time of its effect."""

GONE_MS: Final = 3_600_000
"""Silence after which a consumer counts as dead: every steward that starts is a new consumer."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of a standing. `seq` is its ledger version; `score` and `rank` are None without a standing.

    `rank` and `was_rank` are those on the board right after and right before; None too for a change from the
    ledger, which keeps no ranks. `at_ms` is when it was shown, or decided (Unix ms).
    """

    at_ms: int
    seq: int
    window: str
    player: str
    name: str
    submission_id: str
    score: int | None
    rank: int | None
    was_score: int | None
    was_rank: int | None


class ChangeBatch(NamedTuple):
    """Entries for one consumer: ids, mutations, and the number not yet delivered or acknowledged.

    If `is_whole` is False, the group has missed some, and gets no entries until it calls `mark_whole`.
    """

    is_whole: bool
    lag: int
    pending: int
    ids: tuple[str, ...]
    mutations: tuple[Mutation, ...]


class ConsumerGroup:
    """One group on the stream of one board. Every method raises IndexUnavailable if Redis does not answer."""

    def __init__(self, client: Redis, ranking: Ranking, group: str, consumer: str) -> None:
        self.board = board = ranking.policy.board
        self._client = client
        self._ranking = ranking
        self._group = group
        self._consumer = consumer
        self._keys = (keys.changes(board), keys.group_mark(board, group))
        self._take = Script(client, "take_changes", is_raw=True)

    async def take(self, count: int, *, left_ms: int = LEFT_MS, gone_ms: int = GONE_MS) -> ChangeBatch:
        """Return up to `count` entries, abandoned ones first."""
        arguments = [self._group, self._consumer, count, left_ms, gone_ms]
        whole, lag, pending, entries = await self._take(self._keys, arguments)
        ids = tuple(entry[0].decode() for entry in entries)
        return ChangeBatch(bool(whole), int(lag), int(pending), ids, tuple(self._mutations(entries)))

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Acknowledge entries that had their effect; they do not come again."""
        with index_boundary():
            await self._client.xack(self._keys[0], self._group, *ids)

    async def mark_whole(self) -> None:
        """Record that everything missed has had its effect."""
        with index_boundary():
            await self._client.set(self._keys[1], "1")

    async def unmark(self) -> None:
        """Make the group start from the ledger again."""
        with index_boundary():
            await self._client.delete(self._keys[1])

    def _mutations(self, entries: Iterable[Any]) -> Iterator[Mutation]:
        """Yield the mutations in entries; forged entries are skipped."""
        for stream_id, flat in entries:
            with suppress(KeyError, ValueError):
                texts = [value.decode() for value in flat]
                fields = dict(zip(texts[::2], texts[1::2], strict=True))
                yield _mutation_of(change_of(self._ranking, stream_id.decode(), fields))


def _mutation_of(change: StandingChange) -> Mutation:
    return Mutation(
        position_of(change.stream_id)[0],
        change.seq,
        change.window,
        change.player,
        change.name,
        change.submission_id,
        change.score,
        change.rank,
        change.was_score,
        change.was_rank,
    )
