"""The types of the JavaScript package: right for its sources, drawn from them, and of use to a program in TypeScript."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.game import ROOT
from tests.support.gate import missing

PACKAGE = ROOT / "clients" / "javascript"


@pytest.fixture(scope="module")
def modules(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tools of the committed lock file, installed once for each content of it."""
    if not shutil.which("npm"):
        missing("the types of the JavaScript client need npm")
    lock = PACKAGE / "package-lock.json"
    cache = getattr(pytestconfig, "cache", None)  # not where mutants are tried
    kept = cache.mkdir("npm") if cache else tmp_path_factory.mktemp("npm")
    folder = Path(kept) / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if not (folder / "node_modules" / "typescript").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        for name in (lock.name, "package.json"):
            shutil.copy(PACKAGE / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        installed = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
        if installed.returncode:
            missing(f"npm cannot install the tools: {installed.stderr[-500:]}")
    return folder / "node_modules"


def compile_with(modules: Path, folder: Path, *arguments: str) -> None:
    """Run the TypeScript compiler in a folder, to no complaint."""
    command = [str(modules / ".bin" / "tsc"), *arguments]
    compiled = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert (0, "") == (compiled.returncode, compiled.stdout)


def test_the_sources_keep_to_their_types_which_are_those_that_are_committed(modules: Path, tmp_path: Path):
    """`npm run types` after a change; `tsc --checkJs` has no complaint."""
    roots = ["--typeRoots", str(modules / "@types")]
    compile_with(modules, PACKAGE, "--project", ".", "--outDir", str(tmp_path), *roots)
    drawn, committed = (
        {path.relative_to(folder): path.read_text() for path in folder.rglob("*.d.ts")}
        for folder in (tmp_path, PACKAGE / "types")
    )
    assert committed == drawn


def test_a_program_in_typescript_is_helped_by_the_declarations(modules: Path, tmp_path: Path):
    """What the package exports has its types there, and what it does not take is refused."""
    (tmp_path / "node_modules" / "@scoregate").mkdir(parents=True)
    (tmp_path / "node_modules" / "@scoregate" / "client").symlink_to(PACKAGE)
    shutil.copy(PACKAGE / "test" / "sample.ts", tmp_path / "sample.mts")
    how = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom,dom.asynciterable",
    ]
    compile_with(modules, tmp_path, *how, "--skipDefaultLibCheck", "sample.mts")
