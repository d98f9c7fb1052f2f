"""`scoregate policy check`: what it says of a policy that is right, and of one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from policies.errors import PolicyError
from scoregate.cli import app
from tests.support.policies import a_policy, write_policies

COMPOSITE = {"tie_break": "composite", "windows": ["alltime", "daily"]}


def check(folder: Path, **policy: Any) -> Any:
    write_policies(folder, a_policy("lap", score={"minimum": 0, "maximum": 115_400}, **policy))
    return CliRunner().invoke(app, ["policy", "check", str(folder / "lap.yaml")])


def test_a_composite_board_is_told_its_resolution(tmp_path: Path):
    """How far apart two times have to be, in each window, for the score's bounds."""
    told = check(tmp_path, **COMPOSITE, tie_resolution_ms=50)
    assert 0 == told.exit_code
    assert "alltime: equal scores 33 ms apart" in told.output
    assert "daily: equal scores 1 ms apart" in told.output
    assert "apart" not in check(tmp_path).output


def test_a_resolution_that_cannot_be_kept_is_refused_with_what_there_is(tmp_path: Path):
    """The loader says how many slots the score's bounds leave, and what that comes to."""
    told = check(tmp_path, **COMPOSITE, tie_resolution_ms=10)
    assert isinstance(told.exception, PolicyError)
    assert "33 ms in alltime, where `tie_resolution_ms` asks for 10" in str(told.exception)


@pytest.mark.parametrize(
    "policy",
    [
        {"tie_break": "composite"},
        {"tie_resolution_ms": 50},
        {"tie_break": "fields"},
        {"tie_fields": [{"stat": "kills"}]},
        {"tie_break": "composite", "tie_resolution_ms": 50, "operator": "count"},
        {"ranks": ["dense", "dense"]},
        {"windows": ["season"]},
        {"season": "0 0 1 * *"},
        {"season": "0 * * * *", "windows": ["season"]},
        {"season": "never", "windows": ["season"]},
        {"time_zone": "Middle/Earth"},
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, policy: dict[str, Any]):
    """Tie-breaks without what they need, seasons without windows, hours for seasons, places that are not."""
    assert isinstance(check(tmp_path, **policy).exception, PolicyError)
