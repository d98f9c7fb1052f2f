"""The front of the front door: answers in a moment what is asked most, and leaves the rest to `cli`.

A container asks `scoregate health` every ten seconds. To load what reads commands and settings would cost
more than the edge needs for its answer. So an edge that is well is told here, with nothing but a socket.
Whatever else it is, `cli` asks again, with every setting, and finds the words.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

DEFAULT_BIND: Final = "127.0.0.1:8080"
"""As of `Settings.bind`."""
TIMEOUT_S: Final = 0.25
"""For an edge that takes longer, `cli` has the rest of the time that a container gives to a check."""
ANSWER_BYTES: Final = 65_536

_BIND: Final = re.compile(r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0):([1-9][0-9]{0,4})")
"""Addresses at which an edge of this machine is asked at 127.0.0.1."""
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?")


def main() -> None:
    """Run the command that the words name."""
    open_standard_streams()
    words = sys.argv[1:]
    if words in (["--version"], ["version"]):
        from importlib.metadata import version

        sys.stdout.write(f"{version('scoregate')}\n")
    elif words != ["health"] or not is_well(os.environ):
        from scoregate import cli

        cli.main()


def open_standard_streams() -> None:
    """Open what of standard input, output and error is closed, to nothing.

    Else the next files have their numbers: a ledger that whatever prints would be written into, and a socket
    of the event loop, which ends the process as it closes it.
    """
    streams = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(streams):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def is_well(environment: Mapping[str, str]) -> bool:
    """Return whether the edge of these variables is ready and nothing is amiss. If unsure, it is not."""
    import json

    told = {name.upper(): value for name, value in environment.items()}  # settings are read in any case
    bind = _BIND.fullmatch(told.get("SCOREGATE_BIND", DEFAULT_BIND))
    if bind is None:
        return False
    first_host, *_ = told.get("SCOREGATE_HOSTS", f"127.0.0.1:{bind[1]}").split(",")
    if _HOST.fullmatch(first_host) is None:
        return False
    try:
        answer = json.loads(_answer(int(bind[1]), first_host))
    except (OSError, ValueError):
        return False
    return isinstance(answer, dict) and answer.get("status") == "ready" and answer.get("policies") is True


def _answer(port: int, host: str) -> bytes:
    """Return the body of a readiness that is 200, and nothing of any other answer. Raises OSError."""
    import socket

    question = f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(question.encode("ascii"))
        answer = b""
        while len(answer) < ANSWER_BYTES and (more := connection.recv(ANSWER_BYTES)):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    return body if head.startswith(b"HTTP/1.1 200 ") else b""
