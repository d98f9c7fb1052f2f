"""The export of changes of standings to Kafka: at least once, in order for each player.

A record's key is `<board>/<player>`, so all changes of a player are in one partition. The producer is
idempotent, so its own retries neither duplicate nor reorder. Entries are acknowledged after the brokers did.
A steward that dies in between sends them again; readers recognize duplicates by `seq`, which only grows for a
board, window and player.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson

from gateway.derived.followers import standings_since
from gateway.index.feed.consumer_group import Mutation
from gateway.ledger.ledger import Ledger
from gateway.runtime.boundary import boundary
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.runtime.unexpected import FaultPlace
from policies.errors import ScoregateError, SettingsError
from policies.loader import Board

DELIVERY_MS: Final = 10_000
"""The time for which the library retries a record.

It is shorter than the time after which another steward takes entries over.
"""


class ExportFailed(ScoregateError):
    """The brokers did not take a record. It is sent again later."""


class KafkaExport:
    """The consumer that exports.

    Raises SettingsError if the extra is not installed, or the settings are no use to it.
    """

    name = "kafka"

    def __init__(self, settings: Settings, ledger: Ledger, *, clock: Clock, **options: Any) -> None:
        self._ledger = ledger
        self._clock = clock
        self._topic = settings.kafka_topic
        try:
            from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - an extra
        except ImportError:
            raise SettingsError(
                "SCOREGATE_KAFKA_SERVERS needs the extra `kafka`: "
                "pip install ./clients/python '.[kafka]' in a checkout"
            ) from None
        servers = {"bootstrap.servers": settings.kafka_servers, "enable.idempotence": True}
        limits = {"delivery.timeout.ms": DELIVERY_MS, "linger.ms": 5, "client.id": "scoregate"}
        try:
            self._producer = Producer(servers | limits | options)
        except KafkaException as error:
            raise SettingsError(f"SCOREGATE_KAFKA_SERVERS: {error}") from None

    async def take(self, board: Board, mutations: Sequence[Mutation]) -> None:
        """Send changes, and return once the brokers have them. Raises ExportFailed."""
        if mutations:
            with boundary(FaultPlace.KAFKA, ExportFailed):
                await asyncio.to_thread(self._send, board.name, mutations)

    async def recover(self, boards: Sequence[Board], since: Mapping[str, int]) -> None:
        """Send the standings that changed on each board after its event, without ranks."""
        for board in boards:
            after, now_ms = since[board.name], self._clock()
            await self.take(board, await standings_since(self._ledger, board.name, after, now_ms=now_ms))

    def _send(self, board: str, mutations: Sequence[Mutation]) -> None:
        failed: list[str] = []

        def note_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(str(error))

        for change in mutations:
            value = orjson.dumps({"board": board} | asdict(change))
            key = f"{board}/{change.player}".encode()
            self._producer.produce(self._topic, value=value, key=key, on_delivery=note_delivery)
        unsent = self._producer.flush(2 * DELIVERY_MS / 1000)
        if failed or unsent:
            raise ExportFailed(
                f"{len(failed) or unsent} of {len(mutations)} records: {(failed or ['time-out'])[0]}"
            )
