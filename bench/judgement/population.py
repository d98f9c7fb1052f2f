"""A population whose cheats are known: its players, their skills, times and claims.

Each run is one of the pool, so that it can be played again. Honest accounts arrive over six weeks, play in
sittings, improve with practice (by a power law: Newell and Rosenbloom, "Mechanisms of skill acquisition and
the law of practice", 1981), have luck, pause now and then, and give up some runs. Cheats are honest accounts
that begin to cheat, or new ones; each has ten cheating runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from bench.judgement.courses import CHEATING_RUNS, COURSES, PROGRAM, Turn
from bench.judgement.courses import honest as honest_course
from bench.judgement.hands import Hand
from bench.judgement.pool import Pool
from validators.submission import Submission

HONEST: Final = "honest"
WEEKS: Final = 6
DAY_MS: Final = 86_400_000
START_MS: Final = 1_788_000_000_000
BUILD: Final = "arcade-1"
TICK_MS: Final = 1000 / 60

PAUSE_SHARE: Final = 0.05
TEACHING_SHARE: Final = 0.05
"""The share of cheating accounts whose promoted runs become part of the population's history.

The bench has far more cheats than a board, to count them well: with all of them in the history, everybody
would be measured by cheats.
"""


@dataclass(frozen=True, slots=True)
class Account:
    """A player. `name` is its row in the tables, HONEST if it does not cheat.

    Thresholds are set on calibrating honest accounts, and false positives counted on the others.
    """

    number: int
    name: str
    teaches: bool
    is_calibrating: bool


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """A run as it was submitted."""

    account: Account
    submission: Submission
    source: int
    hand: Hand
    is_cheat: bool

    @property
    def is_honest(self) -> bool:
        """Return whether the run's player never cheats, so that a detection is a false positive."""
        return self.account.name == HONEST


class Size(NamedTuple):
    """Numbers of accounts: honest ones, and of each kind of cheat in each strength."""

    honest: int
    cheating: int


def population(pool: Pool, size: Size, seed: int) -> list[SubmittedRun]:
    """Return all runs in the order of their arrival, the same for the same pool and seed."""
    honest: list[SubmittedRun] = []
    cheating: list[SubmittedRun] = []
    for number in range(size.honest):
        honest += _life(number, HONEST, 0, pool, seed, ())
    honest.sort(key=_order)
    rows = [(name, nth) for name in COURSES for nth in range(_accounts(name, size, pool))]
    for number, (name, nth) in enumerate(rows, start=size.honest):
        cheating += _life(number, name, nth, pool, seed, honest)
    return sorted(honest + cheating, key=_order)


def _order(run: SubmittedRun) -> tuple[int, int]:
    return run.submission.received_at_ms, run.account.number


def _accounts(name: str, size: Size, pool: Pool) -> int:
    """Return the number of a row's accounts."""
    # Programs are limited by their runs: the same inputs twice would be a theft.
    return min(size.cheating, pool.superhuman.size // CHEATING_RUNS) if name == PROGRAM else size.cheating


def _life(
    number: int, name: str, nth: int, pool: Pool, seed: int, honest: Sequence[SubmittedRun]
) -> Iterator[SubmittedRun]:
    """Yield all runs of the account with this number, the nth of its row."""
    rng = np.random.default_rng([seed, number])
    teaches = name == HONEST or nth % round(1 / TEACHING_SHARE) == 0
    account = Account(number, name, teaches, number % 2 == 0)
    turns = list(COURSES.get(name, honest_course)(rng, pool))
    if name == PROGRAM:
        turns = [
            turn._replace(source=int(pool.superhuman[nth * CHEATING_RUNS + at]))
            for at, turn in enumerate(turns)
        ]
    return _Life(rng, account, pool, seed, honest).runs(turns)


class _Life:
    """The runs of one account at their times, with the counts of its tickets. It may steal `honest` runs."""

    def __init__(
        self,
        rng: np.random.Generator,
        account: Account,
        pool: Pool,
        seed: int,
        honest: Sequence[SubmittedRun],
    ) -> None:
        self._rng = rng
        self._account = account
        self._pool = pool
        self._seed = seed
        self._honest = honest
        self._gives_up = rng.beta(1.2, 5.0)
        self._opened: list[float] = []
        self._submitted: list[float] = []
        self._now_ms = 0.0

    def runs(self, turns: Sequence[Turn]) -> Iterator[SubmittedRun]:
        """Play the turns in sittings, from a random time on."""
        # A thief begins late, when there is something to steal.
        is_thief = any(turn.change is not None for turn in turns)
        self._now_ms = START_MS + self._rng.uniform(0.6 if is_thief else 0.0, 0.9) * WEEKS * 7 * DAY_MS
        left_in_sitting = 0
        for number, turn in enumerate(turns):
            if left_in_sitting == 0:
                self._now_ms += self._rng.exponential(1.2) * DAY_MS if number else 0.0
                left_in_sitting = 1 + int(self._rng.geometric(0.2))
            left_in_sitting -= 1
            yield self._played(turn, self._account.number * 1000 + number)
            self._now_ms += self._rng.lognormal(2.5, 0.7) * 1000

    def _played(self, turn: Turn, name: int) -> SubmittedRun:
        self._give_up(turn)
        source, hand = self._source(turn, name)
        run = self._pool.runs[source]
        opened, submitted = self._in_a_day(self._opened), self._in_a_day(self._submitted)
        begun_ms, self._now_ms = self._now_ms, self._now_ms + self._elapsed_ms(run.claim.ticks, turn)
        self._opened.append(begun_ms)
        self._submitted.append(self._now_ms)
        submission = Submission(
            submission_id=f"run-{name}",
            board="arcade",
            player=f"p{self._account.number}",
            build=BUILD,
            seed=run.seed,
            issued_at_ms=int(begun_ms),
            received_at_ms=int(self._now_ms),
            claim=replace(run.claim, score=round(run.claim.score * turn.factor / 10) * 10),
            has_recording=True,
            runs_opened=opened,
            runs_submitted=submitted,
        )
        return SubmittedRun(self._account, submission, source, hand, turn.is_cheat)

    def _give_up(self, turn: Turn) -> None:
        """Let the time pass of the runs that are given up before this one."""
        is_shopper = turn.gave_up >= 0
        for _ in range(turn.gave_up if is_shopper else int(self._rng.geometric(1 - self._gives_up)) - 1):
            self._opened.append(self._now_ms)
            self._now_ms += 4000 if is_shopper else self._rng.lognormal(2.3, 0.8) * 1000

    def _source(self, turn: Turn, name: int) -> tuple[int, Hand]:
        """Return the run of the pool to claim, and the hand that makes its recording."""
        if turn.change is not None:
            victim = self._victim()
            return victim.source, victim.hand._replace(change=turn.change, change_seed=name)
        own, ticks = self._seed * 7919, self._pool.runs[turn.source].claim.ticks
        return turn.source, Hand(turn.style, own + self._account.number, own + name, ticks, turn.strength)

    def _victim(self) -> SubmittedRun:
        """Return one of the better honest runs so far."""
        available = bisect_left(self._honest, self._now_ms, key=lambda run: run.submission.received_at_ms)
        picked = [self._honest[int(at)] for at in self._rng.integers(0, max(1, available), 4)]
        return max(picked, key=lambda run: run.submission.claim.score)

    def _elapsed_ms(self, ticks: int, turn: Turn) -> float:
        """Return how long the run is open: seconds before the first tick, its ticks, and at times a pause."""
        elapsed_ms = ticks * TICK_MS * turn.slowness + self._rng.lognormal(0.9, 0.6) * 1000
        if self._rng.random() < PAUSE_SHARE:
            elapsed_ms += self._rng.lognormal(4.0, 1.2) * 1000
        return float(elapsed_ms)

    def _in_a_day(self, times_ms: Sequence[float]) -> int:
        return len(times_ms) - bisect_left(times_ms, self._now_ms - DAY_MS)
