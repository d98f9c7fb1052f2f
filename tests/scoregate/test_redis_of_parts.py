"""Commands use the Redis that the parts on this machine use, or say that they cannot tell which it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from gateway.deployment import run_files
from gateway.deployment.redis_addresses import different_ones, is_same_redis
from gateway.deployment.run_files import RunningPart
from policies.errors import SettingsError
from scoregate import embedded
from scoregate.cli import app
from scoregate.commands.common import settings_beside

INDEX_COMMANDS = [
    "board rebuild arcade",
    "board check --repair",
    "board refold arcade",
    "derived rebuild statistics",
    "replay reverify --board arcade --build 1 --yes",
    "key revoke k1 --compromised-since 2026-11-20T00:00:00Z",
    "batch apply 5b0c0f3f6e1d2a9c47e8b1d0",
    "batch reverse 5b0c0f3f6e1d2a9c47e8b1d0",
]
"""Commands that show in the index what they write, or compare it."""


@pytest.mark.parametrize(
    ("used", "said"),
    [
        (["redis://a:1/0", "redis://b:1/0"], "use redis://a:1/0 and redis://b:1/0"),
        (["redis://***@a:1/0"], r"use redis://\*\*\*@a:1/0, and do not note what \*\*\* stands for"),
    ],
)
@pytest.mark.parametrize("command", INDEX_COMMANDS)
def test_a_command_that_writes_to_the_index_takes_no_other_than_that_of_the_parts(
    command: str, used: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It worked on the default in silence, and the boards of the parts stayed as they were."""
    monkeypatch.delenv("SCOREGATE_REDIS_URL", raising=False)
    noted_as(tmp_path, monkeypatch, *used)
    with pytest.raises(SettingsError, match=f"^SCOREGATE_REDIS_URL: set it .* {said}$"):
        typer.main.get_command(app)([*command.split(), "--data-dir", str(tmp_path)], standalone_mode=False)


def test_a_key_is_revoked_whatever_redis_the_parts_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is taken back, so no index is needed: only the ledger, which is missing here."""
    monkeypatch.delenv("SCOREGATE_REDIS_URL", raising=False)
    noted_as(tmp_path, monkeypatch, "redis://a:1/0", "redis://b:1/0")
    with pytest.raises(SettingsError, match="there is no ledger"):
        typer.main.get_command(app)(
            ["key", "revoke", "k1", "--data-dir", str(tmp_path)], standalone_mode=False
        )


def test_a_command_with_another_redis_than_the_parts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """In the sentence of the status; it goes on, and says nothing of the same one in other words."""
    noted_as(tmp_path, monkeypatch, "redis://127.0.0.1:6379/0")
    for url, said in (
        ("redis://b:1/0", "the parts here use redis://127.0.0.1:6379/0, and redis://b:1/0 is asked\n"),
        ("redis://localhost", ""),
    ):
        monkeypatch.setenv("SCOREGATE_REDIS_URL", url)
        assert (url, said) == (settings_beside(tmp_path).redis_url, capsys.readouterr().err)


def noted_as(folder: Path, monkeypatch: pytest.MonkeyPatch, *used: str) -> None:
    """Parts that have noted these addresses."""
    parts = [RunningPart("edge", 1, 0, folder / "none", url) for url in used]
    for module in (embedded, run_files):
        monkeypatch.setattr(module, "running_parts", lambda _: parts)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379/0", True),
        ("redis://localhost/", "redis://127.0.0.1:6379/0", True),
        ("redis://[::1]:6379/0", "redis://:6379", True),
        ("redis://***@A.example:1/2", "rediss://a.example:1?db=2", True),
        ("redis://a:1/3?db=2", "redis://a:1/2", True),
        ("unix:///run/valkey.sock", "unix://***@/run/valkey.sock?db=0", True),
        ("redis+cluster://a:1,b:2", "redis+cluster://***@b:2,a:1", True),
        ("redis+cluster://a:1,b", "redis+cluster://b:6379,c:3", True),
        ("redis://a:1/0", "redis://a:1/1", False),
        ("redis://a:1/0", "redis://a:2/0", False),
        ("redis://a:1/0", "redis://b:1/0", False),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock?db=1", False),
        ("unix:///run/valkey.sock", "unix:///run/other.sock", False),
        ("redis+cluster://a:1,b:2", "redis+cluster://c:1,d:2", False),
        ("redis+cluster://a:1", "redis://a:1/0", False),
    ],
)
def test_addresses_are_compared_by_where_they_lead(one: str, other: str, is_same: bool):
    """Hosts, ports, databases, paths and nodes; not the text."""
    assert (is_same, is_same) == (is_same_redis(one, other), is_same_redis(other, one))
    assert (1 if is_same else 2) == len(different_ones([one, other]))
