"""Which parts of the deployment are there: each says so every BEAT_S, with the digest of its policies and what fails in it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import queue
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from typing import Annotated, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from redis.asyncio import Redis

from gateway.deployment.run_files import BEGAN_MS
from gateway.index.connection import connect
from gateway.index.part_registry import PartRegistry
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import POLICIES_DIFFER, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable
from policies.loader import Board

BEAT_S: Final = 2.0
"""How often a part says that it is there."""

VERSION: Final = version("scoregate")

MOST_TOLD: Final = 16
"""Failures that a part tells of; there may be one for each board."""

_log = logger()


class PartKind(StrEnum):
    """What a part is."""

    EDGE = "edge"
    STEWARD = "steward"
    WORKER = "worker"


class PartReport(BaseModel):
    """What a part says of itself: the digest of all its policies, which process it is, and which duties fail."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: PartKind
    policies: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,253}$")] = ""
    pid: Annotated[int, Field(ge=0)] = 0
    since_ms: Annotated[int, Field(ge=0, le=253_402_300_799_000)] = 0
    failing: tuple[str, ...] = ()
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+!-]{0,64}$")] = ""


class Presence:
    """The presence of one part, and what it knows of the others; None until the index has told."""

    def __init__(
        self,
        client: Redis,
        kind: PartKind,
        boards: Callable[[], Mapping[str, Board]],
        *,
        failing: Callable[[], Sequence[str]] = tuple,
        part_id: str | None = None,
    ) -> None:
        self._store = PartRegistry(client)
        self._kind = kind
        self._boards = boards
        self._failing = failing
        self.part_id = part_id or secrets.token_hex(8)
        self.parts: tuple[PartReport, ...] | None = None
        self._has_differed = False

    async def keep(self) -> None:
        """Says that the part is there, and hears of the others, until it is cancelled."""
        task = asyncio.current_task()
        while not (task and task.cancelling()):  # redis-py swallows a cancellation while it connects
            try:
                await self.beat()
            except IndexUnavailable:
                self.parts = None
            except Exception as error:  # noqa: BLE001 - what is only told must end no part
                self.parts = None
                report(FaultPlace.PRESENCE, error)
            await asyncio.sleep(BEAT_S)

    async def beat(self) -> None:
        """Says it once. Raises IndexUnavailable."""
        own = PartReport(
            kind=self._kind,
            policies=digest_of(self._boards()),
            host=own_host(),
            pid=os.getpid(),
            since_ms=BEGAN_MS,
            failing=tuple(self._failing())[:MOST_TOLD],
            version=VERSION,
        )
        told = await self._store.register(self.part_id, own.model_dump_json())
        self.parts = tuple(part for part in map(_part, told) if part)
        self._tell_of_policies()

    def missing(self) -> list[str]:
        """What the deployment lacks, by name; nothing while the index does not tell."""
        if self.parts is None:
            return []
        kinds = {part.kind for part in self.parts}
        has_replays = any(board.policy.replay for board in self._boards().values())
        needed = [PartKind.STEWARD, *([PartKind.WORKER] if has_replays else [])]
        alike = ["policies"] if self._differs() else []
        alike += ["versions"] if len({part.version for part in self.parts}) > 1 else []
        return [kind.value for kind in needed if kind not in kinds] + alike

    def failing(self) -> list[str]:
        """The duties that fail in any part, as `duty` or `duty:board`."""
        return sorted({each for part in self.parts or () for each in part.failing})[:MOST_TOLD]

    def _differs(self) -> bool:
        return len({part.policies for part in self.parts or ()}) > 1

    def _tell_of_policies(self) -> None:
        differs = self._differs()
        POLICIES_DIFFER.set(int(differs))
        if differs and not self._has_differed:
            found = sorted({f"{part.kind}:{part.policies}" for part in self.parts or ()})
            _log.warning(Event.POLICIES_DIFFER, parts=found[:MOST_TOLD])
        self._has_differed = differs


@contextmanager
def present_on_a_thread(
    settings: Settings, kind: PartKind, boards: Callable[[], Mapping[str, Board]]
) -> Iterator[None]:
    """Keeps the presence of a part whose own thread is busy for long, as a worker's is, while the block runs."""
    begun: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    async def keep() -> None:
        client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
        keeping = asyncio.ensure_future(Presence(client, kind, boards).keep())
        begun.put(partial(asyncio.get_running_loop().call_soon_threadsafe, keeping.cancel))
        with suppress(asyncio.CancelledError):
            await keeping
        await client.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(keep()), name="presence", daemon=True)
    thread.start()
    end = begun.get()
    try:
        yield
    finally:
        end()
        thread.join()


async def parts_there(settings: Settings) -> list[PartReport]:
    """The parts that the index has heard of in the last seconds, on whatever machine. Raises IndexUnavailable."""
    client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
    try:
        return [part for part in map(_part, await PartRegistry(client).reports()) if part]
    finally:
        await client.aclose()


def own_host() -> str:
    """The name of this machine, as parts say it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:253]


def digest_of(boards: Mapping[str, Board]) -> str:
    """Sixteen hex digits of the SHA-256 of the digests of all policies."""
    digests = {name: board.digest for name, board in boards.items()}
    return hashlib.sha256(orjson.dumps(digests, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _part(said: bytes | None) -> PartReport | None:
    """None for what no part of ours said: whoever can write to Redis can write it there."""
    try:
        return PartReport.model_validate_json(said or b"")
    except ValidationError:
        return None
