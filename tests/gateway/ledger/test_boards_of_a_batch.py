"""What a batch of boards writes at its end: each board and each event once, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.ledger.boards import board_batch
from gateway.ledger.boards.board_batch import BoardBatch
from gateway.ledger.boards.board_rows import FamilyTerms, LifeChange, StoredBoard
from gateway.ledger.derived.board_duties import BoardDuty, DueDuty
from gateway.ledger.schema import boards, events
from policies.opened_board import BoardState, OpenedBoard

TERMS = FamilyTerms("track", "sha256:p", ("map",))
OPEN = OpenedBoard("track.a", "track", "A", {"map": "oak"}, opened_seq=3)
CLOSED = replace(OPEN, state=BoardState.CLOSED, version=2)
DELETED = replace(CLOSED, state=BoardState.DELETED, version=3)
AGAIN = OpenedBoard("track.a", "track", "Anew", {"map": "elm"}, version=4)
NOW_MS = 50_000


class Written:
    """A transaction that notes what is written, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, rules: Sequence[str] = ()) -> None:
        self.done: list[Any] = []

        def noted(name: str, answer: Any = None) -> Any:
            async def work(_tx: object, *given: Any) -> Any:
                self.done.append((name, *map(list_of, given)))
                return answer

            return work

        for name in ("put_all_fields", "fill_again", "note", "withdraw", "fold_again"):
            monkeypatch.setattr(board_batch, name, noted(name))
        monkeypatch.setattr(board_batch, "rules_of_alltime", noted("rules", list(rules)))

    async def insert(self, table: Any, rows: Sequence[Any]) -> None:
        self.done.append(
            (f"insert {table.name}", [dict(zip(table.columns.keys(), row, strict=True)) for row in rows])
        )

    async def run_each(self, query: object, rows: Sequence[Any]) -> None:
        name = "change" if query is board_batch._CHANGE else "open again"
        self.done.append((name, list(rows)))

    def of(self, name: str) -> list[Any]:
        """What was written under this name, all of it that is not empty."""
        return [given for each, *given in self.done if each == name and any(given)]


def list_of(value: Any) -> Any:
    return value if isinstance(value, str | tuple) else list(value)


def a_batch(tx: Any, *known: StoredBoard) -> BoardBatch:
    return BoardBatch(tx, TERMS, {each.board.board: each for each in known}, "ops", NOW_MS, 20)


def test_events_are_numbered_on_and_boards_known_by_their_family(monkeypatch: pytest.MonkeyPatch):
    """The first has the number after the newest; a board of another family is none of it."""
    other = OpenedBoard("road.a", "road", "R")
    batch = a_batch(Written(monkeypatch), StoredBoard(OPEN, 3, 3, 7), StoredBoard(other, 4, 4))
    assert 21 == batch.next_seq
    assert (None, None, OPEN) == (
        batch.of_family("road.a"),
        batch.of_family("track.b"),
        batch.of_family("track.a").board,  # type: ignore[union-attr]
    )
    assert StoredBoard(CLOSED, 3, 21, 7) == batch.put(CLOSED, LifeChange.CLOSED, {})
    assert 22 == batch.next_seq
    assert CLOSED == batch.of_family("track.a").board  # type: ignore[union-attr]
    assert StoredBoard(AGAIN, 22, 22, 0) == batch.put(AGAIN, LifeChange.OPENED, {})


async def test_a_new_board_is_a_row_an_event_and_its_fields(monkeypatch: pytest.MonkeyPatch):
    """With the actor, the time and the policy of the batch; before it there was nothing."""
    tx = Written(monkeypatch)
    batch = a_batch(tx)
    new = OpenedBoard("track.b", "track", "B", {"map": "oak"})
    batch.put(new, LifeChange.OPENED, {"title": "B"})
    await batch.store()
    [[[row]]], [[[event]]] = tx.of("insert boards"), tx.of("insert events")
    assert ("track.b", "track", "open", 21, 21, 0) == tuple(
        row[name] for name in ("board", "family", "state", "opened_seq", "seq", "plays")
    )
    expected = ("", "open", "ops", "board-opened", "sha256:p", '{"title":"B"}', NOW_MS, 21, "track.b")
    names = ("from_state", "to_state", "actor", "reason", "policy", "detail", "at_ms", "seq", "board")
    assert expected == tuple(event[name] for name in names)
    [[[(stored, fields)]]] = tx.of("put_all_fields")
    assert (21, 1) == (stored.seq, len(fields))
    [[terms, filled]] = tx.of("fill_again")
    assert (tuple(TERMS), [stored]) == (tuple(terms), filled)
    assert [] == [each for name in ("change", "open again", "note") for each in tx.of(name)]


@pytest.mark.parametrize(
    ("detail", "is_filed"), [({"title": "X"}, False), ({"metadata": {"map": "elm"}}, True)]
)
async def test_a_change_is_written_once_and_filed_anew_only_with_its_metadata(
    monkeypatch: pytest.MonkeyPatch, detail: dict[str, Any], is_filed: bool
):
    """However often the batch turns it: the row as it is at the end, and every event with the state before."""
    tx = Written(monkeypatch)
    batch = a_batch(tx, StoredBoard(OPEN, 3, 3, 7))
    changed = replace(OPEN, title="X", version=2)
    batch.put(changed, LifeChange.CHANGED, detail)
    batch.put(replace(changed, version=3, state=BoardState.CLOSED), LifeChange.CLOSED, {})
    await batch.store()
    [[[row]]] = tx.of("change")
    names = {"title", "metadata", "bounds", "opens_at_ms", "closes_at_ms", "state", "version", "seq"}
    assert {"of_board", *(f"new_{name}" for name in names)} == set(row)
    assert ("track.a", "X", "closed", 3, 22) == tuple(
        row[name] for name in ("of_board", "new_title", "new_state", "new_version", "new_seq")
    )
    [[rows]] = tx.of("insert events")
    assert [("open", "open", 21), ("open", "closed", 22)] == [
        (each["from_state"], each["to_state"], each["seq"]) for each in rows
    ]
    assert [] == tx.of("insert boards") + tx.of("open again")
    assert is_filed is bool(tx.of("put_all_fields")) is bool(tx.of("fill_again"))


@pytest.mark.parametrize("was_deleted", [True, False])
async def test_a_name_that_is_opened_again_has_a_row_anew_behind_its_end(
    monkeypatch: pytest.MonkeyPatch, was_deleted: bool
):
    """A board that this batch deletes first is first written as deleted: only such a row becomes another's."""
    tx = Written(monkeypatch)
    before = DELETED if was_deleted else CLOSED
    batch = a_batch(tx, StoredBoard(before, 3, 9, 7))
    if not was_deleted:
        batch.put(DELETED, LifeChange.DELETED, {})
    batch.put(AGAIN, LifeChange.OPENED, {})
    await batch.store()
    [[[row]]] = tx.of("open again")
    seq = 21 if was_deleted else 22
    assert ("track.a", "Anew", "open", 4, seq, seq, 0) == tuple(
        row[f"{'new_' * (name != 'of_board')}{name}"]
        for name in ("of_board", "title", "state", "version", "seq", "opened_seq", "plays")
    )
    every = {column.name for column in boards.columns} - {"board", "lane", "family"}
    assert {"of_board", *(f"new_{name}" for name in every)} == set(row)
    ended = [each["new_state"] for [each] in [given[0] for given in tx.of("change")]]
    assert ([] if was_deleted else ["deleted"]) == ended
    order = [name for name, *given in tx.done if name in {"change", "open again"} and any(given)]
    assert [*["change"] * (not was_deleted), "open again"] == order


async def test_a_deleted_board_is_found_by_nothing(monkeypatch: pytest.MonkeyPatch):
    """Its fields go with it, and it leaves the archive; nobody folds it."""
    tx = Written(monkeypatch, rules=["r"])
    batch = a_batch(tx, StoredBoard(CLOSED, 3, 9))
    batch.put(DELETED, LifeChange.DELETED, {})
    batch.withdraw(DELETED)
    await batch.store()
    [[[(stored, fields)]]] = tx.of("put_all_fields")
    assert (BoardState.DELETED, frozenset()) == (stored.board.state, fields)
    assert [[["track.a"]]] == tx.of("withdraw")
    assert ("rules", []) in tx.done


async def test_a_closed_board_is_looked_at_ten_seconds_later(monkeypatch: pytest.MonkeyPatch):
    """By then every catalogue has it as closed; the duty names the event that closed it."""
    tx = Written(monkeypatch)
    batch = a_batch(tx, StoredBoard(OPEN, 3, 3))
    batch.put(CLOSED, LifeChange.CLOSED, {})
    batch.archive(CLOSED)
    await batch.store()
    due = DueDuty(BoardDuty.ARCHIVE, "track.a", "alltime", NOW_MS + 10_000, 21, 21)
    assert [[[due]]] == tx.of("note")


@pytest.mark.parametrize("rules", [[], ["rule"]])
async def test_a_reopened_board_leaves_the_archive_and_is_folded_if_its_rule_has_changed(
    monkeypatch: pytest.MonkeyPatch, rules: list[str]
):
    """The rules are read before the archive is left; a closing of the same batch is not looked at."""
    tx = Written(monkeypatch, rules=rules)
    batch = a_batch(tx, StoredBoard(OPEN, 3, 3))
    batch.put(CLOSED, LifeChange.CLOSED, {})
    batch.archive(CLOSED)
    batch.put(replace(OPEN, version=3), LifeChange.REOPENED, {})
    batch.withdraw(OPEN)
    await batch.store()
    names = [name for name, *_ in tx.done]
    assert names.index("insert events") < names.index("rules") < names.index("withdraw") < names.index("note")
    assert [[["track.a"]]] == tx.of("rules") == tx.of("withdraw")
    assert ([["track", rules]] if rules else []) == tx.of("fold_again")
    assert [] == tx.of("note")
    assert events.name == "events"


async def test_the_boards_of_a_batch_are_read_once_each(monkeypatch: pytest.MonkeyPatch):
    """In the order in which they are named first; the newest number is the ledger's."""
    asked: list[list[str]] = []

    async def load_boards(_tx: object, names: list[str]) -> dict[str, StoredBoard]:
        asked.append(names)
        return {"track.a": StoredBoard(OPEN, 3, 3)}

    async def newest(_tx: object) -> int:
        return 9

    monkeypatch.setattr(board_batch, "load_boards", load_boards)
    monkeypatch.setattr(board_batch, "newest_seq", lambda: newest)
    tx: Any = Written(monkeypatch)
    batch = await BoardBatch.begin(tx, TERMS, ["track.b", "track.a", "track.b"], "ops", NOW_MS)
    assert ([["track.b", "track.a"]], 10, "ops", NOW_MS, TERMS) == (
        asked,
        batch.next_seq,
        batch.actor,
        batch.at_ms,
        batch.terms,
    )
