"""Boards that are open already are found by the fields that a changed policy declares."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.ledger.boards import filter_filling
from gateway.ledger.boards.board_opening import open_boards
from gateway.ledger.boards.board_rows import BoardOutcome
from gateway.ledger.boards.field_filters import FIELD_VALUES, VALUE_LENGTH
from gateway.ledger.boards.life_changes import set_states
from gateway.ledger.boards.listing import boards_of_family
from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.boards.plays import count_plays
from gateway.ledger.ledger import Ledger
from gateway.steward import family_boards
from gateway.steward.family_boards import BoardKeeper
from policies.opened_board import BoardState, OpenedBoard
from tests.contract.test_boards_of_families import TRACKS, track
from tests.support.families import change_boards, tracks
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in


def keeper(ledger: Ledger, **fields: list[str]) -> BoardKeeper:
    """A steward's part, under policies that declare these fields."""
    families = {
        name: SimpleNamespace(policy=SimpleNamespace(metadata_filters=dict.fromkeys(declared)))
        for name, declared in fields.items()
    }
    return BoardKeeper(ledger, SimpleNamespace(families=families), clock=lambda: NOON_MS)  # type: ignore[arg-type]


async def listed(ledger: Ledger, **filters: str) -> list[str]:
    page = await ledger.read(boards_of_family("track", filters=list(filters.items())))
    return [board.rest for board in page.boards]


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_filling, "SLICE", 3)
    monkeypatch.setattr(family_boards, "FILLED_AT_ONCE", 2)


async def test_boards_are_found_by_the_fields_that_a_policy_declares_now(store: Store):
    """In slices, from where an earlier steward came; open and closed boards, and those of no other family."""
    many: dict[str, Any] = {"tag": [f"{n:02}" for n in range(FIELD_VALUES + 4)] + ["0" * (VALUE_LENGTH + 1)]}
    async with open_in(store) as ledger:
        batch = [
            track(f"b{n}", metadata={"class": "gt3", "land": "it" if n % 2 else "be"}) for n in range(11)
        ]
        batch += [track("many", metadata=many), track("gone", metadata={"land": "it"})]
        await ledger.write(open_boards(TRACKS, batch, actor="cli", at_ms=NOON_MS))
        others = TRACKS._replace(family="car", fields=())
        await ledger.write(
            open_boards(
                others,
                [OpenedBoard("car.a", "car", "A", {"land": "it"})],
                actor="cli",
                at_ms=0,
            )
        )
        await ledger.write(set_states(TRACKS, ["track.b3"], BoardState.CLOSED, actor="cli", at_ms=NOON_MS))
        await ledger.write(set_states(TRACKS, ["track.gone"], BoardState.DELETED, actor="cli", at_ms=NOON_MS))
        await ledger.append(new_submission("r", board="track.b5", at_ms=NOON_MS))
        await ledger.write(count_plays())
        assert [] == await listed(ledger, land="it")
        before = await listed(ledger, **{"class": "gt3"})
        assert 11 == len(before)

        policy = {"track": ["land", "tag"], "plain": []}
        assert 6 == await keeper(ledger, **policy).fill_filters(), "two slices in a round"
        assert ["b1", "b3", "b5"] == await listed(ledger, land="it")
        assert 6 == await keeper(ledger, **policy).fill_filters(), "another steward goes on"
        assert 0 == await keeper(ledger, **policy).fill_filters()
        assert ["b1", "b3", "b5", "b7", "b9"] == await listed(ledger, land="it")
        assert ["many"] == await listed(ledger, tag="00")
        assert [] == await listed(ledger, **{"class": "gt3"})
        rows = await store.sql("SELECT board, plays FROM board_fields WHERE field = 'land'")
        plays = dict(await store.sql("SELECT board, plays FROM boards"))
        assert {f"track.b{n}": plays[f"track.b{n}"] for n in range(11)} == dict(rows)
        tags = await store.sql("SELECT value FROM board_fields WHERE field = 'tag' ORDER BY value")
        assert [f"{n:02}" for n in range(FIELD_VALUES)] == [value for (value,) in tags]

        # An edge that still has the policy before opens one more.
        await ledger.write(
            open_boards(
                TRACKS, [track("late", metadata={"class": "gt3", "land": "it"})], actor="cli", at_ms=0
            )
        )
        assert 1 == await keeper(ledger, **policy).fill_filters()
        assert ["b1", "b3", "b5", "b7", "b9", "late"] == await listed(ledger, land="it")
        assert [] == await listed(ledger, **{"class": "gt3"})

        without = keeper(ledger, track=[])
        while await without.fill_filters():
            pass
        assert [] == await store.sql("SELECT * FROM board_fields")
        written = await store.sql("SELECT consumer, seq FROM progress WHERE board = 'plain'")
        assert [] == written, "nothing is noted of a family that never declared a field"


async def test_a_board_that_an_edge_files_by_earlier_fields_is_filled_again(store: Store):
    """The filling goes back to that board, and no further; boards that are filed by the fields of the day do not move it."""
    async with open_in(store) as ledger:
        batch = [track(f"b{n}", metadata={"class": "gt3", "land": "it"}) for n in range(9)]
        await ledger.write(open_boards(TRACKS, batch, actor="cli", at_ms=NOON_MS))
        today = keeper(ledger, track=["land"])
        while await today.fill_filters():
            pass
        board = (await ledger.read(boards_named(["track.b6"])))["track.b6"]
        for fields, others, filled in ((("land",), "be", 0), (("class",), "fr", 3)):
            changed = replace(board, version=board.version, metadata={"class": "f1", "land": others})
            assert [BoardOutcome.CHANGED] == await change_boards(ledger, tracks(*fields), changed)
            board = replace(changed, version=changed.version + 1)
            assert filled == await today.fill_filters()
        assert 0 == await today.fill_filters()
        assert (["b6"], [], []) == (
            await listed(ledger, land="fr"),
            await listed(ledger, land="be"),
            await listed(ledger, **{"class": "f1"}),
        )


async def test_filling_that_is_cut_by_another_change_begins_anew(store: Store):
    """A board that was filled with the fields before the last change is filled again."""
    async with open_in(store) as ledger:
        batch = [track(f"b{n}", metadata={"class": "gt3", "land": "it"}) for n in range(8)]
        await ledger.write(open_boards(TRACKS._replace(fields=()), batch, actor="cli", at_ms=NOON_MS))
        await keeper(ledger, track=["class"]).fill_filters()
        assert 6 == len(await listed(ledger, **{"class": "gt3"}))
        last = keeper(ledger, track=["land"])
        while await last.fill_filters():
            pass
        assert ([], 8) == (await listed(ledger, **{"class": "gt3"}), len(await listed(ledger, land="it")))
