"""Measures what rollups cost: a promotion, a fold anew over many boards, and percentiles on a large board.

    python -m bench.rollups [--boards 100000] [--entries 100000]

On an SQLite file. A family's boards have five of 4,001 players each, and one player stands on all of them.
Measured are: on one board with `--entries` entries the first points of percentiles, then the promotion of one
run and what a steward does after it; the fold anew of each kind of rollup over all boards, and once more
when nothing is left to do; and a promoted run of the player who is everywhere, by kind of rollup.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from gateway.ledger.boards.board_opening import BATCH_LIMIT, open_boards
from gateway.ledger.boards.board_rows import FamilyTerms
from gateway.ledger.ledger import Ledger
from gateway.ledger.sqlite.store import SqliteLedger
from gateway.ledger.standings.anchors import respace, spacing_of, tend_anchors
from gateway.ledger.standings.rollup_moves import borders_of
from gateway.ledger.standings.rollup_points import RollupChange, changes_due, note_change
from gateway.ledger.standings.slots import put_standing, read_slot
from gateway.ledger.transaction import Transaction
from gateway.settlement.decision_records import Decision
from gateway.settlement.rollups import follow_change
from gateway.settlement.settle import settle
from gateway.shared_records import Standing
from gateway.steward.archive.refold import refold_board
from policies.loader import Board
from policies.model import Policy
from policies.opened_board import OpenedBoard
from policies.ranking import ReachedScore
from policies.vocabulary import Reason, State
from policies.windows import FOREVER_MS, window_named
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission

RUNS: Final = 50
KINDS: Final[Mapping[str, dict[str, Any]]] = {
    "sum": {"take": "sum"},
    "best": {"take": "best"},
    "count": {"take": "count"},
    "points": {"take": "points", "points": [10, 6, 3]},
    "percentiles": {
        "take": "points",
        "percentiles": [{"at": 99, "points": 100}, {"at": 90, "points": 50}, {"at": 50, "points": 10}],
    },
}


class Nowhere:
    """An index that keeps nothing: its cost is not measured here."""

    async def project(self, _board: Board, _changes: Sequence[object]) -> None:
        """Show nothing."""


def rollup(kind: str) -> Board:
    """Return a rollup of the family."""
    settings = {"family": "track", **KINDS[kind]}
    policy = Policy.model_validate({"board": kind, "title": kind, "rollup": settings})
    return Board(policy, f"sha256:{kind}", {})


def track(template: Board, name: str, *kinds: str) -> Board:
    """Return a board of the family, with rollups of these kinds."""
    policy = template.policy.model_copy(update={"board": name})
    return dataclasses.replace(template, policy=policy, rollups=tuple(map(rollup, kinds)))


async def fill(ledger: Ledger, template: Board, name: str, players: Sequence[str]) -> None:
    """Give players standings on a board, in one transaction, as if their runs had been promoted."""
    board = track(template, name)
    window = window_named(board.policy, "alltime")

    async def work(tx: Transaction) -> None:
        for score, player in enumerate(players):
            reached = ReachedScore(score, NOON_MS, 1, f"{name}-{player}", "")
            order, member = board.ranking.place(window, player, reached)
            standing = Standing(
                name, "alltime", player, "", score, NOON_MS, 1, reached.submission_id, FOREVER_MS, 1,
                order, member, board.ranking.rule,
            )  # fmt: skip
            slot = await read_slot(tx, board.ranking, "alltime", player)
            await put_standing(tx, board.ranking, standing, slot)

    await ledger.write(work)


async def promote(ledger: Ledger, board: Board, name: str, player: str, score: int) -> float:
    """Promote a run, and return how long that took, in seconds."""
    facts: dict[str, Any] = {"player": player, "score": score, "at_ms": NOON_MS + 1, "recording": None}
    await ledger.append(new_submission(name, board=board.name, **facts))
    began = time.perf_counter()
    pending = frozenset({State.PENDING})
    decision = Decision(name, State.PROMOTED, "replay", Reason.VERIFIED, NOON_MS, pending)
    await settle(ledger, Nowhere(), board, [decision])
    return time.perf_counter() - began


async def follow(ledger: Ledger, template: Board) -> tuple[int, float]:
    """Follow all that is noted, and return in how many transactions, and the seconds."""
    began, count = time.perf_counter(), 0
    while due := await ledger.read(changes_due(1)):
        [change] = due
        ranking = track(template, change.board).ranking
        league = rollup(change.rollup)
        [wanted] = await ledger.read(borders_of(league.ranking, [(ranking, change.window)]))
        await ledger.write(follow_change(league, ranking, change, wanted, at_ms=NOON_MS))
        count += 1
    return count, time.perf_counter() - began


async def anchor(ledger: Ledger, board: Board) -> None:
    """Set the anchors of a board's window, as a steward does."""
    await ledger.write(tend_anchors(board.ranking, "alltime"))
    while True:
        wide, spare = await ledger.read(spacing_of(board.ranking, "alltime"))
        if not wide:
            return
        await ledger.write(respace(board.ranking, "alltime", wide, spare))


async def measure_boards(ledger: Ledger, template: Board, count: int) -> None:
    """Measure promotions and folds anew with so many boards."""
    names = [f"track.b{number}" for number in range(count)]
    for begin in range(0, count, BATCH_LIMIT):
        batch = [OpenedBoard(name, "track", name) for name in names[begin : begin + BATCH_LIMIT]]
        terms = FamilyTerms("track", "sha256:track")
        await ledger.write(open_boards(terms, batch, actor="bench", at_ms=NOON_MS))
        filling = (
            fill(ledger, template, board.board, ["everywhere", *(f"p{4 * at + each}" for each in range(4))])
            for at, board in enumerate(batch)
        )
        await asyncio.gather(*filling)
    family: Any = SimpleNamespace(name="track", ranking_of=lambda name: track(template, name).ranking)
    for kind in KINDS:
        folded = []
        for _ in range(2):
            began = time.perf_counter()
            await refold_board(
                ledger, rollup(kind).policy, clock=lambda: NOON_MS, tell=lambda _: None, family=family
            )
            folded.append(time.perf_counter() - began)
        print(f"boards={count} refold {kind}: {folded[0]:.1f} s, again {folded[1]:.1f} s", flush=True)
    for round_of, kinds in enumerate(([], *([kind] for kind in KINDS))):
        label = kinds[0] if kinds else "none"
        taken = [
            await promote(
                ledger, track(template, names[at], *kinds), f"{label}-{at}", "everywhere", 1000 + round_of
            )
            for at in range(RUNS)
        ]
        rounds, seconds = await follow(ledger, template)
        each = f", then {1000 * seconds / rounds:.2f} ms a comparison" if rounds else ""
        print(f"promotion {label}: {1000 * statistics.median(taken):.2f} ms{each}", flush=True)


async def measure_entries(ledger: Ledger, template: Board, entries: int) -> None:
    """Measure percentiles on a board with so many entries."""
    board = track(template, "track.large", "percentiles")
    for begin in range(0, entries, 1000):
        players = [f"e{number}" for number in range(begin, begin + 1000)]
        await fill(ledger, template, board.name, players)
    await anchor(ledger, board)
    await ledger.write(lambda tx: note_change(tx, RollupChange("percentiles", board.name, "alltime", 1)))
    rounds, seconds = await follow(ledger, template)
    print(f"entries={entries}: first points in {rounds} transactions, {seconds:.1f} s", flush=True)
    promoted, followed = [], []
    for at in range(RUNS):
        promoted.append(await promote(ledger, board, f"large-{at}", f"n{at}", at))
        followed.append(await follow(ledger, template))
    print(
        f"one run: {1000 * statistics.median(promoted):.2f} ms, and "
        f"{statistics.median(rounds for rounds, _ in followed)} transactions of the steward, "
        f"{1000 * statistics.median(seconds for _, seconds in followed):.2f} ms",
        flush=True,
    )


async def measure(boards_count: int, entries: int) -> None:
    """Measure on an SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        template = boards.board(Path(folder), score={"minimum": -(2**40), "maximum": 2**40})
        ledger = SqliteLedger(Path(folder) / "ledger.sqlite3")
        await ledger.open()
        try:
            await measure_entries(ledger, template, entries)
            await measure_boards(ledger, template, boards_count)
        finally:
            await ledger.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=100_000)
    parser.add_argument("--entries", type=int, default=100_000)
    given = parser.parse_args()
    asyncio.run(measure(given.boards, given.entries))
