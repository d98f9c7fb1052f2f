"""`scoregate player`: what an operator does for one player."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.ledger.acts import Act
from gateway.ledger.players.identities import Identity, NewcomersName, identities_of, sign_in
from gateway.ledger.players.merges import Merge
from gateway.ledger.players.token_endings import ending_of
from gateway.ledger.privacy.erasures import erasure
from gateway.ledger.queries import add_player
from gateway.runtime.clock import wall_clock
from gateway.runtime.settings import Settings
from gateway.settlement.erasing import Eraser
from gateway.wiring import open_ledger
from policies.errors import SettingsError
from scoregate.cli import app
from scoregate.commands import players
from scoregate.commands.players import end_tokens_of, unlink_of
from tests.support.policies import a_policy, write_policies
from tests.support.valkey import ValkeyServer


async def test_an_operator_ends_the_tokens_of_a_player(tmp_path: Path):
    """The ledger has it, which every edge reads; without one, or for an impossible id, nothing is made."""
    settings = Settings(data_dir=tmp_path)
    with pytest.raises(SettingsError):
        await end_tokens_of(settings, "ada")
    async with open_ledger(settings) as ledger:
        with pytest.raises(SettingsError, match="knows no such player"):
            await end_tokens_of(settings, "ada")
        assert None is await ledger.read(ending_of("ada"))
        await ledger.write(add_player("ada", "Ada", now_ms=1))
        await end_tokens_of(settings, "ada")
        with pytest.raises(SettingsError, match=re.escape("no player can have this id")):
            await end_tokens_of(settings, "no player")
        ending = await ledger.read(ending_of("ada"))
    assert ending is not None
    assert 1 == ending.generation


async def test_tokens_end_by_the_clock_of_the_deployment(
    tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
):
    """Those that a thief was given within the last hour end too, though the operator's own clock is an hour behind."""
    monkeypatch.setattr("gateway.runtime.clock.wall_clock", lambda: wall_clock() - 3_600_000)
    settings = Settings(data_dir=tmp_path, redis_url=valkey.url)
    async with open_ledger(settings) as ledger:
        await ledger.write(add_player("ada", "Ada", now_ms=1))
        begun_ms = wall_clock()
        await end_tokens_of(settings, "ada")
        ending = await ledger.read(ending_of("ada"))
    assert ending is not None
    assert begun_ms - 1000 <= ending.ended_at_ms


async def test_only_who_is_known_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """An export of nobody would answer a request for access, for a player whose id was mistyped."""
    settings = Settings(data_dir=tmp_path / "data", policies_dir=write_policies(tmp_path, a_policy("coins")))
    async with open_ledger(settings) as ledger:
        await ledger.write(add_player("ada", "Ada", now_ms=1))
        with pytest.raises(SettingsError, match=r"^nobody: the ledger knows no such player$"):
            await players._exported(settings, "nobody")
        assert "" == capsys.readouterr().out
        await players._exported(settings, "ada")
    assert '"table":"players"' in capsys.readouterr().out.replace(" ", "")


async def test_an_operator_unlinks_a_thief_and_ends_the_tokens(tmp_path: Path):
    """Be it the last identity; a wrong one is told which there are, and whoever was erased is still known."""
    settings = Settings(data_dir=tmp_path)
    thief, act = Identity("device", bytes(range(32))), Act("player:ada", 1)
    async with open_ledger(settings) as ledger:
        await ledger.write(sign_in(thief, NewcomersName("ada", "Ada", is_unique=False), act))
        with pytest.raises(SettingsError, match=re.escape("there are: 0001020304050607 (device)")):
            await unlink_of(settings, "ada", "8")
        with pytest.raises(SettingsError, match="ada has no identity 00010203;"):
            await unlink_of(settings, "ada", "00010203")
        assert None is await ledger.read(ending_of("ada"))
        assert 0 == await unlink_of(settings, "ada", "0001020304050607")
        assert [] == await ledger.read(identities_of("ada"))
        ending = await ledger.read(ending_of("ada"))
        assert ending is not None
        with pytest.raises(SettingsError, match="knows no such player"):
            await unlink_of(settings, "bob", "0001020304050607")


async def test_nobody_who_never_was_is_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is written; who was erased may be erased again."""
    settings = Settings(data_dir=tmp_path)
    async with open_ledger(settings) as ledger:

        @asynccontextmanager
        async def parts(_: Settings) -> AsyncIterator[Any]:
            yield ledger, None, None

        async def forget(*_: Any) -> None:
            pass

        monkeypatch.setattr(players, "_open_parts", parts)
        monkeypatch.setattr(Eraser, "_forget_names", forget)
        with pytest.raises(SettingsError, match="knows no such player"):
            await players._erased(settings, "ada")
        assert None is await ledger.read(erasure("ada"))
        await ledger.write(add_player("ada", "Ada", now_ms=1))
        for _ in range(2):
            await players._erased(settings, "ada")
        done = await ledger.read(erasure("ada"))
        assert done is not None
        assert (done.asked_at_ms, True) == (done.due_at_ms, done.begun_seq is not None), "at once"


def test_nobody_is_erased_before_somebody_said_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither a no nor the end of the input is one."""
    erased: list[str] = []

    async def erase(_: Settings, player: str) -> list[Any]:
        erased.append(player)
        return []

    monkeypatch.setattr(players, "_erased", erase)
    monkeypatch.setattr(players, "settings_beside", lambda *_, **__: Settings(data_dir=tmp_path))
    for answer in ("n\n", "\n", ""):
        result = CliRunner().invoke(app, ["player", "erase", "ada"], input=answer)
        assert (1, []) == (result.exit_code, erased)
        assert "Erase the data of ada, for ever? [y/N]" in result.stdout
    assert 0 == CliRunner().invoke(app, ["player", "erase", "ada"], input="y\n").exit_code
    assert 0 == CliRunner().invoke(app, ["player", "erase", "bob", "--yes"], input="").exit_code
    assert ["ada", "bob"] == erased


def test_it_is_told_who_was_merged_into_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the number of what moved, and the command that takes it back; once it is, that they are two."""
    merge = Merge("m1", "p_old", "p_new", "operator:ada", 0, changed_count=3)

    async def done(*_: object) -> Merge:
        return merge

    for name in ("_merged", "_parted"):
        monkeypatch.setattr(players, name, done)
    data = ("--data-dir", str(tmp_path))
    merged = CliRunner().invoke(app, ["player", "merge", "p_old", "p_new", *data])
    assert [
        "merged p_old into p_new: 3 submissions moved",
        "to take it back: scoregate player unmerge m1",
    ] == merged.stdout.splitlines()
    parted = CliRunner().invoke(app, ["player", "unmerge", "m1", *data])
    assert "p_old and p_new are two: 3 submissions moved back\n" == parted.stdout


def test_it_is_told_what_was_taken_from_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With how many ways to sign in are left: without any, the player cannot come back."""

    async def done(*_: object) -> int:
        return 2

    monkeypatch.setattr(players, "unlink_of", done)
    told = CliRunner().invoke(app, ["player", "unlink", "p_ada", "0001", "--data-dir", str(tmp_path)])
    assert "unlinked 0001 from p_ada and ended the player's tokens; identities left: 2\n" == told.stdout
