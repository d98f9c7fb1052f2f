"""Listeners of the live feed for tests: by Server-Sent Events and by WebSocket, event by event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from redis.asyncio import Redis

from gateway.index import keys
from gateway.index.feed.listener import Listener
from gateway.index.feed.live_feed import RankingOf
from gateway.index.lane_stream import position_of
from gateway.runtime.lanes import lane_of
from policies.ranking import Ranking
from tests.support.harness import Harness

PATIENCE_S = 20.0


@dataclass
class Told:
    """One event as a client has it."""

    kind: str
    id: str | None
    data: dict[str, Any]


class SseFeed:
    """An open event stream. `last_id` is what a browser would send when it comes back."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.last_id = ""

    async def line(self) -> str:
        """The next line without its end; empty between events. Fails at the end of the feed."""
        async with asyncio.timeout(PATIENCE_S):
            line = await self._response.content.readline()
        assert line, "the feed has ended"
        return line.decode().removesuffix("\n")

    async def event(self) -> Told:
        """The next event that has data."""
        kind, stream_id = "", None
        while True:
            field, _, value = (await self.line()).partition(": ")
            if field == "event":
                kind = value
            elif field in ("id", "id:"):
                stream_id = self.last_id = value
            elif field == "data":
                return Told(kind, stream_id, json.loads(value))

    async def standing(self) -> dict[str, Any]:
        """The next change of a standing."""
        while (told := await self.event()).kind != "standing":
            pass
        return told.data

    async def scores(self, count: int) -> list[int]:
        return [(await self.standing())["score"] for _ in range(count)]

    async def has_ended(self) -> bool:
        """True once nothing more comes."""
        async with asyncio.timeout(PATIENCE_S):
            while await self._response.content.readline():
                pass
        return True


@asynccontextmanager
async def sse(
    harness: Harness,
    query: str = "window=alltime",
    board: str = "vault",
    *,
    after: str | None = None,
    token: str | None = None,
) -> AsyncIterator[SseFeed]:
    """An event stream; it listens once this is entered, and has been told `begin` unless it resumes."""
    await caught_up(harness, board)
    headers = {"Last-Event-ID": after} if after else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    url = f"{harness.url}/v1/boards/{board}/live?{query}"
    async with harness.session.get(url, headers=headers) as response:
        assert response.status == 200, await response.text()
        feed = SseFeed(response)
        while await feed.line() != "retry: 2000":
            pass
        if after is None and "after=" not in query:
            assert (await feed.event()).kind == "begin"
        yield feed


class SocketFeed:
    """An open WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.reason: str | None = None

    async def event(self) -> Told:
        """The next message."""
        told = json.loads((await self.socket.receive(PATIENCE_S)).data)
        return Told(told["event"], told["id"], told["data"])

    async def scores(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            told = await self.event()
            found += [told.data["score"]] if told.kind == "standing" else []
        return found

    async def close_code(self) -> int | None:
        """The code that the gateway closes with, for a reason that is kept in `reason`."""
        while not self.socket.closed:
            message = await self.socket.receive(PATIENCE_S)
            if message.type is aiohttp.WSMsgType.CLOSE:
                self.reason = message.extra
        return self.socket.close_code


@asynccontextmanager
async def websocket(
    harness: Harness, query: str = "window=alltime", board: str = "vault", **how: Any
) -> AsyncIterator[SocketFeed]:
    """A WebSocket that listens."""
    await caught_up(harness, board)
    url = f"{harness.url}/v1/boards/{board}/live/websocket?{query}"
    async with harness.session.ws_connect(url, **how) as socket:
        feed = SocketFeed(socket)
        if "after=" not in query:
            assert (await feed.event()).kind == "begin"
        yield feed


async def caught_up(harness: Harness, board: str = "vault") -> None:
    """Wait until the edge has read a board's stream, so that a new listener hears only what follows."""
    reader, lane = harness.edge.live._reader, lane_of(board)
    newest = [each for each, _ in await harness.edge.index.client.xrevrange(keys.changes(board), count=1)]
    deadline = time.monotonic() + PATIENCE_S

    def is_behind() -> bool:
        return lane in reader.lanes and position_of(reader.position(lane) or "0-0") < position_of(newest[0])

    while newest and is_behind():
        assert time.monotonic() < deadline, "the reader does not get there"
        await asyncio.sleep(0.002)


def listeners_of(harness: Harness, board: str = "vault") -> set[Listener]:
    """Who listens to a board at an edge."""
    return harness.edge.live._boards[lane_of(board)][board].listeners


def ranking_of(*rankings: Ranking) -> RankingOf:
    """What a feed is told of the boards that there are."""
    known = {ranking.policy.board: ranking for ranking in rankings}

    async def look_up(board: str) -> Ranking | None:
        return known.get(board)

    return look_up


def entry(player: str, number: int, **other: Any) -> dict[str, Any]:
    """Return what `project_change.lua` writes when a player tops an empty window with a score of `number`."""
    facts: dict[str, Any] = {
        "board": "vault",
        "seq": number,
        "window": "alltime",
        "player": player,
        "name": "",
        "submission": f"s{number}",
        "order": -number,
        "member": f"{number:022x}:{player}",
        "rank": 1,
        "was_order": "",
        "was_member": "",
        "was_rank": 0,
    }
    return facts | other


async def add(
    client: Redis, *entries: dict[str, Any], board: str = "vault", stream_id: str = "*"
) -> list[str]:
    """The ids of entries that were put on the stream of a board."""
    return [
        str(await client.xadd(keys.changes(board), each | {"board": board}, id=stream_id)) for each in entries
    ]
