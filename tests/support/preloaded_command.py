"""The `scoregate` of a shell: it asks for a fork of a preloaded process, passes signals on, and ends as the fork does.

It imports as little as it can; if it is killed, so is the fork with its parts.
"""

import json
import os
import signal
import socket
import sys

PROGRAM = """
from tests.support.forked_parts import fork_parts
fork_parts()
from scoregate.cli import main
main()
"""


def call() -> int:
    control = socket.socket(fileno=int(os.environ["PRELOADED"]))
    umask = os.umask(0o022)
    os.umask(umask)
    ours, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {
        "program": PROGRAM,
        "words": sys.argv[1:],
        "environment": dict(os.environ),
        "directory": os.getcwd(),  # noqa: PTH109 - pathlib takes as long to import as all else
        "umask": umask,
        "is_tied": True,
    }
    with told:
        socket.send_fds(control, [json.dumps(request).encode()], [told.fileno(), 1, 2, 0])
    control.detach()
    pid = int(ours.recv(64))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    return int(ours.recv(64))


if __name__ == "__main__":
    status = call()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
