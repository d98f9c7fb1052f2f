"""Checks with a known answer: drawn from what stands, taken for a case, answered without any effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gateway.ledger import queries
from gateway.ledger.derived import log
from gateway.ledger.judgement.cases import background
from gateway.ledger.judgement.promotion_impact import impact_of
from gateway.ledger.moderation.cases import StoredCase, case_counts_of_labels, load_case
from gateway.ledger.moderation.checks import MOST_OPEN, checks_hidden_from, given_answer, labels_behind
from gateway.ledger.moderation.claims import CLAIM_MS, Claimant, claim_case
from gateway.ledger.moderation.labels import LabelFilter, newest_labels
from gateway.ledger.moderation.queue import BEGINNING, QueueFilter, free_cases
from gateway.ledger.moderation.surroundings import DECISIONS, surroundings
from gateway.ledger.moderation.waiting_cases import waiting_cases
from gateway.ledger.seals.case_audit import check_cases
from gateway.settlement.case_decisions import CaseRequest, DecidedCase, decide_on_case
from gateway.settlement.decision_records import Decision
from gateway.settlement.known_answers import (
    CONSUMER,
    LAPSED_MS,
    LATE_MS,
    SETTLED_MS,
    STALE_MS,
    AnsweredCheck,
    answer_check,
    draw_checks,
    end_checks,
    permitted_answers,
)
from gateway.settlement.label_audit import check_labels
from gateway.settlement.settle import _decide_all
from gateway.settlement.undoing import inverse_of
from gateway.steward.check_keeping import CheckKeeper
from policies.choices import Operator
from policies.errors import CaseClaimed, CaseForOthers, CaseOvertaken, LedgerTampered, NotTheirs
from policies.fields import SortOrder
from policies.loader import Board
from policies.moderation import Moderation
from policies.vocabulary import Reason, State
from tests.support.books import Books, board_of
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, on_both_ledgers, open_in
from tests.support.thorough import seeds
from validators.verification_priority import expected_harm

TINY = board_of(Operator.BEST, SortOrder.DESCENDING)
ALL = frozenset({"*"})
ANSWERS = {
    "approve": (State.PROMOTED, Reason.APPROVED, "plausible"),
    "reject": (State.REJECTED, Reason.REJECTED_BY_MODERATOR, "impossible"),
    "hold": (State.HELD, Reason.QUESTION_ASKED, "question"),
    "revoke": (State.REVOKED, Reason.REVOKED_BY_MODERATOR, "impossible"),
}
TRUTH = ("submissions", "standings", "baselines", "outbox")


class Desk(Books):
    """The tiny board with moderators and a steward, in memory; of what stands a share comes again."""

    def __init__(self, share: float = 1.0, chance: Random | None = None, board: Board = TINY) -> None:
        policy = board.policy.model_copy(
            update={"moderation": Moderation().model_copy(update={"check_share": share})}
        )
        super().__init__(replace(board, policy=policy))
        self.now_ms, self.writes = NOON_MS, 0
        chance = chance or Random(1)
        self.keeper = CheckKeeper(self, self, clock=lambda: self.now_ms, chance=chance)  # type: ignore[arg-type]

    async def write(self, work: Any) -> Any:
        self.writes += 1
        return self.do(work)

    async def boards(self, names: set[str]) -> Mapping[str, Board]:
        return {name: self.board for name in names if name == self.board.name}

    def hold(self, *names: str) -> None:
        for name in names:
            self.append([new_submission(name, state=State.HELD, at_ms=self.now_ms)])

    def asked(self, name: str, kind: str, by: str, version: int | None = None) -> CaseRequest:
        state, reason, code = ANSWERS[kind]
        detail = {"decision": kind, "code": code, "note": "seen"}
        decision = Decision(
            name, state, f"moderator:{by}", reason, self.now_ms, frozenset(State), detail=detail, newest_event=version
        )  # fmt: skip
        return CaseRequest(decision, frozenset({by}), may_overrule=True)

    def decide_as(self, by: str, name: str, kind: str, **detail: str) -> None:
        asked = self.asked(name, kind, by)
        decision = replace(asked.decision, detail={**asked.decision.detail, **detail})
        outcome, _ = self.do(decide_on_case(self.board, replace(asked, decision=decision)))
        assert isinstance(outcome, DecidedCase), outcome

    def happen(self, name: str, state: State, reason: Reason, actor: str = "player") -> None:
        decision = Decision(name, state, actor, reason, self.now_ms, frozenset(State))
        self.do(_decide_all(self.board, [decision]))

    def undo(self, name: str) -> None:
        history = self.do(queries.history_of(name))
        detail = {"decision": "undo", "code": "mistake"}
        undo = inverse_of(name, history, actor="moderator:mara", at_ms=self.now_ms, detail=detail)
        assert isinstance(undo, Decision)
        self.do(decide_on_case(self.board, CaseRequest(undo)))

    async def a_day_later(self) -> list[str]:
        """The checks that are open once the steward has been there."""
        self.now_ms += SETTLED_MS
        await self.keeper.step()
        return self.checks()

    def checks(self) -> list[str]:
        return [
            name for (name,) in self.rows("SELECT submission_id FROM cases WHERE kind = 'check' ORDER BY 1")
        ]

    def case(self, name: str) -> StoredCase | None:
        return self.do(lambda tx: load_case(tx, name))

    def offered(self, *names: str) -> list[list[str]]:
        """What each of these is offered."""
        reading = [
            free_cases(ALL, QueueFilter(), Claimant(name), BEGINNING, now_ms=self.now_ms) for name in names
        ]
        return [sorted(case.submission_id for case in self.do(each).cases) for each in reading]

    def version(self, name: str) -> int:
        """The version of a submission that its check shows."""
        case = self.case(name)
        assert case is not None
        history = self.do(queries.history_of(name))
        return max(event["seq"] for event in history if event["seq"] < case.known_seq)

    def answer(self, by: str, name: str, kind: str, version: int | None = None) -> Any:
        asked = self.asked(name, kind, by, version or self.version(name))
        permitted = self.do(permitted_answers(self.board, [asked]))[0]
        outcome = self.do(answer_check(self.board, asked))
        assert isinstance(outcome, AnsweredCheck) is isinstance(permitted, Decision)
        return outcome

    def truth(self) -> list[Any]:
        """All that submissions are, and their histories."""
        events = self.rows("SELECT * FROM events WHERE submission_id <> '' ORDER BY seq")
        return [events, *(self.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TRUTH)]


async def test_what_stands_for_a_day_comes_again_to_somebody_else():
    """As a held case of the reason that it had, once; it is nothing to who decided it, and counts in the queue like a case."""
    desk = Desk()
    desk.hold("one", "two")
    desk.decide_as("mara", "one", "approve")
    desk.decide_as("mara", "two", "reject")
    await desk.keeper.step()
    assert ([], 0) == (desk.checks(), desk.writes)
    truth = desk.truth()
    assert ["one", "two"] == await desk.a_day_later()
    assert 0 == await desk.keeper.step()
    assert [[], ["one", "two"]] == desk.offered("mara", "noor")
    with pytest.raises(CaseForOthers):
        desk.do(claim_case("one", Claimant("mara"), now_ms=desk.now_ms))
    hidden = [sorted(desk.do(checks_hidden_from(name))) for name in ("mara", "noor")]
    assert [[], ["one", "two"]] == hidden
    case = desk.case("one")
    assert case is not None
    assert ("held", "accepted") == (case.shown_kind, case.reason)
    assert [desk.now_ms] * 2 == desk.do(waiting_cases(ALL, None)).opened_at_ms
    assert {"tiny": {"accepted": 2}} == desk.do(case_counts_of_labels())
    assert (2, 2) == (await check_cases(desk), await check_labels(desk))
    assert truth == desk.truth()


@pytest.mark.parametrize("operator", Operator)
@pytest.mark.parametrize("others", [(), (30,), (500,)])
def test_a_check_has_the_ranks_and_the_harm_of_the_case(operator: Operator, others: tuple[int, ...]):
    """On a board of each kind, of a newcomer or not, in the top or not; the run is not added to what has it already."""
    desk = Desk(board=board_of(operator, SortOrder.DESCENDING))
    ranking = desk.board.ranking

    def approved(name: str, player: str, score: int) -> None:
        desk.append([new_submission(name, player=player, score=score, state=State.HELD, at_ms=desk.now_ms)])
        desk.decide_as("mara", name, "approve")
        desk.now_ms += 1_000

    for number in range(4):
        approved(f"other-{number}", f"player-{number}", 50 + 100 * number)
    for number, score in enumerate(others):
        approved(f"own-{number}", "ada", score)
    desk.append([new_submission("run", score=200, state=State.HELD, at_ms=desk.now_ms)])
    run = desk.do(queries.submission("run"))
    assert run is not None

    def told() -> list[Any]:
        harms = [
            expected_harm(desk.do(impact_of(ranking, run, top)), is_flagged=False) for top in (1, 2, 3, 9)
        ]
        return [desk.do(background(ranking, run, now_ms=desk.now_ms)).ranks, harms]

    before = told()
    desk.decide_as("mara", "run", "approve")
    assert before == told()


async def test_a_check_needs_two_moderators_where_its_case_would():
    """On a board that sums, a run that counts is not added once more to its player's sum, though a newer one made it."""
    desk = Desk(board=board_of(Operator.SUM, SortOrder.DESCENDING))
    for name, player, score in (("other", "zoe", 500), ("run", "ada", 200), ("newer", "ada", 200)):
        desk.append([new_submission(name, player=player, score=score, state=State.HELD, at_ms=desk.now_ms)])
        desk.decide_as("mara", name, "approve")
        desk.now_ms += 1_000
    assert "run" in await desk.a_day_later()

    def needed(top: int) -> list[Reason]:
        moderation = Moderation(four_eyes_top=top)
        board = replace(desk.board, policy=desk.board.policy.model_copy(update={"moderation": moderation}))
        asked = desk.asked("run", "approve", "noor", desk.version("run"))
        answers = desk.do(permitted_answers(board, [asked]))
        return [answer.reason for answer in answers if isinstance(answer, Decision)]

    assert [[Reason.APPROVED], [Reason.APPROVED_ONCE]] == [needed(top) for top in (1, 2)]


def undone(desk: Desk) -> None:
    desk.undo("run")


def overturned(desk: Desk) -> None:
    desk.decide_as("noor", "run", "revoke")


def appealed(desk: Desk) -> None:
    desk.undo("run")
    desk.decide_as("mara", "run", "reject")
    desk.happen("run", State.REJECTED, Reason.APPEALED)


def queue_is_late(desk: Desk) -> None:
    desk.now_ms -= LATE_MS
    desk.hold("waits")
    desk.now_ms += LATE_MS


def board_is_late_by_its_target(desk: Desk) -> None:
    desk.connection.execute("INSERT INTO late_queues (board, label, since_ms) VALUES ('tiny', 'tiny', 7)")


def recording_is_gone(desk: Desk) -> None:
    desk.connection.execute("DROP TRIGGER recordings_no_delete")
    desk.connection.execute("DELETE FROM recordings")


def fortnight_passes(desk: Desk) -> None:
    desk.now_ms += STALE_MS - SETTLED_MS


def nothing(_: Desk) -> None: ...


@pytest.mark.parametrize(
    ("happened", "share", "expected"),
    [
        (nothing, 1.0, ["run"]),
        (nothing, 0.0, []),
        (undone, 1.0, []),
        (overturned, 1.0, []),
        (appealed, 1.0, []),
        (queue_is_late, 1.0, []),
        (board_is_late_by_its_target, 1.0, []),
        (recording_is_gone, 1.0, []),
        (fortnight_passes, 1.0, []),
    ],
)
async def test_only_what_is_known_and_can_be_seen_comes_again(
    happened: Callable[[Desk], None], share: float, expected: list[str]
):
    """A fresh decision that stands alone, whose recording is there; while none waits for long, and if a policy asks."""
    desk = Desk(share)
    desk.hold("run")
    desk.decide_as("mara", "run", "approve")
    happened(desk)
    assert expected == await desk.a_day_later()


async def test_a_case_that_a_colleague_asked_about_is_no_check():
    """What colleagues did before the decision could not be hidden from who has the check."""
    desk = Desk()
    desk.hold("run")
    desk.happen("run", State.HELD, Reason.QUESTION_ASKED, "moderator:noor")
    desk.decide_as("mara", "run", "approve")
    assert [] == await desk.a_day_later()


async def test_a_decision_of_a_batch_is_no_check():
    """Who has the check would find the run, and what was decided, among the items of the batch."""
    desk = Desk()
    desk.hold("run", "other")
    desk.decide_as("mara", "run", "approve", batch="b1")
    desk.decide_as("mara", "other", "approve")
    assert ["other"] == await desk.a_day_later()


def test_decisions_that_a_check_hides_leave_no_gap_among_the_newest():
    """As many are shown as of a player without a check."""
    desk = Desk()
    names = [f"run-{number}" for number in range(DECISIONS + 1)]
    desk.hold(*names)
    for name in names:
        desk.decide_as("mara", name, "approve")
    known = max(event["seq"] for event in desk.do(queries.history_of(names[-1])))
    around = surroundings("", "ada", [], scopes=ALL, count=99, hidden={names[-1]: known})
    shown = [decision.submission_id for decision in desk.do(around).decisions]
    assert names[-2::-1] == shown


async def test_few_checks_are_open_at_once_and_those_that_nobody_takes_end():
    """Not who is in one; a queue that is late loses the others at once. What was drawn never comes again."""
    desk = Desk()
    names = [f"run-{number}" for number in range(MOST_OPEN + 2)]
    desk.hold(*names)
    for name in names:
        desk.decide_as("mara", name, "approve")
    assert names[:MOST_OPEN] == await desk.a_day_later()
    desk.now_ms += LAPSED_MS - CLAIM_MS + 1
    desk.do(claim_case("run-1", Claimant("noor"), now_ms=desk.now_ms))
    desk.now_ms += CLAIM_MS - 1
    await desk.keeper.step()
    assert ["run-1"] == desk.checks()
    desk.now_ms += 1
    await desk.keeper.step()
    assert [] == desk.checks() == await desk.a_day_later()
    desk.hold("real", "late")
    desk.decide_as("mara", "real", "reject")
    desk.happen("late", State.REJECTED, Reason.SCORE_MISMATCH, "replay")
    assert ["real"] == await desk.a_day_later()
    desk.hold("waits")
    desk.now_ms += LATE_MS
    await desk.keeper.step()
    assert [] == desk.checks()
    assert 1 == await check_cases(desk)


async def test_a_check_that_waits_for_long_makes_no_queue_late():
    """Only cases do: else each check would end before anybody takes it, and keep others from being drawn."""
    desk = Desk()
    desk.hold("run", "other")
    desk.decide_as("mara", "run", "approve")
    assert [] == await desk.a_day_later(), "while a case waits for as long"
    desk.decide_as("mara", "other", "reject")
    assert ["other"] == await desk.a_day_later()
    desk.now_ms += LAPSED_MS - 1
    await desk.keeper.step()
    assert ["other"] == desk.checks()


async def test_a_moderator_finds_their_own_answer_to_the_check_of_a_run():
    """Not their answer on another run of the player, nor a colleague's."""
    desk = Desk()
    desk.hold("one", "two", "three")
    for name in ("one", "two", "three"):
        desk.decide_as("mara", name, "approve")
    await desk.a_day_later()
    answers = {
        (name, by): desk.answer(by, name, "reject")
        for name, by in (("one", "noor"), ("two", "zoe"), ("three", "noor"))
    }
    for name, by in ((name, by) for name in ("one", "two", "three") for by in ("noor", "zoe")):
        given = desk.do(given_answer(name, "ada", by))
        expected = answers.get((name, by))
        assert (expected and expected.seq) == (given and given.seq)


async def test_an_answer_is_compared_and_changes_nothing():
    """Of both kinds, the same and the other; a question says neither. Each ends its check, and leaves an event and a label."""
    desk = Desk()
    for name, kind in (("one", "approve"), ("two", "reject"), ("three", "approve")):
        desk.hold(name)
        desk.decide_as("mara", name, kind)
    await desk.a_day_later()
    truth = desk.truth()
    for name, kind, agreed in (("one", "approve", True), ("two", "approve", False), ("three", "hold", None)):
        answered = desk.answer("noor", name, kind)
        assert (agreed, "mara") == (answered.has_agreed, answered.known.moderator)
        assert desk.case(name) is None
    assert truth == desk.truth()
    labels = desk.rows(
        "SELECT submission_id, moderator, reason, known_seq IS NOT NULL FROM labels ORDER BY seq"
    )
    assert [("one", "noor", "approved", 1), ("two", "noor", "approved", 1)] == labels[3:]
    noted = desk.rows(
        "SELECT reason, board, player, from_state, to_state FROM events WHERE submission_id = ''"
    )
    states = ["promoted", "rejected", "promoted"]
    assert [("check-answered", "tiny", "ada", state, state) for state in states] == noted
    assert (0, 5, {}) == (
        await check_cases(desk), await check_labels(desk), desk.do(case_counts_of_labels())
    )  # fmt: skip
    assert [] == await desk.a_day_later()


async def test_a_check_is_refused_to_whom_a_case_would_be():
    """Who made the decision, whose run it is, while a colleague is in it, and on another version."""
    desk = Desk()
    desk.hold("run")
    desk.decide_as("mara", "run", "approve")
    await desk.a_day_later()
    desk.do(claim_case("run", Claimant("noor"), now_ms=desk.now_ms))
    version = desk.version("run")
    for by, seen, refusal in (
        ("mara", version, CaseOvertaken),
        ("noor", version + 1, CaseOvertaken),
        ("ada", version, NotTheirs),
        ("zoe", version, CaseClaimed),
    ):
        assert isinstance(desk.answer(by, "run", "reject", seen), refusal)
    assert ["run"] == desk.checks()
    assert desk.answer("noor", "run", "reject", version).has_agreed is False
    assert isinstance(desk.answer("noor", "run", "reject", version), CaseOvertaken)


@pytest.mark.parametrize("happened", [undone, overturned])
async def test_a_real_decision_ends_the_check_whoever_is_in_it(happened: Callable[[Desk], None]):
    """So a check holds nothing up, and its answer is then overtaken."""
    desk = Desk()
    desk.hold("run")
    desk.decide_as("mara", "run", "approve")
    await desk.a_day_later()
    version = desk.version("run")
    desk.do(claim_case("run", Claimant("zoe"), now_ms=desk.now_ms))
    happened(desk)
    assert [] == desk.checks()
    assert isinstance(desk.answer("zoe", "run", "reject", version), CaseOvertaken)
    assert (happened is undone) == await check_cases(desk)


async def test_an_appeal_takes_the_place_of_a_check():
    """A player who appeals is heard by a senior, while a moderator has the check open."""
    desk = Desk()
    desk.hold("run")
    desk.decide_as("mara", "run", "reject")
    await desk.a_day_later()
    desk.happen("run", State.REJECTED, Reason.APPEALED)
    case = desk.case("run")
    assert case is not None
    assert ("appeal", "mara", 0) == (case.kind, case.not_for, case.known_seq)
    assert 1 == await check_cases(desk)


async def test_the_audit_looks_at_the_answers_to_checks():
    """A label that says otherwise than its event is found, as is one that lost the answer that it is compared with."""
    desk = Desk()
    desk.hold("run")
    desk.decide_as("mara", "run", "approve")
    await desk.a_day_later()
    desk.answer("noor", "run", "reject")
    assert 2 == await check_labels(desk)
    for change in ("reason = 'approved'", "known_seq = NULL", "opened_at_ms = 7"):
        desk.connection.execute("SAVEPOINT tampering")
        desk.connection.execute(f"UPDATE labels SET {change} WHERE known_seq IS NOT NULL")
        with pytest.raises(LedgerTampered, match=f"another {change.split()[0]} than"):
            await check_labels(desk)
        desk.connection.execute("ROLLBACK TO tampering")


@on_both_ledgers
async def test_checks_are_drawn_and_answered_on_each_database(store: Store):
    """By the statements that the tests above try in memory."""
    async with open_in(store) as ledger:
        await ledger.append(new_submission("run", state=State.HELD, at_ms=NOON_MS))
        detail = {"decision": "approve", "code": "plausible"}
        decided = Decision(
            "run", State.PROMOTED, "moderator:mara", Reason.APPROVED, NOON_MS, frozenset(State), detail=detail
        )  # fmt: skip
        await ledger.write(decide_on_case(TINY, CaseRequest(decided)))
        labels = await ledger.read(labels_behind(0))
        later_ms = NOON_MS + SETTLED_MS
        assert 1 == await ledger.write(draw_checks(0, 9, labels, now_ms=later_ms))
        assert 0 == await ledger.write(draw_checks(0, 12, labels, now_ms=later_ms))  # by a slower steward
        assert 9 == await ledger.read(log.position(CONSUMER))
        assert 0 == await ledger.write(end_checks(now_ms=later_ms))
        assert ["run"] == list(await ledger.read(checks_hidden_from("noor")))
        answer = replace(
            decided, to_state=State.REJECTED, actor="moderator:noor", at_ms=later_ms,
            detail={"decision": "reject", "code": "impossible"}, newest_event=1,
        )  # fmt: skip
        outcome = await ledger.write(answer_check(TINY, CaseRequest(answer)))
        assert isinstance(outcome, AnsweredCheck), outcome
        assert (2, 0, False) == (await check_labels(ledger), await check_cases(ledger), outcome.has_agreed)
        wanted = LabelFilter(ALL, None, 0, later_ms + 1)
        found = (await ledger.read(newest_labels(wanted))).labels
        assert [Reason.APPROVED, None] == [label.known_reason for label in found]
        given = await ledger.read(given_answer("run", "ada", "noor"))
        assert given is not None
        assert outcome.seq == given.seq


@pytest.mark.parametrize("seed", seeds(3))
async def test_no_check_changes_what_any_submission_is(seed: int):
    """Whatever is decided, asked again, answered or left, in whatever order: only real decisions change anything."""
    chance = Random(seed)
    desk = Desk(0.7, chance)
    decided: list[str] = []
    for number in range(60):
        doing = chance.choice(["hold", "decide", "wait", "answer", "answer", "claim", "revoke"])
        truth, moderator = desk.truth(), chance.choice(["mara", "noor", "zoe"])
        waiting = [name for (name,) in desk.rows("SELECT submission_id FROM cases WHERE kind = 'held'")]
        checks = desk.checks()
        if doing == "hold" or (doing == "decide" and not waiting):
            desk.hold(f"run-{number:02}")
        elif doing == "decide":
            name = chance.choice(waiting)
            desk.decide_as(moderator, name, chance.choice(["approve", "reject"]))
            decided.append(name)
        elif doing == "revoke":
            counting = [
                name
                for (name,) in desk.rows("SELECT submission_id FROM submissions WHERE state = 'promoted'")
            ]
            if counting:
                desk.decide_as(moderator, chance.choice(counting), "revoke")
        else:
            if doing == "wait":
                await desk.a_day_later()
            elif checks and doing == "answer":
                desk.answer(moderator, chance.choice(checks), chance.choice(["approve", "reject", "hold"]))
            elif checks and desk.offered(moderator)[0]:
                name = desk.offered(moderator)[0][0]
                desk.do(claim_case(name, Claimant(moderator), now_ms=desk.now_ms))
            assert truth == desk.truth()
        held = desk.rows("SELECT count(*) FROM submissions WHERE state = 'held'")[0][0]
        assert held + len(desk.checks()) == await check_cases(desk)
    assert await check_labels(desk) >= len(decided)
