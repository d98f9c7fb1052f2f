"""The queue: cases in order, across the boards, families or everything that a moderator reaches.

Each page reads a bounded part of an index for each scope and merges them. What the filters leave out is
passed over: a page that has read WALK cases ends there, and tells the place at which the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, func, select, tuple_

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.moderation.cases import CASE, CaseKind, StoredCase, case_counts_of_labels, case_from
from gateway.ledger.moderation.claims import EVERYTHING, Claimant, is_free, passed_by, reaches
from gateway.ledger.schema import Int64, cases
from gateway.ledger.transaction import Operation, Query, Transaction
from gateway.runtime.telemetry import label_of
from policies.vocabulary import LATEST_MS

WALK: Final = 1_000
"""The cases that one page reads, before it ends without being full."""

FEW: Final = 32
"""The cases that a search for the next one looks at first: nearly always one of them is free."""

OFFERED: Final = 8
"""Most cases that a search for the next one returns, for moderators who ask at the same time."""

_c = cases.c
_behind = tuple_(_c.order_key, _c.seq) > tuple_(
    bindparam("after_order", type_=Int64), bindparam("after", type_=Int64)
)
_page = CASE.where(_behind).order_by(_c.order_key, _c.seq).limit(bindparam("count"))
_IN_ORDER = Query(_page)
_OF_LABEL = Query(_page.where(_c.label == bindparam("label")))
_OF_BOARD = Query(_page.where(_c.board == bindparam("board")))
_OLDEST = Query(
    select(_c.opened_at_ms).where(_c.label == bindparam("label")).order_by(_c.opened_at_ms).limit(1)
)
_AGED = Query(
    select(func.count()).select_from(
        select(_c.opened_at_ms)
        .where(
            is_listed(_c.label),
            _c.opened_at_ms > bindparam("after_ms", type_=Int64),
            _c.opened_at_ms <= bindparam("upto_ms", type_=Int64),
        )
        .limit(bindparam("count"))
        .subquery()
    )
)
_OF_PLAYER = Query(_page.where(_c.player == bindparam("player")))


class QueuePlace(NamedTuple):
    """A place in the queue, behind which a page begins."""

    order_key: int
    seq: int


BEGINNING: Final = QueuePlace(-(2**62), 0)


class QueueFilter(NamedTuple):
    """Which cases of the queue are wanted. None, and no time, leave nothing out."""

    board: str | None = None
    label: str | None = None
    reason: str | None = None
    player: str | None = None
    build: str | None = None
    kind: CaseKind | None = None
    opened_by_ms: int | None = None
    opened_after_ms: int | None = None

    def takes(self, case: StoredCase) -> bool:
        """Return whether a case is wanted."""
        return (
            self.board in (None, case.board)
            and self.label in (None, case.label)
            and self.reason in (None, case.reason)
            and self.player in (None, case.player)
            and self.build in (None, case.build)
            and self.kind in (None, case.shown_kind)
            and (self.opened_by_ms is None or case.opened_at_ms <= self.opened_by_ms)
            and (self.opened_after_ms is None or case.opened_at_ms > self.opened_after_ms)
        )


class QueuePage(NamedTuple):
    """Cases in order, and the place behind which the next page begins, None at the end."""

    cases: list[StoredCase]
    next: QueuePlace | None


class _QueueSource(NamedTuple):
    """A part of an index in the order of the queue."""

    query: Query
    values: dict[str, Any]


def queue_page(
    scopes: frozenset[str], wanted: QueueFilter, after: QueuePlace = BEGINNING, *, count: int
) -> Operation[QueuePage]:
    """Return wanted cases of these scopes behind a place, in the order of the queue."""

    async def work(tx: Transaction) -> QueuePage:
        return await _walk(tx, scopes, wanted, after, count=count)

    return work


def free_cases(
    scopes: frozenset[str], wanted: QueueFilter, claimant: Claimant, after: QueuePlace, *, now_ms: int
) -> Operation[QueuePage]:
    """Return the first wanted cases behind a place that a moderator may be offered, OFFERED at most.

    It looks at few cases, and at many only if they left all those to others. Like a page, it may end early.
    """

    def takes(case: StoredCase) -> bool:
        return wanted.takes(case) and is_free(case, claimant, now_ms=now_ms)

    async def work(tx: Transaction) -> QueuePage:
        offered: list[StoredCase] = []
        place: QueuePlace | None = after
        for count in (FEW, WALK):
            if offered or place is None:
                break
            free, place = await _walk(tx, scopes, wanted, place, count=count, takes=takes)
            passed = await passed_by(tx, [case.submission_id for case in free], claimant.name, now_ms=now_ms)
            offered = [case for case in free if case.submission_id not in passed]
        if len(offered) <= OFFERED:
            return QueuePage(offered, place)
        last = offered[OFFERED - 1]
        return QueuePage(offered[:OFFERED], QueuePlace(last.order_key, last.seq))

    return work


class AgeRange(NamedTuple):
    """A range of ages (ms); the oldest has no end."""

    at_least_ms: int
    under_ms: int | None

    def opened(self, now_ms: int) -> tuple[int, int]:
        """Return after which instant, and up to which one, cases of these ages were opened."""
        begin = -1 if self.under_ms is None else now_ms - self.under_ms
        return begin, now_ms - self.at_least_ms if self.at_least_ms else LATEST_MS


HOUR_MS, DAY_MS = 3_600_000, 86_400_000
AGES: Final = (
    AgeRange(0, HOUR_MS),
    AgeRange(HOUR_MS, DAY_MS),
    AgeRange(DAY_MS, 7 * DAY_MS),
    AgeRange(7 * DAY_MS, None),
)
"""The ages by which cases are counted."""

AGED: Final = 1_000
"""Most cases of one age that are counted: one more says that there are more."""


class CountedQueue(NamedTuple):
    """How many cases there are of each policy file, by reason, and when the oldest was opened (Unix ms).

    `ages` has how many there are of each of AGES; more than AGED means just that. With `is_capped` only the
    first WALK cases of single boards were counted.
    """

    counts: dict[str, dict[str, int]]
    ages: list[int]
    oldest_ms: int | None
    is_capped: bool


def count_queue(scopes: frozenset[str], *, now_ms: int) -> Operation[CountedQueue]:
    """Count the cases of these scopes: by the counts that are kept, and on single boards one by one."""

    async def work(tx: Transaction) -> CountedQueue:
        kept = await case_counts_of_labels()(tx)
        counts = {label: dict(found) for label, found in kept.items() if reaches(scopes, label)}
        ages = [await _count_aged(tx, list(counts), age.opened(now_ms)) for age in AGES]
        opened = [min_ms for label in counts for [min_ms] in await tx.rows(_OLDEST, label=label)]
        boards = frozenset(scope for scope in scopes if "." in scope and label_of(scope) not in counts)
        page = await _walk(tx, boards, QueueFilter(), BEGINNING, count=WALK)
        for case in page.cases:
            of_label = counts.setdefault(case.label, {})
            of_label[case.reason] = of_label.get(case.reason, 0) + 1
            opened.append(case.opened_at_ms)
            for number, age in enumerate(AGES):
                after_ms, upto_ms = age.opened(now_ms)
                ages[number] += after_ms < case.opened_at_ms <= upto_ms
        return CountedQueue(counts, ages, min(opened, default=None), page.next is not None)

    return work


async def _count_aged(tx: Transaction, labels: Sequence[str], opened: tuple[int, int]) -> int:
    """Count cases of these policy files that were opened in a span of time, and not all of very many."""
    after_ms, upto_ms = opened
    found = await fetch_listed(tx, _AGED, labels, after_ms=after_ms, upto_ms=upto_ms, count=AGED + 1)
    return sum(int(count) for [count] in found)


async def _walk(
    tx: Transaction,
    scopes: frozenset[str],
    wanted: QueueFilter,
    after: QueuePlace,
    *,
    count: int,
    takes: Callable[[StoredCase], bool] | None = None,
) -> QueuePage:
    sources, takes = _sources(scopes, wanted), takes or wanted.takes
    found: list[StoredCase] = []
    read, place, chunk = 0, after, min(count, WALK // 10) + 1
    while sources and read < WALK:
        rows, border = await _merged(tx, sources, place, count=chunk)
        read, chunk = read + len(sources) * chunk, chunk * 2
        for case in rows:
            place = QueuePlace(case.order_key, case.seq)
            if reaches(scopes, case.board) and takes(case):
                found.append(case)
            if len(found) == count:
                return QueuePage(found, place)
        if border is None:
            return QueuePage(found, None)
    return QueuePage(found, place if sources else None)


async def _merged(
    tx: Transaction, sources: Sequence[_QueueSource], place: QueuePlace, *, count: int
) -> tuple[list[StoredCase], QueuePlace | None]:
    """Return the next cases of all sources in order, and the last of them, None if no source has more."""
    rows: dict[int, StoredCase] = {}
    border: QueuePlace | None = None
    for query, values in sources:
        page = [
            case_from(row)
            for row in await tx.rows(
                query, **values, after_order=place.order_key, after=place.seq, count=count
            )
        ]
        rows |= {case.seq: case for case in page}
        if len(page) == count:
            last = QueuePlace(page[-1].order_key, page[-1].seq)
            border = last if border is None else min(border, last)
    merged = sorted(rows.values(), key=lambda case: (case.order_key, case.seq))
    if border is not None:  # behind it, a source may have more that was not read
        merged = [case for case in merged if (case.order_key, case.seq) <= border]
    return merged, border


def _sources(scopes: frozenset[str], wanted: QueueFilter) -> list[_QueueSource]:
    """Return the parts of indexes that have all wanted cases of the scopes: the narrowest that there are."""
    if wanted.player is not None:
        return [_QueueSource(_OF_PLAYER, {"player": wanted.player})]
    if wanted.board is not None:
        return [_QueueSource(_OF_BOARD, {"board": wanted.board})] if reaches(scopes, wanted.board) else []
    if EVERYTHING in scopes or (wanted.label is not None and wanted.label in scopes):
        if wanted.label is None:
            return [_QueueSource(_IN_ORDER, {})]
        return [_QueueSource(_OF_LABEL, {"label": wanted.label})]
    boards = {scope for scope in scopes if "." in scope and label_of(scope) not in scopes}
    labels = {scope for scope in scopes if "." not in scope}
    if wanted.label is not None:
        boards, labels = {board for board in boards if label_of(board) == wanted.label}, set()
    return [
        *(_QueueSource(_OF_LABEL, {"label": label}) for label in sorted(labels)),
        *(_QueueSource(_OF_BOARD, {"board": board}) for board in sorted(boards)),
    ]
