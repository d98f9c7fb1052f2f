"""What goes to Redis is the same, byte by byte, as redis-py itself would send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import DataError

from gateway.index.connection import connect
from gateway.index.packing import PackedConnection, PackedSSLConnection, PackedUnixConnection
from policies.vocabulary import State

NAMES = st.sampled_from(["GET", "CONFIG GET", "EVALSHA", b"ZADD"])
VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.integers(),
    st.floats(),
    st.sampled_from([*State]),
    st.binary().map(memoryview),
)


@given(NAMES, st.lists(VALUES, max_size=20))
def test_a_command_is_packed_as_redis_py_packs_it(name, values):
    """Names of two words, members of enumerations and views of memory too."""
    due = b"".join(Connection().pack_command(name, *values))
    assert due == b"".join(PackedConnection().pack_command(name, *values))


@pytest.mark.parametrize("value", [True, None, [1]])
def test_what_is_no_value_is_refused(value):
    """As redis-py refuses it: nothing is sent for it."""
    with pytest.raises(DataError):
        PackedConnection().pack_command("SET", "key", value)


@pytest.mark.parametrize(
    ("url", "due"),
    [
        ("redis://localhost:1/0", PackedConnection),
        ("rediss://localhost:1/0", PackedSSLConnection),
        ("unix:///run/no.sock", PackedUnixConnection),
    ],
)
def test_every_client_packs_in_one_step(url, due):
    """Over TCP, TLS and a Unix socket."""
    assert due is connect(url, timeout_ms=1).connection_pool.connection_class


@pytest.mark.parametrize(
    ("scheme", "due"), [("redis+cluster", PackedConnection), ("rediss+cluster", PackedSSLConnection)]
)
async def test_every_node_of_a_cluster_packs_in_one_step(scheme, due):
    """Those that are named, and those that will be discovered, which get these options."""
    cluster = connect(f"{scheme}://localhost:1,localhost:2", timeout_ms=1)
    classes = {node.connection_class for node in cluster.nodes_manager.startup_nodes.values()}
    assert {due} == classes
    assert due is cluster.nodes_manager.connection_kwargs["connection_class"]


def test_each_kind_of_connection_is_one_of_redis_py():
    """Whatever redis-py asks of them is theirs."""
    assert issubclass(PackedConnection, Connection)
    assert issubclass(PackedSSLConnection, SSLConnection)
    assert issubclass(PackedUnixConnection, UnixDomainSocketConnection)
