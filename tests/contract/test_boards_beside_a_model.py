"""Lives of boards, in any order of requests, beside a model in plain Python; and a batch whose process is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ledger import queries
from gateway.ledger.boards.board_life import check_boards
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.listing import BoardOrder, boards_of_family
from gateway.ledger.boards.lookups import boards_named
from policies.opened_board import BoardState, OpenedBoard
from tests.contract.test_boards_of_families import FREEING, TRACKS, track
from tests.support.families import change_boards, tracks
from tests.support.ledger import NOON_MS
from tests.support.stores import PostgresStore, SqliteStore, Store, on_both_ledgers, open_in
from tests.support.thorough import examples

RESTS = "abcd"
NAMES = [f"track.{rest}" for rest in RESTS]
CLASSES = ("gt3", "f1")

_rests = st.sampled_from(RESTS)
_requests = st.builds(
    lambda rest, kind, laps: track(rest, metadata={"class": kind}, parameters=b'{"laps":%d}' % laps),
    _rests,
    st.sampled_from(CLASSES),
    st.integers(1, 2),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.lists(_requests, min_size=1, max_size=3)),
        st.tuples(st.just("reuse"), st.lists(_requests, min_size=1, max_size=2)),
        st.tuples(st.just("change"), _rests, st.sampled_from(CLASSES), st.integers(1, 3), st.integers(-1, 0)),
        st.tuples(st.just("turn"), _rests, st.sampled_from(list(BoardState))),
    ),
    max_size=12,
)
_TURNS = {("open", "closed"), ("closed", "open"), ("open", "deleted"), ("closed", "deleted")}


class Model:
    """What boards are, by name, and what each was opened with; `opened` has the order in which they were."""

    def __init__(self) -> None:
        self.boards: dict[str, OpenedBoard] = {}
        self.first: dict[str, tuple[Any, ...]] = {}
        self.opened: list[str] = []

    def open(self, request: OpenedBoard, *, frees: bool) -> BoardOutcome:
        board = self.boards.get(request.board)
        if board and board.state is not BoardState.DELETED:
            known = (_content(board), self.first[request.board])
            return BoardOutcome.SAME if _content(request) in known else BoardOutcome.CONFLICT
        if board and not frees:
            return BoardOutcome.CONFLICT
        version = board.version + 1 if board else 1
        self.boards[request.board] = replace(request, version=version, opened_at_ms=NOON_MS, opened_by="cli")
        self.first[request.board] = _content(request)
        self.opened = [name for name in self.opened if name != request.board] + [request.board]
        return BoardOutcome.OPENED

    def change(self, request: OpenedBoard) -> BoardOutcome:
        board = self.boards.get(request.board)
        if board is None or board.state is BoardState.DELETED:
            return BoardOutcome.UNKNOWN
        if _content(board) == _content(request):
            return BoardOutcome.SAME
        if board.version != request.version:
            return BoardOutcome.CONFLICT
        self.boards[request.board] = replace(request, version=board.version + 1)
        return BoardOutcome.CHANGED

    def turn(self, name: str, state: BoardState) -> BoardOutcome:
        board = self.boards.get(name)
        if board is None:
            return BoardOutcome.UNKNOWN
        if board.state is state:
            return BoardOutcome.SAME
        if (board.state.value, state.value) not in _TURNS:
            return BoardOutcome.REFUSED
        closes = {BoardState.OPEN: None, BoardState.CLOSED: NOON_MS}.get(state, board.closes_at_ms)
        self.boards[name] = replace(board, state=state, closes_at_ms=closes, version=board.version + 1)
        return BoardOutcome.CHANGED

    def listed(self, kind: str | None = None) -> list[str]:
        return sorted(
            name
            for name, board in self.boards.items()
            if board.state is not BoardState.DELETED and kind in (None, board.metadata["class"])
        )


def _content(board: OpenedBoard) -> tuple[Any, ...]:
    return (board.title, dict(board.metadata), board.parameters, board.closes_at_ms)


async def _play(store: Store, steps: list[tuple[Any, ...]]) -> None:
    """Take the steps on an emptied family, and compare the ledger with the model after each."""
    model, life = Model(), {"actor": "cli", "at_ms": NOON_MS}
    async with open_in(store) as ledger:
        first_seq = await ledger.read(queries.newest_seq())
        for kind, *rest in steps:
            if kind in {"open", "reuse"}:
                terms = FREEING if kind == "reuse" else TRACKS
                outcomes = [
                    result.outcome for result in await ledger.write(open_boards(terms, rest[0], **life))
                ]
                assert [model.open(request, frees=kind == "reuse") for request in rest[0]] == outcomes
            elif kind == "change":
                name, stale = f"track.{rest[0]}", rest[3]
                board = model.boards.get(name, track(rest[0]))
                request = replace(
                    board, title=f"T{rest[2]}", metadata={"class": rest[1]}, version=board.version + stale
                )
                assert [model.change(request)] == await change_boards(
                    ledger, tracks("class"), request, at_ms=NOON_MS
                )
            else:
                name = f"track.{rest[0]}"
                [result] = await ledger.write(set_states(TRACKS, [name], rest[1], **life))
                assert model.turn(name, rest[1]) is result.outcome
        assert model.boards == await ledger.read(boards_named(NAMES))
        listed = await ledger.read(boards_of_family("track"))
        assert model.listed() == [board.board for board in listed.boards]
        newest = await ledger.read(boards_of_family("track", order=BoardOrder.NEWEST))
        alive = [name for name in reversed(model.opened) if name in model.listed()]
        assert alive == [board.board for board in newest.boards]
        for kind in CLASSES:
            page = await ledger.read(boards_of_family("track", filters=[("class", kind)]))
            assert model.listed(kind) == [board.board for board in page.boards]
        assert len(model.boards) == await check_boards(ledger)
        changes = sum(board.version for board in model.boards.values())
        assert changes == await ledger.read(queries.newest_seq()) - first_seq


@on_both_ledgers
def test_lives_of_boards_are_as_a_model_of_them(database_server: Any, tmp_path_factory: Any):
    """Outcomes, boards, lists and events, whatever is asked for in whatever order; every row follows from events."""

    @settings(deadline=None, max_examples=examples(12 if database_server is None else 4))
    @given(STEPS)
    def check(steps: list[tuple[Any, ...]]) -> None:
        asyncio.run(_on_a_new_ledger(database_server, tmp_path_factory, steps))

    check()


async def _on_a_new_ledger(server: Any, folders: Any, steps: list[tuple[Any, ...]]) -> None:
    if server is None:
        await _play(SqliteStore(folders.mktemp("ledger") / "ledger.sqlite3"), steps)
        return
    async with server.database() as name:
        await _play(PostgresStore(server, name), steps)


OPENER = """
import asyncio, sys
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from policies.opened_board import OpenedBoard
from pathlib import Path
from pydantic import SecretStr
from gateway.ledger.postgres.store import PostgresLedger
from gateway.ledger.sqlite.store import SqliteLedger

async def main(url):
    path = url.removeprefix("sqlite:///")
    ledger = SqliteLedger(Path(path)) if path != url else PostgresLedger(SecretStr(url))
    await ledger.open()
    for at in range(1000):
        batch = [OpenedBoard(f"track.n{at}-{n}", "track", "T", parameters=b"{}") for n in range(200)]
        await ledger.write(open_boards(FamilyTerms("track", "d"), batch, actor="cli", at_ms=1))
        print(at, flush=True)

asyncio.run(main(sys.argv[1]))
"""


async def test_a_killed_process_leaves_whole_batches_and_a_retry_ends_them(store: Store):
    """Every batch that was answered is there, the one under way is there whole or not at all, and again is the same."""
    async with open_in(store):
        pass
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs on this loop
        [sys.executable, "-c", OPENER, store.url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        answered = -1
        for _ in range(3):
            answered = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        answered = max([answered, *(int(line) for line in process.stdout if line.strip())])
    async with open_in(store) as ledger:
        [(count,)] = await store.sql("SELECT count(*) FROM boards")
        assert (0, True) == (count % 200, (answered + 1) * 200 <= count <= (answered + 2) * 200)
        assert count == await check_boards(ledger)
        assert [(count,)] == await store.sql("SELECT count(*) FROM events")
        again = [
            OpenedBoard(f"track.n{answered + 1}-{n}", "track", "T", parameters=b"{}") for n in range(200)
        ]
        results = await ledger.write(open_boards(TRACKS, again, actor="cli", at_ms=1))
        was_there = count == (answered + 2) * 200
        assert {BoardOutcome.SAME if was_there else BoardOutcome.OPENED} == {each.outcome for each in results}
        assert (answered + 2) * 200 == await check_boards(ledger)
