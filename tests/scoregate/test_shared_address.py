"""One address for several edges: a claim that excludes others, a socket for each, and what becomes of them."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.errors import SettingsError
from scoregate import shared_address
from scoregate.processes import Supervisor
from scoregate.shared_address import SharedAddress, inherited, is_free, sharing
from scoregate.stack import free_bind

HOST = "127.0.0.1"
PATIENCE_S = 20.0

SERVER = """
import os, signal, socket, sys
listener = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
listener.listen(64)
def end(*_):
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
while True:
    connection, _ = listener.accept()
    connection.sendall(str(os.getpid()).encode())
    connection.close()
"""
"""A part that says to each client which process it is, and ends in order on SIGTERM."""

LAST = """
import signal, socket, sys
listener = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
listener.listen(64)
def end(*_):
    where = listener.getsockname()
    listener.close()
    with socket.socket() as client:
        sys.exit(0 if client.connect_ex(where) else 7)
signal.signal(signal.SIGTERM, end)
signal.pause()
"""
"""A part that is told to end, closes its socket, and fails if somebody else still listens."""

TOGETHER = """
import os, signal, sys, time
own, others = sys.argv[1], sys.argv[2:]
def end(*_):
    open(own, "w").close()
    while not all(map(os.path.exists, others)):
        time.sleep(0.01)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open(own + ".ready", "w").close()
while True:
    signal.pause()
"""
"""A part that ends only once others were told to end too."""


@pytest.fixture
def address() -> Iterator[SharedAddress]:
    with sharing(f"{HOST}:0", 2) as address:
        yield address


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path / "logs", stop_s=PATIENCE_S)
    yield supervisor
    supervisor.stop()


def served(
    supervisor: Supervisor, address: SharedAddress, program: str = SERVER, count: int = 2
) -> list[int]:
    """The process ids of parts that all listen at the address."""
    for number in range(1, count + 1):
        supervisor.start(f"server-{number}", [sys.executable, "-c", program], os.environ, address=address)
    supervisor.await_ready(supervisor.are_listening, PATIENCE_S, "the servers")
    return [part.process.pid for part in supervisor._parts]


def where_of(address: SharedAddress) -> tuple[str, int]:
    host, port = address.bind.split(":")
    return host, int(port)


def connected(address: SharedAddress, count: int) -> list[socket.socket]:
    return [socket.create_connection(where_of(address), PATIENCE_S) for _ in range(count)]


def greeters(connections: list[socket.socket]) -> set[int]:
    """The processes that answered; an empty answer or a reset fails."""
    pids = set()
    for connection in connections:
        pids.add(int(connection.recv(64)))
        connection.close()
    return pids


def test_PT_an_address_is_claimed_once_whether_or_not_anybody_listens_yet():
    """SO_REUSEPORT lets in whoever asks for it: the claim keeps a second deployment of the same user out, from its first moment on."""
    with sharing(f"{HOST}:0", 2) as address:
        with pytest.raises(
            SettingsError, match=re.escape(f"cannot listen on {address.bind}: Address already")
        ):
            SharedAddress(address.bind)
        for listener in address.sockets():
            listener.listen()
        with pytest.raises(SettingsError, match="Address already in use"):
            SharedAddress(address.bind)
        assert not is_free(address.bind)
        assert f"{HOST}:0" == free_bind(address.bind)
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(where_of(address))


def test_PT_an_address_that_was_given_up_can_be_claimed_at_once():
    """Connections that it closed are no obstacle, though they linger in the kernel for a minute."""
    with sharing(f"{HOST}:0", 2) as address:
        assert is_free(f"{HOST}:0")
        [listener] = address.sockets()
        listener.listen()
        with socket.create_connection(where_of(address)):
            listener.accept()[0].close()
        listener.close()
        bind = address.bind
    with sharing(bind, 2) as again:
        assert bind == again.bind


def test_PT_a_name_of_two_families_has_one_port(monkeypatch: pytest.MonkeyPatch):
    """The port of the first is that of the second, however it was chosen."""
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with sharing("localhost:0", 2) as address:
        names = [each.getsockname() for each in address.sockets()]
        claims = list(address._claims)
    assert [-1, -1] == [claim.fileno() for claim in claims], "each is given up"
    port = int(address.bind.rpartition(":")[2])
    assert [("127.0.0.1", port), ("127.0.0.2", port)] == names
    assert f"localhost:{port}" == address.bind


def test_PT_an_address_of_ipv6_is_no_address_of_ipv4():
    """As asyncio has it, so that one edge and several have the same ports: another program may have that of IPv4."""
    with sharing("[::]:0", 2) as address:
        sockets = [*address._claims, *address.sockets()]
        only = {each.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) for each in sockets}
        for each in sockets[1:]:
            each.close()
    assert {1} == only


def test_PT_the_kernel_divides_connections_among_all(supervisor: Supervisor, address: SharedAddress):
    """Both parts answer on the one port, which nobody had chosen."""
    assert set(served(supervisor, address)) == greeters(connected(address, 60))


def test_PT_what_waits_for_a_part_that_ended_in_order_is_served_by_its_successor(
    supervisor: Supervisor, address: SharedAddress
):
    """The socket outlives the process: of connections made while it is away none is refused, reset or given to nobody."""
    first, second = served(supervisor, address)
    os.kill(first, signal.SIGTERM)
    assert 0 == supervisor._parts[0].process.wait(PATIENCE_S)
    waiting = connected(address, 60)
    assert ["server-1"] == supervisor.revive(pause_s=PATIENCE_S)
    successor = supervisor._parts[0].process.pid
    assert {second, successor} == greeters(waiting)


def test_PT_after_a_crash_connections_go_to_the_others_at_once(
    supervisor: Supervisor, address: SharedAddress
):
    """Its socket is closed as soon as its end is noticed, long before it is started again; then both answer again."""
    first, second = served(supervisor, address)
    os.kill(first, signal.SIGKILL)
    begun = time.monotonic()
    supervisor._await_end(PATIENCE_S)
    assert [] == supervisor.revive(pause_s=PATIENCE_S)
    assert time.monotonic() - begun < PATIENCE_S / 2
    assert {second} == greeters(connected(address, 60))
    assert ["server-1"] == supervisor.revive()
    supervisor.await_ready(supervisor.are_listening, PATIENCE_S, "the servers")
    assert {second, supervisor._parts[0].process.pid} == greeters(connected(address, 60))


def test_PT_a_part_that_crashes_again_and_again_is_not_started_without_a_pause(supervisor: Supervisor):
    """One that ends in order is started at once, one that does not after the pause."""
    for name, program in (("crash", "raise SystemExit(3)"), ("end", "")):
        supervisor.start(name, [sys.executable, "-c", program], os.environ)
    for part in supervisor._parts:
        part.process.wait()
    assert ["end"] == supervisor.revive(PATIENCE_S)
    assert ["end"] == [part.name for part in supervisor._parts if part.ended_s is None]


def test_PT_nobody_listens_while_the_last_requests_are_finished(
    supervisor: Supervisor, address: SharedAddress
):
    """At the end of all, our copies of the sockets are closed first: a client is refused, and does not wait for nobody."""
    served(supervisor, address, LAST, 1)
    supervisor.stop()
    assert [0] == [part.process.returncode for part in supervisor._parts]


def test_PT_parts_of_a_kind_are_told_to_end_together(supervisor: Supervisor, tmp_path: Path):
    """Several edges have one pause and one grace between them, and not one after the other."""
    files = [str(tmp_path / name) for name in ("one", "two")]
    for number, own in enumerate(files, 1):
        words = [sys.executable, "-c", TOGETHER, own, *files]
        supervisor.start(f"edge-{number}", words, os.environ)
    ready = [Path(f"{name}.ready") for name in files]
    supervisor.await_ready(lambda: all(map(Path.exists, ready)), PATIENCE_S, "the parts")
    supervisor.stop()
    assert [0, 0] == [part.process.returncode for part in supervisor._parts]


def test_PT_kinds_end_one_after_the_other_the_last_started_first(supervisor: Supervisor, tmp_path: Path):
    """Who is started first is needed by the others to the end, as Valkey is."""
    order = tmp_path / "order"
    program = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(0.2)\n"
        f"    open({str(order)!r}, 'a').write(sys.argv[1] + ' ')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(tmp_path)!r} + '/' + sys.argv[1], 'w').close()\n"
        "while True: signal.pause()\n"
    )
    names = ["valkey", "edge-1", "steward-1"]
    for name in names:
        supervisor.start(name, [sys.executable, "-c", program, name], os.environ)
    supervisor.await_ready(lambda: all((tmp_path / name).exists() for name in names), PATIENCE_S, "the parts")
    supervisor.stop()
    assert names[::-1] == order.read_text().split()


def test_PT_a_system_that_does_not_divide_says_so(monkeypatch: pytest.MonkeyPatch):
    """Several edges are refused in a sentence with the way out; a single one listens on the claim itself."""
    monkeypatch.setattr(shared_address, "CAN_DIVIDE", False)
    with (
        pytest.raises(SettingsError, match=r"on Linux only .*at an address of its own"),
        sharing(f"{HOST}:0", 2),
    ):
        pass
    with sharing(f"{HOST}:0", 1) as address:
        first, second = (address.sockets()[0] for _ in range(2))
        first.listen()
        first.close()
        with socket.create_connection(where_of(address)) as client:
            second.accept()[0].sendall(b"served")
            assert b"served" == client.recv(16)
        second.close()


def test_PT_what_is_no_tcp_socket_is_not_listened_on():
    """A wrong descriptor is a sentence that names it."""
    with Path(os.devnull).open() as file, socket.socket(socket.AF_UNIX) as other:
        local = os.dup(other.fileno())
        for number, why in ((file.fileno(), "expected a bound socket"), (local, "expected a TCP socket")):
            with pytest.raises(SettingsError, match=f"--fd {number}: {why}"):
                inherited([number])


def test_PT_a_supervisor_sleeps_until_somebody_ends(supervisor: Supervisor):
    """It notices an end within its sleep, whoever it is."""
    for name in ("one", "two"):
        supervisor.start(name, [sys.executable, "-c", "import time; time.sleep(600)"], os.environ)
    killing = threading.Timer(0.2, supervisor._parts[1].process.kill)
    killing.start()
    begun = time.monotonic()
    supervisor._await_end(PATIENCE_S)
    killing.join()
    assert 0.1 < time.monotonic() - begun < PATIENCE_S / 2
