"""What this machine's kernel can take from a process, asked of the kernel itself."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from typing import Final

_LANDLOCK_CREATE_RULESET: Final = 444
_NETWORK_AND_IPC: Final = 0x4800_0000


def landlock_version() -> int:
    """The version of Landlock's interface (landlock_create_ruleset(2)); 0 where there is none."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None)
    return max(0, libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1))


@cache
def has_namespaces() -> bool:
    """Whether a process may leave the network and the shared memory of this machine."""
    flags = f"{_NETWORK_AND_IPC} | {'0' if is_root() else '0x1000_0000'}"
    program = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({flags}) != 0)"
    return (
        sys.platform == "linux"
        and subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    )


def is_root() -> bool:
    """Whether these tests run as root, who gives up more than others do."""
    return os.geteuid() == 0
