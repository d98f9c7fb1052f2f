"""What every read must answer, by plain SQL over what was written and acknowledged. It shares no code with the product.

Every operation that an answer acknowledged is a row in a database in memory. What stands in a window at an instant is one
query with window functions; what a page, a neighbourhood, a filter or a percentile shows is cut out of that.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.oracle.calendars import COMPOSITE_BEGIN_MS, FOREVER_MS, Span

EXACT = 2**53 - 1

_TABLES = """
CREATE TABLE submissions (step INTEGER PRIMARY KEY, submission TEXT UNIQUE, board TEXT, player TEXT, score INTEGER,
                          achieved_ms INTEGER, version INTEGER);
CREATE TABLE stats (submission TEXT, name TEXT, value INTEGER, PRIMARY KEY (submission, name));
CREATE TABLE turns (step INTEGER PRIMARY KEY, submission TEXT, counts INTEGER, at_ms INTEGER);
CREATE TABLE joins (step INTEGER PRIMARY KEY, board TEXT, player TEXT, joined INTEGER, at_ms INTEGER);
CREATE TABLE members (board TEXT, player TEXT, segment TEXT, value TEXT, PRIMARY KEY (board, player, segment));
CREATE TABLE friends (player TEXT, friend TEXT, PRIMARY KEY (player, friend));
CREATE INDEX turns_of ON turns (submission, step);
"""

_STANDINGS = """
WITH counting AS (
  SELECT step, submission, player, score, achieved_ms, :sign * score AS merit {columns}
  FROM submissions AS s
  WHERE board = :board AND achieved_ms >= :begin AND achieved_ms < :end
    AND 1 = (SELECT counts FROM turns AS t WHERE t.submission = s.submission AND t.at_ms <= :at
             ORDER BY t.step DESC LIMIT 1)
    AND (:is_open OR 1 = (SELECT joined FROM joins AS j WHERE j.board = s.board AND j.player = s.player
                          AND j.at_ms <= :at AND j.at_ms < :end ORDER BY j.step DESC LIMIT 1))
), numbered AS (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY player ORDER BY merit {ties}, achieved_ms, step) AS by_merit,
         ROW_NUMBER() OVER (PARTITION BY player ORDER BY achieved_ms DESC, step DESC) AS by_time,
         SUM(score) OVER (PARTITION BY player) AS points, COUNT(*) OVER (PARTITION BY player) AS times
  FROM counting
), standings AS (
  SELECT step, submission, player, {score} AS score, :sign * ({score}) AS merit, achieved_ms,
         (achieved_ms - :slots_begin) / :slot AS slot {tie_names}
  FROM numbered WHERE {which} = 1
)
SELECT ROW_NUMBER() OVER (ORDER BY {order}), RANK() OVER (ORDER BY merit {ties}),
       DENSE_RANK() OVER (ORDER BY merit {ties}), player, score, achieved_ms, submission, slot,
       RANK() OVER (ORDER BY merit) - 1,
       ABS(merit - MAX(merit) OVER (ORDER BY merit GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
FROM standings ORDER BY 1
"""


class Entry(NamedTuple):
    """An entry of a window; `slot` is the slot of time that it was reached in, where the board packs it."""

    unique: int
    sparse: int
    dense: int
    player: str
    score: int
    achieved_ms: int
    submission: str
    slot: int
    better: int
    gap: int | None


class Oracle:
    """All that was acknowledged, and what follows from it."""

    def __init__(self, policies: Mapping[str, dict[str, Any]]) -> None:
        self.policies = policies
        self.resolutions: dict[str, dict[str, int]] = {}
        """Of composite boards: how long the slots of each kind of window are, as the board's description states it."""
        self._sql = sqlite3.connect(":memory:")
        self._sql.executescript(_TABLES)
        self._known: dict[tuple[str, str, int], list[Entry]] = {}

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        self._known.clear()
        return self._sql.execute(statement, values).fetchall()

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._sql.execute(statement, values).fetchall()

    def write(
        self,
        board: str,
        player: str,
        submission: str,
        score: int,
        *,
        achieved_ms: int,
        at_ms: int,
        stats: Mapping[str, int],
        version: int | None = None,
    ) -> None:
        """A score that counts from `at_ms` on."""
        row = (submission, board, player, score, achieved_ms, version)
        self._run(
            "INSERT INTO submissions (submission, board, player, score, achieved_ms, version) VALUES (?, ?, ?, ?, ?, ?)",
            *row,
        )
        for name, value in stats.items():
            self._run("INSERT INTO stats VALUES (?, ?, ?)", submission, name, value)
        self.turn(submission, at_ms, counts=True)

    def turn(self, submission: str, at_ms: int, *, counts: bool) -> None:
        """From `at_ms` on it counts, or counts no more."""
        self._run(
            "INSERT INTO turns (submission, counts, at_ms) VALUES (?, ?, ?)", submission, int(counts), at_ms
        )

    def join(self, board: str, player: str, at_ms: int, *, joined: bool) -> None:
        self._run(
            "INSERT INTO joins (board, player, joined, at_ms) VALUES (?, ?, ?, ?)",
            board,
            player,
            int(joined),
            at_ms,
        )

    def put_into(self, board: str, player: str, segment: str, value: str | None) -> None:
        self._run("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?)", board, player, segment, value)

    def befriend(self, player: str, friends: Iterable[str]) -> None:
        """These are whom the player follows, in the place of those before."""
        self._run("DELETE FROM friends WHERE player = ?", player)
        for friend in friends:
            self._run("INSERT INTO friends VALUES (?, ?)", player, friend)

    def counting(self, board: str, player: str | None = None) -> list[tuple[str, str, int | None]]:
        """Submission, player and version of what counts now."""
        return self.ask(
            "SELECT submission, player, version FROM submissions AS s WHERE board = ? AND (? IS NULL OR player = ?) AND 1 = "
            "(SELECT counts FROM turns AS t WHERE t.submission = s.submission ORDER BY step DESC LIMIT 1) ORDER BY step",
            board,
            player,
            player,
        )

    def standings(self, board: str, span: Span, at_ms: int = FOREVER_MS) -> list[Entry]:
        """Everybody in a window, in the order of the board, as it stood at an instant or stands now."""
        key = (board, span.name, at_ms)
        if key not in self._known:
            statement, values = self._query(board, span, at_ms)
            self._known[key] = [Entry(*row) for row in self._sql.execute(statement, values)]
        return self._known[key]

    def _query(self, board: str, span: Span, at_ms: int) -> tuple[str, dict[str, Any]]:
        policy = self.policies[board]
        operator, tie_break = policy.get("operator", "best"), policy.get("tie_break", "first")
        columns, ties, names = "", "", ""
        for number, field in enumerate(policy.get("tie_fields", [])):
            sign = 1 if field.get("order") == "ascending" else -1
            value = f"SELECT {sign} * value FROM stats WHERE submission = s.submission AND name = '{field['stat']}'"
            columns += f", ({value}) AS tie{number}"
            ties += f", tie{number} IS NULL, tie{number}"  # a missing one is behind everything
            names += f", tie{number}"
        points = f"MAX(-{EXACT}, MIN({EXACT}, points))"
        statement = _STANDINGS.format(
            columns=columns,
            ties=ties,
            tie_names=names,
            score={"sum": points, "count": "times"}.get(operator, "score"),
            which="by_merit" if operator == "best" else "by_time",
            order="merit, slot, player" if tie_break == "composite" else f"merit {ties}, achieved_ms, step",
        )
        return statement, {
            "sign": 1 if policy.get("order") == "ascending" else -1,
            "board": board,
            "begin": span.begin_ms,
            "end": span.end_ms,
            "at": at_ms,
            "is_open": int(policy.get("joins") != "required"),
            "slots_begin": max(span.begin_ms, COMPOSITE_BEGIN_MS),
            "slot": self.resolutions.get(board, {}).get(span.kind, 1),
        }

    def friends_of(self, player: str) -> set[str]:
        """The player and whom they follow."""
        return {player, *(row[0] for row in self.ask("SELECT friend FROM friends WHERE player = ?", player))}

    def group(self, board: str, segment: str, value: str) -> set[str]:
        """The players of a group."""
        found = self.ask(
            "SELECT player FROM members WHERE board = ? AND segment = ? AND value = ?", board, segment, value
        )
        return {row[0] for row in found}


def among(entries: Sequence[Entry], players: set[str]) -> list[tuple[int, Entry]]:
    """Those of these players who stand there, each with the rank among them."""
    return list(enumerate((each for each in entries if each.player in players), start=1))


def percentile(total: int, better: int) -> float:
    return 100 * (total - better) / total


def scores_at(entries: Sequence[Entry], hundredths: Sequence[int]) -> list[int]:
    """The worst score whose percentile is no less, for each of these hundredths of a percent."""
    total = len(entries)
    return [
        next(each.score for each in reversed(entries) if (total - each.better) * 10_000 >= share * total)
        for share in hundredths
    ]


def histogram(scores: Sequence[int], edges: Sequence[int]) -> list[tuple[int | None, int | None, int]]:
    """Bins between these edges, one below all of them and one above: least, most and how many."""
    counts = [0] * (len(edges) + 1)
    for score in scores:
        counts[bisect_right(edges, score)] += 1
    ends = pairwise([None, *edges, None])
    return [
        (low, None if high is None else high - 1, count)
        for (low, high), count in zip(ends, counts, strict=True)
    ]


def equal_bins(scores: Sequence[int], bins: int) -> list[tuple[int | None, int | None, int]]:
    """At most so many bins of equal width, of at least one point, from the lowest score to the highest."""
    if not scores:
        return []
    least, most = min(scores), max(scores)
    width = (most - least) // bins + 1
    edges = [*range(least, most + 1, width), most + 1]
    return histogram(scores, edges)[1:-1]
