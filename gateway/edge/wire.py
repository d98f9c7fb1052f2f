"""The bodies of the interface: what comes in, strictly, and what goes out. OpenAPI is generated from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from policies.vocabulary import SCORE_LIMIT

BATCH_LIMIT = 500
"""Most operations in a batch that is done whole or not at all."""

EACH_LIMIT = 1_000
"""Most operations in a batch whose operations are done each by itself."""

ExactScore = Annotated[int, Field(ge=-SCORE_LIMIT, le=SCORE_LIMIT)]
Count = Annotated[int, Field(ge=0, le=SCORE_LIMIT)]
PlayerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
SubmissionId = Annotated[str, Field(pattern=r"^[a-z0-9]{1,64}$")]
Version = Annotated[int, Field(ge=1, le=SCORE_LIMIT)]
OperationId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Instant = Annotated[str, Field(max_length=40)]
Secret = Annotated[str, Field(repr=False)]
"""Never part of a repr, so that no log can hold it."""
SegmentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
SegmentValue = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")]
StatName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class Body(BaseModel):
    """Something a client sends: closed, and no value is read as another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Answer(BaseModel):
    """Something a client is told."""

    model_config = ConfigDict(frozen=True)


class NewPlayer(Body):
    """An anonymous player's wish: the name to be shown, if any."""

    name: Annotated[str, Field(min_length=1, max_length=24)] | None = None


class PlayerCreated(Answer):
    """A player and the bearer token that is theirs alone."""

    player: PlayerId
    name: str
    token: Secret


class NewRun(Body):
    """Which build of the game is about to play."""

    build: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]


class RunOpened(Answer):
    """A run: its ticket (the `keyid` of its signature), seed (decimal u64) and signing key (base64, 32 bytes)."""

    run: str
    ticket: str
    key: Secret
    seed: str
    board: str
    player: PlayerId
    build: str
    simulator: str
    ticks_per_second: int
    checkpoint_ticks: int
    issued_at: str
    expires_at: str


JsonObject = Annotated[dict[str, Any], Field(max_length=64)]
"""Any JSON, since it was read as such (`strict_json`) before."""


class Details(Body):
    """What readers are shown with a score, as the sender says it: the board's policy says how much it takes."""

    integers: Annotated[list[ExactScore], Field(max_length=64)] = []
    object: JsonObject = {}


class NewScore(Body):
    """The claim for a run, with the recording of its inputs (base64 of the recording container)."""

    score: ExactScore
    ticks: Count
    stats: Annotated[dict[StatName, ExactScore], Field(max_length=16)] = {}
    recording: Annotated[str, Field(max_length=1_400_000)] | None = None
    details: Details | None = None


class ScoreAccepted(Answer):
    """The submission is in the ledger and will reach a verdict."""

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str


class SubmissionStatus(Answer):
    """Where a submission stands. `reason` is a coarse class: `review`, `implausible`, `replay` or `moderation`."""

    submission: str
    board: str
    player: PlayerId
    score: int
    state: str
    reason: str | None
    rank: int | None
    received_at: str


class BoardInfo(Answer):
    """A board as a reader needs to know it.

    `decimals` places of a score are behind the point. `ranks` are the kinds that can be asked for, the board's own first.
    `tie_resolutions_ms` says, by window, how far apart two times must be to decide between equal scores, where that is
    not every millisecond.
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
    builds: list[str]
    ticks_per_second: int


class BoardList(Answer):
    """Every board of this deployment."""

    boards: list[BoardInfo]


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


class FriendShown(Answer):
    """A player whom one follows."""

    player: PlayerId
    name: str


class FriendsShown(Answer):
    """Whom a player follows, in order of their ids."""

    player: PlayerId
    total: int
    friends: list[FriendShown]


class FriendsChanged(Answer):
    """How many players one follows now."""

    player: PlayerId
    total: int


class MembershipShown(Answer):
    """The groups of a board that a player is in: value by segment."""

    board: str
    player: PlayerId
    segments: dict[str, str]


class NewMembership(Body):
    """A trusted server's word on a player's groups; null takes the player out, what is not named stays."""

    operation: OperationId
    player: PlayerId
    segments: Annotated[dict[SegmentName, SegmentValue | None], Field(min_length=1, max_length=8)]


class NewDeclaration(Body):
    """The group that a player says to be in; null for none."""

    value: SegmentValue | None


class NewJoin(Body):
    """A trusted server has a player join a board (`joined` true), or leave it."""

    operation: OperationId
    player: PlayerId
    joined: bool


class JoinShown(Answer):
    """Whether a player is on a board that has to be joined."""

    board: str
    player: PlayerId
    joined: bool


class NewFriends(Body):
    """Whom a player follows, as a trusted server knows it: all of them, in the place of those before."""

    operation: OperationId
    friends: Annotated[list[PlayerId], Field(max_length=2_000)]


class NewEntry(Body):
    """A trusted server's write. Sending the same operation id again is safe.

    With `replaces` it is a correction: that submission of the player counts no more, and this score does. With
    `version` it is refused once the player was removed at that version or a later one. `achieved_at` (RFC 3339) is when
    the score was reached, if that was not just now: it counts in the windows of then, and ties are broken by it.
    """

    operation: OperationId
    player: PlayerId
    score: ExactScore
    stats: Annotated[dict[StatName, ExactScore], Field(max_length=16)] = {}
    details: Details | None = None
    achieved_at: Instant | None = None
    version: Version | None = None
    replaces: SubmissionId | None = None


class NewRemoval(Body):
    """A trusted server takes back one submission of a player, or all that counts for the player on the board.

    With `version`, what was written under a later version stays, and an earlier one that is still under way is refused.
    """

    operation: OperationId
    player: PlayerId
    submission: SubmissionId | None = None
    version: Version | None = None
    reason: Annotated[str, Field(min_length=1, max_length=500)] | None = None

    @model_validator(mode="after")
    def _one_extent(self) -> Self:
        if self.submission is not None and self.version is not None:
            raise ValueError("a version is for all of a player's submissions, not for a single one")
        return self


class NewIncrement(Body):
    """A trusted server's increment, on a board that adds scores up: `by` is added to what the player has.

    Sending the same operation id again is safe. `version` is as in a write.
    """

    operation: OperationId
    player: PlayerId
    by: ExactScore
    version: Version | None = None

    @property
    def score(self) -> int:
        """What the ledger writes down for it: on such a board each submission is an increment."""
        return self.by


class Removed(Answer):
    """What counts no more; empty if nothing did."""

    board: str
    player: PlayerId
    removed: list[str]


class BatchedEntry(NewEntry):
    """A write or a correction in a batch."""

    action: Literal["write"]


class BatchedRemoval(NewRemoval):
    """A removal in a batch."""

    action: Literal["remove"]


class BatchedIncrement(NewIncrement):
    """An increment in a batch."""

    action: Literal["increment"]


BatchedOperation = Annotated[BatchedEntry | BatchedRemoval | BatchedIncrement, Field(discriminator="action")]


class NewBatch(RootModel[Annotated[list[BatchedOperation], Field(min_length=1, max_length=BATCH_LIMIT)]]):
    """Up to 500 operations of a trusted server, in order; all are done, or none."""

    model_config = ConfigDict(frozen=True, strict=True)


class NewOperations(RootModel[Annotated[list[Any], Field(min_length=1, max_length=EACH_LIMIT)]]):
    """Up to 1000 operations of a trusted server (as in `NewBatch`), in order, each done or refused by itself."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={"items": {"type": "object"}},
    )


class Refusal(Answer):
    """Why an operation was not done: problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str | None


class OperationOutcome(Answer):
    """What became of one operation: `done` with its answer, or `refused` with the problem, and then nothing was stored."""

    status: Literal["done", "refused"]
    is_replay: bool = False
    result: ScoreAccepted | Removed | None = None
    problem: Refusal | None = None


class OperationsDone(Answer):
    """What became of each operation, in their order, and how many were refused."""

    board: str
    refused: int
    results: list[OperationOutcome]


class BatchDone(Answer):
    """What became of each operation, in the order of the batch."""

    board: str
    results: list[ScoreAccepted | Removed]


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


class NewDecision(Body):
    """Why a moderator decides so; it stands in the ledger."""

    reason: Annotated[str, Field(min_length=1, max_length=500)]


class FindingShown(Answer):
    """One suspicious fact, as evidence."""

    reason: str
    meaning: str
    severity: str
    value: float
    expected: str
    sample_size: int


class HeldSubmission(Answer):
    """A submission that waits for a moderator."""

    submission: str
    board: str
    player: PlayerId
    score: int
    ticks: int
    stats: dict[str, int]
    build: str
    state: str
    reason: str
    meaning: str
    findings: list[FindingShown]
    received_at: str
    cursor: int


class HeldPage(Answer):
    """Held submissions, oldest first; ask again with `after` = the last cursor."""

    board: str
    submissions: list[HeldSubmission]


class EventShown(Answer):
    """One event of a submission's history."""

    seq: int
    from_state: str
    to_state: str
    actor: str
    reason: str
    policy: str
    rules_version: int
    detail: dict[str, int | str | None]
    at: str


class CaseFile(Answer):
    """A submission with everything that happened to it."""

    submission: HeldSubmission
    events: list[EventShown]


class Decided(Answer):
    """The state after a decision."""

    submission: str
    state: str


class Liveness(Answer):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(Answer):
    """Whether requests can be taken, and the truth about each dependency."""

    status: Literal["ready", "degraded", "unready"]
    ledger: bool
    index: bool
