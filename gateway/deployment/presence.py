"""The presence of a deployment's parts. Each reports itself every BEAT_S, with policies and failures."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
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
from gateway.runtime.background import rest
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import POLICIES_DIFFER, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import IndexUnavailable
from policies.loader import Board, Family

BEAT_S: Final = 2.0
"""Time between two reports of a part."""

VERSION: Final = version("scoregate")

FAILURES_LIMIT: Final = 16
"""Maximum number of failures in a report. There may be one for each board."""

_log = logger()


class PartKind(StrEnum):
    """The kinds of parts."""

    EDGE = "edge"
    STEWARD = "steward"
    WORKER = "worker"


class PartReport(BaseModel):
    """A part's report of itself: the digest of its policies, its process, failing duties and leases."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: PartKind
    policies: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,253}$")] = ""
    pid: Annotated[int, Field(ge=0)] = 0
    since_ms: Annotated[int, Field(ge=0, le=253_402_300_799_000)] = 0
    failing: tuple[str, ...] = ()
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+!-]{0,64}$")] = ""
    lanes: Annotated[int, Field(ge=0)] = 0
    duties: tuple[str, ...] = ()


class Presence:
    """The presence of one part, and its knowledge of the others. `parts` is None until the index answers."""

    def __init__(
        self,
        client: Redis,
        kind: PartKind,
        boards: Callable[[], Mapping[str, Board | Family]],
        *,
        failing: Callable[[], Sequence[str]] = tuple,
        work: Callable[[], tuple[int, Sequence[str]]] = lambda: (0, ()),
        part_id: str | None = None,
    ) -> None:
        self._store = PartRegistry(client)
        self._kind = kind
        self._boards = boards
        self._failing = failing
        self._work = work
        self.part_id = part_id or secrets.token_hex(8)
        self.parts: tuple[PartReport, ...] | None = None
        self._has_differed = False

    async def keep(self) -> None:
        """Report the part and read the others' reports until cancelled."""
        while True:
            try:
                await self.beat()
            except IndexUnavailable:
                self.parts = None
            except Exception as error:  # noqa: BLE001 - a failed report must not end the part
                self.parts = None
                report(FaultPlace.PRESENCE, error)
            await rest(BEAT_S)

    async def beat(self) -> None:
        """Report the part once, and read the others' reports. Raises IndexUnavailable."""
        lanes, duties = self._work()
        own = PartReport(
            kind=self._kind,
            policies=digest_of(self._boards()),
            host=own_host(),
            pid=os.getpid(),
            since_ms=BEGAN_MS,
            failing=tuple(self._failing())[:FAILURES_LIMIT],
            version=VERSION,
            lanes=lanes,
            duties=tuple(duties),
        )
        reports = await self._store.register(self.part_id, own.model_dump_json())
        self.parts = tuple(part for part in map(_parsed, reports) if part)
        self._report_differing_policies()

    def missing(self) -> list[str]:
        """Return the names of what the deployment lacks; nothing while the index does not answer."""
        if self.parts is None:
            return []
        kinds = {part.kind for part in self.parts}
        has_replays = any(board.policy.replay for board in self._boards().values())
        needed = [PartKind.STEWARD, *([PartKind.WORKER] if has_replays else [])]
        agreements = ["policies"] if self._differs() else []
        agreements += ["versions"] if len({part.version for part in self.parts}) > 1 else []
        return [kind.value for kind in needed if kind not in kinds] + agreements

    def failing(self) -> list[str]:
        """Return the duties that fail in any part, as `duty` or `duty:board`."""
        return sorted({duty for part in self.parts or () for duty in part.failing})[:FAILURES_LIMIT]

    def _differs(self) -> bool:
        return len({part.policies for part in self.parts or ()}) > 1

    def _report_differing_policies(self) -> None:
        differs = self._differs()
        POLICIES_DIFFER.set(int(differs))
        if differs and not self._has_differed:
            policies = sorted({f"{part.kind}:{part.policies}" for part in self.parts or ()})
            _log.warning(Event.POLICIES_DIFFER, parts=policies[:FAILURES_LIMIT])
        self._has_differed = differs


@contextmanager
def present_on_a_thread(
    settings: Settings, kind: PartKind, boards: Callable[[], Mapping[str, Board | Family]]
) -> Iterator[None]:
    """Report a part from a thread while the block runs, since a worker's main thread is busy.

    Raises what keeps the thread from beginning, such as an OSError without descriptors.
    """
    begun: Future[Callable[[], object]] = Future()

    async def keep() -> None:
        client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
        keeping = asyncio.ensure_future(Presence(client, kind, boards).keep())
        begun.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, keeping.cancel))
        with suppress(asyncio.CancelledError):
            await keeping
        await client.aclose()

    def run() -> None:
        try:
            asyncio.run(keep())
        except Exception as error:
            if begun.done():
                raise
            begun.set_exception(error)  # whatever it is: somebody waits

    thread = threading.Thread(target=run, name="presence", daemon=True)
    thread.start()
    end = begun.result()
    try:
        yield
    finally:
        end()
        thread.join()


async def parts_there(settings: Settings) -> list[PartReport]:
    """Return the reports of the last seconds from all machines. Raises IndexUnavailable."""
    client = connect(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
    try:
        return [part for part in map(_parsed, await PartRegistry(client).reports()) if part]
    finally:
        await client.aclose()


def own_host() -> str:
    """Return the name of this machine, as parts report it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:253]


def digest_of(boards: Mapping[str, Board | Family]) -> str:
    """Return sixteen hex digits of the SHA-256 of the digests of all policies."""
    digests = {name: board.digest for name, board in boards.items()}
    return hashlib.sha256(orjson.dumps(digests, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _parsed(report: bytes | None) -> PartReport | None:
    # Anybody with access to Redis can write reports, so a bad one is ignored.
    try:
        return PartReport.model_validate_json(report or b"")
    except ValidationError:
        return None
