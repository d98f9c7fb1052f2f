"""What a disk has for sure after a power cut: the content of each file and the names in each folder when last synced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class SureDisk:
    """Notes what this process syncs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._files: dict[int, bytes] = {}
        """By inode: a file may get its name later."""
        self._folders: dict[Path, set[str]] = {}
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._note)

    def _note(self, descriptor: int) -> None:
        self._fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self._folders[path] = {each.name for each in path.iterdir()}
        else:
            self._files[os.fstat(descriptor).st_ino] = path.read_bytes()

    def unsure(self, folder: Path) -> list[str]:
        """Return what of a folder a power cut could take: the content of a file, or a name."""
        unsure = []
        for path in sorted([folder, *folder.rglob("*")]):
            if path.name not in self._folders.get(path.parent, set()):
                unsure.append(f"the name {path.relative_to(folder.parent)}")
            if path.is_file() and self._files.get(path.stat().st_ino) != path.read_bytes():
                unsure.append(f"the content of {path.relative_to(folder.parent)}")
        return unsure
