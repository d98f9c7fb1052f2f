"""What a suite would do thousands of times and need do once: compiling modules, reading policies, looking for cycles."""

from __future__ import annotations

import gc
import py_compile
from functools import lru_cache
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from policies import loader

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "policies", "replay", "scoregate", "validators")
BY_CONTENT: Final = py_compile.PycInvalidationMode.CHECKED_HASH
HEAD: Final = b"\x03\x00\x00\x00"
"""What a compiled module that is good for one content only has behind its magic number; the content's hash follows."""

GARBAGE_THRESHOLD: Final = 50_000


def keep_compiled() -> None:
    """Compile what changed of our modules: where Python may keep none, each process of a suite would compile them all.

    They are known by their content, so that no process ever runs what a file held before.
    """
    for package in PACKAGES:
        for source in (ROOT / package).rglob("*.py"):
            if not _is_compiled(source):
                py_compile.compile(str(source), doraise=True, invalidation_mode=BY_CONTENT)


def look_for_cycles_seldom() -> None:
    """Leave out of every later look what was loaded to begin with, as parts of a deployment do."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def remember_policies(patch: pytest.MonkeyPatch) -> None:
    """Have a text that was read as YAML once not be read again: most tests have the boards of their neighbours."""
    patch.setattr(loader, "YAML", _Remembering)


class _Remembering(YAML):
    """YAML whose documents are shared; who loads a policy changes nothing in it."""

    def load(self, stream: Any) -> Any:
        return _read(stream)


@lru_cache(maxsize=256)
def _read(text: str) -> Any:
    return YAML(typ="rt").load(text)


def _is_compiled(source: Path) -> bool:
    kept = Path(cache_from_source(str(source)))
    return kept.exists() and kept.read_bytes()[4:16] == HEAD + source_hash(source.read_bytes())
