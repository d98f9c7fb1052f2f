"""Batches on every ledger: what was previewed is decided, no more and no less, and all of it can be reversed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.judgement.expiry import UNDO_MS
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import selections
from gateway.ledger.moderation.batch_items import BatchItem
from gateway.ledger.moderation.batches import BatchState, batches_before, load_batch
from gateway.ledger.moderation.claims import CLAIM_MS, Claimant, claim_case
from gateway.runtime import failpoints
from gateway.runtime.failpoints import Point, Unforeseen
from gateway.settlement import batch_slices, batch_steps, batches
from gateway.settlement.batches import KEPT_MS, abandon, apply, begin, reverse
from gateway.settlement.label_audit import check_labels
from gateway.settlement.passed_boards import AGAIN_MS, GIVEN_UP_MS
from gateway.steward.batch_keeping import BatchKeeper
from gateway.steward.failures import Failures
from policies.choices import Operator
from policies.decision_codes import DecisionKind
from policies.errors import CaseOvertaken, StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State
from scoregate.operator_batches import BatchOperator
from tests.support import boards
from tests.support.banning import Bench, a_ban
from tests.support.batching import MODERATOR, Boards, Desk, a_batch, decided, submitted
from tests.support.ledger import NOON_MS
from tests.support.sealed import Nowhere
from tests.support.stores import Store, open_in

STANDINGS = (
    'SELECT board, "window", player, score, achieved_at_ms, achieved_seq, submission_id, order_value, member '
    'FROM standings WHERE score IS NOT NULL ORDER BY board, "window", order_value, member'
)
BASELINES = (
    "SELECT board, player, count, total, total_of_squares, recent, lowest, highest FROM baselines "
    "WHERE count > 0 ORDER BY board, player"
)
STATES = "SELECT submission_id, state, reason FROM submissions ORDER BY seq"
BEFORE = {
    DecisionKind.APPROVE: State.HELD,
    DecisionKind.REJECT: State.HELD,
    DecisionKind.REVOKE: State.PROMOTED,
    DecisionKind.REINSTATE: State.REVOKED,
}


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "policies")


@pytest.fixture
def other(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "others", "other", operator=Operator.SUM.value)


async def ready(ledger: Ledger, board: Board, kind: DecisionKind, runs: list[tuple[str, str, int]]) -> None:
    """Runs in the state that a kind of decision takes."""
    state = BEFORE[kind]
    if state is State.REVOKED:
        await submitted(ledger, board, runs, to_state=State.PROMOTED)
        await decided(ledger, board, [name for name, _, _ in runs], State.REVOKED)
    else:
        await submitted(ledger, board, runs, to_state=state)


@pytest.mark.parametrize("kind", BEFORE)
async def test_a_batch_decides_what_was_previewed_whatever_others_decide_meanwhile(
    store: Store, board: Board, other: Board, kind: DecisionKind, monkeypatch: pytest.MonkeyPatch
):
    """Others decide before it and between its slices, and new runs come: those are left, and reversing brings back all."""
    monkeypatch.setattr(batch_slices, "SLICE", 3)
    monkeypatch.setattr(batch_steps, "SLICE", 3)
    monkeypatch.setattr(selections, "SCANNED", 4)
    drawn = random.Random(kind.value)
    move = batches.MOVES[kind]
    runs = [(f"run{at}", f"p{at % 5}", drawn.randrange(100)) for at in range(20)]
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board, "other": other})
        await submitted(ledger, board, [("base", "zoe", 50)], to_state=State.PROMOTED)
        for on, some in ((board, runs[:12]), (other, runs[12:])):
            await ready(ledger, on, kind, some)
        chosen = "base" if kind is DecisionKind.REVOKE else None
        batch = await desk.previewed(a_batch("one", kind))
        selected = {item.submission_id for item in await desk.items("one")}
        assert (BatchState.PREVIEWED, {name for name, _, _ in runs} | {chosen} - {None}) == (
            batch.state,
            selected,
        )
        assert {"tiny", "other"} == {each["board"] for each in batch.preview["boards"]}

        # Others decide on some before the batch begins, and on some behind its first slices; and runs come.
        there_and_back = (
            (move.to_state, move.from_state)
            if move.to_state is not State.REJECTED
            else (State.REJECTED, State.HELD)
        )
        early, late = drawn.sample(runs[:3], 1), [runs[11], runs[15]]
        for name, _, _ in early:
            for state in there_and_back:
                await decided(ledger, board, [name], state)
        await ready(ledger, board, kind, [("new", "p1", 99)])
        before = {row[0]: row for row in await store.sql(STATES)}
        standings = [await store.sql(STANDINGS), await store.sql(BASELINES)]
        await ledger.write(apply("one", version=batch.version, by=MODERATOR, now_ms=NOON_MS))
        assert await desk.steps.step("one")
        items = await desk.items("one")
        assert 3 == sum(item.outcome != "waiting" for item in items)
        for (name, _, _), on in zip(late, (board, other), strict=True):
            for state in there_and_back:
                await decided(ledger, on, [name], state)
        batch = await desk.settled("one")

        overtaken = {name for name, _, _ in [*early, *late]}
        outcomes = await desk.outcomes("one")
        assert BatchState.APPLIED is batch.state
        assert {name: "overtaken" if name in overtaken else "decided" for name in selected} == outcomes
        after = {row[0]: row for row in await store.sql(STATES)}
        for name, row in after.items():
            is_decided = outcomes.get(name) == "decided"
            assert (move.to_state if is_decided else before[name][1]) == row[1], name
        events = await store.sql(
            f"SELECT submission_id FROM events WHERE actor = '{MODERATOR}' AND detail LIKE '%\"batch\":\"one\"%'"
        )
        assert sorted(selected - overtaken) == sorted(name for (name,) in events)

        batch = await desk.reverse(batch)
        assert BatchState.REVERSED is batch.state
        assert {"reversed", "overtaken"} == set((await desk.outcomes("one")).values())
        reasons = {row[0]: row for row in await store.sql(STATES)}
        assert {name: row for name, row in before.items() if name not in overtaken} == {
            name: row for name, row in reasons.items() if name not in overtaken
        }
        assert standings == [await store.sql(STANDINGS), await store.sql(BASELINES)]


POINTS = (Point.INSIDE_SETTLE, Point.AFTER_SETTLE, Point.AFTER_PROJECT)


@pytest.mark.parametrize("point", POINTS)
async def test_what_a_process_left_when_it_died_a_steward_finishes(
    store: Store, board: Board, point: Point, monkeypatch: pytest.MonkeyPatch
):
    """At each point, in deciding and in reversing: every item once, and all back."""
    monkeypatch.setattr(batch_slices, "SLICE", 3)
    monkeypatch.setattr(batch_steps, "SLICE", 3)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(
            ledger, board, [(f"run{at}", f"p{at % 3}", at) for at in range(7)], to_state=State.PROMOTED
        )
        before = await store.sql(STANDINGS)
        catalogue: Any = Boards({"tiny": board})
        steward = BatchKeeper(ledger, Nowhere(), catalogue, Failures(), clock=lambda: NOON_MS)  # type: ignore[arg-type]
        batch = await desk.previewed(a_batch("one", DecisionKind.REVOKE))
        for begun in (
            apply("one", version=batch.version, by=MODERATOR, now_ms=NOON_MS),
            reverse("one", by=MODERATOR, now_ms=NOON_MS),
        ):
            await ledger.write(begun)
            for _ in range(2):
                failpoints.arm(point, _die)
                with pytest.raises(Unforeseen):
                    await desk.steps.step("one")
            failpoints.disarm()
            while await steward.step():
                pass
        counts = await store.sql('SELECT count(*) FROM events WHERE detail LIKE \'%"batch":"one"%\'')
        assert [(14,)] == counts
        assert ["reversed"] * 7 == list((await desk.outcomes("one")).values())
        assert before == await store.sql(STANDINGS)


async def test_a_run_that_a_ban_takes_off_while_a_batch_is_selected_is_in_it_once(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """The selection comes by it a second time, among what only bans revoke; it ends nevertheless."""
    monkeypatch.setattr(selections, "SCANNED", 1)
    async with open_in(store) as ledger:
        desk, bench = Desk(ledger, {"tiny": board}), Bench(ledger, {"tiny": board}, Nowhere())
        await submitted(ledger, board, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.PROMOTED)
        await bench.ban(a_ban("one", "bob"))
        await ledger.write(begin(a_batch("two", DecisionKind.REVOKE)))
        assert await desk.steps.step("two")
        await bench.ban(a_ban("three", "ada"))
        batch = await desk.settled("two")
        assert (BatchState.PREVIEWED, 2, {"a", "b"}) == (
            batch.state,
            batch.items,
            {*await desk.outcomes("two")},
        )


def _die() -> None:
    raise Unforeseen


async def test_a_batch_decides_on_what_only_a_ban_revokes_and_its_reversal_leaves_that_to_the_ban(
    store: Store, board: Board
):
    """By the reason for which it would count; a ban that begins or ends meanwhile overtakes nothing."""
    async with open_in(store) as ledger:
        desk, bench = Desk(ledger, {"tiny": board}), Bench(ledger, {"tiny": board}, Nowhere())
        await submitted(ledger, board, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.PROMOTED)
        before = await store.sql(STANDINGS), await store.sql(STATES)
        await bench.ban(a_ban("one", "ada"))
        reinstated = await desk.previewed(a_batch("none", DecisionKind.REINSTATE))
        batch = await desk.previewed(a_batch("two", DecisionKind.REVOKE, reason="verified"))
        assert (0, 2) == (reinstated.items, batch.items)
        await bench.unban("one")
        batch = await desk.apply(batch)
        assert {"a": "decided", "b": "decided"} == await desk.outcomes("two")
        await bench.ban(a_ban("three", "ada"))
        await desk.reverse(batch)
        assert {"a": "reversed", "b": "reversed"} == await desk.outcomes("two")
        assert {"bob"} == {row[2] for row in await store.sql(STANDINGS)}
        await bench.unban("three")
        assert before == (await store.sql(STANDINGS), await store.sql(STATES))


async def test_a_batch_brings_nobody_into_a_top_that_needs_two_moderators(store: Store, tmp_path: Path):
    """Also not by several runs that add up, of which none would reach it alone, nor behind a ban."""
    board = boards.board(
        tmp_path, operator=Operator.SUM.value, windows=["alltime"], moderation={"four_eyes_top": 1}
    )
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("base", "zoe", 50)], to_state=State.PROMOTED)
        await submitted(ledger, board, [(f"run{at}", "ada", 20) for at in range(4)], to_state=State.HELD)
        batch = await desk.apply(await desk.previewed(a_batch("one", DecisionKind.APPROVE)))
        assert {"decided": 2, "barred": 2} == dict(batch.outcomes)
        assert [("zoe", 50), ("ada", 40)] == [(row[2], row[3]) for row in await store.sql(STANDINGS)]
        await desk.reverse(batch)
        assert ["zoe"] == [row[2] for row in await store.sql(STANDINGS)]

        bench = Bench(ledger, {"tiny": board}, Nowhere())
        await bench.ban(a_ban("ban", "ada"))  # their standing is empty, and nothing enters the top
        batch = await desk.apply(await desk.previewed(a_batch("two", DecisionKind.APPROVE)))
        assert {"barred": 4} == dict(batch.outcomes)


async def test_a_selection_takes_what_is_asked_for_and_nothing_beside(
    store: Store, board: Board, other: Board
):
    """By board, player, key, build, time, reason and all of them; what is in another state is never taken."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board, "other": other})
        await submitted(ledger, board, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.PROMOTED)
        await submitted(
            ledger,
            other,
            [("c", "ada", 3)],
            to_state=State.PROMOTED,
            credential="server:eu-1",
            build="tiny-2",
            at_ms=NOON_MS + 5,
        )
        await submitted(ledger, other, [("d", "ada", 3)], to_state=State.HELD)
        wanted: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
            "abc": ((), {}),
            "ab": (("tiny",), {}),
            "c": (("other",), {}),
            "ac": ((), {"player": "ada"}),
            "a": (("tiny",), {"player": "ada"}),
            "c ": ((), {"key": "eu-1"}),
            "c  ": ((), {"build": "tiny-2"}),
            "c   ": ((), {"received_since_ms": NOON_MS + 1}),
            "ab ": ((), {"achieved_until_ms": NOON_MS + 5}),
            "": ((), {"reason": "trusted"}),
            "abc ": ((), {"reason": "verified"}),
            "b": ((), {"not_players": ["ada"]}),
        }  # fmt: skip
        for ids, (scopes, selection) in wanted.items():
            name = f"batch{ids}"
            await desk.previewed(a_batch(name, DecisionKind.REVOKE, *scopes, **selection))
            assert list(ids.strip()) == sorted(item.submission_id for item in await desk.items(name)), ids


async def test_a_preview_names_the_podiums_that_change(
    store: Store, board: Board, other: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Those of which somebody falls or on which somebody comes; a run behind the third changes none.

    However many there are, they are looked at page by page.
    """
    monkeypatch.setattr(batch_steps, "COMPARED", 2)
    latest = boards.board(tmp_path / "latest", "latest", operator=Operator.LATEST.value)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board, "other": other, "latest": latest})
        runs = [("a", "ada", 9), ("b", "bob", 8), ("c", "cyd", 7), ("d", "dan", 6), ("e", "ada", 5)]
        await submitted(ledger, board, runs, to_state=State.PROMOTED, at_ms=NOON_MS)
        windows = {"alltime", "daily:20251120", "weekly:2025W47", "monthly:202511"}
        for player, expected in (("dan", set()), ("cyd", windows)):
            batch = await desk.previewed(a_batch(player, DecisionKind.REVOKE, player=player))
            assert expected == {each["window"] for each in batch.preview["podiums"]}
        await submitted(ledger, board, [("f", "eve", 5), ("g", "ada", 8)], to_state=State.HELD)
        none = await desk.previewed(a_batch("none", DecisionKind.APPROVE))
        rejected = await desk.previewed(a_batch("rejected", DecisionKind.REJECT))
        await submitted(ledger, board, [("h", "eve", 8)], to_state=State.HELD)
        some = await desk.previewed(a_batch("some", DecisionKind.APPROVE))
        assert (0, 0, 4) == tuple(each.preview["podium_count"] for each in (none, rejected, some))
        # On a board of sums a second run of somebody's adds up.
        others = [(f"other-{name}", player, points) for name, player, points in runs]
        await submitted(ledger, other, others, to_state=State.PROMOTED)
        await submitted(ledger, other, [("i", "dan", 1), ("j", "dan", 1)], to_state=State.HELD)
        added = await desk.previewed(a_batch("added", DecisionKind.APPROVE, "other"))
        assert windows == {each["window"] for each in added.preview["podiums"]}
        # On a board of latest runs only the last of somebody's counts.
        last = [(f"last-{name}", player, points) for name, player, points in runs[:4]]
        await submitted(ledger, latest, last, to_state=State.PROMOTED)
        await submitted(ledger, latest, [("k", "eve", 9), ("l", "eve", 1)], to_state=State.HELD)
        below = await desk.previewed(a_batch("below", DecisionKind.APPROVE, "latest"))
        assert (2, 0) == (below.items, below.preview["podium_count"])
        whole = await desk.previewed(a_batch("whole", DecisionKind.REVOKE, "tiny"))
        assert [{"board": "tiny", "items": 5}] == whole.preview["boards"]
        assert 4 == whole.preview["podium_count"]


async def test_a_preview_counts_the_cases_that_a_colleague_is_in(store: Store, board: Board):
    """Not those that nobody is in, the moderator is in, or somebody was in before; runs that count have no case."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        runs = [("free", "ada", 1), ("own", "bob", 2), ("noors", "cyd", 3), ("left", "dan", 4)]
        await submitted(ledger, board, runs, to_state=State.HELD)
        await submitted(ledger, board, [("counts", "eve", 5)], to_state=State.PROMOTED)
        for run, by, since_ms in (("own", "mia", 0), ("noors", "noor", 0), ("left", "noor", CLAIM_MS)):
            await ledger.write(claim_case(run, Claimant(by), now_ms=NOON_MS - since_ms))
        rejected = await desk.previewed(a_batch("rejected", DecisionKind.REJECT))
        revoked = await desk.previewed(a_batch("revoked", DecisionKind.REVOKE))
        assert (4, 1) == (rejected.items, rejected.preview["in_cases"])
        assert (1, 0) == (revoked.items, revoked.preview["in_cases"])


async def test_a_preview_of_too_many_is_refused_and_let_go(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """It says how many there are; it cannot be applied, and after a day nothing is left of it, as of what was abandoned."""
    monkeypatch.setattr(batch_steps, "LIMIT", 3)
    monkeypatch.setattr(batch_steps, "FORGOTTEN", 2)
    monkeypatch.setattr(selections, "SCANNED", 1)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(
            ledger, board, [(f"run{at}", f"p{at}", at) for at in range(5)], to_state=State.PROMOTED
        )
        batch = await desk.previewed(a_batch("one", DecisionKind.REVOKE))
        assert (BatchState.REFUSED, 4, 3) == (batch.state, batch.items, len(await desk.items("one")))
        assert 4 == batch.looked_at, "it walked on although it was too many already"
        with pytest.raises(StateConflict):
            await desk.apply(batch)
        fine = await desk.previewed(a_batch("two", DecisionKind.REVOKE, player="p1"))
        await desk.previewed(a_batch("three", DecisionKind.REVOKE, player="p2"))
        await ledger.write(abandon("three", now_ms=NOON_MS))
        with pytest.raises(StateConflict):
            await ledger.write(reverse("two", by=MODERATOR, now_ms=NOON_MS))
        await desk.steps.follow("three")
        assert [("one",), ("two",)] == await store.sql("SELECT batch_id FROM batches ORDER BY 1")
        desk.now_ms += batches.KEPT_MS
        for name in ("one", "two"):
            await desk.steps.follow(name, steps=10)
        for table in ("batches", "batch_items"):
            assert [(0,)] == await store.sql(f"SELECT count(*) FROM {table}")
        with pytest.raises(StateConflict):
            await desk.apply(fine)
        assert [(5,)] == await store.sql("SELECT count(*) FROM submissions WHERE state = 'promoted'")


async def test_only_the_preview_that_somebody_saw_is_applied_and_once(store: Store, board: Board):
    """Another version is refused, the same again changes nothing, and what is reversed half way stays so."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 1)], to_state=State.PROMOTED)
        new = a_batch("one", DecisionKind.REVOKE)
        assert [True, False] == [(await ledger.write(begin(new))).is_new for _ in range(2)]
        with pytest.raises(CaseOvertaken):
            await ledger.write(apply("one", version=2, by=MODERATOR, now_ms=NOON_MS))
        batch = await desk.settled("one")
        with pytest.raises(CaseOvertaken):
            await ledger.write(apply("one", version=1, by=MODERATOR, now_ms=NOON_MS))
        begun = [
            (await ledger.write(apply("one", version=2, by=MODERATOR, now_ms=NOON_MS))).is_new
            for _ in range(2)
        ]
        assert [True, False] == begun
        with pytest.raises(StateConflict):
            await ledger.write(abandon("one", now_ms=NOON_MS))
        assert BatchState.REVERSED is (await desk.reverse(batch)).state
        assert {"a": "waiting"} == await desk.outcomes("one")
        assert [(0,)] == await store.sql("SELECT count(*) FROM events WHERE detail LIKE '%batch%'")


async def test_F01_a_selection_looks_at_no_more_than_a_slice_at_a_time(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """However few of them it takes; it goes on where it ended, and what came after it began is not in it."""
    monkeypatch.setattr(selections, "SCANNED", 3)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(
            ledger, board, [(f"run{at}", f"p{at}", at) for at in range(8)], to_state=State.PROMOTED
        )
        await ledger.write(begin(a_batch("one", DecisionKind.REVOKE, build="none")))
        await submitted(ledger, board, [("late", "p9", 9)], to_state=State.PROMOTED)
        looked = []
        while (batch := await desk.steps.follow("one", steps=1)) and batch.state is BatchState.SELECTING:
            looked.append(batch.looked_at)
        assert [3, 6, 9, 9, 9] == looked
        assert (BatchState.PREVIEWED, 0) == (batch and batch.state, batch and batch.items)


async def test_a_reversal_leaves_what_somebody_decided_on_since(store: Store, board: Board):
    """Though it is in the state that the batch gave it: it stays as they left it."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.PROMOTED)
        batch = await desk.apply(await desk.previewed(a_batch("one", DecisionKind.REVOKE)))
        for state in (State.PROMOTED, State.REVOKED):
            await decided(ledger, board, ["a"], state)
        await desk.reverse(batch)
        assert {"a": "kept", "b": "reversed"} == await desk.outcomes("one")
        assert [("b",)] == await store.sql("SELECT submission_id FROM submissions WHERE state = 'promoted'")


async def test_a_batch_over_cases_is_too_old_to_be_reversed_after_a_while(store: Store, board: Board):
    """Its cases would be held again though their recordings are gone; what counted counts again however late."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 1)], to_state=State.HELD)
        await submitted(ledger, board, [("b", "bob", 2)], to_state=State.PROMOTED)
        batches_made = [
            await desk.apply(await desk.previewed(a_batch(kind.value, kind)))
            for kind in (DecisionKind.REJECT, DecisionKind.REVOKE)
        ]
        desk.now_ms += UNDO_MS + 1
        with pytest.raises(StateConflict, match="30 days"):
            await desk.reverse(batches_made[0])
        assert BatchState.REVERSED is (await desk.reverse(batches_made[1])).state
        assert [("b",)] == await store.sql("SELECT submission_id FROM submissions WHERE state = 'promoted'")


async def test_who_applies_what_another_has_applied_is_told_to_read_it_again(store: Store, board: Board):
    """Only the same moderator, whose answer was lost, is told that it is done."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 1)], to_state=State.PROMOTED)
        batch = await desk.previewed(a_batch("one", DecisionKind.REVOKE))
        await desk.apply(batch)
        again = apply("one", version=batch.version, by=MODERATOR, now_ms=NOON_MS)
        assert not (await ledger.write(again)).is_new
        with pytest.raises(CaseOvertaken):
            await ledger.write(apply("one", version=batch.version, by="moderator:noor", now_ms=NOON_MS))


async def test_a_reversal_leaves_what_is_not_for_its_moderator(store: Store, board: Board):
    """A run of their own player stays as the batch decided, and is told as kept: nothing barred the batch."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.HELD)
        batch = await desk.apply(await desk.previewed(a_batch("one", DecisionKind.REJECT)))
        await ledger.write(reverse("one", by="moderator:noor", now_ms=desk.now_ms, not_players=["ada"]))
        reversed_ = await desk.settled(batch.batch_id)
        assert {"a": "kept", "b": "reversed"} == await desk.outcomes("one")
        assert {"kept": 1, "reversed": 1} == dict(reversed_.outcomes)
        assert ["not-yours", ""] == [item.why for item in await desk.items("one")]


async def test_what_is_on_a_board_that_a_steward_does_not_know_is_taken_again_for_an_hour(
    store: Store, board: Board, other: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It holds up nothing, and neither does its reversal; one that nobody knows by then is left, and that is said."""
    monkeypatch.setattr(batch_slices, "SLICE", 2)
    monkeypatch.setattr(batch_steps, "SLICE", 2)
    async with open_in(store) as ledger:
        known = {"tiny": board}
        desk = Desk(ledger, known)
        gone = boards.board(tmp_path / "gone", "gone")
        for on, names in ((board, "a"), (other, "bcd"), (gone, "efg")):
            await submitted(ledger, on, [(name, "ada", 1) for name in names], to_state=State.PROMOTED)
        batch = await desk.previewed(a_batch("one", DecisionKind.REVOKE))
        assert ({"no-policy": 6}, {}) == (batch.preview["left_out"], batch.outcomes)
        batch = await desk.apply(batch)
        assert (BatchState.APPLYING, {"decided": 1}, {}) == (batch.state, batch.outcomes, batch.left_out)
        assert desk.now_ms + AGAIN_MS == batch.due_at_ms, "other batches have their turns meanwhile"
        known["other"] = other
        assert batch == await desk.settled("one")
        desk.now_ms += AGAIN_MS
        batch = await desk.settled("one")
        assert (BatchState.APPLYING, {"decided": 4}) == (batch.state, batch.outcomes)
        desk.now_ms += GIVEN_UP_MS
        batch = await desk.settled("one")
        assert (BatchState.APPLIED, {"decided": 4, "barred": 3}) == (batch.state, batch.outcomes)
        assert {"no-policy": 3} == batch.left_out

        del known["other"]
        batch = await desk.reverse(batch)
        assert (BatchState.REVERSING, {"reversed": 1, "decided": 3, "barred": 3}) == (
            batch.state,
            batch.outcomes,
        )
        known["other"] = other
        desk.now_ms += AGAIN_MS
        batch = await desk.settled("one")
        assert (BatchState.REVERSED, {"reversed": 4, "barred": 3}) == (batch.state, batch.outcomes)


async def test_what_a_command_puts_into_a_batch_is_all_that_it_decides_on(store: Store, board: Board):
    """It is previewed once it is filled, and takes nothing more then; what it was told to leave stays."""
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 3), ("b", "bob", 2)], to_state=State.PROMOTED)
        [seqs, newest] = [
            dict(await store.sql(f"SELECT submission_id, max(seq) FROM {table} GROUP BY 1"))
            for table in ("submissions", "events")
        ]
        a, b = (BatchItem("tiny", seqs[name], name, "ada", newest[name]) for name in "ab")
        left = b._replace(outcome="barred", why="refused")
        new = batches.filling(("tiny",), Reason.KEY_COMPROMISED, {}, {"key": "eu-1"}, now_ms=NOON_MS)
        await ledger.write(begin(new))
        assert BatchState.FILLING is (await desk.settled(new.batch_id)).state
        late_ms = NOON_MS + KEPT_MS
        expired = batch_steps._let_go(await desk.settled(new.batch_id), now_ms=late_ms)
        await ledger.write(batches.put_items(new.batch_id, [a, left], now_ms=late_ms))
        await ledger.write(expired)  # a steward's, which began before
        await ledger.write(batches.end_filling(new.batch_id, now_ms=NOON_MS))
        batch = await desk.settled(new.batch_id)
        assert (BatchState.PREVIEWED, 2, {"refused": 1}) == (batch.state, batch.items, batch.leaves)
        assert (4, 1) == (batch.preview["podium_count"], batch.preview["boards"][0]["items"])
        with pytest.raises(StateConflict):
            await ledger.write(batches.put_items(new.batch_id, [b], now_ms=NOON_MS))
        batch = await desk.apply(batch)
        assert {"barred": 1, "decided": 1} == batch.outcomes
        batch = await desk.reverse(batch)
        assert {"barred": 1, "reversed": 1} == batch.outcomes
        assert {("verified",)} == set(await store.sql("SELECT reason FROM submissions"))


@pytest.mark.parametrize("goes", ["before it", "before its reversal"])
async def test_what_a_batch_left_is_not_left_again_for_want_of_a_policy(
    store: Store, board: Board, goes: str
):
    """The reason for which it was left stays; what waits, or has to be reversed, is left for the board that is gone."""
    async with open_in(store) as ledger:
        known = {"tiny": board}
        desk = Desk(ledger, known)
        await submitted(ledger, board, [("a", "ada", 3), ("b", "bob", 2)], to_state=State.PROMOTED)
        rows = await store.sql(
            "SELECT s.submission_id, s.seq, max(e.seq) FROM submissions s "
            "JOIN events e ON e.submission_id = s.submission_id GROUP BY 1, 2 ORDER BY 2"
        )
        a, b = (BatchItem("tiny", seq, name, "ada", newest) for name, seq, newest in rows)
        new = batches.filling(("tiny",), Reason.KEY_COMPROMISED, {}, {"key": "eu-1"}, now_ms=NOON_MS)
        await ledger.write(begin(new))
        left = b._replace(outcome="barred", why="refused")
        await ledger.write(batches.put_items(new.batch_id, [a, left], now_ms=NOON_MS))
        await ledger.write(batches.end_filling(new.batch_id, now_ms=NOON_MS))
        batch = await desk.settled(new.batch_id)
        if goes == "before its reversal":
            batch = await desk.apply(batch)
        del known["tiny"]
        batch = await (desk.apply if goes == "before it" else desk.reverse)(batch)
        desk.now_ms += GIVEN_UP_MS
        batch = await desk.settled(new.batch_id)
        outcomes = {"barred": 2} if goes == "before it" else {"barred": 1, "kept": 1}
        assert (outcomes, {"refused": 1, "no-policy": 1}) == (batch.outcomes, batch.left_out)


async def test_a_board_that_two_scopes_have_is_selected_once(store: Store, board: Board):
    """Who has a role on a family, and another one on a board of it, decides on each run of that board once."""
    of_family = replace(board, policy=board.policy.model_copy(update={"board": "race.a"}))
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"race.a": of_family})
        await submitted(ledger, of_family, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.PROMOTED)
        batch = await desk.previewed(a_batch("one", DecisionKind.REVOKE, "race", "race.a"))
        assert (BatchState.PREVIEWED, 2, 2) == (batch.state, batch.looked_at, batch.items)


async def test_batches_between_which_nothing_happened_are_each_on_one_page(store: Store):
    """The order of batches is that of the events before them, and many may follow the same event."""
    names = ["b", "d", "a", "c"]
    async with open_in(store) as ledger:
        for name in names:
            await ledger.write(begin(a_batch(name, DecisionKind.REVOKE)))
        seq, name, listed = 2**62, "", list[str]()
        while page := await ledger.read(batches_before(seq, name, count=1)):
            seq, name = page[0].begin_seq, page[0].batch_id
            listed.append(name)
        assert sorted(names, reverse=True) == listed


async def test_what_comes_while_a_batch_is_selected_is_not_in_it(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """Though the selection has yet to come by where it stands."""
    monkeypatch.setattr(selections, "SCANNED", 1)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        await submitted(ledger, board, [("a", "ada", 1), ("b", "bob", 2)], to_state=State.PROMOTED)
        await ledger.write(begin(a_batch("one", DecisionKind.REVOKE)))
        assert await desk.steps.step("one")
        await submitted(ledger, board, [("z", "zoe", 3)], to_state=State.PROMOTED)
        await desk.settled("one")
        assert {"a", "b"} == set(await desk.outcomes("one"))


async def test_an_operator_who_reverses_a_batch_at_work_lets_it_go_no_further(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch
):
    """Only what it decided by then is decided back, and its labels count no more; what an operator applies leaves none."""
    monkeypatch.setattr(batch_slices, "SLICE", 2)
    monkeypatch.setattr(batch_steps, "SLICE", 2)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        runs = [(f"run{at}", "ada", at) for at in range(6)]
        await submitted(ledger, board, runs, to_state=State.PROMOTED)
        preview = await desk.previewed(a_batch("one", DecisionKind.REVOKE))
        await ledger.write(apply("one", version=preview.version, by=MODERATOR, now_ms=NOON_MS))
        assert await desk.steps.step("one")
        catalogue: Any = Boards({"tiny": board})
        operator = BatchOperator(ledger, Nowhere(), catalogue, lambda: NOON_MS)
        batch = await operator.reverse("one")
        assert (BatchState.REVERSED, {"reversed": 2}) == (batch.state, batch.outcomes)
        assert [(2,)] == await store.sql("SELECT count(*) FROM events WHERE to_state = 'revoked'")
        labels = await store.sql("SELECT count(*), count(overturned_by) FROM labels")
        assert ([(2, 2)], 2) == (labels, await check_labels(ledger))
        await desk.previewed(a_batch("two", DecisionKind.REVOKE))
        assert {"decided": 6} == (await operator.apply("two")).outcomes
        assert [("operator", 6)] == await store.sql(
            'SELECT actor, count(*) FROM events WHERE detail LIKE \'%"batch":"two"%\' GROUP BY 1'
        )
        assert labels == await store.sql("SELECT count(*), count(overturned_by) FROM labels")
        assert 2 == await check_labels(ledger), "labels are of decisions that somebody is named for"


@pytest.mark.parametrize("meanwhile", ["another process went on", "somebody reversed it"])
async def test_a_slice_of_a_batch_that_comes_late_decides_nothing(
    store: Store, board: Board, monkeypatch: pytest.MonkeyPatch, meanwhile: str
):
    """Else a batch that somebody has reversed would go on, and one would be put back to where it was."""
    monkeypatch.setattr(batch_slices, "SLICE", 2)
    monkeypatch.setattr(batch_steps, "SLICE", 2)
    async with open_in(store) as ledger:
        desk = Desk(ledger, {"tiny": board})
        runs = [(f"run{at}", "ada", at) for at in range(6)]
        await submitted(ledger, board, runs, to_state=State.PROMOTED)
        preview = await desk.previewed(a_batch("one", DecisionKind.REVOKE))
        await ledger.write(apply("one", version=preview.version, by=MODERATOR, now_ms=NOON_MS))
        applied = await ledger.read(lambda tx: load_batch(tx, "one"))  # as whoever takes a slice has read it
        assert applied is not None
        found = (await desk.items("one"))[:2]
        if meanwhile == "another process went on":
            assert await desk.steps.step("one")
        else:
            await ledger.write(reverse("one", by=MODERATOR, now_ms=NOON_MS))
        stands = [await store.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("events", "batches")]
        late = batch_slices.decide_slice(applied, found, {"tiny": board}, now_ms=NOON_MS)
        assert {} == await ledger.write(late)
        assert stands == [
            await store.sql(f"SELECT * FROM {table} ORDER BY 1, 2") for table in ("events", "batches")
        ]
        done = await desk.settled("one")
        assert (6 if meanwhile == "another process went on" else 0) == done.outcomes.get("decided", 0)
