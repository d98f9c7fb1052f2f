"""Builds `arcade.wasm` from `core/arcade.c`, the same bytes every time.

    python examples/arcade/build.py [--output PATH]

The compiler is the clang and wasm-ld inside the PyPI package `ziglang`; its version is pinned, because
another one may choose other instructions, and the digest of the module is part of every verdict.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

ZIGLANG_VERSION = "0.17.0"
HERE = Path(__file__).resolve().parent
SOURCE = HERE / "core" / "arcade.c"
MODULE = HERE / "arcade.wasm"
MEMORY_BYTES = 8 * 65536

COMPILE = (
    "-target",
    "wasm32-freestanding",
    "-std=c11",
    "-O2",
    "-g0",
    "-nostdlib",
    "-Wall",
    "-Wextra",
    "-Werror",
)
LINK = (
    "-s",
    "-Wl,--no-entry",
    f"-Wl,--initial-memory={MEMORY_BYTES}",
    f"-Wl,--max-memory={MEMORY_BYTES}",
    "-Wl,-z,stack-size=16384",
)


class WrongCompiler(Exception):
    """The pinned ziglang is not installed."""


def check_compiler() -> None:
    """Raise `WrongCompiler`, which says what to do, unless the pinned ziglang is installed."""
    try:
        version = importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version != ZIGLANG_VERSION:
        raise WrongCompiler(
            f"arcade.wasm is built with ziglang {ZIGLANG_VERSION}, found {version}: "
            f"pip install ziglang=={ZIGLANG_VERSION}"
        )


def build(output: Path) -> str:
    """Build the module at `output` and return its SHA-256."""
    check_compiler()
    # A relative source path from a fixed directory keeps the checkout's location out of the module.
    command = [sys.executable, "-m", "ziglang", "cc", *COMPILE, *LINK, "-o", str(output.resolve())]
    subprocess.run([*command, str(SOURCE.relative_to(HERE))], cwd=HERE, check=True)
    output.chmod(0o644)
    return hashlib.sha256(output.read_bytes()).hexdigest()


def main() -> int:
    """Return 0 after a build, 2 without the pinned compiler."""
    parser = argparse.ArgumentParser(description="Build the arcade game's module.")
    parser.add_argument("--output", type=Path, default=MODULE)
    output: Path = parser.parse_args().output
    try:
        digest = build(output)
    except WrongCompiler as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{digest}  {output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
