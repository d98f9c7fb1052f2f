"""What the ledger tells the boards: the records that both speak of, owned by neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from policies.vocabulary import State
from validators.baseline import Baseline


@dataclass(frozen=True, slots=True)
class Standing:
    """What counts for a player in a window. `score` None: nothing does any more. `seq` orders its versions.

    `order` and `member` are its place by the ranking of `rule` (`policies.ranking`); 0 and empty while nothing counts.
    """

    board: str
    window: str
    player: str
    name: str
    score: int | None
    achieved_at_ms: int
    achieved_seq: int
    submission_id: str
    expires_at_ms: int
    seq: int
    order: int
    member: str
    rule: str


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """A baseline with the sequence number that orders its versions (`validators.baseline.Baseline`).

    Player `""` is the board's population, `@` and a build that of the build.
    """

    board: str
    player: str
    count: int
    mean: float
    squares: float
    seq: int
    scores: tuple[int, ...] = ()
    lowest: int | None = None
    highest: int | None = None

    @property
    def known(self) -> Baseline:
        """What a check is told of it."""
        return Baseline(self.count, self.mean, self.squares, self.scores, self.lowest, self.highest)


@dataclass(frozen=True, slots=True)
class Change:
    """What the index has to learn of one settled decision. Projecting it twice does nothing more."""

    seq: int
    submission_id: str
    board: str
    player: str
    state: State
    standings: tuple[Standing, ...] = ()
    baselines: tuple[StoredBaseline, ...] = ()


@dataclass(frozen=True, slots=True)
class FriendList:
    """Whom a player follows, in order of their ids. `version` grows by one with each change; 0 is before the first."""

    player: str
    version: int = 0
    friends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Membership:
    """The groups of a board that a player is in: value by segment. `version` grows by one with each change."""

    player: str
    version: int = 0
    segments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoreDistribution:
    """How scores are distributed in a window at one moment.

    `better` counts, for each requested score, the entries with a better one. `at` has the score at each requested
    share. In an empty window `at` is empty, and `best` and `worst` are None.
    """

    total: int
    better: tuple[int, ...]
    at: tuple[int, ...]
    best: int | None
    worst: int | None


WHOLE_SHARE: Final = 10_000
"""Shares are whole numbers of hundredths of a percent, so that no entry is lost to a rounding."""


def position_at(total: int, share: int) -> int:
    """The position, from 0 for the first, of the last entry that is ahead of a share of all, or tied at its end.

    SQL's PERCENTILE_DISC in the order of merit: of the entries from the last one up, the first with which the share is
    reached. `total` is one or more.
    """
    return total - max(1, -(-share * total // WHOLE_SHARE))
