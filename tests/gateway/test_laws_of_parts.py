"""Small parts of the gateway, each beside a table of what it promises, without a server."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from gateway.derived.join_history import JoinHistory
from gateway.derived.statistics import Statistics
from gateway.derived.webhooks import event_types as webhooks_of
from gateway.derived.webhooks.guard import check_url, is_named, is_public, looks_like_address
from gateway.derived.webhooks.sender import EndpointResponse, Sender, pause_ms
from gateway.index import keys
from gateway.index.built_arguments import standing_arguments
from gateway.index.changes import StandingChange
from gateway.index.feed.catch_up_budget import CatchUpBudget
from gateway.index.feed.events import EventKind, FeedEvent
from gateway.index.feed.newest_events import NewestEvents
from gateway.index.groups.circle_memory import CircleMemory
from gateway.index.lane_stream import StreamTrimmed
from gateway.index.limits.open_runs import RunCount, count_field
from gateway.index.limits.opening_quotas import OpeningQuotas, OpeningRefusal
from gateway.index.limits.transfer_limit import TransferLimit, TransferQuota, TransferRefusal
from gateway.index.moves import Moves, MovesBudget, Shift
from gateway.index.ranges import window_key
from gateway.ledger.derived.webhooks import DeliveryState
from gateway.ledger.players.joins import JoinChange
from gateway.settlement.facts import Facts
from gateway.settlement.passed_boards import PassedBoards, without_passed
from gateway.shared_records import StandingPage
from policies.errors import SettingsError
from policies.ranking import BoardPlace
from policies.vocabulary import Reason, State
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

NOW_MS = 1_700_000_000_000
MIB = 2**20


def an_event(**changed: Any) -> Any:
    facts = {
        "board": "b",
        "submission_id": "s1",
        "player": "ada",
        "score": 7,
        "seq": 5,
        "at_ms": NOW_MS,
        "from_state": State.PENDING,
        "to_state": State.PROMOTED,
        "reason": Reason.VERIFIED,
    }
    return SimpleNamespace(**(facts | changed))


@pytest.mark.parametrize(
    ("changed", "types"),
    [
        ({}, ["submission.decided"]),
        ({"to_state": State.REJECTED, "reason": Reason.SCORE_MISMATCH}, ["submission.decided"]),
        ({"to_state": State.SUPERSEDED}, ["submission.decided"]),
        (
            {"to_state": State.HELD, "reason": Reason.HELD_BY_MODERATOR},
            ["submission.decided", "case.held"],
        ),
        ({"to_state": State.HELD, "reason": Reason.QUESTION_ASKED}, []),
        ({"to_state": State.REJECTED, "reason": Reason.APPEALED}, ["submission.appealed"]),
        ({"to_state": State.REJECTED, "reason": Reason.APPEAL_DENIED}, []),
        ({"to_state": State.PENDING, "reason": Reason.VERIFIED}, []),
    ],
)
def test_webhooks_tell_of_decisions_and_appeals_and_of_no_other_remark(
    changed: dict[str, Any], types: list[str]
):
    """What is held is told twice: to players' servers, and to whoever waits for cases."""
    assert types == [each.type for each in webhooks_of.events_of(an_event(**changed))]


@pytest.mark.parametrize(("reason", "message"), [(Reason.APPROVED, "hello"), (Reason.BANNED, None)])
def test_a_decided_submission_is_told_as_its_player_sees_it(reason: Reason, message: str | None):
    """With the coarse reason, and no message under a ban; its id follows from the event alone."""
    event = webhooks_of.submission_decided(an_event(reason=reason, to_state=State.REVOKED), "hello")
    data = {
        "board": "b",
        "submission": "s1",
        "player": "ada",
        "score": 7,
        "state": "revoked",
        "was_state": "pending",
        "reason": reason.player_class,
        "message": message,
        "seq": 5,
    }
    body = {"type": "submission.decided", "timestamp": "2023-11-14T22:13:20.000Z", "data": data}
    digest = hashlib.sha256(b'["submission.decided",5]').hexdigest()
    assert (f"evt_{digest[:32]}", "b", body) == (event.event_id, event.board, orjson.loads(event.body))


@pytest.mark.parametrize(("name", "shown"), [("Ada", "Ada"), ("", "ada")])
def test_a_changed_standing_is_told_with_what_it_was(name: str, shown: str):
    """Whoever has no name is called by their id; of a rank the scores are left out."""
    change: Any = SimpleNamespace(
        window="alltime",
        player="ada",
        name=name,
        score=9,
        rank=1,
        was_score=4,
        was_rank=3,
        submission_id="s1",
        seq=5,
        at_ms=NOW_MS,
    )
    rank = {
        "board": "b",
        "window": "alltime",
        "player": "ada",
        "name": shown,
        "rank": 1,
        "was_rank": 3,
        "submission": "s1",
        "seq": 5,
    }
    for make, data in (
        (webhooks_of.standing_changed, rank | {"score": 9, "was_score": 4}),
        (webhooks_of.rank_changed, rank),
    ):
        event = make("b", change)
        key = orjson.dumps([event.type, "b", "alltime", "ada", 5])
        assert f"evt_{hashlib.sha256(key).hexdigest()[:32]}" == event.event_id
        assert data == orjson.loads(event.body)["data"]


def test_a_late_queue_and_a_trial_are_told_with_their_times():
    """The case by when it was opened and when it was late; a trial is another each time."""
    case: Any = SimpleNamespace(board="b", submission_id="s1", opened_at_ms=NOW_MS, late_at_ms=NOW_MS + 1500)
    late = webhooks_of.queue_late(case, now_ms=NOW_MS + 2000)
    assert {
        "type": "queue.late",
        "timestamp": "2023-11-14T22:13:22.000Z",
        "data": {
            "board": "b",
            "submission": "s1",
            "opened_at": "2023-11-14T22:13:20.000Z",
            "late_at": "2023-11-14T22:13:21.500Z",
        },
    } == orjson.loads(late.body)
    assert late.event_id == webhooks_of.queue_late(case, now_ms=NOW_MS + 9000).event_id
    first, second = (webhooks_of.trial("b", now_ms=NOW_MS + each) for each in (0, 1))
    assert first.event_id != second.event_id
    assert {"board": "b"} == orjson.loads(first.body)["data"]


@pytest.mark.parametrize(
    ("tries", "longest_ms"),
    [(1, 5_000), (2, 20_000), (3, 80_000), (8, 81_920_000), (9, 86_400_000), (50, 86_400_000)],
)
def test_pauses_grow_fourfold_up_to_a_day_and_lose_at_most_half_to_chance(tries: int, longest_ms: int):
    """From five seconds on; however often it was tried."""
    assert [longest_ms, longest_ms * 3 // 4, longest_ms // 2] == [
        pause_ms(tries, chance) for chance in (0.0, 0.5, 1.0)
    ]
    assert 86_400_000 == pause_ms(1_000_000, 0.0)


def a_sender(**settings: Any) -> Any:
    sender: Any = object.__new__(Sender)
    sender._clock = lambda: NOW_MS
    sender._settings = SimpleNamespace(webhook_attempts=3, **settings)
    return sender


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("7", 7_000),
        ("86400", 86_400_000),
        ("86401", 86_400_000),
        ("9" * 400, 86_400_000),
        ("-7", 0),
        ("1.5", 0),
        ("soon", 0),
        ("Tue, 14 Nov 2023 22:13:25 GMT", 5_000),
        ("Tue, 14 Nov 2023 22:13:15 GMT", 0),
        ("Tue, 14 Nov 2033 22:13:15 GMT", 86_400_000),
        ("Tue, 99 Nov 2023 22:13:15 GMT", 0),
    ],
)
def test_an_endpoint_may_ask_for_a_pause_of_up_to_a_day(value: str | None, wait_ms: int):
    """In seconds, or as a date; anything else asks for none."""
    assert wait_ms == a_sender()._retry_after_ms(value)


@pytest.mark.parametrize(
    ("status", "tries", "after_ms", "state", "is_gone"),
    [
        (200, 1, 0, DeliveryState.DELIVERED, False),
        (299, 3, 0, DeliveryState.DELIVERED, False),
        (300, 1, 0, DeliveryState.PENDING, False),
        (199, 1, 0, DeliveryState.PENDING, False),
        (500, 2, 0, DeliveryState.PENDING, False),
        (500, 3, 0, DeliveryState.DEAD, False),
        (410, 1, 0, DeliveryState.PENDING, True),
        (503, 1, 80_000_000, DeliveryState.PENDING, False),
        (503, 3, 80_000_000, DeliveryState.DEAD, False),
    ],
)
async def test_an_attempt_succeeds_is_tried_again_or_was_the_last(
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    tries: int,
    after_ms: int,
    state: DeliveryState,
    is_gone: bool,
):
    """After the longer of our pause and theirs; the third attempt is the last."""
    sender = a_sender()

    async def post(*_given: object) -> EndpointResponse:
        return EndpointResponse(status, "told", after_ms)

    monkeypatch.setattr(sender, "_post", post)
    monkeypatch.setattr("gateway.derived.webhooks.sender.random.random", lambda: 0.0)
    delivery: Any = SimpleNamespace(tries=tries, event_id="e", body=b"")
    attempt = await sender._attempt(None, None, delivery)
    waits = max(after_ms, pause_ms(tries, 0.0)) if state is DeliveryState.PENDING else 0
    is_success = state is DeliveryState.DELIVERED
    assert (delivery, state, NOW_MS + waits, "told", is_success, is_gone) == tuple(attempt)


@pytest.mark.parametrize(
    ("url", "hosts", "is_taken"),
    [
        ("https://example.com/x", (), True),
        ("https://example.com:8443/x", (), True),
        ("http://example.com/x", (), False),
        ("http://example.com/x", ("example.com",), True),
        ("http://example.com/x", ("example.com:80",), True),
        ("http://example.com/x", ("example.com:81",), False),
        ("http://example.com:81/x", ("example.com:81",), True),
        ("ftp://example.com/x", ("example.com",), False),
        ("https:///x", (), False),
        ("https://user@example.com/x", (), False),
        ("https://:word@example.com/x", (), False),
        ("https://example.com/x#y", (), False),
        ("https://example.com/x y", (), False),
        ("https://example.com/é", (), False),
        ("https://example.com:99999/x", (), False),
        ("https://10.0.0.1/x", (), False),
        ("https://10.0.0.1/x", ("10.0.0.1",), True),
        ("https://8.8.8.8/x", (), True),
        ("https://2130706433/x", (), False),
        ("https://[::1]/x", (), False),
        ("https://[::1]/x", ("[::1]",), True),
        ("http://[::1]:8080/x", ("[::1]:8080",), True),
        ("https://[2606:4700::1111]/x", (), True),
        ("https://example.com/" + "x" * 1_980, (), True),
        ("https://example.com/" + "x" * 1_981, (), False),
    ],
)
def test_webhooks_go_to_public_hosts_over_tls_and_where_the_operator_says(
    url: str, hosts: tuple[str, ...], is_taken: bool
):
    """A URL of at most 2,000 printable characters without a user or a fragment."""
    if is_taken:
        assert url == str(check_url(url, hosts))
    else:
        with pytest.raises(SettingsError):
            check_url(url, hosts)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("10.1.2.3", False),
        ("127.0.0.1", False),
        ("169.254.1.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("0.0.0.0", False),
        ("100.64.0.1", False),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("ff02::1", False),
        ("ff0e::1", False),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b::a00:1", False),
        ("2002:808:808::1", True),
        ("2002:a00:1::1", False),
        ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", True),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", False),
        ("example.com", False),
    ],
)
def test_an_address_is_public_by_what_it_embeds(address: str, public: bool):
    """Neither private nor special; a host that the system could read as an address is looked at as one."""
    assert public is is_public(address)
    assert (address != "example.com") is looks_like_address(address)
    assert [True, False] == [looks_like_address(each) for each in ("0177.1", "1a.2")]
    assert not is_named("other", 443, ("example.com",))


def joined(player: str, at_ms: int, *, is_joined: bool, revision: int = 1) -> JoinChange:
    return JoinChange(player=player, at_ms=at_ms, is_joined=is_joined, revision=revision)


def test_a_history_says_who_was_on_a_board_when():
    """From the very moment of joining until that of leaving; the oldest that is left tells what was before."""
    history = JoinHistory(
        [
            joined("ada", 20, is_joined=False, revision=2),
            joined("ada", 10, is_joined=True),
            joined("bob", 15, is_joined=False),
            joined("cyd", 9, is_joined=False, revision=5),
            joined("cyd", 9, is_joined=True, revision=4),
        ]
    )
    assert [False, True, True, False, False] == [
        history.was_on_board("ada", at_ms) for at_ms in (9, 10, 19, 20, 21)
    ]
    assert [True, False] == [history.was_on_board("bob", at_ms) for at_ms in (14, 15)]
    assert [False, False] == [history.was_on_board(name, 9) for name in ("cyd", "eve")]
    spans = [(9, 10), (10, 14), (10, 15), (15, 19), (15, 20), (20, 99)]
    assert [True, False, False, False, True, False] == [history.has_changed({"ada"}, *span) for span in spans]
    assert [False, False, True, False, False, False] == [
        history.has_changed({"bob"}, *span) for span in spans
    ]


async def test_statistics_count_what_came_and_what_counts(monkeypatch: pytest.MonkeyPatch):
    """Attempts by the event that received them; promotions less revocations, on each board that changed."""
    added: list[Any] = []

    async def add_counts(_tx: object, counts: dict[str, Any]) -> None:
        added.append({board: tuple(each) for board, each in counts.items()})

    def event(board: str, from_state: State, difference: int) -> Any:
        return SimpleNamespace(board=board, from_state=from_state, difference=difference)

    monkeypatch.setattr("gateway.derived.statistics.add_counts", add_counts)
    statistics: Any = object.__new__(Statistics)
    events = [
        event("b", State.RECEIVED, 0),
        event("b", State.RECEIVED, 1),
        event("b", State.PENDING, 1),
        event("a", State.PROMOTED, -1),
        event("c", State.HELD, 0),
    ]
    await statistics.apply(None, events)
    assert [{"a": (0, -1), "b": (2, 2), "c": (0, 0)}] == added


def test_circles_are_bounded_in_bytes_and_for_each_player():
    """Four of a player, 64 MiB of all, 320 bytes a player in it; what has expired makes room."""
    now = [100.0]
    memory = CircleMemory(10.0, clock=lambda: now[0])
    assert [True] * 4 + [False] == [memory.takes(f"k{number}", "ada", 1) for number in range(5)]
    assert memory.takes("k0", "ada", 10**9)
    room = 64 * MIB // 320 - 4
    assert not memory.takes("big", "bob", room + 1)
    assert memory.takes("big", "bob", room)
    assert not memory.takes("more", "cyd", 1)
    now[0] = 109.9
    assert not memory.takes("k4", "ada", 1)
    now[0] = 110.0
    assert memory.takes("k4", "ada", 1)
    assert memory.takes("k0", "ada", 64 * MIB // 320 - 1)
    assert not memory.takes("more", "cyd", 1)


@pytest.mark.parametrize(
    ("changes", "events", "seconds", "is_over"),
    [
        (10_000, 4_096, 1.0, False),
        (10_001, 0, 0.0, True),
        (0, 4_097, 0.0, True),
        (0, 0, 1.001, True),
    ],
)
def test_a_returning_listener_has_a_budget(
    monkeypatch: pytest.MonkeyPatch, changes: int, events: int, seconds: float, is_over: bool
):
    """Of changes, events and a second of work, charged in parts; exactly used up it is not over."""
    times = iter([0.0, seconds])
    monkeypatch.setattr("gateway.index.feed.catch_up_budget.time.perf_counter", lambda: next(times))
    budget = CatchUpBudget()

    def use() -> None:
        budget.count(changes=changes // 2, events=events // 2)
        budget.count(changes=changes - changes // 2, events=events - events // 2)
        with budget.working():
            pass

    if is_over:
        with pytest.raises(StreamTrimmed):
            use()
    else:
        use()


def a_change(player: str, window: str = "alltime") -> StandingChange:
    return SimpleNamespace(player=player, window=window)  # type: ignore[return-value]


def told_of(player: str, stream_id: str | None = None, kind: EventKind = EventKind.STANDING) -> FeedEvent:
    return FeedEvent(kind, stream_id, a_change(player))


async def test_the_newest_of_each_player_waits_in_its_own_place():
    """Not in that of the one that it replaces: its id covers all before it. Sixty-four are taken at once."""
    newest = NewestEvents()
    events = [told_of(f"p{number}", f"1-{number}") for number in range(65)]
    again = told_of("p0", "1-99")
    other = told_of("p0", "1-100", EventKind.RANK)
    for event in (*events, again, other):
        newest.put(event)
    assert 66 == len(newest)
    assert events[1:] == await newest.take()
    assert [again, other] == await newest.take()
    newest.close()
    assert [] == await newest.take()


async def test_a_listener_that_is_too_slow_reads_the_board_again():
    """At 1,024 that wait the next makes a reset with the newest id; a reset drops what waits."""
    newest = NewestEvents()
    for number in range(1_024):
        newest.put(told_of(f"p{number}", f"1-{number}"))
    newest.put(told_of("p5", "2-0"))
    assert 1_024 == len(newest)
    newest.put(told_of("late"))
    assert [FeedEvent(EventKind.RESET, "2-0")] == await newest.take()
    newest.put(told_of("ada", "3-0"))
    reset = FeedEvent(EventKind.RESET, "3-1")
    newest.put(reset)
    assert [reset] == await newest.take()


def place(order: int) -> BoardPlace:
    return BoardPlace(order, "m")


def line(was: int | None, now: int | None, window: str = "w", player: str = "ada", renamed: int = 0) -> str:
    ends = ["- -" if each is None else f"{each} m" for each in (was, now)]
    return f"{window} {player} {renamed} {ends[0]} {ends[1]}"


@pytest.mark.parametrize(
    ("was", "now", "shift"),
    [
        (1, 2, Shift(0, 0)),
        (1, None, Shift(-1, -1)),
        (None, 1, Shift(1, 1)),
        (None, 9, Shift(0, 1)),
        (9, None, Shift(0, -1)),
        (8, 9, Shift(0, 0)),
        (1, 9, Shift(-1, 0)),
        (9, 1, Shift(1, 0)),
        (1, 4, None),
        (4, 9, None),
        (6, 1, None),
        (1, 6, None),
        (9, 4, None),
        (5, 5, None),
    ],
)
def test_a_move_shifts_a_page_or_leaves_it_or_ends_it(was: int | None, now: int | None, shift: Shift | None):
    """A page of the places 4 to 6: those that pass it shift its ranks, those that come or go the number of all."""
    moves = Moves(MovesBudget())
    moves.note("v1", None)
    moves.note("v2", ["v2", line(was, now)])
    low, high = place(4), place(6)
    assert shift == moves.shift("w", "v1", "v2", low, high)
    assert Shift(0, 0) == moves.shift("other", "v1", "v2", low, high)
    assert Shift(0, 0) == moves.shift("w", "v2", "v2", low, high)
    assert [None, None, None] == [
        moves.shift("w", *each, low, high) for each in (("v2", "v1"), ("v0", "v2"), ("v1", "v3"))
    ]


def test_versions_follow_each_other_or_nothing_is_known_of_those_before():
    """An answer has the newest first; one that leads elsewhere, or that nobody of ours wrote, forgets them all."""
    moves = Moves(MovesBudget())
    moves.note("v1", None)
    moves.note(
        "v3", ["v3", line(None, 1, renamed=1), "v2", "\n".join([line(None, 2), line(None, 3, "x", "bob", 1)])]
    )
    low, high = place(7), place(8)
    assert [Shift(2, 2), Shift(1, 1), Shift(1, 1)] == [
        moves.shift("w", *each, low, high) for each in (("v1", "v3"), ("v1", "v2"), ("v2", "v3"))
    ]
    assert [["bob", "ada"], ["bob"], ["ada"], []] == [
        moves.renamed(*each) for each in (("v1", "v3"), ("v1", "v2"), ("v2", "v3"), ("v3", "v3"))
    ]
    assert 3 == moves.size
    for wrong in (
        [],
        ["v5", line(None, 1)],
        ["v4"],
        ["v4", "nonsense"],
        ["v4", line(None, 1).replace("1 m", "x m")],
    ):
        again = Moves(MovesBudget())
        again.note("v3", None)
        again.note("v4", wrong)
        assert ("v4", 0, None, Shift(0, 0)) == (
            again.newest,
            again.size,
            again.shift("w", "v3", "v4", low, high),
            again.shift("w", "v4", "v4", low, high),
        )


def test_a_board_remembers_256_versions_and_all_boards_so_many_moves():
    """The oldest version goes with its moves and renames; the board that moved longest ago forgets first."""
    budget = MovesBudget(300)
    moves = Moves(budget)
    moves.note("v0", None)
    for number in range(1, 257):
        moves.note(f"v{number}", [f"v{number}", line(None, number, renamed=1)])
    low, high = place(999), place(1000)
    assert (None, Shift(255, 255)) == (
        moves.shift("w", "v0", "v256", low, high),
        moves.shift("w", "v1", "v256", low, high),
    )
    assert (255, 255) == (moves.size, len(moves.renamed("v1", "v256")))
    others = [Moves(budget) for _ in range(2)]
    for other in others:
        other.note("v0", None)
    others[0].note("v1", ["v1", "\n".join(line(None, at) for at in range(45))])
    assert ("v256", 45) == (moves.newest, others[0].size)
    others[1].note("v1", ["v1", line(None, 1)])
    assert ("", 0, 45, 1) == (moves.newest, moves.size, others[0].size, others[1].size)


@pytest.mark.parametrize("policy", [{}, {"ranges": [5]}, {"ranks": ["unique", "dense"]}])
def test_a_page_of_a_rebuild_is_what_each_standing_is_by_itself(policy: dict[str, Any]):
    """Members in their ranges, slots of all, names of those who have one, and each group once."""
    ranking = a_ranking(**policy)
    standings = [
        a_standing("ada", 9, 1, 1, ranking),
        a_standing("bob", 0, 2, 2, ranking),
        a_standing("cyd", None, 3, 3, ranking),
        a_standing("dan", 9, 4, 4, ranking),
    ]
    names = {"ada": "Ada", "bob": "", "cyd": "Cyd", "dan": "Dan"}
    page = StandingPage.of([replace(each, name=names[each.player]) for each in standings])
    key = window_key(ranking, "alltime")
    found = standing_arguments(ranking, "alltime", key, page)
    members: dict[str, list[Any]] = {}
    for each in standings:
        if each.score is not None:
            zset = f"{key}:range:{0 if each.score > 5 else 1}" if "ranges" in policy else str(key)
            members.setdefault(zset, []).extend((each.order, each.member))
    assert members == {str(zset): values for zset, values in found.zsets.items()}
    slots = [part for each in standings for part in (each.player, keys.slot_value(each))]
    assert slots == found.slots
    assert ["ada", "Ada", "cyd", "Cyd", "dan", "Dan"] == found.names
    dense = {(-9, "-9 "), (0, "0 ")} if "ranks" in policy else set()
    assert dense == set(zip(found.groups[::2], found.groups[1::2], strict=True))


class Charged:
    """What was charged, and the limit that has no room, by its place."""

    def __init__(self, refusal: Any = None) -> None:
        self.refusal = refusal
        self.asked: list[Any] = []

    async def charge(self, limits: Sequence[Any], **more: Any) -> Any:
        self.asked.append(([tuple(each) for each in limits], more))
        return self.refusal


@pytest.mark.parametrize("at", [None, 0, 1, 2])
async def test_the_limits_on_openings_are_of_player_address_and_network(at: int | None):
    """In this order, each with its own rate; the one that has no room is named."""
    opening: Any = SimpleNamespace(player_rate="a", address_rate="b", network_rate="c")
    quotas: Any = object.__new__(OpeningQuotas)
    quotas._charges = Charged(None if at is None else SimpleNamespace(at=at, wait_ms=70))
    who = {"player": "ada", "address": "hash", "network": "net"}
    refusal = await quotas.charge("track", opening, **who)
    [(limits, _)] = quotas._charges.asked
    assert [
        (f"limit:{{track}}:openings:{kind}:{name}", rate)
        for (kind, name), rate in zip(who.items(), "abc", strict=True)
    ] == [each[:2] for each in limits]
    named = ("player-openings", "address-openings", "network-openings")
    assert (None if at is None else OpeningRefusal(named[at], "abc"[at], 70)) == refusal  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "kib"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (2048, 2)])
async def test_a_transfer_is_charged_in_whole_kib(size: int, kib: int):
    """At least one; the quota that has no room is told, and of what."""
    limit: Any = object.__new__(TransferLimit)
    limit._charges = Charged(SimpleNamespace(at=1, is_of_kib=True, wait_ms=9))
    quotas = [TransferQuota(name, f"k{name}", "r", "q") for name in "ab"]  # type: ignore[arg-type]
    refusal = await limit.charge(size, *quotas)
    assert [([("ka", "r", "q"), ("kb", "r", "q")], {"kib": kib})] == limit._charges.asked
    assert TransferRefusal(quotas[1], True, 9) == refusal


def test_runs_are_counted_by_the_hour():
    """Since 1970, each hour from its first millisecond on."""
    at = [7_199_999, 7_200_000]
    assert ["opened:1", "opened:2"] == [count_field(RunCount.OPENED, each) for each in at]
    assert "submitted:0" == count_field(RunCount.SUBMITTED, 0)


def row(
    name: str, player: str = "ada", state: State = State.PENDING, reason: Reason = Reason.VERIFIED
) -> Any:
    return SimpleNamespace(submission_id=name, player=player, state=state, reason=reason)


def decision(name: str, to_state: State, reason: Reason = Reason.VERIFIED) -> Any:
    return SimpleNamespace(submission_id=name, to_state=to_state, reason=reason)


SAMPLED = (State.PROMOTED, Reason.SAMPLED)
CONVICTED = (State.REJECTED, Reason.SCORE_MISMATCH)


@pytest.mark.parametrize(
    ("rows", "decisions", "count"),
    [
        ([row("a"), row("b")], [("a", State.HELD), ("b", State.HELD)], 2),
        ([row("a")], [("a", State.HELD), ("a", State.PROMOTED)], 1),
        ([row("a")], [("gone", State.HELD), ("gone", State.HELD), ("a", State.HELD)], 3),
        ([row("a"), row("b")], [("a", *CONVICTED), ("b", *SAMPLED)], 1),
        ([row("a"), row("b", "bob")], [("a", *CONVICTED), ("b", *SAMPLED)], 2),
        ([row("a"), row("b")], [("a", State.REVOKED, Reason.BANNED), ("b", *SAMPLED)], 2),
        ([row("a"), row("b")], [("a", *CONVICTED), ("b", State.PROMOTED)], 2),
        ([row("a"), row("b")], [("b", *SAMPLED), ("a", *CONVICTED)], 2),
        ([row("a"), row("b", state=State.HELD)], [("b", *SAMPLED), ("a", *CONVICTED)], 1),
        ([row("a", state=State.REJECTED), row("b")], [("a", State.PROMOTED), ("b", *SAMPLED)], 2),
        (
            [row("a", state=State.REJECTED), row("b", state=State.HELD)],
            [("a", State.PROMOTED), ("b", *SAMPLED)],
            2,
        ),
        (
            [row("a", state=State.REVOKED, reason=Reason.BANNED), row("b", state=State.HELD)],
            [("a", State.PROMOTED), ("b", *SAMPLED)],
            2,
        ),
        (
            [row("a", state=State.REJECTED), row("b", state=State.HELD)],
            [("b", *SAMPLED), ("a", State.PROMOTED)],
            1,
        ),
    ],
)
def test_decisions_are_stored_at_once_up_to_the_first_that_depends_on_another(
    rows: list[Any], decisions: list[Any], count: int
):
    """On the same submission, or an unverified run of a player whose convictions change with it."""
    facts = Facts({each.submission_id: each for each in rows}, {}, {}, {}, {})
    assert count == facts.count_independent([decision(*each) for each in decisions])


ITEM: Any = SimpleNamespace(board="b", place=("b", 7))
PASSED = PassedBoards().with_passed("b", now_ms=100)


def test_boards_that_are_passed_over_are_looked_for_in_rounds():
    """For an hour since the first, each once, at most a thousand; a round takes only what the last one passed."""
    assert PassedBoards(("b",), None, 100) == PASSED == PASSED.with_passed("b", now_ms=500)
    assert PassedBoards(("b", "c"), None, 100) == PASSED.with_passed("c", now_ms=500)
    assert (True, 3_600_100) == (PASSED.is_waiting, PASSED.until_ms)
    assert [True, False] == [PASSED.may_pass("c", now_ms=at) for at in (3_600_099, 3_600_100)]
    full = PassedBoards(tuple(f"b{number}" for number in range(1_000)), None, 0)
    assert [True, False, True] == [
        each.may_pass(name, now_ms=0)
        for each, name in ((full, "b5"), (full, "x"), (PassedBoards(full.boards[1:], None, 0), "x"))
    ]
    assert PassedBoards().may_pass("x", now_ms=10**15)
    second = PASSED.next_round()
    assert PassedBoards((), ("b",), 100) == second
    assert (("b", -1), True, False) == (
        second.first_place,
        second.is_waiting,
        second.behind_board().is_waiting,
    )
    other: Any = SimpleNamespace(board="c", place=("c", 1))
    assert [[ITEM, other], [ITEM]] == [each.taken([ITEM, other]) for each in (PASSED, second)]
    behind = [
        each.behind(ITEM) for each in (PassedBoards(), PASSED, second, second.with_passed("b", now_ms=1))
    ]
    assert [("b", 7), ("b", 2**63 - 1), ("b", 7), None] == behind
    assert PassedBoards(("b",), (), 100) == PASSED.behind_board()


def test_what_was_passed_over_is_kept_in_the_preview_of_a_batch():
    """And read back as it was; a batch that passed over nothing has none."""
    preview = {"count": 3}
    for passed in (PASSED, PASSED.next_round(), PASSED.with_passed("c", now_ms=1)):
        stored = orjson.loads(orjson.dumps(passed.stored_in(preview)))
        assert passed == PassedBoards.of(SimpleNamespace(preview=stored))  # type: ignore[arg-type]
        assert preview == without_passed(stored) == PassedBoards().stored_in(stored)
    assert PassedBoards() == PassedBoards.of(SimpleNamespace(preview=preview))  # type: ignore[arg-type]
