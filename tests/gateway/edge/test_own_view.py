"""A shadow-banned player's view of a board is that of a twin where nobody was banned; to others the player is absent."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import AsyncIterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from sqlalchemy import select

from gateway.edge.live.heartbeats import with_heartbeats
from gateway.edge.live.own_events import without_own
from gateway.edge.reads.board_reader import IS_AWAY, BoardReader
from gateway.edge.reads.lacking_reader import LackingReader
from gateway.edge.reads.own_reader import OwnReader, own_entry
from gateway.edge.reads.own_view import reader_with
from gateway.index.board_index import BoardIndex, Cut, Page
from gateway.index.changes import RankedPlace, StandingChange
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.ledger import queries
from gateway.ledger.players.joins import put_join
from gateway.ledger.reads import ReadKind
from gateway.ledger.schema import submissions
from gateway.ledger.standings import banned_folds
from gateway.ledger.standings.banned_folds import standing_without_bans
from gateway.ledger.standings.distribution import distribution_of
from gateway.ledger.standings.own_rollups import OwnStanding, rollup_without_bans
from gateway.ledger.standings.rollup_moves import borders_of
from gateway.ledger.standings.rollup_points import changes_due
from gateway.ledger.transaction import Query, Transaction
from gateway.settlement import bans as banning
from gateway.settlement.banned_players import BannedPlayers
from gateway.settlement.rollups import follow_change
from gateway.shared_records import ScoreDistribution
from policies.choices import Joins, RankKind, WindowKind
from policies.loader import Board
from policies.vocabulary import SCORE_LIMIT
from policies.windows import window_at, window_named
from tests.gateway import test_bans
from tests.gateway.test_bans import DAY_MS, SCOPES, TRACKS, Game, _turns, a_rollup, family
from tests.support import boards
from tests.support.banning import a_ban
from tests.support.ledger import NOON_MS
from tests.support.thorough import examples

OWN = "ada"
WHO = ("abe", OWN, "bob", "cyd", "dan", "eve")


@lru_cache(maxsize=32)
def tracks(operator: str, order: str, tie_break: str) -> dict[str, Board]:
    ties: dict[str, Any] = {
        "first": {},
        "fields": {"tie_break": "fields", "tie_fields": [{"stat": "moves"}]},
        "composite": {"tie_break": "composite", "tie_resolution_ms": 60_000},
    }
    kinds = {"windows": ["alltime", "daily", "weekly"], "ranks": ["unique", "sparse", "dense"]}
    with tempfile.TemporaryDirectory() as folder:
        score = {"minimum": -1000, "maximum": 1000}
        track = boards.board(
            Path(folder), operator=operator, order=order, score=score, **kinds, **ties[tie_break]
        )
    policy = track.policy.model_copy(update={"board": "track.a"})
    return {"track.a": dataclasses.replace(track, policy=policy)}


RULES = [
    *((operator, "first") for operator in ("best", "latest", "sum", "count")),
    *((operator, tie_break) for operator in ("best", "latest") for tie_break in ("fields", "composite")),
]
RUNS = st.lists(
    st.tuples(st.sampled_from(WHO), st.integers(-2, 2), st.integers(0, 1), st.integers(0, 1)),
    min_size=1,
    max_size=16,
)


def played(board: dict[str, Board], runs: list[tuple[str, int, int, int]], absent: str = "") -> Game:
    game = Game(board)
    for player, score, day, moves in runs:
        if player == absent:
            game.runs[f"run{len(game.runs)}"] = board["track.a"]  # so that other runs have the same names
        else:
            game.decide(game.play("track.a", player, score, day, moves), *_turns["verify"])
    return game


def reader_of(game: Game, own: str = "", window: str = "") -> BoardReader:
    board = game.tracks["track.a"]
    reader = BoardReader(BoardIndex(Redis(), board.ranking), game.books)  # type: ignore[arg-type]
    if own:
        work = standing_without_bans(board.ranking, own, window_named(board.policy, window))
        if standing := game.books.do(work).standing:
            return OwnReader.of(reader, own_entry(board.ranking, standing))
    return reader


def seen(page: Page) -> tuple[Any, ...]:
    """A page without the places, which have the numbers of a ledger's events."""
    return page.total, page.ahead, [dataclasses.astuple(entry)[:-1] for entry in page.entries]


async def everything(reader: BoardReader, window: str, kind: RankKind) -> Any:
    IS_AWAY.set(True)  # the ledger answers
    return seen((await reader.page(window, 0, 100, kind)).page)


async def views(reader: BoardReader, window: str, kind: RankKind) -> list[Any]:
    """All that can be read of a window: pages of every size from everywhere, both ways, and everybody's neighbours."""
    IS_AWAY.set(True)
    whole = (await reader.page(window, 0, 100, kind)).page
    pages = [seen(whole)]
    for count in (1, 3):
        pages += [seen((await reader.page(window, first, count, kind)).page) for first in range(8)]
        for entry in whole.entries:
            for is_behind, is_included in ((True, False), (True, True), (False, False), (False, True)):
                cut = Cut(entry.place, is_behind, is_included)
                pages.append(seen((await reader.page(window, cut, count, kind)).page))
    for radius in (0, 2):
        for player in (*WHO, "nobody"):
            around = (await reader.around(window, player, radius, kind)).page
            pages.append(seen(around) if around.entries else (around.total,))
    return pages


async def figures(reader: BoardReader, window: str) -> ScoreDistribution:
    """The distribution of a window: how many beat each score that there is, and the scores at shares of all."""
    scores, shares = range(-5, 6), (0, 1, 2500, 3333, 5000, 6667, 9999, 10_000)
    others: ScoreDistribution = await reader.ledger.read(
        distribution_of(reader.index.ranking, window, scores, shares), ReadKind.HEAVY
    )
    IS_AWAY.set(True)
    return (
        await reader.distribution(window, scores, shares, others) if isinstance(reader, OwnReader) else others
    )


@settings(max_examples=examples(25))
@given(
    runs=RUNS,
    rule=st.sampled_from(RULES),
    order=st.sampled_from(["ascending", "descending"]),
    kind=st.sampled_from(list(RankKind)),
    window_kind=st.sampled_from([WindowKind.ALLTIME, WindowKind.DAILY, WindowKind.WEEKLY]),
    day=st.integers(0, 1),
    later=st.booleans(),
)
@example(
    runs=[("abe", 1, 0, 0), (OWN, 1, 0, 0), ("bob", 0, 0, 0), ("cyd", 0, 0, 0), ("dan", -1, 0, 0)],
    rule=("best", "first"),
    order="descending",
    kind=RankKind.DENSE,
    window_kind=WindowKind.ALLTIME,
    day=0,
    later=False,
)
def test_the_banned_see_what_they_would_and_others_see_them_nowhere(
    runs: list[tuple[str, int, int, int]],
    rule: tuple[str, str],
    order: str,
    kind: RankKind,
    window_kind: WindowKind,
    day: int,
    later: bool,
):
    """In windows of each kind, for all rules of order; with a run under the ban, and somebody who is banned openly."""
    operator, tie_break = rule
    board = tracks(operator, order, tie_break)
    banned, twin, without = played(board, runs), played(board, runs), played(board, runs, absent=OWN)
    for game in (banned, twin, without) if later else ():
        asyncio.run(game.bench.ban(a_ban("other", "abe")))
    asyncio.run(banned.bench.ban(a_ban("one", OWN, is_shadow=True)))
    for game in (banned, twin) if later else ():
        game.decide(game.play("track.a", OWN, 1, 0), *_turns["verify"])
    window = window_at(board["track.a"].policy, window_kind, NOON_MS + day * DAY_MS).name
    own = asyncio.run(views(reader_of(banned, OWN, window), window, kind))
    assert own == asyncio.run(views(reader_of(twin), window, kind))
    seen_own, seen_twin = (
        asyncio.run(figures(reader, window)) for reader in (reader_of(banned, OWN, window), reader_of(twin))
    )
    assert seen_own == seen_twin
    everybody = [asyncio.run(everything(reader_of(game), window, kind)) for game in (banned, without)]
    assert everybody[0] == everybody[1]


@pytest.mark.parametrize("kind", RankKind)
@pytest.mark.parametrize("own", [3, 2, 1, 0, -1, -2, None])
def test_a_window_that_lacks_a_player_is_that_of_a_twin_without_them(own: int | None, kind: RankKind):
    """At its head, at its end, between two, beside equals on either side, and where the player is not in it."""
    board = tracks("best", "descending", "first")
    runs = [("abe", 2, 0, 0), ("bob", 1, 0, 0), ("cyd", 1, 0, 0), ("dan", -1, 0, 0), ("eve", -1, 0, 0)]
    runs[2:2] = [] if own is None else [(OWN, own, 0, 0)]
    whole, without = reader_of(played(board, runs)), reader_of(played(board, runs, absent=OWN))
    lacking: Any = LackingReader(whole, OWN, board["track.a"].ranking)
    seen_lacking, seen_without = (asyncio.run(views(each, "alltime", kind)) for each in (lacking, without))
    assert seen_lacking == seen_without


def test_an_own_view_reads_few_runs_and_never_more_than_its_limit(monkeypatch: pytest.MonkeyPatch):
    """For all time the best alone; a day's, and what a sum is of, up to a limit. Beyond it there is no own view."""
    runs = [(OWN, score, 0, 0) for score in range(4)]

    def read(operator: str, kind: WindowKind) -> tuple[bool, int]:
        board = tracks(operator, "descending", "first")
        game = played(board, runs)
        asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
        window = window_at(board["track.a"].policy, kind, NOON_MS)
        fold = game.books.do(standing_without_bans(board["track.a"].ranking, OWN, window))
        return fold.standing is not None, fold.runs

    wanted = {("best", WindowKind.ALLTIME): 2, ("best", WindowKind.DAILY): 5, ("sum", WindowKind.ALLTIME): 4}
    wanted[("latest", WindowKind.ALLTIME)] = 1
    for limit in (banned_folds.RUNS_LIMIT, len(runs)):
        monkeypatch.setattr(banned_folds, "RUNS_LIMIT", limit)
        assert {case: (True, runs) for case, runs in wanted.items()} == {case: read(*case) for case in wanted}
    monkeypatch.setattr(banned_folds, "RUNS_LIMIT", 3)
    assert [(True, 2), (False, 4), (False, 4), (True, 1)] == [read(*case) for case in wanted]


def test_who_still_stands_on_a_board_has_no_other_entry_of_their_own(monkeypatch: pytest.MonkeyPatch):
    """While their runs follow a ban, or its end, slice by slice: they see the entry that all see."""
    board = tracks("best", "descending", "first")
    game = played(board, [(OWN, 1, 0, 0), (OWN, 2, 0, 0)])
    window = window_named(board["track.a"].policy, "alltime")
    monkeypatch.setattr(banning, "SLICE", 1)
    game.books.do(banning.begin(a_ban("one", OWN, is_shadow=True)))
    found = []
    for _ in range(2):
        asyncio.run(game.bench.follower.step("one", now_ms=NOON_MS))
        found.append(game.books.do(standing_without_bans(board["track.a"].ranking, OWN, window)))
    assert (None, 0) == found[0]
    assert found[1].standing is not None


def test_on_a_board_for_those_who_joined_others_have_no_entry_of_their_own():
    """As nobody else's runs count there: a ban shows nobody what was never on the board."""
    board = tracks("best", "descending", "first")
    game, track = played(board, [(OWN, 1, 0, 0)]), board["track.a"]
    asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
    policy = track.policy.model_copy(update={"joins": Joins.REQUIRED})
    ranking, window = dataclasses.replace(track, policy=policy).ranking, window_named(policy, "alltime")
    assert (None, 0) == game.books.do(standing_without_bans(ranking, OWN, window))
    game.books.do(lambda tx: put_join(tx, "track.a", OWN, joins_now=True, actor="cli", at_ms=NOON_MS))
    assert game.books.do(standing_without_bans(ranking, OWN, window)).standing is not None


def test_an_own_entry_is_of_the_days_that_its_runs_are_of_and_has_its_players_name(
    monkeypatch: pytest.MonkeyPatch,
):
    """A run of the very first millisecond of a day is of that one, and not of the one that it ended."""
    midnight_ms = NOON_MS - DAY_MS // 2
    monkeypatch.setattr(test_bans, "NOON_MS", midnight_ms)
    board = tracks("best", "descending", "first")
    game = played(board, [(OWN, 1, 1, 0)])
    game.books.do(queries.add_player(OWN, "Ada", now_ms=midnight_ms))
    asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
    policy, found = board["track.a"].policy, []
    for day in (0, 1):
        window = window_at(policy, WindowKind.DAILY, midnight_ms + day * DAY_MS)
        found.append(game.books.do(standing_without_bans(board["track.a"].ranking, OWN, window)).standing)
    assert (None, "Ada", 1) == (found[0], found[1].name, found[1].score)


@pytest.mark.parametrize("operator", ["best", "latest", "count"])
def test_an_own_view_of_scores_that_sqlite_cannot_sum(operator: str):
    """The largest score, a thousand times and more: nobody sums them on boards that do not."""
    board = tracks(operator, "descending", "first")
    game = played(board, [(OWN, 1, 0, 0)])
    asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
    runs, scores = 1_100, submissions.c.score.name

    async def repeat(tx: Transaction) -> None:
        [row] = await tx.rows(Query(select(submissions)))
        facts = dict(zip(submissions.columns.keys(), row, strict=True)) | {scores: SCORE_LIMIT}
        for number in range(1, runs):
            facts |= {"seq": 1000 + number, "submission_id": f"again{number}"}
            await tx.insert(submissions, [tuple(facts.values())])

    game.books.do(repeat)
    for kind in (WindowKind.ALLTIME, WindowKind.DAILY):
        window = window_at(board["track.a"].policy, kind, NOON_MS)
        standing = game.books.do(standing_without_bans(board["track.a"].ranking, OWN, window)).standing
        assert standing.score == (runs if operator == "count" else SCORE_LIMIT)


@pytest.mark.parametrize("limit", [1, 2])
def test_tie_fields_of_the_first_equal_runs_decide(limit: int, monkeypatch: pytest.MonkeyPatch):
    """Each row is read whole, so there is a limit."""
    board = tracks("best", "descending", "fields")
    game = played(board, [(OWN, 1, 0, 0), (OWN, 1, 0, 1)])
    asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
    monkeypatch.setattr(banned_folds, "TIED_LIMIT", limit)
    window = window_at(board["track.a"].policy, WindowKind.ALLTIME, NOON_MS)
    fold = game.books.do(standing_without_bans(board["track.a"].ranking, OWN, window))
    assert (f"run{limit - 1}", 1 + limit) == (fold.standing.submission_id, fold.runs)


def test_a_feed_asks_whether_its_listener_is_banned_before_it_tells_that_they_are_gone():
    """Its edge may not have heard of the ban; to others it tells of it."""
    game = played(tracks("best", "descending", "first"), [(OWN, 1, 0, 0)])
    asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
    edge: Any = SimpleNamespace(banned=BannedPlayers(game))  # type: ignore[arg-type]
    gone = StandingChange("1-0", 1, "alltime", OWN, "Ada", "run0", None, RankedPlace(-1, OWN, 1), None, 1)
    fell = FeedEvent(EventKind.RANK, "1-0", player=OWN, rank=None, was_rank=1)
    events = [FeedEvent(EventKind.STANDING, "1-0", gone), fell, FeedEvent(EventKind.BEGIN, "0-0")]
    board = game.tracks["track.a"]
    told = {who: asyncio.run(without_own(edge, board, who, events)) for who in ("", "bob", OWN)}
    assert {"": events, "bob": events, OWN: events[2:]} == told

    async def batches(who: str) -> list[list[FeedEvent]]:
        async def each() -> AsyncIterator[list[FeedEvent]]:
            for event in events:
                yield [event]

        feed: Any = SimpleNamespace(events=each())
        return [batch async for batch in with_heartbeats(edge, board, feed, listener=who)]

    # Not even a heartbeat, which comes only where nothing happened for a while.
    assert [[events[2:]], [[event] for event in events]] == [
        asyncio.run(batches(who)) for who in (OWN, "bob")
    ]


ROLLUP_RUNS = st.lists(
    st.tuples(st.sampled_from(TRACKS), st.sampled_from(WHO), st.integers(-2, 2), st.integers(0, 1)),
    min_size=1,
    max_size=14,
)


def played_in_family(tracks: dict[str, Board], runs: list[tuple[str, str, int, int]]) -> Game:
    game = Game(tracks)
    for track, player, score, day in runs:
        game.decide(game.play(track, player, score, day), *_turns["verify"])
    return game


def reader_of_rollup(game: Game, rollup: Board, window: str, scope: str | None = None) -> BoardReader:
    reader = BoardReader(BoardIndex(Redis(), rollup.ranking), game.books)  # type: ignore[arg-type]
    own = None if scope is None else own_of(game, rollup, window, scope)
    return reader if own is None else reader_with(reader, own)


def own_of(game: Game, rollup: Board, window: str, scope: str) -> OwnStanding:
    found: OwnStanding = game.books.do(
        rollup_without_bans(
            rollup.ranking,
            lambda name: game.tracks[name].ranking,
            OWN,
            window_named(rollup.policy, window),
            hides=a_ban("one", OWN, scope).covers,
        )
    )
    return found


@settings(max_examples=examples(8))
@given(
    runs=ROLLUP_RUNS,
    take=st.sampled_from(["sum", "best", "count"]),
    scope=st.sampled_from(SCOPES),
    kind=st.sampled_from(list(RankKind)),
    window_kind=st.sampled_from([WindowKind.ALLTIME, WindowKind.SEASON]),
)
@example(
    runs=[("track.a", OWN, 2, 0), ("track.b", OWN, -1, 0), *(("track.a", who, 1, 0) for who in WHO[2:5])],
    take="sum",
    scope="track.b",
    kind=RankKind.DENSE,
    window_kind=WindowKind.ALLTIME,
)
def test_on_rollups_the_banned_see_what_they_would(
    runs: list[tuple[str, str, int, int]], take: str, scope: str, kind: RankKind, window_kind: WindowKind
):
    """Also where everybody sees something of them still, from the boards that a ban does not reach."""
    tracks = family("best", "descending", ties=False)
    [rollup] = [each for each in tracks["track.a"].rollups if each.name == f"all-{take}"]
    banned, twin = played_in_family(tracks, runs), played_in_family(tracks, runs)
    asyncio.run(banned.bench.ban(a_ban("one", OWN, scope, is_shadow=True)))
    window = window_at(rollup.policy, window_kind, NOON_MS).name
    own, free = reader_of_rollup(banned, rollup, window, scope), reader_of_rollup(twin, rollup, window)
    assert asyncio.run(views(own, window, kind)) == asyncio.run(views(free, window, kind))
    assert asyncio.run(figures(own, window)) == asyncio.run(figures(free, window))


def test_a_look_at_a_rollup_that_finds_nothing_says_what_it_cost():
    """It folded each board that the ban reaches, for the window of a season in which nobody played."""
    tracks = family("best", "descending", ties=False)
    game = played_in_family(tracks, [(track, OWN, 1, 0) for track in TRACKS])
    asyncio.run(game.bench.ban(a_ban("one", OWN, is_shadow=True)))
    [rollup] = [each for each in tracks["track.a"].rollups if each.name == "all-sum"]
    later = window_at(rollup.policy, WindowKind.SEASON, NOON_MS + 100 * DAY_MS).name
    assert OwnStanding(None, None, folds=2, runs=0) == own_of(game, rollup, later, "")


@pytest.mark.parametrize(
    "given", [{"points": [9, 4, 1]}, {"percentiles": [{"at": 82, "points": 5}, {"at": 20, "points": 2}]}]
)
def test_on_rollups_of_points_the_banned_have_those_of_their_own_rank(given: dict[str, Any]):
    """As a twin has who was never banned; those of others are what everybody sees."""
    rollup = a_rollup("points", **given)
    tracks = {
        name: dataclasses.replace(board, rollups=(rollup,))
        for name, board in family("best", "descending", ties=False).items()
    }
    runs = [("track.a", who, -behind, 0) for behind, who in enumerate(WHO)] + [("track.b", OWN, 1, 0)]
    banned, twin = played_in_family(tracks, runs), played_in_family(tracks, runs)
    asyncio.run(banned.bench.ban(a_ban("one", OWN, "track.a", is_shadow=True)))
    for game in (banned, twin):
        while due := game.books.do(changes_due(10)):
            for change in due:
                ranking = tracks[change.board].ranking
                [wanted] = game.books.do(borders_of(rollup.ranking, [(ranking, change.window)]))
                game.books.do(follow_change(rollup, ranking, change, wanted, at_ms=NOON_MS))
    own = own_of(banned, rollup, "alltime", "track.a")
    [score] = [row[3] for row in twin.standings() if row[:3] == ("all-points", "alltime", OWN)]
    assert own.standing is not None
    assert own.standing.score == score > (own.public.score if own.public and own.public.score else 0)
