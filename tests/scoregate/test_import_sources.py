"""Every source comes onto a board with its ties as they were; what cannot be read is named by its place."""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis

from gateway.runtime.settings import Settings
from policies.errors import SettingsError
from scoregate.commands.imports import ImportFormat
from scoregate.imports import json_records
from scoregate.imports.imported_score import whole_or_text
from scoregate.imports.nakama import scores_of_nakama
from scoregate.imports.playfab import scores_of_playfab
from scoregate.imports.redis_copy import copy_sorted_set, scores_of_copy
from scoregate.imports.steam import scores_of_steam
from tests.support.game import ROOT
from tests.support.harness import Harness, running_harness
from tests.support.importing import import_into, key_of, listed
from tests.support.policies import a_policy, write_policies

PAGE = ROOT / "docs" / "how-to" / "move-your-leaderboards.md"

NAKAMA = [
    {"owner_id": "ada", "score": "70", "subscore": "3", "update_time": "2024-03-01T10:00:00.1234567Z"},
    {"owner_id": "zoe", "score": "70", "num_score": 2, "update_time": "2024-02-01T10:00:00Z", "rank": "2"},
    {"owner_id": "nil", "username": "Nil", "metadata": "{}", "update_time": "2024-02-01T10:00:00Z"},
    {"owner_id": "eve", "score": "90", "update_time": "2024-05-01T10:00:00Z"},
]
PLAYFAB = [
    {"PlayFabId": "nil", "StatValue": 0, "Position": 3},
    {"PlayFabId": "eve", "DisplayName": "Eve", "StatValue": 90, "Position": 0},
    {"PlayFabId": "ada", "StatValue": 70, "Position": 2},
    {"PlayFabId": "zoe", "StatValue": 70, "Position": 1},
]
STEAM = [
    {"steamID": "eve", "score": 90, "rank": 1, "ugcid": "-1"},
    {"steamID": "ada", "score": 70, "rank": 3, "ugcid": "-1"},
    {"steamID": "zoe", "score": 70, "rank": 2, "ugcid": "-1", "detailData": ""},
    {"steamID": "nil", "score": 0, "rank": 4, "ugcid": "-1"},
]
EXPORTS: dict[str, Any] = {
    "nakama": {"records": NAKAMA, "next_cursor": "gA"},
    "playfab": {"code": 200, "data": {"Leaderboard": PLAYFAB, "Version": 0}},
    "steam": {"leaderboardEntryInformation": {"appID": 480, "leaderboardEntries": STEAM}},
}


def lines(values: list[Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def appears(file: Path) -> None:
    """Wait until a file is there, and fail after a minute."""
    until_s = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < until_s
        time.sleep(0.005)


async def test_exports_come_onto_a_board_once_with_their_ties(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By time, Position or rank; the dry run finds what the import refuses, and writes nothing."""
    key = await key_of(harness, tmp_path)
    for name, export in EXPORTS.items():
        text = (
            json.dumps(export, indent=2).replace('"eve"', f'"{name}-eve"').replace('"zoe"', f'"{name}-zoe"')
        )
        text = text.replace('"ada"', f'"{name}-ada"').replace('"nil"', '"not:a:player"')
        (tmp_path / f"{name}.json").write_text(text)
        how: dict[str, Any] = {"from_": ImportFormat(name)}
        args = (harness, tmp_path / f"{name}.json", key)
        before = await harness.rows()
        assert 1 == await import_into(*args, **how, dry_run=True)
        assert before == await harness.rows()
        said = capsys.readouterr().out
        assert '"player": "not:a:player", "reason": "player: ' in said
        assert ", record " in said
        assert "4 rows can be read, 1 would be refused; nothing was written" in said
        for _ in range(2):
            assert 1 == await import_into(*args, **how)
            (tmp_path / f"{name}.json.arcade.imported").unlink()
        assert 2 == capsys.readouterr().out.count("\n3 written, 1 refused, see ")
        mine = [player for player, _ in await listed(harness) if player.startswith(name)]
        assert [f"{name}-eve", f"{name}-zoe", f"{name}-ada"] == mine
    assert 9 == await harness.rows()


async def test_a_sorted_set_comes_onto_a_board_as_it_was(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ties by member, the last first, as ZREVRANGE lists them; a score that is not whole is refused by itself."""
    source = fakeredis.FakeRedis()
    source.zadd(
        "lb:foo", {"user:ada": 70, "user:zoe": 70, "user:eve": 90, "user:half": 1.5, "user:far": 1e300}
    )
    monkeypatch.setattr(redis.Redis, "from_url", lambda url, **_: source)
    monkeypatch.chdir(tmp_path)
    args, how = (harness, "redis://localhost/0", await key_of(harness, tmp_path)), {"member_prefix": "user:"}
    for _ in range(2):
        assert 1 == await import_into(*args, key="lb:foo", **how)
        source.zadd("lb:foo", {"user:late": 10})
    assert [("eve", 90), ("zoe", 70), ("ada", 70)] == await listed(harness)
    said = capsys.readouterr()
    assert "lb_foo.arcade.copy: 5 members\nlb_foo: goes on after row 5\n" in said.err
    assert 2 == said.out.count("3 written, 2 refused, see lb_foo.arcade.refused\n")
    refused = await asyncio.to_thread(Path("lb_foo.arcade.refused").read_text)
    assert ["far", "half"] == [json.loads(line)["player"] for line in refused.splitlines()]
    with pytest.raises(SettingsError, match=r"lb_foo\.arcade\.imported is of another file"):
        await import_into(*args, key="lb:foo", member_prefix="")


async def test_a_sorted_set_of_times_comes_onto_a_board_where_less_is_better(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties by member, the first first, as ZRANGE lists them."""
    source = fakeredis.FakeRedis()
    source.zadd("laps", {"ada": 70, "zoe": 70, "eve": 60})
    monkeypatch.setattr(redis.Redis, "from_url", lambda url, **_: source)
    monkeypatch.chdir(tmp_path)
    laps = a_policy(
        board="arcade",
        writes="trusted",
        order="ascending",
        operator="best",
        score={"minimum": 0, "maximum": 100},
    )
    folder = write_policies(tmp_path / "policies", laps)
    async with running_harness(settings.model_copy(update={"policies_dir": folder})) as harness:
        key = await key_of(harness, tmp_path)
        assert 0 == await import_into(harness, "redis://localhost/0", key, key="laps")
        assert [("eve", 60), ("ada", 70), ("zoe", 70)] == await listed(harness)


async def test_an_import_that_is_killed_goes_on_and_each_player_stands_once(
    harness: Harness, tmp_path: Path
) -> None:
    """By SIGKILL, as soon as a batch is done; the same command then writes what is left."""
    key, source = await key_of(harness, tmp_path), tmp_path / "steam.json"
    entries = [{"steamID": f"s{number}", "score": 70, "rank": number} for number in range(1500)]
    source.write_text(lines(entries))
    words = ("import", str(source), "--from", "steam", "--board", "arcade", "--url", harness.url)
    signed = ("--key-file", str(key), "--key-id", "eu-1")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "scoregate", *words, *signed)
    await asyncio.to_thread(appears, tmp_path / "steam.json.arcade.imported")
    process.kill()
    assert -signal.SIGKILL == await process.wait()
    assert 500 <= await harness.rows() < 1500
    assert 0 == await import_into(harness, source, key, from_=ImportFormat.STEAM)
    assert 1500 == await harness.rows()
    first = (await listed(harness))[:3]
    assert [("s0", 70), ("s1", 70), ("s2", 70)] == first


def test_a_copy_has_what_stood_from_beginning_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members come, change and go while ZSCAN walks; a copy that was cut off begins anew."""
    source, pages = fakeredis.FakeRedis(), []
    source.zadd("lb", {f"p{number:04}": number for number in range(3000)})
    scan, chance = source.zscan, random.Random(1)

    def changing(*args: Any, **options: Any) -> Any:
        pages.append(args)
        if len(pages) == 2:
            raise redis.ConnectionError("cut off")
        source.zadd("lb", {f"new{len(pages)}": chance.random()})
        source.zrem("lb", f"new{len(pages) - 1}")
        return scan(*args, **options)

    monkeypatch.setattr(source, "zscan", changing)
    monkeypatch.setattr(redis.Redis, "from_url", lambda url, **_: source)
    with pytest.raises(SettingsError, match="cut off"):
        copy_sorted_set("redis://here", "lb", tmp_path / "copy")
    copy_sorted_set("redis://here", "lb", tmp_path / "copy")
    players = [each.player for each in scores_of_copy(tmp_path / "copy", "", is_ascending=True)]
    assert [f"p{number:04}" for number in range(3000)] == [each for each in players if each.startswith("p")]
    with pytest.raises(SettingsError, match="of another sorted set"):
        copy_sorted_set("redis://here", "other", tmp_path / "copy")
    with pytest.raises(SettingsError, match="nothing of this name"):
        copy_sorted_set("redis://here", "other", tmp_path / "copy2")


WRONG = (
    (scores_of_nakama, lines(NAKAMA) + "{", "line 5: is not JSON"),
    (scores_of_nakama, lines([*NAKAMA, {"owner_id": "ada"}]), "line 5, record 1: .*'update_time'"),
    (scores_of_playfab, lines([*PLAYFAB, 7]), "line 5: expected an object with data.Leaderboard"),
    (scores_of_playfab, json.dumps([*PLAYFAB, 7]), "record 5: expected an object"),
    (scores_of_steam, "steamid,score\n", "line 1: is not JSON"),
    (scores_of_steam, lines([{"steamID": "1", "rank": "first", "score": 1}]), "line 1, record 1"),
    (scores_of_steam, "[" * 200_000, "line"),
    (
        scores_of_steam,
        json.dumps(STEAM * 1000, indent=1),
        "more than 0 MiB; write one record on each line",
    ),
)


@pytest.mark.parametrize(("read", "text", "said"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_cannot_be_read_is_named_by_its_place(
    read: Callable[[Path], Any], text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, line and record; a page that is too large to be read at once is told what to do."""
    monkeypatch.setattr(json_records, "LARGEST", 250_000)
    (tmp_path / "export").write_text(text)
    with pytest.raises(SettingsError, match=said):
        list(read(tmp_path / "export"))


def test_pages_may_stand_on_lines_one_after_the_other(tmp_path: Path) -> None:
    """What a loop over pages appends to a file is read as it is, and zeros that Nakama leaves out are zeros."""
    (tmp_path / "export").write_text(
        lines([{"records": NAKAMA[:2]}, {}, {"records": NAKAMA[2:]}, {"prev_cursor": "gB"}]) + "\n"
    )
    scores = list(scores_of_nakama(tmp_path / "export"))
    assert ["ada", "zoe", "nil", "eve"] == [each.player for each in scores]
    assert [70, 70, 0, 90] == [each.score for each in scores]
    assert {"subscore": 3} == scores[0].stats


async def test_the_examples_of_the_page_come_onto_a_board_as_they_stand(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of each block of the page is a file that is imported by the options beside it."""
    key = await key_of(harness, tmp_path)
    page = PAGE.read_text()
    for name, language in (("A CSV file", "csv"), ("Nakama", "json"), ("PlayFab", "json"), ("Steam", "json")):
        section = page.partition(f"## {name}\n")[2]
        source = tmp_path / name
        source.write_text(section.partition(f"```{language}\n")[2].partition("```")[0])
        how: dict[str, Any] = (
            {"time_column": "reached"} if language == "csv" else {"from_": ImportFormat(name.lower())}
        )
        assert 0 == await import_into(harness, source, key, **how)
    assert ["2 written", *["1 written"] * 3] == re.findall(r"\d+ written", capsys.readouterr().out)
    players = ["ada", "4ec4f126-3f9d-11e7-84ef-b7c182b36521", "10931252888739651331", "76561197960287930"]
    assert dict.fromkeys(players, 1200) | {"eve": 900} == dict(await listed(harness))


def test_an_empty_page_of_nakama_is_a_page(tmp_path: Path) -> None:
    """It leaves an empty list out, alone or with cursors; a record without a player is none such."""
    for text in ("{}", "{}\n{}\n", '{"rank_count": "0"}', '{"records": []}', "[]"):
        (tmp_path / "export").write_text(text)
        assert [] == list(scores_of_nakama(tmp_path / "export"))
    (tmp_path / "export").write_text('{"score": "5"}')
    with pytest.raises(SettingsError, match="record 1: expected a record with 'owner_id'"):
        list(scores_of_nakama(tmp_path / "export"))


def test_a_subscore_of_nothing_is_no_statistic(tmp_path: Path) -> None:
    """Whether Nakama leaves a zero out or writes it: a board without this statistic would refuse the row."""
    record = {"owner_id": "ada", "score": "5", "update_time": "2026-11-20T12:00:00Z"}
    records = [record | more for more in ({}, {"subscore": 0}, {"subscore": "0"}, {"subscore": "7"})]
    (tmp_path / "export").write_text(json.dumps({"records": records}))
    assert [{}, {}, {}, {"subscore": 7}] == [each.stats for each in scores_of_nakama(tmp_path / "export")]


def test_numbers_that_are_not_exact_are_text() -> None:
    """The gateway refuses such a row, and not the whole request."""
    assert [3, -4, 5] == [whole_or_text(each) for each in ("3", -4.0, 5)]
    values = ("many", 1.5, 2**53, "9223372036854775807", True, None, float("inf"))
    assert all(isinstance(whole_or_text(each), str) for each in values)
