"""What a process may still do once it is confined, as the kernel answers it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernel import landlock_version

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux takes these rights away")

TRUNCATE_SINCE, TCP_SINCE, DEVICES_SINCE, SCOPES_SINCE = 3, 4, 5, 6
"""Versions of Landlock's interface (landlock(7))."""


def said(program: str, *words: str) -> Any:
    """What a Python program prints as JSON."""
    begun = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(program)
    command = [sys.executable, "-c", begun, *words]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


TRIED = """
    import fcntl, json, os, socket
    from pathlib import Path
    from replay.confined import confinement
    from replay.confined.confinement import READ, WRITE, leave

    readable, scratch, port, name = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    confinement._leave_network = lambda libc: None  # as where no namespace is granted
    devices = {Path("/dev/null"): WRITE, Path("/dev/zero"): READ}
    if sys.argv[5] == "confined":
        leave(os.getppid(), {readable: READ, scratch: WRITE, Path("/nowhere"): READ} | devices)

    tried = {
        "reads": lambda: (readable / "file").read_text(),
        "lists": lambda: os.listdir(readable),
        "writes": lambda: (readable / "file").write_text("x"),
        "makes": lambda: (readable / "new").mkdir(),
        "removes": lambda: (readable / "gone").unlink(),
        "truncates": lambda: os.truncate(readable / "cut", 0),
        "moves out": lambda: (readable / "out").rename(scratch / "out"),
        "writes own": lambda: (scratch / "own").write_text("x"),
        "moves own": lambda: (scratch / "own").rename(scratch / "inner" / "own"),
        "moves in": lambda: (scratch / "inner" / "own").rename(readable / "own"),
        "reads others": lambda: Path("/etc/passwd").read_text(),
        "lists others": lambda: os.listdir("/"),
        "writes to a device": lambda: Path("/dev/null").write_text("x"),
        "writes to one for reading": lambda: Path("/dev/zero").write_text("x"),
        "commands a device": lambda: fcntl.ioctl(os.open("/dev/zero", os.O_RDONLY), 0x5401, bytes(64)),
        "connects": lambda: socket.socket().connect(("127.0.0.1", port)),
        "listens": lambda: socket.socket().bind(("127.0.0.1", 0)),
        "connects to a name": lambda: socket.socket(socket.AF_UNIX).connect("\\0" + name),
        "signals": lambda: os.kill(os.getppid(), 0),
    }
    found = {}
    for what, action in tried.items():
        try:
            action()
            found[what] = "may"
        except OSError as error:
            found[what] = "may" if error.errno == 25 else "may not"  # ENOTTY: the device was asked
    print(json.dumps(found))
"""


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_P17_a_confined_process_may_do_what_it_is_allowed_and_no_more(tmp_path: Path):
    """P17: of files what is listed, as it is listed; no TCP, no name of a socket, no signal, where Landlock knows them."""
    assert {"may"} == set(_tried(tmp_path, "free").values())
    version = landlock_version()
    known_since = {
        "truncates": TRUNCATE_SINCE,
        "connects": TCP_SINCE,
        "listens": TCP_SINCE,
        "commands a device": DEVICES_SINCE,
        "connects to a name": SCOPES_SINCE,
        "signals": SCOPES_SINCE,
    }
    allowed = {"reads", "lists", "writes own", "writes to a device", "moves own"}
    allowed |= {what for what, since in known_since.items() if version < since}
    assert allowed == {what for what, answer in _tried(tmp_path, "confined").items() if answer == "may"}


def _tried(directory: Path, how: str) -> Mapping[str, str]:
    """What a process may do, which has one folder to read and one to write in."""
    readable, scratch, name = directory / how / "readable", directory / how / "scratch", uuid.uuid4().hex
    readable.mkdir(parents=True)
    (scratch / "inner").mkdir(parents=True)
    for each in ("file", "gone", "cut", "out"):
        (readable / each).write_text("held")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0{name}")
        local.listen()
        return said(TRIED, str(readable), str(scratch), str(server.getsockname()[1]), name, how)


LIMITED = """
    import json, resource
    from replay.confined.confinement import _limit_resources, limit_next, limit_program

    def lower(kind, value):
        resource.setrlimit(getattr(resource, kind), (value, value))

    lower("RLIMIT_NOFILE", 9), lower("RLIMIT_CPU", 1000), lower("RLIMIT_DATA", 2**29)
    {then}
    kinds = ("RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_DATA")
    print(json.dumps([resource.getrlimit(getattr(resource, each)) for each in kinds]))
"""


@pytest.mark.parametrize(
    "then", ["limit_program(2**30, 2000)", "_limit_resources()\n    limit_next(2**30, 2_000_000)"]
)
def test_P09_a_stricter_limit_of_the_operator_stays(then: str):
    """P09: what a service's unit or a container allows is never raised, though the process were allowed to."""
    assert [[9, 9], [1000, 1000], [2**29, 2**29]] == said(LIMITED.format(then=then))
