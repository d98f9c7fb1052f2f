"""What a policy says of its simulators: their kind, the files they read, and the one digest of it all."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from policies.digests import simulator_digest
from policies.errors import PolicyError
from policies.loader import load_board
from policies.replaying import RecordingKind
from policies.vocabulary import SimulatorKind
from tests.support.harness import POLICY

KIND = "  simulator: wasm\n"
BUILD = "simulator: ../examples/arcade/arcade.wasm"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("game", "doom.wad", "maps.wad"):
        (tmp_path / name).write_text(name)
    return tmp_path


def described(folder: Path, replay: str, build: str = "simulator: game") -> Path:
    """A policy with these lines for its replay, and this for its build."""
    text = POLICY.read_text()
    assert text.count(BUILD) == 1
    text = text.replace(BUILD, build)
    head, _, tail = text.partition("\nreplay:\n")
    own = tuple(line.partition(":")[0] + ":" for line in replay.splitlines())
    kept = "".join(
        line for line in tail.splitlines(keepends=True) if not line.startswith(("  simulator:", *own))
    )
    path = folder / "arcade.yaml"
    path.write_text(f"{head}\nreplay:\n{replay}\n{kept}")
    return path


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_program_with_files_is_known_by_all_of_them(folder: Path) -> None:
    """Shared files and the build's own; the digest is what `sha256sum` makes of the list of digests."""
    path = described(
        folder,
        "  simulator: process\n  recording: raw\n  files: [doom.wad]",
        "simulator: game, files: [maps.wad]",
    )
    board = load_board(path)
    assert (SimulatorKind.PROCESS, RecordingKind.RAW) == (
        board.policy.replay.simulator,
        board.policy.replay.recording,
    )
    simulator = board.simulators["arcade-1"]
    assert ("game", "doom.wad", "maps.wad") == (simulator.path.name, *(each.name for each in simulator.files))
    listing = subprocess.run(
        "{ sha256sum < game; sha256sum doom.wad maps.wad; } | sha256sum",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sha256:" + listing.stdout.split()[0] == simulator.digest


def test_a_changed_file_is_another_simulator(folder: Path) -> None:
    """Program, file, and the name of a file: a change of any is a change of the digest."""
    path = described(folder, "  simulator: process\n  files: [doom.wad]")
    digests = {load_board(path).simulators["arcade-1"].digest}
    (folder / "doom.wad").write_text("another map")
    digests.add(load_board(path).simulators["arcade-1"].digest)
    (folder / "game").write_text("another program")
    digests.add(load_board(path).simulators["arcade-1"].digest)
    (folder / "doom.wad").rename(folder / "doom2.wad")
    path = described(folder, "  simulator: process\n  files: [doom2.wad]")
    digests.add(load_board(path).simulators["arcade-1"].digest)
    assert 4 == len(digests)


def test_without_files_the_digest_is_the_simulators_own(folder: Path) -> None:
    """So a module is known by its SHA-256, as any tool prints it."""
    assert "sha256:" + sha256("game") == simulator_digest(sha256("game"), {})
    path = described(folder, "  simulator: plugin")
    assert "sha256:" + sha256("game") == load_board(path).simulators["arcade-1"].digest


@pytest.mark.parametrize(
    ("replay", "runs"),
    [
        ("process", 1),
        ("plugin", 256),
        ("process\n  runs_per_process: 64", 64),
        ("plugin\n  runs_per_process: 1", 1),
    ],
)
def test_a_program_has_a_process_for_each_run_unless_the_board_says_otherwise(
    folder: Path, replay: str, runs: int
) -> None:
    """Native code may be taken over by what it reads; Python has nothing in it that a recording could overwrite."""
    board = load_board(described(folder, f"  simulator: {replay}"))
    assert runs == board.policy.replay.runs_of_a_process


@pytest.mark.parametrize(
    ("replay", "build", "expected"),
    [
        ("  simulator: native", "simulator: game", "`wasm`, `process` or `plugin`"),
        ("  simulator: wasm\n  recording: raw", "simulator: game", "a module takes input words"),
        ("  simulator: process\n  recording: demo", "simulator: game", "`scoregate` or `raw`"),
        (
            "  simulator: wasm\n  files: [doom.wad]",
            "simulator: game",
            r":\d\d: replay\.files: `files` need `simulator: process`",
        ),
        (
            "  simulator: plugin",
            "simulator: game, files: [maps.wad]",
            r":\d\d: builds\.arcade-1\.files: `files` need `simulator: process`",
        ),
        (
            "  simulator: process\n  files: [doom.wad]",
            "simulator: game, files: [../arcade/doom.wad]",
            r"builds\.arcade-1\.files: two `files` of a build have the same name",
        ),
        (
            "  simulator: process\n  files: [gone.wad]",
            "simulator: game",
            r"builds\.arcade-1\.files: .*gone\.wad",
        ),
        (
            "  simulator: wasm\n  runs_per_process: 2",
            "simulator: game",
            r":\d\d: replay\.runs_per_process: it applies to `simulator: process` or `plugin`",
        ),
        ("  simulator: process", "simulator: gone", r"builds\.arcade-1\.simulator: .*gone"),
        ("  simulator: process\n  stats: [gems, gems]", "simulator: game", "names a statistic twice"),
        ("  simulator: process\n  files: ['']", "simulator: game", r"replay\.files\.0"),
    ],
)
def test_what_a_simulator_cannot_do_is_refused(folder: Path, replay: str, build: str, expected: str) -> None:
    """A raw recording for a module, files that nobody can read or tell apart, files that are not there."""
    with pytest.raises(PolicyError, match=expected):
        load_board(described(folder, replay, build))
