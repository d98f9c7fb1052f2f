"""The boards in Redis: projecting what the ledger settled, and reading ranks. Everything here may be lost and rebuilt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from gateway.boards import keys
from gateway.boards.batcher import Batcher
from gateway.boards.scripts import Script
from gateway.records import Change, Standing, StoredBaseline
from policies.errors import IndexUnavailable
from policies.model import Order
from policies.vocabulary import State

PEND_LINGER_S: Final = 0.005
"""How long notes of committed submissions gather before they are sent; nobody waits for them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A standing as a reader sees it. Rank 1 is first; `achieved_at_ms` is when the score was reached."""

    rank: int
    player: str
    name: str
    score: int
    achieved_at_ms: int
    submission_id: str


@dataclass(frozen=True, slots=True)
class Page:
    """Entries by rank, and how many there are in all."""

    total: int
    entries: tuple[Entry, ...]


class Pend(NamedTuple):
    """A committed submission whose run is over: to be seen as pending, or as decided already where it was so at once."""

    submission_id: str
    player: str
    received_at_ms: int
    is_pending: bool = True


class BoardIndex:
    """One board in Redis. Every method raises IndexUnavailable when Redis does not answer in time."""

    def __init__(self, client: Redis, board: str, order: Order) -> None:
        self.board = board
        self.order = order
        self.client = client
        self._project = Script(client, "project")
        self._pend = Script(client, "pend")
        self._page = Script(client, "page")
        self._around = Script(client, "around")
        self._pends: Batcher[Pend, bool] = Batcher(self._send_pends, linger_s=PEND_LINGER_S)

    def pend(self, pend: Pend) -> None:
        """Has the submission noted with the next batch; the reconciler notes what is pending if that fails."""
        self._pends.tell(pend)

    async def drained(self) -> None:
        """Returns once every batch is sent."""
        await self._pends.drained()

    async def pend_all(self, pends: Sequence[Pend]) -> int:
        """How many submissions were put on the pending set: those that were not there and are not settled. Closes their runs."""
        return int(
            await self._pend(
                [
                    keys.pending(self.board),
                    keys.settled(self.board),
                    *(keys.open_runs(self.board, each.player) for each in pends),
                ],
                list(
                    chain(
                        *((each.submission_id, each.received_at_ms, int(each.is_pending)) for each in pends)
                    )
                ),
            )
        )

    async def project(self, change: Change) -> None:
        """Shows a change in every window it touches. Does nothing more the second time."""
        windows = [self._window_arguments(standing) for standing in change.standings]
        window_keys = [
            (keys.window(self.board, each.window), keys.members(self.board, each.window))
            for each in change.standings
        ]
        learnt = [
            (keys.baseline_field(each), each.seq, keys.baseline_value(each)) for each in change.baselines
        ]
        name = change.standings[0].name if change.standings else ""
        await self._project(
            [
                keys.pending(self.board),
                keys.settled(self.board),
                keys.names(self.board),
                keys.baselines(self.board),
                keys.changes(self.board),
                *chain(*window_keys),
            ],
            [change.submission_id, change.player, name, len(learnt), *chain(*learnt), *chain(*windows)],
        )

    async def restore(
        self, player: str, standings: Sequence[Standing], baselines: Sequence[StoredBaseline]
    ) -> None:
        """Shows what the ledger has of a player, without speaking of any submission."""
        await self.project(
            Change(0, "", self.board, player, State.PROMOTED, tuple(standings), tuple(baselines))
        )

    async def page(self, window: str, first: int, count: int) -> Page:
        """`count` entries of a window from 0-based rank `first`."""
        total, rows = await self._page(self._window_keys(window), [first, first + count - 1])
        return Page(total, self._entries(first, rows))

    async def around(self, window: str, player: str, radius: int) -> Page | None:
        """A player's entry with `radius` neighbours on each side, or None for a player without a standing."""
        answer = await self._around(self._window_keys(window), [player, radius])
        if not answer:
            return None
        total, first, rows = answer
        return Page(total, self._entries(first, rows))

    def _window_keys(self, window: str) -> list[str]:
        return [keys.window(self.board, window), keys.members(self.board, window), keys.names(self.board)]

    def _window_arguments(self, standing: Standing) -> tuple[Any, ...]:
        is_empty = standing.score is None
        return (
            standing.window,
            standing.seq,
            "" if standing.score is None else keys.order_value(standing.score, self.order),
            "" if is_empty else keys.member_of(standing),
            standing.submission_id,
            keys.slot_value(standing),
            "" if standing.window == "alltime" else standing.expires_at_ms,
        )

    def _entries(self, first: int, rows: Sequence[Sequence[str]]) -> tuple[Entry, ...]:
        try:
            return tuple(self._entry(rank, row) for rank, row in enumerate(rows, start=first + 1))
        except ValueError as error:
            raise IndexUnavailable("the index holds a member that we never wrote") from error

    def _entry(self, rank: int, row: Sequence[str]) -> Entry:
        player, value, member, submission_id, name = row
        score = keys.order_value(int(value), self.order)
        return Entry(rank, player, name, score, keys.achieved_at_ms(member), submission_id)

    async def _send_pends(self, pends: Sequence[Pend]) -> Sequence[bool]:
        await self.pend_all(pends)
        return [True] * len(pends)


class Index:
    """Every board's index on one Redis."""

    def __init__(self, client: Redis, orders: dict[str, Order]) -> None:
        self.client = client
        self.boards = {board: BoardIndex(client, board, order) for board, order in orders.items()}

    async def project(self, changes: Sequence[Change]) -> None:
        """Shows every change on its board. Raises IndexUnavailable if one fails; the others may be shown."""
        await asyncio.gather(*(self.boards[change.board].project(change) for change in changes))

    async def drained(self) -> None:
        """Returns once no batch waits."""
        for board in self.boards.values():
            await board.drained()
