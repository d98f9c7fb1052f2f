"""What a folder among a simulator's files is known by, and what it may not have in it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from policies import trees
from policies.digests import digest_of, sha256_of, simulator_digest
from policies.errors import PolicyError
from policies.loader import load_board
from policies.trees import TreeRefused, read_tree
from tests.policies.test_simulator_files import described

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "simulator-process.md"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with an entry of each kind, whose paths sort otherwise by their bytes than by their parts."""
    folder = tmp_path / "packages"
    (folder / "levels" / "empty").mkdir(parents=True)
    (folder / "levels" / "first.py").write_text("POINTS = 4321\n")
    (folder / "levels-1.0").write_text("with a space before what follows")
    (folder / "levels" / ".größe 1").write_text("")
    (folder / "play").write_text("#!/bin/sh\n")
    (folder / "play").chmod(0o755)
    (folder / "last").symlink_to("./levels/first.py")
    (folder / "python").symlink_to("/usr/bin/python3")
    return folder


def digest(folder: Path) -> str:
    return read_tree(folder).digest


def test_N10_a_folder_has_the_digest_that_shell_tools_make_of_it(packages: Path) -> None:
    """The command of simulator-process.md, so that anybody can tell which folder a simulator was known with."""
    section = REFERENCE.read_text().split("\n## Folders\n")[1]
    [command] = re.findall(r"```sh\n(.*?)^```", section.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    told = subprocess.run(
        ["/bin/sh", "-c", command], cwd=packages, capture_output=True, text=True, check=True
    )
    assert f"{digest(packages)}  -\n" == told.stdout
    assert ("packages/", digest(packages)) == digest_of(packages)


def replace_keeping_times(path: Path, content: str) -> None:
    """Writes a file anew, as long as it was, and gives it the times that it had: as `cp -p` and rsync do."""
    status = path.stat()
    path.write_text(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (status.st_size, status.st_mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda folder: (folder / "levels" / "first.py").write_text("POINTS = 4322\n"),
    "content with the times it had": lambda folder: replace_keeping_times(
        folder / "levels" / "first.py", "POINTS = 4322\n"
    ),
    "name": lambda folder: (folder / "play").rename(folder / "pley"),
    "permission to execute": lambda folder: (folder / "play").chmod(0o644),
    "target of a link": lambda folder: [
        (folder / "last").unlink(),
        (folder / "last").symlink_to("levels/first.py"),
    ],
    "link instead of its file": lambda folder: [
        (folder / "last").unlink(),
        (folder / "last").write_text("POINTS = 4321\n"),
    ],
    "new file": lambda folder: (folder / "levels" / "__init__.py").write_text(""),
    "new folder": lambda folder: (folder / "more").mkdir(),
    "file that is gone": lambda folder: (folder / "levels-1.0").unlink(),
    "file that became a folder": lambda folder: [
        (folder / "levels" / ".größe 1").unlink(),
        (folder / "levels" / ".größe 1").mkdir(),
    ],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_N10_whatever_changes_in_a_folder_makes_it_another(
    packages: Path, change: Callable[[Path], object]
) -> None:
    """Content, names, kinds, targets of links, and who may execute; and what costs less to look at changes as well."""
    before = digest(packages), trees.fingerprint(packages)
    change(packages)
    after = digest(packages), trees.fingerprint(packages)
    assert [False, False] == [old == new for old, new in zip(before, after, strict=True)]


def test_N10_what_does_not_reach_a_program_makes_no_other_folder(packages: Path) -> None:
    """Times, owners' and strangers' permissions to write: the digest is the same on every machine."""
    before = digest(packages)
    os.utime(packages / "levels" / "first.py", (1, 1))
    (packages / "levels" / "first.py").chmod(0o400)
    (packages / "levels").chmod(0o700)
    assert before == digest(packages)


def test_N10_a_policy_names_a_folder(tmp_path: Path, packages: Path) -> None:
    """It is in the list under its name with a slash, so that no file is ever taken for it, nor it for a file."""
    (tmp_path / "game").write_text("game")
    path = described(tmp_path, "  simulator: process\n  files: [packages/]")
    simulator = load_board(path).simulators["arcade-1"]
    listed = {"packages/": digest(packages)}
    assert simulator_digest(sha256_of(tmp_path / "game"), listed) == simulator.digest
    assert (packages,) == simulator.files


@pytest.mark.parametrize("target", ["../game", "/etc/passwd", "levels/../../game", "..", "/usrlocal", "/"])
def test_N10_a_link_that_leads_nowhere_in_the_sandbox_is_refused(
    tmp_path: Path, packages: Path, target: str
) -> None:
    """By file, line, link and target."""
    (tmp_path / "game").write_text("game")
    (packages / "levels" / "out").symlink_to(target if target.startswith("/") else f"../{target}")
    path = described(tmp_path, "  simulator: process\n  files: [packages]")
    with pytest.raises(
        PolicyError, match=r"arcade\.yaml:\d+: builds\.arcade-1\.files: .*levels/out links to "
    ):
        load_board(path)


def test_N10_what_is_no_file_is_refused_and_not_waited_for(packages: Path) -> None:
    """A pipe, whose reading would never end; and a name that would break the list."""
    os.mkfifo(packages / "pipe")
    with pytest.raises(TreeRefused, match="pipe is not a file, folder or link"):
        read_tree(packages)
    (packages / "pipe").unlink()
    for name in (b"two\nlines", b"no \xff text"):
        path = os.fsencode(packages) + b"/" + name
        os.close(os.open(path, os.O_CREAT))
        with pytest.raises(TreeRefused, match="not a name that can be listed"):
            read_tree(packages)
        Path(os.fsdecode(path)).unlink()


def test_N10_a_folder_has_a_bounded_size(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both what is read and what is listed, at the limit and past it."""
    size_bytes, count = read_tree(packages).size_bytes, len(list(trees.entries(packages)))
    monkeypatch.setattr(trees, "BYTES_LIMIT", size_bytes)
    monkeypatch.setattr(trees, "ENTRIES_LIMIT", count)
    read_tree(packages)
    monkeypatch.setattr(trees, "BYTES_LIMIT", size_bytes - 1)
    with pytest.raises(TreeRefused, match="exceeds"):
        read_tree(packages)
    monkeypatch.undo()
    monkeypatch.setattr(trees, "ENTRIES_LIMIT", count - 1)
    with pytest.raises(TreeRefused, match=f"more than {count - 1} entries"):
        read_tree(packages)


@pytest.mark.parametrize("name", [".", "..", "../..", "/"])
def test_N10_a_folder_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    """The program sees it under its name alone."""
    (tmp_path / "game").write_text("game")
    path = described(tmp_path, f"  simulator: process\n  files: ['{name}']")
    with pytest.raises(PolicyError, match=r":\d+: replay\.files: '.*' has no name"):
        load_board(path)


def test_N10_what_was_replaced_since_it_was_listed_is_neither_followed_nor_waited_for(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes to the folder meanwhile reads no file of ours by a link, and holds no worker up with a pipe."""
    listed = [entry for entry in trees.entries(packages) if entry.path == "levels-1.0"]
    monkeypatch.setattr(trees, "entries", lambda _folder: iter(listed))
    (packages / "levels-1.0").unlink()
    (packages / "levels-1.0").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic links"):
        read_tree(packages)
    (packages / "levels-1.0").unlink()
    os.mkfifo(packages / "levels-1.0")
    assert 0 == read_tree(packages).size_bytes


def test_N10_the_files_of_a_simulator_are_listed_by_name() -> None:
    """In whichever order the policy names them; without any the digest is the program's own."""
    one, other = {"a": "1" * 64, "b/": "2" * 64}, {"b/": "2" * 64, "a": "1" * 64}
    assert simulator_digest("0" * 64, one) == simulator_digest("0" * 64, other)
    assert f"sha256:{'0' * 64}" == simulator_digest("0" * 64, {})
