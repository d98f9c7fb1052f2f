"""All that a steward derives, put together: each consumer with what feeds it, and the sender of webhooks."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from typing import Final

from aiohttp.abc import AbstractResolver
from redis.asyncio import Redis

from gateway.derived.achievements import Achievements
from gateway.derived.follow import ChangeConsumer, ChangeFollower, LogFollower
from gateway.derived.statistics import Statistics
from gateway.derived.trends import Trends
from gateway.derived.webhooks.sender import Sender
from gateway.derived.webhooks.sources import DecisionEvents, StandingEvents
from gateway.index.feed.consumer_group import LEFT_MS
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from policies.loader import Board

REBUILDABLE: Final = (Statistics.name, Trends.name, Achievements.name)
"""What can be made anew. The others are messages: what was told cannot be taken back."""


class Derivations:
    """The consumers of one steward. `left_ms`: after how long it takes over what another has left lying."""

    def __init__(
        self,
        settings: Settings,
        boards: Mapping[str, Board],
        ledger: Ledger,
        client: Redis,
        *,
        clock: Clock,
        left_ms: int = LEFT_MS,
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._settings = settings
        self.statistics = Statistics(ledger, client, boards)
        self.sender = Sender(settings, ledger, clock=clock, resolver=resolver)
        self.of_log = {
            each.name: LogFollower(ledger, each)
            for each in (self.statistics, Trends(boards, clock=clock), DecisionEvents(clock=clock))
        }
        steward = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.of_changes = {
            each.name: ChangeFollower(
                ledger, client, boards, each, steward=steward, clock=clock, left_ms=left_ms
            )
            for each in self._change_consumers(ledger, clock)
        }

    async def follow_log(self) -> int:
        """How many events of the log had an effect, each counted once for each consumer."""
        return sum([await each.step() for each in self.of_log.values()])

    async def follow_changes(self) -> int:
        """How many changes of standings had an effect, each counted once for each consumer."""
        return sum([await each.step() for each in self.of_changes.values()])

    async def repair(self) -> int:
        """How much of what is kept in Redis was lost, and is there again."""
        return await self.statistics.repair()

    async def rebuild(self, name: str) -> None:
        """Makes one of REBUILDABLE begin again. What readers are told is short of the past until it has caught up."""
        await (self.of_log.get(name) or self.of_changes[name]).rebuild()

    async def aclose(self) -> None:
        """Ends what is being delivered."""
        await self.sender.close()

    def _change_consumers(self, ledger: Ledger, clock: Clock) -> list[ChangeConsumer]:
        found: list[ChangeConsumer] = [
            StandingEvents(ledger, clock=clock),
            Achievements(ledger, clock=clock),
        ]
        if self._settings.kafka_servers:
            from gateway.derived.kafka import KafkaExport  # noqa: PLC0415 - its library is an extra

            found.append(KafkaExport(self._settings, ledger, clock=clock))
        return found
