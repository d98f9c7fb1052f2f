"""Every kind of read of every window, each with what it must answer; and what an answer says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

from tests.oracle import oracle as sql
from tests.oracle.calendars import Span, span_at
from tests.oracle.driver import PLAYERS, VALUES, Driver
from tests.oracle.oracle import Entry
from tests.support.groups import token_of
from tests.support.harness import Answer, Harness

UNAVAILABLE = (503, "dependency-unavailable")


class Asked(NamedTuple):
    """A read, and what it must answer. `needs_index`: without all of the index it may be refused, and never wrong."""

    path: str
    status: int
    body: dict[str, Any]
    token: str | None = None
    needs_index: bool = False


@dataclass
class Report:
    """What was compared so far."""

    answers: int = 0
    entries: int = 0
    refused: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.answers} answers, {self.entries} entries, {self.refused} refused while the index was away, "
            f"{len(self.differences)} differences"
        )


class Comparison:
    """All reads of a deployment against its oracle."""

    def __init__(self, driver: Driver, random: Random, label: str, report: Report) -> None:
        self.driver = driver
        self.harness: Harness = driver.harness
        self.oracle = driver.oracle
        self.random = random
        self.label = label
        self.report = report

    async def compare(self, spans: dict[str, list[Span]], *, is_whole: bool = True) -> None:
        """Every read of these windows of each board. `is_whole`: nothing may be refused for lack of the index."""
        for board, of_board in spans.items():
            for span in of_board:
                for asked in self._reads(board, span):
                    answer = await self.harness.get(asked.path, asked.token)
                    self._hold(board, span, asked, answer, is_whole=is_whole)
                await self._walk(board, span)

    def _hold(self, board: str, span: Span, asked: Asked, answer: Answer, *, is_whole: bool) -> None:
        self.report.answers += 1
        if asked.needs_index and not is_whole and (answer.status, answer.problem) == UNAVAILABLE:
            self.report.refused += 1
            return
        slots = self._slots(board, span)
        expected, got = _plain(asked.body, slots), _plain(_body(answer), slots, asked.body.keys())
        self.report.entries += len(got.get("entries", ()))
        if (asked.status, expected) != (answer.status, got):
            self._tell(board, asked.path, (asked.status, expected), (answer.status, got or answer.raw))

    def _tell(self, board: str, path: str, expected: Any, got: Any) -> None:
        policy = self.oracle.policies[board]
        self.report.differences.append(
            f"{self.label}\n  board    {policy}\n  request  GET {path} at {_text(self.driver.now_ms)}\n"
            f"  expected {expected}\n  got      {got}"
        )

    def _slots(self, board: str, span: Span) -> tuple[int, int]:
        """Beginning and length of the slots of time that the board tells of instants: an index keeps no more of them."""
        length = self.oracle.resolutions[board].get(span.kind, 1)
        return max(span.begin_ms, sql.COMPOSITE_BEGIN_MS), length

    def _reads(self, board: str, span: Span) -> Iterator[Asked]:
        entries = self.oracle.standings(board, span)
        base, window = f"/v1/boards/{board}", f"window={self._window(board, span)}"
        yield from self._pages(base, window, board, span, entries)
        yield from self._singles(base, window, board, span, entries)
        yield from self._filtered(base, window, board, span, entries)
        yield from self._distributions(base, window, board, span, entries)
        yield from self._past(base, board, span)

    def _window(self, board: str, span: Span) -> str:
        """The name of a window, or its kind alone for the current one."""
        current = span_at(self.oracle.policies[board], span.kind, self.driver.now_ms)
        return self.random.choice((span.name, span.kind)) if span == current else span.name

    def _pages(self, base: str, window: str, board: str, span: Span, entries: list[Entry]) -> Iterator[Asked]:
        for kind in self._kinds(board):
            offset, limit = self.random.choice((0, 0, 3, 11, 40)), self.random.choice((1, 4, 100))
            body = _page(board, span, entries, kind or self._own(board), offset, limit)
            yield Asked(f"{base}/entries?{window}&offset={offset}&limit={limit}{_ranks(kind)}", 200, body)

    def _singles(
        self, base: str, window: str, board: str, span: Span, entries: list[Entry]
    ) -> Iterator[Asked]:
        for player in self.random.sample((*PLAYERS, "nobody"), 3):
            kind, radius = self.random.choice(self._kinds(board)), self.random.choice((0, 1, 5, 25))
            at = next((at for at, each in enumerate(entries) if each.player == player), None)
            one = f"{base}/entries/{player}?{window}{_ranks(kind)}"
            around = f"{base}/entries/{player}/around?{window}&radius={radius}{_ranks(kind)}"
            if at is None:
                missing = {"ranked": False, "total": len(entries)}
                yield from (Asked(one, 404, missing), Asked(around, 404, missing))
                continue
            first, last = max(0, at - radius), at + radius + 1
            yield Asked(one, 200, _single(entries, entries[at], kind or self._own(board)))
            yield Asked(
                around, 200, _page(board, span, entries, kind or self._own(board), first, last - first)
            )

    def _filtered(
        self, base: str, window: str, board: str, span: Span, entries: list[Entry]
    ) -> Iterator[Asked]:
        player = self.random.choice(PLAYERS)
        token, friends = token_of(self.harness, player), sql.among(entries, self.oracle.friends_of(player))
        offset, limit = self.random.choice((0, 1, 4)), self.random.choice((2, 25))
        path = f"{base}/entries?{window}&friends=true&offset={offset}&limit={limit}"
        yield Asked(path, 200, _some(board, span, friends, offset, limit), token, needs_index=True)
        yield from self._around(base, window, board, span, friends, "friends=true", token)
        listed = self.random.sample((*PLAYERS, "nobody"), 6)
        body = _some(board, span, sql.among(entries, set(listed)))
        standing = {each["player"] for each in body["entries"]}
        body |= {"unranked": [each for each in listed if each not in standing]}
        yield Asked(f"{base}/entries?{window}&players={','.join(listed)}", 200, body, needs_index=True)
        is_forgotten = (
            span.forgotten_ms <= self.driver.now_ms
        )  # an archive does not know groups (docs/reference/http.md)
        for segment in () if is_forgotten else self.oracle.policies[board].get("segments", []):
            value = self.random.choice(VALUES)
            group = sql.among(entries, self.oracle.group(board, segment, value))
            path = f"{base}/entries?{window}&segment={segment}:{value}&offset={offset}&limit={limit}"
            yield Asked(path, 200, _some(board, span, group, offset, limit), needs_index=True)
            yield from self._around(base, window, board, span, group, f"segment={segment}:{value}", None)

    def _around(
        self, base: str, window: str, board: str, span: Span, some: list[tuple[int, Entry]], which: str, token: str | None
    ) -> Iterator[Asked]:  # fmt: skip
        """A player among some, and one who is not among them."""
        player, radius = self.random.choice(PLAYERS), self.random.choice((0, 2, 25))
        path = f"{base}/entries/{player}/around?{window}&radius={radius}&{which}"
        at = next((at for at, (_, each) in enumerate(some) if each.player == player), None)
        if at is None:
            yield Asked(path, 404, {"ranked": False}, token, needs_index=True)
        else:
            first = max(0, at - radius)
            body = _some(board, span, some, first, at + radius + 1 - first)
            yield Asked(path, 200, body, token, needs_index=True)

    def _distributions(
        self, base: str, window: str, board: str, span: Span, entries: list[Entry]
    ) -> Iterator[Asked]:
        head = {"board": board, "window": span.name, "total": len(entries), "error": 0.0}
        shares = sorted(self.random.sample(range(10_001), 4)) + [0, 10_000, 5_000]
        at = zip(shares, sql.scores_at(entries, shares) if entries else (), strict=False)
        body = head | {"percentiles": [{"at": share / 100, "score": score} for share, score in at]}
        yield Asked(
            f"{base}/percentiles?{window}&at={','.join(f'{each / 100:g}' for each in shares)}", 200, body
        )
        scores, bins = [each.score for each in entries], self.random.choice((1, 3, 20))
        yield Asked(
            f"{base}/distribution?{window}&bins={bins}", 200, head | _bins(sql.equal_bins(scores, bins))
        )
        edges = sorted(self.random.sample(range(-12, 14), 3))
        path = f"{base}/distribution?{window}&edges={','.join(map(str, edges))}"
        yield Asked(path, 200, head | _bins(sql.histogram(scores, edges)))

    def _past(self, base: str, board: str, span: Span) -> Iterator[Asked]:
        """The window as it stood at an instant, for moderators."""
        if not self.driver.instants:
            return
        at_ms = self.random.choice(self.driver.instants) + self.random.choice((0, 0, -1, 1))
        at_ms, kind = min(at_ms, self.driver.now_ms), self.random.choice(self._kinds(board))
        entries = self.oracle.standings(board, span, at_ms)
        offset, limit = self.random.choice((0, 0, 2)), self.random.choice((3, 100))
        body = _page(board, span, entries, kind or self._own(board), offset, limit)
        body = {name: body[name] for name in body if name not in {"next", "previous"}}
        path = f"{base}/entries?window={span.name}&as_of={_text(at_ms)}&offset={offset}&limit={limit}{_ranks(kind)}"
        yield Asked(path, 200, body, self.harness.moderator())

    async def _walk(self, board: str, span: Span) -> None:
        """By cursors from the first page to the last, and back."""
        entries, kind = self.oracle.standings(board, span), self.random.choice(self._kinds(board))
        limit, base = self.random.choice((3, 7)), f"/v1/boards/{board}/entries"
        path, first, steps = f"{base}?window={span.name}&limit={limit}{_ranks(kind)}", 0, "next"
        while True:
            answer = await self.harness.get(path)
            body = _page(board, span, entries, kind or self._own(board), first, limit)
            self._hold(board, span, Asked(path, 200, body), answer, is_whole=True)
            cursor = _body(answer).get(steps)
            if answer.status != 200 or (steps == "previous" and not cursor):
                return
            if not cursor:
                steps, cursor = "previous", _body(answer).get("previous")
            if not cursor:
                return
            path = f"{base}?limit={limit}&cursor={cursor}"
            first, limit = (first + limit, limit) if steps == "next" else _before(first, limit)

    def _kinds(self, board: str) -> tuple[str, ...]:
        """The kinds of ranks that can be asked for; the empty one is the board's own."""
        return ("", *self.oracle.policies[board]["ranks"])

    def _own(self, board: str) -> str:
        return str(self.oracle.policies[board]["ranks"][0])


def _body(answer: Answer) -> dict[str, Any]:
    return answer.body if "json" in answer.headers.get("Content-Type", "") else {}


def _before(first: int, limit: int) -> tuple[int, int]:
    return max(0, first - limit), limit


def _ranks(kind: str) -> str:
    return f"&ranks={kind}" if kind else ""


def _shown(entry: Entry, rank: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "player": entry.player,
        "name": entry.player,
        "score": entry.score,
        "achieved_at": entry.achieved_ms,
        "submission": entry.submission,
    }


def _page(
    board: str, span: Span, entries: Sequence[Entry], kind: str, offset: int, limit: int
) -> dict[str, Any]:
    page = entries[offset : offset + limit]
    body = {
        "board": board,
        "window": span.name,
        "total": len(entries),
        "entries": [_shown(each, getattr(each, kind)) for each in page],
    }
    is_beside = {"next": offset + len(page) < len(entries), "previous": offset > 0}
    return body | (is_beside if page else {})


def _single(entries: Sequence[Entry], entry: Entry, kind: str) -> dict[str, Any]:
    return _shown(entry, getattr(entry, kind)) | {
        "total": len(entries),
        "percentile": round(sql.percentile(len(entries), entry.better), 9),
        "percentile_error": 0.0,
        "gap": entry.gap,
    }


def _some(
    board: str, span: Span, some: Sequence[tuple[int, Entry]], offset: int = 0, limit: int = 100
) -> dict[str, Any]:
    shown = [_shown(each, rank) | {"global_rank": each.unique} for rank, each in some]
    return {
        "board": board,
        "window": span.name,
        "total": len(some),
        "entries": shown[offset : offset + limit],
    }


def _bins(found: list[tuple[int | None, int | None, int]]) -> dict[str, Any]:
    return {"bins": [{"least": least, "most": most, "count": count} for least, most, count in found]}


def _plain(body: Any, slots: tuple[int, int], names: Any = None) -> dict[str, Any]:
    """What is compared of a body: instants by their slot, and of cursors whether there is one."""
    found = {name: value for name, value in body.items() if names is None or name in names}
    for name in {"next", "previous"} & found.keys():
        found[name] = bool(found[name])
    if "percentile" in found:
        found["percentile"] = round(found["percentile"], 9)
    if "entries" in found:
        found["entries"] = [_plain(each, slots) for each in found["entries"]]
    if "achieved_at" in found:
        at = found["achieved_at"]
        at_ms = at if isinstance(at, int) else round(datetime.fromisoformat(at).timestamp() * 1000)
        found["achieved_at"] = (at_ms - slots[0]) // slots[1]
    return found


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
