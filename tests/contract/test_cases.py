"""Cases on each database: opened and closed with the events, and nobody gets one that somebody else is in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation import queue, waiting_cases
from gateway.ledger.moderation.cases import (
    CaseKind,
    StoredCase,
    case_counts_of_labels,
    case_from,
    load_case,
    queue_versions,
    waiting_case,
)
from gateway.ledger.moderation.claims import (
    CLAIM_MS,
    SKIPPED_MS,
    Claimant,
    claim_case,
    claim_first,
    leave_undecided,
    release_case,
    renew_claim,
    skip_case,
)
from gateway.ledger.moderation.queue import (
    BEGINNING,
    FEW,
    HOUR_MS,
    OFFERED,
    QueueFilter,
    QueuePlace,
    count_queue,
    free_cases,
    queue_page,
)
from gateway.ledger.queries import history_of
from gateway.ledger.seals import case_audit
from gateway.ledger.seals.case_audit import check_cases
from gateway.settlement.case_decisions import CaseRequest, decide_on_case
from gateway.settlement.case_history import first_approval
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import _decide_all
from gateway.settlement.undoing import inverse_of
from gateway.shared_records import Change
from policies.errors import CaseClaimed, CaseForOthers, CaseGone, LedgerTampered, NotTheirs, StateConflict
from policies.loader import Board
from policies.vocabulary import Reason, State
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in
from tests.support.thorough import seeds

ALL: Final = frozenset({"*"})
ANA, BEN = Claimant("ana"), Claimant("ben")
CYN = Claimant("cyn", senior_scopes=ALL)
MINUTE_MS: Final = 60_000


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return boards.board(tmp_path / "policies")


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def decided(
    ledger: Ledger,
    board: Board,
    submission: str,
    to_state: State,
    actor: str = "replay",
    at_ms: int = NOON_MS,
) -> Any:
    """What a decision gives: its change, or its conflict."""
    decision = Decision(submission, to_state, actor, Reason.APPROVED, at_ms, frozenset(State))
    [[outcome], _] = await ledger.write(_decide_all(board, [decision]))
    return outcome


async def queued(ledger: Ledger, scopes: frozenset[str] = ALL, **wanted: Any) -> list[str]:
    page = await ledger.read(queue_page(scopes, QueueFilter(**wanted), count=100))
    return [case.submission_id for case in page.cases]


async def offered(ledger: Ledger, claimant: Claimant, now_ms: int = NOON_MS) -> list[str]:
    reading = free_cases(ALL, QueueFilter(), claimant, BEGINNING, now_ms=now_ms)
    return [case.submission_id for case in (await ledger.read(reading)).cases]


async def test_what_is_offered_goes_on_behind_the_last_that_was_offered(ledger: Ledger):
    """Whoever can give none of the first ones, be their boards gone, looks at those behind them and passes over none."""
    for at in range(2 * OFFERED + 3):
        await ledger.append(new_submission(f"s{at:02}", state=State.HELD, at_ms=NOON_MS + at))
    place, met = BEGINNING, list[list[str]]()
    for _ in range(3):
        page = await ledger.read(free_cases(ALL, QueueFilter(), ANA, place, now_ms=NOON_MS))
        met.append([case.submission_id for case in page.cases])
        place = page.next or place
    assert [OFFERED, OFFERED, 3] == [len(names) for names in met]
    assert [f"s{at:02}" for at in range(2 * OFFERED + 3)] == [name for names in met for name in names]


async def test_a_page_of_several_scopes_is_in_order_however_far_each_was_read(ledger: Ledger):
    """A page passes over what the filters leave out, and reads one scope further than another for it."""
    runs = (("tiny", "no"), ("tiny", "no"), ("tiny", "b"), ("other", "b"), ("tiny", "b"), ("other", "b"))
    for at, (board, build) in enumerate(runs):
        run = new_submission(f"s{at}", board=board, build=build, state=State.HELD, at_ms=NOON_MS + at)
        await ledger.append(run)
    both, wanted, place, found = frozenset({"tiny", "other"}), QueueFilter(build="b"), BEGINNING, []
    for _ in range(4):
        page = await ledger.read(queue_page(both, wanted, place, count=1))
        found += [case.submission_id for case in page.cases]
        place = page.next or place
    assert ["s2", "s3", "s4", "s5"] == found


async def test_each_age_takes_those_that_the_next_one_does_not(ledger: Ledger):
    """A case that was opened exactly an hour ago is of the ages from an hour on, as it is counted."""
    await ledger.append(new_submission("a", state=State.HELD, at_ms=NOON_MS - HOUR_MS))
    counted = await ledger.read(count_queue(ALL, now_ms=NOON_MS))
    assert [0, 1, 0, 0] == counted.ages
    hour_ago = NOON_MS - HOUR_MS
    assert ([], ["a"]) == (
        await queued(ledger, opened_after_ms=hour_ago),
        await queued(ledger, opened_by_ms=hour_ago),
    )


async def test_whoever_asks_for_the_next_case_has_few_looked_at(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    """However many wait; and those whom someone left all of the first ones to others are given a later one."""
    await asyncio.gather(
        *(ledger.append(new_submission(f"s{number:03}", state=State.HELD)) for number in range(100))
    )
    first, *others = await queued(ledger)
    looked: list[int] = []

    def noted(row: Any) -> StoredCase:
        looked.append(1)
        return case_from(row)

    monkeypatch.setattr(queue, "case_from", noted)
    assert first == (await offered(ledger, ANA))[0]
    assert FEW < len(looked) < 2 * FEW
    for submission_id in (first, *others[: 2 * FEW]):
        await ledger.write(skip_case(submission_id, "ana", now_ms=NOON_MS))
    assert others[2 * FEW] == (await offered(ledger, ANA))[0]


async def test_a_page_looks_at_so_many_cases_and_no_more_and_says_where_it_ended(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    """Whoever asks for what is rare gets empty pages, and comes to it by them; of however many scopes."""
    monkeypatch.setattr(queue, "WALK", 40)
    runs = [
        new_submission(
            f"s{number}",
            board=("tiny", "other")[number % 2],
            build="rare" if number == 119 else "usual",
            state=State.HELD,
            at_ms=NOON_MS + number,
        )
        for number in range(120)
    ]
    await asyncio.gather(*map(ledger.append, runs))
    looked: list[int] = []

    def noted(row: Any) -> StoredCase:
        looked.append(1)
        return case_from(row)

    monkeypatch.setattr(queue, "case_from", noted)
    found: list[list[str]] = []
    place: QueuePlace | None = BEGINNING
    most = 0
    while place is not None:
        looked.clear()
        reading = queue_page(frozenset({"tiny", "other"}), QueueFilter(build="rare"), place, count=1)
        page = await ledger.read(reading)
        found.append([case.submission_id for case in page.cases])
        place, most = page.next, max(most, len(looked))
    assert ([], ["s119"]) == (found[0], [name for names in found for name in names])
    assert most < 2 * queue.WALK


class NotedReads:
    """A transaction that notes how many statements it was asked for."""

    def __init__(self, tx: Any) -> None:
        self.tx, self.count = tx, 0

    async def rows(self, query: Any, **values: Any) -> Any:
        self.count += 1
        return await self.tx.rows(query, **values)


async def test_counts_by_age_take_no_statement_for_each_policy_file(ledger: Ledger):
    """A page that follows the queue counts again after each change."""
    labels = [f"file{number}" for number in range(12)]
    await asyncio.gather(
        *(ledger.append(new_submission(f"of-{name}", board=name, state=State.HELD)) for name in labels)
    )

    async def noted(tx: Any) -> tuple[int, list[int]]:
        noting: Any = NotedReads(tx)
        counted = await queue.count_queue(ALL, now_ms=NOON_MS)(noting)
        return noting.count, counted.ages

    count, ages = await ledger.read(noted)
    assert ([12, 0, 0, 0], True) == (ages, count < 2 * len(labels))


async def test_a_case_is_there_while_its_submission_is_held(ledger: Ledger, board: Board):
    """Held as it came, or by a worker; gone with the decision, and back with the next hold. The counts follow."""
    await asyncio.gather(
        ledger.append(new_submission("waits", state=State.PENDING)),
        ledger.append(new_submission("held", state=State.HELD)),
        ledger.append(new_submission("gone", state=State.REJECTED)),
        ledger.append(new_submission("other", board="track.monza", state=State.HELD)),
    )
    assert {"held", "other"} == set(await queued(ledger))
    for state, expected in ((State.HELD, {"held", "waits", "other"}), (State.PROMOTED, {"held", "other"})):
        assert isinstance(await decided(ledger, board, "waits", state), Change)
        assert expected == set(await queued(ledger))
        assert len(expected) == await check_cases(ledger)
    assert {"tiny": {"accepted": 1}, "track": {"accepted": 1}} == await ledger.read(case_counts_of_labels())


@pytest.mark.parametrize(
    ("tampering", "told"),
    [
        ("DELETE FROM cases", "submission held is held, and has no case"),
        ("UPDATE cases SET kind = 'appeal'", "submission held is held, and has no case"),
        ("UPDATE submissions SET state = 'rejected' WHERE submission_id = 'held'", "submission held has a case, and is rejected"),
        ("UPDATE case_counts SET cases = 3", "tiny has 1 cases for accepted, and 3 are noted"),
    ],
)  # fmt: skip
async def test_the_audit_notices_cases_that_are_not_what_is_held(
    ledger: Ledger, store: Store, tampering: str, told: str
):
    """In both directions, and in the counts; as it is, it finds nothing."""
    await ledger.append(new_submission("held", state=State.HELD))
    assert 1 == await check_cases(ledger)
    await store.sql(tampering)
    with pytest.raises(LedgerTampered, match=told):
        await check_cases(ledger)


async def test_the_audit_of_cases_looks_at_all_of_a_board_where_pages_meet(
    ledger: Ledger, store: Store, monkeypatch: pytest.MonkeyPatch
):
    """Each page goes on behind the last submission of the one before."""
    monkeypatch.setattr(case_audit, "PAGE", 1)
    for name in ("a", "b", "c"):
        await ledger.append(new_submission(name, state=State.HELD))
    assert 3 == await check_cases(ledger)
    await store.sql("DELETE FROM cases WHERE submission_id = 'b'")
    with pytest.raises(LedgerTampered, match="submission b is held, and has no case"):
        await check_cases(ledger)


async def test_M03_two_who_ask_at_the_same_moment_get_two_cases(ledger: Ledger):
    """Both saw the same cases as free; the first has the first, and who finds none free is told so."""
    for name in ("a", "b"):
        await ledger.append(new_submission(name, state=State.HELD))
    names = await offered(ledger, ANA)
    assert names == await offered(ledger, BEN) == ["a", "b"]
    claims = [ledger.write(claim_first(names, each, now_ms=NOON_MS)) for each in (ANA, BEN, CYN)]
    got = [case and case.submission_id for case in await asyncio.gather(*claims)]
    assert ["a", "b"] == sorted(filter(None, got))
    assert [] == await offered(ledger, CYN)


async def test_M03_a_case_that_somebody_is_in_is_left_to_them(ledger: Ledger, board: Board):
    """For claims, doubts and decisions; until they leave it, or their time is over. What no moderator does goes on."""
    await ledger.append(new_submission("a", state=State.HELD))
    await ledger.write(claim_case("a", ANA, now_ms=NOON_MS))
    for work in (claim_case("a", BEN, now_ms=NOON_MS), leave_undecided("a", BEN, now_ms=NOON_MS)):
        with pytest.raises(CaseClaimed):
            await ledger.write(work)
    refused = await decided(ledger, board, "a", State.PROMOTED, "moderator:ben")
    assert isinstance(refused, CaseClaimed)
    over = NOON_MS + CLAIM_MS
    assert [] == await offered(ledger, BEN, over - 1)
    assert ["a"] == await offered(ledger, BEN, over)
    assert (await ledger.write(claim_case("a", BEN, now_ms=over))).claimed_by == "ben"
    assert isinstance(await decided(ledger, board, "a", State.PROMOTED, "moderator:ana", over), CaseClaimed)
    await ledger.write(release_case("a", "ana"))
    assert isinstance(await decided(ledger, board, "a", State.PROMOTED, "moderator:ana", over), CaseClaimed)
    await ledger.write(release_case("a", "ben"))
    assert isinstance(await decided(ledger, board, "a", State.PROMOTED, "moderator:ana", over), Change)
    with pytest.raises(CaseGone):
        await ledger.write(claim_case("a", ANA, now_ms=over))


async def test_use_of_a_case_gives_more_time_for_it(ledger: Ledger):
    """To whoever is in it, while they are: nobody comes back by it once their time is over."""
    await ledger.append(new_submission("a", state=State.HELD))
    await ledger.write(claim_case("a", ANA, now_ms=NOON_MS))
    later = NOON_MS + CLAIM_MS - 1
    await ledger.write(renew_claim("a", "ben", now_ms=later))
    await ledger.write(renew_claim("a", "ana", now_ms=later))
    assert [] == await offered(ledger, BEN, later + CLAIM_MS - 1)
    await ledger.write(renew_claim("a", "ana", now_ms=later + CLAIM_MS))
    assert ["a"] == await offered(ledger, BEN, later + CLAIM_MS)


async def test_what_one_skips_is_for_others_and_comes_back(ledger: Ledger):
    """Skipped: an hour. Cannot tell: for good, and after two of them only for a senior."""
    for name in ("a", "b"):
        await ledger.append(new_submission(name, state=State.HELD))
    await ledger.write(skip_case("a", "ana", now_ms=NOON_MS))
    assert (["b"], ["a", "b"]) == (await offered(ledger, ANA), await offered(ledger, BEN))
    assert ["a", "b"] == await offered(ledger, ANA, NOON_MS + SKIPPED_MS)
    for each, needs_senior in ((ANA, 0), (ANA, 0), (BEN, 1)):
        await ledger.write(claim_case("b", each, now_ms=NOON_MS))
        case = await ledger.write(leave_undecided("b", each, now_ms=NOON_MS))
        assert (needs_senior, "") == (case.needs_senior, case.claimed_by)
    late, dan = NOON_MS + 365 * 86_400_000, Claimant("dan")
    for each, expected in ((ANA, ["a"]), (BEN, ["a"]), (dan, ["a"]), (CYN, ["a", "b"])):
        assert expected == await offered(ledger, each, late)
    with pytest.raises(CaseForOthers):
        await ledger.write(claim_case("b", dan, now_ms=late))
    assert (await ledger.write(claim_case("b", CYN, now_ms=late))).cannot_tell == 2
    await ledger.write(skip_case("b", "ana", now_ms=late))  # which takes back nothing
    senior = CYN._replace(name="ana")
    assert ["a"] == await offered(ledger, senior, late + SKIPPED_MS)
    assert (await ledger.write(leave_undecided("b", CYN, now_ms=late))).cannot_tell == 3


async def test_who_skipped_a_case_is_offered_the_next_one_of_the_same_run(ledger: Ledger, board: Board):
    """What was noted on a case ends with it: held anew, a run is anybody's, and no doubt of before counts."""
    await ledger.append(new_submission("a", state=State.HELD))
    await ledger.write(leave_undecided("a", ANA, now_ms=NOON_MS))
    for state, expected in ((State.PROMOTED, []), (State.HELD, ["a"])):
        assert isinstance(await decided(ledger, board, "a", state), Change)
        assert expected == await offered(ledger, ANA)
    case = await ledger.write(leave_undecided("a", BEN, now_ms=NOON_MS))
    assert (1, 0) == (case.cannot_tell, case.needs_senior)


@pytest.mark.parametrize(
    "scopes", [{"track"}, {"track", "track.a"}, {"track.a", "track.b"}, {"*"}, {"*", "track.a"}]
)
async def test_each_waiting_case_is_counted_once_whatever_scopes_reach_it(ledger: Ledger, scopes: set[str]):
    """A board within a family that a moderator has too adds nothing, and neither does what waits no more."""
    for at, name in enumerate(("track.b", "track.a", "track.a")):
        run = new_submission(f"s{at}", board=name, state=State.HELD, at_ms=NOON_MS + at)
        await ledger.append(run)
    waiting = await ledger.read(waiting_cases.waiting_cases(frozenset(scopes), None))
    assert [NOON_MS, NOON_MS + 1, NOON_MS + 2] == sorted(waiting.opened_at_ms)
    assert (False, NOON_MS) == (waiting.is_cut, waiting.oldest_ms)


async def test_of_too_many_waiting_cases_a_file_tells_the_oldest_and_a_board_none(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    """A file is read from its oldest case on; the cases of a board have no order, so that any could be older."""
    monkeypatch.setattr(waiting_cases, "MOST", 1)
    for number, minutes in enumerate((3, 1, 2)):  # the oldest was not appended first
        at_ms = NOON_MS + minutes * MINUTE_MS
        await ledger.append(new_submission(f"s{number}", board="track.a", state=State.HELD, at_ms=at_ms))
    for scope, oldest_ms in (("track", NOON_MS + MINUTE_MS), ("track.a", None)):
        waiting = await ledger.read(waiting_cases.waiting_cases(ALL, scope))
        assert (1, True, oldest_ms) == (len(waiting.opened_at_ms), waiting.is_cut, waiting.oldest_ms)


async def test_M05_nobody_is_offered_their_own_run_or_what_they_decided(ledger: Ledger, store: Store):
    """Not by their account's name, not by one of their players; nor an appeal against themselves."""
    for name, player in (("a", "ana"), ("b", "anas-alt"), ("c", "bob")):
        await ledger.append(new_submission(name, player=player, state=State.HELD))
    await store.sql("UPDATE cases SET not_for = 'ana' WHERE submission_id = 'c'")
    ana = Claimant("ana", frozenset({"anas-alt"}))
    assert ([], ["a", "b", "c"]) == (await offered(ledger, ana), await offered(ledger, BEN))
    for name in ("a", "b", "c"):
        with pytest.raises(CaseForOthers):
            await ledger.write(claim_case(name, ana, now_ms=NOON_MS))


async def test_every_change_raises_the_version_of_its_policy_file(ledger: Ledger, board: Board):
    """Of the file that it is of, and of no other: so that listeners know whether to look."""
    await ledger.append(new_submission("other", board="track.monza", state=State.HELD))
    seen = await ledger.read(queue_versions)

    async def changed() -> list[str]:
        nonlocal seen
        before, seen = seen, await ledger.read(queue_versions)
        return sorted(label for label in seen if seen[label] != before.get(label))

    await ledger.append(new_submission("free", state=State.REJECTED))
    assert [] == await changed()
    await ledger.append(new_submission("a", state=State.HELD))
    assert ["tiny"] == await changed()
    for work in (
        claim_case("a", ANA, now_ms=NOON_MS),
        release_case("a", "ana"),
        skip_case("a", "ana", now_ms=NOON_MS),
        leave_undecided("a", BEN, now_ms=NOON_MS),
    ):
        await ledger.write(work)
        assert ["tiny"] == await changed()
    question = Decision(
        "a", State.HELD, "moderator:ana", Reason.QUESTION_ASKED, NOON_MS, frozenset(State), detail={"answer_by_ms": 7}
    )  # fmt: skip
    await ledger.write(_decide_all(board, [question]))
    assert ["tiny"] == await changed()
    await decided(ledger, board, "a", State.REJECTED)
    assert ["tiny"] == await changed()


class Desk:
    """Three moderators at a queue, beside a model of it in dictionaries."""

    def __init__(self, ledger: Ledger, board: Board, random: Random) -> None:
        self.ledger, self.board, self.random = ledger, board, random
        self.now_ms, self.count = NOON_MS, 0
        self.order: list[str] = []
        self.claims: dict[str, tuple[str, int]] = {}
        self.passes: dict[tuple[str, str], int] = {}
        self.doubts: dict[str, set[str]] = {}

    def holder(self, name: str) -> str | None:
        by, until_ms = self.claims.get(name, ("", 0))
        return by if by and self.now_ms < until_ms else None

    def is_for(self, who: Claimant, name: str) -> bool:
        return bool(who.senior_scopes) or len(self.doubts.get(name, ())) < 2

    async def hold(self) -> None:
        self.count += 1
        name = f"run-{self.count:03}"
        state = self.random.choice([State.HELD, State.PENDING])
        await self.ledger.append(new_submission(name, state=state, at_ms=self.now_ms))
        if state is State.PENDING:
            await decided(self.ledger, self.board, name, State.HELD, at_ms=self.now_ms)
        self.order.append(name)

    async def next(self, who: Claimant) -> None:
        """The first that nobody is in, that this one has not left to others, and may have."""
        names = await offered(self.ledger, who, self.now_ms)
        expected = [
            name
            for name in self.order
            if self.holder(name) is None
            and self.passes.get((who.name, name), 0) <= self.now_ms
            and self.is_for(who, name)
        ]
        assert expected[: len(names)] == names
        assert bool(expected) == bool(names)
        case = await self.ledger.write(claim_first(names, who, now_ms=self.now_ms)) if names else None
        if case:
            assert names[0] == case.submission_id
            self.claims[names[0]] = (who.name, self.now_ms + CLAIM_MS)

    async def touch(self, who: Claimant, name: str, doing: str) -> None:
        is_taken = self.holder(name) not in (None, who.name)
        try:
            match doing:
                case "claim":
                    await self.ledger.write(claim_case(name, who, now_ms=self.now_ms))
                case "cannot tell":
                    await self.ledger.write(leave_undecided(name, who, now_ms=self.now_ms))
                case "skip":
                    await self.ledger.write(skip_case(name, who.name, now_ms=self.now_ms))
                case _:
                    await self.ledger.write(release_case(name, who.name))
        except CaseClaimed:
            assert is_taken
            return
        except CaseForOthers:
            assert not self.is_for(who, name)
            return
        assert not is_taken or doing in ("skip", "release")
        if doing == "claim":
            self.claims[name] = (who.name, self.now_ms + CLAIM_MS)
            return
        if self.claims.get(name, ("",))[0] == who.name:
            del self.claims[name]
        if doing != "release":
            until_ms = self.now_ms + SKIPPED_MS if doing == "skip" else 2**62
            self.passes[who.name, name] = max(until_ms, self.passes.get((who.name, name), 0))
        if doing == "cannot tell":
            self.doubts.setdefault(name, set()).add(who.name)

    async def decide(self, who: Claimant, name: str) -> None:
        state = self.random.choice([State.PROMOTED, State.REJECTED])
        outcome = await decided(self.ledger, self.board, name, state, f"moderator:{who.name}", self.now_ms)
        if self.holder(name) not in (None, who.name):
            assert isinstance(outcome, CaseClaimed)
            return
        assert not isinstance(outcome, StateConflict)
        self.order.remove(name)

    async def step(self) -> None:
        who = self.random.choice([ANA, BEN, CYN])
        doing = self.random.choice(
            ["hold", "next", "next", "claim", "skip", "cannot tell", "release", "decide", "wait"]
        )
        if doing == "wait":
            self.now_ms += self.random.choice([1, MINUTE_MS, CLAIM_MS - 1, CLAIM_MS, SKIPPED_MS])
        elif doing == "hold" or not self.order:
            await self.hold()
        elif doing == "next":
            await self.next(who)
        elif doing == "decide":
            await self.decide(who, self.random.choice(self.order))
        else:
            await self.touch(who, self.random.choice(self.order), doing)


@pytest.mark.parametrize("seed", seeds(8))
async def test_M03_nobody_gets_a_case_that_somebody_else_is_in(ledger: Ledger, board: Board, seed: int):
    """Whatever three moderators do in whatever order, as the clock goes on; no claim outlasts its time."""
    desk = Desk(ledger, board, Random(seed))
    for _ in range(120):
        await desk.step()
        now = {name: await ledger.read(lambda tx, name=name: load_case(tx, name)) for name in desk.order[:3]}
        for name, case in now.items():
            assert case is not None
            by = case.claimed_by if desk.now_ms < case.claimed_until_ms else None
            assert desk.holder(name) == (by or None)
    assert len(desk.order) == await check_cases(ledger)
    assert desk.order == await queued(ledger)
    desk.now_ms += CLAIM_MS
    assert {None} >= {desk.holder(name) for name in desk.order}
    assert bool(desk.order) == bool(await offered(ledger, Claimant("new", senior_scopes=ALL), desk.now_ms))


async def remarked(
    ledger: Ledger, board: Board, state: State, actor: str, reason: Reason, **detail: Any
) -> None:
    """A remark on submission `a`, which is in this state."""
    decision = Decision("a", state, actor, reason, NOON_MS, frozenset(State), detail=detail)
    [[outcome], _] = await ledger.write(_decide_all(board, [decision]))
    assert not isinstance(outcome, StateConflict), outcome


async def test_a_case_waits_while_its_player_is_asked(ledger: Ledger, board: Board):
    """Nobody is offered it until the answer, or until the time for it is over; who asked has left it."""
    await ledger.append(new_submission("a", state=State.HELD))
    asking = ("moderator:ana", Reason.QUESTION_ASKED)
    await ledger.write(claim_case("a", ANA, now_ms=NOON_MS))
    await remarked(ledger, board, State.HELD, *asking, answer_by_ms=NOON_MS + MINUTE_MS)
    assert [] == await offered(ledger, BEN)
    assert ["a"] == await offered(ledger, BEN, NOON_MS + MINUTE_MS)
    await ledger.write(claim_case("a", BEN, now_ms=NOON_MS))
    await remarked(ledger, board, State.HELD, "player", Reason.QUESTION_ANSWERED)
    case = await ledger.read(waiting_case("a"))
    assert case is not None
    assert ("ben", 0) == (case.claimed_by, case.waits_until_ms)  # an answer puts nobody out who is reading
    await ledger.write(release_case("a", "ben"))
    assert ["a"] == await offered(ledger, BEN)
    decision = Decision("a", State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, frozenset(State))
    await ledger.write(_decide_all(board, [decision]))
    back = Decision(
        "a", State.HELD, "moderator:ana", Reason.HELD_BY_MODERATOR, NOON_MS, frozenset(State),
        detail={"answer_by_ms": NOON_MS + MINUTE_MS},
    )  # fmt: skip
    await ledger.write(_decide_all(board, [back]))
    assert ([], 1) == (await offered(ledger, BEN), await check_cases(ledger))


async def test_what_was_approved_once_is_for_another_senior(ledger: Ledger, board: Board):
    """Who approved has left the case, and does not have it again."""
    await ledger.append(new_submission("a", state=State.HELD))
    await ledger.write(claim_case("a", CYN, now_ms=NOON_MS))
    await remarked(ledger, board, State.HELD, "moderator:cyn", Reason.APPROVED_ONCE)
    dee = Claimant("dee", senior_scopes=ALL)
    assert ([], [], ["a"]) == tuple([await offered(ledger, each) for each in (CYN, BEN, dee)])
    doubted = await ledger.write(leave_undecided("a", dee, now_ms=NOON_MS))  # the first one who cannot tell
    assert (1, 1) == (doubted.cannot_tell, doubted.needs_senior)
    eve = Claimant("eve", senior_scopes=ALL)
    assert ([], ["a"]) == (await offered(ledger, BEN), await offered(ledger, eve))


async def test_M10_an_appeal_is_a_case_for_somebody_else(ledger: Ledger, board: Board):
    """A senior's, until it is denied or granted; it is counted by its own reason."""
    await ledger.append(new_submission("a", state=State.HELD))
    await decided(ledger, board, "a", State.REJECTED, "moderator:cyn")
    dee = Claimant("dee", senior_scopes=ALL)
    for reason, state in ((Reason.APPEAL_DENIED, State.REJECTED), (Reason.APPEAL_GRANTED, State.PROMOTED)):
        await remarked(ledger, board, State.REJECTED, "player", Reason.APPEALED)
        assert {"tiny": {"appealed": 1}} == await ledger.read(case_counts_of_labels())
        assert ([], [], ["a"]) == tuple([await offered(ledger, each) for each in (CYN, BEN, dee)])
        await remarked(ledger, board, state, "moderator:dee", reason)
        assert ([], {}) == (await queued(ledger), await ledger.read(case_counts_of_labels()))


async def undone(ledger: Ledger, board: Board, by: str) -> None:
    """The newest decision on submission `a` is undone."""
    history = await ledger.read(history_of("a"))
    inverse = inverse_of("a", history, actor=by, at_ms=NOON_MS, detail={})
    assert isinstance(inverse, Decision), inverse
    [[outcome], _] = await ledger.write(_decide_all(board, [inverse]))
    assert isinstance(outcome, Change), outcome


async def test_M10_an_appeal_waits_again_for_somebody_else_once_what_closed_it_is_undone(
    ledger: Ledger, board: Board
):
    """Granted or held, it is not for who decided first, whatever others do; and a hold between keeps that."""
    await ledger.append(new_submission("a", state=State.HELD))
    await decided(ledger, board, "a", State.REJECTED, "moderator:cyn")
    await remarked(ledger, board, State.REJECTED, "player", Reason.APPEALED)
    dee, waits = Claimant("dee", senior_scopes=ALL), ([], [], ["a"])
    whose = {"not_for": "cyn", "needs_senior": 1}
    for state, reason in (
        (State.PROMOTED, Reason.APPEAL_GRANTED),
        (State.HELD, Reason.HELD_BY_MODERATOR),
        (State.PROMOTED, Reason.REINSTATED),
    ):
        await remarked(ledger, board, state, "moderator:dee", reason)
        if state is State.HELD:
            held = await ledger.read(lambda tx: load_case(tx, "a"))
            assert held is not None
            assert (CaseKind.HELD, whose) == (held.kind, {name: getattr(held, name) for name in whose})
            detail = {"decision": "reject", "code": "other"}
            own = Decision("a", State.REJECTED, "moderator:cyn", Reason.REJECTED_BY_MODERATOR, NOON_MS,
                           frozenset({State.HELD}), detail=detail)  # fmt: skip
            outcome, _ = await ledger.write(decide_on_case(board, CaseRequest(own, may_overrule=True)))
            assert isinstance(outcome, NotTheirs)
        await undone(ledger, board, "moderator:dee")
        assert {"tiny": {"appealed": 1}} == await ledger.read(case_counts_of_labels())
        assert waits == tuple([await offered(ledger, each) for each in (CYN, BEN, dee)])
        assert await check_cases(ledger)
    await remarked(ledger, board, State.REJECTED, "moderator:dee", Reason.APPEAL_DENIED)
    assert {} == await ledger.read(case_counts_of_labels())


async def test_what_was_approved_once_waits_for_another_senior_also_while_it_is_revoked(
    ledger: Ledger, board: Board
):
    """Nor is it for who is appealed against. Once somebody declined, two have to approve it anew."""
    await ledger.append(new_submission("a", state=State.HELD))
    await decided(ledger, board, "a", State.PROMOTED, "moderator:cyn")
    await decided(ledger, board, "a", State.REVOKED, "moderator:cyn")
    dee, eve = (Claimant(name, senior_scopes=ALL) for name in ("dee", "eve"))
    await remarked(ledger, board, State.REVOKED, "moderator:dee", Reason.APPROVED_ONCE)
    assert ([], ["a"], ["a"]) == tuple([await offered(ledger, each) for each in (dee, CYN, eve)])
    assert {"tiny": {"approved-once": 1}} == await ledger.read(case_counts_of_labels())
    await remarked(ledger, board, State.REVOKED, "player", Reason.APPEALED)
    assert ([], [], ["a"]) == tuple([await offered(ledger, each) for each in (dee, CYN, eve)])
    assert {"tiny": {"appealed": 1}} == await ledger.read(case_counts_of_labels())
    for reason in (Reason.APPEAL_DENIED, Reason.APPROVAL_DECLINED):
        await remarked(ledger, board, State.REVOKED, "moderator:eve", reason)
        assert ([], None) == (await queued(ledger), first_approval(await ledger.read(history_of("a"))))
        await remarked(ledger, board, State.REVOKED, "moderator:dee", Reason.APPROVED_ONCE)
        assert ["a"] == await queued(ledger)
