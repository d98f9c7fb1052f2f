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
from packaging.specifiers import SpecifierSet

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


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An environment with both distributions, and libraries beside it: its Python and its packages."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    [site] = environment.glob("lib/python*/site-packages")
    wanted = map(str, wheels.values())
    pip("--python", python, "install", "--no-deps", "--no-index", "--no-compile", *wanted)
    return python, site


def told_by(python: str, folder: Path, program: str) -> str:
    """What a program says in an environment that has the libraries of this one, and no checkout."""
    libraries = [each for each in sys.path if each.endswith("site-packages")]
    program = f"import sys; sys.path += {libraries!r}\n{program}"
    told = subprocess.run(
        [python, "-P", "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def test_the_server_plays_its_demo_with_the_client_that_it_depends_on(
    installed: tuple[str, Path], wheels: dict[str, Path], tmp_path: Path
):
    """The wheel asks for the client, of a version that takes the one beside it, and has no copy of it."""
    python, site = installed
    [server] = site.glob("scoregate-0*.dist-info")
    [needed] = [each for each in Distribution.at(server).requires or () if "scoregate" in each]
    assert SpecifierSet(needed.removeprefix("scoregate-client")).contains(
        wheels["scoregate-client"].name.split("-")[1]
    )
    assert [] == [file for file in files_of(site, "scoregate") if "_client" in str(file)]
    program = (
        "from examples.demo import actors, performance\n"
        "print(actors.ScoregateClient.__module__, performance.ScoregateError.__module__)"
    )
    assert "scoregate_client.client scoregate_client.errors" == told_by(python, tmp_path, program)


def test_N04_one_distribution_goes_and_the_other_is_whole(installed: tuple[str, Path], tmp_path: Path):
    """No file is both's, and the client does all that it does without the server."""
    python, site = installed
    server, client = (set(files_of(site, name)) for name in SOURCES)
    assert site / "scoregate_client" / "client.py" in client
    assert set() == server & client

    pip("--python", python, "uninstall", "--yes", "scoregate")
    assert [] == [file for file in client if not file.exists()]
    assert [] == [file for file in server if file.exists()]
    program = (
        "import scoregate_client\n"
        "from scoregate_client import *\n"
        "rooms = {'scoregate', 'gateway', 'examples', 'policies', 'replay', 'validators'}\n"
        "print(scoregate_client.__file__, rooms & {*sys.modules})"
    )
    assert f"{site / 'scoregate_client' / '__init__.py'} set()" == told_by(python, tmp_path, program)


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
