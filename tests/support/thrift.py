"""Work that a suite needs to do once, not thousands of times: compiling, reading policies, making tables."""

from __future__ import annotations

import gc
import os
import py_compile
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import redis.utils
import structlog
from _pytest.assertion import rewrite
from pydantic_settings.sources import PydanticBaseEnvSettingsSource

from gateway.ledger import shape
from gateway.ledger.schema import SCHEMA_VERSION
from gateway.ledger.sqlite.store import SqliteLedger, version_at
from policies import document, loader
from policies.model import Policy

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "policies", "replay", "scoregate", "validators", "tests")
BY_CONTENT: Final = py_compile.PycInvalidationMode.CHECKED_HASH
HEAD: Final = b"\x03\x00\x00\x00"
"""Flags of a compiled module that is checked by its source's hash; they precede the hash."""

GARBAGE_THRESHOLD: Final = 50_000


def keep_compiled() -> None:
    """Compile our changed modules: if Python may not keep them, each process of a suite compiles them all.

    They are checked by content, so that no process ever runs an older version of a file.
    """

    def keep(source: Path) -> None:
        if not _is_rewritten(source) and not _is_compiled(source):
            py_compile.compile(str(source), doraise=True, invalidation_mode=BY_CONTENT)

    _on_two_processors(keep, [each for package in PACKAGES for each in (ROOT / package).rglob("*.py")])


def keep_rewritten(config: pytest.Config) -> None:
    """Have the modules whose asserts pytest rewrites, tests and plugins, be rewritten once and not by every worker.

    The files are pytest's own, under its own name; a pytest that names them otherwise rewrites them.
    """
    state = config.stash.get(rewrite.assertstate_key, None)
    if state is None:  # asserts are left as they are
        return

    def keep(source: Path) -> None:
        kept = rewrite.get_cache_dir(source) / (source.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(source, kept) is None:
            content, code = rewrite._rewrite_test(source, config)
            kept.parent.mkdir(exist_ok=True)
            rewrite._write_pyc(state, code, content, kept)

    _on_two_processors(keep, [*filter(_is_rewritten, (ROOT / "tests").rglob("*.py")), *_rewritten_plugins()])


def _rewritten_plugins() -> Iterator[Path]:
    """Yield the files of plugins that pytest has rewritten in this process, if it may be kept beside them."""
    for module in list(sys.modules.values()):
        if isinstance(getattr(module, "__loader__", None), rewrite.AssertionRewritingHook):
            source = Path(str(module.__file__))
            if os.access(source.parent, os.W_OK) and not source.is_relative_to(ROOT / "tests"):
                yield source


def _on_two_processors(keep: Callable[[Path], None], sources: Sequence[Path]) -> None:
    """Do half of some work in a fork. What that did not do for an error is done when it is needed."""
    pid = os.fork()
    if pid == 0:
        try:
            for source in sources[1::2]:
                keep(source)
        finally:
            os._exit(0)
    try:
        for source in sources[::2]:
            keep(source)
    finally:
        os.waitpid(pid, 0)


def look_for_cycles_seldom() -> None:
    """Leave out of every later look what was loaded to begin with, as parts of a deployment do."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def remember_policies(patch: pytest.MonkeyPatch) -> None:
    """Parse and check each YAML text only once: most tests have the boards of their neighbours."""
    patch.setattr(document, "_parsed", lru_cache(maxsize=256)(document._parsed))

    check = loader._validated
    known: dict[tuple[int, type[Policy]], tuple[object, Policy]] = {}

    def remembered(of: document.PolicyDocument, model: type[Policy]) -> Policy:
        key = (id(of.settings), model)
        if key not in known:
            if len(known) == 256:
                known.clear()
            known[key] = (of.settings, check(of, model))  # what is kept has its id for itself
        return known[key][1]

    patch.setattr(loader, "_validated", remembered)


def read_the_environment_once(patch: pytest.MonkeyPatch) -> None:
    """Read the settings of an environment once: to look for each takes as long as to open a ledger."""
    read = PydanticBaseEnvSettingsSource.__call__
    known: dict[tuple[object, ...], dict[str, Any]] = {}

    def remembered(source: Any) -> dict[str, Any]:
        prefix = source.env_prefix.lower()
        own = sorted(item for item in source.env_vars.items() if item[0].lower().startswith(prefix))
        key = (type(source), source.settings_cls, *own)
        if key not in known:
            known[key] = read(source)
        return dict(known[key])

    patch.setattr(PydanticBaseEnvSettingsSource, "__call__", remembered)


def copy_ledgers(patch: pytest.MonkeyPatch) -> None:
    """Make a new ledger file by copying an empty one: its tables cost more than most tests."""
    make = SqliteLedger._create

    @cache
    def made() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            ledger = SqliteLedger(Path(folder) / "ledger")
            make(ledger).close()
            ledger._reads.close()  # the last connection of a file brings its log into it
            assert version_at(ledger._path) == SCHEMA_VERSION
            return ledger._path.read_bytes()

    def copied(ledger: SqliteLedger) -> sqlite3.Connection:
        if not ledger._path.exists():
            ledger._path.parent.mkdir(parents=True, exist_ok=True)
            whole = ledger._path.with_name(f".{uuid4()}")
            whole.write_bytes(made())
            with suppress(FileExistsError):  # another was quicker
                os.link(whole, ledger._path)
            whole.unlink()
        return make(ledger)

    patch.setattr(SqliteLedger, "_create", copied)


def remember_shapes(patch: pytest.MonkeyPatch) -> None:
    """Look at the columns of the same tables once: nearly every ledger of a suite has those of its version."""
    look = shape.shape_of_sqlite
    known: dict[tuple[object, ...], shape.Shape] = {}

    def remembered(connection: sqlite3.Connection) -> shape.Shape:
        words = tuple(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall())
        if words not in known:
            known[words] = look(connection)
        return known[words]

    patch.setattr(shape, "shape_of_sqlite", remembered)


def know_the_driver(patch: pytest.MonkeyPatch) -> None:
    """Look up the version of Redis' client once, not on the disk for each connection."""
    patch.setattr(redis.utils, "get_lib_version", cache(redis.utils.get_lib_version))


def print_plainly(patch: pytest.MonkeyPatch) -> None:
    """Have exceptions be logged as Python prints them: to colour one takes as long as to start an edge."""
    [*_, renderer] = structlog.get_config()["processors"]
    patch.setattr(renderer, "_exception_formatter", structlog.dev.plain_traceback)


def _is_rewritten(source: Path) -> bool:
    return source.name == "conftest.py" or source.match("test_*.py")


def _is_compiled(source: Path) -> bool:
    kept = Path(cache_from_source(str(source)))
    return kept.exists() and kept.read_bytes()[4:16] == HEAD + source_hash(source.read_bytes())
