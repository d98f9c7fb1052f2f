"""Large transactions of one board, packed by hiredis: packing in Python would take half of a rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from hiredis import pack_command
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.exceptions import AskError, ClusterError, MovedError

from gateway.index.cluster import HOPS, Client, Cluster, connection_to, node_of

Command = tuple[Any, ...]


async def transact(client: Client, key: str, commands: Sequence[Command]) -> list[Any]:
    """Run a transaction in the slot of `key`, and return its replies. Raises redis' errors.

    A node without the slot refuses the whole transaction and names another, which gets it next.
    """
    if not isinstance(client, RedisCluster):
        return await _exchange(client, None, commands, is_asking=False)
    async with client.turn() if isinstance(client, Cluster) else nullcontext():
        return await _transact_on(client, key, commands)


async def _transact_on(client: RedisCluster, key: str, commands: Sequence[Command]) -> list[Any]:
    node, is_asking = await node_of(client, key), False
    for _ in range(HOPS):
        try:
            return await _exchange(client, node, commands, is_asking=is_asking)
        except (MovedError, AskError) as error:
            is_asking = isinstance(error, AskError)
            node = await _followed(client, key, error)
    raise ClusterError(f"the slot moved more than {HOPS} times")


async def _followed(client: RedisCluster, key: str, error: AskError) -> ClusterNode:
    if isinstance(error, MovedError):
        await client.nodes_manager.move_slot(error)
        return await node_of(client, key)
    node = client.get_node(error.host, error.port)
    if node is None:
        raise ClusterError(f"no node at {error.host}:{error.port}")
    return node


async def _exchange(
    client: Client, where: ClusterNode | None, commands: Sequence[Command], *, is_asking: bool
) -> list[Any]:
    # ASKING holds for the command after it, and where that is MULTI until the transaction ends.
    opening = [("ASKING",), ("MULTI",)] if is_asking else [("MULTI",)]
    packed = b"".join(pack_command(command) for command in (*opening, *commands, ("EXEC",)))
    async with connection_to(client, where) as connection:
        await connection.send_packed_command(packed)
        for _ in range(len(opening) + len(commands)):
            await connection.read_response()
        replies: list[Any] = await connection.read_response()
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
