"""Erased, a player has no name, no texts and nobody they know, and stands where they stood; seals verify."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger import queries
from gateway.ledger.acts import Act, add_event
from gateway.ledger.moderation.renames import rename
from gateway.ledger.players.friends import follow, friends_of
from gateway.ledger.players.joins import put_join
from gateway.ledger.players.memberships import change_membership
from gateway.ledger.players.merges import Merge
from gateway.ledger.players.own_names import choose_name
from gateway.ledger.privacy import export
from gateway.ledger.privacy.erased_texts import next_texts
from gateway.ledger.privacy.erasures import Erasure, erasure, erasures_due
from gateway.ledger.privacy.export import export_own, export_player
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.chain import event_rows
from gateway.ledger.seals.leaves import entry_of
from gateway.ledger.seals.merkle import leaf_hash
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.runtime.settings import Settings
from gateway.settlement import erasing
from gateway.settlement.bans import begin
from gateway.settlement.decision_records import Decision
from gateway.settlement.erasing import GRACE_MS, LATE_MS, Eraser, ask, take_back
from gateway.settlement.merges import MERGES_LIMIT, undo
from gateway.settlement.merges import begin as merge
from gateway.settlement.settle import _decide_all
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.errors import LedgerTampered, StateConflict
from policies.vocabulary import Reason, State
from tests.gateway.test_bans import _turns
from tests.gateway.test_laws_of_merges import Merged, a_game
from tests.support.banning import a_ban
from tests.support.ledger import NOON_MS, new_submission

SECRET = "Ada Lovelace of 12 St James Square"
LATER = NOON_MS + GRACE_MS + 10
DONE = LATER + LATE_MS


class Forgotten(Eraser):
    """An eraser without an index; `boards` are those whose streams it looked through."""

    def __init__(self, game: Merged) -> None:
        super().__init__(game, None, None)  # type: ignore[arg-type]
        self.boards: set[str] = set()

    async def _forget_names(self, player: str, boards: set[str]) -> None:
        self.boards |= boards


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch):
    """A few submissions are several slices."""
    monkeypatch.setattr(erasing, "SLICE", 2)
    monkeypatch.setattr(erasing, "FOLLOWERS", 1)


def a_life() -> Merged:
    """A game in which ada wrote, was written about, and is known under a name of hers."""
    game = a_game()
    game.books.do(queries.add_player("ada", SECRET, now_ms=NOON_MS, is_unique=True))
    game.books.do(
        rename(
            "ada",
            SECRET,
            f"{SECRET} II",
            Act("moderator:mia", NOON_MS),
            code="x",
            note=SECRET,
            is_unique=True,
        )
    )
    details = json.dumps({"said": SECRET})
    new = new_submission("told", player="ada", at_ms=NOON_MS, score=2, recording=None)._replace(
        details=details, address="a keyed hash"
    )
    game.books.append([new._replace(submission=new.submission._replace(board="track.a"))])
    game.runs["told"] = game.tracks["track.a"]
    for number, name in enumerate(
        ["told", game.play("track.a", "ada", 3, 0), game.play("track.b", "ada", 1, 0)]
    ):
        game.decide(name, *_turns["verify" if number else "hold"])
    said = Decision(
        "told",
        State.HELD,
        "player",
        Reason.QUESTION_ANSWERED,
        NOON_MS,
        frozenset({State.HELD}),
        detail={"text": SECRET, "question": 1},
    )
    game.books.do(_decide_all(game.tracks["track.a"], [said]))
    game.decide(game.play("track.a", "bob", 9, 0), *_turns["verify"])
    for one, other in (("ada", "bob"), ("bob", "ada"), ("cyd", "ada")):
        game.books.do(follow(one, other, now_ms=NOON_MS))
    game.books.do(change_membership("track.a", "ada", {"country": "gb"}))
    ban = a_ban("one", "ada", "track.b")
    game.books.do(begin(replace(ban, note=SECRET, message=SECRET)))
    return game


def erased(game: Merged, *, at_ms: int = DONE) -> Erasure:
    game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    found = asyncio.run(Forgotten(game).finish("ada", now_ms=at_ms))
    assert found
    return found


def everything(game: Merged) -> str:
    return "\n".join(game.books.connection.iterdump())


def test_an_erasure_leaves_no_text_and_every_standing(tmp_path: Path):
    """In the tables and in the file, whose pages are overwritten; recordings, states and standings are what they were."""
    game = a_life()
    game.books.do(choose_name("ada", f"{SECRET} III", Act("player:ada", NOON_MS), is_unique=True))
    before, states = game.standings(), game.states()
    assert [("ada",)] == game.books.rows("SELECT player FROM player_addresses")
    assert 9 <= everything(game).count(SECRET)
    done = erased(game)
    assert (DONE, 0) == (done.ended_at_ms, everything(game).count(SECRET))
    assert (before, states) == (game.standings(), game.states())
    assert [("Player ada", None)] == game.books.rows("SELECT name, search_key FROM players")
    assert [] == game.books.rows("SELECT * FROM friends WHERE 'ada' IN (player, friend)")
    for table in ("renames", "taken_names", "memberships", "player_addresses"):
        assert [] == game.books.rows(f"SELECT * FROM {table}")
    assert [("ada", 1)] == game.books.rows("SELECT player, generation FROM token_endings")
    assert SECRET.encode() not in bytes(game.books.connection.serialize())


def test_seals_verify_over_an_erasure_and_what_is_left_cannot_be_changed(tmp_path: Path):
    """Sealed before it and after it; a row that no event names, and a change of what is left, are found."""
    game = a_life()
    of_seals = Settings(data_dir=tmp_path, seal_events=1)
    key = seal_key_of(of_seals, is_made=True)
    sealer, keys = Sealer(of_seals, game, clock=lambda: NOON_MS), PublicKeys(key.public_key)  # type: ignore[arg-type]

    async def verify() -> None:
        while await sealer.step():
            pass
        report = await audit(game, keys)  # type: ignore[arg-type]
        assert report.events == report.sealed_events
        assert report.erased_events == len(game.books.rows("SELECT * FROM erased_rows"))

    asyncio.run(verify())
    done = erased(game)
    asyncio.run(verify())
    [(seq,)] = game.books.rows(
        "SELECT max(seq) FROM erased_rows WHERE seq IN (SELECT seq FROM events WHERE reason = 'question-answered')"
    )
    assert done.rows_erased == len(game.books.rows("SELECT * FROM erased_rows"))
    run = game.play("track.a", "cyd", 5, 0)
    asyncio.run(verify())
    tamperings = (
        f"UPDATE events SET detail = '{{}}' WHERE seq = {seq}",
        f"INSERT INTO erased_rows SELECT seq, x'00', x'00', 1 FROM submissions WHERE submission_id = '{run}'; "  # noqa: ISC004
        f"UPDATE submissions SET details = 'x' WHERE submission_id = '{run}'",
    )
    [(event, facts), *_] = game.books.do(event_rows(run))
    changed = {**(facts or {}), "details": "x"}
    sealed, kept = (leaf_hash(entry_of(event, each)).hex() for each in (facts, changed))
    [(by_seq,)] = game.books.rows("SELECT max(seq) FROM events WHERE reason = 'erased'")
    tamperings += (
        (
            f"INSERT INTO erased_rows VALUES ({event['seq']}, x'{sealed}', x'{kept}', {by_seq}); "
            f"UPDATE submissions SET details = 'x' WHERE submission_id = '{run}'"
        ),
    )
    named = {"erased": [[event["seq"], sealed, kept]]}
    act = Act("moderator:mia", NOON_MS)
    game.books.do(lambda tx: add_event(tx, Reason.TOKENS_ENDED, act, named, player="cyd"))
    tamperings += (tamperings[-1].replace(f"{by_seq})", "(SELECT max(seq) FROM events))"),)
    for tampering in tamperings:
        game.books.connection.execute("SAVEPOINT tampering")
        for statement in tampering.split("; "):
            game.books.connection.execute(statement)
        with pytest.raises(LedgerTampered, match="was changed"):
            asyncio.run(verify())
        game.books.connection.execute("ROLLBACK TO tampering")


def test_an_erasure_can_be_taken_back_until_it_begins_and_asked_for_twice():
    """Its grace is not longer for asking again; once it has begun it is done to its end."""
    game = a_life()
    first = game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    again = game.books.do(ask("ada", Act("player:ada", NOON_MS + 5)))
    assert (True, False, first.erasure) == (first.is_new, again.is_new, again.erasure)
    assert [True, False] == [game.books.do(take_back("ada")) for _ in range(2)]
    eraser = Forgotten(game)
    assert not asyncio.run(eraser.step("ada", now_ms=DONE))
    game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    assert not asyncio.run(eraser.step("ada", now_ms=NOON_MS + GRACE_MS - 1))
    assert asyncio.run(eraser.step("ada", now_ms=LATER))
    with pytest.raises(StateConflict, match="begun"):
        game.books.do(take_back("ada"))
    asyncio.run(Forgotten(game).finish("ada", now_ms=LATER))  # another process goes on
    found: Any = game.books.do(erasure("ada"))
    assert found == replace(first.erasure, begun_seq=found.begun_seq, seen_seq=found.seen_seq, rows_erased=4)
    assert 0 == everything(game).count(SECRET)
    details = json.dumps({"said": SECRET})
    late = new_submission("late", player="ada", at_ms=NOON_MS, score=2, recording=None)._replace(
        details=details
    )
    game.books.append([late._replace(submission=late.submission._replace(board="track.a"))])
    done = asyncio.run(eraser.finish("ada", now_ms=DONE))
    assert (DONE, 0) == (done and done.ended_at_ms, everything(game).count(SECRET))
    assert {"track.a"} == eraser.boards


@pytest.mark.parametrize(
    ("asked_at_ms", "grace_ms", "due_ms"),
    [(7, 1_000, 1_007), (0, GRACE_MS, GRACE_MS), (7, GRACE_MS, GRACE_MS)],
)
def test_who_asks_again_is_erased_at_the_earlier_of_both_times(asked_at_ms: int, grace_ms: int, due_ms: int):
    """An operator's grace may be shorter than a player's; none is made longer, nor one that has begun any other."""
    game = a_life()
    game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    operator = Act("cli", NOON_MS + asked_at_ms)
    again = game.books.do(ask("ada", operator, grace_ms=grace_ms))
    assert (NOON_MS + due_ms, False) == (again.erasure.due_at_ms, again.is_new)
    assert asyncio.run(Forgotten(game).step("ada", now_ms=NOON_MS + due_ms))
    begun: Any = game.books.do(erasure("ada"))
    assert begun.begun_seq
    assert (begun, False) == (
        (late := game.books.do(ask("ada", operator, grace_ms=0))).erasure,
        late.is_new,
    )


def test_erasures_are_done_in_the_order_in_which_they_come_due_and_once():
    """However many there are: the next ones are read behind the last. One that has ended is read no more."""
    game = a_game()
    for player, late_ms in (("cyd", 0), ("bob", 1), ("ada", 2), ("dan", 0), ("eve", 3)):
        game.books.do(ask(player, Act("cli:op", NOON_MS), grace_ms=late_ms))
    due, last = list[str](), None
    while found := game.books.do(erasures_due(last, now_ms=NOON_MS + 2, count=2)):
        due += [each.player for each in found]
        last = found[-1]
    assert ["cyd", "dan", "bob", "ada"] == due
    asyncio.run(Forgotten(game).finish("cyd", now_ms=DONE))
    assert "dan" == game.books.do(erasures_due(None, now_ms=DONE, count=1))[0].player


def test_an_erasure_that_is_not_due_any_more_does_not_begin():
    """It was taken back and asked for again since it was read: its new grace holds."""
    game = a_life()
    asked = game.books.do(ask("ada", Act("player:ada", NOON_MS))).erasure
    assert game.books.do(erasing.begin(asked, now_ms=NOON_MS + GRACE_MS - 1)) is None
    assert asked == game.books.do(erasure("ada"))
    assert game.books.do(erasing.begin(asked, now_ms=NOON_MS + GRACE_MS)) is not None


def test_a_slice_that_another_process_has_done_is_not_done_again():
    """Who comes late with what it read before changes nothing, and writes no event."""
    game = a_life()
    game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    assert asyncio.run(Forgotten(game).step("ada", now_ms=LATER))
    stands: Any = game.books.do(erasure("ada"))

    async def next_slice(tx: Any) -> Any:
        return await next_texts(tx, "ada", after=stands.seen_seq, count=2)

    found = game.books.do(next_slice)
    assert game.books.do(erasing.erase_slice(stands, found, now_ms=LATER))
    left = everything(game)
    stands_now = game.books.do(erasure("ada"))
    assert 0 == game.books.do(erasing.erase_slice(stands, found[:1], now_ms=LATER))
    assert stands_now == game.books.do(erasure("ada"))
    assert left == everything(game)


def test_with_a_player_those_who_were_merged_into_them_are_erased():
    """And who was merged into another cannot be erased alone; neither is merged or parted any more."""
    game = a_life()
    game.unban("one")
    game.merge("ada", "bob")
    with pytest.raises(StateConflict, match="merged into another"):
        game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    game.books.do(ask("bob", Act("player:bob", NOON_MS)))
    eraser = Forgotten(game)
    for player in ("bob", "ada"):
        asyncio.run(eraser.finish(player, now_ms=DONE))
    assert 0 == everything(game).count(SECRET)
    with pytest.raises(StateConflict, match="erased"):
        game.merge("cyd", "bob")


def test_a_slice_of_an_erasure_passes_over_nothing():
    """Runs, runs that were moved, and events of the player alone are looked through in the order of the log."""
    game = Merged(dict(a_game().tracks))
    game.books.do(queries.add_player("ada", SECRET, now_ms=NOON_MS, is_unique=True))
    for track in ("track.b", "track.a"):
        for number in range(3):
            said(game, f"{track}-{number}", "ada", track)
    for number in range(3):
        name = f"{SECRET} {number}"
        game.books.do(choose_name("ada", name, Act("player:ada", NOON_MS + number), is_unique=True))
    later = game.tracks.pop("track.b")
    game.merge("ada", "bob")
    game.tracks["track.b"] = later
    game.books.do(ask("bob", Act("player:bob", NOON_MS)))
    for player in ("ada", "bob"):
        asyncio.run(Forgotten(game).finish(player, now_ms=DONE))
    assert 0 == everything(game).count(SECRET)


def test_runs_that_a_merge_moves_meanwhile_are_erased_too():
    """Behind what was looked through of the target already: they are the source's still."""
    game = a_life()
    game.unban("one")
    for number in range(3):
        game.decide(game.play("track.a", "bob", number, 0), *_turns["verify"])
    begun = game.books.do(merge(Merge("m", "ada", "bob", "player:bob", NOON_MS)))
    game.books.do(ask("bob", Act("player:bob", NOON_MS)))
    eraser = Forgotten(game)
    asyncio.run(eraser.finish("bob", now_ms=LATER))
    game.follow(begun.merge)
    for player in ("ada", "bob"):
        asyncio.run(eraser.finish(player, now_ms=DONE))
    assert 0 == everything(game).count(SECRET)


def test_who_comes_back_after_an_erasure_is_erased_anew():
    """A studio's own server may know them still; nothing is erased twice."""
    game = a_life()
    first = erased(game)
    details = json.dumps({"said": SECRET})
    late = new_submission("back", player="ada", at_ms=DONE, score=2, recording=None)._replace(details=details)
    game.books.append([late._replace(submission=late.submission._replace(board="track.a"))])
    again = game.books.do(ask("ada", Act("player:ada", DONE + 1)))
    assert (True, DONE + 1 + GRACE_MS) == (again.is_new, again.erasure.due_at_ms)
    done = asyncio.run(Forgotten(game).finish("ada", now_ms=again.erasure.due_at_ms + LATE_MS))
    assert done
    assert (4, 1, 0) == (first.rows_erased, done.rows_erased, everything(game).count(SECRET))


def test_nobody_takes_back_the_erasure_of_a_player_who_was_parted_from_them():
    """Who was merged into somebody once is another player again, and asked by themselves."""
    game = a_life()
    game.unban("one")
    game.part(game.merge("ada", "bob"))
    game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    assert not game.books.do(take_back("bob"))
    assert game.books.do(erasure("ada"))


def test_the_lists_of_those_who_followed_an_erased_player_are_other_lists():
    """Each has a version of its own, or a copy of the one before would still be taken for it; those of strangers stay."""
    game = a_life()
    game.books.do(follow("dan", "bob", now_ms=NOON_MS))
    followers, before = ("bob", "cyd", "dan"), {}
    for each in followers:
        before[each] = game.books.do(friends_of(each))
    erased(game)
    after = {each: game.books.do(friends_of(each)) for each in followers}
    assert [(), (), ("bob",)] == [after[each].friends for each in followers]
    assert [1, 1, 0] == [after[each].version - before[each].version for each in followers]


def test_whom_a_merge_made_a_player_follow_is_erased_with_either_of_the_two():
    """Also after the merge was undone; what another merge remembers stays, to be undone with it."""
    game = a_life()
    game.unban("one")
    game.books.do(follow("eve", "bob", now_ms=NOON_MS))
    game.part(game.merge("ada", "dan"))
    game.merge("eve", "fay")
    remembered = "SELECT source, friends FROM player_merges ORDER BY source"
    assert [("ada", '["bob"]'), ("eve", '["bob"]')] == game.books.rows(remembered)
    erased(game)
    assert [("ada", "[]"), ("eve", '["bob"]')] == game.books.rows(remembered)


def lines_of(game: Merged, player: str = "ada", **options: Any) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        return [json.loads(line) async for line in export_player(game, player, **options)]  # type: ignore[arg-type]

    return asyncio.run(read())


def own_of(game: Merged, player: str = "ada", **bounds: Any) -> list[dict[str, Any]]:
    """A player's own copy, which tells of each board that it was asked for."""

    async def standings(boards: Sequence[str]) -> AsyncIterator[Mapping[str, Any]]:
        for board in boards:
            yield {"board": board}

    async def read() -> list[dict[str, Any]]:
        how = {"most_runs": 10_000, "most_bytes": 2**20} | bounds
        copy = export_own(game, player, standings, **how)  # type: ignore[arg-type]
        return [json.loads(line) async for line in copy]

    return asyncio.run(read())


def test_an_export_has_all_that_an_erasure_takes_and_a_players_own_hides_what_finds_cheats():
    """Every text; neither findings, nor notes, nor that a ban is there; after the erasure no text is left."""
    game = a_life()
    lines = lines_of(game)
    assert {"format": "scoregate-player-1", "player": "ada"} == lines[0]
    assert len(lines) - 2 == lines[-1]["rows"]
    text = json.dumps(lines)
    assert 9 <= text.count(SECRET)
    own = own_of(game)
    assert not {"bans", "renames", "events"} & {line.get("table") for line in own}
    runs = [line for line in own if line.get("table") == "submissions"]
    assert not any(name in run for run in runs for name in ("findings", "initial_state"))
    assert [SECRET] == [event["detail"]["text"] for run in runs for event in run["events"]]
    assert 1 == sum(SECRET in (run["details"] or "") for run in runs)
    erased(game)
    assert 0 == json.dumps(lines_of(game)).count(SECRET)


def runs_in(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return [line["submission_id"] for line in lines if line.get("table") == "submissions"]


def said(game: Merged, name: str, player: str, track: str = "track.a") -> None:
    """A run with a text in its details, which counts."""
    new = new_submission(name, player=player, at_ms=NOON_MS, score=2, recording=None)
    on_track = new._replace(
        submission=new.submission._replace(board=track), details=json.dumps({"said": SECRET})
    )
    game.books.append([on_track])
    game.runs[name] = game.tracks[track]
    game.decide(name, *_turns["verify"])


def test_an_export_has_joins_and_standings_and_what_a_merge_moved():
    """On boards of families and others; a player's own copy has each board once, whoever it counts for."""
    game = a_game()
    said(game, "told", "ada")
    how = {"joins_now": True, "actor": "player:ada", "at_ms": NOON_MS}
    for player in ("ada", "bob"):
        game.books.do(lambda tx, player=player: put_join(tx, "track.a", player, **how))
    lines = lines_of(game, boards=["track.a", "empty"])
    tables = Counter(line.get("table") for line in lines)
    assert (1, 1, 2 * tables["standings"] // 2) == (
        tables["joins"],
        tables["join_changes"],
        tables["standings"],
    )
    windows = Counter(line["window"] for line in lines if line.get("table") == "standings")
    assert {2} == set(windows.values())  # by its family, and by its name
    assert {"ada"} == {line["player"] for line in lines if line.get("table") in {"joins", "join_changes"}}
    assert {"ada"} == {line["player"] for line in lines if line.get("table") == "standings"}
    game.merge("ada", "bob")
    assert ["told"] == runs_in(lines_of(game)) == runs_in(own_of(game, "bob"))
    own = own_of(game, "bob")
    assert ["track.a"] == [line["board"] for line in own if line.get("table") == "standings"]
    assert not {"seen_seq", "again_ms", "changed_count"} & {key for line in own for key in line}


def test_a_players_own_copy_is_bounded_and_goes_on(monkeypatch: pytest.MonkeyPatch):
    """After so many runs, or bytes, it says where the next one begins, and each run is in one of them."""
    game = a_game()
    game.books.do(queries.add_player("ada", SECRET, now_ms=NOON_MS, is_unique=True))
    names = [game.play("track.a", "ada", number, 0) for number in range(7)]
    whole, copies, after = own_of(game), [], 0
    assert names == runs_in(whole)
    monkeypatch.setattr(export, "PAGE", 2)
    monkeypatch.setattr(export._submissions, "__kwdefaults__", {"count": 2})
    while after is not None:
        copies.append(own_of(game, after=after, most_bytes=1))
        after = copies[-1][-1]["next"]
    assert names == [name for copy in copies for name in runs_in(copy)]
    assert ["track.a"] == [line["board"] for line in own_of(game) if line.get("table") == "standings"]
    assert [2, 2, 2, 1, 0] == [len(runs_in(copy)) for copy in copies]
    assert [len(copy) - 2 for copy in copies] == [copy[-1]["rows"] for copy in copies]
    assert [4, 7] == [len(runs_in(own_of(game, most_runs=most))) for most in (3, 7)]
    tables = [{line.get("table") for line in copy} for copy in copies]
    assert [True] + [False] * 4 == ["players" in each for each in tables]


def test_an_export_has_each_run_where_some_were_moved_and_some_are_still_to_follow(
    monkeypatch: pytest.MonkeyPatch,
):
    """A page is of what comes next in the log, be it a run of their own yet or one that counts for another."""
    game = Merged(dict(a_game().tracks))
    names = [game.play(track, "ada", number, 0) for track in ("track.b", "track.a") for number in range(4)]
    later = game.tracks.pop("track.b")
    game.merge("ada", "bob")
    game.tracks["track.b"] = later
    assert [None] * 4 + ["ada"] * 4 == [played_by for _, _, played_by in game.owners()]
    for count in (1, 2, 3):
        monkeypatch.setattr(export._submissions, "__kwdefaults__", {"count": count})
        assert names == runs_in(lines_of(game))


def test_an_export_has_each_standing_on_boards_of_families_where_its_pages_end(
    monkeypatch: pytest.MonkeyPatch,
):
    """Those of one window are on several pages."""
    game = a_game()
    for track in game.tracks:
        game.decide(game.play(track, "ada", 3, 0), *_turns["verify"])
    whole = lines_of(game)
    assert {2} == set(
        Counter(
            line["window"] for line in whole if line.get("board") in game.tracks and "window" in line
        ).values()
    )
    monkeypatch.setattr(export, "PAGE", 1)
    assert whole == lines_of(game)


def test_a_players_own_copy_says_what_they_appealed_with_and_nothing_of_a_ban():
    """A run that only a ban keeps from the board is as it was before."""
    game = a_game()
    stands, refused = [game.play("track.a", "ada", score, 0) for score in (3, 4)]
    game.decide(stands, *_turns["verify"])
    for turn in ("hold", "reject"):
        game.decide(refused, *_turns[turn])
    rejected = frozenset({State.REJECTED})
    appeal = Decision(
        refused, State.REJECTED, "player", Reason.APPEALED, NOON_MS, rejected, detail={"text": SECRET}
    )
    game.books.do(_decide_all(game.tracks["track.a"], [appeal]))
    before = [line for line in own_of(game) if line.get("table") == "submissions"]
    game.ban("one", "ada")
    assert (State.REVOKED, Reason.BANNED) == game.state_of(stands)
    assert before == [line for line in own_of(game) if line.get("table") == "submissions"]
    assert [[], [SECRET]] == [[event["detail"]["text"] for event in run["events"]] for run in before]


def test_all_who_were_merged_into_a_player_are_erased_with_them():
    """However many, and by one command; once it has begun of one it is taken back of none, and asked again it is no fault."""
    game = a_game()
    sources = [f"p{number}" for number in range(MERGES_LIMIT)]
    for source in sources:
        game.books.do(queries.add_player(source, SECRET, now_ms=NOON_MS))
        game.merge(source, "ada")
    game.books.do(ask("ada", Act("player:ada", NOON_MS)))
    eraser = Forgotten(game)
    asyncio.run(eraser.step("p7", now_ms=LATER))
    begun: Any = game.books.do(erasure("p7"))
    with pytest.raises(StateConflict):
        game.books.do(take_back("ada"))
    game.books.do(ask("ada", Act("cli:op", NOON_MS), grace_ms=0))
    assert begun.begun_seq
    assert begun == game.books.do(erasure("p7"))
    found = asyncio.run(eraser.finish_all("ada", now_ms=DONE))
    assert {"ada", *sources} == {each.player for each in found}
    assert all(each.ended_at_ms == DONE for each in found)
    assert SECRET not in everything(game)


@pytest.mark.parametrize(("whose", "left"), [("bob", 1), ("ada", 0)])
def test_who_was_parted_loses_no_texts_with_whom_they_were_merged_into(whose: str, left: int):
    """Nor keeps any where their own data is erased while runs have still to move back."""
    game = a_game()
    said(game, "told", "ada")
    merged = game.merge("ada", "bob")
    game.books.do(undo(merged.merge_id, by="player:bob", now_ms=NOON_MS + 3))
    game.books.do(ask(whose, Act("cli:op", NOON_MS), grace_ms=0))
    asyncio.run(Forgotten(game).finish(whose, now_ms=NOON_MS))
    game.follow(merged)
    assert ["told"] == runs_in(lines_of(game, "ada"))
    assert left == json.dumps(lines_of(game, "ada")).count(SECRET)
