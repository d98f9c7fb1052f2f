"""Windows that are over follow a merge and its undoing, also long after their standings have gone."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.ledger.players.merges import Merge
from gateway.settlement.merges import MergeFollower, begin, undo
from policies.choices import WindowKind
from tests.support.archives import DAY_S, Shelf, board_with
from tests.support.banning import Boards
from tests.support.ledger import NOON_MS
from tests.support.sealed import Nowhere


def test_an_archived_window_has_a_merged_players_runs_with_whom_they_count_for() -> None:
    """After the merge the day has the target alone, with the better score; after its undoing both, as they stood."""
    shelf = Shelf(board_with("first"))
    shelf.score("s1", "ada", 2, at_ms=NOON_MS)
    shelf.score("s2", "bob", 1, at_ms=NOON_MS)
    name = shelf.window(WindowKind.DAILY, NOON_MS).name
    shelf.clock.at_ms = NOON_MS + 80 * DAY_S * 1000
    shelf.settle_down()
    before = shelf.ranks(name)
    boards: Any = Boards({"tiny": shelf.board})
    follower = MergeFollower(shelf, Nowhere(), boards)  # type: ignore[arg-type]

    def followed() -> list[Any]:
        asyncio.run(follower.follow("m1", now_ms=shelf.clock(), slices=100))
        shelf.settle_down()
        shelf.assert_archived(name)
        return shelf.ranks(name)

    shelf.do(begin(Merge("m1", "ada", "bob", "player:bob", shelf.clock())))
    assert [("bob", 2)] == [row[3:5] for row in followed()]
    shelf.do(undo("m1", by="player:bob", now_ms=shelf.clock()))
    assert {"ada", "bob"} == {row[3] for row in before}
    assert before == followed()
