"""Places on a board: what they sort by, what is read out of them again, and which rule they are of."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.choices import WindowKind
from policies.ranking import BoardPlace, Ranking, ReachedScore, player_at
from policies.ties import COMPOSITE_BEGIN_MS, COMPOSITE_SPANS_MS
from policies.vocabulary import SCORE_LIMIT
from policies.windows import window_at
from tests.support.policies import a_ranking

NOON_MS = 1_763_640_000_000
RESOLUTION_MS = 60_000
SCORES = {"minimum": -1_000, "maximum": 1_000}
COMPOSITE = {"tie_break": "composite", "tie_resolution_ms": RESOLUTION_MS, "score": SCORES}
FIELDS = {
    "tie_break": "fields",
    "tie_fields": [{"stat": "kills"}, {"stat": "deaths", "order": "ascending"}],
}


class Run(NamedTuple):
    """A run that reached a place."""

    score: int
    at_ms: int
    seq: int
    kills: int
    deaths: int


RUNS = st.builds(
    Run,
    st.integers(-2, 2) | st.sampled_from([-1_000, 1_000]),
    st.sampled_from([0, 1, NOON_MS, NOON_MS + 1, NOON_MS + RESOLUTION_MS, 2**48 - 1]),
    st.sampled_from([1, 9, 10, 2**16, 2**36]),
    st.integers(-1, 1),
    st.integers(-1, 1),
)


def a_board(tie_break: str, order: str, **changes: Any) -> Ranking:
    """A board that breaks ties so, of scores from -1,000 to 1,000."""
    kinds: dict[str, dict[str, Any]] = {"first": {}, "fields": FIELDS, "composite": COMPOSITE}
    return a_ranking(**({"order": order, "score": SCORES} | kinds[tie_break] | changes))


def place_of(ranking: Ranking, run: Run, player: str = "ada") -> BoardPlace:
    ties = ranking.ties({"kills": run.kills, "deaths": run.deaths})
    window = window_at(ranking.policy, WindowKind.ALLTIME, run.at_ms)
    return ranking.place(window, player, ReachedScore(run.score, run.at_ms, run.seq, "s", ties))


def ahead(ranking: Ranking, run: Run) -> tuple[int, ...]:
    """What the reference says a place is sorted by, the lower the better."""
    score = run.score if ranking.policy.order.value == "ascending" else -run.score
    if ranking.policy.tie_break.value == "composite":
        return (score, max(0, run.at_ms - COMPOSITE_BEGIN_MS) // ranking.resolutions_ms[WindowKind.ALLTIME])
    fields = (-run.kills, run.deaths) if ranking.policy.tie_break.value == "fields" else ()
    return (score, *fields, run.at_ms, run.seq)


BOARDS = [
    a_board(tie_break, order)
    for tie_break in ("first", "fields", "composite")
    for order in ("ascending", "descending")
]


@settings(deadline=None)
@given(st.sampled_from(BOARDS), RUNS, RUNS)
def test_places_sort_as_the_reference_says(ranking: Ranking, one: Run, other: Run):
    """By score, then tie fields, then time and number; two runs that are tied lie between the ends of one group."""
    place, second = place_of(ranking, one), place_of(ranking, other)
    assert (ahead(ranking, one) < ahead(ranking, other)) == (place < second)
    fields = ranking.policy.tie_break.value == "fields"
    is_tied = one[0] == other[0] and (not fields or one[3:] == other[3:])
    begin, end = ranking.group_begin("alltime", place), ranking.group_end("alltime", place)
    assert is_tied == (begin <= second < end)
    assert is_tied == (ranking.group("alltime", place) == ranking.group("alltime", second))
    assert is_tied == (begin == ranking.group_begin("alltime", second))


@settings(deadline=None)
@given(st.sampled_from(BOARDS), RUNS)
def test_a_place_gives_its_score_and_its_time_back(ranking: Ranking, run: Run):
    """Exactly, and where the time is packed beside the score, to the beginning of its slot; readers see that time everywhere."""
    place = place_of(ranking, run)
    shown_ms = run.at_ms
    if ranking.policy.tie_break.value == "composite":
        slot_ms = ranking.resolutions_ms[WindowKind.ALLTIME]
        slot = min(max(0, run.at_ms - COMPOSITE_BEGIN_MS) // slot_ms, ranking.orders_per_score("alltime") - 1)
        shown_ms = COMPOSITE_BEGIN_MS + slot * slot_ms
    else:
        assert "ada" == player_at(place.member)
    assert run.score == ranking.score_at("alltime", place.order)
    assert shown_ms == ranking.achieved_at_ms("alltime", place)
    if run.at_ms <= NOON_MS + RESOLUTION_MS:
        assert shown_ms == ranking.shown_at_ms("alltime", run.at_ms)
    lowest = ranking.order_from("alltime", run.score)
    assert lowest <= place.order < lowest + ranking.orders_per_score("alltime")


@pytest.mark.parametrize("ranking", BOARDS, ids=lambda each: f"{each.policy.tie_break}-{each.policy.order}")
def test_an_order_is_within_what_a_set_holds_however_far_off_the_score_is(ranking: Ranking):
    """Readers may ask from any score: no answer is beyond a double's exact integers, nor puts one score before another."""
    orders = [ranking.order_from("alltime", score) for score in (-SCORE_LIMIT, -1_000, 1_000, SCORE_LIMIT)]
    assert orders in (sorted(orders), sorted(orders, reverse=True))
    assert all(-SCORE_LIMIT <= order <= SCORE_LIMIT + 1 for order in orders)


def test_beyond_the_highest_order_there_is_room_for_one():
    """The worst possible score has an order of its own, which is not that of the nearest one before it."""
    ranking = a_ranking(order="ascending")
    assert [SCORE_LIMIT, SCORE_LIMIT + 1] == [
        ranking.order_from("alltime", score) for score in (SCORE_LIMIT, SCORE_LIMIT + 1)
    ]


@pytest.mark.parametrize("tie_break", ["first", "composite"])
@pytest.mark.parametrize(("order", "parts"), [("ascending", [1, 2, 2, 3]), ("descending", [3, 2, 2, 1])])
def test_a_score_in_ranges_belongs_to_the_upper_of_its_two(tie_break: str, order: str, parts: list[int]):
    """Which is the later one where low scores are first, and the earlier one where high ones are."""
    ranking = a_board(tie_break, order, ranges=[0, 500])
    borders = ranking.borders("alltime")
    found = [
        1 + sum(place_of(ranking, Run(score, NOON_MS, 1, 0, 0)).order >= border for border in borders)
        for score in (-1, 0, 499, 500)
    ]
    assert (list(borders), parts) == (sorted(borders), found)


def test_the_slots_of_a_window_cover_all_of_it():
    """The last moment of the longest window has a slot of its own kind, beside that of the moment before it."""
    scores = {"minimum": 0, "maximum": 2**40}
    ranking = a_ranking(tie_break="composite", tie_resolution_ms=11_000, score=scores, windows=["daily"])
    span_ms, slot_ms = COMPOSITE_SPANS_MS[WindowKind.DAILY], ranking.resolutions_ms[WindowKind.DAILY]
    slots = ranking.orders_per_score("daily:20261120")
    assert (slots - 1) * slot_ms < span_ms <= slots * slot_ms


def test_a_composite_place_of_a_day_counts_from_its_beginning():
    """Or from that of all slots where the day was before it: what was reached earlier shares the first slot."""
    ranking = a_ranking(**COMPOSITE, windows=["daily", "alltime"])
    day = window_at(ranking.policy, WindowKind.DAILY, NOON_MS)
    late = ranking.place(day, "ada", ReachedScore(5, day.begin_ms + 90_000_000 - 1, 1, "s"))
    early = ranking.place(day, "ada", ReachedScore(5, day.begin_ms, 1, "s"))
    before = ranking.place(day, "ada", ReachedScore(5, day.begin_ms - 5, 1, "s"))
    slot_ms = ranking.resolutions_ms[WindowKind.DAILY]
    assert (
        day.begin_ms
        == ranking.achieved_at_ms(day.name, early)
        == ranking.shown_at_ms(day.name, day.begin_ms - 5)
    )
    assert early == before
    assert (90_000_000 - 1) // slot_ms == late.order - early.order


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_what_is_out_of_bounds_has_the_place_of_the_nearest_that_is_not(order: str):
    """Bounds may be in shadow and narrowed later: no place is outside of what a double and the widths of fields hold."""
    composite, fields = a_board("composite", order), a_board("fields", order)
    far = [place_of(composite, Run(score, NOON_MS, 1, 0, 0)) for score in (-SCORE_LIMIT, SCORE_LIMIT)]
    assert [-1_000, 1_000] == [composite.score_at("alltime", place.order) for place in far]
    for sign in (1, -1):
        beyond, nearest = ({"kills": sign * size, "deaths": sign * size} for size in (2**60, SCORE_LIMIT))
        assert fields.ties(nearest) == fields.ties(beyond)


def test_players_are_read_out_of_members_to_the_last_sign():
    """The tie fields and the time before them are hex digits; a composite member is the player alone."""
    assert ["ada", "ada", ""] == [player_at(each) for each in ("0f:ada", "ada", "0f:")]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (ReachedScore(2, 9, 9, "s", "b"), ReachedScore(1, 1, 1, "s", "a")),
        (ReachedScore(1, 9, 9, "s", "a"), ReachedScore(1, 1, 1, "s", "b")),
        (ReachedScore(1, 1, 9, "s", "a"), ReachedScore(1, 2, 1, "s", "a")),
        (ReachedScore(1, 1, 1, "s", "a"), ReachedScore(1, 1, 2, "s", "a")),
    ],
    ids=["score", "ties", "time", "number"],
)
def test_a_players_best_is_decided_as_a_place_is(better: ReachedScore, worse: ReachedScore):
    """By the score, the tie fields, the time and the number, in that order, whichever came first."""
    ranking = a_ranking()
    assert [better, better] == [ranking.standing([better, worse]), ranking.standing([worse, better])]
    assert None is ranking.standing([])


def test_whatever_moves_a_place_changes_the_rule():
    """Places of two rules never meet in one set; what moves none keeps the rule, so that nothing is folded again."""
    changes: list[dict[str, Any]] = [
        {},
        {"order": "ascending"},
        {"operator": "latest"},
        {"operator": "count"},
        FIELDS,
        FIELDS | {"tie_fields": FIELDS["tie_fields"][:1]},
        FIELDS | {"tie_fields": FIELDS["tie_fields"][::-1]},
        FIELDS | {"tie_fields": [{"stat": "coins"}, *FIELDS["tie_fields"][1:]]},
        COMPOSITE,
        COMPOSITE | {"tie_resolution_ms": 30_000},
        COMPOSITE | {"score": {"minimum": -1_000, "maximum": 999}},
        COMPOSITE | {"score": {"minimum": -999, "maximum": 1_000}},
    ]
    rules = [a_ranking(**({"score": SCORES} | each)).rule for each in changes]
    assert [] == [
        (one, other) for one, other in combinations(range(len(rules)), 2) if rules[one] == rules[other]
    ]
    assert rules[0] == a_ranking(score={"minimum": 0, "maximum": 7}, ranks=["dense"]).rule


def test_the_rule_of_each_tie_break_is_the_one_that_is_stored():
    """Boards in service were folded under these; another name for the same places would fold each of them again."""
    assert ["968900aedfc3", "09c3a8067ed6", "084c19a7b846"] == [
        a_board(each, "descending").rule for each in ("first", "fields", "composite")
    ]


@pytest.mark.parametrize(
    ("ranks", "keeps"), [(["dense"], True), (["sparse", "dense"], True), (["unique"], False)]
)
def test_only_dense_ranks_need_the_groups(ranks: list[str], keeps: bool):
    """Another board pays for no second set."""
    assert keeps is a_ranking(ranks=ranks).keeps_groups
