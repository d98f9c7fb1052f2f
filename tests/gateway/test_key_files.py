"""Keys in the data directory: made once, whoever makes them at once, and for their owner's eyes alone."""

from __future__ import annotations

import base64
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from gateway.runtime.key_files import KEY_BYTES, make_key, read_key
from policies.errors import SettingsError

WHAT = "the master key"


def test_a_key_is_made_once_and_read_by_its_owner_alone(tmp_path: Path):
    """In a folder that need not be there, of 32 random bytes, in a file that nobody else may open; nothing lies beside it."""
    path, other = tmp_path / "data" / "own.key", tmp_path / "other.key"
    for each in (path, path, other):
        make_key(each, WHAT)
    key = read_key(path, WHAT)
    make_key(path, WHAT)
    assert (KEY_BYTES, True, True) == (len(key), key == read_key(path, WHAT), key != read_key(other, WHAT))
    assert 0o600 == path.stat().st_mode & 0o777
    assert [path] == list(path.parent.iterdir())


def test_of_two_that_make_a_key_at_once_both_have_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Who looked before it was there leaves it alone, and no half of its own."""
    path = tmp_path / "own.key"
    make_key(path, WHAT)
    key = read_key(path, WHAT)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    make_key(path, WHAT)
    monkeypatch.undo()
    assert (key, [path]) == (read_key(path, WHAT), list(tmp_path.iterdir()))


def test_two_processes_of_one_number_that_make_a_key_at_once_have_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As the first ones of two containers over one volume are. Neither writes into the draft of the other."""
    path, both_wrote, link = tmp_path / "own.key", Barrier(2), os.link

    def link_once_both_wrote(draft: Path, path: Path) -> None:
        both_wrote.wait(60)
        link(draft, path)

    def made() -> bytes:
        make_key(path, WHAT)
        return read_key(path, WHAT)

    monkeypatch.setattr(os, "link", link_once_both_wrote)
    with ThreadPoolExecutor(2) as pool:
        first, second = (each.result() for each in [pool.submit(made), pool.submit(made)])
    assert (first, [path]) == (second, list(tmp_path.iterdir()))


def test_a_key_that_finds_no_room_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Else each start on a full disk would leave a file more."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match=r"cannot be made: .*No space left"):
        make_key(tmp_path / "own.key", WHAT)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int):
    """The group as well as everybody, to read, write or run; with what mends it."""
    path = tmp_path / "own.key"
    make_key(path, WHAT)
    path.chmod(mode)
    with pytest.raises(SettingsError, match=rf"others may read {WHAT}; run: chmod 600 .*own\.key"):
        read_key(path, WHAT)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"not base64!", base64.b64encode(b"k" * 32)[:-1], None], ids=str
)
def test_a_key_that_cannot_be_read_is_named_and_not_repeated(tmp_path: Path, content: bytes | None):
    """By its file and what it is: a key with a fault is nearly the key."""
    path = tmp_path / "own.key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(SettingsError) as refused:
        read_key(path, WHAT)
    assert str(path) in str(refused.value)
    assert WHAT in str(refused.value)
    assert base64.b64encode(b"k" * 20).decode() not in str(refused.value)


def test_a_key_that_cannot_be_made_is_named(tmp_path: Path):
    """A file in the place of its folder is an error that says which key it was."""
    (tmp_path / "data").write_text("")
    with pytest.raises(SettingsError, match=rf"own\.key: {WHAT} cannot be made"):
        make_key(tmp_path / "data" / "own.key", WHAT)


@pytest.mark.parametrize("length", [0, KEY_BYTES - 1])
def test_a_key_that_is_too_short_is_refused_with_its_place(tmp_path: Path, length: int):
    """As after a loss of power: nobody looks for the file, and its text stays out of the log."""
    path = tmp_path / "own.key"
    path.write_bytes(base64.b64encode(bytes(length)))
    path.chmod(0o600)
    with pytest.raises(SettingsError) as refused:
        read_key(path, WHAT)
    assert f"{path}: {WHAT} must have at least 32 bytes, it has {length}" == str(refused.value)
