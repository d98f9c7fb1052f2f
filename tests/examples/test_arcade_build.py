"""The committed arcade module is what its source builds to."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from tests.support.gate import missing

ARCADE = Path(__file__).resolve().parents[2] / "examples" / "arcade"
BUILD = ARCADE / "build.py"


def pinned_version() -> str:
    """The ziglang version that build.py names."""
    found = re.search(r'^ZIGLANG_VERSION = "([^"]+)"$', BUILD.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def installed_version() -> str | None:
    """The version of ziglang at hand, None without one."""
    try:
        return importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        return None


def require_compiler() -> None:
    """Skips the test without the pinned compiler; in CI its absence is a failure."""
    pinned, installed = pinned_version(), installed_version()
    if installed == pinned:
        return
    missing(f"rebuilding arcade.wasm needs ziglang=={pinned}, found {installed}")


def test_rebuild_gives_the_committed_bytes(tmp_path: Path) -> None:
    """A fresh build equals the committed module, byte for byte."""
    require_compiler()
    rebuilt = tmp_path / "arcade.wasm"
    subprocess.run([sys.executable, str(BUILD), "--output", str(rebuilt)], check=True, timeout=300)
    committed = (ARCADE / "arcade.wasm").read_bytes()
    assert hashlib.sha256(committed).hexdigest() == hashlib.sha256(rebuilt.read_bytes()).hexdigest()


def test_module_holds_no_path_of_the_build_machine() -> None:
    """The committed module names no file, home or temporary directory."""
    committed = (ARCADE / "arcade.wasm").read_bytes()
    marks = (b"arcade.c", b"/home", b"/tmp", b"/root", bytes(ARCADE))
    assert [] == [mark for mark in marks if mark in committed]
