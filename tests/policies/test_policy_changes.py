"""What differs between two policies, and what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policies.errors import PolicyError
from policies.family_policy import FamilyPolicy
from policies.loader import Board, load_board
from policies.policy_changes import NOT_AT_ONCE, Effect, changes_between, figure, refuse_restart, shown
from tests.support import boards
from tests.support.boards import BUILD
from tests.support.policies import EXACT_LIMIT, a_policy, write_policies

SMALL = {"minimum": 0, "maximum": 1000, "step": 1}
PACKED = {"tie_break": "composite", "tie_resolution_ms": 60_000, "score": SMALL}


def a_board(folder: Path, name: str, **changes: Any) -> Board:
    write_policies(folder / name, a_policy("sprint", **changes))
    return load_board(folder / name / "sprint.yaml")


def told(old: Board, new: Board) -> list[tuple[str, Any, Any, Effect]]:
    return [(each.name, each.old, each.new, each.effect) for each in changes_between(old, new)]


def test_equal_policies_differ_in_nothing(tmp_path: Path):
    """A default that is written out is no difference."""
    assert [] == told(a_board(tmp_path, "old"), a_board(tmp_path, "new", order="descending"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"title": "Dash"}, ("title", "Sprint", "Dash", Effect.AT_ONCE)),
        ({"score": SMALL}, ("score.maximum", EXACT_LIMIT, 1000, Effect.AT_ONCE)),
        ({"validators": {"anomaly": "off"}}, ("validators.anomaly", "flag", "off", Effect.AT_ONCE)),
        ({"builds": {"b": {"status": "blocked"}}}, ("builds.b.status", None, "blocked", Effect.AT_ONCE)),
        ({"operator": "latest"}, ("operator", "best", "latest", Effect.FOLDED)),
        ({"season": None, "windows": ["daily"]}, ("windows", ["alltime"], ["daily"], Effect.REFOLD)),
        ({"shards": 4}, ("shards", 1, 4, Effect.REBUILD)),
        ({"cold_after_h": 5}, ("cold_after_h", None, 5, Effect.RESTART)),
    ],
)
def test_each_difference_says_what_it_takes(tmp_path: Path, changes: dict[str, Any], expected: Any):
    """By the setting: most are read by each request, some are in what is stored."""
    assert expected in told(a_board(tmp_path, "old"), a_board(tmp_path, "new", **changes))


def test_the_bounds_of_a_composite_board_are_in_its_standings(tmp_path: Path):
    """There the score is packed by them, so that other bounds are another order."""
    wide = PACKED | {"score": SMALL | {"maximum": 1100}}
    expected = [("score.maximum", 1000, 1100, Effect.FOLDED)]

    assert expected == told(a_board(tmp_path, "old", **PACKED), a_board(tmp_path, "new", **wide))


def test_either_bound_is_in_the_standings_if_either_policy_is_composite(tmp_path: Path):
    """Also where the board leaves that tie-break, or takes it up, with the same change."""
    plain = {"score": SMALL | {"minimum": -10, "maximum": 900}}
    for at, (old, new) in enumerate([(PACKED, plain), (plain, PACKED), (PACKED, PACKED | plain)]):
        found = changes_between(a_board(tmp_path, f"old{at}", **old), a_board(tmp_path, f"new{at}", **new))
        effects = {each.name: each.effect for each in found}
        assert (Effect.FOLDED, Effect.FOLDED) == (effects["score.minimum"], effects["score.maximum"])


def test_other_bytes_of_a_simulator_are_a_difference(tmp_path: Path):
    """The file keeps its name, and the policy its text; the digest does not."""
    module = tmp_path / "game.wasm"
    module.write_bytes(Path(boards.board(tmp_path / "tiny").simulators[BUILD].path).read_bytes())
    builds = {BUILD: {"simulator": str(module)}}
    old = boards.board(tmp_path, builds=builds)
    module.write_bytes(b"another")
    new = boards.board(tmp_path, builds=builds)

    digests = (old.simulators[BUILD].digest, new.simulators[BUILD].digest)
    assert [(f"builds.{BUILD}.simulator (content)", *digests, Effect.AT_ONCE)] == told(old, new)


def test_a_whole_section_can_come_and_go(tmp_path: Path):
    """Each of its settings is named, against what is not set."""
    old, new = boards.board(tmp_path), a_board(tmp_path, "new")
    names = {each.name for each in changes_between(old, new) if each.new is None and each.section == "replay"}

    assert {"replay.maximum_ticks", "replay.budget.fuel"} <= names


RANKED = {"order", "operator", "tie_break", "tie_fields", "tie_resolution_ms", "rollup"}
"""What decides a standing and where it is: its rule, which the ledger keeps with it."""
STORED = {"windows", "time_zone", "season", "joins"}
"""What decides which standings there are."""
KEPT = {"ranks", "segments", "shards", "ranges", "exact_ranks"}
"""What decides how the index keeps a board."""
WIRED = {"board", "family", "decimals", "cold_after_h", "staleness_s"}
"""What a part is put together by as it starts."""
READ_ANEW = {
    "title", "writes", "details", "self_declared", "score", "stats", "velocity", "slow_motion", "delay", "abandonment",
    "limits", "recordings", "run_lifetime_s", "anomaly", "drift", "progress", "validators", "forensics", "builds",
    "replay", "rules", "plugins", "verification", "seed", "names", "opened_by", "opening", "metadata_filters",
    "names_free_after_delete", "boards", "schedule", "sample", "moderation", "playback", "origins",
}  # fmt: skip
"""What each request and each job looks up."""


def test_what_each_setting_takes_is_said_of_every_one():
    """One that is new, or is taken off the list, has to be thought about: a reload would put it in force by half."""
    effects = {Effect.FOLDED: RANKED, Effect.REFOLD: STORED, Effect.REBUILD: KEPT, Effect.RESTART: WIRED}
    assert {name: effect for effect, names in effects.items() for name in names} == NOT_AT_ONCE
    assert FamilyPolicy.model_fields.keys() - NOT_AT_ONCE.keys() == READ_ANEW


def test_what_needs_a_restart_is_refused_whole_and_by_name(tmp_path: Path):
    """All of it at once, so that nobody mends one after the other; what does not is let pass."""
    old = {"sprint": a_board(tmp_path, "old")}
    refuse_restart(old, {"sprint": a_board(tmp_path, "fine", title="Dash"), "other": old["sprint"]})
    old = {"other": old["sprint"], **old}
    new = {
        "sprint": a_board(tmp_path, "new", operator="latest", shards=2, title="Dash"),
    }
    with pytest.raises(PolicyError) as refused:
        refuse_restart(old, new)

    assert (
        "needs a restart: board 'other' is gone; board 'sprint': operator was best and is now latest; "
        "board 'sprint': shards was 1 and is now 2"
    ) == str(refused.value)


def test_values_are_shown_as_a_policy_file_has_them():
    """Words for what YAML has words for."""
    given = {"a": [1, {"b": True}], "c": None}
    assert "{a: [1, {b: true}], c: not set}" == shown(given)


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (50.0, "50"),
        (0.25, "0.25"),
        (1 / 60, "0.0166667"),
        (99_999.5, "99999.5"),
        (999_999.7, "1000000"),
        (-2e9, "-2000000000"),
    ],
)
def test_a_figure_is_written_without_an_exponent(number: float, written: str):
    """A moderator reads a million points as a million, and not as 1e+06."""
    assert written == figure(number)
