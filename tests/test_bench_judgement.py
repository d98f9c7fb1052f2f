"""The measure of the judgement is itself right: cheats are labelled, thresholds hold, and a seed gives the same again."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest

from bench.judgement import measurement
from bench.judgement.calibration import rarest, rarity, threshold
from bench.judgement.courses import CHEATING_RUNS, COURSES, PROGRAM, STOLEN
from bench.judgement.detection import ALL, RATES
from bench.judgement.hands import CHANGES, Hand, Style, words_of
from bench.judgement.measurement import Extent, Measurement, measure
from bench.judgement.outcomes import Outcome
from bench.judgement.pool import Pool, pool_of
from bench.judgement.population import HONEST, Size, SubmittedRun, population
from bench.judgement.report import lines, missed
from validators.backtest import Proportion

SIZE = Size(honest=40, cheating=1)
TINY = Extent(levels=2, runs_per_level=2, superhuman=1, size=SIZE)


@pytest.fixture(scope="module")
def pool() -> Pool:
    return pool_of(1, levels=TINY.levels, runs_per_level=TINY.runs_per_level, superhuman=TINY.superhuman)


@pytest.fixture(scope="module")
def found(pool: Pool) -> Measurement:
    """Measure the same runs that the other tests have, which take seconds to play."""
    asked = {
        "levels": TINY.levels,
        "runs_per_level": TINY.runs_per_level,
        "superhuman": TINY.superhuman,
        "processes": 1,
    }
    with patch.object(measurement, "pool_of", return_value=pool) as played:
        found = measure(TINY, seed=1)
    played.assert_called_once_with(1, **asked)
    return found


def key(run: SubmittedRun) -> tuple:
    return run.account, run.submission, run.hand, run.is_cheat


def test_each_kind_of_cheat_is_labelled(pool: Pool):
    """Every cheat has its accounts, each with as many cheating runs; of honest accounts no run is called a cheat."""
    runs = population(pool, SIZE, 1)
    cheats = Counter(run.account.name for run in runs if run.is_cheat)
    assert dict.fromkeys(COURSES.keys() - {PROGRAM}, SIZE.cheating * CHEATING_RUNS) == cheats
    assert SIZE.honest == len({run.account for run in runs if run.is_honest})
    assert not any(run.is_cheat for run in runs if run.account.name == HONEST)
    assert runs == sorted(runs, key=lambda run: run.submission.received_at_ms)


def test_what_is_claimed_is_what_was_played_but_by_score_editors(pool: Pool):
    """All other claims are those of real recordings, so re-simulation has nothing to say about them."""
    for run in population(pool, SIZE, 1):
        played, claim = pool.runs[run.source].claim, run.submission.claim
        is_edited = run.is_cheat and run.account.name.startswith("score edited")
        assert is_edited == (claim.score != played.score)
        assert (played.ticks, played.stats) == (claim.ticks, claim.stats)


def test_the_same_seed_gives_the_same_population(pool: Pool):
    """And another seed another one."""
    first, again, other = (population(pool, SIZE, seed) for seed in (1, 1, 2))
    assert [key(run) for run in first] == [key(run) for run in again]
    assert [run.submission for run in first] != [run.submission for run in other]


@pytest.mark.parametrize("change", CHANGES)
def test_a_stolen_recording_is_the_victims_with_a_change(change: str):
    """The words are made again from what they follow from, and only then changed."""
    hand = Hand(Style.HAND, owner=1, run=2, ticks=1200)
    original, copy = words_of(hand), words_of(hand._replace(change=change, change_seed=3))
    assert np.array_equal(original, words_of(hand))
    assert bool(change) != np.array_equal(original, copy)


def test_re_simulation_finds_every_edited_score_and_nothing_else(found: Measurement):
    """Exactly the claims that their recordings do not give, at any rate of false positives."""
    for rate in RATES:
        for name in COURSES:
            share = found.replayed.of_runs("re-simulation", rate, name)
            assert (share.of if name.startswith("score edited") else 0) == share.hits
        assert 0 == found.replayed.of_runs("re-simulation", rate, HONEST).hits


def test_the_policy_as_shipped_rejects_edited_scores_and_holds_exact_thefts(found: Measurement):
    """The table counts what the judge decides from findings and verdicts."""
    by_row = {
        name: {
            outcome
            for run, outcome in zip(found.runs, found.outcomes, strict=True)
            if run.account.name == name
        }
        for name in ("score edited, x 2", f"{STOLEN}, as it was")
    }
    assert [{Outcome.REJECTED}, {Outcome.HELD}] == list(by_row.values())


def test_a_board_without_replay_has_no_layer_that_needs_one(found: Measurement):
    """There, neither recordings nor re-simulation speak, and there is no recording to steal."""
    assert {"re-simulation", "similarity", "timing", "recording_reuse"} <= set(found.replayed.layers)
    assert not {"re-simulation", "similarity", "timing", "recording_reuse"} & set(found.unreplayed.layers)
    assert not [name for name in found.unreplayed.cheats if name.startswith(STOLEN)]


def test_false_positives_are_counted_where_no_threshold_was_set(found: Measurement):
    """None of the runs that a threshold was set on is counted, and the rate is near what was asked."""
    share = found.replayed.of_runs(ALL, RATES[0], HONEST)
    others = [run for run in found.runs if run.is_honest and not run.account.is_calibrating]
    assert len(others) == share.of
    assert share.hits / share.of < 0.05


def test_a_calibrated_rate_holds_whatever_the_tails_of_the_signals_are():
    """Normal, heavy and bounded signals, and one that is mostly silent, give the asked rate together on others."""
    rng = np.random.default_rng(1)
    count = 40_000
    silent = np.where(rng.random(count) < 0.001, rng.exponential(1, count), -np.inf)
    columns = [rng.normal(0, 1, count), rng.pareto(1.5, count), rng.uniform(0, 1, count), silent]
    is_calibrating = np.arange(count) % 2 == 0
    rare = rarest(columns, is_calibrating)
    for rate in RATES:
        limit = threshold(rare[is_calibrating], rate)
        low, high = Proportion(int((rare[~is_calibrating] < limit).sum()), count // 2).interval
        assert low < rate < high
        assert (rare[is_calibrating] < limit).mean() <= rate


def test_what_no_honest_run_reaches_is_the_rarest():
    """Beyond all of them nothing is left; no signal is the least suspicious, whether others have one or not."""
    honest = np.array([-np.inf, 1.0, 2.0, 3.0])
    assert [1.0, 0.75, 0.5, 0.25, 0.0] == rarity(np.array([-np.inf, 0.5, 2.0, 3.0, 3.1]), honest).tolist()
    assert [1.0, 0.0] == rarity(np.array([-np.inf, 1.0]), np.full(10, -np.inf)).tolist()


def test_the_report_has_a_row_for_each_cheat_and_says_what_is_missed(found: Measurement):
    """A cheat that nothing finds is in the table and is called missed."""
    text = list(lines(found))
    assert all(any(line.startswith(f"| {name} ") for line in text) for name in found.replayed.cheats)
    assert COURSES.keys() - {PROGRAM} == set(found.replayed.cheats)
    quiet = "slow motion, 3 x, to think"
    assert any(line.startswith("- missed") and quiet in line for line in missed(found.unreplayed))
