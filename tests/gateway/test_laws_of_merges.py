"""Merged, a player has what both played; unmerged, all is as if there had been no merge."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.derived.achievements import reached_by_log
from gateway.ledger import queries
from gateway.ledger.moderation import bans
from gateway.ledger.players.friends import follow, friends_of
from gateway.ledger.players.merges import Merge, merges_at_work, merges_of, next_to_follow
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.standings.history import board_as_of
from gateway.ledger.submissions.operations import ServerRequest
from gateway.runtime.settings import Settings
from gateway.settlement import bans as banning
from gateway.settlement import merges as merging
from gateway.settlement.case_decisions import has_stake
from gateway.settlement.following import AGAIN_MS
from gateway.settlement.joins import set_joined
from gateway.settlement.merges import NOT_NOW, REST_MS, MergeFollower, begin, follow_slice, undo
from gateway.settlement.server_operations import OperationsRefused, ServerOperation, perform_all
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.choices import Joins
from policies.errors import LedgerTampered, StateConflict
from policies.windows import window_named
from tests.gateway.test_bans import TRACKS, Game, _turns, family
from tests.support.banning import Boards, a_ban
from tests.support.books import CREDENTIAL, KEY_ID
from tests.support.ledger import NOON_MS, new_submission
from tests.support.thorough import examples

WHO = ("ada", "bob", "cyd")
ACTOR = "player:bob"


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch):
    """A few submissions are several slices."""
    monkeypatch.setattr(merging, "SLICE", 2)
    monkeypatch.setattr(banning, "SLICE", 3)
    monkeypatch.setattr(bans, "PAGE", 2)


class Merged(Game):
    """A game whose players can be merged."""

    def __init__(self, tracks: dict[str, Any]) -> None:
        super().__init__(tracks)
        catalogue: Any = Boards(tracks)
        self.follower = MergeFollower(self, self, catalogue)  # type: ignore[arg-type]

    def merge(self, source: str, target: str, *, at_ms: int = NOON_MS + 2) -> Merge:
        outcome = self.books.do(begin(Merge(f"{source}-{at_ms}", source, target, ACTOR, at_ms)))
        return self.follow(outcome.merge, at_ms=at_ms)

    def part(self, merge: Merge, *, at_ms: int = NOON_MS + 3) -> Merge:
        outcome = self.books.do(undo(merge.merge_id, by=ACTOR, now_ms=at_ms))
        assert outcome
        return self.follow(outcome.merge, at_ms=at_ms)

    def follow(self, merge: Merge, *, at_ms: int = NOON_MS + 4) -> Merge:
        return asyncio.run(self.follower.follow(merge.merge_id, now_ms=at_ms, slices=10_000))

    def owners(self) -> list[tuple[Any, ...]]:
        return self.books.rows("SELECT submission_id, player, played_by FROM submissions ORDER BY seq")


def a_game(operator: str = "best") -> Merged:
    return Merged(family(operator, "descending", ties=False))


def a_game_to_join() -> Merged:
    """One whose boards count only who has joined them."""
    return Merged(
        {
            name: replace(track, policy=track.policy.model_copy(update={"joins": Joins.REQUIRED}), rollups=())
            for name, track in family("best", "descending", ties=False).items()
        }
    )


_plays = st.tuples(
    st.just("play"),
    st.sampled_from(TRACKS),
    st.sampled_from(WHO),
    st.integers(-3, 3),
    st.integers(0, 2),
    st.integers(0, 2),
)
_decisions = st.tuples(st.sampled_from(["verify", "verify", *_turns]), st.integers(0, 9))
_steps = st.tuples(st.sampled_from(["merge", "part"]))
_histories = st.lists(st.one_of(_plays, _plays, _decisions, _decisions, _steps), max_size=30)


@pytest.mark.parametrize("operator", ["best", "latest", "sum", "count"])
@settings(max_examples=examples(30), deadline=None)
@given(history=_histories)
def test_a_merge_is_as_if_the_target_had_played_all_and_its_undoing_as_if_there_had_been_none(
    operator: str, history: list[tuple[Any, ...]]
):
    """On boards, in all windows, on rollups and in baselines, also of runs that come or are decided meanwhile."""
    tracks = family(operator, "descending", ties=operator == "best")
    game, apart, as_one = Merged(tracks), Game(tracks), Game(tracks)
    merge: Merge | None = None
    for number, (what, *how) in enumerate(history):
        if what == "play":
            track, player, *rest = how
            game.play(*how)
            apart.play(*how)
            as_one.play(track, "bob" if player == "ada" else player, *rest)
        elif what == "merge" and merge is None:
            merge = game.merge("ada", "bob", at_ms=NOON_MS + number)
        elif what == "part" and merge is not None:
            game.part(merge, at_ms=NOON_MS + number)
            merge = None
        elif what in _turns and game.runs:
            name = sorted(game.runs)[how[0] % len(game.runs)]
            assert game.decide(name, *_turns[what]) is apart.decide(name, *_turns[what])
            as_one.decide(name, *_turns[what])
        like = as_one if merge else apart
        assert like.standings() == game.standings()
        assert like.baselines() == game.baselines()
    merge = merge or game.merge("ada", "bob", at_ms=NOON_MS + len(history))
    assert as_one.standings() == game.standings()
    game.part(merge, at_ms=NOON_MS + len(history) + 1)
    assert (apart.standings(), apart.baselines()) == (game.standings(), game.baselines())
    assert apart.states() == game.states()
    assert {None} >= {first for _, _, first in game.owners()}


def played(*runs: tuple[str, int], operator: str = "best") -> Merged:
    game = a_game(operator)
    for player, score in runs:
        game.decide(game.play("track.a", player, score, 0), *_turns["verify"])
    return game


def scores(game: Merged) -> list[tuple[str, int]]:
    return game.books.rows(
        "SELECT player, score FROM standings WHERE board = 'track.a' AND \"window\" = 'alltime' "
        "AND score IS NOT NULL ORDER BY order_value, member"
    )


@pytest.mark.parametrize(
    ("ada", "bob", "meanwhile", "merged", "parted"),
    [
        (["joins"], [], [], [("bob", 5)], [("ada", 5)]),
        (["joins", "leaves"], [], [], [], []),
        (["joins"], ["joins"], [], [("bob", 5)], [("ada", 5), ("bob", 3)]),
        (["joins"], ["joins", "leaves"], [], [], [("ada", 5)]),
        (["joins"], [], ["leaves", "joins"], [("bob", 5)], [("ada", 5), ("bob", 3)]),
        (["joins"], [], ["leaves"], [], [("ada", 5)]),
    ],
)
def test_the_target_joins_what_the_source_is_on_and_leaves_it_when_they_part(
    ada: list[str],
    bob: list[str],
    meanwhile: list[str],
    merged: list[tuple[str, int]],
    parted: list[tuple[str, int]],
):
    """Unless it joined or left by itself, before or meanwhile: then the board is as the target wanted it."""
    game = a_game_to_join()
    track = game.tracks["track.a"]

    def turn(player: str, ways: list[str], at_ms: int) -> None:
        for number, way in enumerate(ways):
            joins_now = way == "joins"
            changes = set_joined(track, player, joins_now=joins_now, actor="player", now_ms=at_ms + number)
            game.books.do(changes)

    for player, score in (("ada", 5), ("bob", 3)):
        game.decide(game.play("track.a", player, score, 0), *_turns["verify"])
    turn("ada", ada, NOON_MS + 2)
    turn("bob", bob, NOON_MS + 4)
    merge = game.merge("ada", "bob", at_ms=NOON_MS + 6)
    turn("bob", meanwhile, NOON_MS + 7)
    assert merged == scores(game)
    game.part(merge, at_ms=NOON_MS + 9)
    assert parted == scores(game)


def test_who_joins_by_a_merge_was_on_the_board_since_the_source_was():
    """The time of the join is the source's, by which windows that are over count what it played."""
    game = a_game_to_join()
    track = game.tracks["track.a"]
    game.decide(game.play("track.a", "ada", 5, 0), *_turns["verify"])
    game.books.do(set_joined(track, "ada", joins_now=True, actor="player", now_ms=NOON_MS + 2))
    merge = game.merge("ada", "bob", at_ms=NOON_MS + 6)
    joined = "SELECT is_joined, actor, at_ms FROM joins WHERE player = 'bob'"
    assert [(1, f"merge:{merge.merge_id}", NOON_MS + 2)] == game.books.rows(joined)
    game.part(merge, at_ms=NOON_MS + 9)
    assert [(0, f"merge:{merge.merge_id}", NOON_MS + 9)] == game.books.rows(joined)


def test_a_run_under_a_ticket_of_the_source_counts_for_the_target_as_soon_as_it_is_stored(tmp_path: Path):
    """Through the append and through a server's write; the same bytes again have the receipt of who sent them."""
    game = played(("bob", 1))
    merge = game.merge("ada", "bob")
    new = new_submission("late", player="ada", at_ms=NOON_MS + 9, score=3, recording=None)
    new = new._replace(submission=new.submission._replace(board="track.a"))
    first, again = (game.books.append([new])[0] for _ in range(2))
    assert ("ada", True, "ada", False) == (first.player, first.is_new, again.player, again.is_new)
    assert ("late", "bob", "ada") == game.owners()[-1]
    assert [("bob",)] == game.books.rows("SELECT player FROM outbox WHERE submission_id = 'late'")
    game.part(merge)
    assert ("late", "ada", None) == game.owners()[-1]


def test_a_server_takes_back_what_a_player_played_also_once_it_counts_for_another():
    """One by its id, or all, by the name that the server knows; the target's own stays, and a stranger has none."""
    game = played(("ada", 5), ("ada", 4), ("bob", 3))
    merge = game.merge("ada", "bob")
    first = game.owners()[0][0]
    board, request = game.tracks["track.a"], ServerRequest(KEY_ID, CREDENTIAL, "", bytes(32), NOON_MS)

    def remove(player: str, target: str | None, number: int) -> tuple[str, ...]:
        operation = ServerOperation(f"o{number}", player, bytes(32), target=target)
        [done], _ = game.books.do(perform_all(board, request._replace(nonce=str(number)), [operation]))
        return done.revoked

    with pytest.raises(OperationsRefused):
        remove("cyd", first, 1)
    assert ((first,), [("bob", 4)]) == (remove("ada", first, 2), scores(game))
    assert (1, [("bob", 3)]) == (len(remove("ada", None, 3)), scores(game))
    game.part(merge)
    assert [("bob", 3)] == scores(game)


def test_a_merge_that_was_killed_goes_on_and_asking_again_changes_nothing():
    """Each slice stands by itself; a second request has the merge that is in force."""
    game = played(*[("ada", score) for score in range(5)], ("bob", 2))
    first = game.books.do(begin(Merge("one", "ada", "bob", ACTOR, NOON_MS + 2)))
    assert asyncio.run(game.follower.step("one", now_ms=NOON_MS + 2))
    again = game.books.do(begin(Merge("two", "ada", "bob", ACTOR, NOON_MS + 3)))
    assert (True, False, "one") == (first.is_new, again.is_new, again.merge.merge_id)
    assert 2 == again.merge.changed_count
    done = game.follow(first.merge)
    assert (None, 5) == (done.seen_seq, done.changed_count)
    assert [("bob", 4)] == scores(game)
    assert not asyncio.run(game.follower.step("one", now_ms=NOON_MS + 9))


def test_a_steward_finds_a_merge_that_nobody_has_begun_to_follow_and_its_undoing():
    """The process that answered may have been killed at once; what only waits for a while is not looked at before."""
    game = played(("ada", 5), ("bob", 2))

    def at_work(now_ms: int = NOON_MS + 9) -> list[str]:
        found = game.books.do(merges_at_work(None, now_ms=now_ms, count=9))
        return [each.merge_id for each in found]

    merge = game.books.do(begin(Merge("one", "ada", "bob", ACTOR, NOON_MS + 2))).merge
    assert ["one"] == at_work()
    game.follow(merge)
    assert [] == at_work()
    game.books.do(undo("one", by=ACTOR, now_ms=NOON_MS + 5))
    assert ["one"] == at_work()
    track = game.tracks.pop("track.a")  # a process that does not know the board passes over what is on it
    game.follow(merge, at_ms=NOON_MS + 6)
    game.tracks["track.a"] = track
    assert ([], ["one"]) == (at_work(NOON_MS + 5 + AGAIN_MS), at_work(NOON_MS + 6 + AGAIN_MS))


def test_an_undone_merge_counts_what_has_come_back_and_is_listed_behind_later_ones():
    """Not what had moved before; and the newest merges are shown first, of a player into others and of others into them."""
    game = played(*[("ada", score) for score in range(3)])
    first = game.merge("ada", "bob")
    assert 3 == first.changed_count
    assert 3 == game.part(first, at_ms=NOON_MS + 5).changed_count
    second = game.merge("ada", "cyd", at_ms=NOON_MS + 7)
    assert [second.merge_id, first.merge_id] == [
        each.merge_id for each in game.books.do(merges_of("ada", count=9))
    ]
    third = game.merge("dan", "cyd", at_ms=NOON_MS + 8)
    assert [third.merge_id, second.merge_id] == [
        each.merge_id for each in game.books.do(merges_of("cyd", count=9))
    ]
    assert [second.merge_id] == [each.merge_id for each in game.books.do(merges_of("ada", count=1))]


@pytest.mark.parametrize("meanwhile", ["another process went on", "somebody undid it"])
def test_a_slice_of_a_merge_that_comes_late_moves_nothing(meanwhile: str):
    """Not after another process has done it, nor once the merge is undone, when it would move runs to a player of before."""
    game = a_game()
    for number in range(3):
        game.play("track.a", "ada", number, 0)
    merged = game.books.do(begin(Merge("m", "ada", "bob", ACTOR, NOON_MS + 2))).merge
    page = game.books.do(next_to_follow(merged))
    assert 3 == len(page)
    if meanwhile == "somebody undid it":
        game.part(merged)
    else:
        game.follow(merged)
    before = game.books.rows("SELECT * FROM events"), game.books.rows("SELECT * FROM player_merges")
    late = follow_slice(merged, page, game.tracks, now_ms=NOON_MS + 5)
    assert {} == game.books.do(late)
    assert before == (game.books.rows("SELECT * FROM events"), game.books.rows("SELECT * FROM player_merges"))
    played = "ada" if meanwhile == "somebody undid it" else "bob"
    assert {played} == {owner for _, owner, _ in game.owners()}


def test_a_merge_is_refused_of_whom_is_merged_or_banned_already():
    """No chain, no circle, and nobody escapes a ban: neither by merging nor by parting."""
    game = played(("ada", 3), ("bob", 2), ("cyd", 1))
    merge = game.merge("ada", "bob")
    for source, target in (("ada", "cyd"), ("bob", "cyd"), ("cyd", "ada"), ("cyd", "cyd")):
        with pytest.raises(StateConflict):
            game.merge(source, target)
    game.ban("one", "bob", "track.b")
    with pytest.raises(StateConflict, match="banned"):
        game.merge("cyd", "bob")
    with pytest.raises(StateConflict, match="banned"):
        game.part(merge)
    game.unban("one")
    game.part(merge)
    assert [("ada", 3), ("bob", 2), ("cyd", 1)] == scores(game)


def test_a_shadow_ban_is_refused_in_the_words_for_what_lasts_a_moment():
    """Who is banned in shadow asks for a merge, or a parting, and is not told of the ban."""
    game = played(("ada", 3), ("bob", 2))
    merge = game.merge("ada", "bob")
    for player in ("cyd", "bob"):
        game.books.do(banning.begin(a_ban(f"of-{player}", player, "track.b", is_shadow=True)))
    for refused in (lambda: game.merge("cyd", "dan"), lambda: game.part(merge)):
        with pytest.raises(StateConflict) as told:
            refused()
        assert NOT_NOW == str(told.value)


def test_nobody_is_merged_away_while_runs_still_return_from_them():
    """What somebody else played would move with them, and could not come back."""
    game = played(*[("ada", score) for score in range(5)], ("bob", 2))
    merge = game.merge("ada", "bob")
    game.books.do(undo(merge.merge_id, by=ACTOR, now_ms=NOON_MS + 3))
    with pytest.raises(StateConflict, match="still being settled"):
        game.merge("bob", "cyd", at_ms=NOON_MS + 4)
    game.follow(merge)
    game.merge("bob", "cyd", at_ms=NOON_MS + 5)
    assert [("ada", 4), ("cyd", 2)] == scores(game)


def test_merges_that_were_undone_hide_none_that_is_in_force(monkeypatch: pytest.MonkeyPatch):
    """However many there are: there is no chain, and no more players are merged into one than may be."""
    monkeypatch.setattr(merging, "MERGES_LIMIT", 2)
    game = played(("ada", 1))
    game.merge("ada", "bob")
    for number in range(3):
        game.part(game.merge("cyd", "bob", at_ms=NOON_MS + 10 * number), at_ms=NOON_MS + 10 * number + 5)
    with pytest.raises(StateConflict, match="others were merged"):
        game.merge("bob", "dan")
    game.merge("cyd", "bob", at_ms=NOON_MS + 50)
    with pytest.raises(StateConflict, match="2 players"):
        game.merge("eve", "bob", at_ms=NOON_MS + 51)


def test_players_who_were_parted_merge_again_a_day_later():
    """Each turn writes an event for ever of each run, also the second; whom they were merged into need not wait."""
    game = played(("ada", 1))
    game.part(game.merge("ada", "bob"), at_ms=NOON_MS + 3)
    of_the_other = begin(Merge("of-bob", "bob", "dan", ACTOR, NOON_MS + 4), rest_ms=REST_MS)
    assert game.books.do(of_the_other).is_new
    for parted in (3, REST_MS + 5):
        soon, late = (
            Merge(f"at-{at}", "ada", "cyd", ACTOR, NOON_MS + at)
            for at in (parted + REST_MS - 1, parted + REST_MS)
        )
        with pytest.raises(StateConflict, match="in a day"):
            game.books.do(begin(soon, rest_ms=REST_MS))
        merged = game.books.do(begin(late, rest_ms=REST_MS))
        assert merged.is_new
        game.part(game.follow(merged.merge, at_ms=NOON_MS + parted + REST_MS), at_ms=NOON_MS + REST_MS + 5)


def test_a_moderators_run_is_theirs_also_once_it_counts_for_another_player():
    """A merge leads neither around what they may not decide on, nor around their stake on a board."""
    game = played(("ada", 3))
    game.merge("ada", "bob")
    run: Any = game.books.do(queries.submission("run0"))
    assert ("bob", "ada", {"ada", "bob"}) == (run.player, run.played_by, run.players)
    board = game.tracks["track.a"]
    stakes = [game.books.do(has_stake(board, {who}, now_ms=NOON_MS)) for who in ("ada", "bob", "cyd")]
    assert [True, True, False] == stakes


def test_a_ban_that_begins_while_runs_move_takes_those_that_come_too():
    """What only a ban revokes stays with whom it was revoked of, and follows the merge once the ban is over."""
    game = played(*[("ada", score) for score in range(5)], ("bob", 2))
    begun = game.books.do(begin(Merge("one", "ada", "bob", ACTOR, NOON_MS + 2))).merge
    asyncio.run(game.follower.step("one", now_ms=NOON_MS + 2))
    game.ban("ban", "bob")
    game.ban("own", "ada", "track")
    game.follow(begun)
    asyncio.run(game.bench.settled("ban", NOON_MS + 5))
    assert [] == scores(game)
    game.unban("own")
    game.follow(begun, at_ms=NOON_MS + merging.AGAIN_MS + 9)
    asyncio.run(game.bench.settled("ban", NOON_MS + 6))
    assert [] == scores(game)
    game.unban("ban")
    assert [("bob", 4)] == scores(game)
    assert {"bob"} == {player for _, player, _ in game.owners()}


def test_the_past_of_a_board_knows_no_merge_that_came_later():
    """Before the merge both stand where they stood then, after it one does, and after its undoing both again."""
    game = played(("ada", 3), ("bob", 2))
    moments = [NOON_MS + 2, NOON_MS + 11, NOON_MS + 21]
    merge = game.merge("ada", "bob", at_ms=NOON_MS + 10)
    game.part(merge, at_ms=NOON_MS + 20)
    policy = game.tracks["track.a"].policy
    window = window_named(policy, "alltime")
    both = [("ada", 3), ("bob", 2)]
    for at_ms, expected in zip(moments, (both, [("bob", 3)], both), strict=True):
        found = asyncio.run(board_as_of(game, policy, window, at_ms))  # type: ignore[arg-type]
        assert expected == [(standing.player, standing.score) for standing in found]


def test_the_target_follows_whom_the_source_did_until_they_part():
    """Whom the target followed by themselves stay."""
    game = played(("ada", 3))
    game.books.do(follow("ada", "cyd", now_ms=NOON_MS))
    for friend in ("ada", "dan"):
        game.books.do(follow("bob", friend, now_ms=NOON_MS))
    merge = game.merge("ada", "bob")
    assert ("ada", "cyd", "dan") == game.books.do(friends_of("bob")).friends
    game.part(merge)
    assert ("ada", "dan") == game.books.do(friends_of("bob")).friends


def test_seals_verify_over_a_merge_and_nobody_moves_a_run_without_an_event(tmp_path: Path):
    """Before it, during it and after it; who moves a run in the tables, or says who played it, is found."""
    game = played(("ada", 3), ("bob", 2))
    of_seals = Settings(data_dir=tmp_path, seal_events=1)
    key = seal_key_of(of_seals, is_made=True)
    sealer, keys = Sealer(of_seals, game, clock=lambda: NOON_MS), PublicKeys(key.public_key)  # type: ignore[arg-type]

    async def verify() -> None:
        while await sealer.step():
            pass
        report = await audit(game, keys)  # type: ignore[arg-type]
        assert report.events == report.sealed_events

    asyncio.run(verify())
    merge = game.merge("ada", "bob")
    asyncio.run(verify())
    for tampering in ("player = 'ada', played_by = NULL", "player = 'cyd'"):
        game.books.connection.execute("SAVEPOINT tampering")
        game.books.connection.execute(f"UPDATE submissions SET {tampering} WHERE submission_id = 'run0'")
        with pytest.raises(LedgerTampered, match="counts for"):
            asyncio.run(verify())
        game.books.connection.execute("ROLLBACK TO tampering")
    game.part(merge)
    asyncio.run(verify())


def test_whoever_makes_room_by_a_merge_lets_the_next_one_reach_the_first_ten():
    """Achievements that are computed anew from the log know of moves, and nobody reaches anything by one."""
    game = played(*[(f"p{number}", 100 - number) for number in range(12)])
    policy = game.tracks["track.a"].policy

    async def reached() -> set[tuple[str, int]]:
        found = [each async for each in reached_by_log(game, policy)]  # type: ignore[arg-type]
        return {(each.player, each.rank) for each in found if each.window == "alltime"}

    before = asyncio.run(reached())
    game.merge("p1", "p0")
    assert before == asyncio.run(reached())
    game.decide(game.play("track.a", "p11", 90, 0), *_turns["verify"])
    assert before | {("p11", 10)} == asyncio.run(reached())
