"""What a duty walks over in turn: an item that fails holds up no other, is told of, and is tried again later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.ledger.judgement import promotion_impact
from gateway.settlement import batches
from gateway.settlement.bans import BanFollower, begin
from gateway.settlement.batch_steps import BatchSteps
from gateway.steward import ban_keeping, batch_keeping, case_duties
from gateway.steward.ban_keeping import BanKeeper
from gateway.steward.batch_keeping import BatchKeeper
from gateway.steward.case_duties import CaseKeeper
from gateway.steward.failures import FAILING_LIMIT, Failures
from gateway.steward.fair_turns import REFUSALS, RETRY_MS, FairTurns
from policies.decision_codes import DecisionKind
from policies.errors import LeaseLost, LedgerUnavailable
from policies.vocabulary import State
from tests.support import boards
from tests.support.banning import a_ban
from tests.support.batching import Boards, a_batch
from tests.support.books import Books
from tests.support.ledger import NOON_MS, new_submission
from tests.support.sealed import Nowhere


class Desk:
    """Items that are always due, some of which fail."""

    def __init__(self, items: str, *, in_slice: int = 2, **options: Any) -> None:
        self.items, self.failing, self.now_ms = items, {}, NOON_MS
        self.failures = Failures()
        self.turns = FairTurns[str](
            "duty",
            self.failures,
            clock=lambda: self.now_ms,
            in_slice=in_slice,
            names=lambda item: (item, f"board-{item}"),
            **options,
        )
        self.in_slice = in_slice
        self.tried: list[str] = []

    async def due_after(self, last: str | None) -> Sequence[str]:
        return [each for each in self.items if last is None or each > last][: self.in_slice]

    async def work(self, items: Sequence[str]) -> None:
        self.tried.append("".join(items))
        for error in (self.failing[each] for each in items if each in self.failing):
            raise error

    async def steps(self, count: int) -> int:
        return sum([await self.turns.step(self.due_after, self.work) for _ in range(count)])


async def test_the_slice_behind_one_that_fails_has_its_turn():
    """It is named by its board, passed over until it may be tried again, and named no more once it works."""
    desk = Desk("abcde")
    desk.failing = dict.fromkeys("ab", ValueError("a bug"))
    with capture_logs() as logs:
        assert 3 == await desk.steps(3)
        assert ["a", "b", "c", "d", "e"] == desk.tried
        assert ("duty:board-a", "duty:board-b") == desk.failures.now()
        assert 6 == await desk.steps(6)
        assert (1, 3) == (desk.tried.count("a"), desk.tried.count("e"))
        assert desk.now_ms == await desk.turns.next_due()
        desk.now_ms += RETRY_MS
        await desk.steps(3)
        assert 2 == desk.tried.count("a")
    assert 4 == len([each for each in logs if each["event"] == "unexpected"])
    desk.failing.clear()
    desk.now_ms += RETRY_MS
    assert 10 == await desk.steps(6)
    assert () == desk.failures.now()
    desk.items = ""
    await desk.steps(2)
    assert await desk.turns.next_due() is None


async def test_a_clock_that_was_put_back_puts_no_item_off():
    """How long ago the failure was is unknown then: it is tried at once, and not when its hour comes again."""
    desk = Desk("a")
    desk.failing = {"a": ValueError("a bug")}
    await desk.steps(2)
    assert ["a"] == desk.tried
    desk.now_ms -= 3_600_000
    await desk.steps(1)
    assert ["a", "a"] == desk.tried


async def test_of_very_many_items_that_failed_the_first_is_forgotten():
    """An outage may fail for all there are; what is forgotten is only tried again sooner."""
    items = "".join(chr(ord("a") + number) for number in range(FAILING_LIMIT + 1))
    desk = Desk(items, in_slice=len(items) + 1)
    desk.failing = dict.fromkeys(items, ValueError("a bug"))
    with capture_logs():
        await desk.steps(1)
        assert list(items) == desk.tried
        await desk.steps(1)
    assert [items[0]] == desk.tried[len(items) :]


async def test_items_that_are_worked_on_together_are_tried_one_by_one_once_that_fails():
    """The one that fails costs the others another try, and the next time nothing."""
    desk = Desk("abcd", in_slice=4, together=4)
    desk.failing = {"b": ValueError("a bug")}
    assert 3 == await desk.steps(1)
    assert ["abcd", "a", "b", "c", "d"] == desk.tried
    assert 3 == await desk.steps(1)
    assert "acd" == desk.tried[-1]


async def test_an_item_without_a_ledger_does_not_hide_those_behind_it():
    """Its record may be damaged. If several have none it is away, and nobody tries the rest; so with a lost lease."""
    desk = Desk("abcdefgh", in_slice=8)
    desk.failing = {"a": LedgerUnavailable()}
    with pytest.raises(LedgerUnavailable):
        await desk.steps(1)
    assert list("abcdefgh") == desk.tried
    for failing, tried in (
        (dict.fromkeys("abcdefgh", LedgerUnavailable()), REFUSALS),
        ({"b": LeaseLost("another")}, 2),
    ):
        desk.tried, desk.failing = [], failing
        with pytest.raises((LedgerUnavailable, LeaseLost)):
            await desk.steps(1)
        assert tried == len(desk.tried)


class Broken:
    """Fails for one item, and does the others as they are done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: Any, name: str, is_broken: Any) -> None:
        work = getattr(of, name)

        def broken(*arguments: Any, **options: Any) -> Any:
            if is_broken(arguments):
                raise ValueError("nobody foresaw this")
            return work(*arguments, **options)

        monkeypatch.setattr(of, name, broken)


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(boards.board(tmp_path))


async def test_a_ban_a_batch_and_a_case_that_fail_hold_up_no_other(
    books: Books, monkeypatch: pytest.MonkeyPatch
):
    """The first of each kind fails in every round; the others are lifted, followed, abandoned and assessed."""
    monkeypatch.setattr(ban_keeping, "TAKEN", 1)
    monkeypatch.setattr(batch_keeping, "TAKEN", 1)
    monkeypatch.setattr(case_duties, "SLICE", 1)
    ledger: Any = SimpleNamespace(read=books.read, write=books.read)
    catalogue: Any = Boards({"tiny": books.board})
    parts: tuple[Any, ...] = (ledger, Nowhere(), catalogue)
    failures, clock = Failures(), lambda: NOON_MS
    for name, player in (("one", "ada"), ("two", "bob")):
        books.append([new_submission(name, player=player, state=State.HELD, recording=None)])
        books.do(begin(a_ban(f"at-work-{name}", player, "tiny")))
        books.do(begin(a_ban(f"over-{name}", player, until_ms=NOON_MS)))
        books.do(batches.begin(a_batch(name, DecisionKind.REJECT)))
        books.do(batches.abandon(name, now_ms=NOON_MS))
    Broken(monkeypatch, ban_keeping, "lift", lambda given: given[0] == "over-one")
    Broken(monkeypatch, BanFollower, "step", lambda given: given[1] == "at-work-one")
    Broken(monkeypatch, BatchSteps, "step", lambda given: given[1] == "one")
    Broken(monkeypatch, promotion_impact, "harms_of", lambda given: given[0][0].submission_id == "one")

    bans = BanKeeper(*parts, failures, clock=clock)
    for _ in range(8):
        await bans.step()
    assert [("over-two",)] == books.rows("SELECT ban_id FROM bans WHERE lifted_at_ms IS NOT NULL")
    assert [("at-work-one",)] == books.rows("SELECT ban_id FROM bans WHERE seen_seq IS NOT NULL")
    keeper = BatchKeeper(*parts, failures, clock=clock)
    for _ in range(4):
        await keeper.step()
    assert [("one",)] == books.rows("SELECT batch_id FROM batches")
    cases = CaseKeeper(ledger, catalogue, failures, clock=clock)
    for _ in range(4):
        await cases.assess()
    assert [("one",)] == books.rows("SELECT submission_id FROM cases WHERE harm < 0")
    assert ("assess_cases:tiny", "keep_bans:tiny", "keep_batches:*", "lift_bans:*") == failures.now()
