"""The bootstrap of a steward, with overrides for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from redis import Redis as BlockingRedis

from gateway.deployment.time_sources import shared_clock
from gateway.index.connection import DRIVER
from gateway.runtime.clock import Clock
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.steward.lease_thread import LeasesOnAThread
from gateway.wiring import catalogue_of, kept_fresh, ledger_of, open_index, open_ledger, open_recordings
from policies import loader

QUEUE_TIMEOUT_S = 2.0


@asynccontextmanager
async def open_steward(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Steward]:
    """Prepare a steward for its rounds, by the shared clock or the given one."""
    policies = loader.load_policies(settings.policies_dir)
    async with (
        open_ledger(settings) as ledger,
        open_index(settings) as index,
        open_recordings(settings) as recordings,
    ):
        catalogue = catalogue_of(settings, ledger, policies)
        queue = BlockingRedis.from_url(
            settings.jobs_url,
            driver_info=DRIVER,
            socket_timeout=QUEUE_TIMEOUT_S,
            socket_connect_timeout=QUEUE_TIMEOUT_S,
        )
        try:
            reference = (
                None
                if clock
                else await shared_clock(settings, ledger, index.client, policies.by_name.values())
            )
            chosen_clock = clock or reference
            assert chosen_clock is not None
            async with kept_fresh(reference):
                leases = LeasesOnAThread(
                    ledger,
                    partial(ledger_of, settings),
                    clock=chosen_clock,
                    lease_s=settings.steward_lease_s,
                )
                try:
                    yield Steward(
                        settings,
                        catalogue,
                        ledger,
                        index,
                        RqJobs(queue),
                        recordings=recordings,
                        clock=chosen_clock,
                        leases=leases,
                    )
                finally:
                    await leases.give_up()
        finally:
            queue.close()
