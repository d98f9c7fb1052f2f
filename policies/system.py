"""The parts of the host that every sandbox shows to programs and no digest covers."""

from __future__ import annotations

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)
