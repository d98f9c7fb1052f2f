"""The live feed of the moderators' queue: it tells that cases changed, and listeners read the queue again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import web

from gateway.edge.auth.moderator_credentials import forget_credential
from gateway.edge.auth.moderators import Ability
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_anywhere
from gateway.edge.live.feed_request import RETRY_S, hold_seat
from gateway.edge.live.heartbeats import HEARTBEAT_S, send_in_time
from gateway.edge.live.messages import sse_heartbeat
from gateway.edge.live.sse import EVENT_STREAM, RETRY
from gateway.edge.problems import Problem, ProblemType
from gateway.ledger.moderation.cases import queue_versions
from gateway.ledger.moderation.claims import EVERYTHING
from gateway.ledger.reads import ReadKind
from gateway.runtime.background import rest
from gateway.runtime.telemetry import LISTENERS, label_of
from policies.errors import LedgerUnavailable

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

LOOK_S: Final = 1.0
"""Time between two looks for changes, for all listeners of an edge together."""

FEEDS_EACH: Final = 16
"""Feeds of one account at an edge. Each change has every one of them read its credential again."""

CHANGED: Final = b"event: queue\ndata: {}\n\n"
"""The event that tells of changes. It names no case: what the listener may see is for the queue to say."""


class QueueWatch:
    """Looks for changes of the queue while anybody listens, and wakes the listeners."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._listeners: set[asyncio.Event] = set()
        self._of_each: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None
        self._versions: dict[str, int] = {}

    @asynccontextmanager
    async def listening(self, moderator: str) -> AsyncIterator[asyncio.Event]:
        """Wake a listener during the block: its event is set after each change.

        Raises `quota-exceeded` for too many of one moderator.
        """
        if self._of_each[moderator] >= FEEDS_EACH:
            headers = {"Retry-After": str(RETRY_S)}
            raise Problem(ProblemType.QUOTA_EXCEEDED, "you have too many feeds open", headers=headers)
        changed = asyncio.Event()
        self._listeners.add(changed)
        self._of_each[moderator] += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_for_ever(), name="queue-watch")
        try:
            yield changed
        finally:
            self._listeners.discard(changed)
            self._of_each -= Counter([moderator])
            if not self._listeners and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def version_of(self, scopes: frozenset[str]) -> int:
        """Return a number that is higher after each change in one of the scopes, as far as is known."""
        labels = {label_of(scope) for scope in scopes}
        return sum(
            version for label, version in self._versions.items() if EVERYTHING in scopes or label in labels
        )

    async def _look_for_ever(self) -> None:
        seen: object = None
        while True:
            with suppress(LedgerUnavailable):  # they are told what they missed once it answers again
                version = await self._edge.ledger.version()
                if version != seen:
                    versions = await self._edge.ledger.read(queue_versions, ReadKind.MODERATION)
                    if versions != self._versions:
                        self._versions = versions
                        self._wake()
                    seen = version
            if self._edge.shutdown.has_begun:
                self._wake()
            await rest(LOOK_S)

    def _wake(self) -> None:
        for changed in self._listeners:
            changed.set()


QUEUE_WATCH: Final = web.AppKey("queue_watch", QueueWatch)


async def follow_queue(request: web.Request) -> web.StreamResponse:
    """Tell of changes of the moderator's queue until the listener leaves, or may see it no longer."""
    moderator = await moderator_anywhere(request, Ability.READ)
    watch = request.app[QUEUE_WATCH]
    with hold_seat(request), LISTENERS.labels("sse").track_inprogress():
        async with watch.listening(moderator.name) as changed:
            seen = watch.version_of(moderator.scopes(Ability.READ))
            response = web.StreamResponse(headers=EVENT_STREAM)
            await response.prepare(request)
            await send_in_time(request, response.write(RETRY + CHANGED))
            await _tell(request, response, changed, seen)
    return response


async def _tell(
    request: web.Request, response: web.StreamResponse, changed: asyncio.Event, seen: int
) -> None:
    """Tell of versions of the queue after the one that was `seen`."""
    edge: Edge = request.app[EDGE]
    watch = request.app[QUEUE_WATCH]
    leaving = cast("Connection", request.protocol).lost()
    while not edge.shutdown.has_begun:
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(changed.wait()), leaving]
        await asyncio.wait(waiting, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        waiting[0].cancel()
        if leaving.done():
            return
        is_changed = changed.is_set()
        changed.clear()
        try:
            forget_credential(request)
            scopes = (await moderator_anywhere(request, Ability.READ)).scopes(Ability.READ)
        except Problem:  # a session or token that was ended meanwhile, or a role that was taken away
            return
        except LedgerUnavailable:  # the next heartbeat asks again, and tells what was missed
            continue
        version = watch.version_of(scopes)
        if version != seen:
            await send_in_time(request, response.write(CHANGED))
        elif not is_changed:
            await send_in_time(request, response.write(sse_heartbeat(None)))
        seen = version
