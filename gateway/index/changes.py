"""One board's stream of changes: what an entry says, and reading on from an entry without a hole."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from gateway.index import keys
from gateway.index.ranges import window_key
from gateway.index.scripts import Script, index_boundary
from policies.ranking import Ranking
from policies.windows import window_named

PAGE: Final = 100
"""Changes read at once. Fewer than a listener may fall behind, so that no burst alone makes one fall behind."""

MOST_UNDONE: Final = 2_000
"""Changes of a window that are undone to find where players stood; further back it is not worth looking."""

UNDONE_TOGETHER: Final = 50
"""Changes that are undone before others have their turn: each goes through all players that are watched."""

LARGEST: Final = 2**53
"""No order value and no rank is beyond it; a larger number in an entry is forged, and JSON would not take it."""

_PLACED: Final = ("order", "member", "rank")
FIELDS: Final = (
    "seq",
    "window",
    "player",
    "name",
    "submission",
    *_PLACED,
    *(f"was_{each}" for each in _PLACED),
)
"""What an entry of a stream consists of."""

STREAM_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


def is_stream_id(text: str) -> bool:
    """True for what Redis takes for the id of an entry: two numbers of 64 bits."""
    return bool(STREAM_ID.fullmatch(text)) and all(int(part) < 2**64 for part in text.split("-"))


class StreamTrimmed(Exception):
    """The stream does not have the entry to go on from: it was trimmed away, or Redis was emptied since."""


class RankedPlace(NamedTuple):
    """Where a standing is in a window. (order, member) sorts as the board does; rank 1 is first."""

    order: int
    member: str
    rank: int

    def is_ahead_of(self, other: RankedPlace) -> bool:
        """True if this place comes before the other one."""
        return self[:2] < other[:2]


@dataclass(frozen=True, slots=True)
class StandingChange:
    """A standing changed. `stream_id` orders the feed, `seq` is the ledger's number of it; `place` None: the player stands there no more.

    `was` is where the player stood before, None for nowhere; `score` and `was_score` go with them.
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
        """The stream id as what it sorts by."""
        return position_of(self.stream_id)

    @property
    def rank(self) -> int | None:
        """The rank right after the change; None also where the board was not whole in Redis, as a cold one."""
        return (self.place.rank or None) if self.place else None

    @property
    def was_rank(self) -> int | None:
        """The rank right before the change; None also as for `rank`."""
        return (self.was.rank or None) if self.was else None


class ChangePage(NamedTuple):
    """Changes in order, and the id of the last entry looked at, which need not be one of theirs."""

    changes: tuple[StandingChange, ...]
    last_id: str
    is_last: bool


class ChangeStream:
    """The changes of a board. Every method raises IndexUnavailable when Redis does not answer."""

    def __init__(self, client: Redis, ranking: Ranking) -> None:
        self.board = ranking.policy.board
        self.key = keys.changes(self.board)
        self._client = client
        self._ranking = ranking
        self._places = Script(client, "read_places")

    async def newest_id(self) -> str | None:
        """The id of the last entry, None while there is none."""
        with index_boundary():
            rows = await self._client.xrevrange(self.key, count=1)
        return str(rows[0][0]) if rows else None

    async def after(self, last_id: str, count: int = PAGE) -> ChangePage:
        """Up to `count` entries after one that was read before. Raises StreamTrimmed.

        The entry itself is read again with those after it, in one command: while it is still there, none after it was
        trimmed, and the stream is the one that it was read from.
        """
        with index_boundary():
            rows: Any = await self._client.xrange(self.key, min=last_id, count=count + 1)
        if not rows or rows[0][0] != last_id:
            raise StreamTrimmed
        return ChangePage(tuple(self._changes_in(rows[1:])), rows[-1][0], is_last=len(rows) <= count)

    def page(self, rows: Sequence[Any]) -> ChangePage:
        """Entries that were read already, at least one."""
        return ChangePage(tuple(self._changes_in(rows)), rows[-1][0], is_last=False)

    async def pages_after(self, last_id: str, page: int = PAGE) -> AsyncIterator[ChangePage]:
        """Everything after an entry, up to now. Raises StreamTrimmed."""
        is_last = False
        while not is_last:
            found = await self.after(last_id, page)
            yield found
            last_id, is_last = found.last_id, found.is_last

    async def places_before(
        self, change: StandingChange, players: Sequence[str]
    ) -> dict[str, RankedPlace | None]:
        """Where players stood in the window of a change right before it. Raises StreamTrimmed.

        Redis tells where they stand now, and as of which entry; the changes from the one to the other are undone.
        """
        as_of, places = await self._places_now(change.window, players)
        for number, each in enumerate(reversed([change, *await self._between(change, as_of)])):
            if number % UNDONE_TOGETHER == 0:
                await asyncio.sleep(0)
            undo(places, each)
        return places

    async def ranked(self, _window: str, place: RankedPlace) -> RankedPlace:
        """A place that was followed change by change, with its rank; here each change says by how much that moves."""
        return place

    async def _places_now(
        self, window: str, players: Sequence[str]
    ) -> tuple[str, dict[str, RankedPlace | None]]:
        """Where players stand, and as of which entry."""
        names = (window_key(self._ranking, window), keys.members(self.board, window), self.key)
        as_of, rows = await self._places(names, players)
        return as_of, {player: _place_in(row) for player, row in zip(players, rows, strict=True)}

    async def _between(self, change: StandingChange, last_id: str) -> list[StandingChange]:
        """The changes of the same window after `change`, up to `last_id`."""
        end = position_of(last_id)
        found = []
        async for page in self.pages_after(change.stream_id):
            found += [each for each in page.changes if each.position <= end and each.window == change.window]
            if len(found) > MOST_UNDONE:
                raise StreamTrimmed
            if position_of(page.last_id) >= end:
                break
        return found

    def _changes_in(self, rows: Iterable[tuple[str, dict[str, str]]]) -> Iterator[StandingChange]:
        """The changes among entries of the stream; what we never wrote so is no change."""
        for stream_id, fields in rows:
            with suppress(KeyError, ValueError):
                yield change_of(self._ranking, stream_id, fields)


def change_of(ranking: Ranking, stream_id: str, fields: Mapping[str, str]) -> StandingChange:
    """What an entry of a board's stream says. Raises KeyError or ValueError for one that we never wrote."""
    place = _place(fields["order"], fields["member"], fields["rank"])
    was = _place(fields["was_order"], fields["was_member"], fields["was_rank"])
    window, seq = fields["window"], int(fields["seq"])
    ids = (window, fields["player"], fields["submission"])
    if not 0 <= seq <= LARGEST or not all(each.isascii() and each.isprintable() for each in ids):
        raise ValueError("no event and no submission is called so")
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
    """Return the changes among the next `count` entries of a board's stream, and the id of the last entry, "" for none.

    An id that the stream has not come to is forged, or that of a stream before it: then reading begins anew.
    """

    async def entries(command: str, begin: str, end: str, most: int) -> Any:
        asked = (command, keys.changes(ranking.policy.board), begin, end, "COUNT", most)
        with index_boundary():
            return await client.execute_command(*asked, **{NEVER_DECODE: True})  # type: ignore[no-untyped-call]

    rows = await entries("XRANGE", f"({last_id}" if is_stream_id(last_id) else "-", "+", count)
    if not rows and last_id:
        newest = await entries("XREVRANGE", "+", "-", 1)
        if newest and position_of(newest[0][0].decode()) < position_of(last_id):
            rows = await entries("XRANGE", "-", "+", count)
    found = (_written(ranking, stream_id, fields) for stream_id, fields in rows)
    return [each for each in found if each], rows[-1][0].decode() if rows else ""


def _written(ranking: Ranking, stream_id: bytes, fields: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """The fields of an entry of a board's stream, None for one that we never wrote."""
    with suppress(KeyError, ValueError):
        found = {name: fields[name.encode()].decode() for name in FIELDS}
        window_named(ranking.policy, change_of(ranking, stream_id.decode(), found).window)
        return found
    return None


def undo(places: dict[str, RankedPlace | None], change: StandingChange) -> None:
    """Puts places after a change back to what they were before it."""
    for player, place in places.items():
        if player == change.player:
            places[player] = change.was
        elif place is not None:
            places[player] = place._replace(rank=place.rank - rank_shift(place, change))


def rank_shift(place: RankedPlace, change: StandingChange) -> int:
    """By how much another player's change moves the rank of who stands at a place: 1 is down, -1 is up."""
    is_ahead = change.place is not None and change.place.is_ahead_of(place)
    was_ahead = change.was is not None and change.was.is_ahead_of(place)
    return int(is_ahead) - int(was_ahead)


def position_of(stream_id: str) -> tuple[int, int]:
    """A stream id as what it sorts by."""
    milliseconds, _, counter = stream_id.partition("-")
    return int(milliseconds or 0), int(counter or 0)


def _place_in(row: Sequence[Any]) -> RankedPlace | None:
    try:
        return _place(row[0], row[1], row[2] + 1) if row else None
    except ValueError:  # a ZSET score that we never wrote
        return None


def _place(order: str, member: str, rank: str | int) -> RankedPlace | None:
    if not order:
        return None
    place = RankedPlace(int(order), member, int(rank))
    if abs(place.order) > LARGEST or not 0 <= place.rank <= LARGEST:
        raise ValueError("no board has such a place")
    return place
