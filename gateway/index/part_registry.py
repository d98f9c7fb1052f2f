"""The running parts of the deployment, each with its latest report, kept in Redis."""

from __future__ import annotations

from typing import Final

from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.cluster import RAW
from gateway.index.scripts import Script, index_boundary

LIFE_MS: Final = 10_000
"""How long a part counts as running after its report."""

MOST_PARTS: Final = 1_024


class PartRegistry:
    """The reports of running parts. Every method raises IndexUnavailable."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._register = Script(client, "register_part", is_raw=True)

    async def register(self, part_id: str, report: str) -> list[bytes | None]:
        """Record a part's report, and return those of all running parts; None for a missing one."""
        registry = [keys.parts(), keys.part_reports()]
        reports: list[bytes | None] = await self._register(registry, [part_id, report, LIFE_MS, MOST_PARTS])
        return reports

    async def reports(self) -> list[bytes]:
        """Return the reports of all running parts, for a caller that is not one of them."""
        with index_boundary():
            command = ("HVALS", keys.part_reports())
            reports = await self._client.execute_command(*command, **RAW)  # type: ignore[no-untyped-call]
            return list(reports)
