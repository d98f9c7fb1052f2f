"""Where a worker keeps what its programs read: its own, seen by nobody who need not see it, gone when it is."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from replay.simulators.child_process import SandboxUnavailable
from replay.simulators.folder_copies import COPIES_AT_ONCE, FolderCopies
from replay.simulators.workspace import PREFIX, Workspace, remove_abandoned


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_P17_a_workspace_can_be_passed_through_and_not_listed(temporary: Path):
    """P17: whoever a program is comes to its own folder, and finds no other; the lock is the worker's."""
    before = os.umask(0o077)
    try:
        workspace = Workspace()
        inner = workspace.folder()
    finally:
        os.umask(before)
    assert (0o711, 0o755, 0o600) == (
        mode_of(workspace.path),
        mode_of(inner),
        mode_of(workspace.path / "lock"),
    )
    assert workspace.path.name.startswith(PREFIX)
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0  # noqa: PTH208
    workspace.close()
    assert [] == list(temporary.iterdir())
    if descriptors:
        assert descriptors - 1 == len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_a_workspace_that_is_in_use_is_left_alone(temporary: Path):
    """Several workers share a temporary folder; each takes away only what a worker that is gone has left."""
    first, second = Workspace(), Workspace()
    kept = first.folder() / "file"
    kept.write_text("x")
    abandoned, unready, trap = (temporary / f"{PREFIX}{name}" for name in ("gone", "unready", "trap"))
    for each in (abandoned, unready, trap):
        each.mkdir()
    (abandoned / "lock").touch()
    (abandoned / "folder").mkdir()
    (unready / "unready").touch()
    (trap / "lock").symlink_to(temporary / "elsewhere")
    (temporary / "elsewhere").touch()
    (temporary / "scoregate-other").mkdir()
    remove_abandoned()
    assert {
        first.path,
        second.path,
        unready,
        trap,
        temporary / "elsewhere",
        temporary / "scoregate-other",
    } == set(temporary.iterdir())
    assert kept.is_file()
    first.close()
    second.close()


def test_another_users_workspace_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    """Also by a worker of the root, who may remove everything, and however abandoned it looks."""
    abandoned = temporary / f"{PREFIX}gone"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: abandoned.stat().st_uid + 1)
        remove_abandoned()
        assert abandoned.is_dir()
    remove_abandoned()
    assert not abandoned.exists()


def test_without_room_for_a_workspace_no_program_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """It is our trouble, and says what failed: the run is no false one for it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(SandboxUnavailable, match="what a program reads cannot be copied"):
        Workspace()


def test_P09_a_bounded_number_of_copies_is_kept(tmp_path: Path):
    """P09: the one made longest ago goes; one that a program uses stays until it ends, and one that is read again is kept."""
    folders = [tmp_path / f"levels-{number}" for number in range(COPIES_AT_ONCE + 2)]
    for folder in folders:
        folder.mkdir()
        (folder / "first").write_text(folder.name)
    copies = FolderCopies()

    def kept() -> int:
        return sum(each.is_dir() for each in copies.workspace.path.iterdir())

    with copies.copy_of(folders[0]) as used:
        for folder in folders[1:]:
            with copies.copy_of(folder) as copy:
                assert folder.name == (copy.path / "first").read_text()
        assert folders[0].name == (used.path / "first").read_text()
        assert COPIES_AT_ONCE + 1 == kept()
    assert COPIES_AT_ONCE == kept()
    with copies.copy_of(folders[-1]) as again, copies.copy_of(folders[-1]) as same:
        assert again is same
    copies.close()


def test_P19_a_folder_that_has_changed_is_copied_anew(tmp_path: Path):
    """P19: the next program reads what is there now; one that runs keeps what it began with."""
    folder = tmp_path / "levels"
    folder.mkdir()
    (folder / "first").write_text("old")
    copies = FolderCopies()
    with copies.copy_of(folder) as old:
        (folder / "first").write_text("newer")
        with copies.copy_of(folder) as new:
            assert ("old", "newer") == ((old.path / "first").read_text(), (new.path / "first").read_text())
            assert old.tree.digest != new.tree.digest
            assert (3, 5) == (old.tree.size_bytes, new.tree.size_bytes)
        assert old.path.is_dir()
    assert not old.path.exists()
    assert new.path.is_dir()
    copies.close()
    assert not new.path.exists()


def test_a_forked_process_leaves_the_copies_of_the_other_alone(tmp_path: Path):
    """What it closes or no longer uses is what it made itself: the programs of the first one read on."""
    folder = tmp_path / "levels"
    folder.mkdir()
    (folder / "first").write_text("old")
    copies = FolderCopies()
    with copies.copy_of(folder) as copy:
        told = tmp_path / "told"
        child = os.fork()
        if not child:
            try:
                copies.close()
                with copies.copy_of(folder) as own:
                    told.write_text(f"{own.path.parent} {(own.path / 'first').read_text()}")
                copies.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        other, text = told.read_text().split()
        assert (str(copy.path.parent), "old") != (other, text) == (other, "old")
        assert not Path(other).exists()
        assert "old" == (copy.path / "first").read_text()
    copies.close()
    assert not copy.path.exists()
