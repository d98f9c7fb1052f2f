"""Batches of operations on boards of a family: as if done one by one, and written once for each board."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import bindparam, select

from gateway.ledger.boards.board_life import check_boards, life_of
from gateway.ledger.boards.board_opening import BATCH_LIMIT, open_boards
from gateway.ledger.boards.board_rows import UNKNOWN_BOARD, BoardOutcome, BoardResult, FamilyTerms
from gateway.ledger.boards.field_filters import FIELD_VALUES
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.ledger import Ledger
from gateway.ledger.schema import board_duties, board_fields
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from gateway.settlement.family_operations import (
    BoardOpening,
    BoardRevision,
    BoardTurn,
    FamilyOperation,
    perform,
)
from policies.family import Family
from policies.loader import Policies, load_policies
from policies.opened_board import BoardState, OpenedBoard
from tests.support.families import write_family
from tests.support.ledger import NOON_MS
from tests.support.stores import Store, open_in
from tests.support.waits import Counting

_f, _d = board_fields.c, board_duties.c
OPEN, CLOSED, DELETED = BoardState.OPEN, BoardState.CLOSED, BoardState.DELETED


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


@pytest.fixture
def family(tmp_path: Path) -> Family:
    rules = {"metadata_filters": {"class": "text"}, "names_free_after_delete": True}
    return load_policies(write_family(tmp_path / "policies", **rules).parent).families["track"]


def counted(work: Operation[list[BoardResult]]) -> Operation[tuple[list[BoardResult], int]]:
    """Return how many statements an operation makes, beside its results."""

    async def counting(tx: Transaction) -> tuple[list[BoardResult], int]:
        count = Counting(tx)
        return await work(count), count.statements

    return counting


def opening(name: str, kind: str = "gt") -> BoardOpening:
    return BoardOpening(OpenedBoard(f"track.{name}", "track", name, {"class": kind}))


def turning(name: str, state: BoardState) -> BoardTurn:
    return BoardTurn(f"track.{name}", state, state.value)


def revision(name: str, **values: Any) -> BoardRevision:
    return BoardRevision(f"track.{name}", None, values)


def busy(name: str, number: int) -> list[FamilyOperation]:
    """Operations of every kind on one board, of which no two neighbours are of one kind."""
    return [
        turning(name, CLOSED),
        turning(name, OPEN),
        revision(name, metadata={"class": f"c{number}"}),
        turning(name, DELETED),
        opening(name, f"d{number}"),
    ]


async def test_no_batch_makes_more_statements_than_one_that_opens_boards(ledger: Ledger, family: Family):
    """Whatever is done to however few boards, in whatever order: other writes wait no longer for it."""

    async def statements(requests: Sequence[FamilyOperation], outcome: BoardOutcome) -> int:
        work = counted(perform(family, requests, actor="server:a", at_ms=NOON_MS))
        results, count = await ledger.write(work)
        assert {outcome} == {result.outcome for result in results}
        return count

    many = range(BATCH_LIMIT)
    opened = await statements([opening(f"n{number}") for number in many], BoardOutcome.OPENED)
    names = [f"n{number}" for number in many]
    two = [turning("n0", CLOSED if number % 2 == 0 else OPEN) for number in many]
    changed = BoardOutcome.CHANGED
    assert await statements(two, changed) <= 2 * opened
    retitled = [revision("n0", title=f"Title {number}") for number in many]
    assert await statements(retitled, changed) <= 2 * opened
    refiled = [revision(name, metadata={"class": f"c{name}"}) for name in names]
    assert await statements(refiled, changed) <= 2 * opened
    assert await statements([turning(name, CLOSED) for name in names], changed) <= 2 * opened
    assert await statements([turning(name, OPEN) for name in names], changed) <= 2 * opened
    assert await statements([turning(name, DELETED) for name in names], changed) <= 2 * opened
    assert await statements([opening(name, "late") for name in names], BoardOutcome.OPENED) <= 2 * opened
    mixed = [each for number in range(BATCH_LIMIT // 5) for each in busy("n1", number)]
    work = counted(perform(family, mixed, actor="server:a", at_ms=NOON_MS))
    results, count = await ledger.write(work)
    assert {changed, BoardOutcome.OPENED} == {result.outcome for result in results}
    assert count <= 2 * opened
    with pytest.raises(ValueError, match="1001 operations are more than 1000"):
        perform(family, [*mixed, mixed[0]], actor="server:a", at_ms=NOON_MS)
    assert BATCH_LIMIT == await check_boards(ledger)


async def test_a_batch_of_deletions_notes_at_once_what_rollups_have_to_follow(
    ledger: Ledger, store: Store, tmp_path: Path
):
    """Each season and all time of each board that anybody stands on, and none of its days; with few statements."""
    folder = tmp_path / "policies"
    calendar = {"windows": ["alltime", "daily", "season"], "season": "0 0 1 * *"}
    write_family(folder, **calendar)
    for name, take in (("ever", {"take": "count"}), ("league", {"take": "points", "points": [3, 1]})):
        windows = calendar | {"windows": ["alltime", "season"]} if name == "league" else {}
        policy = {"board": name, "title": name, "rollup": {"family": "track", **take}, **windows}
        (folder / f"{name}.yaml").write_text(json.dumps(policy))
    family = load_policies(folder).families["track"]
    names = [f"n{number}" for number in range(BATCH_LIMIT)]
    operations = [opening(name) for name in names], [turning(name, DELETED) for name in names]
    played = ["alltime", *(f"daily:{day}" for day in range(3)), *(f"season:{month}" for month in range(4))]
    work = perform(family, operations[0], actor="server:a", at_ms=NOON_MS)
    await ledger.write(work)
    for window, player in ((window, player) for window in played for player in ("ada", "bob")):
        await store.sql(
            "INSERT INTO standings SELECT board, "
            f"'{window}', '{player}', 1, 1, 1, 's', 2, 1, 1, 'm', 'r' FROM boards WHERE board <> 'track.n0'"
        )
    _, count = await ledger.write(counted(perform(family, operations[1], actor="server:a", at_ms=NOON_MS)))
    assert count < 150
    noted = await store.sql(
        'SELECT c.board, c.rollup, c."window" FROM rollup_changes AS c '
        "JOIN events AS e ON e.seq = c.seq AND e.board = c.board AND e.to_state = 'deleted' ORDER BY 1, 2, 3"
    )
    followed = [("ever", "alltime"), *(("league", window) for window in played if window[0] != "d")]
    assert [(f"track.{name}", *each) for name in sorted(names[1:]) for each in followed] == [
        tuple(row) for row in noted
    ]


async def test_a_board_keeps_metadata_that_a_later_policy_could_not_file(ledger: Ledger, tmp_path: Path):
    """Its title, times and bounds change as others' do; other metadata has to fit the fields of the day."""
    tags = [f"t{number:02}" for number in range(FIELD_VALUES + 4)]
    before, after = (
        load_policies(write_family(tmp_path / name, metadata_filters=dict.fromkeys(fields, "text")).parent)
        for name, fields in (("before", ("class",)), ("after", ("class", "tags")))
    )
    board = OpenedBoard("track.a", "track", "A", {"tags": tags})

    async def outcome(policies: Policies, request: FamilyOperation) -> BoardResult:
        work = perform(policies.families["track"], [request], actor="server:a", at_ms=NOON_MS)
        [result] = await ledger.write(work)
        return result

    assert BoardOutcome.OPENED is (await outcome(before, BoardOpening(board))).outcome
    renamed = await outcome(
        after, revision("a", title="B", closes_at_ms=NOON_MS + 1, metadata={"tags": tags})
    )
    assert BoardOutcome.CHANGED is renamed.outcome
    longer = await outcome(after, revision("a", metadata={"tags": [*tags, "more"]}))
    assert BoardOutcome.REFUSED is longer.outcome


async def test_nobody_is_shown_a_board_of_another_family_or_one_that_is_gone(ledger: Ledger, family: Family):
    """Whatever a server asks to change, be it what no board may be."""
    other = OpenedBoard("car.secret", "car", "Secret")
    await ledger.write(open_boards(FamilyTerms("car", "sha256:car"), [other], actor="cli", at_ms=NOON_MS))
    await ledger.write(perform(family, [opening("a"), turning("a", DELETED)], actor="cli", at_ms=NOON_MS))
    unfit = {"opens_at_ms": NOON_MS + 1, "closes_at_ms": NOON_MS}
    requests = [
        BoardRevision(name, None, values) for name in ("car.secret", "track.a") for values in ({}, unfit)
    ]
    results = await ledger.write(perform(family, requests, actor="server:a", at_ms=NOON_MS))
    assert [UNKNOWN_BOARD] * 4 == results


async def rows_of(ledger: Ledger, name: str) -> list[Any]:
    """Return what tables have of a board, without its name and without numbers of events."""
    of_fields = Query(select(_f.field, _f.value, _f.plays).where(_f.board == bindparam("board")))
    of_duties = Query(select(_d.duty, _d.window, _d.due_at_ms).where(_d.board == bindparam("board")))
    is_closed = (await ledger.read(boards_named([name])))[name].state is CLOSED

    async def work(tx: Transaction) -> list[Any]:
        duties = await tx.rows(of_duties, board=name) if is_closed else []
        return [sorted(await tx.rows(of_fields, board=name)), duties]

    return await ledger.read(work)


async def test_a_batch_leaves_what_its_operations_leave_one_by_one(ledger: Ledger, family: Family):
    """The same outcomes, boards, fields and events, also where a board closes, is deleted or comes back."""
    tails: dict[str, list[FamilyOperation]] = {}
    for length in range(1, 6):
        for way in ("one", "all"):
            name = f"{way}{length}"
            steps = [opening(name), *busy(name, 1), *busy(name, 2)[:length], turning(name, CLOSED)]
            tails[name] = [*steps, revision(name, title="Late"), opening(name, "other")]
    outcomes: dict[str, list[BoardOutcome]] = {}
    for name, steps in tails.items():
        batches = [[step] for step in steps] if name.startswith("one") else [steps]
        for batch in batches:
            results = await ledger.write(perform(family, batch, actor="server:a", at_ms=NOON_MS))
            outcomes.setdefault(name[3:], [])
            outcomes.setdefault(name, []).extend(result.outcome for result in results)
    for length in range(1, 6):
        one, whole = f"one{length}", f"all{length}"
        assert outcomes[one] == outcomes[whole]
        lives = [await ledger.read(life_of(f"track.{name}")) for name in (one, whole)]
        first, second = ([(e.reason, e.actor, str(e.detail)) for e in life] for life in lives)
        assert [(*each[:2], each[2].replace(one, whole)) for each in first] == second
        boards = await ledger.read(boards_named([f"track.{one}", f"track.{whole}"]))
        here, there = boards[f"track.{one}"], boards[f"track.{whole}"]
        for fact in ("state", "version", "metadata", "closes_at_ms", "opened_at_ms"):
            assert getattr(here, fact) == getattr(there, fact)
        assert await rows_of(ledger, f"track.{one}") == await rows_of(ledger, f"track.{whole}")
    assert len(tails) == await check_boards(ledger)


async def test_a_board_that_a_batch_closes_and_reopens_is_not_due_for_its_archive(
    ledger: Ledger, family: Family
):
    """It is played on; one that the batch leaves closed is due."""
    batch = [opening("n1"), turning("n1", CLOSED), turning("n1", OPEN), opening("n2"), turning("n2", CLOSED)]
    await ledger.write(perform(family, batch, actor="server:a", at_ms=NOON_MS))
    due = Query(select(_d.board, _d.duty))

    async def work(tx: Transaction) -> list[Row]:
        return await tx.rows(due)

    assert [("track.n2", "archive")] == list(map(tuple, await ledger.read(work)))


async def test_a_batch_may_delete_boards_that_were_opened_before_it_and_open_their_names_again(
    ledger: Ledger, family: Family
):
    """The database lets nobody open a board anew that is not deleted, so it is deleted first."""
    for batch in ([opening("n1")], [turning("n1", DELETED), opening("n1", "other")]):
        await ledger.write(perform(family, batch, actor="server:a", at_ms=NOON_MS))
    board = (await ledger.read(boards_named(["track.n1"])))["track.n1"]
    assert (OPEN, 3, {"class": "other"}) == (board.state, board.version, board.metadata)
    assert 1 == await check_boards(ledger)
