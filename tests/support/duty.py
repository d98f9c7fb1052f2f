"""A steward driven round by round, over a real ledger, a real Valkey and a real RQ."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer
from sqlalchemy import select

from gateway.index import keys
from gateway.index.inspection import Inspection
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.schema import baselines
from gateway.ledger.transaction import Query
from gateway.runtime.lanes import lane_of
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, settle
from gateway.shared_records import Change
from gateway.steward.dispatch import QUEUE_NAME
from gateway.steward.duties import Steward
from gateway.steward.index.check import check
from gateway.steward.index.comparison.difference import BoardView, Difference
from gateway.steward.index.rebuild import Rebuilder, Tell
from gateway.wiring import open_ledger
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support.ledger import new_submission
from tests.support.oracle import History, due, history_of, shown_on_board

PLAYERS = ("ada", "bob", "cy")

_COUNTS = Query(select(baselines.c.player, baselines.c.count).where(baselines.c.count > 0))


def be_unused(redis: Redis, board: str) -> None:
    """Nobody has used the board for its time, which has just ended."""
    redis.delete(keys.used(board))
    redis.zadd(keys.idle(lane_of(board)), {board: 0}, xx=True)


class Duty:
    """A steward driven round by round, over a real ledger, a real Valkey and a real RQ."""

    def __init__(
        self, settings: Settings, board: Board, ledger: Ledger, steward: Steward, redis: Redis
    ) -> None:
        self.settings = settings
        self.board = board
        self.ledger = ledger
        self.steward = steward
        self.redis = redis
        self.clock = steward._clock
        self.index = steward._index
        self.queue = Queue(QUEUE_NAME, connection=redis, serializer=JSONSerializer)

    async def append(self, *submission_ids: str, **facts: Any) -> None:
        news = [new_submission(each, at_ms=self.clock(), **facts) for each in submission_ids]
        await asyncio.gather(*(self.ledger.append(new) for new in news))

    async def promote(self, *submission_ids: str, to_state: State = State.PROMOTED) -> None:
        await settle(self.ledger, self.index, self.board, self._decisions(submission_ids, to_state))

    async def commit(self, *submission_ids: str, to_state: State = State.PROMOTED) -> list[Change]:
        """Settles in the ledger alone, as who dies or is slow right after the commit."""
        decisions = self._decisions(submission_ids, to_state)
        _, changes = await self.ledger.write(_decide_all(self.board, decisions))
        return changes

    def _decisions(self, submission_ids: Sequence[str], to_state: State) -> list[Decision]:
        return [
            Decision(each, to_state, "replay", Reason.VERIFIED, self.clock(), frozenset(State))
            for each in submission_ids
        ]

    async def fill(self) -> None:
        """Some promoted runs of every player, one revoked, and two that are pending."""
        for player in PLAYERS:
            await self.ledger.write(queries.add_player(player, player.title(), now_ms=self.clock()))
            ids = [f"{player}-{score}" for score in (3, 1, 2)]
            for submission_id, score in zip(ids, (3, 1, 2), strict=True):
                await self.append(submission_id, player=player, score=score)
            await self.promote(*ids)
        await self.promote("bob-3", to_state=State.REVOKED)
        await self.append("waits-1", "waits-2")
        await self.steward.reconcile()

    def queued(self) -> list[list[str]]:
        """The submissions of each job in RQ."""
        return [job.args[0] for job in self.queue.jobs]

    async def settle_down(self) -> None:
        """Reconciles until a whole turn over every window finds nothing to repair."""
        quiet = 0
        while quiet < 2 * len(self.board.policy.windows):
            quiet = 0 if await self.steward.reconcile() else quiet + 1

    def view(self) -> BoardView:
        """The board from both sides."""
        inspection = Inspection(self.index.client, self.board.name)
        return BoardView(self.ledger, self.index.of(self.board), inspection, self.board.policy, self.clock)

    async def differences(self) -> list[Difference]:
        """What the board's index has otherwise than the ledger, at this moment."""
        checked = await check(self.view(), is_repaired=False, in_flight_s=0)
        assert checked.failure is None
        return list(checked.differences)

    def rebuilder(self, tell: Tell = lambda _count: None) -> Rebuilder:
        """What rebuilds the board."""
        view = self.view()
        return Rebuilder(self.ledger, view.index, view.policy, clock=self.clock, tell=tell)

    def snapshot(self) -> dict[bytes, Any]:
        """Every key of the board that the ledger can answer for, with all that is in it."""
        kinds = {
            "zset": lambda key: self.redis.zrange(key, 0, -1, withscores=True),
            "hash": self.redis.hgetall,
        }
        found = {}
        for key in self.redis.keys("lb:{201}:tiny:*"):
            if not key.endswith((b":changes", b":settled", b":whole")):
                found[key] = kinds.get(self.redis.type(key).decode(), self.redis.dump)(key)
        return found

    def history(self) -> History:
        """What the ledger says to another program."""
        return self._seen_apart()[0]

    def assert_index_is_the_ledgers(self) -> None:
        policy = self.board.policy
        history, counts = self._seen_apart()
        promoted = history.promoted(policy.board)
        assert due(promoted, policy, self.clock()) == shown_on_board(self.redis, policy)
        assert history.pending(policy.board) == set(self.redis.zrange(keys.pending(policy.board), 0, -1))
        held = self.redis.hgetall(keys.baselines(policy.board))
        assert counts == {
            field: int(value.split()[1]) for field, value in held.items() if value.split()[1] != b"0"
        }

    def _seen_apart(self) -> tuple[History, dict[bytes, int]]:
        """All that is in the ledger, and the counts of its baselines, over a connection of their own."""

        async def read() -> tuple[History, dict[bytes, int]]:
            async with open_ledger(self.settings) as ledger:
                found = await ledger.read(lambda tx: tx.rows(_COUNTS))
                return await history_of(ledger), {(name or "*").encode(): count for name, count in found}

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, read()).result()
