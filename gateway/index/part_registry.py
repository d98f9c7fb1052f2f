"""The parts of the deployment as Redis knows them: who spoke of late, and what they said of themselves."""

from __future__ import annotations

from typing import Final

from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from gateway.index import keys
from gateway.index.scripts import Script, index_boundary

LIFE_MS: Final = 10_000
"""How long after it spoke a part is thought to be there."""

MOST_PARTS: Final = 1_024


class PartRegistry:
    """Who is there. Raises IndexUnavailable."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._register = Script(client, "register_part", is_raw=True)

    async def register(self, part_id: str, said: str) -> list[bytes | None]:
        """What every part says that is there, this one with it; None for one that said nothing."""
        held = [keys.parts(), keys.part_reports()]
        told: list[bytes | None] = await self._register(held, [part_id, said, LIFE_MS, MOST_PARTS])
        return told

    async def reports(self) -> list[bytes]:
        """What every part says that spoke of late, for somebody who is none."""
        with index_boundary():
            told = await self._client.execute_command("HVALS", keys.part_reports(), **{NEVER_DECODE: True})  # type: ignore[no-untyped-call]
            return list(told)
