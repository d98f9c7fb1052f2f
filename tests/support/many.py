"""A steward of many small boards, whose policies a test makes up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from gateway.catalogue.catalogue import Catalogue
from gateway.recordings.opening import recordings_of
from gateway.runtime.settings import Settings
from gateway.steward.dispatch import RqJobs
from gateway.steward.duties import Steward
from gateway.wiring import load_policies, open_index, open_ledger
from policies.loader import Policies
from tests.support.clock import ShiftedClock
from tests.support.duty import Duty
from tests.support.policies import write_policies


@asynccontextmanager
async def stewarding(
    folder: Path, redis_url: str, policies: Sequence[Mapping[str, Any]], *, queue_url: str | None = None
) -> AsyncIterator[dict[str, Duty]]:
    """The boards by name, on one ledger, one index and one steward."""
    settings = Settings(
        data_dir=folder / "data",
        policies_dir=write_policies(folder / "policies", *map(dict, policies)),
        redis_url=redis_url,
        queue_url=queue_url,
        redis_timeout_ms=5_000,
    )
    known, queue = load_policies(settings), Redis.from_url(queue_url or redis_url)
    async with open_ledger(settings) as ledger, open_index(settings) as index:
        parts = {"recordings": recordings_of(settings), "clock": ShiftedClock()}
        steward = Steward(settings, Catalogue(Policies(known)), ledger, index, RqJobs(queue), **parts)
        yield {name: Duty(settings, board, ledger, steward, queue) for name, board in known.items()}
    queue.close()
