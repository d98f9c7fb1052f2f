"""What a policy says that cannot be kept is refused as it is read, in words that name it; what is just beside it is taken."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from policies.defaults import SUM_LIMIT
from policies.errors import SettingRefused
from policies.model import Policy
from tests.support.policies import EXACT_LIMIT, a_policy, arcade_policy

SMALL = {"minimum": 0, "maximum": 1000}
FIELDS = [{"stat": "coins"}]
PROGRAM = {"simulator": "process", "maximum_ticks": 100}
LOG = {"transform": "log", "prior": {"mean": 5, "spread": 1}}
COMPOSITE = {"tie_break": "composite", "tie_resolution_ms": 60_000, "score": SMALL}


def refused(policy: dict[str, Any]) -> str | None:
    """Why the policy is refused; None if it is taken."""
    try:
        Policy.model_validate(policy)
    except ValidationError as error:
        return "; ".join(each["msg"] for each in error.errors())
    return None


OPEN = [
    (
        {"score": {"minimum": 5, "maximum": 6}},
        {"score": {"minimum": 5, "maximum": 5}},
        "minimum must be below maximum",
    ),
    (
        {"stats": {"coins": {"minimum": 5, "maximum": 5}}},
        {"stats": {"coins": {"minimum": 6, "maximum": 5}}},
        "minimum must not be above maximum",
    ),
    ({"windows": ["daily", "alltime"]}, {"windows": ["daily", "daily"]}, "each window may be named once"),
    ({"ranks": ["dense", "unique"]}, {"ranks": ["dense", "dense"]}, "each kind of rank may be named once"),
    ({"segments": ["eu", "us"]}, {"segments": ["eu", "eu"]}, "each segment may be named once"),
    (
        {"segments": ["eu", "us"], "self_declared": ["us"]},
        {"segments": ["eu"], "self_declared": ["us"]},
        "us is not among the segments",
    ),
    ({"shards": 2, "ranks": ["unique", "sparse"]}, {"shards": 2, "ranks": ["dense"]}, "keeps no dense ranks"),
    ({"shards": 1, "cold_after_h": 5}, {"shards": 2, "cold_after_h": 5}, "stays in Redis"),
    ({"shards": 1, "segments": ["eu"]}, {"shards": 2, "segments": ["eu"]}, "keeps no `segments`"),
    ({"exact_ranks": 10}, {"exact_ranks": 10, "shards": 2}, "a board with `exact_ranks` has no `shards`"),
    ({"shards": 2}, {"exact_ranks": 10, "ranges": [5]}, "a board with `exact_ranks` has no `shards`"),
    (
        {"segments": ["eu"]},
        {"exact_ranks": 10, "segments": ["eu"]},
        "a board with `exact_ranks` has no `shards`",
    ),
    ({"ranges": [5, 6]}, {"ranges": [5], "shards": 2}, "in `shards` or in `ranges`, not in both"),
    ({"ranges": [1, 2]}, {"ranges": [2, 2]}, "each score above the one before it"),
    ({"ranges": [1, EXACT_LIMIT]}, {"ranges": [0, 5]}, "`ranges` must be above 0"),
    ({"ranges": [1000], "score": SMALL}, {"ranges": [1001], "score": SMALL}, "at most 1000"),
    (
        {"ranges": [0, 1001], "score": SMALL, "operator": "sum"},
        {"ranges": [1001], "score": SMALL, "operator": "latest"},
        "at most 1000",
    ),
    (
        {"season": "0 10 1 */3 *", "windows": ["season"]},
        {"season": "0 10 1 */3 *", "windows": ["daily"]},
        "a board with the window `season` needs",
    ),
    ({"windows": ["alltime"]}, {"windows": ["season"]}, "a board with the window `season` needs"),
    (
        {"season": "0 0 * * *", "windows": ["season"]},
        {"season": "0 */12 * * *", "windows": ["season"]},
        "a season must last a day or longer",
    ),
    (
        {"season": "0 0 1 * *", "windows": ["season"]},
        {"season": "every month", "windows": ["season"]},
        "expected a cron expression of five fields",
    ),
    (
        {"season": "0 0 1 * *", "windows": ["season"]},
        {"season": "0 0 0 1 * *", "windows": ["season"]},
        "expected a cron expression of five fields",
    ),
    (
        {"season": "0 0 29 2 *", "windows": ["season"]},
        {"season": "0 0 31 2 *", "windows": ["season"]},
        "none of its months has this day",
    ),
    (
        {"season": "0 0 31 1 *", "windows": ["season"]},
        {"season": "0 0 32 1 *", "windows": ["season"]},
        "expected a cron expression of five fields",
    ),
    ({"time_zone": "Europe/Berlin"}, {"time_zone": "Europe/Nowhere"}, "expected a time zone such as"),
    ({"time_zone": "UTC"}, {"time_zone": "../etc/passwd"}, "expected a time zone such as"),
    (
        {"operator": "sum", "score": {"minimum": -SUM_LIMIT, "maximum": SUM_LIMIT}},
        {"operator": "sum", "score": {"minimum": 0, "maximum": SUM_LIMIT + 1}},
        "needs score bounds within",
    ),
    (
        {"operator": "best", "score": {"minimum": -SUM_LIMIT - 1, "maximum": 0}},
        {"operator": "sum", "score": {"minimum": -SUM_LIMIT - 1, "maximum": 0}},
        "needs score bounds within",
    ),
    (
        {"operator": "sum", "score": SMALL, "validators": {"bounds": "reject"}},
        {"operator": "sum", "score": SMALL, "validators": {"bounds": "flag"}},
        "needs `validators.bounds: reject`",
    ),
    (
        {"operator": "sum", "score": SMALL, "staleness_s": 5.0},
        {"operator": "count", "score": SMALL, "staleness_s": 5.0},
        "`staleness_s` applies to increments",
    ),
    ({"tie_break": "fields", "tie_fields": FIELDS}, {"tie_break": "fields"}, "`tie_fields` belong to"),
    ({"tie_break": "first"}, {"tie_break": "first", "tie_fields": FIELDS}, "`tie_fields` belong to"),
    (COMPOSITE, {**COMPOSITE, "tie_resolution_ms": None}, "`tie_resolution_ms` belongs to"),
    ({"tie_break": "first"}, {"tie_resolution_ms": 5}, "`tie_resolution_ms` belongs to"),
    (COMPOSITE | {"operator": "latest"}, COMPOSITE | {"operator": "sum"}, "which sums and counts are not"),
    (COMPOSITE, COMPOSITE | {"operator": "count"}, "which sums and counts are not"),
    (
        COMPOSITE | {"tie_resolution_ms": 3_600_000, "score": {"minimum": 0, "maximum": 2**31}},
        COMPOSITE | {"score": {"minimum": -EXACT_LIMIT, "maximum": EXACT_LIMIT}},
        "leave room for the time",
    ),
    (
        COMPOSITE | {"tie_resolution_ms": 1},
        COMPOSITE | {"tie_resolution_ms": 1, "score": {"maximum": 2**40}},
        "slots of ",
    ),
    ({"anomaly": LOG}, {"anomaly": LOG | {"prior": {"mean": -0.5, "spread": 1}}}, "at 0 or above"),
    (
        {"anomaly": LOG, "score": SMALL},
        {"anomaly": LOG, "score": {"minimum": -1, "maximum": 1000}},
        "at 0 or above",
    ),
    (
        {"anomaly": {"transform": "rank", "threshold": 2.0, "minimum_history": 32}},
        {"anomaly": {"transform": "rank", "threshold": 2.0, "minimum_history": 8}},
        "scores that `minimum_history` requires",
    ),
    (
        {"anomaly": {"transform": "rank", "threshold": 2.0, "minimum_history": 999}},
        {"anomaly": {"transform": "rank", "threshold": 2.2, "minimum_history": 999}},
        "`transform: rank` reaches at most 2.08 among the 32 scores that `minimum_history` requires",
    ),
    (
        {"anomaly": {"transform": "rank", "threshold": 2.0, "minimum_history": 32, "minimum_population": 50}},
        {"anomaly": {"transform": "rank", "threshold": 2.0, "minimum_history": 32, "minimum_population": 5}},
        "scores that `minimum_population` requires",
    ),
    (
        {"rules": [{"name": "a", "rule": "score > 1"}, {"name": "b", "rule": "score > 2"}]},
        {"rules": [{"name": "a", "rule": "score > 1"}, {"name": "a", "rule": "score > 2"}]},
        "each rule needs a unique name",
    ),
    (
        {"verification": {"share": 1.0}},
        {"verification": {"share": 0.5}},
        "a `verification.share` below 1 is for boards with",
    ),
    ({}, {"verification": {"reveal_s": 3600}}, "`verification.reveal_s` is for boards with"),
    ({"builds": {"b": {}}}, {"builds": {"b": {"simulator": "x.wasm"}}}, "need each other"),
    ({}, {"replay": {"maximum_ticks": 5}}, "needs `builds`"),
]
"""Boards without a replay: what is taken, what is not, and why."""


@pytest.mark.parametrize(("taken", "other", "words"), OPEN)
def test_what_does_not_go_together_is_refused(taken: dict[str, Any], other: dict[str, Any], words: str):
    """Each by the sentence that says what to do; its neighbour, which can be kept, is taken."""
    assert None is refused(a_policy(**taken))
    assert words in str(refused(a_policy(**other)))


REPLAYED = [
    (
        {"recording": "raw"},
        {"recording": "raw", "simulator": "wasm"},
        "`recording: raw` needs `simulator: process`",
    ),
    (
        {"recording": "raw", "simulator": "plugin"},
        {"recording": "raw", "simulator": "wasm"},
        "a module takes input words",
    ),
    ({"stats": ["a", "b"]}, {"stats": ["a", "a"]}, "`stats` names a statistic twice"),
    (
        {"runs_per_process": 5},
        {"runs_per_process": 5, "simulator": "wasm"},
        "it applies to `simulator: process` or `plugin`",
    ),
    ({"files": ["a.pak"]}, {"files": ["a.pak"], "simulator": "plugin"}, "`files` need `simulator: process`"),
    ({"files": ["a/x.pak", "y.pak"]}, {"files": ["a/x.pak", "b/x.pak"]}, "have the same name"),
    ({"files": ["a/.hidden"]}, {"files": ["a/.."]}, "has no name, and the program sees only names"),
]


@pytest.mark.parametrize(("taken", "other", "words"), REPLAYED)
def test_what_a_simulator_cannot_do_is_refused(taken: dict[str, Any], other: dict[str, Any], words: str):
    """By the simulator's kind, and by what a program sees of its files."""
    for changes, expected in ((taken, None), (other, words)):
        found = refused(
            a_policy(writes="verified", replay=PROGRAM | changes, builds={"b": {"simulator": "x"}})
        )
        assert (expected is None) is (found is None), found
        assert expected is None or expected in str(found)


def test_a_board_that_is_replayed_has_the_statistics_of_its_replay():
    """Those that it bounds are among them, and every claim has them."""
    replay = {"maximum_ticks": 100, "stats": ["coins"]}
    board = {"writes": "verified", "replay": replay, "builds": {"b": {"simulator": "x"}}}
    assert None is refused(a_policy(**board, stats={"coins": {"maximum": 5}}))
    for stats in ({"kills": {"maximum": 5}}, {"coins": {"maximum": 5, "required": False}}):
        assert "a statistic must be in `replay.stats`" in str(refused(a_policy(**board, stats=stats)))


def test_a_rule_is_tried_on_statistics_below_zero():
    """Where the policy bounds them not, a claim may have them."""
    replay = {"maximum_ticks": 100, "stats": ["coins"]}
    rules = {"rules": [{"name": "a", "rule": "stats.coins < 0 ? 1 : true"}]}
    board = {"writes": "verified", "replay": replay, "builds": {"b": {"simulator": "x"}}, **rules}
    assert "a rule must be true or false" in str(refused(a_policy(**board)))
    assert None is refused(a_policy(**board, stats={"coins": {"maximum": 5}}))


@pytest.mark.parametrize("operator", ["latest", "sum"])
def test_only_a_board_of_bests_can_spare_a_share_of_its_replays(operator: str):
    """Elsewhere every run counts, also the one that nobody looked at."""
    replay = {"maximum_ticks": 100}
    share = {"verification": {"share": 0.5}, "score": SMALL}
    board = {"writes": "verified", "replay": replay, "builds": {"b": {"simulator": "x"}}, **share}
    assert None is refused(a_policy(**board))
    assert "a `verification.share` below 1" in str(refused(a_policy(**board, operator=operator)))


def test_who_writes_follows_from_the_rest():
    """Without a replay nothing is proved, so a moderator decides; where servers write alone, scores need no bounds."""
    board = {"board": "b", "title": "B"}
    score = {"score": {"maximum": 10}}
    assert "open" == Policy.model_validate(board | score).writes.value
    assert "verified" == Policy.model_validate(arcade_policy() | {"writes": "verified"}).writes.value
    assert "needs a `replay` section" in str(refused(board | score | {"writes": "verified"}))
    trusted = Policy.model_validate(board | {"writes": "trusted"}).score
    summed = Policy.model_validate(board | {"writes": "trusted", "operator": "sum"}).score
    assert [(-EXACT_LIMIT, EXACT_LIMIT), (-SUM_LIMIT, SUM_LIMIT)] == [
        (each.minimum, each.maximum) for each in (trusted, summed)
    ]
    assert None is not refused(board | {"writes": "open"})
    assert 2**40 == SUM_LIMIT


@pytest.mark.parametrize(
    ("changes", "floor"),
    [
        ({"score": {"maximum": 1000}}, 10.0),
        ({"score": {"minimum": -500, "maximum": 500}}, 10.0),
        ({"score": {"maximum": 10}}, 1.0),
        ({"score": {"maximum": 1000}, "anomaly": {"spread_floor": 0.25}}, 0.25),
    ],
)
def test_scores_are_taken_to_spread_by_a_hundredth_of_their_range(changes: dict[str, Any], floor: float):
    """And by a point at least, unless the policy says by how much."""
    policy = Policy.model_validate({"board": "b", "title": "B"} | changes)
    assert floor == policy.spread_floor


@pytest.mark.parametrize(("exact", "most"), [(None, None), (10, 110), (1_000, 1_100), (5_000, 5_500)])
def test_a_board_of_exact_ranks_keeps_some_to_lose(exact: int | None, most: int | None):
    """A tenth more, and a hundred at least: each loss would otherwise be looked for in the ledger."""
    assert most == Policy.model_validate(a_policy(exact_ranks=exact)).most_entries


def test_a_setting_that_is_refused_says_why_in_words_and_where_beside_them():
    """The words are all that a person reads; the place names the line of the file."""
    refused = SettingRefused("`files` need a program", "replay", "files")
    assert ("`files` need a program", ("replay", "files")) == (str(refused), refused.location)
