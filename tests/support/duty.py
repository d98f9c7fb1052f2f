"""A steward driven round by round, over a real ledger, a real Valkey and a real RQ."""

from __future__ import annotations

import asyncio
from typing import Any

from redis import Redis
from rq import Queue
from rq.serializers import JSONSerializer

from gateway.boards.inspection import Inspection
from gateway.ledger import queries
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings import Settings
from gateway.settlement import Decision, settle
from gateway.steward.comparison.difference import View
from gateway.steward.dispatch import QUEUE_NAME
from gateway.steward.duties import Steward
from gateway.steward.rebuild import Rebuilder, Tell
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support.ledger import new_submission, rows
from tests.support.oracle import due_on_board, pending_in_ledger, shown_on_board

PLAYERS = ("ada", "bob", "cy")


class Duty:
    """A steward driven round by round, over a real ledger, a real Valkey and a real RQ."""

    def __init__(
        self, settings: Settings, board: Board, ledger: SqliteLedger, steward: Steward, redis: Redis
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
        decisions = [
            Decision(each, to_state, "replay", Reason.VERIFIED, self.clock(), frozenset(State))
            for each in submission_ids
        ]
        await settle(self.ledger, self.index, self.board, decisions)

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

    def view(self) -> View:
        """The board from both sides."""
        inspection = Inspection(self.index.client, self.board.name)
        return View(
            self.ledger, self.index.boards[self.board.name], inspection, self.board.policy, self.clock
        )

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
        for key in self.redis.keys("lb:{tiny}:*"):
            if not key.endswith((b":changes", b":settled", b":whole")):
                found[key] = kinds.get(self.redis.type(key).decode(), self.redis.dump)(key)
        return found

    def assert_index_is_the_ledgers(self) -> None:
        path, policy = self.settings.ledger_path, self.board.policy
        assert due_on_board(path, policy) == shown_on_board(self.redis, policy)
        assert pending_in_ledger(path, policy.board) == set(
            self.redis.zrange(f"lb:{{{policy.board}}}:pending", 0, -1)
        )
        stored = {
            (row[0] or "*").encode(): row[1]
            for row in rows(path, "SELECT player, count FROM baselines WHERE count")
        }
        held = self.redis.hgetall(f"lb:{{{policy.board}}}:baselines")
        assert stored == {
            field: int(value.split()[1]) for field, value in held.items() if value.split()[1] != b"0"
        }
