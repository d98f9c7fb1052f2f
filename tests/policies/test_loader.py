"""Policy files: a right one loads, a wrong one says where and what was expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policies.errors import PolicyError
from policies.loader import describes_board, load_board, load_boards
from tests.support.harness import POLICY


@pytest.fixture
def write(tmp_path: Path):
    module = tmp_path / "game.wasm"
    module.write_bytes(b"module")

    def write(*changes: tuple[str, str], name: str = "arcade.yaml") -> Path:
        text = POLICY.read_text().replace("../examples/arcade/arcade.wasm", "game.wasm")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def line_of(path: Path, start: str) -> int:
    return next(
        n for n, line in enumerate(path.read_text().splitlines(), 1) if line.strip().startswith(start)
    )


def test_the_bundled_policy_loads():
    """What comes with the product is right."""
    board = load_board(POLICY)
    assert "arcade" == board.name
    assert board.simulators["arcade-1"].digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("old", "new", "field", "start", "expected"),
    [
        ("order: descending", "order: down", "order", "order:", "`descending` or `ascending`"),
        ("  step: 10", "  step: 0", "score.step", "step:", "at least 1"),
        ("  step: 10", "  step: '10'", "score.step", "step:", "a whole number"),
        ("  step: 10", "  stepp: 10", "score.stepp", "stepp:", "unknown setting"),
        ("title: Perihelion", "titel: Perihelion", "title", "", "missing"),
        (
            "points_per_second: 1000",
            "points_per_second: .nan",
            "velocity.points_per_second",
            "points_",
            "finite",
        ),
        (
            "writes: verified",
            "writes: verifed",
            "writes",
            "writes:",
            "`verified`, `open`, `trusted` or `derived`",
        ),
        (
            "windows: [alltime, daily, weekly, monthly]",
            "windows: [alltime, hourly]",
            "windows.1",
            "windows:",
            "`daily`",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_line(write, old, new, field, start, expected):
    """File, line, field, and what was expected there."""
    path = write((old, new))
    with pytest.raises(PolicyError) as raised:
        load_board(path)
    lines = [line for line in str(raised.value).splitlines() if f" {field}: " in line]
    assert 1 == len(lines)
    assert f"{path}:{line_of(path, start) if start else 1}: " in lines[0]
    assert expected in lines[0]


def test_a_key_that_stands_twice_is_refused(write):
    """YAML 1.2 keys are unique; the second would silently win."""
    path = write(("order: descending", "order: descending\norder: ascending"))
    with pytest.raises(PolicyError, match=rf"{path}:\d+: found duplicate key"):
        load_board(path)


@pytest.mark.parametrize(
    "text",
    [
        "title: 2026-13-01",
        "title: \0",
        "title: !!int x",
        "title: !!bool x",
        f"title: {'9' * 5_000}",
        "a: " + "[" * 1_000,
    ],
    ids=["no-such-day", "control-character", "no-number", "no-truth", "endless-number", "endless-depth"],
)
def test_what_the_yaml_reader_trips_over_is_an_error_of_the_file(tmp_path, text):
    """A running part is asked to read whatever somebody saved: it is told what is wrong, and lives."""
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError, match=r"wrong\.yaml: not YAML"):
        load_board(path)


def test_values_are_yaml_1_2(write):
    """`no` is a word and not False."""
    assert "no" == load_board(write(("title: Perihelion", "title: no"))).policy.title


def test_a_missing_simulator_is_named(write):
    """The build and the path that was looked at."""
    path = write(("game.wasm", "gone.wasm"))
    expected = r"\.yaml:\d+: builds\.arcade-1\.simulator: expected a simulator: .*gone\.wasm"
    with pytest.raises(PolicyError, match=expected):
        load_board(path)


def test_a_verified_board_needs_a_replay(write):
    """A board cannot verify what it cannot replay."""
    text = POLICY.read_text()
    path = write()
    path.write_text(text[: text.index("replay:")])
    with pytest.raises(PolicyError, match="needs a `replay` section"):
        load_board(path)


def test_a_summing_board_has_bounds_that_sums_survive(write):
    """V10: a sum of allowed scores never leaves what SQL and a ZSET hold exactly."""
    path = write(("operator: best", "operator: sum"), ("maximum: 115400", "maximum: 9007199254740990"))
    with pytest.raises(PolicyError, match="operator: sum"):
        load_board(path)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("ranges: [500, 500]", "each score above the one before"),
        ("ranges: [500, 100]", "each score above the one before"),
        ("ranges: [0, 500]", "must be above 0 and at most 115400"),
        ("ranges: [500, 115401]", "must be above 0 and at most 115400"),
        (f"ranges: {list(range(1, 66))}", "at most 64 elements"),
        ("ranges: [1.5]", "a whole number"),
        ("ranges: [500]\nshards: 2", "in `shards` or in `ranges`, not in both"),
        ("shards: 2\ncold_after_h: 5", "stays in Redis"),
    ],
)
def test_ranges_rise_within_the_bounds_of_the_scores(write, settings, expected):
    """No range can be empty for ever, and a board is spread in one way."""
    with pytest.raises(PolicyError, match=re.escape(expected)):
        load_board(write(("order: descending", f"order: descending\n{settings}")))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("shards: 2\nranks: [unique, dense]", "keeps no dense ranks"),
        ("shards: 2\ncold_after_h: 1", "takes no `cold_after_h`"),
        ("shards: 2\nsegments: [club]", "keeps no `segments`"),
        ("exact_ranks: 100\nshards: 2", "has no `shards`, `ranges` or `segments`"),
        ("exact_ranks: 100\nranges: [500]", "has no `shards`, `ranges` or `segments`"),
        ("shards: 65", "at most 64"),
    ],
)
def test_ways_to_keep_a_board_that_do_not_go_together_are_refused(write, settings, expected):
    """Which two is said when the policy is loaded, not found out on the board."""
    with pytest.raises(PolicyError, match=re.escape(expected)):
        load_board(write(("order: descending", f"order: descending\n{settings}")))


def test_the_ends_of_the_bounds_may_be_ranges_of_their_own(write):
    """From just above the lowest score to the highest one itself."""
    board = load_board(write(("order: descending", "order: descending\nranges: [1, 115400]")))
    assert (-115_399, 0) == board.ranking.borders("alltime")


def test_two_files_cannot_describe_one_board(write):
    """Both files are named."""
    first = write(name="a.yaml")
    path = write(name="b.yaml")
    with pytest.raises(PolicyError, match=rf"b\.yaml: board 'arcade' is already described by {first}$"):
        load_boards(path.parent)


def test_a_board_is_looked_for_without_reading_the_others(write):
    """A wrong file beside it is no obstacle, and a mention in a comment is no board."""
    path = write(("board: arcade", "board: cup"))
    (path.parent / "wrong.yaml").write_text("[")
    (path.parent / "other.yaml").write_text("# not the arcade\nboard: coins\n")
    assert [True, False, True] == [describes_board(path.parent, name) for name in ("cup", "arcade", "coins")]


def test_an_empty_directory_is_refused(tmp_path):
    """No board at all is a mistake, not a deployment."""
    with pytest.raises(PolicyError, match="at least one policy file"):
        load_boards(tmp_path)


def test_the_digest_is_of_the_meaning(write):
    """Comments and order of keys change nothing; a number or the simulator's bytes do."""
    path = write()
    digest = load_board(path).digest
    assert digest == load_board(write(("# The bundled game.", "# Another comment."))).digest
    assert digest != load_board(write(("step: 10", "step: 5"))).digest
    write()
    (path.parent / "game.wasm").write_bytes(b"another module")
    assert digest != load_board(path).digest


def test_every_fault_of_a_file_is_told_in_the_order_of_its_lines(write):
    """Who mends a file goes through it from the top, whichever order the settings are checked in."""
    path = write(("  step: 10", "  step: 0"), ("order: descending", "order: down"))
    path.write_text("staleness_s: 99\nno_such_setting: 1\n" + path.read_text())
    with pytest.raises(PolicyError) as raised:
        load_board(path)
    lines = [int(line.removeprefix(f"{path}:").partition(":")[0]) for line in str(raised.value).splitlines()]
    assert (4, sorted(lines)) == (len(lines), lines)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("windows: [alltime, alltime]", ":4: windows: each window may be named once"),
        ("rules: [{name: a, rule: score > 1}, {name: a, rule: score > 2}]", ":4: rules: each rule needs"),
        ("segments: [eu]\nself_declared: [us]", ":5: self_declared: us is not among the segments"),
        ("windows: [season]", ":4: windows: a board with the window `season` needs"),
        ("season: 0 0 1 * *", ":4: season: a board with the window `season` needs"),
        ("segments: [eu]\nshards: 2", ":5: shards: a board with `shards` keeps no `segments`"),
        ("writes: verified", ":4: writes: a board with `writes: verified` needs a `replay` section"),
        ("verification: {share: 0.5}", ":4: verification: a `verification.share` below 1"),
    ],
)
def test_what_contradicts_another_setting_is_told_where_it_stands(tmp_path, settings: str, said: str):
    """Under the name and in the line of one of them; the value is not told, which may be all of the file."""
    path = tmp_path / "track.yaml"
    path.write_text(f"board: track\ntitle: Track\nscore: {{maximum: 5}}\n{settings}\n")
    with pytest.raises(PolicyError) as raised:
        load_board(path)
    assert f"{path}{said}" in str(raised.value)
    assert "given" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("board: track\ntitle Track\nwrites: trusted\n", 2),
        ("board: track\nstats:\n  coins: {}\n  gems\n  kills: {}\n", 4),
        ("board: track\ntitle: 'Track\nwrites: trusted\n", 2),
        ("board: track\n title: Track\n", 2),
    ],
)
def test_text_that_is_not_yaml_is_told_where_it_begins(tmp_path, text: str, line: int):
    """A colon that is missing is missing in its own line, however many follow."""
    path = tmp_path / "track.yaml"
    path.write_text(text)
    with pytest.raises(PolicyError, match=rf"^{path}:{line}: "):
        load_board(path)


def test_a_file_that_is_no_text_is_told_by_name(tmp_path):
    """A folder may hold whatever somebody saved there."""
    path = tmp_path / "wrong.yaml"
    path.write_bytes(b"title: \xff\xfe")
    with pytest.raises(PolicyError, match=r"wrong\.yaml: cannot be read: "):
        load_boards(tmp_path)
