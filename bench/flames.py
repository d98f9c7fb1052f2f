"""Draws where the time of each hot path goes: a flame graph for each, into `docs/images/flames/`.

    python -m bench.flames [submission verdict read kept rebuild] [--units 48]

A path of `bench.hot_paths`, or a rebuild, runs in this process, under a profile of each call of the main
thread. The width of a box is the share of the processor time while its function was on the stack; boxes below
half a percent are left out. What runs in compiled code is in the box of the function that called it. To watch
a call costs something, so that functions of many small calls look wider than they are.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from bench.hot_paths import PATHS, TOGETHER, prepare, settings_of
from bench.rebuild import rebuilding
from gateway.runtime.telemetry import configure_logging
from tests.support.valkey import running_valkey

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "images" / "flames"
WIDTH, HEIGHT, LETTER = 1_200, 17, 6.4
LEAST_SHARE: Final = 0.005
_FONT: Final = 'font-family="monospace" font-size="11"'

DRAWN: Final = {**PATHS, "rebuild": rebuilding}

Stack = tuple[str, ...]
"""Functions from the outermost to the innermost."""


class Box(NamedTuple):
    """A function on a stack: its depth, and where it begins and ends as shares of the whole."""

    name: str
    depth: int
    begin: float
    end: float


def main() -> None:
    """Profile each path, and draw it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", default=[*DRAWN])
    parser.add_argument("--units", type=int, default=48)
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    configure_logging("warning")
    for path in arguments.paths:
        spent = profiled(path, arguments.units)
        (FOLDER / f"{path}.svg").write_text(drawn(path, spent))
        print(f"{path}: {spent.total() / arguments.units / 1000:.0f} µs each")


def profiled(path: str, units: int) -> Counter[Stack]:
    """Return the processor time (ns) of each stack while a path did so many units."""

    async def perform() -> Counter[Stack]:
        async with DRAWN[path](settings_of(Path(folder), valkey.url)) as do:
            await do(2 * TOGETHER)
            profile = _Profile()
            sys.setprofile(profile.note)
            await do(units)
            sys.setprofile(None)
            return profile.spent

    with tempfile.TemporaryDirectory(prefix="sgf-") as folder, running_valkey() as valkey:
        prepare(settings_of(Path(folder), valkey.url), units + 2 * TOGETHER)
        return asyncio.run(perform())


class _Profile:
    """The processor time of each stack. A coroutine is on it from when it goes on until it waits."""

    def __init__(self) -> None:
        self.spent: Counter[Stack] = Counter()
        self._stack: Stack = ()
        self._at_ns = time.thread_time_ns()

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take the beginning or the end of a call."""
        if event not in ("call", "return"):
            return
        self.spent[self._stack] += time.thread_time_ns() - self._at_ns
        if event == "call":
            self._stack += (f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}",)
        else:
            self._stack = self._stack[:-1]
        self._at_ns = time.thread_time_ns()


def boxes_of(spent: Counter[Stack], depth: int = 0, begin: float = 0.0, whole: int = 0) -> Iterator[Box]:
    """Yield the boxes of some stacks that are the same up to `depth`, by name, the outer ones first."""
    whole = whole or spent.total()
    parts: dict[str, Counter[Stack]] = {}
    for stack, count in spent.items():
        if len(stack) > depth:
            parts.setdefault(stack[depth], Counter())[stack] = count
    for name in sorted(parts):
        end = begin + parts[name].total() / whole
        if end - begin >= LEAST_SHARE:
            yield Box(name, depth, begin, end)
            yield from boxes_of(parts[name], depth + 1, begin, whole)
        begin = end


def drawn(path: str, spent: Counter[Stack]) -> str:
    """Return a picture of the spent time as SVG, which needs nothing else."""
    boxes = [*boxes_of(spent)]
    height = (max(box.depth for box in boxes) + 2) * HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {_FONT}>',
            f'<text x="4" y="12">{escape(path)}: where the processor time goes</text>',
            *map(_drawn, boxes),
            "</svg>\n",
        ]
    )


def _drawn(box: Box) -> str:
    x, width = box.begin * WIDTH, (box.end - box.begin) * WIDTH
    y = (box.depth + 1) * HEIGHT
    label = box.name.rpartition("gateway.")[2][: max(0, int(width / LETTER) - 1)]
    colour = "#f4b183" if box.name.startswith(("gateway", "validators", "policies", "replay")) else "#d9d9d9"
    return (
        f'<g><title>{escape(box.name)} {box.end - box.begin:.1%}</title><rect x="{x:.1f}" y="{y}" '
        f'width="{width:.1f}" height="{HEIGHT - 1}" fill="{colour}"/>'
        f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(label)}</text></g>'
    )


if __name__ == "__main__":
    main()
