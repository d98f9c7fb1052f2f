"""Rollups in policy files: what follows from a family, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.choices import Writes
from policies.document import read_document
from policies.errors import PolicyError
from policies.loader import load_policies, load_policy_in_folder
from policies.opened_board import OpenedBoard
from policies.rollups import RollupTake

TRACK = """\
family: track
title: Tracks
score: {minimum: 0, maximum: 1000}
"""
PERCENTILES = "{family: track, take: points, percentiles: [%s]}"
WORLD = """\
board: world
title: World
rollup: {family: track}
"""


def folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / f"{name}.yaml").write_text(text)
    return path


def test_three_lines_make_a_rollup_and_each_board_of_the_family_knows_it(tmp_path: Path):
    """It takes sums of the boards' standings; nobody writes to it."""
    points = WORLD.replace("world", "cup").replace("track}", "track, take: points, points: [3, 2, 1]}")
    policies = load_policies(folder(tmp_path, track=TRACK, world=WORLD, cup=points))
    world, cup = policies.boards["world"], policies.boards["cup"]
    assert (Writes.DERIVED, False) == (world.policy.writes, world.policy.takes_runs)
    assert RollupTake.SUM is world.policy.rollup.take
    monza = policies.families["track"].board(OpenedBoard("track.monza", "track", "Monza"))
    assert (cup, world) == monza.rollups
    assert () == world.rollups
    assert world.ranking.rule != cup.ranking.rule


@pytest.mark.parametrize(
    ("rollup", "track", "fault"),
    [
        (
            "{family: car}",
            "",
            "world.yaml:3: rollup.family: no file of this folder describes the family 'car'",
        ),
        ("{family: track}\nwindows: [season]\nseason: 0 0 1 * *", "", "world.yaml:4: windows: the family"),
        (
            "{family: track}\nwindows: [season]\nseason: 0 0 1 * *",
            "windows: [season]\nseason: 0 0 2 * *\n",
            "world.yaml:5: season: expected the seasons and the time zone",
        ),
        (
            "{family: track}\nwindows: [season]\nseason: 0 0 1 * *",
            "windows: [season]\nseason: 0 0 1 * *\ntime_zone: Asia/Tokyo\n",
            "world.yaml:5: season: expected the seasons and the time zone",
        ),
        ("{family: track, take: points}", "", "`points` and `percentiles` belong to `take: points`"),
        ("{family: track, points: [1]}", "", "`points` and `percentiles` belong to `take: points`"),
        ("{family: track, take: points, points: [1, 2]}", "", "must not rise"),
        ("{family: track, take: points, points: [0]}", "", "world.yaml:3: rollup.points"),
        (
            "{family: track, take: points, points: [1], percentiles: [{at: 9, points: 1}]}",
            "",
            "one of the two",
        ),
        ("{family: track, percentiles: [{at: 9, points: 1}]}", "", "one of the two"),
        (PERCENTILES % "{at: 9, points: 1}, {at: 9, points: 1}", "", "must fall"),
        (PERCENTILES % "{at: 9, points: 1}, {at: 8, points: 2}", "", "points must not rise"),
        (PERCENTILES % "{at: 9.001, points: 1}", "", "`at` has at most two decimals"),
        (PERCENTILES % "{at: 101, points: 1}", "", "world.yaml:3: rollup.percentiles"),
        (PERCENTILES % ", ".join(f"{{at: {at}, points: 1}}" for at in range(21, 0, -1)), "", "at most 20"),
        ("{family: track}\nwindows: [daily]", "", "world.yaml:4: windows: a rollup has the windows"),
        ("{family: track}\noperator: sum", "", "world.yaml:4: operator: a rollup takes no runs"),
        ("{family: track}\nseed: board", "", "world.yaml:4: seed: a rollup takes no runs"),
        (
            "{family: track}\nlimits: {player: {per_minute: 9, burst: 9}}",
            "",
            "world.yaml:4: limits: a rollup takes no runs",
        ),
        ("{family: track}\nrecordings: {refused_days: 9}", "", "world.yaml:4: recordings: a rollup takes no"),
        ("{family: track}\nwrites: trusted", "", "`rollup` and `writes: derived` need each other"),
    ],
)
def test_a_rollup_that_cannot_follow_is_refused_with_its_line(
    tmp_path: Path, rollup: str, track: str, fault: str
):
    """Whatever the family lacks, and whatever a rollup has no use for."""
    world = WORLD.replace("{family: track}", rollup)
    with pytest.raises(PolicyError) as refused:
        load_policies(folder(tmp_path, track=TRACK + track, world=world))
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("rollup", "expected"),
    [
        ("{family: track, take: best}", ("ascending", 3)),
        ("{family: track, take: best}\norder: ascending\ndecimals: 0", ("ascending", 0)),
        ("{family: track}", ("ascending", 3)),
        ("{family: track}\norder: descending", ("descending", 3)),
        ("{family: track, take: count}", ("descending", 0)),
        ("{family: track, take: points, points: [3, 1]}", ("descending", 0)),
    ],
)
def test_scores_of_the_family_are_ranked_and_read_as_on_its_boards(
    tmp_path: Path, rollup: str, expected: tuple[str, int]
):
    """The best lap is the fastest one. A number of boards, and points, are scores of their own."""
    world = WORLD.replace("{family: track}", rollup)
    path = folder(tmp_path, track=TRACK + "order: ascending\ndecimals: 3\n", world=world)
    policies = load_policies(path)
    board = policies.boards["world"]
    assert expected == (board.policy.order.value, board.policy.decimals)
    assert (board,) == policies.families["track"].rollups
    alone = load_policy_in_folder(read_document(path / "world.yaml"))
    assert (board.digest, board.ranking.rule) == (alone.digest, alone.ranking.rule)


@pytest.mark.parametrize(("order", "other"), [("ascending", "descending"), ("descending", "ascending")])
def test_the_best_of_another_order_is_refused(tmp_path: Path, order: str, other: str):
    """By the folder and by `policy check`, with the line; so is a family that is not there."""
    world = WORLD.replace("track}", "track, take: best}") + f"order: {other}\n"
    path = folder(tmp_path, track=f"{TRACK}order: {order}\n", world=world)
    fault = f"world.yaml:4: order: `take: best` has the order of the family 'track': `{order}`"
    for load in (
        lambda: load_policies(path),
        lambda: load_policy_in_folder(read_document(path / "world.yaml")),
    ):
        with pytest.raises(PolicyError) as refused:
            load()
        assert str(refused.value).endswith(fault)
    folder(tmp_path, world=world.replace("track,", "car,"))
    with pytest.raises(PolicyError, match=r"world\.yaml:3: rollup\.family: no file of this folder describes"):
        load_policy_in_folder(read_document(path / "world.yaml"))


def test_a_sum_needs_scores_that_can_be_summed_up(tmp_path: Path):
    """A best or a count of the same family does not."""
    huge = TRACK.replace("1000", str(2**40 + 1))
    with pytest.raises(PolicyError, match=r"world\.yaml:3: rollup\.take: `take: sum` needs"):
        load_policies(folder(tmp_path, track=huge, world=WORLD))
    best = WORLD.replace("track}", "track, take: best}")
    assert 2 == len(load_policies(folder(tmp_path, world=best)).by_name)


def test_a_board_without_rollup_does_not_derive(tmp_path: Path):
    """Nor is a rollup a family of its own."""
    with pytest.raises(PolicyError, match="need each other"):
        load_policies(
            folder(tmp_path, a="board: a\ntitle: A\nscore: {minimum: 0, maximum: 1}\nwrites: derived\n")
        )
    with pytest.raises(PolicyError, match="a rollup is a board of its own"):
        load_policies(folder(tmp_path, a=WORLD.replace("board:", "family:")))
