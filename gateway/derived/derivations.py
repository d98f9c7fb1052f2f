"""All derivations of a steward: each consumer with its follower, and the sender of webhooks."""

from __future__ import annotations

import os
import secrets
import socket
from typing import Final

from aiohttp.abc import AbstractResolver
from redis.asyncio import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.catalogue.outdated_boards import OutdatedBoards
from gateway.derived.achievements import Achievements
from gateway.derived.change_followers import ChangeConsumer, ChangeFollower
from gateway.derived.followers import LOG_SLICE, LogFollower
from gateway.derived.statistics import Statistics
from gateway.derived.trends import Trends
from gateway.derived.webhooks.sender import Sender
from gateway.derived.webhooks.sources import DecisionEvents, StandingEvents
from gateway.index.feed.consumer_group import LEFT_MS
from gateway.index.feed.lane_watch import LOOK_S
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings

REBUILDABLE: Final = (Statistics.name, Trends.name, Achievements.name)
"""Consumers that can be rebuilt. The others send messages, which cannot be taken back."""


SLICES: Final = 4
"""Most slices of the log in one turn: a pause after each made a backlog wait more than it worked."""


class Derivations:
    """The consumers of one steward. It takes over entries that another left unacknowledged for `left_ms`."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        ledger: Ledger,
        client: Redis,
        *,
        clock: Clock,
        left_ms: int = LEFT_MS,
        look_s: float = LOOK_S,
        resolver: AbstractResolver | None = None,
        deliveries_ledger: Ledger | None = None,
    ) -> None:
        self._settings = settings
        self.statistics = Statistics(ledger, client, catalogue.of_files)
        # An attempt that was made is noted whoever made it: each delivery has a lease of its own.
        self.sender = Sender(settings, deliveries_ledger or ledger, clock=clock, resolver=resolver)
        self.of_log = {
            consumer.name: LogFollower(ledger, consumer)
            for consumer in (self.statistics, Trends(catalogue, clock=clock), DecisionEvents(clock=clock))
        }
        steward = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.of_changes = {
            consumer.name: ChangeFollower(
                ledger,
                client,
                catalogue,
                consumer,
                steward=steward,
                clock=clock,
                left_ms=left_ms,
                look_s=look_s,
            )
            for consumer in self._change_consumers(ledger, catalogue, clock)
        }

    async def follow_log(self) -> int:
        """Let every consumer follow the log for some slices; return how many events they handled in all."""
        done = 0
        for _ in range(SLICES):
            counts = [await follower.step() for follower in self.of_log.values()]
            done += sum(counts)
            if max(counts) < LOG_SLICE:
                break
        return done

    async def follow_changes(self) -> int:
        """Let every consumer follow the streams, and return how many changes they handled in all."""
        return sum([await follower.step() for follower in self.of_changes.values()])

    async def repair(self) -> int:
        """Rebuild what Redis lost, and return how much."""
        return await self.statistics.repair()

    async def rebuild(self, name: str) -> None:
        """Make one of REBUILDABLE begin again. Readers miss some of the past until it has caught up."""
        await (self.of_log.get(name) or self.of_changes[name]).rebuild()

    async def aclose(self) -> None:
        """Stop the deliveries."""
        await self.sender.close()

    def _change_consumers(self, ledger: Ledger, catalogue: Catalogue, clock: Clock) -> list[ChangeConsumer]:
        consumers: list[ChangeConsumer] = [
            StandingEvents(ledger, clock=clock),
            Achievements(ledger, OutdatedBoards(ledger, catalogue, ReadKind.DUTIES), clock=clock),
        ]
        if self._settings.kafka_servers:
            from gateway.derived.kafka import KafkaExport  # noqa: PLC0415 - its library is an extra

            consumers.append(KafkaExport(self._settings, ledger, clock=clock))
        return consumers
