"""The changes of one board, as entries of the stream of its lane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.cluster import RAW
from gateway.index.lane_stream import (
    PAGE,
    Entry,
    LaneStream,
    StreamTrimmed,
    is_stream_id,
    of_board,
    position_of,
)
from gateway.index.ranges import window_key
from gateway.index.scripts import Script, index_boundary
from policies.ranking import Ranking
from policies.windows import window_named

MOST_UNDONE: Final = 2_000
"""Most changes of a window that are undone to find where players stood."""

MOST_SEARCHED: Final = 10_000
"""Most entries of a lane that are read to find these changes."""

UNDONE_TOGETHER: Final = 50
"""Changes undone before other tasks get their turn: each one visits all watched players."""

LARGEST: Final = 2**53
"""The largest order and rank. A larger number in an entry is forged, and JSON could not hold it."""

_PLACED: Final = ("order", "member", "rank")
FIELDS: Final = (
    "board",
    "seq",
    "window",
    "player",
    "name",
    "submission",
    *_PLACED,
    *(f"was_{field}" for field in _PLACED),
)
"""The fields of a stream's entry."""


class RankedPlace(NamedTuple):
    """The place and 1-based rank of a standing in a window. (order, member) sorts as the board does."""

    order: int
    member: str
    rank: int

    def is_ahead_of(self, other: RankedPlace) -> bool:
        """Return whether this place comes before the other one."""
        return self[:2] < other[:2]


@dataclass(frozen=True, slots=True)
class StandingChange:
    """A change of a standing. `stream_id` orders the feed; `seq` is the ledger's number.

    `place` is None if the player no longer has a standing, `was` if the player had none before. `score` and
    `was_score` belong to them.
    """

    stream_id: str
    seq: int
    window: str
    player: str
    name: str
    submission_id: str
    place: RankedPlace | None
    was: RankedPlace | None
    score: int | None
    was_score: int | None

    @property
    def position(self) -> tuple[int, int]:
        """The stream id as a sortable pair."""
        return position_of(self.stream_id)

    @property
    def rank(self) -> int | None:
        """The rank right after the change; None also if the board was cold or not whole in Redis."""
        return (self.place.rank or None) if self.place else None

    @property
    def was_rank(self) -> int | None:
        """The rank right before the change; None in the same cases."""
        return (self.was.rank or None) if self.was else None


class ChangePage(NamedTuple):
    """Changes of a board in order, how many entries of its lane were read, and the id of the last one."""

    changes: tuple[StandingChange, ...]
    read: int
    last_id: str
    is_last: bool


class ChangeStream:
    """The changes of a board on the stream of its lane.

    Every method raises IndexUnavailable if Redis does not answer.
    """

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self.board = ranking.policy.board
        self.lane = LaneStream(client, keys.changes(self.board))
        self._ranking = ranking
        self._places = Script(client, "read_places")

    async def pages_after(self, last_id: str, page: int = PAGE) -> AsyncIterator[ChangePage]:
        """Yield everything after an entry of the lane, up to now. Raises StreamTrimmed."""
        async for entries, last, is_last in self.lane.pages_after(last_id, page):
            yield ChangePage(self.changes_in(entries), len(entries), last, is_last)

    def changes_in(self, entries: Iterable[Entry]) -> tuple[StandingChange, ...]:
        """Return the board's changes among entries of its lane; forged entries are skipped."""
        return tuple(self._changes_in(of_board(self.board, entries)))

    async def places_before(
        self, change: StandingChange, players: Sequence[str]
    ) -> dict[str, RankedPlace | None]:
        """Return where players stood in a change's window right before it. Raises StreamTrimmed.

        Redis returns where they stand now, and as of which entry; the changes between the two are undone.
        """
        as_of, places = await self._places_now(change.window, players)
        changes = [change, *await self._between(change, as_of)]
        for number, later in enumerate(reversed(changes)):
            if number % UNDONE_TOGETHER == 0:
                await asyncio.sleep(0)
            undo(places, later)
        return places

    async def ranked(self, _window: str, place: RankedPlace) -> RankedPlace:
        """Return a place with its rank, which is known here: each change says how far ranks move."""
        return place

    async def _places_now(
        self, window: str, players: Sequence[str]
    ) -> tuple[str, dict[str, RankedPlace | None]]:
        """Return the last entry's id, and where players stand as of it."""
        window_keys = (window_key(self._ranking, window), keys.members(self.board, window), self.lane.key)
        as_of, rows = await self._places(window_keys, players)
        return as_of, {player: _place_in(row) for player, row in zip(players, rows, strict=True)}

    async def _between(self, change: StandingChange, last_id: str) -> list[StandingChange]:
        """Return the changes of the same window after `change`, up to `last_id`."""
        end, read = position_of(last_id), 0
        between: list[StandingChange] = []
        async for page in self.pages_after(change.stream_id):
            between += [
                later for later in page.changes if later.position <= end and later.window == change.window
            ]
            read += page.read
            if len(between) > MOST_UNDONE or read > MOST_SEARCHED:
                raise StreamTrimmed
            if position_of(page.last_id) >= end:
                break
        return between

    def _changes_in(self, entries: Iterable[Entry]) -> Iterator[StandingChange]:
        for stream_id, fields in entries:
            with suppress(KeyError, ValueError):
                yield change_of(self._ranking, stream_id, fields)


def change_of(ranking: Ranking, stream_id: str, fields: Mapping[str, str]) -> StandingChange:
    """Return the change in an entry of a board's stream. Raises KeyError or ValueError for a forged entry."""
    place = _place(fields["order"], fields["member"], fields["rank"])
    was = _place(fields["was_order"], fields["was_member"], fields["was_rank"])
    window, seq = fields["window"], int(fields["seq"])
    ids = (window, fields["player"], fields["submission"])
    if not 0 <= seq <= LARGEST or not all(text.isascii() and text.isprintable() for text in ids):
        raise ValueError("no event and no submission has such an id")
    return StandingChange(
        stream_id,
        seq,
        *(window, fields["player"], fields["name"], fields["submission"]),
        place,
        was,
        score=None if place is None else ranking.score_at(window, place.order),
        was_score=None if was is None else ranking.score_at(window, was.order),
    )


async def read_raw_changes(
    client: Redis, ranking: Ranking, last_id: str, count: int
) -> tuple[list[dict[str, str]], str]:
    """Return the changes in the next `count` entries of a shard's stream, and the last entry's id or "".

    An id ahead of the stream is forged or from an earlier stream: reading then starts from the beginning.
    """

    async def entries(command: str, begin: str, end: str, most: int) -> Any:
        parts = (command, keys.changes(ranking.policy.board), begin, end, "COUNT", most)
        with index_boundary():
            return await client.execute_command(*parts, **RAW)  # type: ignore[no-untyped-call]

    rows = await entries("XRANGE", f"({last_id}" if is_stream_id(last_id) else "-", "+", count)
    if not rows and last_id:
        newest = await entries("XREVRANGE", "+", "-", 1)
        if newest and position_of(newest[0][0].decode()) < position_of(last_id):
            rows = await entries("XRANGE", "-", "+", count)
    changes = (_raw_change(ranking, stream_id, fields) for stream_id, fields in rows)
    return [change for change in changes if change], rows[-1][0].decode() if rows else ""


def _raw_change(ranking: Ranking, stream_id: bytes, fields: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """Return the fields of an entry of a shard's stream, None for a forged one."""
    with suppress(KeyError, ValueError):
        change = {name: fields[name.encode()].decode() for name in FIELDS}
        window_named(ranking.policy, change_of(ranking, stream_id.decode(), change).window)
        return change
    return None


def undo(places: dict[str, RankedPlace | None], change: StandingChange) -> None:
    """Change places after a change back to those before it."""
    for player, place in places.items():
        if player == change.player:
            places[player] = change.was
        elif place is not None:
            places[player] = place._replace(rank=place.rank - rank_shift(place, change))


def rank_shift(place: RankedPlace, change: StandingChange) -> int:
    """Return how far another player's change moves the rank at a place: 1 is down, -1 is up."""
    is_ahead = change.place is not None and change.place.is_ahead_of(place)
    was_ahead = change.was is not None and change.was.is_ahead_of(place)
    return int(is_ahead) - int(was_ahead)


def _place_in(row: Sequence[Any]) -> RankedPlace | None:
    try:
        return _place(row[0], row[1], row[2] + 1) if row else None
    except ValueError:  # a forged ZSET score
        return None


def _place(order: str, member: str, rank: str | int) -> RankedPlace | None:
    if not order:
        return None
    place = RankedPlace(int(order), member, int(rank))
    if abs(place.order) > LARGEST or not 0 <= place.rank <= LARGEST:
        raise ValueError("no board has such a place")
    return place
