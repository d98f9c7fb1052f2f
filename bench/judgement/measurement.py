"""All that is measured of one population: what is detected on a board that replays, and on one that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.judgement.claims import Judged, judged
from bench.judgement.courses import STOLEN
from bench.judgement.detection import Detection
from bench.judgement.outcomes import Outcome, outcome_of
from bench.judgement.pool import pool_of
from bench.judgement.population import Played, Size, population
from bench.judgement.recordings import examined, refused_with_own_seed, verdicts_of
from bench.judgement.signals import Signals, without_replay
from policies.loader import load_board
from policies.vocabulary import Verdict, VerdictKind
from validators.backtest import Proportion

POLICY: Final = Path(__file__).resolve().parents[2] / "policies" / "arcade.yaml"


class Extent(NamedTuple):
    """How much is made: levels of skill, runs of each, runs of the superhuman player, and accounts."""

    levels: int
    each: int
    superhuman: int
    size: Size


class Measured(NamedTuple):
    """What was found.

    `runs` are those counted, honest ones and cheats; `outcomes` where they end under the policy as shipped, which
    replays; `refused` the stolen recordings that the game's own seeds give away.
    """

    runs: Sequence[Played]
    replayed: Detection
    unreplayed: Detection
    outcomes: Sequence[Outcome]
    refused: Proportion


def measured(extent: Extent, seed: int, processes: int = 1) -> Measured:
    """All that is found of a population of this extent; the same for the same seed, whatever the processes."""
    board = load_board(POLICY)
    pool = pool_of(
        seed, levels=extent.levels, each=extent.each, superhuman=extent.superhuman, processes=processes
    )
    runs = population(pool, extent.size, seed)
    counted = [at for at, run in enumerate(runs) if run.is_honest or run.is_cheat]
    chosen = [runs[at] for at in counted]
    verdicts = verdicts_of(runs, pool, board)
    claims = list(judged(runs, board.policy, verdicts))
    recordings = list(examined(chosen, pool, board.policy, processes))
    beside = list(zip(counted, recordings, strict=True))
    return Measured(
        chosen,
        Detection(chosen, [_together(claims[at], verdicts[at], seen) for at, (seen, _) in beside]),
        _without_replay(runs, list(judged(runs, without_replay(board.policy), None))),
        [outcome_of(claims[at].judgement, verdicts[at], found, board.policy) for at, (_, found) in beside],
        refused_with_own_seed([run for run in chosen if _is_theft(run)], pool, board),
    )


def _together(claim: Judged, verdict: Verdict, seen: Signals) -> Signals:
    """The signals of a run from all that looks at it."""
    refuted = {"re-simulation: mismatch": 1.0} if verdict.kind is VerdictKind.MISMATCH else {}
    return {**claim.signals, **seen, **refuted}


def _without_replay(runs: Sequence[Played], claims: Sequence[Judged]) -> Detection:
    """What is detected by claims alone. Where there are no recordings, none is stolen."""
    counted = [at for at, run in enumerate(runs) if run.is_honest or (run.is_cheat and not _is_theft(run))]
    return Detection([runs[at] for at in counted], [claims[at].signals for at in counted])


def _is_theft(run: Played) -> bool:
    return run.is_cheat and run.account.name.startswith(STOLEN)
