"""The last step before a native program: this process gives up its rights and becomes the program.

Only `replay.simulators.process` starts it. Inside bubblewrap there is little left to give up; alone, this is
the only barrier between the program and the machine.
"""

from __future__ import annotations

import os
import sys

from policies.system import SYSTEM
from replay.confined.confinement import READ, WRITE, become_nobody, leave, limit_program

INSIDE, ALONE = "inside", "alone"
SCRATCH = "scratch"
"""Name of the folder that a program running alone may write to."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def main(parent: int, how: str, folder: str, memory_bytes: str, processor_s: str, *command: str) -> None:
    """Become `command`, with this process's environment.

    `folder` holds what a program running alone may see.
    """
    limit_program(int(memory_bytes), int(processor_s))
    if how == ALONE:
        leave(parent, _allowed(folder))
    become_nobody()
    try:
        os.execv(command[0], command)  # noqa: S606 - becoming it is the point
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error}")


def _allowed(folder: str) -> dict[str, int]:
    paths = dict.fromkeys(SYSTEM, READ) | dict.fromkeys(DEVICES, WRITE)
    return {**paths, folder: READ, f"{folder}/{SCRATCH}": WRITE}
