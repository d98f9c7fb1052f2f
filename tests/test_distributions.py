"""The two distributions of the project, built and installed as users do: neither has a file of the other's."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

from gateway.edge.docs.drawn_pages import load_pages

ROOT = Path(__file__).parents[1]
SOURCES = {"scoregate": ROOT, "scoregate-client": ROOT / "clients" / "python"}


def pip(*words: str) -> None:
    drawing = os.environ | {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}
    told = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False, env=drawing
    )
    assert 0 == told.returncode, told.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution."""
    is_here = importlib.util.find_spec("hatchling") is not None
    folder, how = tmp_path_factory.mktemp("wheels"), ["--no-build-isolation"] if is_here else []
    pip("wheel", "--no-deps", *how, "--wheel-dir", str(folder), *map(str, SOURCES.values()))
    return {name: next(folder.glob(f"{name.replace('-', '_')}-0*.whl")) for name in SOURCES}


def files_of(site: Path, name: str) -> Iterator[Path]:
    """What a distribution has installed, but for what pip compiles."""
    record = Distribution.at(next(site.glob(f"{name.replace('-', '_')}-*.dist-info")))
    for file in record.files or ():
        if file.suffix != ".pyc":
            yield site / file


def test_N04_one_distribution_goes_and_the_other_is_whole(wheels: dict[str, Path], tmp_path: Path):
    """No file is both's, and the demonstration needs no client but the one in the server's wheel."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    [site] = environment.glob("lib/python*/site-packages")
    wanted = map(str, wheels.values())
    pip("--python", python, "install", "--no-deps", "--no-index", "--no-compile", *wanted)
    server, client = (set(files_of(site, name)) for name in SOURCES)
    assert site / "scoregate_client" / "client.py" in client
    assert set() == server & client

    pip("--python", python, "uninstall", "--yes", "scoregate-client")
    assert [] == [file for file in server if not file.exists()]
    assert [] == [file for file in client if file.exists()]
    libraries = [each for each in sys.path if each.endswith("site-packages")]
    program = (
        f"import sys; sys.path += {libraries!r}\n"
        "from examples.demo import actors, performance\n"
        "print(actors.ScoregateClient.__module__, performance.ScoregateError.__module__)"
    )
    told = subprocess.run([python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "examples.demo._client.client examples.demo._client.errors" == told.stdout.strip()


def test_a_wheel_brings_the_pages_of_its_own_code(wheels: dict[str, Path], tmp_path: Path):
    """A wheel that is built with its hook has every page as this checkout draws it, and loads no drawing."""
    with ZipFile(wheels["scoregate"]) as wheel:
        wheel.extractall(tmp_path)
    program = (
        "import hashlib, sys\n"
        "from gateway.edge.docs.drawn_pages import load_pages\n"
        "pages = sorted(load_pages().items())\n"
        "print(hashlib.sha256(repr(pages).encode()).hexdigest(), {'jinja2', 'markdown_it'} & {*sys.modules})"
    )
    expected = hashlib.sha256(repr(sorted(load_pages().items())).encode()).hexdigest()
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert f"{expected} set()" == told.stdout.strip()
