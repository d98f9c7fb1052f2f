"""What the other tests listen on: ports that no other process draws, whoever else runs a suite at the same time."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys

import pytest

from tests.support import ports
from tests.support.ports import BLOCK_PORTS, EPHEMERAL_RANGE, HOST, free_port, unserved_port

HELD = """
from tests.support.ports import free_port
print(free_port(), flush=True)
input()
"""


def test_processes_at_once_draw_from_blocks_of_their_own():
    """Each has its block for as long as it lives, and nobody else draws from it meanwhile."""
    command = [sys.executable, "-c", HELD]
    others = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    drawn = [int(other.stdout.readline()) for other in others]
    ours = {free_port() for _ in range(BLOCK_PORTS)}
    for other in others:
        other.communicate("\n")
    assert 3 == len({port // BLOCK_PORTS for port in drawn})
    assert not ours & {port // BLOCK_PORTS * BLOCK_PORTS + n for port in drawn for n in range(BLOCK_PORTS)}


def test_a_process_that_was_forked_draws_from_another_block():
    """A copy of the block would give both the same ports."""
    ours = free_port()
    fork = multiprocessing.get_context("fork")
    port = fork.Value("i")

    def draw() -> None:
        port.value = free_port()

    child = fork.Process(target=draw)
    child.start()
    child.join()
    assert 0 == child.exitcode
    assert ours // BLOCK_PORTS != port.value // BLOCK_PORTS


def test_a_port_comes_again_only_after_all_others_and_not_while_somebody_listens():
    """Who stops a server and starts it on the same port again finds it free."""
    block = ports.claimed_block(
        os.getpid()
    )  # one of its own: in that of this process servers of other tests listen
    with socket.create_server((HOST, block.draw())) as server:
        taken = server.getsockname()[1]
        drawn = [block.draw() for _ in range(BLOCK_PORTS - 2)]
        assert BLOCK_PORTS - 2 == len(set(drawn) - {taken})
        assert drawn[0] == block.draw()


def test_a_port_is_none_that_the_kernel_gives_to_others():
    """Outgoing connections and servers that ask for any port get none of ours."""
    first, last = (int(each) for each in EPHEMERAL_RANGE.read_text().split())
    assert not first <= free_port() <= last


def test_a_port_that_is_to_be_unserved_refuses_connections_and_servers():
    """Nobody can begin to listen on it between the choice and the attempt."""
    with unserved_port() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port))
        with pytest.raises(OSError, match="in use"):
            socket.create_server((HOST, port))
        assert port not in {free_port() for _ in range(BLOCK_PORTS)}
