"""Folding standings anew after the policy of a board has changed what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.catalogue.rules_in_force import rule_in_force
from gateway.ledger import index_pages
from gateway.ledger.derived import board_duties
from gateway.ledger.derived.board_duties import WHOLE_BOARD, BoardDuty, DueDuty
from gateway.ledger.derived.folded_rules import BegunFold, end_fold, mark_all
from gateway.ledger.standings import anchors
from gateway.steward.archive import refold as refolding
from gateway.steward.archive.refold import RefoldCounts, refold_board
from gateway.steward.audits.top_check import TopCheck
from policies.choices import WindowKind
from policies.loader import Board
from policies.vocabulary import State
from policies.windows import FOREVER_MS, window_at
from tests.support import boards
from tests.support.duty import Duty
from tests.support.ledger import new_submission
from tests.support.oracle import due, shown_on_board
from tests.support.stores import on_both_ledgers

pytestmark = on_both_ledgers


class KilledError(Exception):
    """A process that was killed."""


def changed_policy(duty: Duty, **changes: Any) -> Board:
    """The board from now on."""
    board = boards.board(duty.settings.policies_dir, **changes)
    duty.board = board
    duty.index.of(duty.board).order = board.policy.order
    return board


async def refold(duty: Duty) -> RefoldCounts:
    done = await refold_board(duty.ledger, duty.board.policy, clock=duty.clock, tell=lambda _count: None)
    await duty.rebuilder().rebuild()
    return done


def assert_board_is_the_fold(duty: Duty) -> None:
    policy = duty.board.policy
    promoted = duty.history().promoted(policy.board)
    assert due(promoted, policy, duty.clock()) == shown_on_board(duty.redis, policy)


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": "sum"},
        {"operator": "latest"},
        {"order": "ascending"},
        {"windows": ["alltime", "daily", "weekly", "monthly"]},
    ],
    ids=str,
)
async def test_a_changed_policy_is_what_standings_come_to_after_a_refold(
    duty: Duty, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """As if the board had always been so: standings equal the fold of the promoted submissions. Twice changes nothing."""
    monkeypatch.setattr(refolding, "PLAYERS", 2)
    before = {"windows": ["alltime"]} if "windows" in changes else {}
    changed_policy(duty, **before)
    await duty.fill()
    changed_policy(duty, **changes)

    done = await refold(duty)
    assert 3 == done.players
    assert done.changed > 0
    assert_board_is_the_fold(duty)
    assert RefoldCounts(3, 0) == await refold(duty)


async def test_what_is_settled_after_a_refold_counts_on_from_it(duty: Duty):
    """A folded standing bars no later change, and no change that was under way before brings the old one back."""
    await duty.fill()
    changed_policy(duty, operator="sum")
    await refold(duty)
    await duty.append("next", player="ada", score=50)
    await duty.promote("next")
    await duty.promote("cy-2", to_state=State.REVOKED)
    assert_board_is_the_fold(duty)
    assert RefoldCounts(3, 0) == await refold(duty)


async def test_what_comes_to_the_top_by_another_order_is_looked_at(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
):
    """Nothing happened on the board that would say so; what the first players make due is noted if it is killed then."""
    monkeypatch.setattr(refolding, "PLAYERS", 1)
    monkeypatch.setattr(anchors, "LEAST", 0)
    await duty.fill()
    while await duty.steward.see_to_top():
        pass
    every = [BoardDuty.ANCHOR, BoardDuty.ARCHIVE, BoardDuty.TOP]
    await duty.ledger.write(board_duties.strike([row for each in every for row in await due_of(duty, each)]))
    assert [[], [], []] == [await due_of(duty, each) for each in every]
    changed_policy(duty, order="ascending")

    def killed(_: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        await refold_board(duty.ledger, duty.board.policy, clock=duty.clock, tell=killed)
    assert all([await due_of(duty, each) for each in every])


async def test_the_top_of_a_board_is_looked_at_once_it_is_folded(duty: Duty, monkeypatch: pytest.MonkeyPatch):
    """Until then it is not what it will be: nothing is checked, and the duty stays."""
    await duty.fill()
    looked: list[str] = []

    async def look(check: TopCheck) -> int:
        looked.append(check._policy.board)
        return 0

    async def see_to_top() -> list[DueDuty]:
        await duty.ledger.write(board_duties.noted([DueDuty(BoardDuty.TOP, "tiny", WHOLE_BOARD, 0, 0, 0)]))
        duty.steward._in_ledger._outdated._looked_s = float("-inf")
        await duty.steward.see_to_top()
        return await due_of(duty, BoardDuty.TOP)

    monkeypatch.setattr(TopCheck, "step", look)
    rule = rule_in_force(duty.steward.catalogue.policies, "tiny")
    assert rule
    mark = await duty.ledger.write(mark_all(["tiny"]))
    [row] = await see_to_top()
    assert ([], True) == (looked, row.due_at_ms > duty.clock())
    await duty.ledger.write(end_fold(BegunFold(rule, mark)))
    assert [] == await see_to_top()
    assert ["tiny"] == looked


async def due_of(duty: Duty, each: BoardDuty) -> list[DueDuty]:
    return await duty.ledger.read(board_duties.due(each, now_ms=FOREVER_MS, count=100))


async def test_an_unchanged_policy_changes_nothing(duty: Duty):
    """No standing is touched, so none gets another number."""
    await duty.fill()
    assert RefoldCounts(3, 0) == await refold(duty)


async def test_M11_a_tie_field_that_turns_round_has_the_next_run_compared_with_all_anew(duty: Duty):
    """What stands was packed the other way round: a run that is worse now does not take its place, refold or not."""
    turned = [{"stat": "moves", "order": order} for order in ("ascending", "descending")]
    changed_policy(duty, tie_break="fields", tie_fields=turned[:1])
    await append_with(duty, "many", moves=3)
    await duty.promote("many")
    changed_policy(duty, tie_break="fields", tie_fields=turned[1:])
    await append_with(duty, "few", moves=2)
    await duty.promote("few")
    standing = await duty.ledger.read(index_pages.standings_after("tiny", "alltime", "", count=1))
    assert [("many", duty.board.ranking.rule)] == [(each.submission_id, each.rule) for each in standing]


async def append_with(duty: Duty, submission_id: str, **stats: int) -> None:
    new = new_submission(submission_id, at_ms=duty.clock(), score=5)
    run = new.submission._replace(claim=replace(new.submission.claim, stats=stats))
    await duty.ledger.append(new._replace(submission=run))


async def test_M07_a_run_at_midnight_counts_in_the_day_that_begins(duty: Duty):
    """And in no other: as it is settled, after a refold, and after one of another operator."""
    changed_policy(duty, windows=["daily"])
    today = window_at(duty.board.policy, WindowKind.DAILY, duty.clock())
    yesterday = window_at(duty.board.policy, WindowKind.DAILY, today.begin_ms - 1)
    for name, at_ms, score in (("last", today.begin_ms - 1, 1), ("midnight", today.begin_ms, 10)):
        await duty.ledger.append(new_submission(name, at_ms=at_ms, score=score))
    await duty.promote("last", "midnight")
    expected = {yesterday.name: 1, today.name: 10}
    for operator in ("best", "sum", "latest", "best"):
        changed_policy(duty, windows=["daily"], operator=operator)
        await refold(duty)
        found = await duty.ledger.read(index_pages.live_standings("tiny", "ada", now_ms=today.begin_ms))
        assert expected == {each.window: each.score for each in found}
