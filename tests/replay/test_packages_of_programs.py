"""A program in Python brings its packages along, since no virtual environment is to be seen in the sandbox."""

from __future__ import annotations

import zipfile
from pathlib import Path

from policies.digests import sha256_of, simulator_digest
from policies.loader import Simulator
from replay.simulators import Simulation
from replay.simulators.process import ProcessSimulators
from tests.support.programs import need_programs, request, serving


def test_N10_a_program_imports_a_package_from_an_archive_of_its_files(tmp_path: Path):
    """A ZIP archive among `files` is put on the import path by the program, and is part of its digest."""
    need_programs()
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("levels/__init__.py", "from levels.first import POINTS\n")
        made.writestr("levels/first.py", "POINTS = 4321\n")
    before = """
        sys.path.insert(0, os.environ["SCOREGATE_FILES"] + "/packages.zip")
        import levels
    """
    path = serving(tmp_path, "number(levels.POINTS)", before).path
    digest = simulator_digest(sha256_of(path), {"packages.zip": sha256_of(archive)})
    with ProcessSimulators() as programs:
        found = programs.simulate(request(Simulator(digest, path, (archive,))))
    assert isinstance(found, Simulation), found
    assert 4321 == found.score
