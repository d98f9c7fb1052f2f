"""Measures how fast policies load, beside reading the same YAML, and what a board of a family costs.

    python -m bench.policies [--files 1000] [--rounds 3]

The files are the bundled policy with two rules, each under a name of its own. The other side reads the same
texts as YAML and does nothing with them. Rounds alternate. Then one family makes ten thousand boards, plain
and with narrower bounds. Prints medians, and the ratio of the two readers last.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path

from ruamel.yaml import YAML

from gateway.runtime.settings import bundled_policies
from policies.family import Family
from policies.loader import load_policies
from policies.opened_board import NarrowedBounds, NarrowedScore, OpenedBoard

RULES = """
rules:
  - {name: pace, rule: score <= stats.motes * 1000 + 5000}
  - {name: combo, rule: stats.best_combo <= stats.motes + 1}
"""
BOARDS = 10_000


def policy_text(head: str) -> str:
    """Return the bundled policy as a file anywhere, under another name."""
    folder = bundled_policies().resolve()
    text = (folder / "arcade.yaml").read_text(encoding="utf-8")
    text = text.replace("../examples", str(folder.parent / "examples"))
    return text.replace("board: arcade", head) + RULES


def reading_s(texts: list[str]) -> float:
    """Return the CPU seconds to read the texts as YAML."""
    begin = time.process_time()
    for text in texts:
        YAML(typ="safe", pure=True).load(text)
    return time.process_time() - begin


def loading_s(folder: Path) -> float:
    """Return the CPU seconds to load the folder."""
    begin = time.process_time()
    load_policies(folder)
    return time.process_time() - begin


def print_boards(family: Family) -> None:
    """Print time and memory of a board of a family, without its row."""
    narrower = NarrowedBounds(score=NarrowedScore(maximum=50_000))
    for kind, bounds in (("plain", None), ("narrower", narrower)):
        rows = [OpenedBoard(f"arcade.b{n}", "arcade", f"Board {n}", bounds=bounds) for n in range(BOARDS)]
        begin = time.perf_counter()
        boards = [family.board(row) for row in rows]
        took_s = time.perf_counter() - begin
        del boards
        tracemalloc.start()
        boards = [family.board(row) for row in rows]
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"a {kind} board: {took_s / BOARDS * 1e6:.1f} us, {size / len(boards):,.0f} bytes")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sg-policies-") as name:
        folder = Path(name) / "boards"
        folder.mkdir()
        texts = [policy_text(f"board: arcade-{number}") for number in range(options.files)]
        for number, text in enumerate(texts):
            (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
        rounds = [(reading_s(texts), loading_s(folder)) for _ in range(options.rounds)]
        read_s, load_s = (statistics.median(side) for side in zip(*rounds, strict=True))
        one = Path(name) / "family"
        one.mkdir()
        (one / "family.yaml").write_text(policy_text("family: arcade"), encoding="utf-8")
        print_boards(load_policies(one).families["arcade"])
    print(f"YAML {read_s / options.files * 1e3:.2f} ms a file, loaded {load_s / options.files * 1e3:.2f} ms")
    print(f"ratio {read_s / load_s:.3f}")


if __name__ == "__main__":
    main()
