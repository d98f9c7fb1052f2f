"""A program in Python brings its packages along, since it finds none in the sandbox: as an archive, or as a folder."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policies.digests import digest_of, sha256_of, simulator_digest
from policies.loader import Simulator
from policies.vocabulary import Reason
from replay.simulators import Simulation, SimulatorFault, process
from replay.simulators.child_process import SandboxUnavailable
from replay.simulators.folder_copies import FolderCopies
from replay.simulators.process import ProcessSimulators
from tests.support.gate import missing
from tests.support.programs import need_bubblewrap, need_programs, request, serving

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "python-programs.md"

FINDS = """
    folder = os.environ["SCOREGATE_FILES"] + "/packages"
    sys.path.insert(0, folder)
    import levels.first
"""


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """A worker's own: what it makes is private, but for what its programs read."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    (folder / "levels").mkdir(parents=True)
    (folder / "levels" / "__init__.py").write_text("")
    (folder / "levels" / "first.py").write_text("POINTS = 4321\n")
    return folder


def known(program: Simulator, *files: Path) -> Simulator:
    return Simulator(
        simulator_digest(sha256_of(program.path), dict(map(digest_of, files))), program.path, files
    )


def score_of(programs: ProcessSimulators, simulator: Simulator) -> int:
    found = programs.simulate(request(simulator))
    assert isinstance(found, Simulation), found
    return found.score


def test_N10_a_copy_stays_for_as_long_as_a_program_reads_it(packages: Path) -> None:
    """One that began before its folder changed keeps what it began with; then that goes, and the newer one stays."""
    copies, points = FolderCopies(), Path("levels", "first.py")
    with copies.copy_of(packages) as before:
        (packages / points).write_text("POINTS = 7\n")
        with copies.copy_of(packages) as after:
            both = before.path, after.path
            assert ["POINTS = 4321\n", "POINTS = 7\n"] == [(each / points).read_text() for each in both]
    assert [False, True] == [each.exists() for each in both]
    copies.close()


def test_N10_a_program_imports_a_package_from_an_archive_of_its_files(tmp_path: Path) -> None:
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
    with ProcessSimulators() as programs:
        assert 4321 == score_of(programs, known(serving(tmp_path, "number(levels.POINTS)", before), archive))


def test_N10_a_program_imports_from_a_folder_and_maps_its_libraries(
    programs: ProcessSimulators, tmp_path: Path, packages: Path
) -> None:
    """Packages of Python, compiled code, links and programs that it starts: all are there as in the folder."""
    library = next(Path("/usr/lib").glob("**/libm.so.6"), None)
    if library is None or ctypes.util.find_library("m") is None:
        missing("no libm.so.6 beneath /usr/lib")
    shutil.copy(library, packages / "levels" / "own.so")
    (packages / "again").symlink_to("levels/own.so")
    (packages / "tool").write_text("#!/bin/sh\necho 7\n")
    (packages / "tool").chmod(0o755)
    before = (
        FINDS
        + """
    import ctypes, subprocess
    own = ctypes.CDLL(folder + "/again")
    own.floor.restype, own.floor.argtypes = ctypes.c_double, [ctypes.c_double]
    told = int(subprocess.run([folder + "/tool"], capture_output=True).stdout)
    """
    )
    simulator = known(
        serving(tmp_path, "number(levels.first.POINTS + int(own.floor(0.9)) + told)", before), packages
    )
    assert 4328 == score_of(programs, simulator)


def test_N10_a_program_reads_its_files_whatever_the_workers_umask(
    programs: ProcessSimulators, tmp_path: Path
) -> None:
    """Files, too: a worker makes everything private, and a program that runs alone is another user."""
    (tmp_path / "rules.txt").write_text("77")
    body = "number(int(open(os.environ['SCOREGATE_FILES'] + '/rules.txt').read()))"
    assert 77 == score_of(programs, known(serving(tmp_path, body), tmp_path / "rules.txt"))


def test_P19_a_program_cannot_change_its_folder_and_learns_no_time(
    programs: ProcessSimulators, tmp_path: Path, packages: Path
) -> None:
    """P19: nothing of one run is left there for the next, and nothing reaches a program that the digest does not know."""
    before = (
        FINDS
        + """
    changed = 0
    for bit, action in enumerate([
        lambda: open(folder + "/levels/first.py", "a"),
        lambda: open(folder + "/levels/more.py", "w"),
        lambda: os.chmod(folder + "/levels/first.py", 0o777),
        lambda: os.unlink(folder + "/levels/first.py"),
        lambda: os.rename(folder, folder + "-away"),
    ]):
        try:
            action()
            changed |= 1 << bit
        except OSError:
            pass
    times = {os.stat(each).st_mtime for each in (folder, folder + "/levels", folder + "/levels/first.py")}
    changed += 100 * (times != {315532800})
    changed += 1000 * bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    """
    )
    simulator = known(serving(tmp_path, "number(changed)", before), packages)
    if programs._is_alone and os.geteuid() != 0:
        pytest.skip("without bubblewrap a program is the worker's own user, if that is not root")
    expected = 0 if programs._is_alone else 1000  # in bubblewrap it is mounted so
    assert [expected, expected] == [score_of(programs, simulator) for _ in range(2)]


CHANGES: dict[str, Callable[[Path], object]] = {
    "bytes": lambda folder: (folder / "levels" / "first.py").write_text("POINTS = 9999\n"),
    "file more": lambda folder: (folder / "sitecustomize.py").write_text(""),
    "gone": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_P19_a_changed_folder_is_not_read(
    programs: ProcessSimulators, tmp_path: Path, packages: Path, change: Callable[[Path], object]
) -> None:
    """P19: a running program goes on with what it began with, its next start is refused; and the old folder is good again."""
    body = "import importlib; importlib.reload(levels.first); number(levels.first.POINTS)"
    simulator, away = known(serving(tmp_path, body, FINDS), packages), tmp_path / "away"
    shutil.copytree(packages, away)
    assert 4321 == score_of(programs, simulator)
    change(packages)
    assert 4321 == score_of(programs, simulator)
    for key in tuple(programs._children):
        programs._drop(key)
    assert Reason.SIMULATOR_MISSING is reason_of(programs, simulator)
    shutil.rmtree(packages, ignore_errors=True)
    away.rename(packages)
    assert 4321 == score_of(programs, simulator)


def reason_of(programs: ProcessSimulators, simulator: Simulator) -> Reason:
    found = programs.simulate(request(simulator))
    assert isinstance(found, SimulatorFault), found
    return found.reason


def test_N10_a_folder_is_copied_once_for_all_runs(tmp_path: Path, packages: Path) -> None:
    """Each run has a process of its own, and they share the copy; a new copy takes the place of the old one, which goes."""
    need_programs()
    need_bubblewrap()
    simulator = known(serving(tmp_path, "number(levels.first.POINTS)", FINDS), packages)
    with ProcessSimulators() as programs:
        copies = []
        for change in ("", "", "# more\n"):
            (packages / "levels" / "first.py").write_text(f"POINTS = 4321\n{change}") if change else None
            score_of(programs, known(simulator, packages))
            [copy] = programs._copies._copies.values()
            copies.append(copy.path)
            for key in tuple(programs._children):
                programs._drop(key)
        assert copies[0] == copies[1] != copies[2]
        assert [False, False, True] == [each.exists() for each in copies]
        workspace = programs._copies.workspace.path
    assert not workspace.exists()


def test_P18_a_folder_of_any_size_is_not_taken(
    programs: ProcessSimulators, tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P18: program, files and folders are counted together, and nothing is left of the copy."""
    simulator = known(serving(tmp_path), packages)
    monkeypatch.setattr(
        process, "FILES_BYTES_LIMIT", simulator.path.stat().st_size + len("POINTS = 4321\n") - 1
    )
    assert Reason.SIMULATOR_UNUSABLE is reason_of(programs, simulator)


def test_N10_a_folder_that_cannot_be_copied_is_no_fault_of_the_program(
    programs: ProcessSimulators, tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is the worker's trouble: the run is tried again elsewhere, and nobody calls the simulator unusable."""
    simulator = known(serving(tmp_path), packages)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(SandboxUnavailable, match="cannot be copied"):
        programs.simulate(request(simulator))


GAME = """
class Game:
    def __init__(self, seed):
        self.state, self.score, self.ticks, self.is_over = seed, 0, 0, False

    def tick(self, word):
        self.ticks += 1
        self.score += 10 * (word & 1)
        self.state = (self.state * 6364136223846793005 + word + 1) % 2**64
        self.is_over = word > 1

    def state_hash(self):
        return self.state
"""


def wheel_of_orbits(folder: Path) -> None:
    """The package that the page speaks of, as pip takes it."""
    about = "orbits-1.4.dist-info"
    with zipfile.ZipFile(folder / "orbits-1.4-py3-none-any.whl", "w") as made:
        made.writestr("orbits/__init__.py", GAME)
        made.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: orbits\nVersion: 1.4\n")
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "orbits/__init__.py,,\n")


def test_N10_the_how_to_for_python_programs_works(tmp_path: Path) -> None:
    """Every command and file of the page, in its order: the policy is good, and without the package it says which is missing."""
    need_programs()
    page = PAGE.read_text()
    samples = re.findall(r"```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [making, script, checking] = [text for kind, text in samples if kind == "sh"]
    [program], [policy] = ([text for kind, text in samples if kind == each] for each in ("python", "yaml"))
    wheel_of_orbits(tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-ec", command],
            cwd=tmp_path,
            env=os.environ | offline | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    assert 0 == (made := run(making)).returncode, made.stderr
    for name, text in (("orbits-1.4", script), ("verify.py", program)):
        (tmp_path / "simulators" / name).write_text(text)
    (tmp_path / "orbits.yaml").write_text(policy)
    checked = run(checking)
    assert 0 == checked.returncode, checked.stderr
    assert "orbits-1.4 loads and answers" in checked.stdout
    assert "warning" not in checked.stdout

    [package] = (tmp_path / "simulators" / "venv").glob("lib/*/site-packages/orbits")
    for each in (package, *package.rglob("*/")):  # the page has all of it read-only, also for its owner
        each.chmod(0o755)
    package.parent.chmod(0o755)
    shutil.rmtree(package)
    checked = run(checking)
    assert 2 == checked.returncode
    assert "No module named 'orbits'" in checked.stderr
