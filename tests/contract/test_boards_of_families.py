"""Boards of families as rows: each batch, each change of a life, and every list, on each database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.ledger.boards.board_opening import BATCH_LIMIT, open_boards
from gateway.ledger.boards.board_rows import BoardOutcome, FamilyTerms
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.listing import BoardOrder, boards_of_family
from gateway.ledger.boards.lookups import boards_named, boards_to_close, names_after
from gateway.ledger.ledger import Ledger
from gateway.runtime.lanes import LANES
from policies.opened_board import BoardState, NarrowedBounds, NarrowedScore, OpenedBoard
from policies.vocabulary import State
from tests.support.families import change_boards, tracks
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in

TRACKS = FamilyTerms("track", "sha256:tracks", ("class", "tags"))
FREEING = TRACKS._replace(frees_names=True)
EVERY_LANE = range(LANES)


def track(rest: str, **values: Any) -> OpenedBoard:
    return OpenedBoard(f"track.{rest}", "track", **{"title": rest.title(), **values})


async def opened(
    ledger: Ledger, *batch: OpenedBoard, terms: FamilyTerms = TRACKS, at_ms: int = NOON_MS
) -> list[BoardOutcome]:
    results = await ledger.write(open_boards(terms, batch, actor="server:kart", at_ms=at_ms))
    return [result.outcome for result in results]


async def turned(
    ledger: Ledger, name: str, state: BoardState, terms: FamilyTerms = TRACKS, **options: Any
) -> BoardOutcome:
    options = {"actor": "cli", "at_ms": NOON_MS, **options}
    [result] = await ledger.write(set_states(terms, [name], state, **options))
    return result.outcome


async def stored(ledger: Ledger, name: str) -> OpenedBoard:
    return (await ledger.read(boards_named([name])))[name]


async def names(ledger: Ledger, count: int = 100, **options: Any) -> list[str]:
    """The names of all pages, each of them as long as it should be."""
    found: list[str] = []
    after = None
    while True:
        page = await ledger.read(boards_of_family("track", after=after, count=count, **options))
        assert len(page.boards) <= count
        found += [board.rest for board in page.boards]
        after = page.next
        if after is None:
            return found


FULL = track(
    "monza",
    title="Monza — „wet“",
    metadata={"class": "gt3", "tags": ["wet", "long"], "stars": 4.5, "nested": {"a": [None, True]}},
    parameters=b'{"laps":3}',
    asset=bytes(range(32)),
    bounds=NarrowedBounds(score=NarrowedScore(maximum=900)),
    opens_at_ms=NOON_MS + 1,
    closes_at_ms=NOON_MS + 2,
)


async def test_a_board_comes_back_as_it_was_opened(store: Store):
    """With all that it has, who opened it and when; its event says the same and belongs to no submission."""
    async with open_in(store) as ledger:
        assert [BoardOutcome.OPENED] == await opened(ledger, FULL)
        expected = replace(FULL, opened_at_ms=NOON_MS, opened_by="server:kart")
        assert {"track.monza": expected} == await ledger.read(boards_named(["track.monza", "track.spa"]))
    columns = "submission_id, board, player, from_state, to_state, actor, reason, policy, at_ms, detail"
    [(*columns, detail)] = await store.sql(f"SELECT {columns} FROM events")
    expected_event = [
        "",
        "track.monza",
        "",
        "",
        "open",
        "server:kart",
        "board-opened",
        "sha256:tracks",
        NOON_MS,
    ]
    assert expected_event == columns
    content = orjson.loads(detail)
    assert ('{"laps":3}', bytes(range(32)).hex(), 4.5) == (
        content["parameters"],
        content["asset"],
        content["metadata"]["stars"],
    )


async def test_each_board_of_a_batch_has_an_outcome(store: Store):
    """Opened, the same, another's name, no name of the family: none keeps the others from being opened."""
    async with open_in(store) as ledger:
        await opened(ledger, track("spa"), track("imola"))
        batch = (
            track("new"),
            track("spa"),
            track("imola", parameters=b'{"laps":9}'),
            replace(track("x"), family="car"),
            replace(track("x"), board="track."),
            track("new"),
            track("new", title="Other"),
            track("fast", metadata={"tags": [str(n) for n in range(17)]}),
        )
        outcomes = await opened(ledger, *batch)
        assert [
            BoardOutcome.OPENED,
            BoardOutcome.SAME,
            BoardOutcome.CONFLICT,
            BoardOutcome.REFUSED,
            BoardOutcome.REFUSED,
            BoardOutcome.SAME,
            BoardOutcome.CONFLICT,
            BoardOutcome.REFUSED,
        ] == outcomes
        assert ["imola", "new", "spa"] == await names(ledger)
        with pytest.raises(ValueError, match="more than 1000"):
            open_boards(TRACKS, [track("spa")] * (BATCH_LIMIT + 1), actor="a", at_ms=0)
    assert [(3,)] == await store.sql("SELECT count(*) FROM events")


async def test_a_request_to_open_that_is_sent_again_is_known_after_changes(store: Store):
    """The board has a new title and is closed; what opened it is still the same request, and other content is not."""
    async with open_in(store) as ledger:
        await opened(ledger, track("spa", metadata={"a": True}))
        board = replace(await stored(ledger, "track.spa"), title="Spa II")
        await change_boards(ledger, tracks("class"), board)
        await turned(ledger, "track.spa", BoardState.CLOSED)
        assert [BoardOutcome.SAME] == await opened(ledger, track("spa", metadata={"a": True}))
        assert [BoardOutcome.CONFLICT] == await opened(ledger, track("spa", metadata={"a": 1}))
        assert BoardState.CLOSED is (await stored(ledger, "track.spa")).state


async def test_a_change_holds_only_for_the_version_it_was_made_for(store: Store):
    """Whoever read the board before somebody else's change is told, and what is so already is the same."""
    async with open_in(store) as ledger:
        await opened(ledger, track("spa", metadata={"class": "gt3"}, parameters=b"{}"))
        read = await stored(ledger, "track.spa")

        async def changed(board: OpenedBoard) -> BoardOutcome:
            [outcome] = await change_boards(ledger, tracks("class"), board, at_ms=NOON_MS + 5)
            return outcome

        first = replace(
            read,
            title="Spa II",
            metadata={"class": "f1", "wet": True},
            bounds=NarrowedBounds(maximum_ticks=9),
        )
        assert [BoardOutcome.CHANGED, BoardOutcome.SAME, BoardOutcome.CONFLICT] == [
            await changed(board) for board in (first, first, replace(read, title="Spa III"))
        ]
        assert replace(first, version=2) == await stored(ledger, "track.spa")
        assert (["spa"], []) == (
            await names(ledger, filters=[("class", "f1")]),
            await names(ledger, filters=[("class", "gt3")]),
        )
        second = replace(first, version=2, metadata={"class": "f1", "wet": 1})
        assert BoardOutcome.CHANGED is await changed(second)
        refused = [
            replace(second, version=3, **other)
            for other in ({"parameters": b"1"}, {"title": ""}, {"asset": bytes(32)})
        ]
        assert [BoardOutcome.REFUSED] * 3 == [await changed(board) for board in refused]
        assert BoardOutcome.UNKNOWN is await changed(track("nowhere"))
    details = await store.sql("SELECT reason, from_state, to_state, detail FROM events ORDER BY seq")
    assert ("board-changed", "open", "open", {"metadata": {"class": "f1", "wet": 1}}) == (
        *details[2][:3],
        orjson.loads(details[2][3]),
    )


async def test_a_life_goes_from_open_to_closed_and_back_and_ends_deleted(store: Store):
    """Closing says when; a closed board opens again without its old end; a deleted one is in no list and never returns."""
    async with open_in(store) as ledger:
        await opened(ledger, track("spa", metadata={"class": "gt3"}), track("imola", opens_at_ms=NOON_MS + 9))
        assert BoardOutcome.CHANGED is await turned(
            ledger, "track.spa", BoardState.CLOSED, why="rain", at_ms=NOON_MS + 3
        )
        assert BoardOutcome.SAME is await turned(ledger, "track.spa", BoardState.CLOSED)
        closed = await stored(ledger, "track.spa")
        assert (BoardState.CLOSED, NOON_MS + 3, 2) == (closed.state, closed.closes_at_ms, closed.version)
        assert ["imola", "spa"] == await names(ledger)
        assert ["spa"] == await names(ledger, states=[BoardState.CLOSED])
        assert BoardOutcome.CHANGED is await turned(ledger, "track.spa", BoardState.OPEN, at_ms=NOON_MS + 4)
        assert (BoardState.OPEN, None) == (
            (again := await stored(ledger, "track.spa")).state,
            again.closes_at_ms,
        )
        assert BoardOutcome.CHANGED is await turned(ledger, "track.imola", BoardState.CLOSED)
        assert (None, NOON_MS) == (
            (never := await stored(ledger, "track.imola")).opens_at_ms,
            never.closes_at_ms,
        )
        assert [BoardOutcome.CHANGED, BoardOutcome.SAME, BoardOutcome.REFUSED, BoardOutcome.REFUSED] == [
            await turned(ledger, "track.spa", state)
            for state in (BoardState.DELETED, BoardState.DELETED, BoardState.OPEN, BoardState.CLOSED)
        ]
        assert ["imola"] == await names(ledger)
        assert [] == await names(ledger, filters=[("class", "gt3")])
        assert [] == await store.sql("SELECT * FROM board_fields")
        assert BoardState.DELETED is (await stored(ledger, "track.spa")).state
        assert BoardOutcome.UNKNOWN is await turned(
            ledger, "track.imola", BoardState.OPEN, TRACKS._replace(family="car")
        )
        assert [BoardOutcome.CONFLICT] == await opened(ledger, track("spa"))
    events = await store.sql(
        "SELECT from_state, to_state, reason, detail FROM events WHERE board = 'track.spa' ORDER BY seq"
    )
    assert [
        ("", "open", "board-opened"),
        ("open", "closed", "board-closed"),
        ("closed", "open", "board-reopened"),
        ("open", "deleted", "board-deleted"),
    ] == [event[:3] for event in events]
    assert {"why": "rain", "closes_at_ms": NOON_MS + 3} == orjson.loads(events[1][3])


async def test_the_name_of_a_deleted_board_is_free_if_the_policy_says_so_and_nothing_was_played(store: Store):
    """The new board has other content and a later version; a name under which a run counts stays taken."""
    async with open_in(store) as ledger:
        await opened(ledger, track("spa", parameters=b'{"laps":1}'), track("imola"), track("monza"))
        await ledger.append(new_submission("r", board="track.imola"))
        await ledger.append(new_submission("h", board="track.monza", state=State.HELD))
        for name in ("track.spa", "track.imola", "track.monza"):
            await turned(ledger, name, BoardState.DELETED)
        spa = track("spa", parameters=b'{"laps":2}', metadata={"class": "f1"})
        anew = (spa, track("imola"), track("monza"))
        assert [BoardOutcome.CONFLICT] * 3 == await opened(ledger, *anew)
        outcomes = await opened(ledger, *anew, terms=FREEING, at_ms=NOON_MS + 7)
        assert [BoardOutcome.OPENED, BoardOutcome.CONFLICT, BoardOutcome.CONFLICT] == outcomes
        again = await stored(ledger, "track.spa")
        assert (b'{"laps":2}', 3, NOON_MS + 7, BoardState.OPEN) == (
            again.parameters,
            again.version,
            again.opened_at_ms,
            again.state,
        )
        assert [BoardOutcome.SAME] == await opened(ledger, anew[0], terms=FREEING)
        assert ["spa"] == await names(ledger, filters=[("class", "f1")])


async def test_the_database_keeps_what_a_board_was_opened_with(store: Store):
    """No program of ours can take a board away, move it, or give it other parameters while it is open."""
    async with open_in(store) as ledger:
        await opened(ledger, track("spa"))
    for change in (
        "DELETE FROM boards",
        "UPDATE boards SET board = 'track.other'",
        "UPDATE boards SET lane = 3",
        "UPDATE boards SET family = 'car'",
        "UPDATE boards SET asset = parameters",
        "UPDATE boards SET opened_by = 'somebody'",
    ):
        with pytest.raises(store.errors, match="boards is append-only"):
            await store.sql(change)
    await store.sql("UPDATE boards SET state = 'deleted'")
    await store.sql("UPDATE boards SET state = 'open', opened_seq = 2")
    assert [("track.spa", 2)] == await store.sql("SELECT board, opened_seq FROM boards")


async def test_lists_are_in_each_order_whole_and_without_repetition(store: Store):
    """By name, by newest, by plays; open and closed boards together; in pages of every length."""
    async with open_in(store) as ledger:
        for at, rest in enumerate(("b", "a", "d", "c", "e")):
            await opened(
                ledger, track(rest, metadata={"class": "gt3", "tags": ["x", rest]}), at_ms=NOON_MS + at
            )
        await opened(ledger, OpenedBoard("car.z", "car", "Z"), terms=FamilyTerms("car", "d"))
        await turned(ledger, "track.d", BoardState.CLOSED)
        for table in ("boards", "board_fields"):
            await store.sql(f"UPDATE {table} SET plays = 7 WHERE board = 'track.c'")
            await store.sql(f"UPDATE {table} SET plays = 9 WHERE board = 'track.d'")
        expected = {
            BoardOrder.NAME: ["a", "b", "c", "d", "e"],
            BoardOrder.NEWEST: ["e", "c", "d", "a", "b"],
            BoardOrder.PLAYED: ["d", "c", "e", "b", "a"],
        }
        for count in (1, 2, 5, 9):
            assert expected == {order: await names(ledger, count, order=order) for order in BoardOrder}
            for filters in ([("class", "gt3")], [("class", "gt3"), ("tags", "x")]):
                found = {
                    order: await names(ledger, count, order=order, filters=filters) for order in BoardOrder
                }
                assert expected == found
        assert ["d"] == await names(ledger, filters=[("class", "gt3"), ("tags", "d")])
        assert ["e"] == await names(ledger, filters=[("tags", "e")], states=[BoardState.OPEN])
        assert [] == await names(ledger, filters=[("tags", "d")], states=[BoardState.OPEN])


async def test_a_filtered_page_looks_at_a_bounded_number_of_boards(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    """A value that is rare among those of another gives empty pages with a cursor, and is found in the end."""
    monkeypatch.setattr("gateway.ledger.boards.listing.WALK", 64)
    batch = [
        track(f"n{n:03}", metadata={"class": "gt3", "tags": ["rare"] if n == 149 else []}) for n in range(150)
    ]
    async with open_in(store) as ledger:
        await opened(ledger, *batch)
        filters = [("class", "gt3"), ("tags", "rare")]
        page = await ledger.read(boards_of_family("track", filters=filters, count=5))
        assert ([], "track.n063") == (page.boards, page.next and page.next.board)
        assert ["n149"] == await names(ledger, filters=filters)
        with pytest.raises(ValueError, match="5 filters"):
            await ledger.read(boards_of_family("track", filters=filters * 2 + filters[:1]))


async def test_the_names_of_a_family_are_its_own_whatever_they_begin_after(store: Store):
    """No board of a family before or behind it, nor of one whose name only begins like it."""
    async with open_in(store) as ledger:
        await opened(ledger, *(track(rest) for rest in ("a", "b", "c")))
        for family in ("car", "track-2", "tracks", "way"):
            other = OpenedBoard(f"{family}.a", family, "A")
            terms = FamilyTerms(family, "sha256:other")
            await ledger.write(open_boards(terms, [other], actor="cli", at_ms=NOON_MS))
        found = [
            await ledger.read(names_after("track", after, count=2)) for after in ("", "track.b", "track.c")
        ]
    assert [["track.a", "track.b"], ["track.c"], []] == found


async def test_boards_come_due_to_close_in_their_lanes(store: Store):
    """By time; a board that was closed by hand, or put off in the meantime, is not closed again."""
    times = {"opens_at_ms": NOON_MS + 10, "closes_at_ms": NOON_MS + 20}
    async with open_in(store) as ledger:
        await opened(ledger, *(track(rest, **times) for rest in ("a", "b", "c")), track("d"))

        async def to_close(at_ms: int, lanes: range = EVERY_LANE) -> list[str]:
            return sorted(b.rest for b in await ledger.read(boards_to_close(lanes, now_ms=at_ms, count=9)))

        assert [[], ["a", "b", "c"], []] == [
            await to_close(NOON_MS + 19),
            await to_close(NOON_MS + 20),
            await to_close(NOON_MS + 20, range(0)),
        ]
        await turned(ledger, "track.a", BoardState.CLOSED)
        put_off = replace(await stored(ledger, "track.b"), closes_at_ms=NOON_MS + 50)
        await change_boards(ledger, tracks("class"), put_off, at_ms=NOON_MS)
        assert ["c"] == await to_close(NOON_MS + 20)
        due = {"is_due": True, "at_ms": NOON_MS + 21, "actor": "steward"}
        assert [BoardOutcome.SAME, BoardOutcome.CHANGED] == [
            await turned(ledger, name, BoardState.CLOSED, **due) for name in ("track.b", "track.c")
        ]
        assert NOON_MS + 20 == (await stored(ledger, "track.c")).closes_at_ms
        assert [] == await to_close(NOON_MS + 21)
