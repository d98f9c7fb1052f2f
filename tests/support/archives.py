"""A ledger in memory with an archive, a clock that is set by hand, and what the archive must then say."""

from __future__ import annotations

import asyncio
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from gateway.ledger.archive.reading import archived_page
from gateway.ledger.archive.windows import ArchivedWindow, archived_window
from gateway.ledger.standings.history import board_as_of
from gateway.ledger.transaction import Operation
from gateway.runtime.settings import Settings
from gateway.settlement.settle import receive
from gateway.steward.archive.archiving import Archiver, ranking_of
from policies.choices import WindowKind
from policies.fields import SortOrder
from policies.loader import Board
from policies.vocabulary import Claim, State
from policies.windows import FOREVER_MS, Window, window_at
from tests.support import boards
from tests.support.books import Books, T
from tests.support.ledger import NOON_MS, new_submission

DAY_S = 86_400
BOUNDS = {"minimum": -20, "maximum": 20}

VARIANTS: dict[str, dict[str, Any]] = {
    "first": {},
    "first ascending": {"order": "ascending"},
    "fields": {
        "tie_break": "fields",
        "tie_fields": [{"stat": "moves", "order": "ascending"}, {"stat": "lives"}],
    },
    "composite": {"tie_break": "composite", "tie_resolution_ms": 1000},
    "composite ascending": {"tie_break": "composite", "tie_resolution_ms": 1000, "order": "ascending"},
    "latest": {"operator": "latest"},
    "sum of fields": {"operator": "sum", "tie_break": "fields", "tie_fields": [{"stat": "moves"}]},
    "count": {"operator": "count"},
}  # fmt: skip
"""Policies of each tie-break and operator, in both orders."""


@lru_cache(maxsize=32)
def board_with(variant: str) -> Board:
    return a_board(**VARIANTS[variant])


def a_board(**changes: Any) -> Board:
    """The tiny board, with all windows but seasons unless it says otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        return boards.board(Path(folder), **({"score": BOUNDS} | changes))


class HandClock:
    """A clock that stands still until it is set."""

    def __init__(self, at_ms: int = NOON_MS) -> None:
        self.at_ms = at_ms

    def __call__(self) -> int:
        return self.at_ms

    def shift(self, seconds: float) -> None:
        self.at_ms += round(seconds * 1000)


class Shelf(Books):
    """Books with an archive and the steward's hand on it. `writes` counts the archiver's transactions."""

    def __init__(self, board: Board, *, at_ms: int = NOON_MS, **settings: Any) -> None:
        super().__init__(board)
        self.clock = HandClock(at_ms)
        self.settings = Settings(**settings)
        self.writes = 0
        self.archiver = self.another_archiver()

    async def write(self, work: Operation[T]) -> T:
        self.writes += 1
        return self.do(work)

    def another_archiver(self) -> Archiver:
        """A steward of its own over the same ledger."""
        return Archiver(self.settings, self, self.board, clock=self.clock)  # type: ignore[arg-type]

    def submit(
        self,
        submission_id: str,
        player: str = "ada",
        score: int = 1,
        *,
        at_ms: int | None = None,
        **stats: int,
    ) -> None:
        """A submission that is pending."""
        at_ms = self.clock() if at_ms is None else at_ms
        new = new_submission(submission_id, player=player, at_ms=at_ms, recording=None)
        run = new.submission._replace(claim=Claim(score, 25, stats))
        self.do(lambda tx: receive(tx, new._replace(submission=run)))

    def score(self, submission_id: str, *who: Any, **what: Any) -> None:
        """A submission that counts at once."""
        self.submit(submission_id, *who, **what)
        self.decide(submission_id, State.PROMOTED)

    def step(self) -> int:
        """One round of the steward."""
        return asyncio.run(self.archiver.step())

    def settle_down(self) -> int:
        """Rounds until one finds nothing to do, a quiet while apart; how many there were."""
        rounds = 0
        while self.step():
            rounds += 1
        self.clock.shift(60)
        return rounds + (self.settle_down() + 1 if self.step() else 0)

    def window(self, kind: WindowKind = WindowKind.DAILY, at_ms: int | None = None) -> Window:
        return window_at(self.board.policy, kind, self.clock() if at_ms is None else at_ms)

    def archived(self, name: str) -> ArchivedWindow | None:
        return self.do(archived_window(self.board.name, name))

    def ranks(self, name: str) -> list[tuple[int, int, int, str, int, str]]:
        """Unique, sparse and dense rank, player, score and submission of each archived entry."""
        found = self.do(archived_page(self.board.name, name, first=0, count=10_000))
        assert found is not None
        return [(*each[:4], each.score, each.submission_id) for each in found.entries]

    def due_ranks(self, name: str) -> list[tuple[int, int, int, str, int, str]]:
        """Return the same, counted in SQL over the fold of the log, under the policy of the frozen window."""
        found = self.archived(name)
        assert found is not None
        ranking = ranking_of(found, self.board.policy)
        ledger: Any = self
        folded = asyncio.run(board_as_of(ledger, ranking.policy, found.span, FOREVER_MS))
        self.connection.execute("CREATE TEMP TABLE folded (place, merit, ties, player, score, submission)")
        sign = 1 if ranking.policy.order is SortOrder.ASCENDING else -1
        rows = [(n, sign * e.score, e.ties, e.player, e.score, e.submission_id) for n, e in enumerate(folded)]
        self.connection.executemany("INSERT INTO folded VALUES (?, ?, ?, ?, ?, ?)", rows)
        ranked = self.rows(
            "SELECT ROW_NUMBER() OVER (ORDER BY place), RANK() OVER (ORDER BY merit, ties), "
            "DENSE_RANK() OVER (ORDER BY merit, ties), player, score, submission FROM folded ORDER BY place"
        )
        self.connection.execute("DROP TABLE folded")
        return ranked  # type: ignore[return-value]

    def assert_archived(self, *names: str) -> None:
        """Assert that each window is archived as the ledger folds it, with its counts, in one revision."""
        for name in names:
            found = self.archived(name)
            assert found is not None, name
            assert (True, 0) == (found.is_readable, found.changed_seq), name
            ranks = self.ranks(name)
            assert self.due_ranks(name) == ranks
            assert (len(ranks), ranks[-1][2] if ranks else 0) == (found.entries, found.groups)
            left = self.connection.execute(
                "SELECT count(*) FROM archived_entries WHERE window = ?", [name]
            ).fetchone()
            assert (len(ranks),) == left
