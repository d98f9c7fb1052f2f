"""What readers are told of boards. OpenAPI is generated from these."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel

from gateway.edge.wire.fields import Answer, PlayerId, SubmissionId


class BuildShown(Answer):
    """A build of the game: what it may do now, and the digest of what plays its runs again, where that is done."""

    build: str
    status: str
    simulator: str | None


class BoardInfo(Answer):
    """A board as a reader needs to know it.

    `decimals` places of a score are behind the point. `ranks` are the kinds that can be asked for, the board's own first.
    `tie_resolutions_ms` says, by window, how far apart two times must be to decide between equal scores, where that is
    not every millisecond. With `reveal_s` a score may come with the digest of its recording, which is sent within so many
    seconds of being asked for; null where that is not offered.
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


class BoardList(Answer):
    """Boards of this deployment by name; ask again with `cursor` = `next`, until that is null."""

    boards: list[BoardInfo]
    next: str | None


class EntryShown(Answer):
    """A standing with its rank; rank 1 is first, equal scores are ordered by who was first."""

    rank: int
    player: PlayerId
    name: str
    score: int
    achieved_at: str
    submission: str


class EntryRead(Answer):
    """A standing by itself, and where it is among the `total` of its window.

    `percentile` is the share of entries, in percent, whose score is not better; it may be off by `percentile_error`, 0
    where it is exact. `gap` is the difference to the nearest better score; null for the best score. Below the ranks that
    the board keeps exactly, `rank` and `gap` are null.
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
    """Scores at percentiles, none while the window is empty. A percentile may be off by `error`; 0: all are exact."""

    board: str
    window: str
    total: int
    error: float
    percentiles: list[ScoreAt]


class Bin(Answer):
    """How many entries have a score from `least` to `most`, both included; null: without an end."""

    least: int | None
    most: int | None
    count: int


class Distribution(Answer):
    """How many entries have which scores, from the lowest. Where a bin ends may be off by `error` percent of all; 0: exact."""

    board: str
    window: str
    total: int
    error: float
    bins: list[Bin]


class DetailsShown(Answer):
    """What a promoted submission brought along: its statistics and details. They never change."""

    submission: SubmissionId
    player: PlayerId
    stats: dict[str, int]
    integers: list[int]
    object: dict[str, Any]


class DetailsList(Answer):
    """What promoted submissions of a board brought along; those that do not count there are left out."""

    board: str
    details: list[DetailsShown]


class EntryPage(Answer):
    """Entries of one window by rank, how many there are in all, and the cursors of the pages behind and ahead of these."""

    board: str
    window: str
    total: int
    entries: list[EntryShown]
    next: str | None = None
    previous: str | None = None


class ArchivedPage(EntryPage):
    """Final ranks of a window that is over. `revision` grows with each later decision that changes them."""

    revision: int
    frozen_at: str


class ArchiveShown(Answer):
    """What the archive has of a window: how many entries, how many distinct ties among them, up to which event."""

    revision: int
    frozen_at: str
    entries: int
    groups: int
    up_to_event: int
    policy: str


class WindowShown(Answer):
    """A window of a board; `archive` is null while it goes on. `alltime` has neither beginning nor end."""

    window: str
    begins_at: str | None
    ends_at: str | None
    archive: ArchiveShown | None = None


class WindowList(Answer):
    """Windows of a board, the current ones first; ask again with `after` = `next`, until that is null."""

    board: str
    windows: list[WindowShown]
    next: str | None


class FilteredEntry(EntryShown):
    """An entry whose rank is among the players that were asked for; `global_rank` is among all."""

    global_rank: int


class FilteredPage(Answer):
    """Entries of some players of a window by rank, and how many of them stand there."""

    board: str
    window: str
    total: int
    entries: list[FilteredEntry]


class ListedPage(FilteredPage):
    """The same for players by name; `unranked` are those who do not stand there."""

    unranked: list[PlayerId]


class EntriesRead(RootModel[EntryPage | ArchivedPage | FilteredPage | ListedPage]):
    """Entries of all players, now or as they ended, of friends, of the listed ones, or of a group."""


class AroundRead(RootModel[EntryPage | ArchivedPage | FilteredPage]):
    """The neighbours of a player among all, among friends, or in a group."""


class BoardStatistics(Answer):
    """How much a board has seen, a second or so ago: submissions received, how many of them count now, distinct players.

    `players_ever` is an estimate with this standard error, a fraction of it; null while it is not at hand.
    """

    board: str
    attempts: int
    promoted: int
    players_ever: int | None
    players_ever_standard_error: float


class TrendingPlayer(Answer):
    """A player, and between what the runs played, or the points gained, are."""

    player: PlayerId
    name: str
    at_least: int
    at_most: int


class Trending(Answer):
    """Who leads since then, of a total. No number is off by more than `error`, nor is a player missing who has more."""

    board: str
    kind: str
    span: str
    since: str
    total: int
    error: int
    players: list[TrendingPlayer]


class AchievementShown(Answer):
    """That a player first came among the first ten of a window, and with which rank."""

    board: str
    window: str
    rank: int
    submission: str
    at: str


class AchievementPage(Answer):
    """A player's achievements, newest first; ask again with `after` = `next`, until that is null."""

    player: PlayerId
    achievements: list[AchievementShown]
    next: str | None
