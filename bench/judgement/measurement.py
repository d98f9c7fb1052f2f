"""Measures one population: detections on a board that replays, and on one that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.judgement.claims import JudgedClaim, judge_claims
from bench.judgement.courses import STOLEN
from bench.judgement.detection import Detection
from bench.judgement.outcomes import Outcome, outcome_of
from bench.judgement.pool import pool_of
from bench.judgement.population import Size, SubmittedRun, population
from bench.judgement.recordings import examine, refused_with_own_seed, verdicts_of
from bench.judgement.signals import Signals, without_replay
from policies.loader import load_board
from policies.vocabulary import Verdict, VerdictKind
from validators.backtest import Proportion

POLICY: Final = Path(__file__).resolve().parents[2] / "policies" / "arcade.yaml"


class Extent(NamedTuple):
    """The extent of a population: levels of skill, runs of each, superhuman runs, and accounts."""

    levels: int
    runs_per_level: int
    superhuman: int
    size: Size


class Measurement(NamedTuple):
    """The measurement of one population.

    `runs` are the counted runs, honest and cheating; `outcomes` are theirs under the shipped policy, which
    replays; `refused` is the proportion of stolen recordings that the game's own seeds give away.
    """

    runs: Sequence[SubmittedRun]
    replayed: Detection
    unreplayed: Detection
    outcomes: Sequence[Outcome]
    refused: Proportion


def measure(extent: Extent, seed: int, processes: int = 1) -> Measurement:
    """Measure a population of this extent, with the same result for the same seed."""
    board = load_board(POLICY)
    pool = pool_of(
        seed,
        levels=extent.levels,
        runs_per_level=extent.runs_per_level,
        superhuman=extent.superhuman,
        processes=processes,
    )
    runs = population(pool, extent.size, seed)
    counted = [at for at, run in enumerate(runs) if run.is_honest or run.is_cheat]
    chosen = [runs[at] for at in counted]
    verdicts = verdicts_of(runs, pool, board)
    claims = list(judge_claims(runs, board.policy, verdicts))
    recordings = list(examine(chosen, pool, board.policy, processes))
    beside = list(zip(counted, recordings, strict=True))
    return Measurement(
        chosen,
        Detection(chosen, [_together(claims[at], verdicts[at], signals) for at, (signals, _) in beside]),
        _without_replay(runs, list(judge_claims(runs, without_replay(board.policy), None))),
        [
            outcome_of(claims[at].judgement, verdicts[at], findings, board.policy)
            for at, (_, findings) in beside
        ],
        refused_with_own_seed([run for run in chosen if _is_theft(run)], pool, board),
    )


def _together(claim: JudgedClaim, verdict: Verdict, recording: Signals) -> Signals:
    """Return the signals of a run from its claim, its recording and its re-simulation."""
    refuted = {"re-simulation: mismatch": 1.0} if verdict.kind is VerdictKind.MISMATCH else {}
    return {**claim.signals, **recording, **refuted}


def _without_replay(runs: Sequence[SubmittedRun], claims: Sequence[JudgedClaim]) -> Detection:
    """Return the detection by claims alone. Without recordings there are no thefts."""
    counted = [at for at, run in enumerate(runs) if run.is_honest or (run.is_cheat and not _is_theft(run))]
    return Detection([runs[at] for at in counted], [claims[at].signals for at in counted])


def _is_theft(run: SubmittedRun) -> bool:
    return run.is_cheat and run.account.name.startswith(STOLEN)
