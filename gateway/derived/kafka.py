"""The export of changes of standings to Kafka: at least once, in order for each player, each with what to tell it by.

A record's key is `<board>/<player>`, so that the changes of a player are in one partition. The producer is idempotent, so
that its own retries add and reorder nothing. Entries are acknowledged after the brokers have; a steward that dies in
between sends them again, and a reader tells that by `seq`, which for a board, window and player only grows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson

from gateway.derived.follow import standings_since
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.ledger import Ledger
from gateway.runtime.boundary import boundary
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.runtime.unexpected import FaultPlace
from policies.errors import ScoregateError, SettingsError
from policies.loader import Board

DELIVERY_MS: Final = 10_000
"""How long the library tries to get a record to the brokers. Shorter than entries lie before another takes them over."""


class ExportFailed(ScoregateError):
    """The brokers did not take a record; it is sent again."""


class KafkaExport:
    """The producer. Raises SettingsError if the extra is not installed, or the servers cannot be meant so."""

    name = "kafka"

    def __init__(self, settings: Settings, ledger: Ledger, *, clock: Clock, **options: Any) -> None:
        self._ledger = ledger
        self._clock = clock
        self._topic = settings.kafka_topic
        try:
            from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - an extra
        except ImportError:
            raise SettingsError(
                "SCOREGATE_KAFKA_SERVERS needs the extra `kafka`: pip install '.[kafka]' in a checkout"
            ) from None
        told = {"bootstrap.servers": settings.kafka_servers, "enable.idempotence": True}
        limits = {"delivery.timeout.ms": DELIVERY_MS, "linger.ms": 5, "client.id": "scoregate"}
        try:
            self._producer = Producer(told | limits | options)
        except KafkaException as error:
            raise SettingsError(f"SCOREGATE_KAFKA_SERVERS: {error}") from None

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Sends changes, and returns once the brokers have them. Raises ExportFailed."""
        if mutations:
            with boundary(FaultPlace.KAFKA, ExportFailed):
                await asyncio.to_thread(self._send, board.name, mutations)

    async def recover(self, board: Board, since: int) -> None:
        """Sends the standings that changed after event `since`, without ranks."""
        await self.take(board, await standings_since(self._ledger, board.name, since, now_ms=self._clock()))

    def _send(self, board: str, mutations: Sequence[Mutation]) -> None:
        failed: list[str] = []

        def told(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(str(error))

        for each in mutations:
            value = orjson.dumps({"board": board} | asdict(each))
            key = f"{board}/{each.player}".encode()
            self._producer.produce(self._topic, value=value, key=key, on_delivery=told)
        left = self._producer.flush(2 * DELIVERY_MS / 1000)
        if failed or left:
            raise ExportFailed(
                f"{len(failed) or left} of {len(mutations)} records: {(failed or ['time-out'])[0]}"
            )
