"""What every sandbox of a program shows of the machine that it is on, and no digest covers."""

from __future__ import annotations

from typing import Final

SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
)
