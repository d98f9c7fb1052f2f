"""A board as it stood at an instant, on every ledger: what stood then is read from the live tables at that very instant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.standings.history import board_as_of, ranks_of
from gateway.ledger.standings.rollup_history import rollup_as_of
from gateway.settlement.decision_records import Decision
from gateway.settlement.joins import set_joined
from gateway.settlement.settle import _decide_all, receive
from policies.choices import RankKind
from policies.loader import Board, load_policies
from policies.opened_board import OpenedBoard
from policies.ranking import Ranking
from policies.vocabulary import Claim, Reason, State
from policies.windows import window_named
from tests.support import boards
from tests.support.families import open_tracks, write_family
from tests.support.ledger import NOON_MS, new_submission
from tests.support.policies import write_policies
from tests.support.stores import Store, open_in

DAY_MS = 86_400_000
WINDOWS = ("alltime", "daily:20251120", "daily:20251121")


async def score(ledger: Ledger, board: Board, player: str, points: int, at_ms: int, **stats: int) -> None:
    """A run that counts from the instant on in which it came."""
    name = f"{player}-{at_ms}"
    new = new_submission(name, board=board.name, player=player, at_ms=at_ms, recording=None)
    run = new.submission._replace(claim=Claim(points, 25, stats))
    await ledger.write(lambda tx: receive(tx, new._replace(submission=run)))
    pending = frozenset({State.PENDING})
    decision = Decision(name, State.PROMOTED, "replay", Reason.VERIFIED, at_ms, pending)
    await ledger.write(_decide_all(board, [decision]))


async def stands(store: Store) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in WINDOWS}
    for window, player in await store.sql(
        'SELECT "window", player FROM standings WHERE score IS NOT NULL ORDER BY score DESC, achieved_at_ms'
    ):
        if window in found:
            found[window].append(player)
    return found


async def test_B05_a_board_to_be_joined_is_shown_with_who_was_on_it_then(store: Store, tmp_path: Path):
    """After each score, each joining and each leaving it is what stood from that instant on, also in a day that was over."""
    board = boards.board(tmp_path, joins="required", windows=["alltime", "daily"])
    steps: list[tuple[str, Any]] = [
        ("ada", 5), ("ada", True), ("bob", 7), ("cy", True), ("cy", 9), ("ada", False), ("bob", True), ("ada", True),
        ("next day", None),
        ("ada", False), ("dee", 3), ("bob", False), ("dee", True), ("bob", 8), ("bob", True), ("cy", 1), ("cy", False),
    ]  # fmt: skip
    then, at_ms = [], NOON_MS
    async with open_in(store) as ledger:
        for player, change in steps:
            at_ms += DAY_MS if change is None else 1000
            if isinstance(change, bool):
                turn = set_joined(board, player, joins_now=change, actor="test", now_ms=at_ms)
                assert await ledger.write(turn)
            elif change is not None:
                await score(ledger, board, player, change, at_ms)
            then.append((at_ms, await stands(store)))
        seen = [
            {
                name: [
                    each.player
                    for each in await board_as_of(ledger, board.policy, window_named(board.policy, name), at)
                ]
                for name in WINDOWS
            }
            for at in [*(at for at, _ in then), *(at - 1 for at, _ in then[1:])]
        ]
    due = [each for _, each in then]
    assert due + due[:-1] == seen
    assert ["cy", "bob", "ada"] == due[-1]["daily:20251120"] != due[-1]["alltime"]


async def test_a_rollup_is_shown_with_who_had_joined_its_boards_by_then(store: Store, tmp_path: Path):
    """Whoever joins after an instant was on no board at it, however much they had scored."""
    folder = write_family(tmp_path, joins="required").parent
    write_policies(folder, {"board": "world", "title": "World", "rollup": {"family": "track"}})
    policies = load_policies(folder)
    family, rollup = policies.families["track"], Ranking(policies.boards["world"].policy)
    board, window = (
        family.board(OpenedBoard("track.spa", "track", "Spa")),
        window_named(family.template, "alltime"),
    )
    async with open_in(store) as ledger:
        await open_tracks(ledger, board.name)
        await score(ledger, board, "ada", 5, NOON_MS)
        joining = set_joined(board, "ada", joins_now=True, actor="test", now_ms=NOON_MS + 1000)
        assert await ledger.write(joining)
        found = [
            [each.player for each in await rollup_as_of(ledger, rollup, family, window, at_ms)]
            for at_ms in (NOON_MS + 999, NOON_MS + 1000)
        ]
    assert [[], ["ada"]] == found


RULES: dict[str, dict[str, Any]] = {
    "first": {},
    "ascending": {"order": "ascending"},
    "fields": {"tie_break": "fields", "tie_fields": [{"stat": "moves"}]},
    "composite": {"tie_break": "composite", "tie_resolution_ms": 1000},
}


@pytest.mark.parametrize("rule", RULES)
async def test_B06_who_was_tied_had_the_same_rank(store: Store, tmp_path: Path, rule: str):
    """Each kind of rank is what SQL's ROW_NUMBER, RANK and DENSE_RANK say of what was written, on any page."""
    board = boards.board(tmp_path, score={"minimum": 0, "maximum": 9}, **RULES[rule])
    written = [
        (f"p{n}", (0, 4, 4, 4, 2, 2, 9)[n], (1, 1, 2, 1, 3, 3, 0)[n], NOON_MS + n * 5000) for n in range(7)
    ]
    window = window_named(board.policy, "alltime")
    async with open_in(store) as ledger:
        for player, points, moves, at_ms in written:
            await score(ledger, board, player, points, at_ms, moves=moves)
        found = await board_as_of(ledger, board.policy, window, NOON_MS + DAY_MS)
    sign = "" if rule == "ascending" else "-"
    tied = f"{sign}score" + (", -moves" if rule == "fields" else "")
    values = ", ".join(
        f"('{player}', {points}, {moves}, {at_ms})" for player, points, moves, at_ms in written
    )
    due = await store.sql(
        f"WITH written (player, score, moves, at_ms) AS (VALUES {values}) "
        f"SELECT player, ROW_NUMBER() OVER (ORDER BY {tied}, at_ms), RANK() OVER (ORDER BY {tied}), "
        f"DENSE_RANK() OVER (ORDER BY {tied}) FROM written ORDER BY 2"
    )
    kinds = (RankKind.UNIQUE, RankKind.SPARSE, RankKind.DENSE)
    for begin in range(7):
        ranks = [ranks_of(found, board.ranking, window, kind, begin=begin) for kind in kinds]
        assert due[begin:] == [
            (each.player, *row) for each, row in zip(found[begin:], zip(*ranks, strict=True), strict=True)
        ]
