"""What any command makes is for its own user alone, whatever the umask it was started under."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.deployment.run_files import running_parts
from policies.errors import SettingsError
from scoregate.private_files import keep_private
from tests.support import preloaded
from tests.support.deployment import deployed, eventually
from tests.support.valkey import running_valkey


def scoregate(*words: object, **environment: str) -> None:
    before = "import os; os.umask(0o022)"
    preloaded.finished([*map(str, words)], os.environ | environment, before=before).check_returncode()


def open_to_others(*folders: Path) -> dict[str, str]:
    """What of these folders and in them others may read, write or enter."""
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    modes = {str(path): path.lstat().st_mode & 0o777 for path in paths}
    return {path: oct(mode) for path, mode in modes.items() if mode & 0o077}


def test_F12_what_one_command_makes_is_private(tmp_path: Path):
    """A ledger in the data directory, one elsewhere, a backup and what is restored of it; a policy anybody may read."""
    data, backup, restored = (tmp_path / name for name in ("data", "backup", "restored"))
    elsewhere = tmp_path / "elsewhere.sqlite3"
    scoregate("token", "moderator", "mara", "--data-dir", data)
    scoregate("ledger", "migrate", "--data-dir", data)
    scoregate("key", "list", "--data-dir", data)
    scoregate("ledger", "migrate", "--data-dir", data, SCOREGATE_LEDGER_URL=f"sqlite:///{elsewhere}")
    scoregate("backup", backup, "--data-dir", data)
    scoregate("restore", backup, "--data-dir", restored)
    scoregate("policy", "new", tmp_path / "board.yaml", "--writes", "trusted", "--no-ask")

    assert {} == open_to_others(data, backup, restored)
    assert 0o600 == elsewhere.stat().st_mode & 0o777
    assert (data / "ledger.sqlite3").exists()
    assert (restored / "ledger.sqlite3").exists()
    assert 0o644 == (tmp_path / "board.yaml").stat().st_mode & 0o777


def test_F12_what_links_lead_to_keeps_its_rights(tmp_path: Path):
    """It lies elsewhere and is somebody's; what lies in the data directory itself loses those of others."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    for folder in (data, elsewhere):
        folder.mkdir(mode=0o755)
        (folder / "file").touch(mode=0o644)
    (data / "folder").symlink_to(elsewhere)
    (data / "link").symlink_to(elsewhere / "file")
    before = os.umask(0o022)
    try:
        keep_private(data)
    finally:
        os.umask(before)
    rights = [path.stat().st_mode & 0o777 for path in (data, data / "file", elsewhere, elsewhere / "file")]
    assert [0o700, 0o600, 0o755, 0o644] == rights


def test_F12_what_lies_in_folders_of_a_data_directory_is_private_too(tmp_path: Path):
    """Logs and notes of parts, which a service with a wide umask has made."""
    data = tmp_path / "data"
    (data / "logs" / "old").mkdir(parents=True)
    for path in (data, data / "logs", data / "logs" / "old"):
        path.chmod(0o755)
    for path in (data / "master.key", data / "logs" / "edge.log"):
        path.touch()
        path.chmod(0o664)
    before = os.umask(0o022)
    try:
        keep_private(data)
    finally:
        os.umask(before)
    assert {} == open_to_others(data)


def test_F12_a_folder_that_users_share_is_no_data_directory(tmp_path: Path):
    """As /tmp is: nothing in it is ours, so that its rights stay as they are."""
    tmp_path.chmod(0o1777)
    (tmp_path / "theirs").touch(mode=0o644)
    before = os.umask(0o022)
    try:
        with pytest.raises(SettingsError, match="expected a directory of its own, not one that users share"):
            keep_private(tmp_path)
    finally:
        os.umask(before)
    assert [0o777, 0o644] == [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "theirs")]


async def test_F12_a_part_that_is_started_alone_is_private(tmp_path: Path):
    """A worker before any other part: it makes the data directory, the ledger and its own file."""
    before = os.umask(0o022)
    try:
        with running_valkey() as valkey, deployed(tmp_path, valkey) as deployment:
            data = deployment.folder / "data"
            deployment.start("worker")
            await eventually(lambda: deployment.ledger.exists() and running_parts(data), deployment.log)
            assert {} == open_to_others(data)
    finally:
        os.umask(before)
