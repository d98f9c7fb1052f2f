"""Rollups of every kind beside SUM, COUNT, MIN, MAX, ROW_NUMBER and CUME_DIST of SQL, whatever happens on the boards."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.ledger import Ledger
from gateway.ledger.queries import newest_seq
from gateway.ledger.standings import rollup_borders, rollup_points
from gateway.ledger.standings.rollup_history import rollup_as_of
from gateway.ledger.standings.rollup_points import RollupChange, note_change
from gateway.ledger.transaction import Transaction
from gateway.settlement import rollups as settling
from gateway.settlement.decision_records import Decision
from gateway.settlement.rollups import note_deletions
from gateway.settlement.settle import settle
from gateway.steward import rollups as keeping
from gateway.steward.archive import refold, refold_points
from gateway.steward.archive.refold import refold_board
from gateway.steward.failures import Failures
from gateway.steward.rollups import RollupKeeper
from policies.loader import Board
from policies.model import Policy
from policies.opened_board import BoardState, OpenedBoard
from policies.ranking import Ranking
from policies.readable_windows import readable_windows
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere
from tests.support.stores import PostgresStore, SqliteStore, Store, open_in
from tests.support.thorough import IS_THOROUGH, examples

MONTH_MS = 31 * 86_400_000
SEASONS = {"windows": ["alltime", "season"], "season": "0 0 1 * *"}
TERMS = FamilyTerms("track", "sha256:track")
TRACKS = ("track.a", "track.b", "track.c")
PLAYERS = ("ada", "bob", "cyd", "dot", "eve")
SCALE = (10, 6, 3)
PERCENTILES = ((99, 40), (66.67, 20), (50, 15), (0, 1))
TAKES: dict[str, dict[str, Any]] = {
    "sum": {},
    "best": {},
    "count": {},
    "points": {"points": list(SCALE)},
    "percentiles": {"percentiles": [{"at": at, "points": points} for at, points in PERCENTILES]},
}
FIRST, COMPOSITE = ("descending", "first"), ("ascending", "composite")
AT_ONCE = 2
"""Players in one transaction, so that a few are several slices."""


@lru_cache(maxsize=4)
def family(order: str, tie_break: str) -> dict[str, Board]:
    """The boards of a family, each with a rollup of every kind."""
    rollups = []
    for take, points in TAKES.items():
        rollup = {"family": "track", "take": "points" if points else take, **points}
        policy = {"board": f"all-{take}", "title": take, "order": order, "rollup": rollup} | SEASONS
        rollups.append(Board(Policy.model_validate(policy), f"sha256:{take}", {}))
    with tempfile.TemporaryDirectory() as folder:
        score = {"minimum": -100, "maximum": 100}
        resolved = {"tie_resolution_ms": 1000} if tie_break == "composite" else {}
        track = boards.board(
            Path(folder), order=order, score=score, tie_break=tie_break, **resolved, **SEASONS
        )
    return {
        name: dataclasses.replace(
            track, policy=track.policy.model_copy(update={"board": name}), rollups=tuple(rollups)
        )
        for name in TRACKS
    }


class DiedError(Exception):
    """The process ends here."""


class Dying:
    """A ledger of a process that dies after some writes."""

    def __init__(self, ledger: Ledger, writes: int) -> None:
        self._ledger = ledger
        self._writes = writes

    async def read(self, work: Any, *_: Any) -> Any:
        return await self._ledger.read(work)

    async def write(self, work: Any) -> Any:
        if not self._writes:
            raise DiedError
        self._writes -= 1
        return await self._ledger.write(work)


class Season:
    """A family on a ledger, two stewards, and what happens there."""

    def __init__(self, store: Store, ledger: Ledger, tracks: dict[str, Board]) -> None:
        self.store = store
        self.ledger = ledger
        self.tracks = tracks
        self.rollups = {rollup.name: rollup for rollup in tracks["track.a"].rollups}
        self.runs: dict[str, str] = {}
        self.counting: set[str] = set()
        self.is_known = True
        self.clock = lambda: NOON_MS + MONTH_MS + 60_000
        self.family: Any = SimpleNamespace(
            name="track",
            template=tracks["track.a"].policy,
            ranking_of=lambda name: tracks.get(name, tracks["track.a"]).ranking,
        )
        catalogue: Any = SimpleNamespace(board=self.board, families={"track": self.family})
        self.failures = Failures()
        self.stewards = [
            RollupKeeper(ledger, Nowhere(), catalogue, self.failures, clock=self.clock) for _ in range(2)
        ]

    async def board(self, name: str) -> Board | None:
        return self.tracks.get(name) or self.rollups.get(name)

    async def open(self) -> None:
        batch = [OpenedBoard(name, "track", name) for name in TRACKS]
        await self.ledger.write(open_boards(TERMS, batch, actor="cli", at_ms=NOON_MS))

    async def play(self, track: str, player: str, score: int, month: int) -> None:
        name = f"run-{len(self.runs)}"
        at_ms = NOON_MS + month * MONTH_MS + len(self.runs) % 3
        facts = {"player": player, "score": score, "at_ms": at_ms, "recording": None}
        await self.ledger.append(new_submission(name, board=track, **facts))
        self.runs[name] = track

    async def score(self, track: str, player: str, score: int, month: int) -> None:
        """A run that counts at once."""
        await self.play(track, player, score, month)
        await self.turn(len(self.runs) - 1)

    async def turn(self, *numbers: int) -> None:
        """Promote runs of one board, or revoke those that count, in one transaction."""
        names = [f"run-{number}" for number in dict.fromkeys(numbers) if f"run-{number}" in self.runs]
        names = [name for name in names if self.runs[name] == self.runs[names[0]]]
        if not names:
            return
        board = self.tracks[self.runs[names[0]]]
        decisions = [
            Decision(
                name,
                State.REVOKED if name in self.counting else State.PROMOTED,
                "replay",
                Reason.VERIFIED,
                NOON_MS + 1,
                frozenset(State),
            )
            for name in names
        ]
        known = board if self.is_known else dataclasses.replace(board, rollups=())
        await settle(self.ledger, Nowhere(), known, decisions)
        self.counting ^= set(names)

    async def delete(self, name: str) -> None:
        rollups = tuple(self.rollups.values())

        async def work(tx: Transaction) -> None:
            await set_states(TERMS, [name], BoardState.DELETED, actor="cli", at_ms=NOON_MS)(tx)
            await note_deletions(tx, rollups, {name: await newest_seq()(tx)})

        await self.ledger.write(work)

    async def close(self, name: str) -> None:
        states = set_states(TERMS, [name], BoardState.CLOSED, actor="cli", at_ms=NOON_MS)
        await self.ledger.write(states)

    async def keep(self) -> None:
        """A round of both stewards at once."""
        await asyncio.gather(*(steward.step() for steward in self.stewards))

    async def forget(self) -> None:
        """A process that does not know the rollups yet decides from now on, until they are folded anew."""
        self.is_known = False

    async def refold(self, writes: int) -> None:
        """Fold each rollup anew; the first attempt dies on its way, and what it leaves is consistent."""
        for rollup in self.rollups.values():
            try:
                await self._refold(Dying(self.ledger, writes), rollup)
            except DiedError:
                await self.assert_points_are_the_sums()
            await self._refold(self.ledger, rollup)
        self.is_known = True

    async def _refold(self, ledger: Any, rollup: Board) -> None:
        await refold_board(ledger, rollup.policy, clock=self.clock, tell=lambda _: None, family=self.family)

    async def settled(self) -> None:
        """Both stewards have followed all that changed."""
        while sum([await steward.step() for steward in self.stewards]):
            pass

    async def standings(self, rollup: str) -> set[tuple[Any, ...]]:
        rows = await self.store.sql(
            'SELECT "window", player, score, achieved_at_ms, achieved_seq, submission_id FROM standings '
            f"WHERE board = '{rollup}' AND score IS NOT NULL"
        )
        return {tuple(row) for row in rows}

    async def from_events(self, rollup: str) -> set[tuple[Any, ...]]:
        """The same by the events alone, in all windows."""
        found = set()
        policy, now_ms = self.rollups[rollup].policy, self.clock()
        for window in readable_windows(policy, now_ms):
            past = await rollup_as_of(self.ledger, Ranking(policy), self.family, window, now_ms)
            found |= {(window.name, *standing[:-1]) for standing in past}
        return found

    async def assert_points_are_the_sums(self) -> None:
        """The points that are stored are those that players stand with, however far somebody has come."""
        for rollup in ("all-points", "all-percentiles"):
            rows = await self.store.sql(
                f"SELECT \"window\", player, sum(points) FROM rollup_points WHERE rollup = '{rollup}' "
                'GROUP BY "window", player'
            )
            found = {row[:3] for row in await self.standings(rollup)}
            assert {(window, player, int(points)) for window, player, points in rows} == found

    async def assert_points_are_those_of_borders(self) -> None:
        """Those ahead of a stored border have its points, and nobody else, however far it has come."""
        rows = await self.store.sql("SELECT board, \"window\", borders FROM rollup_borders WHERE rule != ''")
        due = set()
        for board, window, borders in rows:
            standings = await self.store.sql(
                "SELECT player, order_value, member FROM standings WHERE score IS NOT NULL "
                f"AND board = '{board}' AND \"window\" = '{window}'"
            )
            behind = {int(share): tuple(place) for share, place in json.loads(borders).items()}
            for player, *place in standings:
                ahead = [points for at, points in PERCENTILES if tuple(place) < behind[round(at * 100)]]
                due |= {(board, window, player, max(ahead))} if ahead else set()
        given = "SELECT board, \"window\", player, points FROM rollup_points WHERE rollup = 'all-percentiles'"
        assert due == {tuple(row) for row in await self.store.sql(given)}

    async def expected(self, rollup: str) -> set[tuple[Any, ...]]:
        """What SQL says of the standings on the boards that are not deleted."""
        rows = await self.store.sql(_statement(rollup, self.rollups[rollup].policy.order.value))
        return {(*row[:2], int(row[2]), *row[3:]) for row in rows}


def _statement(rollup: str, order: str) -> str:
    """The oracle of a rollup, in the words of SQL alone."""
    best, worst = ("DESC", "ASC") if order == "descending" else ("ASC", "DESC")
    in_slot, last = 'PARTITION BY "window", player', "achieved_at_ms DESC, achieved_seq DESC"
    take = rollup.removeprefix("all-")
    tiers = "".join(
        f" WHEN 10000 * not_better >= {round(at * 100)} * total THEN {points}" for at, points in PERCENTILES
    )
    ranks = "".join(f" WHEN place = {place} THEN {points}" for place, points in enumerate(SCALE, start=1))
    share = {"points": f"CASE{ranks} END", "percentiles": f"CASE{tiers} END"}.get(take, "score")
    value = {"best": "share", "count": f"count(*) OVER ({in_slot})"}.get(take, f"sum(share) OVER ({in_slot})")
    newest = f"share {best}, achieved_at_ms, achieved_seq" if take == "best" else last
    return f"""
        WITH counting AS (
          SELECT standings.*,
            row_number() OVER (PARTITION BY board, "window" ORDER BY order_value, member) AS place,
            count(*) OVER (PARTITION BY board, "window" ORDER BY score {worst}) AS not_better,
            count(*) OVER (PARTITION BY board, "window") AS total
          FROM standings WHERE board LIKE 'track.%' AND score IS NOT NULL
            AND board NOT IN (SELECT board FROM boards WHERE state = 'deleted')
        ), shares AS (SELECT *, {share} AS share FROM counting)
        SELECT "window", player, value, achieved_at_ms, achieved_seq, submission_id FROM (
          SELECT *, {value} AS value, row_number() OVER ({in_slot} ORDER BY {newest}) AS n
          FROM shares WHERE share IS NOT NULL
        ) AS found WHERE n = 1"""


_tracks, _runs = st.sampled_from(TRACKS[:2]), st.integers(0, 20)
_run = (_tracks, st.sampled_from(PLAYERS), st.integers(-3, 3), st.integers(0, 1))
_turn = st.tuples(st.just("turn"), _runs, _runs)
STEPS = st.lists(
    st.one_of(
        *3 * [st.tuples(st.just("score"), *_run)],
        st.tuples(st.just("play"), *_run),
        *2 * [_turn],
        st.tuples(st.just("keep")),
        st.tuples(st.sampled_from(["delete", "close"]), st.sampled_from(TRACKS)),
        st.tuples(st.just("forget")),
        st.tuples(st.just("refold"), st.integers(0, 9)),
    ),
    max_size=16,
)
BEGINNING: list[tuple[Any, ...]] = [
    *(("score", "track.a", player, score, 0) for score, player in enumerate(PLAYERS)),
    ("settled",),
    ("score", "track.a", "ada", 4, 0),  # a tie at a border, and past others that stay
    *(("score", "track.c", player, score, 0) for score, player in enumerate(PLAYERS)),
    ("settled",),
    ("delete", "track.c"),
    ("settled",),
    ("forget",),
    *(("score", "track.b", player, -score, 0) for score, player in enumerate(PLAYERS)),
    ("refold", 2),
    ("forget",),
    ("score", "track.b", "ada", 0, 0),  # another run, and no border moves
    ("score", "track.b", "eve", 3, 0),  # ahead of all, and borders move past others only
    ("turn", 12),  # a run that counts no more
    ("refold", 1),
]
"""Every kind of change once, with enough players for several slices. What follows is any."""

LEFT_UNSEEN = [
    ("score", "track.a", "ada", 0, 0), ("play", "track.a", "ada", 0, 1), ("score", "track.a", "ada", 0, 0),
    ("turn", 0, 19), ("forget",), ("turn", 0, 19),
]  # fmt: skip
"""The last run of a player in a window is revoked by a process that does not know the rollups."""


@contextmanager
def small_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (rollup_points, rollup_borders, refold_points):
            patch.setattr(module, "MOVES", AT_ONCE)
        patch.setattr(settling, "PLAYERS", AT_ONCE)
        patch.setattr(refold, "PLAYERS", AT_ONCE)
        yield


@pytest.mark.parametrize(
    ("database_server", "order", "tie_break"),
    [("sqlite", *FIRST), ("sqlite", *COMPOSITE), ("postgres", *COMPOSITE)],
    indirect=["database_server"],
)
def test_rollups_are_what_sql_says(database_server: Any, tmp_path_factory: Any, order: str, tie_break: str):
    """Sums at once, points after the stewards' rounds; under revocations, deletions, and folds that were killed."""
    new_seasons = partial(_on_a_new_ledger, database_server, tmp_path_factory, family(order, tie_break))

    # The statements are the same on either database: an ordinary run searches on one of them.
    phases = Phase if IS_THOROUGH or database_server is None else [Phase.explicit]

    @settings(deadline=None, max_examples=examples(2), phases=phases)
    @given(STEPS)
    @example(LEFT_UNSEEN)
    def check(steps: list[tuple[Any, ...]]) -> None:
        uvloop.run(new_seasons(BEGINNING, steps))

    with small_slices():
        uvloop.run(new_seasons([], BEGINNING))
        check()


async def _on_a_new_ledger(server: Any, folders: Any, tracks: dict[str, Board], *steps: list[Any]) -> None:
    if server is None:
        await _happen(SqliteStore(folders.mktemp("ledger") / "ledger.sqlite3"), tracks, *steps)
        return
    async with server.database() as name:
        await _happen(PostgresStore(server, name), tracks, *steps)


async def _happen(store: Store, tracks: dict[str, Board], before: list[Any], steps: list[Any]) -> None:
    """Take all steps, and compare after each that comes after those before."""
    async with open_in(store) as ledger:
        season = Season(store, ledger, tracks)
        await season.open()
        for kind, *rest in before:
            await getattr(season, kind)(*rest)
        deleted = {name for kind, *rest in before if kind == "delete" for name in rest}
        for kind, *rest in steps:
            await getattr(season, kind)(*rest)
            deleted |= set(rest) if kind == "delete" else set()
            if season.is_known:
                await season.assert_points_are_the_sums()
                await season.assert_points_are_those_of_borders()
                if not deleted:
                    for take in ("all-sum", "all-best", "all-count"):
                        assert await season.expected(take) == await season.standings(take)
        if not season.is_known:
            await season.refold(0)
        await season.settled()
        for rollup in season.rollups:
            standings = await season.standings(rollup)
            assert await season.expected(rollup) == standings, rollup
            assert await season.from_events(rollup) == standings, rollup
        assert [] == await store.sql("SELECT * FROM rollup_changes")


async def test_a_window_that_fails_keeps_no_rollup_from_following_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is named and stays noted; one of seasons that the policy had earlier is of no use to anybody."""
    earlier, failing = "season:202601150000", {"track.a"}
    follow = keeping.follow_change

    def follow_unless_failing(
        rollup: Board, board: Ranking, change: RollupChange, *more: Any, **rest: Any
    ) -> Any:
        if change.board in failing:
            raise ArithmeticError(change.board)
        return follow(rollup, board, change, *more, **rest)

    monkeypatch.setattr(keeping, "follow_change", follow_unless_failing)
    store = SqliteStore(tmp_path / "ledger.sqlite3")
    async with open_in(store) as ledger:
        season = Season(store, ledger, family("descending", "first"))
        await season.open()
        for take in ("all-points", "all-sum"):
            change = RollupChange(take, "track.a", earlier, 1)
            await ledger.write(lambda tx, change=change: note_change(tx, change))
        await season.score("track.a", "ada", 3, 0)
        await season.score("track.b", "bob", 2, 0)
        await season.settled()
        left = await store.sql("SELECT DISTINCT board FROM rollup_changes")
        assert ([("track.a",)], ("roll_up:track.a",)) == (left, season.failures.now())
        assert [] == await store.sql(f"SELECT * FROM rollup_changes WHERE \"window\" = '{earlier}'")
        assert {("bob", 10)} == {standing[1:3] for standing in await season.standings("all-points")}
        failing.clear()
        await season.settled()
        assert await season.expected("all-points") == await season.standings("all-points")
        assert () == season.failures.now()
