"""`scoregate policy backtest`: a new policy against what a ledger has seen."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from policies.errors import PolicyError, SettingsError
from replay.simulators.sandbox import Sandbox
from scoregate.cli import app
from tests.support.attack import accept
from tests.support.harness import Harness
from tests.support.policies import arcade_policy, write_policies


@pytest.fixture
async def history(harness: Harness, sandbox: Sandbox) -> Harness:
    """An honest run, one that a moderator takes back later, and one with points that come too fast."""
    moderator = harness.moderator()
    for is_cheat in (False, True):
        run, claim = await harness.played()
        await accept(harness, harness.signed(run, claim))
        await harness.verify(run.id, sandbox=sandbox)
        if is_cheat:
            answer = await harness.post(
                f"/v1/moderation/cases/{run.id}/revoke", {"code": "other", "note": "a bot"}, moderator
            )
            assert 200 == answer.status
    run, claim = await harness.played()
    await accept(harness, harness.signed(run, claim | {"score": 115_400}))
    return harness


async def backtest(harness: Harness, folder: Path, *options: str, **policy: Any) -> Result:
    write_policies(folder, arcade_policy(**policy))
    command = [
        "policy",
        "backtest",
        str(folder / "arcade.yaml"),
        "--data-dir",
        str(harness.edge.settings.data_dir),
    ]
    return await asyncio.to_thread(CliRunner().invoke, app, [*command, *options])


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path):
    """A mistyped folder would get an empty ledger of its own, in which nothing ever changes."""
    write_policies(tmp_path, arcade_policy())
    command = ["policy", "backtest", str(tmp_path / "arcade.yaml"), "--data-dir", str(tmp_path)]
    told = CliRunner().invoke(app, command)
    assert isinstance(told.exception, SettingsError)
    assert not (tmp_path / "ledger.sqlite3").exists()


async def test_a_policy_of_today_changes_nothing(history: Harness, tmp_path: Path):
    """Three submissions, no change, one finding; told for people."""
    told = await backtest(history, tmp_path / "new")
    assert 0 == told.exit_code, told.output
    assert "3 submissions in 1.0 days; 0 decisions change" in told.output
    assert "recall 0/1 = 0.00" in told.output


async def test_what_changes_is_told_whole(history: Harness, tmp_path: Path):
    """A policy that holds whatever is above a hundred points: JSON with both sides and each changed decision."""
    strict = {"threshold": 0.001, "spread_floor": 1, "prior": {"mean": 0, "spread": 1}}
    told = await backtest(history, tmp_path / "new", "--json", anomaly=strict)
    found = json.loads(told.stdout)
    assert [["promoted", "held", 2], ["rejected", "rejected", 1]] == found["moves"]
    assert (0.0, 2.0) == (found["then"]["held_per_day"], found["new"]["held_per_day"])
    assert {"hits": 1, "of": 1} == {name: found["new"]["recall"][name] for name in ("hits", "of")}
    assert [("held", "anomaly-population")] * 2 == [tuple(each["new"].values()) for each in found["changed"]]
    assert [False, True] == [bool(each["is_cheat"]) for each in found["changed"]]


async def test_what_cannot_be_replayed_any_more_is_told(history: Harness, tmp_path: Path):
    """A looser policy would have had the fast run replayed, whose recording was not kept."""
    loose = {"points_per_second": 1_000_000}
    told = await backtest(history, tmp_path / "new", velocity=loose)
    assert "1 of them were rejected at once and would be replayed now" in told.output
    as_json = await backtest(history, tmp_path / "new", "--json", velocity=loose)
    assert 1 == json.loads(as_json.stdout)["unplayed"]


async def test_since_leaves_out_what_came_before(history: Harness, tmp_path: Path):
    """Nothing is counted from tomorrow on; a day that is none is refused."""
    told = await backtest(history, tmp_path / "new", "--since", "2099-01-01")
    assert (0, ["0 submissions in 1.0 days; 0 decisions change"]) == (
        told.exit_code,
        told.output.splitlines(),
    )
    nothing = json.loads(
        (await backtest(history, tmp_path / "new", "--since", "2099-01-01", "--json")).stdout
    )
    assert {"hits": 0, "of": 0, "interval": None} == nothing["then"]["precision"]
    wrong = await backtest(history, tmp_path / "new", "--since", "yesterday")
    assert isinstance(wrong.exception, SettingsError)


async def test_a_wrong_policy_is_named(history: Harness, tmp_path: Path):
    """File, line, and what was expected, as `policy check` says it; so is a board that it does not describe."""
    other = await backtest(history, tmp_path / "new", "--board", "vault")
    assert "--board: the file describes arcade" == str(other.exception)
    told = await backtest(history, tmp_path / "new", velocity={"points_per_second": -1})
    assert isinstance(told.exception, PolicyError)
