"""A client of a real Valkey, as the index uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from gateway.index.connection import connect
from tests.support.valkey import ValkeyServer


@pytest.fixture
async def client(valkey: ValkeyServer) -> AsyncIterator[Redis]:
    connected = connect(valkey.url, timeout_ms=5_000)
    yield connected
    await connected.aclose()
