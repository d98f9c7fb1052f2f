"""Takes from this process what a simulation does not need: files, network, threads, unbounded resources.

It is called once, before the first simulator is seen. A module can reach nothing anyway, having no imports; for it this
is the second wall, for the day a compiler bug breaks the first. For a plug-in, and for a program where there is no
bubblewrap, it is the only one. What the system cannot do is left out: only resource limits are certain everywhere, the
rest is Linux (user and network namespaces, Landlock).
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from time import process_time

COMPILE_BYTES = 768 * 1024 * 1024
"""Room for the interpreter, the compiler and the compiled code, beside a module's own memory."""
MEMORY_BYTES_LIMIT = 1024 * 1024 * 1024
"""The largest memory a policy can grant a module (policies.model.Budget.memory_mib)."""
ADDRESS_BYTES = 16 * 1024 * 1024 * 1024
"""Addresses, used or not: wasmtime reserves over 4 GiB of them for a memory of any size."""
OPEN_FILES = 16
PROGRAM_OPEN_FILES = 256
PROGRAM_ADDRESS_BYTES = 1024 * 1024 * 1024
"""Addresses that a native program may have beside its memory: libraries, mapped files, stacks that are never used up."""
NOBODY = 65_534
"""The user and group that owns nothing, on Linux and the BSDs."""

# <linux/prctl.h>, <linux/sched.h>, <linux/landlock.h>; the Landlock calls have one number on every machine.
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x1000_0000, 0x4000_0000, 0x0800_0000
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION_FLAG = 1
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_PATH_BENEATH = 1
_SIGKILL = 9

READ = 0b1101
"""LANDLOCK_ACCESS_FS_EXECUTE, READ_FILE and READ_DIR."""
WRITE = 2**64 - 1
"""Every right there is."""
_OF_FILES = 0b1100_0000_0000_0111
"""The rights that mean something for what is no folder: EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE, IOCTL_DEV."""


_softened: dict[int, int] = {}
"""What the limits of this process that go up and down were set to last."""


def confine(parent: int) -> None:
    """Confines this process for the rest of its life; it dies with its parent, of process id `parent`."""
    _limit_resources()
    leave(parent, {})


def limit_program(memory_bytes: int, processor_s: int) -> None:
    """Limits what each process of a program may use. Memory is counted twice: as written to, and as addresses.

    RLIMIT_DATA does not count memory that processes share, which RLIMIT_AS does.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, PROGRAM_OPEN_FILES)
    _lower(resource.RLIMIT_CPU, processor_s)
    _lower(resource.RLIMIT_AS, memory_bytes + PROGRAM_ADDRESS_BYTES)
    _lower(resource.RLIMIT_DATA, memory_bytes)


def become_nobody() -> None:
    """Gives up the rights of root, where this process has them: over files, other processes, and resource limits."""
    if os.geteuid() != 0:
        return
    with suppress(OSError):  # a container may have left root without the right to become somebody else
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def leave(parent: int, allowed: Mapping[Path, int]) -> None:
    """Leaves network, other processes and all files but the `allowed`, as far as this system can."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    _leave_network(libc)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _leave_files(libc, allowed.items())
    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked to be told
        raise SystemExit(0)


def limit_next(memory_bytes: int, wall_ms: int, room_bytes: int = COMPILE_BYTES) -> None:
    """Limits memory and processor time of the work that follows; a process past the latter gets SIGXCPU.

    RLIMIT_DATA counts writable private memory (Linux 4.7 and later), not the addresses wasmtime merely
    reserves, so it is the limit that means something. The time is a second belt: the parent stops us first. `room_bytes`
    is what this process itself needs.
    """
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
    """Sets both limits of a kind, or keeps a stricter one that is already there."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _soften(kind: int, value: int) -> None:
    """Sets the limit of a kind that may be raised again, unless that is what it is: runs of a second are many."""
    if _softened.get(kind) == value:
        return
    _softened[kind] = value
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _leave_network(libc: ctypes.CDLL) -> None:
    """Moves into an empty network of our own, as root may or else as an unprivileged user may.

    Root gives up its rights in between: the kernel binds root to no limit of processes.
    """
    has_left = libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC) == 0
    become_nobody()
    if not has_left:
        libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC)


def _fields_of(version: int) -> int:
    """How many fields a ruleset has: files, then TCP, then scopes."""
    return 1 + (version >= _TCP_SINCE) + (version >= _SCOPES_SINCE)


def _leave_files(libc: ctypes.CDLL, allowed: Iterable[tuple[Path, int]]) -> None:
    """Denies all files by path but the `allowed`; and TCP and signals to others where the kernel can (Landlock ABI 4, 6)."""
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


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, rights: int) -> None:
    """Allows what is at the path, and beneath it. What is not there need not be allowed."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rule = struct.pack("=Qi", rights if path.is_dir() else rights & _OF_FILES, descriptor)
    libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    os.close(descriptor)
