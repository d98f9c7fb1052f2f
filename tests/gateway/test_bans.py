"""Bans leave no trace: what a ban takes off, its end brings back as it was, whatever was decided meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.ledger.moderation import bans
from gateway.settlement import bans as banning
from gateway.settlement.case_decisions import has_stake
from gateway.settlement.case_history import appeal_until_ms, message_to_player
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, receive
from gateway.shared_records import Change
from policies.errors import StateConflict
from policies.loader import Board
from policies.model import Policy
from policies.vocabulary import Claim, Reason, State
from tests.support import boards
from tests.support.banning import Bench, a_ban
from tests.support.books import Books
from tests.support.ledger import NOON_MS, new_submission
from tests.support.thorough import examples

DAY_MS = 86_400_000
TRACKS = ("track.a", "track.b")
SCOPES = ("", "track", "track.a", "track.b")
WHO = ("ada", "bob", "cyd")


def a_rollup(take: str, **given: object) -> Board:
    rollup = {"family": "track", "take": take, **given}
    policy = {
        "board": f"all-{take}",
        "title": take,
        "season": "0 0 1 * *",
        "rollup": rollup,
        "windows": ["alltime", "season"],
    }
    return Board(Policy.model_validate(policy), f"sha256:{take}", {})


@lru_cache(maxsize=16)
def family(operator: str, order: str, *, ties: bool) -> dict[str, Board]:
    """The boards of a family with rollups, folded so."""
    with tempfile.TemporaryDirectory() as folder:
        score = {"minimum": -1000, "maximum": 1000}
        fields = {"tie_break": "fields", "tie_fields": [{"stat": "moves"}]} if ties else {}
        windows = {"windows": ["alltime", "daily", "season"], "season": "0 0 1 * *"}
        track = boards.board(Path(folder), operator=operator, order=order, score=score, **windows, **fields)
    rollups = tuple(a_rollup(take) for take in ("sum", "best", "count")) if order == "descending" else ()
    return {
        name: dataclasses.replace(
            track, policy=track.policy.model_copy(update={"board": name}), rollups=rollups
        )
        for name in TRACKS
    }


class Game:
    """A ledger in memory with runs on the boards of a family."""

    def __init__(self, tracks: dict[str, Board]) -> None:
        self.tracks = tracks
        self.books = Books(tracks["track.a"])
        self.runs: dict[str, Board] = {}
        self.bench = Bench(self, tracks, self)
        self.shown: list[Change] = []

    async def read(self, work: Any, _: object = None) -> Any:
        return self.books.do(work)

    async def write(self, work: Any) -> Any:
        return self.books.do(work)

    async def project(self, _: Board, changes: Any) -> None:
        self.shown += changes

    def play(self, track: str, player: str, score: int, day: int, moves: int = 0) -> str:
        name = f"run{len(self.runs)}"
        at_ms = NOON_MS + day * DAY_MS + len(self.runs) % 3
        new = new_submission(name, player=player, at_ms=at_ms, score=score, recording=None)
        run = new.submission._replace(claim=Claim(score, 1, {"moves": moves}), board=track)
        self.books.do(lambda tx: receive(tx, new._replace(submission=run)))
        self.runs[name] = self.tracks[track]
        return name

    def decide(self, name: str, from_state: State, to_state: State, reason: Reason) -> bool:
        decision = Decision(name, to_state, "replay", reason, NOON_MS + 1, frozenset({from_state}))
        [outcome], _ = self.books.do(_decide_all(self.runs[name], [decision]))
        assert isinstance(outcome, Change | StateConflict)
        return isinstance(outcome, Change)

    def ban(self, ban_id: str, player: str, scope: str = "") -> bans.Ban:
        return asyncio.run(self.bench.ban(a_ban(ban_id, player, scope)))

    def unban(self, ban_id: str) -> bans.Ban:
        return asyncio.run(self.bench.unban(ban_id))

    def state_of(self, name: str) -> tuple[str, str]:
        [row] = self.books.rows(f"SELECT state, reason FROM submissions WHERE submission_id = '{name}'")
        return row

    def states(self) -> list[tuple[Any, ...]]:
        return self.books.rows("SELECT submission_id, state, reason FROM submissions ORDER BY submission_id")

    def standings(self) -> list[tuple[Any, ...]]:
        """What stands, in the order of each window. Numbers of events differ from those of another ledger."""
        return self.books.rows(
            'SELECT board, "window", player, score, achieved_at_ms, submission_id, order_value FROM standings '
            'WHERE score IS NOT NULL ORDER BY board, "window", order_value, member'
        )

    def baselines(self) -> list[tuple[Any, ...]]:
        return self.books.rows(
            "SELECT board, player, count, total, total_of_squares, lowest, highest FROM baselines "
            "WHERE count > 0 ORDER BY board, player"
        )


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch):
    """A few submissions are several slices."""
    monkeypatch.setattr(banning, "SLICE", 3)
    monkeypatch.setattr(bans, "PAGE", 2)


_turns = {
    "verify": (State.PENDING, State.PROMOTED, Reason.VERIFIED),
    "sample": (State.PENDING, State.PROMOTED, Reason.SAMPLED),
    "recheck": (State.PROMOTED, State.PROMOTED, Reason.VERIFIED),
    "hold": (State.PENDING, State.HELD, Reason.ANOMALY_PLAYER),
    "approve": (State.HELD, State.PROMOTED, Reason.APPROVED),
    "reject": (State.HELD, State.REJECTED, Reason.REJECTED_BY_MODERATOR),
    "revoke": (State.PROMOTED, State.REVOKED, Reason.REVOKED_BY_MODERATOR),
    "reinstate": (State.REVOKED, State.PROMOTED, Reason.REINSTATED),
}
_plays = st.tuples(
    st.just("play"),
    st.sampled_from(TRACKS),
    st.sampled_from(WHO),
    st.integers(-3, 3),
    st.integers(0, 2),
    st.integers(0, 2),
)
_decisions = st.tuples(st.sampled_from(["verify", *_turns]), st.integers(0, 9))
_bans = st.tuples(st.just("ban"), st.sampled_from(WHO[:2]), st.sampled_from(SCOPES))
_unbans = st.tuples(st.just("unban"), st.integers(0, 5))
_histories = st.lists(st.one_of(_plays, _plays, _decisions, _decisions, _bans, _unbans), max_size=40)


def covered(in_force: dict[str, tuple[str, str]], player: str, board: str) -> bool:
    return any(who == player and scope in ("", board, "track") for who, scope in in_force.values())


@pytest.mark.parametrize("order", ["descending", "ascending"])
@pytest.mark.parametrize("operator", ["best", "latest", "sum", "count"])
@settings(max_examples=examples(40), deadline=None)
@given(history=_histories, data=st.data())
def test_bans_leave_no_trace_beside_a_ledger_without_them(
    operator: str, order: str, history: list[tuple[Any, ...]], data: st.DataObject
):
    """While bans are in force, what they cover does not stand; once they ended, all is as if there had been none."""
    tracks = family(operator, order, ties=operator == "best" and order == "descending")
    banned, free = Game(tracks), Game(tracks)
    in_force: dict[str, tuple[str, str]] = {}
    for number, (what, *how) in enumerate(history):
        if what == "play":
            assert banned.play(*how) == free.play(*how)
        elif what == "ban":
            ban_id = f"ban{number}"
            banned.ban(ban_id, *how)
            in_force[ban_id] = tuple(how)
        elif what == "unban" and in_force:
            ban_id = sorted(in_force)[how[0] % len(in_force)]
            banned.unban(ban_id)
            del in_force[ban_id]
        elif what in _turns and banned.runs:
            name = sorted(banned.runs)[how[0] % len(banned.runs)]
            if what == "recheck" and banned.state_of(name) == ("revoked", "banned"):
                continue  # it stays unverified meanwhile
            assert banned.decide(name, *_turns[what]) is free.decide(name, *_turns[what])
        stands = [row for row in banned.standings() if row[0] in TRACKS]
        assert stands == [
            row for row in free.standings() if row[0] in TRACKS and not covered(in_force, row[2], row[0])
        ]
    for ban_id in data.draw(st.permutations(sorted(in_force))):
        banned.unban(ban_id)
    assert banned.standings() == free.standings()
    assert banned.baselines() == free.baselines()
    assert banned.states() == free.states()


def a_game() -> Game:
    return Game(family("best", "descending", ties=False))


def test_what_is_revoked_during_a_ban_stays_away_after_it():
    """By a moderator, a server or a key's quarantine: the submission is as one that counts to all of them."""
    game = a_game()
    run = game.play("track.a", "ada", 3, 0)
    game.decide(run, *_turns["verify"])
    game.ban("one", "ada")
    assert game.decide(run, *_turns["revoke"])
    game.unban("one")
    assert ("revoked", "revoked-by-moderator") == game.state_of(run)
    assert [] == game.standings()


def test_what_cannot_be_read_any_more_stays_away_after_a_ban_and_holds_up_nothing():
    """The bad row costs its own run, and what else the player has comes back."""
    game = a_game()
    runs = [game.play("track.a", "ada", score, 0) for score in (3, 4)]
    for run in runs:
        game.decide(run, *_turns["verify"])
    game.ban("one", "ada")
    triggers = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'submissions'"
    for (name,) in game.books.rows(triggers):
        game.books.rows(f'DROP TRIGGER "{name}"')
    game.books.rows(f"UPDATE submissions SET stats = '[]' WHERE submission_id = '{runs[1]}'")
    assert game.unban("one").seen_seq is None
    assert [("promoted", "verified"), ("revoked", "record-unreadable")] == [
        game.state_of(each) for each in runs
    ]


def test_what_counts_unverified_does_so_again_after_a_ban_and_convicts_nobody():
    """Nothing else of the player is put up for verification, and what was sampled is not said to be verified."""
    game = a_game()
    runs = [game.play("track.a", "ada", 3, day) for day in range(banning.SLICE + 1)]
    for run in runs:
        game.decide(run, *_turns["sample"])
    game.books.do(banning.begin(a_ban("one", "ada", "track.a")))
    assert asyncio.run(game.bench.follower.step("one", now_ms=NOON_MS))
    assert [] == game.books.rows("SELECT kind FROM outbox WHERE kind <> 'project'")
    game.unban("one")
    game.ban("two", "ada")
    game.unban("two")
    assert {("promoted", "sampled")} == {game.state_of(run) for run in runs}
    assert [] == queued(game)


def test_a_player_cannot_appeal_against_a_ban_nor_reads_that_a_banned_run_counts():
    """Though the moderator who approved the run while they were banned is the actor of its revocation."""
    game = a_game()
    run = game.play("track.a", "ada", 3, 0)
    game.decide(run, *_turns["hold"])
    game.ban("one", "ada")
    said, held = {"message": "It counts."}, frozenset({State.HELD})
    approval = Decision(run, State.PROMOTED, "moderator:mara", Reason.APPROVED, NOON_MS, held, detail=said)
    game.books.do(_decide_all(game.runs[run], [approval]))
    history = game.books.do(queries.history_of(run))
    assert ("revoked", "banned") == game.state_of(run)
    assert (None, None) == (appeal_until_ms(history, 14), message_to_player(history))


def test_an_appeal_that_is_granted_during_a_ban_is_no_case_any_more():
    """The run stays revoked, for the ban alone, and counts after it."""
    game = a_game()
    run = game.play("track.a", "ada", 3, 0)
    for turn in ("verify", "revoke"):
        game.decide(run, *_turns[turn])
    game.ban("one", "ada")
    assert game.decide(run, State.REVOKED, State.REVOKED, Reason.APPEALED)
    assert [(run,)] == game.books.rows("SELECT submission_id FROM cases")
    assert game.decide(run, State.REVOKED, State.PROMOTED, Reason.APPEAL_GRANTED)
    assert ([], ("revoked", "banned")) == (game.books.rows("SELECT * FROM cases"), game.state_of(run))
    game.unban("one")
    assert ("promoted", "appeal-granted") == game.state_of(run)


def queued(game: Game) -> list[tuple[Any, ...]]:
    return game.books.rows("SELECT submission_id FROM outbox WHERE kind = 'recheck' ORDER BY submission_id")


def test_what_counts_unverified_of_a_convicted_player_is_queued_again_after_a_ban():
    """Though the ban took it out of the queue; a conviction by then or meanwhile, and on this board alone."""
    game = a_game()
    runs = [game.play(track, "ada", 3, 0) for track in ("track.a", "track.a", "track.a", "track.b")]
    for run in runs:
        game.decide(run, *_turns["sample"])
    game.ban("one", "ada")
    assert game.decide(runs[0], *_turns["revoke"])
    assert [] == queued(game)
    game.unban("one")
    assert [(run,) for run in runs[1:3]] == queued(game)
    game.ban("two", "ada")
    assert [] == queued(game)
    game.unban("two")
    assert [(run,) for run in runs[1:3]] == queued(game)


def test_of_two_bans_the_last_that_ends_brings_back_what_both_took():
    """What another ban covers is not even looked at."""
    game = a_game()
    run = game.play("track.a", "ada", 3, 0)
    game.decide(run, *_turns["verify"])
    game.ban("one", "ada")
    game.ban("two", "ada", "track")
    assert [0, 1] == [game.unban(each).changed_count for each in ("one", "two")]
    assert ("promoted", "verified") == game.state_of(run)


def test_bans_in_force_come_before_any_number_that_were_lifted():
    """Of the first few that are read, those that tell whether a player may notice, and can be lifted."""
    game = Game(family("best", "descending", ties=False))
    game.ban("kept", "ada", "track.a")
    for number in range(3):
        game.ban(f"lifted{number}", "ada", "track.b")
        game.unban(f"lifted{number}")
    game.ban("new", "ada", "track.b")
    found = game.books.do(bans.bans_of("ada", count=3))
    assert ["new", "kept", "lifted2"] == [each.ban_id for each in found]


def test_a_moderator_has_a_stake_where_a_ban_takes_their_score_away_and_on_rollups():
    """Their run comes back with the end of the ban; on a board without rollups, other boards are not theirs."""
    game = a_game()
    game.decide(game.play("track.a", "ada", 3, 0), *_turns["verify"])
    alone = dataclasses.replace(game.tracks["track.b"], rollups=())

    def has(board: Board) -> list[bool]:
        return [game.books.do(has_stake(board, {who}, now_ms=NOON_MS)) for who in ("ada", "bob")]

    assert [[True, False]] * 2 + [[False, False]] == [has(each) for each in (*game.tracks.values(), alone)]
    game.ban("one", "ada")
    assert [[True, False], [False, False]] == [has(each) for each in (game.tracks["track.a"], alone)]
