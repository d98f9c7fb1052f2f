"""What `policy check` says of a board: what somebody answers for who has not read the policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policies.blind_spots import blind_spots_of
from policies.explanation import explanation
from policies.family import Family
from policies.judging import Modes
from policies.loader import Board, load_board, load_policies
from tests.support.game import BUILD
from tests.support.policies import a_family, a_policy, arcade_policy, write_policies

PLAYERS = (
    "a player has up to 5 open and sends 20 a minute (10 at once), an address 600 a minute (120 at once)"
)
SUMMED = {
    "operator": "sum",
    "order": "ascending",
    "decimals": 2,
    "windows": ["daily", "weekly"],
    "time_zone": "Europe/Berlin",
    "score": {"minimum": 5, "maximum": 105, "step": 10},
    "velocity": {},
    "limits": {},
    "anomaly": {},
    "segments": ["eu", "us"],
    "builds": {"b1": {"status": "blocked"}, "b2": {}},
}


def board(folder: Path, policy: dict[str, Any]) -> Board:
    return load_board(write_policies(folder, policy) / f"{policy['board']}.yaml")


def lines(folder: Path, policy: dict[str, Any]) -> list[tuple[str, str]]:
    """All lines but those of validators."""
    names = Modes.model_fields.keys()
    return [line for line in explanation(board(folder, policy), {}) if line[0] not in names]


def test_a_board_that_moderators_decide_on(tmp_path: Path):
    """Who writes, what counts, when, how often, by which clock; and each setting that no sentence tells."""
    assert [
        (
            "who writes",
            "players (without a replay: every run waits for a moderator) and registered game servers",
        ),
        (
            "a score",
            "5 to 105 in steps of 10, read with 2 decimals; the lowest is first; a player's scores are added up",
        ),
        ("windows", "daily, weekly, in Europe/Berlin"),
        ("ties", "who was first"),
        ("a run", f"is open for 3600 s; {PLAYERS}"),
        (
            "time",
            "is not checked: neither `replay` nor `velocity.points_per_second` says that ticks are time",
        ),
        ("builds", "b1 (blocked), b2 (allow)"),
        ("replay", "none"),
        ("held", "every run that is not rejected"),
        ("also", "segments: [eu, us]"),
    ] == lines(tmp_path, a_policy(**SUMMED))


LIMIT = "within ±9007199254740991"
ROLLUPS = {
    "best": (
        {"take": "best"},
        "the best of a player's standings on the boards of `track`",
        "one of a board of `track`, read with 3 decimals; the lowest is first, as there",
    ),
    "sum": (
        {},
        "the sum of a player's standings on the boards of `track`",
        (
            f"the sum, {LIMIT}, read with 3 decimals; the lowest is first, by `order` or else as on `track`; "
            "a player of fewer boards has a lower sum, and is ahead"
        ),
    ),
    "count": (
        {"take": "count"},
        "the number of boards on which a player stands, among those of `track`",
        "1 to the number of boards of `track`; the highest is first",
    ),
    "points": (
        {"take": "points", "points": [3, 1]},
        "the sum of the points for a player's ranks on the boards of `track` (3, 1)",
        "the points of all boards together; the highest is first",
    ),
    "percentiles": (
        {"take": "points", "percentiles": [{"at": 99.5, "points": 5}, {"at": 50, "points": 1}]},
        "the sum of the points for a player's percentiles on the boards of `track` (5 from 99.5, 1 from 50)",
        "the points of all boards together; the highest is first",
    ),
}


@pytest.mark.parametrize(("rollup", "takes", "score"), ROLLUPS.values(), ids=ROLLUPS)
def test_a_rollup_of_lap_times(tmp_path: Path, rollup: dict[str, Any], takes: str, score: str):
    """What it takes, and which scores are first, and why."""
    track = a_family(writes="trusted", order="ascending", decimals=3, score={"minimum": 0, "maximum": 9})
    world = {"board": "world", "title": "World", "rollup": {"family": "track", **rollup}}
    policy = load_policies(write_policies(tmp_path, track, world)).boards["world"]
    assert [
        ("who writes", "nobody: it follows from the boards of a family"),
        ("a rollup", takes),
        ("a score", score),
        ("windows", "alltime, in UTC"),
        ("ties", "who was first"),
    ] == list(explanation(policy, {}))


def test_a_board_that_servers_write_to(tmp_path: Path):
    """Nothing of runs, since there are none."""
    policy = {"board": "b", "title": "B", "writes": "trusted", "operator": "count", "joins": "required"}
    assert [
        ("who writes", "only registered game servers"),
        (
            "a score",
            "-9007199254740991 to 9007199254740991 in steps of 1; the highest is first; a player's runs are counted",
        ),
        ("windows", "alltime, in UTC"),
        ("ties", "who was first"),
        ("also", "joins: required"),
    ] == lines(tmp_path, policy)


def test_a_board_that_verifies_a_share(tmp_path: Path):
    """What a replay costs at most, which simulator plays it, and what escapes it."""
    policy = arcade_policy(
        verification={"share": 0.25, "top": 50, "beats_best_by": 7},
        tie_break="fields",
        tie_fields=[{"stat": "motes"}],
    )
    found = dict(lines(tmp_path, policy))
    digest = board(tmp_path, policy).simulators[BUILD].digest
    assert {
        "who writes": "players (a run counts once its replay gives the claim) and registered game servers",
        "ties": "the tie fields, then who was first",
        "time": (
            "60 ticks are a second of play; the longest run has 7200 (120 s); play may exceed our clock's time "
            "since the ticket by 2 s; a second gives up to 1000 points"
        ),
        "builds": f"{BUILD} (allow, {digest})",
        "replay": (
            "wasm, within 2000 ms, 4 MiB and 50000000 fuel; recordings of up to 65536 bytes with a checkpoint every 60 ticks"
        ),
        "verified": (
            "always what would enter the first 50 of a window, newcomers, and gains of more than 7 points; of the rest a "
            "share of 0.25, so n false runs are caught with the probability 1 - (1 - 0.25)^n: 1 with 25.0%, "
            "10 with 94.4%, 100 with 100.0%"
        ),
        "held": "runs that a validator flags, that could not be replayed, or whose build is provisional or blocked",
    }.items() <= found.items()


def test_a_board_that_packs_the_time(tmp_path: Path):
    """How well it tells times apart, in each window; and that no pace is too high where none is stated."""
    policy = a_policy(
        tie_break="composite",
        tie_resolution_ms=60_000,
        score={"minimum": 0, "maximum": 2**26},
        windows=["daily", "alltime"],
        velocity={"points_per_second": 50, "slack_s": 3},
    )
    found = dict(lines(tmp_path, policy))
    assert "who was first, told apart by 1 ms in daily, 18810 ms in alltime" == found["ties"]
    paced = "60 ticks are a second of play; play may exceed our clock's time since the ticket by 3 s"
    assert f"{paced}; a second gives up to 50 points" == found["time"]
    assert "any, since none is named" == found["builds"]
    replayed = dict(lines(tmp_path, arcade_policy(velocity={})))
    assert replayed["time"].endswith("; any number of points a second")
    ascending = dict(lines(tmp_path, arcade_policy(order="ascending")))
    assert ascending["time"].endswith("since the ticket by 2 s")


def test_what_each_validator_does_is_told_in_its_mode(tmp_path: Path):
    """What it looks for, what becomes of it, and why it has nothing to go by on this board."""
    told = dict(explanation(board(tmp_path, a_policy(**SUMMED)), {"bounds": "A score.", "drift": "Bests."}))
    untimed = " Does not run here: the policy does not say how long a tick is."
    assert {
        "bounds": "reject: a run with a finding is rejected. A score.",
        "velocity": "reject: a run with a finding is rejected. Finds nothing here: `velocity.points_per_second` is not stated.",
        "clock": f"reject: a run with a finding is rejected.{untimed}",
        "slow_motion": f"shadow: its findings are recorded, without effect.{untimed}",
        "delay": f"off: it does not run.{untimed}",
        "anomaly": "flag: a run with a finding waits for a moderator. The spread of scores counts as at least 1 points.",
        "drift": "flag: a run with a finding waits for a moderator. Bests.",
        "probing": "shadow: its findings are recorded, without effect.",
    }.items() <= told.items()
    assert Modes.model_fields.keys() <= told.keys()


def test_validators_of_time_run_where_a_tick_is_told(tmp_path: Path):
    """By a replay, or by the points that a second gives."""
    paced = a_policy(**SUMMED | {"velocity": {"points_per_second": 100}})
    for policy in (arcade_policy(), paced):
        told = dict(explanation(board(tmp_path, policy), {}))
        assert "reject: a run with a finding is rejected." == told["clock"]
        assert "shadow: its findings are recorded, without effect." == told["slow_motion"]


def test_settings_that_are_off_or_zero_are_told(tmp_path: Path):
    """Where that is not the default: recordings are kept for ever, and nobody is audited, because somebody said so."""
    policy = arcade_policy(
        recordings={"refused_days": None},
        verification={"audit": {"share": 0, "least": 0}},
        drift={"slack": 0},
        anomaly={"prior": {"mean": 0, "spread": 5}},
    )
    also = [what for about, what in lines(tmp_path, policy) if about == "also"]
    assert {
        "recordings.refused_days: not set",
        "verification.audit.share: 0.0",
        "verification.audit.least: 0",
        "drift.slack: 0.0",
        "anomaly.prior.mean: 0.0",
    } <= set(also)
    assert not any(each.startswith(("stats", "plugins", "rules", "details")) for each in also)


INVENTED, SERVER, HUMAN = "an invented score", "a server that lies", "who played"
NEWCOMER, FAST, LONG = (
    "an unusual newcomer, until 50 runs",
    "a score that came too fast",
    "how long a run lasted",
)
PRIOR = {"anomaly": {"prior": {"mean": 5, "spread": 2}}}


@pytest.mark.parametrize(
    ("policy", "gaps"),
    [
        (a_policy(velocity={}, anomaly={}), [INVENTED, FAST, LONG, NEWCOMER]),
        (a_policy(velocity={}, order="ascending", **PRIOR), [INVENTED, LONG]),
        (a_policy(velocity={"points_per_second": 5}, **PRIOR), [INVENTED]),
        (a_policy(velocity={"points_per_second": 5}, anomaly={}, validators={"anomaly": "off"}), [INVENTED]),
        (a_policy(writes="trusted"), [SERVER]),
        (arcade_policy(), [HUMAN]),
        (arcade_policy(anomaly={}), [HUMAN, NEWCOMER]),
    ],
)
def test_what_a_board_cannot_notice_is_told(tmp_path: Path, policy: dict[str, Any], gaps: list[str]):
    """Each gap by the setting that would close it, and none that is closed."""
    found = list(blind_spots_of(board(tmp_path, policy).policy))
    assert gaps == [gap for gap in gaps if any(each.startswith(gap) for each in found)]
    assert len(gaps) == len(found)


FAMILY = {
    "family": "track",
    "title": "Tracks",
    "score": {"maximum": 9},
    "seed": "board",
    "validators": {"similarity": "flag"},
}
SERVERS_OPEN = [
    ("boards", "track.<name>, any number; a name is any 1 to 64 of A-Z a-z 0-9 _ -"),
    ("opened by", "registered game servers"),
    ("deleted", "the name of a deleted board stays taken"),
]
HOURLY = "in an hour a player opens up to 10, an address 50, all players 7, and no more than 100000 ever"
KEY = "WjPKkl6R+EyaCgmqVa/Yd49OqEdthEb4xqhGyVGRY8A="
ANY_OPEN = [
    ("boards", "track.<name>, any number; a name is one of 6: a, b, c, d, e, …"),
    (
        "opened by",
        f"registered game servers, and the first run of a player; {HOURLY}",
    ),
    ("listed by", "name, time, use, and the metadata laps (integer), biome (text)"),
    ("deleted", "the name of a deleted board may be opened again"),
]


def told_of_family(folder: Path, **changes: Any) -> tuple[list[tuple[str, str]], Family]:
    """What `policy check` says of a family and its seeds."""
    (folder / "track.yaml").write_text(json.dumps(FAMILY | changes))
    family = load_policies(folder).families["track"]
    subjects = {"boards", "opened by", "listed by", "deleted", "seeds", "also"}
    return [line for line in explanation(family, {}) if line[0] in subjects], family


def test_a_family_says_how_boards_come_to_be(tmp_path: Path):
    """How they are named, who opens them and how many, what lists know, and that their seed is one."""
    one_seed = (
        "seeds",
        "all runs have the board's, so everyone plays one course, and a stolen recording replays",
    )
    changes = {
        "names": list("abcdef"),
        "opened_by": "both",
        "opening": {"per_hour": 7},
        "metadata_filters": {"laps": "integer", "biome": "text"},
        "names_free_after_delete": True,
    }
    few, family = told_of_family(tmp_path)
    many, _ = told_of_family(tmp_path, **changes)
    pattern, _ = told_of_family(tmp_path, names="[a-z]+", seed="run")
    five, _ = told_of_family(tmp_path, names=list("abcde"))

    assert [[*SERVERS_OPEN, one_seed], [*ANY_OPEN, one_seed]] == [few, many]
    assert ("boards", "track.<name>, any number; a name matches [a-z]+") == pattern[0]
    assert ("boards", "track.<name>, any number; a name is one of 5: a, b, c, d, e") == five[0]
    assert "seeds" not in dict(pattern)
    assert any(gap.startswith("a course that was practised: ") for gap in blind_spots_of(family.policy))


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({"names": "[a-z]+", "opened_by": "players"}, True),
        ({"names": "[a-z]+", "opened_by": "players", "opening": {"signed_by": [KEY]}}, False),
        ({"names": ["a"], "opened_by": "players"}, False),
        ({"names": "[a-z]+"}, False),
    ],
)
def test_names_that_players_make_up_are_a_blind_spot(
    tmp_path: Path, changes: dict[str, Any], *, is_told: bool
):
    """A pattern alone tells no real map from an invented one."""
    lines, family = told_of_family(tmp_path, **changes)
    assert is_told == any(gap.startswith("a board that no map") for gap in blind_spots_of(family.policy))
    assert ("signed_by" in str(changes)) == dict(lines)["opened by"].endswith("; the studio signs the names")
