"""Delivers webhooks at least once: retries after longer and longer pauses, and gives up in the end.

A delivery is leased before it is tried, so only one of several stewards tries it, and another one if that one
dies. Redirects are not followed. Only the status and Retry-After of an answer are read, and nothing of it is
kept.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver

from gateway.derived.webhooks.faults import FAULTS, in_words, outcome_of
from gateway.derived.webhooks.guard import GuardedResolver, check_url
from gateway.derived.webhooks.webhook_signatures import signed_headers
from gateway.ledger.derived import webhooks
from gateway.ledger.derived.webhooks import Delivery, DeliveryAttempt, DeliveryState, Webhook
from gateway.ledger.ledger import Ledger
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import WEBHOOK_DELIVERIES, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import LedgerUnavailable

FIRST_PAUSE_MS: Final = 5_000
PAUSE_FACTOR: Final = 4
LONGEST_PAUSE_MS: Final = 86_400_000
"""Pauses grow from five seconds to a day: 5 s, 20 s, 80 s, 5 min, 21 min, 85 min, 5.7 h, 23 h, 24 h, ..."""

LEASE_SPARE_MS: Final = 30_000
"""The time by which an attempt's lease is longer than its time-out."""

DELIVERED_KEPT_MS: Final = 3 * 86_400_000
"""The time for which a delivered event is remembered, and so not delivered again if it is repeated."""

DEAD_KEPT_MS: Final = 30 * 86_400_000

PRUNE_MS: Final = 600_000
"""The interval at which old deliveries are deleted."""

GONE: Final = 410
_SLOW_DOWN: Final = frozenset({429, 502, 503, 504})

_log = logger()


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """The answer of an endpoint, or with `status` 0 the reason for having none.

    `fault` is the reason in words for the operator. It names the host, and is neither kept nor logged.
    """

    status: int
    outcome: str
    retry_after_ms: int = 0
    fault: str = ""

    @property
    def is_success(self) -> bool:
        """Return whether the delivery arrived."""
        return 200 <= self.status < 300  # noqa: PLR2004 - what RFC 9110 calls successful


class Sender:
    """Delivers what is due, to all endpoints in parallel. `resolver` replaces the system's."""

    def __init__(
        self, settings: Settings, ledger: Ledger, *, clock: Clock, resolver: AbstractResolver | None = None
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._resolver = resolver
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pruned_at_ms = 0
        self._due_at_ms: int | None = None

    async def step(self) -> int:
        """Begin to deliver, and return to how many endpoints; it goes on after this returns.

        Raises LedgerUnavailable.
        """
        await self._prune()
        begun, waiting = 0, list[int]()
        for webhook in await self._ledger.read(webhooks.all_webhooks):
            if webhook.disabled_at_ms is not None:
                continue
            due_at_ms = await self._ledger.read(webhooks.next_due(webhook.webhook_id))
            if due_at_ms is None:
                continue
            waiting.append(due_at_ms)
            if due_at_ms <= self._clock() and webhook.webhook_id not in self._tasks:
                self._begin(webhook)
                begun += 1
        self._due_at_ms = min(waiting, default=None)
        return begun

    async def next_due(self) -> int | None:
        """Return when the first delivery that the last step left is due, None if it left none."""
        return self._due_at_ms

    async def idle(self) -> None:
        """Wait until nothing is being delivered."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def close(self) -> None:
        """Stop the deliveries. Each is due again when its lease ends."""
        for task in list(self._tasks.values()):
            task.cancel()
        await self.idle()

    async def send(self, webhook: Webhook, event_id: str, body: bytes) -> EndpointResponse:
        """Try once, and return the endpoint's answer."""
        async with self._session() as session:
            return await self._post(session, webhook, event_id, body)

    def _begin(self, webhook: Webhook) -> None:
        def forget(_: asyncio.Task[None]) -> None:
            del self._tasks[webhook.webhook_id]

        task = asyncio.create_task(self._drain(webhook), name=f"webhook-{webhook.webhook_id}")
        self._tasks[webhook.webhook_id] = task
        task.add_done_callback(forget)

    async def _drain(self, webhook: Webhook) -> None:
        """Deliver what is due for one endpoint, as many at once as the settings allow."""
        try:
            async with self._session() as session:
                while leased := await self._lease(webhook):
                    attempts = await asyncio.gather(
                        *(self._attempt(session, webhook, delivery) for delivery in leased)
                    )
                    if not await self._note(attempts):
                        return
        except LedgerUnavailable as error:
            _log.warning(Event.LEDGER_DOWN, part="webhooks", error=str(error))
        except Exception as error:  # noqa: BLE001 - no failure of one endpoint stops the others
            report(FaultPlace.WEBHOOK, error, webhook=webhook.webhook_id)

    def _session(self) -> ClientSession:
        resolver = GuardedResolver(self._settings.webhook_hosts, self._resolver)
        connector = TCPConnector(resolver=resolver, use_dns_cache=False, limit=0)
        timeout = ClientTimeout(total=self._settings.webhook_timeout_s)
        agent = {"User-Agent": f"Scoregate/{version('scoregate')}", "Content-Type": "application/json"}
        return ClientSession(connector=connector, timeout=timeout, headers=agent, cookie_jar=DummyCookieJar())

    async def _lease(self, webhook: Webhook) -> list[Delivery]:
        now_ms = self._clock()
        until_ms = now_ms + int(self._settings.webhook_timeout_s * 1000) + LEASE_SPARE_MS
        count = self._settings.webhook_concurrency
        return await self._ledger.write(
            webhooks.lease_due(webhook.webhook_id, now_ms=now_ms, until_ms=until_ms, count=count)
        )

    async def _attempt(self, session: ClientSession, webhook: Webhook, delivery: Delivery) -> DeliveryAttempt:
        response = await self._post(session, webhook, delivery.event_id, delivery.body)
        now_ms = self._clock()
        state, at_ms = DeliveryState.DELIVERED, now_ms
        if not response.is_success:
            is_last = delivery.tries >= self._settings.webhook_attempts
            state = DeliveryState.DEAD if is_last else DeliveryState.PENDING
            chance = random.random()  # noqa: S311 - it keeps a secret from nobody
            pause = max(response.retry_after_ms, pause_ms(delivery.tries, chance))
            at_ms = now_ms if is_last else now_ms + pause
        counted = "failed" if state is DeliveryState.PENDING else state.value
        WEBHOOK_DELIVERIES.labels(counted).inc()
        return DeliveryAttempt(
            delivery, state, at_ms, response.outcome, response.is_success, response.status == GONE
        )

    async def _note(self, attempts: Sequence[DeliveryAttempt]) -> bool:
        """Store the results of attempts, and return whether the endpoint is still enabled."""
        limit = self._settings.webhook_disable_after
        noting = webhooks.note_attempts(attempts, now_ms=self._clock(), disable_after=limit)
        disabled = await self._ledger.write(noting)
        for webhook_id in disabled:
            _log.error(Event.WEBHOOK_DISABLED, webhook=webhook_id, outcome=attempts[-1].outcome)
        return not disabled

    async def _post(
        self, session: ClientSession, webhook: Webhook, event_id: str, body: bytes
    ) -> EndpointResponse:
        headers = signed_headers(webhook.secret, event_id, body, at_s=self._clock() // 1000)
        try:
            url = check_url(webhook.url, self._settings.webhook_hosts)  # the settings may have changed since
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                after_ms = (
                    self._retry_after_ms(answer.headers.get("Retry-After"))
                    if answer.status in _SLOW_DOWN
                    else 0
                )
                return EndpointResponse(answer.status, str(answer.status), after_ms)
        except FAULTS as error:
            fault = in_words(error, webhook.url, self._settings.webhook_timeout_s)
            return EndpointResponse(0, outcome_of(error), fault=fault)

    def _retry_after_ms(self, value: str | None) -> int:
        """Return the pause that an endpoint asks for (RFC 9110, §10.2.3), at most a day."""
        if not value:
            return 0
        if value.isascii() and value.isdigit():
            return min(int(value[:9]) * 1000, LONGEST_PAUSE_MS)
        try:
            wait_ms = int(parsedate_to_datetime(value).timestamp() * 1000) - self._clock()
        except (ValueError, OverflowError, TypeError):
            return 0
        return max(0, min(wait_ms, LONGEST_PAUSE_MS))

    async def _prune(self) -> None:
        now_ms = self._clock()
        if now_ms - self._pruned_at_ms < PRUNE_MS:
            return
        self._pruned_at_ms = now_ms
        lifetimes = {DeliveryState.DELIVERED: DELIVERED_KEPT_MS, DeliveryState.DEAD: DEAD_KEPT_MS}
        for webhook in await self._ledger.read(webhooks.all_webhooks):
            for state, kept_ms in lifetimes.items():
                pruning: Any = webhooks.prune_deliveries(
                    webhook.webhook_id, state, before_ms=now_ms - kept_ms
                )
                await self._ledger.write(pruning)


def pause_ms(tries: int, chance: float) -> int:
    """Return how long to wait after so many attempts. `chance`, from 0 to 1, takes off up to half of it."""
    # The random part keeps endpoints that failed together from being retried together.
    whole = min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * PAUSE_FACTOR ** min(tries - 1, 20))
    return int(whole * (1 - chance / 2))
