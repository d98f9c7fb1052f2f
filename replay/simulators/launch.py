"""The moment before a native program runs: this process gives up what the program must not have, and becomes it.

It is started by `replay.simulators.process` and by nobody else. Inside bubblewrap there is little left to give up; alone,
it is all there is between the program and the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from policies.system import SYSTEM
from replay.simulators.confinement import READ, WRITE, become_nobody, leave, limit_program

INSIDE, ALONE = "inside", "alone"
SCRATCH = "scratch"
"""Name of the folder that a program that runs alone may write to."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def main(parent: int, how: str, folder: str, memory_bytes: str, processor_s: str, *command: str) -> None:
    """Becomes `command`, with this process' environment. `folder` holds what a program that runs alone may see."""
    limit_program(int(memory_bytes), int(processor_s))
    if how == ALONE:
        leave(parent, _allowed(Path(folder)))
    become_nobody()
    try:
        os.execv(command[0], command)  # noqa: S606 - becoming it is the point
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error}")


def _allowed(folder: Path) -> dict[Path, int]:
    paths = dict.fromkeys(map(Path, SYSTEM), READ) | dict.fromkeys(map(Path, DEVICES), WRITE)
    return {**paths, folder: READ, folder / SCRATCH: WRITE}
