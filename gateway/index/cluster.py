"""The index on a Redis Cluster: redis-py's client, held to what the rest of the index counts on.

All keys of a board share a hash tag, so that a board is in one slot: a script, a pipeline or a transaction of a board
goes to one node, and another board may be elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from redis._parsers import AsyncCommandsParser
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode, ClusterPipeline
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.client import NEVER_DECODE
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisClusterException, RedisError

Client = Redis | RedisCluster

HOPS: Final = 5
"""How often one call follows a slot from node to node."""

LOOKS: Final = 8
"""Connections to each node beside those of calls: for looking for the nodes."""

LOOK_S: Final = 0.1
"""How long at least between two looks for the nodes: each call to a dead one asks for another."""


class Cluster(RedisCluster):
    """A client of a cluster. Every call ends within `timeout_s`.

    At most `connections` commands go at once, and as many pipelines and transactions; more wait. Nothing is sent twice: a node that answers MOVED or ASK has not done what it was sent, and those alone are followed.
    Any other failure is the caller's, and has the client look for the nodes again.
    """

    def __init__(
        self, seeds: Sequence[tuple[str, int]], *, timeout_s: float, connections: int, **options: Any
    ) -> None:
        super().__init__(
            startup_nodes=[ClusterNode(host, port) for host, port in seeds],
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            max_connections=2 * connections + LOOKS,  # of each node, should all go to one
            require_full_coverage=False,  # boards of other slots go on
            reinitialize_steps=0,  # it would break every call under way; a slot that moved is noted without
            **options,
        )
        self.commands_parser = _Commands()
        self.timeout_s = timeout_s
        self._turns = asyncio.Semaphore(connections)
        self._pipelines = asyncio.Semaphore(connections)
        self._look: asyncio.Task[None] | None = None

    async def initialize(self, *arguments: Any, **options: Any) -> RedisCluster:
        """The client, once it knows the nodes."""
        with _told_as_connection():
            return await super().initialize(*arguments, **options)

    async def execute_command(self, *arguments: Any, **options: Any) -> Any:
        """The reply of the node that has the command's key."""
        with self._looking_again(), _told_as_connection():
            async with asyncio.timeout(self.timeout_s), self._turns:
                return await super().execute_command(*arguments, **options)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:  # noqa: ARG002
        """A pipeline that ends within `timeout_s` too."""
        return _Pipeline(self, transaction)  # type: ignore[abstract]  # so is redis-py's own, by its annotations

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The turn of a pipeline or a transaction. Raises TimeoutError if it does not come within `timeout_s`."""
        async with asyncio.timeout(self.timeout_s):
            await self._pipelines.acquire()
        try:
            yield
        finally:
            self._pipelines.release()

    async def aclose(self) -> None:
        """Ends every connection."""
        if self._look:
            self._look.cancel()
            await asyncio.wait([self._look])
        await super().aclose()

    @contextmanager
    def _looking_again(self) -> Iterator[None]:
        # redis-py would have every call wait while it looks, boards of healthy nodes too, and after a failed pipeline,
        # or a failed question which arguments are keys, it would not look at all.
        try:
            yield
        except (NoConnection, OSError):
            if self.nodes_manager.default_node:
                self._initialize = False
                if self._look is None or self._look.done():
                    self._look = asyncio.create_task(self._look_for_nodes())
            raise

    async def _look_for_nodes(self) -> None:
        with suppress(RedisClusterException, RedisError, OSError):
            await self.nodes_manager.initialize()
            await self.commands_parser.initialize(self.nodes_manager.default_node)
        await asyncio.sleep(LOOK_S)


class _Commands(AsyncCommandsParser):
    """Which arguments are keys, learnt once: all of COMMAND at each look for the nodes is too much while one is down."""

    async def initialize(self, node: ClusterNode | None = None) -> None:
        if node and self.commands:
            self.node = node
        else:
            await super().initialize(node)


class _Pipeline(ClusterPipeline):
    cluster_client: Cluster

    async def execute(self, *arguments: Any, **options: Any) -> list[Any]:
        client = self.cluster_client
        with client._looking_again(), _told_as_connection():  # noqa: SLF001 - its own client
            async with asyncio.timeout(client.timeout_s), client.turn():
                return await super().execute(*arguments, **options)


async def node_of(client: RedisCluster, key: str) -> ClusterNode:
    """The node that has a key. Raises redis' ConnectionError."""
    await client.initialize()
    with _told_as_connection():
        return client.get_node_from_key(key)  # type: ignore[return-value]


async def scan(client: Client, key: str, cursor: int, *, match: str, count: int) -> tuple[int, list[bytes]]:
    """The next cursor and some keys, as bytes, of the Redis that has `key`; a cursor is good for that node alone."""
    options: dict[str, Any] = {NEVER_DECODE: True}
    command = ("SCAN", cursor, "MATCH", match, "COUNT", count)
    if not isinstance(client, RedisCluster):
        found, names = await client.execute_command(*command, **options)  # type: ignore[no-untyped-call]
        return found, names
    node = await node_of(client, key)
    cursors, names = await client.execute_command(*command, target_nodes=node, **options)
    return cursors[node.name], names


def streams_by_slot(client: Client, streams: Iterable[str]) -> list[list[str]]:
    """Streams in the groups that one XREAD can name: all of them, and on a cluster those of one slot."""
    if not isinstance(client, RedisCluster):
        return [list(streams)]
    groups: dict[int, list[str]] = defaultdict(list)
    for each in streams:
        groups[client.keyslot(each)].append(each)
    return list(groups.values())


async def server_targets(client: Client) -> list[dict[str, Any]]:
    """For each server of the index, what has a command sent to it."""
    if not isinstance(client, RedisCluster):
        return [{}]
    await client.initialize()
    return [{"target_nodes": node} for node in client.get_nodes()]


async def one_per_server(client: Client, keys: Sequence[str]) -> list[str]:
    """As few of these keys as have one on each server that has any of them."""
    if not isinstance(client, RedisCluster):
        return list(keys[:1])
    return list({(await node_of(client, key)).name: key for key in keys}.values())


@asynccontextmanager
async def connection_to(client: Client, where: ClusterNode | None) -> AsyncIterator[Any]:
    """A connection of one's own, for a while, to that node; None: to the one server that there is."""
    pool: Any = where or client.connection_pool  # type: ignore[union-attr]
    connection = where.acquire_connection() if where else await pool.get_connection()
    try:
        yield connection
    except BaseException:
        await connection.disconnect(nowait=True)  # replies that nobody read would be the next caller's
        raise
    finally:
        if where:
            where.release(connection)
        else:
            await pool.release(connection)


@contextmanager
def _told_as_connection() -> Iterator[None]:
    """Turns what is no RedisError into one: that no node answers, or that none has a slot."""
    try:
        yield
    except RedisClusterException as error:
        raise NoConnection(str(error)) from error
