"""Records that the ledger passes to the index: both use them, neither owns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from policies.choices import RankKind
from policies.ranking import BoardPlace, Ranking
from policies.vocabulary import State
from validators.baseline import Baseline


@dataclass(frozen=True, slots=True)
class Standing:
    """A player's standing in a window. `score` is None if nothing counts any more; `seq` orders its versions.

    `order` and `member` are its place in the ranking of `rule` (`policies.ranking`), else 0 and "".
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


class StandingPage(NamedTuple):
    """Standings of a known window as a rebuild reads them: a list for each field, all of one length."""

    players: Sequence[str]
    names: Sequence[str]
    scores: Sequence[int | None]
    orders: Sequence[int]
    members: Sequence[str]
    seqs: Sequence[int]
    submission_ids: Sequence[str]

    @classmethod
    def of(cls, standings: Sequence[Standing]) -> StandingPage:
        """Return these standings of one window as a page."""
        return cls(
            players=[one.player for one in standings],
            names=[one.name for one in standings],
            scores=[one.score for one in standings],
            orders=[one.order for one in standings],
            members=[one.member for one in standings],
            seqs=[one.seq for one in standings],
            submission_ids=[one.submission_id for one in standings],
        )


BaselineFacts = tuple[int, int, float, float, int | None, int | None, Sequence[int]]
"""What is known of a baseline: seq, count, mean, squares, lowest, highest, and the newest scores."""


class BaselinePage(NamedTuple):
    """Baselines as a rebuild reads them: the subjects, and the facts of each."""

    subjects: Sequence[str]
    facts: Sequence[BaselineFacts]


@dataclass(frozen=True, slots=True)
class StoredBaseline:
    """A baseline with the sequence number that orders its versions (`validators.baseline.Baseline`).

    Player `""` is the population of the board; `@<build>` is that of a build.
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
        """The baseline as checks take it."""
        return Baseline(self.count, self.mean, self.squares, self.scores, self.lowest, self.highest)


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of one settled decision on the index. Projecting it twice changes nothing more."""

    seq: int
    submission_id: str
    board: str
    player: str
    state: State
    standings: tuple[Standing, ...] = ()
    baselines: tuple[StoredBaseline, ...] = ()


@dataclass(frozen=True, slots=True)
class FriendList:
    """The friends of a player, in order of their ids. `version` grows by one with each change, from 0."""

    player: str
    version: int = 0
    friends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Membership:
    """A player's groups on a board: value by segment. `version` grows by one with each change."""

    player: str
    version: int = 0
    segments: Mapping[str, str] = field(default_factory=dict)


class RankedStanding(NamedTuple):
    """A player's standing in a window: the number of standings there, and its rank among them, from 1."""

    total: int
    rank: int
    score: int
    achieved_at_ms: int
    submission_id: str


class RankRequest(NamedTuple):
    """A request for a player's standing in a window of a board, with its rank of this kind."""

    ranking: Ranking
    window: str
    kind: RankKind

    @property
    def board(self) -> str:
        """The name of the board."""
        return self.ranking.policy.board

    def standing_at(self, place: BoardPlace, *, total: int, rank: int, submission_id: str) -> RankedStanding:
        """Return the standing at a place. Raises ValueError for a member that no standing has."""
        score = self.ranking.score_at(self.window, place.order)
        at_ms = self.ranking.achieved_at_ms(self.window, place)
        return RankedStanding(total, rank, score, at_ms, submission_id)


@dataclass(frozen=True, slots=True)
class ScoreDistribution:
    """How scores are distributed in a window at one moment.

    `better` counts the entries better than each requested score. `at` has the score at each requested share.
    In an empty window `at` is empty, and `best` and `worst` are None.
    """

    total: int
    better: tuple[int, ...]
    at: tuple[int, ...]
    best: int | None
    worst: int | None


WHOLE_SHARE: Final = 10_000
"""Shares are whole numbers of hundredths of a percent, so that no entry is lost to a rounding."""


def position_at(total: int, share: int) -> int:
    """Return the position (0 is first) of the entry at a share of all, counted from the last entry up.

    This is SQL's PERCENTILE_DISC in the order of merit: the first entry from the end that reaches the share.
    `total` is one or more.
    """
    return total - max(1, -(-share * total // WHOLE_SHARE))
