"""Bans on every ledger: in slices that go on after a death, sealed, and true at every instant of the past."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import bans
from gateway.ledger.moderation.bans import Ban, is_shadow
from gateway.ledger.seals.audit import audit
from gateway.ledger.seals.signing_keys import PublicKeys
from gateway.ledger.standings.history import board_as_of
from gateway.runtime.settings import Settings
from gateway.settlement import banned_players
from gateway.settlement import bans as banning
from gateway.settlement.banned_players import BannedPlayers
from gateway.settlement.bans import BanFollower, begin, lift
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all, receive
from gateway.steward.ban_keeping import BanKeeper
from gateway.steward.failures import Failures
from gateway.steward.seals.sealing import Sealer, seal_key_of
from policies.loader import Board
from policies.vocabulary import Claim, Reason, State
from policies.windows import window_named
from tests.support import boards
from tests.support.banning import Bench, Boards, a_ban
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere
from tests.support.stores import Store, open_in

STANDINGS = (
    'SELECT "window", player, score, achieved_at_ms, achieved_seq, submission_id, order_value, member '
    'FROM standings WHERE score IS NOT NULL ORDER BY "window", order_value, member'
)
BASELINES = (
    "SELECT player, count, total, total_of_squares, recent, lowest, highest FROM baselines "
    "WHERE count > 0 ORDER BY player"
)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "policies")


async def score(ledger: Ledger, board: Board, *runs: tuple[str, int], at_ms: int = NOON_MS) -> None:
    """Runs that count from the instant on in which they came, in one transaction."""
    decisions = []
    for number, (player, points) in enumerate(runs):
        name = f"{player}-{at_ms}-{number}"
        new = new_submission(name, board=board.name, player=player, at_ms=at_ms, recording=None)
        run = new.submission._replace(claim=Claim(points, 25, {}))
        await ledger.write(lambda tx, new=new, run=run: receive(tx, new._replace(submission=run)))
        pending = frozenset({State.PENDING})
        decisions.append(Decision(name, State.PROMOTED, "replay", Reason.VERIFIED, at_ms, pending))
    await ledger.write(_decide_all(board, decisions))


class Died(Exception):
    """The process ends here."""


class Dying:
    """A ledger of a process that dies in its next write: before it, or after it is durable."""

    def __init__(self, ledger: Ledger, *, after: bool) -> None:
        self._ledger = ledger
        self._after = after

    async def read(self, work: Any, *_: Any) -> Any:
        return await self._ledger.read(work)

    async def write(self, work: Any) -> Any:
        if self._after:
            await self._ledger.write(work)
        raise Died


async def test_a_ban_reaches_boards_by_whole_names(store: Store):
    """That of a family reaches its boards, and none whose name only begins like it."""
    names = ("race", "race.a", "race-2", "race-2.a", "racer", "rac", "other")
    async with open_in(store) as ledger:
        for name in names:
            await ledger.append(new_submission(name, board=name, state=State.PROMOTED))
        for scope, expected in (
            ("race", names[:2]),
            ("race.a", names[1:2]),
            ("race-2", names[2:4]),
            ("", names),
        ):
            page = await ledger.read(bans.next_to_follow(a_ban("one", "ada", scope)))
            assert (scope, expected) == (scope, tuple(board for _, board in page))


def test_the_last_ban_that_was_lifted_decides_what_its_player_may_notice():
    """Until all of it is back, what a shadow ban took is shown to nobody but them, and to them as ever."""
    shadow, public = a_ban("one", "ada", is_shadow=True), a_ban("two", "ada")

    def over(ban: Ban, seq: int) -> Ban:
        return replace(ban, lifted_at_ms=NOON_MS, changed_seq=seq)

    for stored, expected in (
        ([over(shadow, 1)], True),
        ([over(public, 1), over(shadow, 2)], True),
        ([over(shadow, 1), over(public, 2)], False),
        ([shadow, over(public, 2)], True),
        ([public, over(shadow, 2)], False),
        ([shadow, public], False),
        ([shadow, a_ban("two", "ada", is_shadow=True)], True),
        ([shadow, a_ban("two", "ada", "other")], True),
        ([a_ban("one", "ada", "other", is_shadow=True), public], False),
        ([], False),
    ):
        assert expected is is_shadow(stored, "race")


async def test_a_late_repeat_of_a_ban_begins_it_no_more(store: Store):
    """Who sends it again after it was lifted reads that."""
    async with open_in(store) as ledger:
        ban = a_ban("one", "ada")
        for is_new in (True, False):
            assert is_new is (await ledger.write(begin(ban))).is_new
        await ledger.write(lift("one", by="moderator:mara", now_ms=NOON_MS + 1))
        late = await ledger.write(begin(ban))
        assert (False, NOON_MS + 1) == (late.is_new, late.ban.lifted_at_ms)


async def test_bans_that_overlap_are_lifted_in_any_order(store: Store, board: Board):
    """The tables are as they were: order of ties, numbers of events and baselines included."""
    async with open_in(store) as ledger:
        bench = Bench(ledger, {"tiny": board}, Nowhere())
        await score(ledger, board, ("ada", 5), ("bob", 5), ("ada", 7), ("cyd", 7), ("ada", 5))
        before = [await store.sql(STANDINGS), await store.sql(BASELINES)]
        for first, second in (("one", "two"), ("two", "one")):
            await bench.ban(a_ban(f"{first}1", "ada", "tiny"))
            await bench.ban(a_ban(f"{second}2", "ada", is_shadow=True))
            assert {"bob", "cyd"} == {row[1] for row in await store.sql(STANDINGS)}
            await bench.unban(f"{first}1")
            assert {"bob", "cyd"} == {row[1] for row in await store.sql(STANDINGS)}
            await bench.unban(f"{second}2")
            assert before == [await store.sql(STANDINGS), await store.sql(BASELINES)]


async def test_a_board_as_of_an_instant_shows_whom_nobody_had_banned_by_then(store: Store, board: Board):
    """Before the ban, during it, and after its end."""
    async with open_in(store) as ledger:
        bench = Bench(ledger, {"tiny": board}, Nowhere())
        await score(ledger, board, ("ada", 5), ("bob", 4))
        await bench.ban(a_ban("one", "ada"), at_ms=NOON_MS + 10)
        await bench.unban("one", at_ms=NOON_MS + 20)
        window = window_named(board.policy, "alltime")
        seen = [
            [each.player for each in await board_as_of(ledger, board.policy, window, NOON_MS + at)]
            for at in (9, 10, 19, 20)
        ]
    assert [["ada", "bob"], ["bob"], ["bob"], ["ada", "bob"]] == seen


@pytest.mark.parametrize("after", [False, True])
async def test_what_a_process_left_when_it_died_a_steward_finishes(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, *, after: bool
):
    """Whether it died before or after a slice was durable; nothing is done twice."""
    monkeypatch.setattr(banning, "SLICE", 2)
    async with open_in(store) as ledger:
        catalogue: Any = Boards({"tiny": board})
        await score(ledger, board, *(("ada", points) for points in range(7)))
        before = await store.sql(STANDINGS)
        steward = BanKeeper(ledger, Nowhere(), catalogue, Failures(), clock=lambda: NOON_MS)  # type: ignore[arg-type]
        works = begin(a_ban("one", "ada")), lift("one", by="moderator:mia", now_ms=NOON_MS)
        for work, left in zip(works, (0, 1), strict=True):
            await ledger.write(work)
            dying = BanFollower(Dying(ledger, after=after), Nowhere(), catalogue)  # type: ignore[arg-type]
            for _ in range(2):
                with pytest.raises(Died):
                    await dying.step("one", now_ms=NOON_MS)
            while await steward.step():
                pass
            stored = await ledger.read(bans.ban("one"))
            assert stored
            assert (7, None) == (stored.changed_count, stored.seen_seq)
            assert left == len({row[1] for row in await store.sql(STANDINGS)})
        assert before == await store.sql(STANDINGS)


async def test_a_slice_of_a_ban_that_was_lifted_meanwhile_revokes_nothing(store: Store, board: Board):
    """Whoever read what is to follow has to look again once the ban, or another process' work, has moved on."""
    async with open_in(store) as ledger:
        await score(ledger, board, ("ada", 5))
        await ledger.write(begin(a_ban("one", "ada")))
        ban = await ledger.read(bans.ban("one"))
        assert ban
        page = await ledger.read(bans.next_to_follow(ban))
        await ledger.write(lift("one", by="moderator:mia", now_ms=NOON_MS))
        slice_of_it = banning.follow_slice(ban, page, {"tiny": board}, now_ms=NOON_MS)
        assert ([(1, "tiny")], {}) == (page, await ledger.write(slice_of_it))
        assert {"ada"} == {row[1] for row in await store.sql(STANDINGS)}


async def test_a_slice_that_another_process_has_done_is_done_no_more(store: Store, board: Board):
    """It neither moves the ban back to where it began, nor has it end before all have followed."""
    async with open_in(store) as ledger:
        await score(ledger, board, ("ada", 5))
        await ledger.write(begin(a_ban("one", "ada")))
        ban = await ledger.read(bans.ban("one"))
        assert ban
        page = await ledger.read(bans.next_to_follow(ban))
        slice_of_it = banning.follow_slice(ban, page, {"tiny": board}, now_ms=NOON_MS)
        first = await ledger.write(slice_of_it)
        await ledger.write(lambda tx: bans.note_progress(tx, ban, seen_seq=None, again_ms=None, more=0))
        assert (["tiny"], {}) == ([*first], await ledger.write(slice_of_it))
        assert (1, None) == await progress(ledger)


async def test_the_end_of_a_ban_does_not_wait_for_the_boards_that_the_ban_waited_for(
    store: Store, board: Board
):
    """What was passed over is looked for again after a while, but what it took comes back at once."""
    async with open_in(store) as ledger:
        later = replace(board, policy=board.policy.model_copy(update={"board": "later"}))
        parts: tuple[Any, ...] = (ledger, Nowhere(), Boards({"tiny": board}), Failures())
        steward = BanKeeper(*parts, clock=lambda: NOON_MS)
        await score(ledger, board, ("ada", 5))
        await score(ledger, later, ("ada", 7), at_ms=NOON_MS + 7)
        await ledger.write(begin(a_ban("one", "ada")))
        assert 0 in [await steward.step() for _ in range(8)]
        waiting = await ledger.read(bans.ban("one"))
        assert waiting is not None
        assert NOON_MS + banning.AGAIN_MS == waiting.again_ms
        await ledger.write(lift("one", by="moderator:mia", now_ms=NOON_MS))
        lifted = await ledger.read(bans.ban("one"))
        assert (None, 0) == (lifted and lifted.again_ms, await ledger.read(bans.next_due(now_ms=NOON_MS)))
        await steward.step()
        assert "promoted" in {
            row[0] for row in await store.sql("SELECT state FROM submissions WHERE board = 'tiny'")
        }


async def test_an_edge_leaves_what_was_played_on_deleted_boards_to_a_steward(store: Store, board: Board):
    """Its catalogue does not know them, and what was played there must not count on."""
    async with open_in(store) as ledger:
        nothing: Any = Boards({})
        await score(ledger, board, ("ada", 5))
        await ledger.write(begin(a_ban("one", "ada")))
        edge = BanFollower(ledger, Nowhere(), nothing, is_edge=True)
        left = await edge.follow("one", now_ms=NOON_MS)
        done = await Bench(ledger, {"tiny": board}, Nowhere()).settled("one", NOON_MS)
    assert [(0, 0, None), (1, None, None)] == [
        (ban.changed_count, ban.seen_seq, ban.again_ms) for ban in (left, done)
    ]


async def test_a_ban_of_many_submissions_changes_the_board_once(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """Of many runs, those that nobody sees go first, slice by slice, and come back last."""
    monkeypatch.setattr(banning, "SLICE", 20)
    async with open_in(store) as ledger:
        bench = Bench(ledger, {"tiny": board}, Nowhere())
        runs = [("ada", number * 7919 % 300) for number in range(300)]
        await score(ledger, board, *runs, at_ms=NOON_MS)
        best = "SELECT DISTINCT score FROM standings WHERE player = 'ada' AND score IS NOT NULL"
        seen = []
        for work in (begin(a_ban("one", "ada")), lift("one", by="moderator:mia", now_ms=NOON_MS)):
            await ledger.write(work)
            while await bench.follower.step("one", now_ms=NOON_MS):
                found = await store.sql(best)
                if [found] != seen[-1:]:
                    seen.append(found)
    assert [[(299,)], [], [(299,)]] == seen


async def test_bans_are_sealed_and_their_states_agree_with_the_log(
    store: Store, board: Board, tmp_path: Path
):
    """An audit compares every submission with its last event; the ban's own events have no submission."""
    settings = Settings(data_dir=tmp_path / "data", seal_events=2)
    key = seal_key_of(settings, is_made=True)
    async with open_in(store) as ledger:
        bench = Bench(ledger, {"tiny": board}, Nowhere())
        await score(ledger, board, ("ada", 5), ("bob", 4))
        await bench.ban(a_ban("one", "ada", "tiny"))
        await bench.ban(a_ban("two", "bob"))
        await bench.unban("one")
        sealer = Sealer(settings, ledger, clock=lambda: NOON_MS)
        while await sealer.step():
            pass
        report = await audit(ledger, PublicKeys(key.public_key))
    assert (10, 10, 2) == (report.events, report.sealed_events, report.submissions)


class SlowAtFirst:
    """A ledger whose first answer arrives only when it may."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._is_first = True
        self.has_read = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def read(self, work: Any, *_: Any) -> Any:
        is_first, self._is_first = self._is_first, False
        answer = await self._ledger.read(work)
        if is_first:
            self.has_read.set()
            await self.may_answer.wait()
        return answer


async def test_an_edge_does_not_take_an_older_answer_for_the_newest(store: Store, board: Board):
    """Of two reads at once the first may be answered last; who was freed between them is free."""
    async with open_in(store) as ledger:
        slow = SlowAtFirst(ledger)
        known = BannedPlayers(slow)  # type: ignore[arg-type]
        await ledger.write(begin(a_ban("one", "ada", "tiny")))
        async with asyncio.TaskGroup() as both:
            both.create_task(known.refresh())
            await slow.has_read.wait()
            await ledger.write(lift("one", by="moderator:mia", now_ms=NOON_MS))
            second = both.create_task(known.refresh())
            await asyncio.wait([second], timeout=0.2)
            slow.may_answer.set()
        assert not known.open_ban("ada", "tiny", now_ms=NOON_MS)


async def test_a_ban_ends_at_its_time_and_an_edge_hears_of_all(store: Store, board: Board):
    """The steward lifts it, and not before; what an edge read holds while it cannot read more."""
    async with open_in(store) as ledger:
        known = BannedPlayers(ledger)
        catalogue: Any = Boards({"tiny": board})
        now = [NOON_MS]
        steward = BanKeeper(ledger, Nowhere(), catalogue, Failures(), clock=lambda: now[0])  # type: ignore[arg-type]
        await ledger.write(begin(a_ban("one", "ada", "tiny", until_ms=NOON_MS + 10)))
        await ledger.write(begin(a_ban("two", "bob", is_shadow=True)))
        await known.refresh()
        while await steward.step():
            pass
        assert NOON_MS + 10 == await steward.next_due()
        assert known.open_ban("ada", "tiny", now_ms=NOON_MS + 9)
        assert not known.open_ban("ada", "other", now_ms=NOON_MS)
        assert not known.open_ban("ada", "tiny", now_ms=NOON_MS + 10)
        assert not known.open_ban("bob", "tiny", now_ms=NOON_MS)
        assert [False, True] == [known.is_shadow_banned(who, "tiny") for who in ("ada", "bob")]
        now[0] += 10
        while await steward.step():
            pass
        assert await steward.next_due() is None
        await known.refresh()
        assert not known.open_ban("ada", "tiny", now_ms=NOON_MS + 9)


async def test_of_several_open_bans_the_one_that_ends_last_is_told(store: Store):
    """Its player may play again when that is over, and not before."""
    async with open_in(store) as ledger:
        known = BannedPlayers(ledger)
        for name, until_ms in (("one", NOON_MS + 10), ("two", NOON_MS + 30), ("three", NOON_MS + 20)):
            await ledger.write(begin(a_ban(name, "ada", "tiny", until_ms=until_ms)))
        await known.refresh()
        assert "two" == getattr(known.open_ban("ada", "tiny", now_ms=NOON_MS), "ban_id", None)
        await ledger.write(begin(a_ban("four", "ada")))
        await known.refresh()
        assert "four" == getattr(known.open_ban("ada", "tiny", now_ms=NOON_MS), "ban_id", None)


async def test_an_edge_reads_all_bans_and_forgets_whom_nobody_banned_for_longest(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Page by page at once; of too many players, a further ban keeps one in mind."""
    monkeypatch.setattr(banned_players, "PAGE", 1)
    monkeypatch.setattr(banned_players, "PLAYERS", 2)
    async with open_in(store) as ledger:
        known = BannedPlayers(ledger)
        for name, player in (("one", "ada"), ("two", "bob"), ("three", "ada"), ("four", "cyd")):
            await ledger.write(begin(a_ban(name, player, "tiny")))
        await known.refresh()
        banned = [known.open_ban(who, "tiny", now_ms=NOON_MS) is not None for who in ("ada", "bob", "cyd")]
        assert [True, False, True] == banned


async def test_what_was_played_on_a_board_that_a_steward_does_not_know_yet_follows_later(
    store: Store, board: Board
):
    """A ban, and its end, holds up no other for it; nothing is due while nobody knows the board."""
    async with open_in(store) as ledger:
        known, now = {"tiny": board}, [NOON_MS]
        later = replace(board, policy=board.policy.model_copy(update={"board": "later"}))
        parts: tuple[Any, ...] = (ledger, Nowhere(), Boards(known), Failures())
        steward = BanKeeper(*parts, clock=lambda: now[0])
        await score(ledger, board, ("ada", 5), ("bob", 6))
        for points in (7, 8):
            await score(ledger, later, ("ada", points), at_ms=NOON_MS + points)
        before = await store.sql(STANDINGS)
        turns = (begin(a_ban("one", "ada")), lift("one", by="moderator:mia", now_ms=NOON_MS))
        for work, (some, all_of_them) in zip(
            turns, (({"bob", "ada"}, {"bob"}), ({"bob", "ada"},) * 2), strict=True
        ):
            known.pop("later", None)
            await ledger.write(work)
            assert 0 in [await steward.step() for _ in range(8)]
            assert (1, 0) == await progress(ledger)
            assert await steward.next_due() is None
            assert some == {row[1] for row in await store.sql(STANDINGS)}
            known["later"] = later
            assert 0 == await steward.step()
            now[0] += banning.AGAIN_MS
            assert 0 in [await steward.step() for _ in range(8)]
            assert (3, None) == await progress(ledger)
            assert all_of_them == {row[1] for row in await store.sql(STANDINGS)}
        assert before == await store.sql(STANDINGS)


async def progress(ledger: Ledger) -> tuple[int, int | None]:
    ban = await ledger.read(bans.ban("one"))
    assert ban is not None
    return ban.changed_count, ban.seen_seq
