"""Trending now: who played and who improved most, within a stated error, of a sliding time."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from gateway.catalogue.catalogue import Catalogue
from gateway.derived import trends
from gateway.derived.followers import LogFollower
from gateway.derived.frequency_sketch import FrequencySketch
from gateway.derived.trends import KEPT_MS, Span, TrendKind, Trends, trend_of
from gateway.ledger.derived.trends import TrendSlot, forget, put_sketches
from policies.loader import load_policies
from policies.vocabulary import Reason, State
from tests.support.derived import catch_up
from tests.support.families import write_family
from tests.support.ledger import new_submission


async def leaders(stage, kind: TrendKind, span: Span = Span.HOUR) -> list[tuple[str, int]]:
    """Players with their weights, where those are exact."""
    found = await trend_of(stage.ledger, "tiny", kind, span, now_ms=stage.clock(), count=10)
    assert all(each.at_least == each.at_most for each in found.leaders)
    return [(each.item, each.at_most) for each in found.leaders]


async def test_most_played_counts_every_submission(stage):
    """Whatever became of it."""
    for player, times in (("ada", 3), ("bob", 5), ("cy", 1)):
        for _ in range(times):
            await stage.receive(player)
    await catch_up(stage.derivations())
    assert [("bob", 5), ("ada", 3), ("cy", 1)] == await leaders(stage, TrendKind.PLAYED)


@pytest.mark.parametrize(
    ("policy", "sign"), [({}, 1), ({"order": "ascending"}, -1)], ids=["descending", "ascending"]
)
async def test_most_improved_is_what_was_gained_on_ones_best(stage, policy, sign):
    """Not what a first score is worth, nor a worse one, nor one that is let count again."""
    base = 500_000
    for player, scores in (("bob", (400_000, 400_001)), ("cy", (7,)), ("ada", (0, 10, 5, 30))):
        for score in scores:
            last = await stage.score(player, base + sign * score)
    for taken_back in (State.REVOKED, State.HELD):
        await stage.decide(last, taken_back)
        await stage.decide(last)
    await catch_up(stage.derivations())
    assert [("ada", 30), ("bob", 1)] == await leaders(stage, TrendKind.IMPROVED)


async def test_what_counted_unverified_has_improved_once(stage):
    """That it is verified later changes nothing in what it has been since it first counted."""
    await stage.score("ada", 10)
    better = await stage.receive("ada", 40)
    await stage.decide(better, reason=Reason.SAMPLED)
    await stage.decide(better)
    await catch_up(stage.derivations())
    assert [("ada", 30)] == await leaders(stage, TrendKind.IMPROVED)


async def test_what_a_moderator_approved_has_improved_by_then(stage):
    """A run that was held counts for the first time then; held and approved again it has counted before."""
    await stage.score("ada", 10)
    better = await stage.receive("ada", 40)
    for state in (State.HELD, State.PROMOTED, State.HELD, State.PROMOTED):
        await stage.decide(better, state)
    await catch_up(stage.derivations())
    assert [("ada", 30)] == await leaders(stage, TrendKind.IMPROVED)


async def test_what_is_longer_ago_than_the_span_counts_no_more(stage):
    """An hour by slots of five minutes, a day by those of an hour; what is older than both is forgotten."""
    derivations = stage.derivations()
    await stage.receive("ada")
    await catch_up(derivations)
    stage.clock.shift(3900)
    await stage.receive("bob")
    await catch_up(derivations)
    assert [("bob", 1)] == await leaders(stage, TrendKind.PLAYED)
    assert [("ada", 1), ("bob", 1)] == await leaders(stage, TrendKind.PLAYED, Span.DAY)

    stage.clock.shift(3 * 86_400)
    await stage.receive("cy")
    await catch_up(derivations)
    assert [("cy", 1)] == await leaders(stage, TrendKind.PLAYED, Span.DAY)
    assert [(2,)] == stage.rows("SELECT count(*) FROM trend_slots")


async def test_slots_that_are_too_old_are_looked_for_a_piece_at_a_time(
    stage, monkeypatch: pytest.MonkeyPatch
):
    """However many boards were played: each slice of the log looks at the next few, and begins again after the last."""
    monkeypatch.setattr(trends, "PRUNED_AT_ONCE", 2)
    derivations = stage.derivations()
    await catch_up(derivations)
    left = []
    for _ in range(2):  # and what grew old since
        begun_ms = stage.clock() - KEPT_MS - 1
        old = {TrendSlot(f"old{number}", "played", 1, begun_ms): b"" for number in range(5)}
        new = {TrendSlot("old3", "played", 1, begun_ms + 2 * KEPT_MS): b""}
        await stage.ledger.write(lambda tx, slots={**old, **new}: put_sketches(tx, slots))
        for _ in range(6):
            await stage.receive("ada")
            await catch_up(derivations)
            left += stage.rows("SELECT count(*) FROM trend_slots WHERE board LIKE 'old%'")
        await stage.ledger.write(forget)
    assert [(4,), (2,), (1,), (1,), (1,), (1,)] == left[:6]
    assert (1,) == left[-1]


@pytest.mark.parametrize(("span", "slot_s", "length_s"), [(Span.HOUR, 300, 3_600), (Span.DAY, 3_600, 86_400)])
async def test_a_span_begins_with_a_whole_slot_and_says_so(stage, span, slot_s, length_s):
    """What was in the first slot counts as long as any of it is within the span, and not a moment longer."""
    stage.clock.stop()
    begin_ms = stage.clock() - stage.clock() % (slot_s * 1000)
    stage.clock.shift((begin_ms - stage.clock()) / 1000)
    await stage.receive("ada")
    await catch_up(stage.derivations())
    ends_ms = begin_ms + (slot_s + length_s) * 1000
    told = []
    for now_ms in (begin_ms + length_s * 1000, ends_ms - 1, ends_ms):
        found = await trend_of(stage.ledger, "tiny", TrendKind.PLAYED, span, now_ms=now_ms, count=9)
        told.append((found.since_ms - begin_ms, found.total, [each.item for each in found.leaders]))
    assert [(0, 1, ["ada"]), (0, 1, ["ada"]), (slot_s * 1000, 0, [])] == told


async def test_a_rebuild_gives_the_same(stage):
    """Folded again from the log, with the slices cut otherwise."""
    rng = random.Random(7)
    derivations = stage.derivations()
    for _ in range(40):
        await stage.score(f"p{rng.randrange(6)}", rng.randrange(1000))
        if rng.random() < 0.3:
            await catch_up(derivations)
    await catch_up(derivations)
    before = {(kind, span): await leaders(stage, kind, span) for kind in TrendKind for span in Span}
    await derivations.rebuild("trends")
    assert [] == await leaders(stage, TrendKind.PLAYED)
    await catch_up(derivations)
    assert before == {(kind, span): await leaders(stage, kind, span) for kind in TrendKind for span in Span}


async def test_what_is_older_than_any_span_makes_no_slots(stage, monkeypatch: pytest.MonkeyPatch):
    """A trend that begins again passes years of the log without storing what would be deleted next."""
    monkeypatch.setattr(trends, "PRUNED_AT_ONCE", 0)
    await stage.receive("ada")
    stage.clock.shift(KEPT_MS // 1000 + 1)
    await stage.receive("bob")
    await catch_up(stage.derivations())
    assert [("bob", 1)] == await leaders(stage, TrendKind.PLAYED)
    assert [(2,)] == stage.rows("SELECT count(*) FROM trend_slots"), "one for each span"


async def test_slots_and_events_are_kept_for_their_whole_time(stage):
    """What is exactly as old as it may be is there, a millisecond later it is not."""
    stage.clock.stop()
    stage.clock.shift(-(stage.clock() % Span.DAY.slot_ms) / 1000)
    begun_ms = stage.clock()
    slots = {TrendSlot("old", "played", 1, begun_ms - KEPT_MS + late_ms): b"" for late_ms in (-1, 0, 1)}
    derivations = stage.derivations()
    await catch_up(derivations)
    await stage.ledger.write(lambda tx: put_sketches(tx, slots))
    await stage.receive("ada")
    await catch_up(derivations)
    kept = stage.rows("SELECT begin_ms FROM trend_slots WHERE board = 'old' ORDER BY begin_ms")
    assert [(begun_ms - KEPT_MS,), (begun_ms - KEPT_MS + 1,)] == kept
    for late_ms, made in ((0, 2), (1, 0)):
        await derivations.rebuild("trends")
        stage.clock.shift((begun_ms + KEPT_MS + late_ms - stage.clock()) / 1000)
        await catch_up(derivations)
        assert [(made,)] == stage.rows("SELECT count(*) FROM trend_slots"), "one for each span"


def test_a_sketch_states_its_error_and_keeps_to_it():
    """A heavy-tailed stream over many more players than it has room for, in slots that are merged."""
    rng = random.Random(3)
    truth: Counter[str] = Counter()
    slots = []
    for _ in range(4):
        slot = FrequencySketch()
        part = Counter(f"p{int(rng.paretovariate(0.9))}" for _ in range(20_000))
        slot.add_all(part)
        truth += part
        slots.append(slot.stored())
    merged = FrequencySketch.merged(slots)
    assert (truth.total(), True) == (merged.total, 0 < merged.error < merged.total / 250)
    found = {each.item: each for each in merged.first(10_000)}
    for each in found.values():
        assert each.at_least <= truth[each.item] <= each.at_most <= each.at_least + merged.error
    assert {each for each, weight in truth.items() if weight > merged.error} <= found.keys()


def test_leaders_of_equal_weight_are_in_the_order_of_their_names():
    """However they came, so that a list of equals looks the same at every reading, and a short one has the same first."""
    names = [f"p{number:02}" for number in range(40)]
    shuffled = random.Random(5).sample(names, len(names))
    one, other = FrequencySketch(), FrequencySketch()
    for sketch, order in ((one, shuffled), (other, reversed(shuffled))):
        for name in order:
            sketch.add(name, 3)
        sketch.add("last", 4)
    for sketch in (one, other, FrequencySketch.merged([other.stored()])):
        assert ["last", *names] == [leader.item for leader in sketch.first(100)]
        assert ["last", *names[:4]] == [leader.item for leader in sketch.first(5)]


async def test_a_board_of_a_family_has_trends_and_a_name_of_no_family_has_none(stage, tmp_path: Path):
    """Its family's policy says which order is better; nothing is stored for what no policy knows."""
    write_family(tmp_path / "families")
    catalogue = Catalogue(load_policies(tmp_path / "families"))
    for number, board in enumerate(("track.monza", "track.monza", "alley.spa")):
        facts = {"board": board, "player": "ada", "score": 5 + number, "at_ms": stage.clock()}
        await stage.ledger.append(new_submission(f"run-{number}", recording=None, **facts))
    follower = LogFollower(stage.ledger, Trends(catalogue, clock=stage.clock))
    while await follower.step():
        pass
    trend = await trend_of(
        stage.ledger, "track.monza", TrendKind.PLAYED, Span.HOUR, now_ms=stage.clock(), count=9
    )
    assert [("ada", 2)] == [(leader.item, leader.at_least) for leader in trend.leaders]
    assert [("track.monza",)] == stage.rows("SELECT DISTINCT board FROM trend_slots")
