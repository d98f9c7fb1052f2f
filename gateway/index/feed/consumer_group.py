"""Consumer groups on the stream of a lane: each entry goes to one consumer, or to another if it dies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.changes import StandingChange, change_of
from gateway.index.lane_stream import answers_of, position_of
from gateway.index.scripts import PipelinedScript, Script, index_boundary
from policies.errors import IndexUnavailable
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


class GroupEntry(NamedTuple):
    """An entry for one consumer: its id, its board, and its fields; both are empty for a forged entry."""

    stream_id: str
    board: str
    fields: Mapping[str, str]

    def mutation(self, ranking: Ranking) -> Mutation | None:
        """Return the change in the entry, None for a forged one."""
        with suppress(KeyError, ValueError):
            return _mutation_of(change_of(ranking, self.stream_id, self.fields))
        return None


class ChangeBatch(NamedTuple):
    """Entries for one consumer, and the number not yet delivered or acknowledged.

    `last_id` is the stream's last entry. If `is_whole` is False, the group has missed some, and gets no
    entries until it is marked as whole.
    """

    is_whole: bool
    lag: int
    pending: int
    last_id: str
    entries: tuple[GroupEntry, ...]

    @property
    def is_at_rest(self) -> bool:
        """Whether everything up to `last_id` had its effect."""
        return self.is_last and not self.entries

    @property
    def is_last(self) -> bool:
        """Whether everything up to `last_id` had its effect once these entries have."""
        return self.is_whole and not self.lag and self.pending == len(self.entries)


class ConsumerGroup:
    """One group on the stream of one lane. Every method raises IndexUnavailable if Redis does not answer.

    The group is made with the stream's first entry that it is given: an unused lane has neither.
    """

    def __init__(self, client: Redis, lane: int, group: str, consumer: str) -> None:
        self._client = client
        self._group = group
        self._consumer = consumer
        self._keys = (keys.lane_changes(lane), keys.group_mark(lane, group))
        self._take = Script(client, "take_changes", is_raw=True)

    async def take(self, count: int, *, left_ms: int = LEFT_MS, gone_ms: int = GONE_MS) -> ChangeBatch:
        """Return up to `count` entries, abandoned ones first."""
        arguments = [self._group, self._consumer, count, left_ms, gone_ms]
        whole, lag, pending, last_id, entries = await self._take(self._keys, arguments)
        return ChangeBatch(
            bool(whole), int(lag), int(pending), last_id.decode(), tuple(map(_entry_of, entries))
        )

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Acknowledge entries that had their effect; they do not come again."""
        with index_boundary():
            await self._client.xack(self._keys[0], self._group, *ids)


class GroupMarks:
    """The marks of one group in some lanes. Every method raises IndexUnavailable if Redis does not answer."""

    def __init__(self, client: Redis, group: str) -> None:
        self._client = client
        self._group = group
        self._mark = PipelinedScript(client, "mark_group")

    async def begin(self, lanes: Sequence[int]) -> None:
        """Have the group note what comes to the lanes from now on, without marks."""
        await self._mark_all(lanes, 0)

    async def mark_whole(self, lanes: Sequence[int]) -> set[int]:
        """Record that everything missed has had its effect. Return the lanes where no more was missed."""
        marked = await self._mark_all(lanes, 1)
        return {lane for lane, is_whole in zip(lanes, marked, strict=True) if is_whole}

    async def remove(self, lanes: Sequence[int]) -> None:
        """Make the group start from the ledger again."""
        marks = [keys.group_mark(lane, self._group) for lane in lanes]
        await answers_of(self._client, {mark: ("DEL", mark) for mark in marks})

    async def _mark_all(self, lanes: Sequence[int], is_whole: int) -> list[Any]:
        places = ((keys.lane_changes(lane), keys.group_mark(lane, self._group)) for lane in lanes)
        answers = await self._mark([(place, [self._group, is_whole]) for place in places])
        for answer in answers:
            if isinstance(answer, IndexUnavailable):
                raise answer
        return answers


def _entry_of(raw: Any) -> GroupEntry:
    stream_id, flat = raw
    with suppress(ValueError):
        texts = [value.decode() for value in flat]
        fields = dict(zip(texts[::2], texts[1::2], strict=True))
        return GroupEntry(stream_id.decode(), fields.get("board", ""), fields)
    return GroupEntry(stream_id.decode(), "", {})


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
