"""Packages with validators, installed for a test as pip would: a module, and a dist-info that names it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

from policies.plugins import GROUP, load_plugin


def install(folder: Path, name: str, source: str, *, package: str = "", attribute: str = "check") -> None:
    """Puts a package there, version 1.0, that offers an attribute of `source` as the validator `name`."""
    module = package or name.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}:{attribute}\n")


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """Make a folder importable until the block ends, and then forget the modules loaded from it."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        load_plugin.cache_clear()
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
