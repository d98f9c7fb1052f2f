"""The answers to reads of boards, from which the OpenAPI document is generated."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel

from gateway.edge.wire.board_answers import OpenedBoardShown
from gateway.edge.wire.fields import Answer, PlayerId, SubmissionId


class BuildShown(Answer):
    """A build of the game: its status, and the digest of its simulator, null if its runs are not replayed."""

    build: str
    status: str
    simulator: str | None


class BoardInfo(Answer):
    """A board as its readers need to know it.

    `decimals` is the number of decimal places of a score. `ranks` are the kinds of rank that the board keeps,
    its default first. `tie_resolutions_ms` is, by window, the time between two equal scores from which on the
    earlier one wins, if that is not a millisecond. With `reveal_s` a score may come with the digest of its
    recording, which the player then sends within that many seconds of a request; null if the board does not
    offer this. `opened` has what a board of a family has besides; null for any other.
    """

    board: str
    title: str
    order: str
    operator: str
    windows: list[str]
    time_zone: str
    season: str | None
    decimals: int
    ranks: list[str]
    tie_break: str
    tie_fields: list[str]
    tie_resolutions_ms: dict[str, int]
    writes: str
    builds: list[BuildShown]
    ticks_per_second: int
    reveal_s: int | None
    opened: OpenedBoardShown | None


class BoardList(Answer):
    """The boards of this deployment by name; the next page is `cursor` = `next`, null after the last."""

    boards: list[BoardInfo]
    next: str | None


class EntryShown(Answer):
    """A standing with its rank; rank 1 is the best, and equal scores are ordered by time."""

    rank: int
    player: PlayerId
    name: str
    score: int
    achieved_at: str
    submission: str


class EntryRead(Answer):
    """A standing and its place among the `total` entries of its window.

    `percentile` is the percentage of entries whose score is not better; it may be off by `percentile_error`,
    0 if it is exact. `gap` is the difference to the next better score, null for the best score. Below the
    ranks that the board keeps exactly, `rank` and `gap` are null.
    """

    rank: int | None
    player: PlayerId
    name: str
    score: int
    achieved_at: str
    submission: str
    total: int
    percentile: float
    percentile_error: float
    gap: int | None


class ScoreAt(Answer):
    """The worst score whose percentile is `at` or more."""

    at: float
    score: int


class Percentiles(Answer):
    """Scores at percentiles, none in an empty window. A percentile may be off by `error`, 0 if exact."""

    board: str
    window: str
    total: int
    error: float
    percentiles: list[ScoreAt]


class Bin(Answer):
    """The number of entries with a score from `least` to `most`, both included; null is an open end."""

    least: int | None
    most: int | None
    count: int


class Distribution(Answer):
    """A histogram of scores, lowest first. The ends of bins may be off by `error` percent of all entries."""

    board: str
    window: str
    total: int
    error: float
    bins: list[Bin]


class DetailsShown(Answer):
    """The statistics and details of a promoted submission, which never change."""

    submission: SubmissionId
    player: PlayerId
    stats: dict[str, int]
    integers: list[int]
    object: dict[str, Any]


class DetailsList(Answer):
    """The details of submissions, without those that do not count on the board."""

    board: str
    details: list[DetailsShown]


class EntryPage(Answer):
    """A page of a window's entries by rank, their total, and cursors to the next and the previous page."""

    board: str
    window: str
    total: int
    entries: list[EntryShown]
    next: str | None = None
    previous: str | None = None


class ArchivedPage(EntryPage):
    """The final ranks of a past window. `revision` grows with each later decision that changes them."""

    revision: int
    frozen_at: str


class ArchiveShown(Answer):
    """The archive of a window: its number of entries, its groups of equal scores, its last event."""

    revision: int
    frozen_at: str
    entries: int
    groups: int
    up_to_event: int
    policy: str


class WindowShown(Answer):
    """A window of a board; `archive` is null while it is open. `alltime` has no beginning and no end."""

    window: str
    begins_at: str | None
    ends_at: str | None
    archive: ArchiveShown | None = None


class WindowList(Answer):
    """The windows of a board, current ones first; the next page is `after` = `next`, null after the last."""

    board: str
    windows: list[WindowShown]
    next: str | None


class FilteredEntry(EntryShown):
    """An entry ranked among the requested players; `global_rank` is its unique rank among all."""

    global_rank: int


class FilteredPage(Answer):
    """The entries of some players in a window by rank, and their total."""

    board: str
    window: str
    total: int
    entries: list[FilteredEntry]


class ListedPage(FilteredPage):
    """The entries of listed players in a window; `unranked` are those without an entry."""

    unranked: list[PlayerId]


class EntriesRead(RootModel[EntryPage | ArchivedPage | FilteredPage | ListedPage]):
    """The entries of all players, of a past window, of friends, of listed players, or of a group."""


class AroundRead(RootModel[EntryPage | ArchivedPage | FilteredPage]):
    """The neighbours of a player among all players, among friends, or in a group."""


class BoardStatistics(Answer):
    """The statistics of a board, about a second old.

    `attempts` are the submissions received, `promoted` those that count now. `players_ever` estimates the
    number of distinct players with the given standard error, a fraction of it; null while there is no
    estimate.
    """

    board: str
    attempts: int
    promoted: int
    players_ever: int | None
    players_ever_standard_error: float


class TrendingPlayer(Answer):
    """A player, and the range that the number of runs, or of points gained, is in."""

    player: PlayerId
    name: str
    at_least: int
    at_most: int


class Trending(Answer):
    """The players with the most runs or points since a time, and the total of all.

    No number is off by more than `error`, and every player with more than `error` is listed.
    """

    board: str
    kind: str
    span: str
    since: str
    total: int
    error: int
    players: list[TrendingPlayer]


class AchievementShown(Answer):
    """A player's first place among the first ten of a window."""

    board: str
    window: str
    rank: int
    submission: str
    at: str


class AchievementPage(Answer):
    """A player's achievements, newest first; the next page is `after` = `next`, null after the last."""

    player: PlayerId
    achievements: list[AchievementShown]
    next: str | None
