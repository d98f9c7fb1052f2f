"""A board, its ledger and its index, and what a steward derives from them, step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.derived.derivations import Derivations
from gateway.index import keys
from gateway.index.board_indexes import Index
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import Delivery, DeliveryState, Webhook
from gateway.ledger.ledger import Ledger
from gateway.runtime.settings import Settings
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Board, Policies
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.clock import ShiftedClock
from tests.support.ledger import new_submission, rows
from tests.support.valkey import ValkeyServer

SECRET = b"s" * 32


class Stage:
    """What happens on a board, and what comes of it."""

    def __init__(self, settings: Settings, board: Board, ledger: Ledger, index: Index, redis: Redis) -> None:
        self.settings = settings
        self.board = board
        self.ledger = ledger
        self.index = index
        self.redis = redis
        self.clock = ShiftedClock()
        self._numbers = count()

    def derivations(self, settings: Settings | None = None, **options: Any) -> Derivations:
        """What one steward derives."""
        given = {"clock": self.clock, "left_ms": 0, "look_s": 0} | options
        catalogue = Catalogue(Policies({self.board.name: self.board}))
        return Derivations(settings or self.settings, catalogue, self.ledger, self.index.client, **given)

    async def receive(self, player: str = "ada", score: int = 100) -> str:
        """The id of a submission that waits for a verdict."""
        submission_id = f"run-{next(self._numbers)}"
        facts = {"player": player, "score": score, "at_ms": self.clock(), "recording": None}
        await self.ledger.append(new_submission(submission_id, **facts))
        return submission_id

    async def decide(
        self,
        submission_id: str,
        state: State = State.PROMOTED,
        reason: Reason = Reason.VERIFIED,
        *,
        actor: str = "replay",
        detail: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        at_ms = self.clock()
        decision = Decision(submission_id, state, actor, reason, at_ms, frozenset(State), detail=detail)
        await settle(self.ledger, self.index, self.board, [decision])

    async def score(self, player: str, score: int) -> str:
        """The id of a submission that counts."""
        submission_id = await self.receive(player, score)
        await self.decide(submission_id)
        return submission_id

    async def webhook(self, url: str = "https://example.com/hook", **facts: Any) -> Webhook:
        given = {"boards": ("*",), "types": ("*",)} | facts
        webhook = Webhook(f"wh_{next(self._numbers)}", url, SECRET, created_at_ms=self.clock(), **given)
        await self.ledger.write(webhooks.add_webhook(webhook))
        return webhook

    async def queued(self, webhook: Webhook, state: DeliveryState = DeliveryState.PENDING) -> list[Delivery]:
        found = await self.ledger.read(webhooks.deliveries_of(webhook.webhook_id, state, count=1000))
        return sorted(found, key=lambda each: each.body)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return rows(self.settings.ledger_path, statement)


@pytest.fixture
def policy() -> dict[str, Any]:
    """What the board's policy has of its own; a test may ask for another."""
    return {"windows": ["alltime", "daily"]}


@pytest.fixture
def settings(tmp_path: Path, valkey: ValkeyServer, policy: dict[str, Any]) -> Settings:
    boards.write_board(tmp_path / "policies", **policy)
    return Settings(
        data_dir=tmp_path / "data",
        policies_dir=tmp_path / "policies",
        redis_url=valkey.url,
        redis_timeout_ms=5_000,
        webhook_hosts=("127.0.0.1",),
    )


@pytest.fixture
async def stage(settings: Settings) -> AsyncIterator[Stage]:
    known = load_policies(settings)
    redis = Redis.from_url(settings.redis_url, decode_responses=True)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        for board in known:
            redis.set(keys.sentinel(board), "1")  # the ledger is empty, so the index is whole
        yield Stage(settings, known["tiny"], ledger, index, redis)
    redis.close()
