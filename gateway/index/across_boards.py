"""One player's standings on many boards, read in one round trip to each server of the index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis, RedisCluster

from gateway.index import keys
from gateway.index.ranges import window_key
from gateway.index.scripts import PipelinedScript, ScriptCall
from gateway.shared_records import RankedStanding, RankRequest
from policies.errors import IndexUnavailable
from policies.ranking import BoardPlace

BOARDS_PER_CALL: Final = 32
"""Most boards that one call of the script reads: each holds Redis for about 20 µs."""


class StandingsAcrossBoards(NamedTuple):
    """A player's standing by name of the board, None without one, and why boards are left out."""

    by_board: dict[str, RankedStanding | None]
    faults: list[IndexUnavailable]


class StandingsReader:
    """Reads one player's standings on boards that are not in shards."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._read = PipelinedScript(client, "read_standings")

    async def standings(self, player: str, wanted: Sequence[RankRequest]) -> StandingsAcrossBoards:
        """Return the player's standings on those of these boards that are whole and can be read.

        Each board is read at a moment of its own. Raises IndexUnavailable if no call was answered.
        """
        parts, read = list(self._parts(wanted)), StandingsAcrossBoards({}, [])
        answers = await self._read([_call(player, part) for part in parts]) if parts else []
        for part, rows in zip(parts, answers, strict=True):
            if isinstance(rows, IndexUnavailable):
                read.faults.append(rows)
                continue
            for request, row in zip(part, rows, strict=True):
                if row is None:
                    continue
                try:
                    read.by_board[request.board] = _standing(request, row)
                except IndexUnavailable as error:
                    read.faults.append(error)
        return read

    def _parts(self, wanted: Iterable[RankRequest]) -> Iterator[list[RankRequest]]:
        """Yield what one call may read: boards with as many ranges, and on a cluster of one lane."""
        by_place: dict[tuple[str, int], list[RankRequest]] = defaultdict(list)
        for request in wanted:
            lane = keys.tag(request.board) if isinstance(self._client, RedisCluster) else ""
            by_place[lane, len(request.ranking.policy.ranges)].append(request)
        for requests in by_place.values():
            for at in range(0, len(requests), BOARDS_PER_CALL):
                yield requests[at : at + BOARDS_PER_CALL]


def _call(player: str, part: Sequence[RankRequest]) -> ScriptCall:
    read: list[str] = []
    arguments: list[Any] = [player]
    for ranking, window, kind in part:
        board = ranking.policy.board
        read += (
            window_key(ranking, window),
            keys.members(board, window),
            keys.groups(board, window),
            keys.sentinel(board),
        )
        arguments += (kind.value, ranking.orders_per_score(window), ranking.tie_digits)
    return read, arguments


def _standing(request: RankRequest, row: Sequence[Any]) -> RankedStanding | None:
    if not row:
        return None
    total, rank, order, member, submission_id = row
    try:
        place = BoardPlace(int(order), member.decode())
        return request.standing_at(place, total=total, rank=rank, submission_id=submission_id.decode())
    except ValueError as error:
        raise IndexUnavailable("the index holds a member that Scoregate never wrote") from error
