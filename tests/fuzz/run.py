"""Fuzzes one target, led by coverage, for as long as it is told; no part of the suite.

    pip install atheris
    python -m tests.fuzz.run recording -max_total_time=60

Options are those of libFuzzer. What breaks a promise is written to `crash-…`; give that file as an argument
to run it again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import mkdtemp

import atheris

with atheris.instrument_imports(
    include=["gateway.edge", "replay.recording", "scoregate.imports", "scoregate.raw_requests"]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run the target that the first argument names, from its seeds."""
    name, *options = sys.argv[1:]
    target, seeds = TARGETS[name]
    corpus = Path(mkdtemp(prefix=f"fuzz-{name}-"))
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    files = [option for option in options if not option.startswith("-")]
    atheris.Setup([sys.argv[0], *options, *([] if files else [str(corpus)])], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
