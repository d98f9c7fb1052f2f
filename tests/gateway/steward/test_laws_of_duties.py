"""What each duty does with what is due, row by row, with what it asks for and writes noted down."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.index import keys
from gateway.ledger.submissions import work
from gateway.settlement import labelling
from gateway.steward import check_keeping, dispatcher, forgetting, index_duties
from gateway.steward.audits import revocation_impact
from gateway.steward.audits.auditing import AuditDraw, Sample, next_audit_ms
from gateway.steward.audits.revocation_impact import StandingImpact, impact_of_revoking
from gateway.steward.check_keeping import CheckKeeper
from gateway.steward.dispatch import VerificationQueue
from gateway.steward.dispatcher import Dispatcher
from gateway.steward.due_work import DueWork
from gateway.steward.forgetting import AddressForgetter
from gateway.steward.index_duties import IndexDuties
from policies.ranking import ReachedScore
from policies.vocabulary import Reason, State
from policies.windows import window_named
from tests.support.policies import a_ranking

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Noted:
    """Notes every call by its name and what it was given, and answers with what a test says."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.done: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*given: Any, **named: Any) -> Any:
            self.done.append((name, *given, *named.values()))
            return self.answers.get(name)

        return call


def a_board(**policy: Any) -> Any:
    facts = {"exact_ranks": None, "cold_after_s": None} | policy
    return SimpleNamespace(name="b", policy=SimpleNamespace(**facts))


@pytest.fixture
def residents() -> Noted:
    return Noted()


def duties_on(monkeypatch: pytest.MonkeyPatch, residents: Noted, index: Any = None, **parts: Any) -> Any:
    """The duties in the index on a board whose idle life is a minute."""
    monkeypatch.setattr(index_duties, "life_ms", lambda _policy: 60_000)
    duties: Any = object.__new__(IndexDuties)
    duties._residents = residents
    duties._clock = lambda: NOW_MS
    duties._index = SimpleNamespace(of=lambda _board: index)
    duties._outdated = Noted(has=False)
    duties._reconcilers, duties._tail_keepers = OrderedDict(), {}
    duties._ledger = None
    for name, part in parts.items():
        setattr(duties, f"_{name}", part)
    return duties


STRUCK = ("strike", keys.residents, ["b"])
IDLE = ("add", keys.idle, ["b"], NOW_MS + 60_000)
TAILS = ("add", keys.tails, ["b"], NOW_MS)
MISSED = ("note_use", True)


@pytest.mark.parametrize(
    ("state", "is_limited", "exact_ranks", "done", "used", "changed"),
    [
        ((False, True), False, None, [], [], 3),
        ((False, True), True, None, [IDLE], [], 3),
        ((False, True), False, 100, [TAILS], [], 3),
        ((False, True), True, 100, [IDLE, TAILS], [], 3),
        ((True, False), True, None, [STRUCK], [], 0),
        ((True, True), True, None, [STRUCK], [MISSED], 0),
        ((True, False), False, None, [STRUCK], [MISSED], 0),
    ],
)
async def test_a_board_is_compared_unless_it_is_cold(
    monkeypatch: pytest.MonkeyPatch,
    residents: Noted,
    state: tuple[bool, bool],
    is_limited: bool,
    exact_ranks: int | None,
    done: list[Any],
    used: list[Any],
    changed: int,
):
    """What is cold is no resident, and is built if nobody may leave it so; else its idle time begins."""
    residency = Noted()
    residency.is_limited = is_limited  # type: ignore[attr-defined]
    found = SimpleNamespace(is_cold=state[0], is_whole=state[1])
    reconciler = Noted(residency=found, step=3)
    duties = duties_on(monkeypatch, residents, SimpleNamespace(residency=residency))
    duties._reconciler = lambda _board: reconciler
    assert changed == await duties._compare(a_board(exact_ranks=exact_ranks))
    assert (done, used) == (residents.done, residency.done)
    assert ({"b"} if changed else set()) == set(duties._reconcilers)


async def test_a_board_under_a_new_rule_is_not_compared(monkeypatch: pytest.MonkeyPatch, residents: Noted):
    """It is folded and built anew."""
    duties = duties_on(monkeypatch, residents, outdated=Noted(has=True))
    assert 0 == await duties._compare(a_board())
    assert [] == residents.done


def test_512_places_are_remembered_and_those_of_long_boards_last(
    monkeypatch: pytest.MonkeyPatch, residents: Noted
):
    """The oldest that is not long is forgotten; if all are long, the one that came last."""
    duties = duties_on(monkeypatch, residents)
    for number in range(512):
        duties._remember(f"b{number}", SimpleNamespace(is_long=number != 7))
    assert 512 == len(duties._reconcilers)
    duties._remember("b0", SimpleNamespace(is_long=True))
    duties._remember("more", SimpleNamespace(is_long=True))
    assert (512, False, True) == (
        len(duties._reconcilers),
        "b7" in duties._reconcilers,
        "b0" in duties._reconcilers,
    )
    duties._remember("last", SimpleNamespace(is_long=True))
    assert (512, False, True) == (
        len(duties._reconcilers),
        "last" in duties._reconcilers,
        "more" in duties._reconcilers,
    )


@pytest.mark.parametrize(
    ("is_limited", "until_ms", "is_evicted", "done", "answer"),
    [
        (False, None, True, [("strike", keys.idle, ["b"])], 0),
        (True, None, True, [], 1),
        (True, None, False, [("put_off", keys.idle, ["b"], NOW_MS + 60_000)], 0),
        (True, NOW_MS + 5, True, [("put_off", keys.idle, ["b"], NOW_MS + 5)], 0),
    ],
)
async def test_an_idle_board_goes_cold_unless_it_was_used(
    monkeypatch: pytest.MonkeyPatch,
    residents: Noted,
    is_limited: bool,
    until_ms: int | None,
    is_evicted: bool,
    done: list[Any],
    answer: int,
):
    """Or may not; what could not go is looked at again when its time is over."""
    residency = Noted(idle_until=until_ms)
    residency.is_limited = is_limited  # type: ignore[attr-defined]
    monkeypatch.setattr(index_duties, "ColdBoard", lambda *_, **__: Noted(evict=is_evicted))
    duties = duties_on(monkeypatch, residents, SimpleNamespace(residency=residency))
    assert answer == await duties._evict(a_board())
    assert done == residents.done


@pytest.mark.parametrize(
    ("is_of_file", "has_content", "is_warmed", "answer"),
    [
        (True, False, True, 1),
        (False, True, True, 1),
        (False, False, True, 0),
        (True, False, False, 0),
        (False, True, False, 0),
    ],
)
async def test_a_wanted_board_is_built_if_it_is_of_a_file_or_has_content(
    monkeypatch: pytest.MonkeyPatch,
    residents: Noted,
    is_of_file: bool,
    has_content: bool,
    is_warmed: bool,
    answer: int,
):
    """Otherwise nobody wants it any more."""
    cold = Noted(has_content=has_content, warm=is_warmed)
    monkeypatch.setattr(index_duties, "ColdBoard", lambda *_, **__: cold)
    catalogue = SimpleNamespace(of_files={"b": 1} if is_of_file else {})
    duties = duties_on(monkeypatch, residents, catalogue=catalogue)
    assert answer == await duties._build(a_board())
    assert ([] if answer else [("strike", keys.wanted, ["b"])]) == residents.done


PUT_OFF = ("put_off", keys.tails, ["b"], NOW_MS + index_duties.PAUSE_MS)
AGAIN = ("put_off", keys.tails, ["b"], NOW_MS)
AT_REST = ("strike_unchanged", keys.tails, "b", NOW_MS + index_duties.PAUSE_MS)


@pytest.mark.parametrize(
    ("moved", "is_building", "lacks_changes", "done"),
    [
        (0, False, False, [PUT_OFF, AT_REST]),
        (0, False, True, [PUT_OFF]),
        (2, False, False, [PUT_OFF, AGAIN]),
        (0, True, False, [PUT_OFF, AGAIN]),
    ],
)
async def test_a_tail_is_kept_until_nothing_moves(
    monkeypatch: pytest.MonkeyPatch,
    residents: Noted,
    moved: int,
    is_building: bool,
    lacks_changes: bool,
    done: list[Any],
):
    """At once again while something does; at rest only if no change came meanwhile; a keeper that builds goes on."""
    keeper = Noted(step=moved)
    keeper.is_building, keeper.lacks_changes = is_building, lacks_changes  # type: ignore[attr-defined]
    made: list[Any] = []
    monkeypatch.setattr(index_duties, "ExactRankKeeper", lambda *_, **__: made.append(1) or keeper)
    duties = duties_on(monkeypatch, residents)
    assert moved == await duties._keep_tail(a_board())
    assert (done, {"b": keeper} if is_building else {}) == (residents.done, duties._tail_keepers)
    await duties._keep_tail(a_board())
    assert [1] * (1 if is_building else 2) == made


def lanes_held(*names: str) -> Any:
    held = {index_duties.lane_of(name) for name in names}
    return SimpleNamespace(lanes_held=lambda: held)


async def test_boards_of_files_that_are_not_whole_are_rebuilt_but_for_cold_ones(
    monkeypatch: pytest.MonkeyPatch,
):
    """Of this steward's lanes; whole ones are residents; the walk begins again behind the last."""
    marks = {"a": (True, False), "b": (False, False), "c": (False, True), "d": (False, True)}
    residents = Noted(marks_of=list(marks.values()))
    files = {name: SimpleNamespace(policy=name) for name in marks}
    pages = [[*marks, "e"], [f"f{number}" for number in range(256)]]
    asked: list[Any] = []

    def names_after(after: str, count: int) -> list[str]:
        asked.append((after, count))
        return pages[len(asked) - 1]

    catalogue = SimpleNamespace(names_after=names_after, of_files=files)
    duties = duties_on(monkeypatch, residents, catalogue=catalogue, leases=lanes_held(*marks), seen_file="x")
    monkeypatch.setattr(index_duties, "life_ms", lambda policy: 60_000 if policy == "d" else None)
    assert index_duties.lane_of("e") not in duties._leases.lanes_held()
    assert ["b", "c"] == await duties._lost_files()
    assert [("marks_of", list(marks)), ("add", keys.residents, ["a"], 0)] == residents.done
    duties._leases, residents.answers["marks_of"] = lanes_held(), []
    await duties._lost_files()
    assert ([("x", 256), ("", 256)], "f255") == (asked, duties._seen_file)


@pytest.mark.parametrize(("count", "seen"), [(63, ""), (64, "s63")])
async def test_boards_with_standings_are_put_back_among_the_residents_in_turns(
    monkeypatch: pytest.MonkeyPatch, count: int, seen: str
):
    """Those that are whole; behind the last of them the walk begins again."""
    names = [f"s{number:02}" for number in range(count)]
    seen = seen and names[-1]
    residents = Noted(marks_of=[(number % 2 == 0, False) for number in range(count)])
    monkeypatch.setattr(index_duties.board_duties, "boards_with_standings", lambda *given, **_: given)
    ledger = Noted(read=names)
    duties = duties_on(
        monkeypatch, residents, ledger=ledger, leases=lanes_held(*names), seen_board="from here"
    )
    await duties._restore_residents()
    assert [("read", ("from here", "~"))] == ledger.done
    assert [("marks_of", names), ("add", keys.residents, names[::2], 0)] == residents.done
    assert seen == duties._seen_board


class Reads:
    """A ledger that answers by the name of what it is asked, and notes what is written."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.written: list[Any] = []

    async def read(self, operation: Any, *_: Any) -> Any:
        return self.answers[operation[0] if isinstance(operation, tuple) else operation]

    async def write(self, operation: Any) -> Any:
        self.written.append(operation)
        return self.answers.get(operation[0])


def named(name: str) -> Any:
    return lambda *given, **more: (name, *given, *more.values())


def outbox(seq: int, board: str = "b", kind: str = "verify", **facts: Any) -> Any:
    row = {"seq": seq, "board": board, "kind": kind, "priority": 0, "attempt": 0, "is_returned": False}
    return SimpleNamespace(**(row | {"due_at_ms": 0, "submission_id": f"s{seq}"} | facts))


async def test_work_of_boards_without_a_policy_is_put_off(monkeypatch: pytest.MonkeyPatch):
    """So that it fills no slice; a slice without any is written nothing for."""
    monkeypatch.setattr(work, "postpone", named("postpone"))
    ledger: Any = Reads()
    catalogue: Any = {"b"}
    due = DueWork(ledger, catalogue, clock=lambda: NOW_MS)
    rows = [outbox(1), outbox(2, "gone"), outbox(3)]
    assert [rows[0], rows[2]] == await due.with_policies("verify", rows)
    [(name, foreign, until_ms)] = ledger.written
    assert ("postpone", [rows[1]], True) == (name, foreign, until_ms > NOW_MS)
    assert [rows[0]] == await due.with_policies("verify", rows[:1])
    assert 1 == len(ledger.written)


@pytest.mark.parametrize(
    ("handed_out", "audits"), [(0, 4), (1, 3), (4, 0), (5, 0)], ids=["none", "one", "all", "more"]
)
async def test_as_many_audits_are_handed_out_as_may_be_at_once(
    monkeypatch: pytest.MonkeyPatch, handed_out: int, audits: int
):
    """The first of those that are due."""
    monkeypatch.setattr(dispatcher, "AUDITS_AT_ONCE", 4)
    monkeypatch.setattr(dispatcher.audits, "handed_out", lambda **_: "handed out")
    rows = [outbox(number, kind="audit") for number in range(6)]
    dispatching: Any = object.__new__(Dispatcher)
    dispatching._ledger, dispatching._clock = Reads(**{"handed out": handed_out}), lambda: NOW_MS
    dispatching._due = Noted(of_kind=rows)
    assert rows[:audits] == await dispatching._due_to_audit()
    dispatching._due = Noted(of_kind=[])
    assert [] == await dispatching._due_to_audit()


@pytest.mark.parametrize(
    ("is_put", "written", "count"), [(True, [("hand out", [1, 2, 3], NOW_MS + 30_500)], 3), (False, [], 0)]
)
async def test_what_a_queue_took_comes_due_again_later(
    monkeypatch: pytest.MonkeyPatch, is_put: bool, written: list[Any], count: int
):
    """After the setting's seconds, in milliseconds; what it refused stays due."""
    monkeypatch.setattr(work, "hand_out", named("hand out"))
    dispatching: Any = object.__new__(Dispatcher)
    dispatching._ledger, dispatching._clock = Reads(), lambda: NOW_MS
    dispatching._settings = SimpleNamespace(redispatch_s=30.5)
    dispatching._jobs = Noted(put=is_put)
    assert count == await dispatching._hand_out(VerificationQueue.MAIN, [[1, 2], [3]])
    assert written == dispatching._ledger.written
    assert [("put", VerificationQueue.MAIN, [[1, 2], [3]])] == dispatching._jobs.done


@pytest.mark.parametrize(("due_at_ms", "is_due"), [(None, False), (NOW_MS, True), (NOW_MS + 1, False)])
async def test_a_dispatcher_looks_when_something_is_due(
    monkeypatch: pytest.MonkeyPatch, due_at_ms: int | None, is_due: bool
):
    """And says when the next will be."""
    monkeypatch.setattr(work, "next_due_for_workers", "next")
    dispatching: Any = object.__new__(Dispatcher)
    dispatching._ledger, dispatching._clock = Reads(next=due_at_ms), lambda: NOW_MS
    assert is_due is await dispatching._is_due()
    assert due_at_ms == await dispatching._next_due()


@pytest.mark.parametrize(("days", "over", "count"), [(30, True, 4), (0, True, 4), (30, False, 0)])
async def test_addresses_are_forgotten_after_their_days(
    monkeypatch: pytest.MonkeyPatch, days: int, over: bool, count: int
):
    """Of 24 hours; nothing is written while there is none to forget."""
    monkeypatch.setattr(forgetting, "addresses_over", named("over"))
    monkeypatch.setattr(forgetting, "forget_addresses", named("forget"))
    ledger: Any = Reads(over=over, forget=4)
    assert count == await AddressForgetter(ledger, days=days, clock=lambda: NOW_MS).step()
    assert ([("forget", NOW_MS - days * DAY_MS)] if over else []) == ledger.written


def a_label(seq: int, decided_at_ms: int, board: str = "b") -> Any:
    return SimpleNamespace(seq=seq, decided_at_ms=decided_at_ms, board=board)


@pytest.mark.parametrize("is_open", [True, False])
async def test_checks_are_drawn_from_what_has_stood_for_a_day(monkeypatch: pytest.MonkeyPatch, is_open: bool):
    """Up to the first that has not; by the share of its board, where there is one; open ones are ended first."""
    for name in ("labels_behind", "end_checks", "draw_checks"):
        monkeypatch.setattr(check_keeping, name, named(name))
    monkeypatch.setattr(check_keeping, "open_checks", "open")
    monkeypatch.setattr(check_keeping.log, "position", named("position"))
    settled = check_keeping.SETTLED_MS
    assert DAY_MS == settled
    labels = [
        a_label(1, NOW_MS - settled - 1),
        a_label(2, NOW_MS - settled, "gone"),
        a_label(3, NOW_MS - settled),
        a_label(4, NOW_MS - settled + 1),
        a_label(5, 0),
    ]
    ledger: Any = Reads(open=is_open, position=None, labels_behind=labels)
    boards = {"b": SimpleNamespace(policy=SimpleNamespace(moderation=SimpleNamespace(check_share=0.5)))}
    chance: Any = SimpleNamespace(random=iter([0.5, 0.0, 0.49]).__next__)
    keeper = CheckKeeper(ledger, Noted(boards=boards), clock=lambda: NOW_MS, chance=chance)  # type: ignore[arg-type]
    assert 3 == await keeper.step()
    ended = [("end_checks", NOW_MS)] if is_open else []
    assert [*ended, ("draw_checks", 0, 3, [labels[2]], NOW_MS)] == ledger.written
    ledger.answers["labels_behind"], ledger.written = labels[3:], []
    assert 0 == await keeper.step()
    assert ended == ledger.written


@pytest.mark.parametrize(
    ("share", "least", "drawn"),
    [
        (0.0, 0, ""),
        (0.5, 0, "bd"),
        (0.5, 2, "bd"),
        (0.5, 3, "bdc"),
        (0.5, 9, "bdcae"),
        (0.0, 2, "bd"),
        (0.3, 1, "b"),
        (0.2, 1, "b"),
    ],
)
def test_a_sample_has_what_is_below_the_share_and_the_lowest_up_to_the_least(
    share: float, least: int, drawn: str
):
    """A number at the share is not below it; what is drawn because too few were comes lowest first."""
    numbers = dict(zip("abcde", (0.8, 0.2, 0.5, 0.3, 0.9), strict=True))
    sample = Sample(
        SimpleNamespace(share=share, least=least),  # type: ignore[arg-type]
        SimpleNamespace(random=iter(numbers.values()).__next__),  # type: ignore[arg-type]
    )
    for run in numbers:
        sample.offer(run)  # type: ignore[arg-type]
    assert list(drawn) == sample.drawn


def audited_at(at: str, zone: str = "UTC") -> Any:
    audit = SimpleNamespace(at=at)
    return SimpleNamespace(time_zone=zone, verification=SimpleNamespace(audit=audit))


MIDNIGHT_MS = 1_699_920_000_000


@pytest.mark.parametrize(
    ("at", "zone", "after_ms", "next_ms", "days"),
    [
        ("00:00", "UTC", MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS, 0),
        ("00:00", "UTC", MIDNIGHT_MS - 1, MIDNIGHT_MS, -1),
        ("04:30", "UTC", MIDNIGHT_MS, MIDNIGHT_MS + 16_200_000, -1),
        ("04:30", "UTC", MIDNIGHT_MS + 16_199_999, MIDNIGHT_MS + 16_200_000, -1),
        ("04:30", "UTC", MIDNIGHT_MS + 16_200_000, MIDNIGHT_MS + DAY_MS + 16_200_000, 0),
        ("01:00", "Europe/Zurich", MIDNIGHT_MS - 1, MIDNIGHT_MS, -1),
        ("01:00", "Europe/Zurich", MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS, 0),
    ],
)
def test_audits_are_drawn_once_a_day_at_their_time(
    at: str, zone: str, after_ms: int, next_ms: int, days: int
):
    """In the board's time zone: the next after a moment, and the latest day whose time has come."""
    policy = audited_at(at, zone)
    assert next_ms == next_audit_ms(policy, after_ms)
    draw: Any = AuditDraw(None, policy, clock=lambda: after_ms)  # type: ignore[arg-type]
    assert date(2023, 11, 14).toordinal() + days == draw._day()
    assert isinstance(draw._chance, random.SystemRandom)


class Revoked:
    """A run of a player that would no longer count."""

    def __init__(self, player: str, number: int, score: int, at_ms: int) -> None:
        self.player, self.submission_id, self.achieved_at_ms = player, f"{player}-{number}", at_ms
        self.reached = ReachedScore(score, at_ms, number, self.submission_id)


async def test_what_a_revocation_changes_is_told_by_window_and_player(monkeypatch: pytest.MonkeyPatch):
    """What was and what is left; a run that did not stand changes nothing, and one place behind the hundredth is none."""
    ranking = a_ranking(windows=["alltime", "daily"])
    day = window_named(ranking.policy, "daily:20231114")
    now_ms = day.begin_ms + 1000
    runs = [Revoked(f"p{number:03}", 1, 1_000 - number, day.begin_ms - 1) for number in range(102)]
    runs += [Revoked("p000", 2, 10, day.begin_ms), Revoked("p001", 2, 998, day.begin_ms)]

    def counting_in(_ranking: object, player: str, window: Any) -> Any:
        return [
            run.reached
            for run in runs
            if run.player == player and window.begin_ms <= run.achieved_at_ms < window.end_ms
        ]

    def page_of(_ranking: object, window: str, first: int, count: int, _kind: object) -> Any:
        named = window_named(ranking.policy, window)
        players = {run.player for run in runs}
        best = {name: ranking.standing(counting_in(ranking, name, named)) for name in players}
        rows = sorted((*ranking.place(named, name, each), name) for name, each in best.items() if each)
        page = [(name, order, member) for order, member, name in rows[first : first + count]]
        return SimpleNamespace(rows=page)

    class Given:
        async def read(self, answer: Any) -> Any:
            return answer

    monkeypatch.setattr(revocation_impact, "counting_in", counting_in)
    monkeypatch.setattr(revocation_impact, "page_of", page_of)
    board: Any = SimpleNamespace(policy=ranking.policy, ranking=ranking)
    ledger: Any = Given()

    async def impact(*names: str) -> list[StandingImpact]:
        revoked = [run for run in runs if run.submission_id in names]
        found = await impact_of_revoking(ledger, board, revoked, now_ms)
        return [each for each in found if each.window != "daily:20231113"]

    assert [StandingImpact("alltime", "p000", 1_000, 10, True)] == await impact("p000-1")
    assert [StandingImpact("alltime", "p001", 999, 998, False)] == await impact("p001-1")
    assert [StandingImpact("daily:20231114", "p000", 10, None, True)] == await impact("p000-2")
    assert [StandingImpact("alltime", "p099", 901, None, True)] == await impact("p099-1")
    assert [StandingImpact("alltime", "p100", 900, None, False)] == await impact("p100-1")
    assert [] == await impact()
    both = await impact("p001-1", "p001-2")
    assert [("alltime", 999, None), ("daily:20231114", 998, None)] == [
        (each.window, each.before, each.after) for each in both
    ]


MAX = "moderator:max"
APPROVED, REJECTED = Reason.APPROVED, Reason.REJECTED_BY_MODERATOR


def told(*rows: tuple[str, Reason] | tuple[str, Reason, dict[str, Any]]) -> Sequence[Any]:
    return [
        {
            "seq": seq,
            "at_ms": seq * 1000,
            "actor": actor,
            "from": "held",
            "to": "held",
            "reason": reason.value,
            "detail": detail[0] if detail else {},
        }
        for seq, (actor, reason, *detail) in enumerate(rows, start=1)
    ]


@pytest.mark.parametrize(
    ("rows", "overturned"),
    [
        ([(MAX, APPROVED)], {}),
        ([(MAX, APPROVED), (MAX, REJECTED)], {1: 2}),
        ([(MAX, REJECTED), (MAX, APPROVED)], {1: 2}),
        ([(MAX, APPROVED), (MAX, APPROVED)], {}),
        ([(MAX, APPROVED), (MAX, APPROVED), (MAX, REJECTED)], {1: 3, 2: 3}),
        ([(MAX, REJECTED), (MAX, APPROVED), (MAX, REJECTED)], {1: 2, 2: 3}),
        ([(MAX, APPROVED), ("replay", REJECTED)], {}),
        ([(MAX, APPROVED), (MAX, Reason.QUESTION_ASKED), (MAX, REJECTED)], {1: 3}),
        ([(MAX, APPROVED), (MAX, Reason.SCORE_MISMATCH, {"undoes": 1})], {1: 2}),
        ([(MAX, APPROVED), ("operator", Reason.SCORE_MISMATCH, {"undoes": 1})], {1: 2}),
        ([(MAX, APPROVED), (MAX, REJECTED), (MAX, APPROVED, {"undoes": 2})], {2: 3}),
        (
            [(MAX, APPROVED), (MAX, REJECTED), (MAX, APPROVED, {"undoes": 2}), (MAX, REJECTED)],
            {2: 3, 1: 4},
        ),
        ([(MAX, APPROVED), (MAX, Reason.BANNED, {"was": "rejected-by-moderator"})], {1: 2}),
    ],
)
def test_a_decision_is_overturned_by_the_first_that_says_the_contrary_or_undoes_it(
    rows: list[Any], overturned: dict[int, int]
):
    """All that said so before it, in a row; what was undone overturns nothing any more."""
    assert overturned == labelling.overturned_in(told(*rows))


async def test_the_labels_of_a_decision_and_of_an_undo_are_marked_in_their_transaction(
    monkeypatch: pytest.MonkeyPatch,
):
    """What it contradicts is overturned by it, and stands again once it is undone; others leave no label."""
    noted = Noted()
    for name in ("overturn_label", "let_stand_again", "add_label"):
        monkeypatch.setattr(labelling, name, getattr(noted, name))
    code = SimpleNamespace(is_cheat=True)
    moderation: Any = SimpleNamespace(codes_of=lambda kind: {"aimbot": code} if kind == "reject" else {})
    submission: Any = SimpleNamespace(submission_id="s1", board="b", build="1.0", findings=())
    history = told((MAX, APPROVED), (MAX, APPROVED))

    def decided(reason: Reason, **detail: Any) -> Any:
        return SimpleNamespace(actor=MAX, reason=reason, at_ms=9_000, detail=detail)

    tx: Any = None
    decision = decided(REJECTED, decision="reject", code="aimbot")
    await labelling.label_decision(tx, moderation, submission, history, decision, 3)
    label = noted.done.pop()[2]
    assert [("overturn_label", None, 2, 3), ("overturn_label", None, 1, 3)] == noted.done
    assert (3, "s1", "b", "b", "1.0", "max", REJECTED, "aimbot", True) == tuple(label)[:9]
    assert (2_000, 9_000) == tuple(label)[10:12]
    noted.done.clear()
    unknown = decided(REJECTED, decision="reject", code="other")
    await labelling.label_decision(tx, moderation, submission, history[:1], unknown, 2)
    assert None is noted.done.pop()[2][8]
    noted.done.clear()
    await labelling.label_decision(tx, moderation, submission, history, decided(Reason.QUESTION_ASKED), 3)
    assert [] == noted.done
    before = told((MAX, APPROVED), (MAX, REJECTED))
    await labelling.label_decision(tx, moderation, submission, before, decided(APPROVED, undoes=2), 3)
    assert [("overturn_label", None, 2, 3), ("let_stand_again", None, 1, 2)] == noted.done
    assert State.HELD == before[0]["to"]
