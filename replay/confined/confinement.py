"""Takes from this process what a simulation does not need: files, network, threads, unbounded resources.

It is called once, before the first simulator is loaded. A module has no imports and can reach nothing anyway,
so for it this is a second wall, in case a compiler bug breaks the first. For a plug-in, and for a program
without bubblewrap, it is the only wall. Only resource limits exist on every system; the rest is Linux (user
and network namespaces, Landlock) and is left out elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from math import ceil
from stat import S_ISDIR
from time import process_time

TYPE_CHECKING = False
if TYPE_CHECKING:  # each start would wait for these, and for typing
    from collections.abc import Iterable, Mapping

COMPILE_BYTES = 768 * 1024 * 1024
"""Room for the interpreter, the compiler and the compiled code, besides a module's own memory."""
MEMORY_BYTES_LIMIT = 1024 * 1024 * 1024
"""The most memory that a policy can grant a module (policies.replaying.Budget.memory_mib)."""
ADDRESS_BYTES = 16 * 1024 * 1024 * 1024
"""Address space, used or not: wasmtime reserves over 4 GiB for a memory of any size."""
OPEN_FILES = 16
PROGRAM_OPEN_FILES = 256
PROGRAM_ADDRESS_BYTES = 1024 * 1024 * 1024
"""Address space of a native program besides its memory: libraries, mapped files, stacks that are never used
up."""
NOBODY = 65_534
"""The user and group that owns nothing, on Linux and the BSDs."""

# <linux/prctl.h>, <linux/sched.h>, <linux/capability.h>, <linux/landlock.h>; the Landlock calls have one
# number on every machine.
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x1000_0000, 0x4000_0000, 0x0800_0000
_CAPABILITY_VERSION, _CAPABILITY_SETS_BYTES = 0x2008_0522, 24
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION_FLAG = 1
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_PATH_BENEATH = 1
_SIGKILL = 9

READ = 0b1101
"""LANDLOCK_ACCESS_FS_EXECUTE, READ_FILE and READ_DIR."""
WRITE = 2**64 - 1
"""All rights."""
_OF_FILES = 0b1100_0000_0000_0111
"""The rights that apply to files as well as folders: EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE, IOCTL_DEV."""


_softened: dict[int, int] = {}
"""The last value of each limit that this process raises and lowers."""


def confine(parent: int) -> None:
    """Confine this process for the rest of its life. It dies with its parent, of process id `parent`."""
    _limit_resources()
    leave(parent, {})


def limit_program(memory_bytes: int, processor_s: int) -> None:
    """Limit what each process of a program may use."""
    # Memory is limited twice: RLIMIT_DATA does not count shared memory, which RLIMIT_AS does.
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, PROGRAM_OPEN_FILES)
    _lower(resource.RLIMIT_CPU, processor_s)
    _lower(resource.RLIMIT_AS, memory_bytes + PROGRAM_ADDRESS_BYTES)
    _lower(resource.RLIMIT_DATA, memory_bytes)


def become_nobody() -> None:
    """Give up root's rights, if this process has them: over files, other processes, and resource limits."""
    if os.geteuid() != 0:
        return
    try:  # not suppress: a start would wait for contextlib
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:  # in a container, root may not be allowed to change users
        pass


def leave(parent: int, allowed: Mapping[str, int]) -> None:
    """Leave the network, other processes and all files but the `allowed`, as far as the system can."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _leave_network(libc)
    _give_up_capabilities(libc)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _leave_files(libc, allowed.items())
    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before prctl could watch it
        raise SystemExit(0)


def limit_next(memory_bytes: int, wall_ms: int, room_bytes: int = COMPILE_BYTES) -> None:
    """Limit memory and processor time of the next work. A process that exceeds its time gets SIGXCPU.

    `room_bytes` is what this process itself needs.
    """
    # RLIMIT_DATA counts writable private memory (Linux 4.7), not the addresses that wasmtime merely reserves.
    # The time limit is a second safeguard: the parent stops us first.
    _soften(resource.RLIMIT_DATA, room_bytes + memory_bytes)
    _soften(resource.RLIMIT_CPU, ceil(process_time() + wall_ms / 1000) + 1)


def _limit_resources() -> None:
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _lower(resource.RLIMIT_AS, ADDRESS_BYTES)
    _lower(resource.RLIMIT_DATA, COMPILE_BYTES + MEMORY_BYTES_LIMIT)


def _lower(kind: int, value: int) -> None:
    """Set both limits of a kind, or keep a stricter hard limit."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _soften(kind: int, value: int) -> None:
    """Set the soft limit of a kind, unless it is set already, since runs may be many a second."""
    if _softened.get(kind) == value:
        return
    _softened[kind] = value
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _leave_network(libc: ctypes.CDLL) -> None:
    """Move into an empty network of our own, as root or as an unprivileged user may."""
    # Root gives up its rights in between, because the kernel does not limit root's processes.
    has_left = libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC) == 0
    become_nobody()
    if not has_left:
        libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC)


def _give_up_capabilities(libc: ctypes.CDLL) -> None:
    """Give up every right of root's over the kernel: a new user namespace grants them all within itself.

    So does root's user, where root may not change users.
    """
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)  # of this process
    libc.capset(header, bytes(_CAPABILITY_SETS_BYTES))


def _fields_of(version: int) -> int:
    """Return how many fields a ruleset has: files, then TCP, then scopes."""
    return 1 + (version >= _TCP_SINCE) + (version >= _SCOPES_SINCE)


def _leave_files(libc: ctypes.CDLL, allowed: Iterable[tuple[str, int]]) -> None:
    """Deny all paths but the `allowed`, and TCP and foreign signals if the kernel can (Landlock ABI 4, 6)."""
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG)
    if version < 1:
        return
    file_rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    fields = (2**file_rights - 1, 0b11, 0b11)[: _fields_of(version)]
    rules = struct.pack(f"<{len(fields)}Q", *fields)
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset >= 0:
        for path, rights in allowed:
            _allow(libc, ruleset, path, rights & fields[0])
        libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Allow the path and everything beneath it. A missing path needs no permission."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    is_folder = S_ISDIR(os.fstat(descriptor).st_mode)
    rule = struct.pack("=Qi", rights if is_folder else rights & _OF_FILES, descriptor)
    libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    os.close(descriptor)
