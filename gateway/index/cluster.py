"""The index on a Redis Cluster: redis-py's client, with the guarantees that the rest of the index needs.

All keys of a board share a hash tag, so each of its scripts, pipelines and transactions goes to one node.
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

from gateway.index.packing import PACKED

Client = Redis | RedisCluster

RAW: Final[dict[str, Any]] = {NEVER_DECODE: True}
"""The option of a command that returns bytes as they are."""

HOPS: Final = 5
"""Most redirections of one call."""

DISCOVERY_CONNECTIONS: Final = 8
"""Connections to each node that are reserved for discovering the nodes."""

DISCOVERY_PAUSE_S: Final = 0.1
"""Shortest time between two discoveries of the nodes: every call to a dead node asks for one."""


class Cluster(RedisCluster):
    """A client of a cluster. Every call ends within `timeout_s`.

    At most `connections` commands run at once, and as many pipelines and transactions; more wait. A call is
    sent again only after MOVED or ASK, when the node has not run it. Any other failure goes to the caller,
    and makes the client discover the nodes again.
    """

    def __init__(
        self, seeds: Sequence[tuple[str, int]], *, timeout_s: float, connections: int, **options: Any
    ) -> None:
        super().__init__(
            startup_nodes=[ClusterNode(host, port) for host, port in seeds],
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            max_connections=2 * connections + DISCOVERY_CONNECTIONS,  # per node: all calls may go to one
            require_full_coverage=False,  # boards in other slots stay available
            reinitialize_steps=0,  # it would break all calls in progress; moved slots are noted anyway
            **options,
        )
        self._pack_by_hiredis()
        self.commands_parser = _Commands()
        self.timeout_s = timeout_s
        self._turns = asyncio.Semaphore(connections)
        self._pipelines = asyncio.Semaphore(connections)
        self._discovery: asyncio.Task[None] | None = None

    def _pack_by_hiredis(self) -> None:
        # redis-py has no option for it: the nodes that were named, and those that will be discovered.
        packed = PACKED[self.connection_kwargs["connection_class"]]
        self.connection_kwargs["connection_class"] = packed
        for node in self.nodes_manager.startup_nodes.values():
            node.connection_class = packed

    async def initialize(self, *arguments: Any, **options: Any) -> RedisCluster:
        """Return the client once it knows the nodes."""
        with _cluster_faults():
            return await super().initialize(*arguments, **options)

    async def execute_command(self, *arguments: Any, **options: Any) -> Any:
        """Return the reply of the node that has the command's key."""
        with self._rediscovering(), _cluster_faults():
            async with asyncio.timeout(self.timeout_s), self._turns:
                return await super().execute_command(*arguments, **options)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:  # noqa: ARG002
        """Return a pipeline that ends within `timeout_s` too."""
        return _Pipeline(self, transaction)  # type: ignore[abstract]  # as redis-py's own is

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn of a pipeline or transaction. Raises TimeoutError after `timeout_s`."""
        async with asyncio.timeout(self.timeout_s):
            await self._pipelines.acquire()
        try:
            yield
        finally:
            self._pipelines.release()

    async def aclose(self) -> None:
        """Close every connection."""
        if self._discovery:
            self._discovery.cancel()
            await asyncio.wait([self._discovery])
        await super().aclose()

    @contextmanager
    def _rediscovering(self) -> Iterator[None]:
        # redis-py would make every call wait for the discovery, even calls to healthy nodes. After a failed
        # pipeline, or a failed COMMAND for the positions of keys, it would not discover the nodes at all.
        try:
            yield
        except (NoConnection, OSError):
            if self.nodes_manager.default_node:
                self._initialize = False
                if self._discovery is None or self._discovery.done():
                    self._discovery = asyncio.create_task(self._discover())
            raise

    async def _discover(self) -> None:
        with suppress(RedisClusterException, RedisError, OSError):
            await self.nodes_manager.initialize()
            await self.commands_parser.initialize(self.nodes_manager.default_node)
        await asyncio.sleep(DISCOVERY_PAUSE_S)


class _Commands(AsyncCommandsParser):
    """The positions of keys in commands, read once: COMMAND is too large to repeat in every discovery."""

    async def initialize(self, node: ClusterNode | None = None) -> None:
        if node and self.commands:
            self.node = node
        else:
            await super().initialize(node)


class _Pipeline(ClusterPipeline):
    cluster_client: Cluster

    async def execute(self, *arguments: Any, **options: Any) -> list[Any]:
        client = self.cluster_client
        with client._rediscovering(), _cluster_faults():  # noqa: SLF001 - its own client
            async with asyncio.timeout(client.timeout_s), client.turn():
                return await super().execute(*arguments, **options)


async def node_of(client: RedisCluster, key: str) -> ClusterNode:
    """Return the node that has a key. Raises redis' ConnectionError."""
    await client.initialize()
    with _cluster_faults():
        return client.get_node_from_key(key)  # type: ignore[return-value]


async def scan(client: Client, key: str, cursor: int, *, match: str, count: int) -> tuple[int, list[bytes]]:
    """Return the next cursor and some keys, as bytes, of the server of `key`; cursors are per server."""
    where = await node_of(client, key) if isinstance(client, RedisCluster) else None
    return await scan_server(client, where, cursor, match=match, count=count)


async def scan_server(
    client: Client, where: ClusterNode | None, cursor: int, *, match: str, count: int
) -> tuple[int, list[bytes]]:
    """Return the next cursor and some keys, as bytes, of a node, or for None of the only server."""
    command = ("SCAN", cursor, "MATCH", match, "COUNT", count)
    if where is None:
        next_cursor, names = await client.execute_command(*command, **RAW)
        return next_cursor, names
    cursors, names = await client.execute_command(*command, target_nodes=where, **RAW)
    return cursors[where.name], names


async def primaries(client: Client) -> list[ClusterNode | None]:
    """Return the nodes that have slots, or [None] for a single server."""
    if not isinstance(client, RedisCluster):
        return [None]
    await client.initialize()
    return [*sorted(client.get_primaries(), key=lambda node: str(node.name))]


async def keys_by_server(client: Client, keys: Iterable[str]) -> list[list[str]]:
    """Group keys by the server that has them. A key of a slot that no node has is alone in its group."""
    if not isinstance(client, RedisCluster):
        return [list(keys)]
    groups: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        try:
            groups[(await node_of(client, key)).name].append(key)
        except NoConnection:
            groups[key].append(key)
    return list(groups.values())


async def server_targets(client: Client) -> list[dict[str, Any]]:
    """Return, for each server of the index, the options that send a command to it."""
    if not isinstance(client, RedisCluster):
        return [{}]
    await client.initialize()
    return [{"target_nodes": node} for node in client.get_nodes()]


async def one_per_server(client: Client, keys: Sequence[str]) -> list[str]:
    """Return one of these keys for each server that has any of them."""
    if not isinstance(client, RedisCluster):
        return list(keys[:1])
    return list({(await node_of(client, key)).name: key for key in keys}.values())


@asynccontextmanager
async def connection_to(client: Client, where: ClusterNode | None) -> AsyncIterator[Any]:
    """Lend an exclusive connection to a node, or for None to the only server."""
    pool: Any = where or client.connection_pool  # type: ignore[union-attr]
    connection = where.acquire_connection() if where else await pool.get_connection()
    try:
        yield connection
    except BaseException:
        await connection.disconnect(nowait=True)  # the next caller would get the unread replies
        raise
    finally:
        if where:
            where.release(connection)
        else:
            await pool.release(connection)


@contextmanager
def _cluster_faults() -> Iterator[None]:
    """Raise a ConnectionError for redis-py's cluster errors: no node answers, or none has a slot."""
    try:
        yield
    except RedisClusterException as error:
        raise NoConnection(str(error)) from error
