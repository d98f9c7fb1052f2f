"""What each aspect of the comparison calls a difference, row by row, without a server.

`test_comparison.py` forges a real index; here every row at a boundary is beside the one that is right.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.index import keys
from gateway.index.board_index import CommittedRun
from gateway.index.inspection import KeyFacts
from gateway.index.ranges import window_key
from gateway.ledger.index_pages import SubmissionSummary
from gateway.shared_records import Membership, Standing, StoredBaseline
from gateway.steward.index.comparison import aspects_of, aspects_when_cold
from gateway.steward.index.comparison.difference import (
    BoardView,
    Difference,
    Kind,
    confirm,
    printable,
    sequence_of,
    text_of,
)
from gateway.steward.index.comparison.hashes import Baselines, Names
from gateway.steward.index.comparison.keyspace import Keyspace
from gateway.steward.index.comparison.segments import GroupMember, GroupMembers, GroupSlots, Memberships
from gateway.steward.index.comparison.standings import (
    Member,
    Members,
    Slots,
    StandingSlot,
    players_by_window,
    standings_at,
)
from gateway.steward.index.comparison.submissions import Pending, Settled
from gateway.steward.index.comparison.tie_groups import TieGroup, TieGroups
from gateway.steward.index.comparison.totals import Totals
from policies.ranking import Ranking
from policies.vocabulary import State
from policies.windows import FOREVER_MS
from tests.support.policies import a_ranking
from tests.support.standings import a_standing

NOW_MS = 1_700_000_000_000
AHEAD_MS = 300_000
"""Five minutes by which another process's clock may be ahead."""
STEM = keys.stem("b")
SEGMENTED: dict[str, Any] = {"segments": ["country"]}
WINDOWS = {"alltime": None, "daily:1": NOW_MS + 5}
"""A window that does not end, and one that does."""


class Redis:
    """What a test says is in Redis, by key; and what was done to it."""

    def __init__(self, **content: Mapping[Any, Any]) -> None:
        self.content = {name.replace("__", ":"): values for name, values in content.items()}
        self.done: list[tuple[Any, ...]] = []
        self.slices: dict[str, list[list[bytes]]] = {}
        self.tops: dict[str, list[bytes]] = {}

    def _of(self, key: str, names: Iterable[bytes]) -> list[Any]:
        return [self.content.get(key.removeprefix(STEM), {}).get(name) for name in names]

    async def values(self, key: str, names: Sequence[bytes]) -> list[bytes | None]:
        return self._of(key, names)

    async def scores(self, key: str, names: Sequence[bytes | str]) -> list[float | None]:
        return self._of(key, [name.encode() if isinstance(name, str) else name for name in names])

    async def facts(self, names: Sequence[bytes]) -> list[KeyFacts]:
        facts = self.content.get("facts", {})
        return [KeyFacts(name, *facts[name]) for name in names if name in facts]

    async def open_runs(self, key: bytes) -> tuple[int, float]:
        return self.content["runs"][key]  # type: ignore[return-value]

    async def fields(self, key: str, _count: int) -> AsyncGenerator[list[bytes], None]:
        for part in self.slices.get(key, ()):
            yield part

    async def first(self, key: str, count: int) -> list[bytes]:
        return self.tops[key][:count]

    def __getattr__(self, name: str) -> Any:
        async def note(*given: Any, **named: Any) -> None:
            self.done.append((name, *given, *named.items()))

        return note


class Ledger:
    """Answers every read with what a test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def read(self, _operation: object) -> Any:
        return self.answer


def a_view(
    redis: Redis | None = None, stored: Any = None, ranking: Ranking | None = None, **of_index: Any
) -> Any:
    """A board's two sides. Players whose names begin with x belong to another shard."""
    ranking = ranking or a_ranking()
    index = SimpleNamespace(
        board="b",
        ranking=ranking,
        client=None,
        holds=lambda player: not player.startswith("x"),
        window_key=lambda window: window_key(ranking, window),
        **of_index,
    )
    index.shards = of_index.get("shards", (index,))
    return BoardView(Ledger(stored), index, redis or Redis(), ranking.policy, lambda: NOW_MS)  # type: ignore[arg-type]


def windows_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def windows(_self: object) -> dict[str, int | None]:
        return dict(WINDOWS)

    monkeypatch.setattr(BoardView, "windows", windows)


ADA = a_standing("ada", 70, seq=5)
GONE = a_standing("ada", None, seq=5)
RIGHT = keys.slot_value(ADA).encode()
SLOT = StandingSlot("alltime", b"ada")


def test_what_the_values_of_a_board_look_like():
    """The text of a slot, of one below the ranks that are kept, and of one that counts no more."""
    assert ("5 " + ADA.member + " s5", "5 -", "5  s5") == (
        keys.slot_value(ADA),
        keys.slot_below(ADA),
        keys.slot_value(GONE),
    )
    assert [ADA.member, "ada", "", ""] == [
        keys.slot_member(text, "ada") for text in (RIGHT.decode(), "5 = s5", "5 - s5", "5  s5")
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "score", "kind"),
    [
        (None, None, None, None),
        (None, b"5 m s5", None, Kind.FORGED_STANDING),
        (ADA, None, None, Kind.MISSING_STANDING),
        (ADA, None, -70.0, Kind.MISSING_STANDING),
        (ADA, b"4 m s5", -70.0, Kind.STALE_STANDING),
        (ADA, b"5 m s5", -70.0, Kind.FORGED_STANDING),
        (ADA, b"6 m s5", -70.0, Kind.FORGED_STANDING),
        (ADA, b"nonsense", -70.0, Kind.FORGED_STANDING),
        (ADA, RIGHT, -70.0, None),
        (ADA, RIGHT, None, Kind.MISSING_STANDING),
        (ADA, RIGHT, -71.0, Kind.FORGED_STANDING),
        (ADA, RIGHT, 70.0, Kind.FORGED_STANDING),
        (GONE, keys.slot_value(GONE).encode(), None, None),
        (GONE, keys.slot_value(GONE).encode(), -70.0, None),
        (GONE, b"4 m s5", None, Kind.STALE_STANDING),
        (GONE, RIGHT, None, Kind.FORGED_STANDING),
    ],
)
async def test_a_slot_is_right_stale_missing_or_forged(
    expected: Standing | None, actual: bytes | None, score: float | None, kind: Kind | None
):
    """By its text and by the score of its member; one that is older than the ledger's is stale."""
    redis = Redis(alltime__members={b"ada": actual}, alltime={ADA.member.encode(): score})
    view = a_view(redis, [expected] if expected else [])
    found = await Slots(view).compare([SLOT])
    counts = expected is not None and expected.score is not None
    at = "" if score is None or not counts else f" at {score:.0f}"
    row = Difference(
        "b",
        kind or Kind.FORGED_KEY,
        window="alltime",
        player="ada",
        ledger="" if expected is None else f"{keys.slot_value(expected)}{' at -70' if counts else ''}",
        index=f"{(actual or b'').decode()}{at}",
        subject=SLOT,
    )
    assert ([row] if kind else []) == found


async def test_the_ledgers_standings_are_those_that_live_and_belong_here():
    """A window that ends now is over; a player of another shard is left to it."""
    last, over, other = (
        a_standing(name, 1, expires_at_ms=ends)
        for name, ends in (("last", NOW_MS + 1), ("over", NOW_MS), ("xeno", NOW_MS + 1))
    )
    view = a_view(stored=[last, over, other])
    assert {StandingSlot("alltime", b"last"): last} == await standings_at(view, [SLOT])


def test_the_players_of_slots_are_asked_for_once():
    """Window by window, in the order in which they came."""
    slots = [StandingSlot(*each) for each in (("w", b"b"), ("v", b"a"), ("w", b"a"), ("w", b"b"))]
    assert {"w": [b"b", b"a"], "v": [b"a"]} == players_by_window(slots)


@pytest.mark.parametrize(
    ("expected", "actual", "done"),
    [
        (ADA, None, ["restore"]),
        (ADA, b"4 m s5", ["restore"]),
        (ADA, b"5 m s5", ["drop", "restore"]),
        (ADA, b"nonsense", ["drop", "restore"]),
        (None, b"4 m s5", ["drop"]),
        (None, None, []),
    ],
)
async def test_a_forged_slot_is_emptied_before_the_ledgers_is_shown(
    expected: Standing | None, actual: bytes | None, done: list[str]
):
    """What is older than the ledger's is replaced by itself."""
    redis = Redis(alltime__members={b"ada": actual})
    view = a_view(redis, [expected] if expected else [], restore=redis.restore)
    await Slots(view).repair([Difference("b", Kind.FORGED_STANDING, subject=SLOT)])
    calls = {
        "drop": ("drop", f"{STEM}alltime:members", {b"ada": actual}),
        "restore": ("restore", "ada", [expected], []),
    }
    assert [calls[name] for name in done] == redis.done


def of_heads(last: tuple[int, str] | None) -> Any:
    async def of(_self: object, _window: str) -> Any:
        return SimpleNamespace(last=last)

    return of


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (None, None),
        ((ADA.order - 1, ADA.member), None),
        ((ADA.order, ADA.member), Kind.FORGED_STANDING),
        ((ADA.order + 1, ADA.member), Kind.FORGED_STANDING),
    ],
)
async def test_a_slot_may_say_that_it_is_below_only_behind_the_last_of_the_head(
    monkeypatch: pytest.MonkeyPatch, last: tuple[int, str] | None, kind: Kind | None
):
    """On a board that keeps heads; the place of the last is not behind it."""
    monkeypatch.setattr("gateway.steward.index.comparison.standings.Heads.of", of_heads(last))
    view = a_view(Redis(alltime__members={b"ada": b"5 -"}), [ADA], a_ranking(exact_ranks=100))
    found = await Slots(view).compare([SLOT])
    assert ([kind] if kind else []) == [each.kind for each in found]


@pytest.mark.parametrize(
    ("expected", "actual", "kind"),
    [
        (ADA, b"4 -", Kind.STALE_STANDING),
        (ADA, b"6 -", Kind.FORGED_STANDING),
        (GONE, b"5 -", Kind.FORGED_STANDING),
        (ADA, RIGHT, Kind.MISSING_STANDING),
    ],
)
async def test_only_the_ledgers_own_version_can_be_below(
    monkeypatch: pytest.MonkeyPatch, expected: Standing, actual: bytes, kind: Kind
):
    """Not an older one, none of a player of whom nothing counts, and no slot that names a member."""
    monkeypatch.setattr("gateway.steward.index.comparison.standings.Heads.of", of_heads(None))
    view = a_view(Redis(alltime__members={b"ada": actual}), [expected], a_ranking(exact_ranks=100))
    assert [kind] == [each.kind for each in await Slots(view).compare([SLOT])]


async def walked(subjects: Any) -> list[Any]:
    return [list(part) async for part in subjects]


@pytest.mark.parametrize(("rank", "players"), [(None, [b"ada", b"*"]), (100, [b"ada"])])
async def test_the_count_of_who_is_below_is_no_slot(
    monkeypatch: pytest.MonkeyPatch, rank: int | None, players: list[bytes]
):
    """On a board without heads a slot of that name is somebody's forgery."""
    redis, ranking = Redis(), a_ranking(exact_ranks=rank)
    windows_of(monkeypatch)
    redis.slices = {f"{STEM}{window}:members": [[b"ada"], [b"*"]] for window in WINDOWS}
    slots = Slots(a_view(redis, ranking=ranking))
    assert [
        [StandingSlot(window, player) for player in part if player in players]
        for window in WINDOWS
        for part in ([b"ada"], [b"*"])
    ] == await walked(slots.walks()[1](10))


async def test_the_first_hundred_of_each_window_are_looked_at_across_its_ranges(
    monkeypatch: pytest.MonkeyPatch,
):
    """The best range first; where it has a hundred, no other is read."""
    ranking, redis = a_ranking(ranges=[50]), Redis()
    windows_of(monkeypatch)
    [(full, none), (some, rest)] = [window_key(ranking, name).zsets for name in WINDOWS]  # type: ignore[attr-defined]
    redis.tops = {full: [b"m"] * 120, none: [b"n"], some: [b"s"] * 60, rest: [b"r"] * 60}
    [top] = await walked(Members(a_view(redis, ranking=ranking)).walks()[1](10))
    assert [(full, b"m")] * 100 + [(some, b"s")] * 60 + [(rest, b"r")] * 40 == [
        (each.zset, each.member) for each in top
    ]
    assert [("alltime", 100), ("daily:1", 100)] == [
        (window, sum(each.window == window for each in top)) for window in WINDOWS
    ]


@pytest.mark.parametrize("rank", [None, 100])
async def test_nobody_is_below_without_heads_nor_with_a_member(
    monkeypatch: pytest.MonkeyPatch, rank: int | None
):
    """A board that keeps every rank has nobody below; and whoever has a member is in the head."""
    monkeypatch.setattr("gateway.steward.index.comparison.standings.Heads.of", of_heads(None))
    scores = {} if rank is None else {ADA.member.encode(): float(ADA.order)}
    redis = Redis(alltime__members={b"ada": b"5 -"}, alltime=scores)
    view = a_view(redis, [ADA], a_ranking(exact_ranks=rank))
    assert [Kind.FORGED_STANDING] == [each.kind for each in await Slots(view).compare([SLOT])]


def a_member(member: bytes, zset: str = f"{STEM}alltime") -> Member:
    return Member("alltime", zset, member)


OLD = b"0" * 22 + b":ada"


@pytest.mark.parametrize(
    ("expected", "slot", "member", "is_found"),
    [
        (ADA, RIGHT, ADA.member.encode(), False),
        (ADA, None, ADA.member.encode(), False),
        (ADA, RIGHT, OLD, True),
        (ADA, None, OLD, True),
        (ADA, b"4 " + OLD + b" s4", OLD, False),
        (ADA, b"5 " + OLD + b" s4", OLD, True),
        (ADA, b"4 " + OLD + b"x s4", OLD, True),
        (ADA, b"4 = s4", OLD, True),
        (ADA, b"4 = s4", b"ada", False),
        (GONE, b"4 " + OLD + b" s4", OLD, False),
        (GONE, keys.slot_value(GONE).encode(), OLD, True),
        (GONE, keys.slot_value(GONE).encode(), b"", True),
        (None, RIGHT, ADA.member.encode(), True),
    ],
)
async def test_a_member_is_the_ledgers_or_one_that_an_older_slot_still_names(
    expected: Standing | None, slot: bytes | None, member: bytes, is_found: bool
):
    """Anything else is forged, with what the ledger has instead."""
    player = member.rpartition(b":")[2]
    redis = Redis(alltime={member: -70.0}, alltime__members={player: slot})
    subject = a_member(member)
    stored = [] if expected is None or not player else [expected]
    row = Difference(
        "b",
        Kind.FORGED_MEMBER,
        window="alltime",
        player=player.decode(),
        ledger=keys.slot_value(expected) if expected and player else "",
        index=f"{member.decode()} at -70",
        subject=subject,
    )
    assert ([row] if is_found else []) == await Members(a_view(redis, stored)).compare([subject])


async def test_a_member_belongs_in_the_range_of_its_score_and_may_have_gone():
    """In another range it is forged though the ledger has it; one that went since is no difference."""
    ranking = a_ranking(ranges=[50])
    ada = a_standing("ada", 70, seq=5, ranking=ranking)
    near, far = window_key(ranking, "alltime").zsets  # type: ignore[attr-defined]
    content = {key.removeprefix(STEM): {ada.member.encode(): float(ada.order)} for key in (near, far)}
    redis = Redis(alltime__members={b"ada": keys.slot_value(ada).encode()})
    redis.content |= content
    view = a_view(redis, [ada], ranking)
    subjects = [a_member(ada.member.encode(), zset) for zset in (near, far)]
    found = await Members(view).compare([*subjects, a_member(b"gone", near)])
    assert [subjects[1]] == [each.subject for each in found]


async def test_members_are_removed_with_the_slot_that_was_read_with_them():
    """Those of one ZSET together, so that each goes only while its player's slot is the same."""
    redis = Redis(alltime__members={b"ada": RIGHT})
    subjects = [a_member(OLD), a_member(b"m:eve"), Member("daily:1", f"{STEM}daily:1", b"m:ada")]
    await Members(a_view(redis)).repair(
        [Difference("b", Kind.FORGED_MEMBER, subject=each) for each in subjects]
    )
    assert [
        ("prune", "alltime", f"{STEM}alltime", [(OLD, b"ada", RIGHT), (b"m:eve", b"eve", b"")]),
        ("prune", "daily:1", f"{STEM}daily:1", [(b"m:ada", b"ada", b"")]),
    ] == redis.done


def summary(state: State, board: str = "b", at_ms: int = 9) -> dict[str, SubmissionSummary]:
    return {"s1": SubmissionSummary(board, "ada", state, at_ms, has_counted=False)}


@pytest.mark.parametrize(
    ("stored", "actual", "kind"),
    [
        ({}, None, None),
        ({}, 9.0, Kind.FORGED_PENDING),
        (summary(State.PENDING), 9.0, None),
        (summary(State.PENDING), None, Kind.MISSING_PENDING),
        (summary(State.PENDING), 8.0, Kind.FORGED_PENDING),
        (summary(State.HELD), None, None),
        (summary(State.HELD), 9.0, Kind.STALE_PENDING),
        (summary(State.PROMOTED), 9.0, Kind.STALE_PENDING),
        (summary(State.PENDING, "other"), 9.0, Kind.FORGED_PENDING),
        (summary(State.PENDING, "other"), None, None),
    ],
)
async def test_the_pending_set_has_what_waits_with_the_time_it_came(
    stored: dict[str, SubmissionSummary], actual: float | None, kind: Kind | None
):
    """And nothing else: what is decided is stale, what is unknown or of another time is forged."""
    redis = Redis(pending={b"s1": actual} if actual is not None else {})
    found = await Pending(a_view(redis, stored)).compare([b"s1"])
    known = stored.get("s1") if stored and stored["s1"].board == "b" else None
    row = Difference(
        "b",
        kind or Kind.FORGED_KEY,
        player="ada" if known else "",
        submission="s1",
        ledger=f"{known.state.value} 9" if known else "",
        index="" if actual is None else f"pending {actual:.0f}",
        subject=b"s1",
    )
    assert ([row] if kind else []) == found


@pytest.mark.parametrize("state", [State.PENDING, State.HELD])
async def test_pending_is_repaired_from_the_ledger(state: State):
    """A wrong one goes; what waits comes back, and is taken out of the settled set that would keep it out."""
    redis = Redis()
    view = a_view(redis, summary(state), close_runs=redis.close_runs)
    await Pending(view).repair([Difference("b", Kind.MISSING_PENDING, subject=b"s1")])
    restored = [
        ("remove", f"{STEM}settled", [b"s1"]),
        ("close_runs", [CommittedRun("s1", "ada", 9)]),
    ]
    removed = ("remove", f"{STEM}pending", [b"s1"])
    assert [removed, *(restored if state is State.PENDING else [])] == redis.done


@pytest.mark.parametrize(
    ("stored", "at_ms", "is_found"),
    [
        (summary(State.PROMOTED), NOW_MS, False),
        (summary(State.PROMOTED), NOW_MS + AHEAD_MS, False),
        (summary(State.PROMOTED), NOW_MS + AHEAD_MS + 1, True),
        (summary(State.HELD), NOW_MS, False),
        (summary(State.PENDING), NOW_MS, True),
        (summary(State.PROMOTED, "other"), NOW_MS, True),
        ({}, NOW_MS, True),
        (summary(State.PENDING), None, False),
    ],
)
async def test_the_settled_set_has_only_what_was_decided_by_now(
    stored: dict[str, SubmissionSummary], at_ms: int | None, is_found: bool
):
    """Five minutes ahead is another clock; later is forged, and so is what is undecided or another board's."""
    redis = Redis(settled={b"s1": at_ms})
    found = await Settled(a_view(redis, stored)).compare([b"s1"])
    known = stored.get("s1") if stored and stored["s1"].board == "b" else None
    row = Difference(
        "b",
        Kind.FORGED_SETTLED,
        player="ada" if known else "",
        submission="s1",
        ledger=known.state.value if known else "",
        index=f"settled {at_ms}",
        subject=b"s1",
    )
    assert ([row] if is_found else []) == found


BASELINE = StoredBaseline("b", "ada", 3, 1.5, 0.5, seq=5)
BASELINE_TEXT = b"5 3 1.5 0.5   "


@pytest.mark.parametrize(
    ("stored", "actual", "kind", "done"),
    [
        (None, None, None, []),
        (None, b"5 3 1.5 0.5   ", Kind.FORGED_BASELINE, ["drop"]),
        (BASELINE, BASELINE_TEXT, None, ["drop", "restore"]),
        (BASELINE, None, Kind.MISSING_BASELINE, ["restore"]),
        (BASELINE, b"4 2 1.5 0.5   ", Kind.STALE_BASELINE, ["restore"]),
        (BASELINE, b"5 2 1.5 0.5   ", Kind.FORGED_BASELINE, ["drop", "restore"]),
        (BASELINE, b"6 2 1.5 0.5   ", Kind.FORGED_BASELINE, ["drop", "restore"]),
        (BASELINE, b"old", Kind.FORGED_BASELINE, ["drop", "restore"]),
    ],
)
async def test_a_baseline_is_right_stale_missing_or_forged(
    stored: StoredBaseline | None, actual: bytes | None, kind: Kind | None, done: list[str]
):
    """And repaired so: what is older is replaced by itself, anything else is taken out first."""
    redis = Redis(baselines={b"ada": actual})
    view = a_view(redis, [stored] if stored else [], restore=redis.restore)
    baselines = Baselines(view)
    row = Difference(
        "b",
        kind or Kind.FORGED_KEY,
        player="ada",
        ledger=BASELINE_TEXT.decode() if stored else "",
        index=(actual or b"").decode(),
        subject=b"ada",
    )
    assert ([row] if kind else []) == await baselines.compare([b"ada"])
    await baselines.repair([row])
    calls = {
        "drop": ("drop", f"{STEM}baselines", {b"ada": actual}),
        "restore": ("restore", "", [], [stored]),
    }
    expected = [calls[name] for name in done]
    assert expected == [call for call in redis.done if call != ("drop", f"{STEM}baselines", {})]


@pytest.mark.parametrize(
    ("actual", "ledger", "kind"),
    [
        (b"Ada", {"ada": "Ada"}, None),
        (None, {}, None),
        (b"", {}, None),
        (b"", {"ada": "Ada"}, Kind.WRONG_NAME),
        (None, {"ada": "Ada"}, Kind.MISSING_NAME),
        (b"Eve", {"ada": "Ada"}, Kind.WRONG_NAME),
        (b"Ada", {}, Kind.WRONG_NAME),
    ],
)
async def test_names_are_the_ledgers(actual: bytes | None, ledger: dict[str, str], kind: Kind | None):
    """Missing, another's, or nobody's; the repair sets what there is and drops what is nobody's."""
    redis = Redis(names={b"ada": actual})
    names = Names(a_view(redis, ledger))
    row = Difference(
        "b",
        kind or Kind.FORGED_KEY,
        player="ada",
        ledger=ledger.get("ada", ""),
        index=(actual or b"").decode(),
        subject=b"ada",
    )
    assert ([row] if kind else []) == await names.compare([b"ada"])
    await names.repair([row])
    stray = {b"ada": actual} if actual is not None and not ledger else {}
    assert [("drop", f"{STEM}names", stray), ("put", f"{STEM}names", ledger)] == redis.done


class Asked:
    """Notes for what the ledger is asked, and finds nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
        self.given: list[Any] = []

        def ask(*given: Any, **named: Any) -> dict[str, Any]:
            self.given.append((*given, *named.items()))
            return {}

        monkeypatch.setattr(f"gateway.steward.index.comparison.{path}", ask)

    async def read(self, operation: Any) -> Any:
        return operation


RAW = [b"ada", b"\xff", b"xeno", b"", b"*"]


@pytest.mark.parametrize(
    ("aspect", "path", "subjects", "given"),
    [
        (Names, "hashes.index_pages.names_of", RAW, (["ada", "*"],)),
        (Baselines, "hashes.index_pages.baselines_for", RAW, ("b", ["ada", "xeno", ""])),
        (Pending, "submissions.index_pages.summaries_of", RAW, (["ada", "xeno", "", "*"],)),
        (Settled, "submissions.index_pages.summaries_of", RAW, (["ada", "xeno", "", "*"],)),
        (Memberships, "segments.stored.memberships_of", RAW, ("b", ["ada", "xeno", "", "*"])),
        (
            Slots,
            "standings.index_pages.standings_of",
            [StandingSlot("w", each) for each in RAW],
            ("b", {"w": ["ada", "xeno", "", "*"]}),
        ),
    ],
)
async def test_the_ledger_is_asked_for_what_can_be_in_it(
    monkeypatch: pytest.MonkeyPatch, aspect: Any, path: str, subjects: list[Any], given: tuple[Any, ...]
):
    """Bytes that are no text are in no ledger; the population of a board is kept under no name."""
    ledger = Asked(monkeypatch, path)
    view = a_view(Redis(), ranking=a_ranking(**(SEGMENTED if aspect is Memberships else {})))
    object.__setattr__(view, "ledger", ledger)
    assert [] == await aspect(view).compare(subjects)
    assert [given] == ledger.given


async def test_what_is_called_settled_and_what_is_no_groups_member_is_taken_out():
    """Each from its own set."""
    redis = Redis()
    found = [Difference("b", Kind.FORGED_SETTLED, subject=each) for each in (b"s1", b"s2")]
    await Settled(a_view(redis)).repair(found)
    members = [GroupMember(f"k{each}", b"m") for each in "ab"]
    await GroupMembers(a_view(redis, ranking=a_ranking(**SEGMENTED))).repair(
        [Difference("b", Kind.FORGED_GROUP, subject=each) for each in members]
    )
    assert [
        ("remove", f"{STEM}settled", [b"s1", b"s2"]),
        ("remove", "ka", [b"m"]),
        ("remove", "kb", [b"m"]),
    ] == redis.done


GROUPED = {"ada": Membership("ada", 3, {"country": "ch", "gone": "x"})}


def both(standings: list[Standing], memberships: Mapping[str, Membership]) -> Any:
    """A ledger of standings and of memberships: whichever is asked for."""

    class Both(Ledger):
        async def read(self, operation: Any) -> Any:
            return memberships if "member" in operation.__qualname__ else standings

    return Both(None)


def grouped_view(redis: Redis, standings: list[Standing], memberships: Mapping[str, Membership]) -> Any:
    view = a_view(redis, ranking=a_ranking(**SEGMENTED))
    object.__setattr__(view, "ledger", both(standings, memberships))
    return view


IN_GROUP = f"{ADA.member} country:ch".encode()


@pytest.mark.parametrize(
    ("standings", "memberships", "actual", "in_group", "kind"),
    [
        ([ADA], GROUPED, IN_GROUP, -70.0, None),
        ([ADA], GROUPED, IN_GROUP, None, Kind.MISSING_GROUP),
        ([ADA], GROUPED, None, -70.0, Kind.MISSING_GROUP),
        ([ADA], GROUPED, IN_GROUP + b"x", -70.0, Kind.MISSING_GROUP),
        ([ADA], {}, IN_GROUP, -70.0, Kind.FORGED_GROUP),
        ([ADA], {}, None, None, None),
        ([GONE], GROUPED, None, None, None),
        ([GONE], GROUPED, IN_GROUP, -70.0, Kind.FORGED_GROUP),
        ([ADA], {"ada": Membership("ada", 3, {"gone": "x"})}, None, None, None),
    ],
)
async def test_a_players_groups_in_a_window_follow_standing_and_membership(
    standings: list[Standing],
    memberships: Mapping[str, Membership],
    actual: bytes | None,
    in_group: float | None,
    kind: Kind | None,
):
    """The text beside the player, and the member on the board of each group; undeclared segments have none."""
    redis = Redis(
        alltime__segmented={b"ada": actual}, segment__country__ch__alltime={ADA.member.encode(): in_group}
    )
    found = await GroupSlots(grouped_view(redis, standings, memberships)).compare([SLOT])
    counts = kind is Kind.MISSING_GROUP
    row = Difference(
        "b",
        kind or Kind.FORGED_KEY,
        window="alltime",
        player="ada",
        ledger=IN_GROUP.decode() if counts else "",
        index=(actual or b"").decode(),
        subject=SLOT,
    )
    assert ([row] if kind else []) == found


@pytest.mark.parametrize(
    ("key", "is_found"),
    [
        ("segment:country:ch:alltime", False),
        ("segment:country:fr:alltime", True),
        ("segment:gone:x:alltime", True),
        ("segment:country:ch:daily:1", True),
        ("segment:country", True),
        ("segment:country:ch", True),
    ],
)
async def test_a_member_is_on_its_groups_board_alone(key: str, is_found: bool):
    """Not on another group's, on that of a segment which the policy lacks, nor in another window."""
    member = ADA.member.encode()
    redis = Redis()
    redis.content[key] = {member: -70.0, b"m:eve": -1.0}
    view = grouped_view(redis, [ADA], GROUPED)
    subjects = [GroupMember(STEM + key, each) for each in (member, b"m:eve", b"m:gone")]
    found = await GroupMembers(view).compare(subjects)
    window = (key.split(":", 3) + ["", "", ""])[3]
    eve = Difference(
        "b",
        Kind.FORGED_GROUP,
        window=window,
        player="eve",
        key=STEM + key,
        index="m:eve",
        subject=subjects[1],
    )
    ada = Difference(
        "b",
        Kind.FORGED_GROUP,
        window=window,
        player="ada",
        key=STEM + key,
        index=ADA.member,
        subject=subjects[0],
    )
    assert ([ada, eve] if is_found else [eve]) == found


async def test_a_membership_is_shown_with_its_version_and_declared_groups():
    """In the order of the segments' names; nobody has one without a row."""
    redis = Redis(memberships={b"ada": b"3 country:ch", b"bob": b"2 country:ch"})
    found = await Memberships(grouped_view(redis, [], GROUPED)).compare([b"ada", b"bob"])
    row = Difference(
        "b", Kind.WRONG_MEMBERSHIP, player="bob", index="2 country:ch", subject=b"bob", ledger=""
    )
    assert [row] == found


def keyspace(
    monkeypatch: pytest.MonkeyPatch, redis: Redis | None = None, *, is_cold: bool = False, **policy: Any
) -> tuple[Keyspace, Any]:
    async def state() -> Any:
        return SimpleNamespace(is_cold=is_cold)

    windows_of(monkeypatch)
    view = a_view(redis, ranking=a_ranking(**policy), residency=SimpleNamespace(state=state))
    return Keyspace(view, is_cold=is_cold), view


ALWAYS = {
    f"{STEM}pending": ("zset", None),
    f"{STEM}settled": ("zset", None),
    f"{STEM}names": ("hash", None),
    f"{STEM}baselines": ("hash", None),
    keys.changes("b"): ("stream", None),
    f"{STEM}whole": ("string", None),
    f"{STEM}version": ("string", None),
    f"{STEM}cold": ("hash", None),
}


def of_windows(suffix: str, kind: str) -> dict[str, tuple[str, int | None]]:
    return {f"{STEM}{window}{suffix}": (kind, ends) for window, ends in WINDOWS.items()}


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ({}, {}),
        ({"exact_ranks": 100}, of_windows(":sketch", "hash")),
        (SEGMENTED, {f"{STEM}memberships": ("hash", None)} | of_windows(":segmented", "hash")),
        (
            {"tie_break": "fields", "tie_fields": [{"stat": "k"}], "ranks": ["dense"]},
            of_windows(":groups", "zset"),
        ),
    ],
    ids=["plain", "heads", "segments", "dense ranks"],
)
async def test_the_keys_of_a_board_have_a_type_and_an_end(
    monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any], more: dict[str, Any]
):
    """Those of windows end with them; every other stays."""
    board, _ = keyspace(monkeypatch, **policy)
    of_all = of_windows("", "zset") | of_windows(":members", "hash")
    assert ALWAYS | of_all | more == await board._expected()
    cold, _ = keyspace(monkeypatch, is_cold=True, **policy)
    lasting = {key: value for key, value in more.items() if value[1] is None and "alltime" not in key}
    assert ALWAYS | lasting == await cold._expected()


PASSING = [
    ("limit:player:ada", "string"),
    ("runs:ada", "hash"),
    ("refused:player:ada", "string"),
    ("building", "string"),
    ("built:9:alltime", "zset"),
    ("circle:ada:1:alltime", "hash"),
    ("used", "string"),
    ("moves", "list"),
]


@pytest.mark.parametrize(("name", "kind"), PASSING)
@pytest.mark.parametrize("ends_ms", [None, NOW_MS, NOW_MS + 1])
async def test_what_goes_by_itself_is_left(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str, ends_ms: int | None
):
    """Limits, counts and rebuilds of their own type, if they end; past their end all keys are."""
    key = f"{STEM}{name}".encode()
    other = kind if name.startswith(("built", "circle")) else "stream"
    found = []
    for each in (kind, other):
        board, _ = keyspace(monkeypatch, Redis(facts={key: (each, ends_ms)}))
        found += [(each.kind, each.index) for each in await board.compare([key])]
    forged = (Kind.FORGED_KEY, kind), (Kind.FORGED_KEY, other)
    assert [
        *(forged if ends_ms is None else forged[1:] if kind != other and ends_ms > NOW_MS else ())
    ] == found


@pytest.mark.parametrize(
    ("name", "facts", "found"),
    [
        ("alltime", ("zset", None), None),
        ("alltime", ("zset", NOW_MS + 9), (Kind.WRONG_EXPIRY, "for ever", f"until {NOW_MS + 9}")),
        ("alltime", ("string", None), (Kind.FORGED_KEY, "zset", "string")),
        ("daily:1", ("zset", NOW_MS + 5), None),
        ("daily:1", ("zset", None), (Kind.WRONG_EXPIRY, f"until {NOW_MS + 5}", "for ever")),
        ("daily:1", ("zset", NOW_MS + 4), (Kind.WRONG_EXPIRY, f"until {NOW_MS + 5}", f"until {NOW_MS + 4}")),
        ("segment:country:ch:daily:1", ("zset", NOW_MS + 5), None),
        ("segment:country:ch:daily:2", ("zset", NOW_MS + 5), (Kind.FORGED_KEY, "", "zset")),
        ("segment:gone:ch:daily:1", ("zset", NOW_MS + 5), (Kind.FORGED_KEY, "", "zset")),
        ("other:country:ch:daily:1", ("zset", NOW_MS + 5), (Kind.FORGED_KEY, "", "zset")),
        ("nonsense", ("string", NOW_MS + 5), (Kind.FORGED_KEY, "", "string")),
    ],
)
async def test_a_key_is_ours_of_its_type_and_ends_with_its_window(
    monkeypatch: pytest.MonkeyPatch, name: str, facts: tuple[str, int | None], found: Any
):
    """A group's board too, in a window that there is and of a segment that the policy declares."""
    key = f"{STEM}{name}"
    board, _ = keyspace(monkeypatch, Redis(facts={key.encode(): facts}), **SEGMENTED)
    rows = await board.compare([key.encode()])
    if found is None:
        assert [] == rows
    else:
        kind, ledger, index = found
        assert [Difference("b", kind, key=key, ledger=ledger, index=index, subject=key.encode())] == rows


LATEST = NOW_MS + 60_000 + AHEAD_MS
"""When the last run of a ticket of a minute is over, by the fastest clock."""


@pytest.mark.parametrize(
    ("facts", "runs", "is_found"),
    [
        (("zset", LATEST), (5, LATEST), False),
        (("zset", LATEST), (6, LATEST), True),
        (("zset", LATEST + 1), (5, LATEST), True),
        (("zset", LATEST), (5, LATEST + 1), True),
        (("zset", None), (1, NOW_MS), True),
        (("hash", LATEST), (1, NOW_MS), True),
    ],
)
async def test_open_runs_are_as_many_and_as_long_as_tickets_allow(
    monkeypatch: pytest.MonkeyPatch, facts: tuple[str, int | None], runs: tuple[int, int], is_found: bool
):
    """The ledger does not know them, but the policy bounds their number and their time."""
    key = f"{STEM}open:ada"
    redis = Redis(facts={key.encode(): facts}, runs={key.encode(): runs})
    board, _ = keyspace(monkeypatch, redis, run_lifetime_s=60)
    row = Difference("b", Kind.FORGED_OPEN_RUNS, player="ada", key=key, index=facts[0], subject=key.encode())
    assert ([row] if is_found else []) == await board.compare([key.encode()])


async def test_keys_are_repaired_by_their_end_or_deleted(monkeypatch: pytest.MonkeyPatch):
    """The boards of groups have the end of their window; of a cold board that was warmed nothing is deleted."""
    redis = Redis()
    board, view = keyspace(monkeypatch, redis, **SEGMENTED)

    def wrong(kind: Kind, name: str) -> Difference:
        return Difference("b", kind, subject=f"{STEM}{name}".encode())

    ends = ["daily:1", "alltime", "segment:country:ch:daily:1"]
    await board.repair([wrong(Kind.FORGED_KEY, "names"), *(wrong(Kind.WRONG_EXPIRY, each) for each in ends)])
    assert [
        ("delete", [f"{STEM}names".encode()]),
        ("expire", f"{STEM}daily:1".encode(), NOW_MS + 5),
        ("expire", f"{STEM}alltime".encode(), None),
        ("expire", f"{STEM}segment:country:ch:daily:1".encode(), NOW_MS + 5),
    ] == redis.done
    redis.done.clear()
    warmed = Keyspace(view, is_cold=True)
    await warmed.repair([wrong(Kind.FORGED_KEY, "alltime"), wrong(Kind.FORGED_KEY, "forged")])
    assert [("delete", [f"{STEM}forged".encode()])] == redis.done


async def test_tie_groups_are_asked_for_window_by_window():
    """Each once; those that are wrong are named, and mended in the same way."""
    asked: list[Any] = []

    async def check_groups(
        _ranking: object, window: str, groups: list[bytes], *, is_mended: bool = False
    ) -> list[bool]:
        asked.append((window, groups, is_mended))
        return [group == b"right" for group in groups]

    redis = Redis()
    redis.check_groups = check_groups  # type: ignore[method-assign]
    groups = TieGroups(a_view(redis))
    subjects = [TieGroup(*each) for each in (("w", b"right"), ("v", b"1 a"), ("w", b"2 b"), ("w", b"right"))]
    found = await groups.compare(subjects)
    assert [
        Difference("b", Kind.WRONG_GROUP, window="w", index="2 b", subject=subjects[2]),
        Difference("b", Kind.WRONG_GROUP, window="v", index="1 a", subject=subjects[1]),
    ] == found
    await groups.repair(found)
    read = [("w", [b"right", b"2 b"], False), ("v", [b"1 a"], False)]
    assert [*read, ("w", [b"2 b"], True), ("v", [b"1 a"], True)] == asked


@pytest.mark.parametrize(("total", "below"), [(5, None), (6, 4), (1, 0), (2, 0)])
async def test_a_total_is_the_head_and_what_is_below(
    monkeypatch: pytest.MonkeyPatch, total: int, below: int | None
):
    """It is counted again below the head, and never below nobody."""
    redis = Redis()
    totals = Totals(a_view(redis, total, a_ranking(exact_ranks=100)))
    head = SimpleNamespace(entries=2, below=3, total=5, version="7")

    async def of(_window: str) -> Any:
        return head

    totals._heads = SimpleNamespace(of=of, recount=redis.recount)  # type: ignore[assignment]
    found = await totals.compare(["alltime"])
    row = Difference(
        "b",
        Kind.WRONG_TOTAL,
        window="alltime",
        key=f"{STEM}alltime:members",
        ledger=f"{total}",
        index="2 and 3 below, version 7",
        subject="alltime",
    )
    assert ([] if below is None else [row]) == found
    await totals.repair(found)
    assert ([] if below is None else [("recount", "alltime", head, below)]) == redis.done


async def test_a_difference_is_one_that_a_second_look_finds_with_the_same_value():
    """What changed meanwhile was under way."""
    first = [Difference("b", Kind.WRONG_NAME, index=value, subject=at) for at, value in enumerate("abc")]
    again = [first[0], Difference("b", Kind.WRONG_NAME, index="x", subject=1), first[2]]

    class Changing:
        async def compare(self, subjects: Sequence[int]) -> list[Difference]:
            assert [0, 1, 2] == list(subjects)
            return again

    assert [first[0], first[2]] == await confirm(Changing(), first)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "text", "shown", "number"),
    [
        (b"", "", "", None),
        (b"12 a", "12 a", "12 a", 12),
        (b"12", "12", "12", 12),
        (b"-1 a", "-1 a", "-1 a", None),
        (b" 1", " 1", " 1", None),
        (b"a\0b", None, "a\\x00b", None),
        (b"\xff", None, "\\xff", None),
        ("é".encode(), "é", "é", None),
        (b"\x1b[2J", "\x1b[2J", "\\x1b[2J", None),
        (b"x" * 256, "x" * 256, "x" * 256, None),
        (b"x" * 257, "x" * 257, "x" * 256, None),
    ],
)
def test_bytes_of_redis_as_text_as_a_line_and_as_a_number(
    raw: bytes, text: str | None, shown: str, number: int | None
):
    """What a ledger cannot have written is no text; a line obeys no terminal and has 256 bytes at most."""
    assert (text, shown, number) == (text_of(raw), printable(raw), sequence_of(raw))
    assert "" == printable(None)


def test_a_difference_is_told_without_its_subject():
    """Every field by its name, as text."""
    row = Difference("b", Kind.WRONG_NAME, "w", "p", "s", "k", "l", "i", subject=b"?")
    assert {
        "board": "b",
        "kind": "wrong-name",
        "window": "w",
        "player": "p",
        "submission": "s",
        "key": "k",
        "ledger": "l",
        "index": "i",
    } == row.as_dict()
    assert "?" not in repr(row)


OF_ALL = [Keyspace, Slots, Members, TieGroups, Names, Baselines, Settled, Pending]


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ({}, []),
        (SEGMENTED, [Memberships, GroupSlots, GroupMembers]),
        ({"exact_ranks": 100}, [Totals]),
    ],
)
def test_a_board_is_compared_in_every_aspect_its_keys_first(policy: dict[str, Any], more: list[type]):
    """Settled before pending; groups and totals where the policy has them; a cold board without windows."""
    view = a_view(Redis(), ranking=a_ranking(**policy))
    assert [*OF_ALL, *more] == [type(each) for each in aspects_of(view)]
    assert [Keyspace, Baselines, Settled, Pending] == [type(each) for each in aspects_when_cold(view)]
    [of_cold, *_], [of_all, *_] = aspects_when_cold(view), aspects_of(view)
    [searching, *_] = aspects_of(view, searches=True)
    through = [[walk.__name__ for walk in each.walks()] for each in (of_cold, of_all, searching)]
    assert [["_from_board", end] for end in ("_from_index", "_from_groups", "_from_index")] == through


class Pages:
    """A ledger of pages: each read is answered by what comes behind the place that it names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: str, pages: Mapping[Any, Any]) -> None:
        self.asked: list[Any] = []

        def page(board: str, after: Any = None, **named: Any) -> Any:
            after = named.get("after", after)
            self.asked.append((board, after, named["count"]))
            return pages[after]

        monkeypatch.setattr(f"gateway.steward.index.comparison.{path}", page)

    async def read(self, page: Any) -> Any:
        return page


def row_of(submission_id: str, seq: int) -> tuple[Any, ...]:
    return (seq, submission_id, "ada", 9)


POPULATION, BOB = (StoredBaseline("b", name, 3, 1.5, 0.5, seq=5) for name in ("", "bob"))


@pytest.mark.parametrize(
    ("aspect", "path", "pages", "places", "subjects"),
    [
        (
            Pending,
            "submissions.queries.pending_submissions",
            {0: [row_of("s3", 3), row_of("s5", 5)], 5: [row_of("s9", 9)], 9: []},
            [0, 5, 9],
            [[b"s3", b"s5"], [b"s9"]],
        ),
        (
            Baselines,
            "hashes.queries.baselines_page",
            {None: [POPULATION, BASELINE], "ada": [BOB], "bob": []},
            [None, "ada", "bob"],
            [[b"*", b"ada"], [b"bob"]],
        ),
        (
            Memberships,
            "segments.stored.memberships_after",
            {"": [Membership("ada"), Membership("bob")], "bob": [Membership("cyd")], "cyd": []},
            ["", "bob", "cyd"],
            [[b"ada", b"bob"], [b"cyd"]],
        ),
        (
            GroupSlots,
            "segments.stored.memberships_after",
            {"": [Membership("ada"), Membership("bob")], "bob": []},
            ["", "bob"],
            [[StandingSlot(window, player) for player in (b"ada", b"bob")] for window in ("u", "v")],
        ),
    ],
)
async def test_the_ledger_is_walked_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
    aspect: Any,
    path: str,
    pages: Mapping[Any, Any],
    places: list[Any],
    subjects: list[Any],
):
    """Each page begins behind the last of the one before, until there is none."""

    async def live_windows(_self: object) -> dict[str, int]:
        return {"u": 1, "v": 2}

    monkeypatch.setattr(BoardView, "live_windows", live_windows)
    ledger = Pages(monkeypatch, path, pages)
    view = a_view(Redis(), ranking=a_ranking(**SEGMENTED))
    object.__setattr__(view, "ledger", ledger)
    assert subjects == await walked(aspect(view).walks()[0](2))
    assert [("b", place, 2) for place in places] == ledger.asked


async def test_the_standings_of_a_board_are_walked_by_window_and_player(monkeypatch: pytest.MonkeyPatch):
    """From the first player of each live window on; those of another shard are left to it."""
    pages = {"": ["ada", "xeno"], "xeno": ["zoe"], "zoe": []}
    asked: list[Any] = []

    async def live_windows(_self: object) -> dict[str, int]:
        return {"u": 1, "v": 2}

    async def standings_after(_self: object, window: str, after: str, count: int) -> list[Any]:
        asked.append((window, after, count))
        return [SimpleNamespace(player=player) for player in pages[after]]

    monkeypatch.setattr(BoardView, "live_windows", live_windows)
    monkeypatch.setattr(BoardView, "standings_after", standings_after)
    view = a_view(Redis())
    assert [[StandingSlot(window, player)] for window in "uv" for player in (b"ada", b"zoe")] == await walked(
        Slots(view).walks()[0](2)
    )
    assert [(window, after, 2) for window in "uv" for after in pages] == asked
    assert [[b"ada"], [b"zoe"]] * 2 == await walked(Names(view).walks()[0](2))


async def test_the_windows_of_an_index_are_those_with_standings_and_those_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
):
    """By name, each with its end; the index that spans shards has none."""

    async def live_windows(_self: object) -> dict[str, int]:
        return {"daily:20200101": 5, "alltime": FOREVER_MS}

    monkeypatch.setattr(BoardView, "live_windows", live_windows)
    ranking = a_ranking(windows=["alltime", "daily"])
    found = await a_view(Redis(), ranking=ranking).windows()
    assert ["alltime", "daily:20200101", "daily:20231113", "daily:20231114"] == list(found)
    assert (None, 5) == (found["alltime"], found["daily:20200101"])
    assert {} == await a_view(Redis(), ranking=ranking, shards=()).windows()


async def test_groups_are_walked_through_what_is_kept_of_players_or_through_all_keys(
    monkeypatch: pytest.MonkeyPatch,
):
    """Their keys and their members; a key that is no text, or not a group's, is passed over."""
    windows_of(monkeypatch)
    redis = Redis()
    keys_by_window = {window: [f"{STEM}segment:country:ch:{window}"] for window in WINDOWS}

    async def keys_of_groups(window: str, _count: int) -> AsyncGenerator[list[str], None]:
        yield keys_by_window[window]

    async def members(key: str, _count: int) -> AsyncGenerator[list[bytes], None]:
        yield [key[-3:].encode()]

    async def scan(_count: int) -> AsyncGenerator[list[bytes], None]:
        yield [b"\xff", f"{STEM}names".encode(), f"{STEM}segment:country:fr:w".encode()]

    redis.keys_of_groups, redis.members, redis.scan = keys_of_groups, members, scan  # type: ignore[attr-defined]
    view = a_view(redis, ranking=a_ranking(**SEGMENTED))
    every = [name for names in keys_by_window.values() for name in names]
    [walk] = GroupMembers(view).walks()
    assert [[GroupMember(name, name[-3:].encode())] for name in every] == await walked(walk(9))
    [walk] = GroupMembers(view, searches=True).walks()
    assert [[GroupMember(f"{STEM}segment:country:fr:w", b"r:w")]] == await walked(walk(9))
    board, through_groups = Keyspace(view).walks()
    assert [[name.encode() for name in names] for names in keys_by_window.values()] == await walked(
        through_groups(9)
    )
    assert [[key.encode() for key in await Keyspace(view)._expected()]] == await walked(board(9))
    assert [] == await walked(Keyspace(a_view(redis)).walks()[1](9))
    redis.slices = {f"{STEM}{window}:segmented": [[b"ada"], [b"\xff"]] for window in WINDOWS}
    assert [[StandingSlot(window, player)] for window in WINDOWS for player in (b"ada", b"\xff")] == (
        await walked(GroupSlots(view).walks()[1](9))
    )


async def test_players_move_on_the_boards_of_groups_when_their_memberships_are_repaired(
    monkeypatch: pytest.MonkeyPatch,
):
    """In every window, or in that of the slot; bytes that are no text are nobody's."""
    windows_of(monkeypatch)
    followed: list[Any] = []

    async def follow(_self: object, player: str, windows: Iterable[str]) -> None:
        followed.append((player, list(windows)))

    monkeypatch.setattr("gateway.steward.index.comparison.segments.SegmentBoards.follow", follow)
    redis = Redis(memberships={b"\xff": b"1"})
    view = grouped_view(redis, [], GROUPED)
    await Memberships(view).repair(
        [Difference("b", Kind.WRONG_MEMBERSHIP, subject=each) for each in (b"ada", b"\xff")]
    )
    key = f"{STEM}memberships"
    assert [("drop", key, {b"\xff": b"1"}), ("put", key, {"ada": "3 country:ch"})] == redis.done
    slots = [StandingSlot("daily:1", each) for each in (b"ada", b"\xff")]
    await GroupSlots(view).repair([Difference("b", Kind.MISSING_GROUP, subject=each) for each in slots])
    assert [("ada", list(WINDOWS)), ("ada", ["daily:1"])] == followed


async def test_limits_and_open_runs_are_judged_without_the_ledger(monkeypatch: pytest.MonkeyPatch):
    """They are most of all keys."""
    asked: list[int] = []
    names = [f"{STEM}limit:player:ada".encode(), f"{STEM}open:ada".encode()]
    facts = {names[0]: ("string", NOW_MS + 1), names[1]: ("zset", NOW_MS + 1)}
    redis = Redis(facts=facts | {b"\xff": ("string", None)}, runs={names[1]: (1, NOW_MS)})
    board, _ = keyspace(monkeypatch, redis)

    async def expected() -> dict[str, Any]:
        asked.append(1)
        return {}

    monkeypatch.setattr(board, "_expected", expected)
    assert [] == await board.compare(names)
    assert [] == asked
    assert [b"\xff"] == [each.subject for each in await board.compare([*names, b"\xff"])]
    assert [1] == asked
