"""The windows that are or will be archived, their policies, and the changes that their revisions lack.

A window goes `folding` → `copying` → `sweeping` → `frozen` → `kept`. A change of it is noted in the
same transaction, so that a revision without it can never be put in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import bindparam, desc, insert, literal_column, select, text, tuple_, update

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import (
    ARCHIVE_IN_FORCE,
    ARCHIVE_KEPT,
    ARCHIVE_WORK,
    Int64,
    Text,
    archived_windows,
    boards,
    is_in,
    submissions,
)
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.choices import WindowKind
from policies.vocabulary import State
from policies.windows import FOREVER_MS, Window, names_of_kind


class ArchiveStage(StrEnum):
    """The stage of a window in the archive.

    `folding`: its standings are folded by its policy; `copying`: they get their ranks; `sweeping`: earlier
    revisions are removed; `frozen`: nothing is left to do yet; `kept`: its standings are removed;
    `forgotten`: its entries too. `withdrawn`: `alltime` of a board that was reopened or deleted since.
    """

    FOLDING = "folding"
    COPYING = "copying"
    SWEEPING = "sweeping"
    FROZEN = "frozen"
    KEPT = "kept"
    FORGETTING = "forgetting"
    FORGOTTEN = "forgotten"
    WITHDRAWN = "withdrawn"

    @property
    def is_building(self) -> bool:
        """Whether a revision is being built."""
        return self in {ArchiveStage.FOLDING, ArchiveStage.COPYING}

    @property
    def is_gone(self) -> bool:
        """Whether the window is past its retention."""
        return self in {ArchiveStage.FORGETTING, ArchiveStage.FORGOTTEN}


class ArchivedWindow(NamedTuple):
    """A window in the archive. `revision` is the readable one, 0 for none; `building` is the newest begun.

    `policy` is JSON of the policy fields that decided its ranks. `changed_seq` is an event that the readable
    revision lacks, 0 for none. `entries` and `groups` count its entries and groups of ties. Times are Unix
    milliseconds.
    """

    board: str
    window: str
    begin_ms: int
    end_ms: int
    expires_at_ms: int
    policy: str
    policy_digest: str
    rule: str
    stage: ArchiveStage
    revision: int
    building: int
    is_thin: int
    changed_seq: int
    frozen_at_ms: int
    upto_seq: int
    entries: int
    groups: int

    @property
    def is_readable(self) -> bool:
        """Whether the archive answers readers of the window."""
        return self.revision > 0 and not self.stage.is_gone and not self.is_withdrawn

    @property
    def is_withdrawn(self) -> bool:
        """Whether its board was reopened or deleted since it was archived."""
        return self.stage is ArchiveStage.WITHDRAWN

    @property
    def lacks_changes(self) -> bool:
        """Whether its next revision has to be built."""
        return self.is_withdrawn or (self.changed_seq > 0 and not self.stage.is_gone)

    @property
    def span(self) -> Window:
        """The window itself, whatever the board's calendar says today."""
        kind = WindowKind(self.window.partition(":")[0])
        return Window(kind, self.window, self.begin_ms, self.end_ms)


class FrozenPolicy(NamedTuple):
    """The policy of a window: JSON of the fields that decide ranks, the policy's digest, and its rule."""

    policy: str
    policy_digest: str
    rule: str


_w, _s = archived_windows.c, submissions.c
_IS_IT: Final = (_w.board == bindparam("at_board"), _w.window == bindparam("at_window"))

_LOAD = Query(select(archived_windows).where(*_IS_IT))
_LISTED = Query(select(archived_windows).where(is_listed(_w.board), _w.window == bindparam("at_window")))
_ALL = Query(select(archived_windows).where(_w.board == bindparam("at_board")).order_by(_w.end_ms, _w.window))
_ADD = Query(insert(archived_windows))
_BEGIN = Query(
    update(archived_windows)
    .where(*_IS_IT)
    .values(
        stage=ArchiveStage.FOLDING.value,
        building=_w.building + 1,
        changed_seq=0,
        policy=bindparam("new_policy"),
        policy_digest=bindparam("new_digest"),
        rule=bindparam("new_rule"),
    )
)
_PENDING_IN = Query(
    select(_s.seq)
    .where(
        is_in(State.PENDING),
        _s.board == bindparam("board"),
        _s.achieved_at_ms >= bindparam("begin"),
        _s.achieved_at_ms < bindparam("end"),
    )
    .limit(1)
)
_ENDED_AFTER = Query(
    select(_w.window, _w.begin_ms, _w.end_ms).where(
        _w.board == bindparam("at_board"), _w.end_ms > bindparam("oldest"), ARCHIVE_IN_FORCE
    )
)
_NAMED = Query(
    select(_w.window).where(_w.board == bindparam("at_board"), is_listed(_w.window), ARCHIVE_IN_FORCE)
)
_WITHDRAW = Query(
    update(archived_windows)
    .where(*_IS_IT)
    .values(stage=ArchiveStage.WITHDRAWN.value, changed_seq=0, revision=0)
)
_RULES = Query(
    select(_w.rule).where(is_listed(_w.board), _w.window == bindparam("at_window"), ARCHIVE_IN_FORCE)
)
_CLOSED = Query(
    select(boards.c.board).where(
        boards.c.board == bindparam("at_board"), boards.c.state == literal_column("'closed'")
    )
)
_MARK = Query(update(archived_windows).where(*_IS_IT).values(changed_seq=bindparam("seq", type_=Int64)))
_READABLE = Query(
    select(archived_windows)
    .where(
        _w.board == bindparam("at_board"),
        _w.revision > 0,
        _w.stage != ArchiveStage.FORGETTING.value,
        _w.stage != ArchiveStage.FORGOTTEN.value,
        ARCHIVE_IN_FORCE,
        _w.window >= bindparam("least"),
        _w.window < bindparam("beyond"),
        tuple_(_w.end_ms, _w.window)
        < tuple_(bindparam("before_ms", type_=Int64), bindparam("before", type_=_w.window.type)),
    )
    .order_by(desc(_w.end_ms), desc(_w.window))
    .limit(bindparam("count"))
)

_AT_WORK = Query(
    select(_w.board, _w.window)
    .where(
        text(f"({ARCHIVE_WORK})"),
        tuple_(_w.board, _w.window)
        > tuple_(bindparam("after_board", type_=Text), bindparam("after_window", type_=Text)),
    )
    .order_by(_w.board, _w.window)
    .limit(bindparam("count"))
)
# The conditions of partial indexes are written out: a bound value would not use the index.
_TO_THIN = Query(
    select(_w.board)
    .where(text("stage = 'frozen'"), _w.expires_at_ms <= bindparam("expired_ms", type_=Int64))
    .order_by(_w.expires_at_ms, _w.board)
    .limit(bindparam("count"))
)
_TO_FORGET = Query(
    select(_w.board)
    .where(
        text(ARCHIVE_KEPT),
        _w.end_ms <= bindparam("ended_ms", type_=Int64),
        _w.expires_at_ms <= bindparam("expired_ms", type_=Int64),
    )
    .order_by(_w.end_ms, _w.board)
    .limit(bindparam("count"))
)


async def load(tx: Transaction, board: str, window: str) -> ArchivedWindow | None:
    """Return the window as the archive has it now, or None, inside a transaction."""
    rows = await tx.rows(_LOAD, at_board=board, at_window=window)
    return _window(rows[0]) if rows else None


async def load_listed(tx: Transaction, window: str, boards: Sequence[str]) -> list[ArchivedWindow]:
    """Return the window of this name of each of these boards that the archive has, inside a transaction."""
    return [_window(row) for row in await fetch_listed(tx, _LISTED, boards, at_window=window)]


def archived_window(board: str, window: str) -> Operation[ArchivedWindow | None]:
    """Return the window as the archive has it now, or None."""

    async def work(tx: Transaction) -> ArchivedWindow | None:
        return await load(tx, board, window)

    return work


def archived_windows_of(board: str) -> Operation[list[ArchivedWindow]]:
    """Return every window of a board that is, will be or was archived, by end."""

    async def work(tx: Transaction) -> list[ArchivedWindow]:
        return [_window(row) for row in await tx.rows(_ALL, at_board=board)]

    return work


def windows_at_work(after: tuple[str, str], *, count: int) -> Operation[list[tuple[str, str]]]:
    """Return the next (board, window) after one that are being built or swept, or lack a change."""

    async def work(tx: Transaction) -> list[tuple[str, str]]:
        board, window = after
        rows = await tx.rows(_AT_WORK, after_board=board, after_window=window, count=count)
        return [(row[0], row[1]) for row in rows]

    return work


def boards_to_thin(*, expired_ms: int, count: int) -> Operation[list[str]]:
    """Return boards with frozen windows that the index forgot by this time (Unix ms)."""

    async def work(tx: Transaction) -> list[str]:
        return [row[0] for row in await tx.rows(_TO_THIN, expired_ms=expired_ms, count=count)]

    return work


def boards_to_forget(*, ended_ms: int, expired_ms: int, count: int) -> Operation[list[str]]:
    """Return boards with archived windows that ended, and that the index forgot, by these times (Unix ms)."""

    async def work(tx: Transaction) -> list[str]:
        rows = await tx.rows(_TO_FORGET, ended_ms=ended_ms, expired_ms=expired_ms, count=count)
        return [row[0] for row in rows]

    return work


def readable_before(
    board: str, before: tuple[int, str], kind: WindowKind | None, *, count: int
) -> Operation[list[ArchivedWindow]]:
    """Return readable windows of one kind, or of all, before an end (Unix ms) and a name, latest first."""

    async def work(tx: Transaction) -> list[ArchivedWindow]:
        end_ms, name = before
        least, beyond = names_of_kind(kind) if kind else ("", "~")
        span = {"before_ms": end_ms, "before": name, "least": least, "beyond": beyond}
        rows = await tx.rows(_READABLE, at_board=board, **span, count=count)
        return [_window(row) for row in rows]

    return work


def is_waiting(board: str, window: Window) -> Operation[bool]:
    """Return whether a submission that was achieved in the window is still pending."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.rows(_PENDING_IN, board=board, begin=window.begin_ms, end=window.end_ms))

    return work


def begin(board: str, window: Window, today: FrozenPolicy) -> Operation[ArchivedWindow | None]:
    """Begin a build if the window is new or lacks a change; return the window as it now is.

    Returns None for `alltime` of a board that is not closed, which is not over.
    """

    async def work(tx: Transaction) -> ArchivedWindow | None:
        if window.end_ms == FOREVER_MS and not await tx.rows(_CLOSED, at_board=board):
            return None
        archived = await load(tx, board, window.name)
        if archived is None:
            await tx.run(_ADD, **_first(board, window, today)._asdict())
        elif archived.lacks_changes:
            first = FrozenPolicy(archived.policy, archived.policy_digest, archived.rule)
            # Readers have seen ranks by the first policy, so a window with a revision keeps it.
            policy = first if archived.is_readable else today
            await tx.run(
                _BEGIN,
                at_board=board,
                at_window=window.name,
                new_policy=policy.policy,
                new_digest=policy.policy_digest,
                new_rule=policy.rule,
            )
        else:
            return archived
        return await load(tx, board, window.name) or _first(board, window, today)

    return work


async def mark_changed(tx: Transaction, board: str, by_time: Mapping[int, int]) -> None:
    """Note in archived windows which events changed what counts of the runs achieved at these times."""
    marks = []
    for window, begin_ms, end_ms in await tx.rows(_ENDED_AFTER, at_board=board, oldest=min(by_time)):
        if inside := [seq for at_ms, seq in by_time.items() if begin_ms <= at_ms < end_ms]:
            marks.append({"at_board": board, "at_window": window, "seq": max(inside)})
    if marks:
        await tx.run_each(_MARK, marks)


async def withdraw(tx: Transaction, boards: Sequence[str]) -> None:
    """Take `alltime` of boards out of the archive, in the transaction that reopens or deletes them.

    Its entries stay until the next revision replaces them. Nobody reads them meanwhile.
    """
    alltime = WindowKind.ALLTIME.value
    await tx.run_each(_WITHDRAW, [{"at_board": board, "at_window": alltime} for board in boards])


async def rules_of_alltime(tx: Transaction, boards: Sequence[str]) -> set[str]:
    """Return the rules by which `alltime` of these boards is archived, of those where it is."""
    return {row[0] for row in await fetch_listed(tx, _RULES, boards, at_window=WindowKind.ALLTIME.value)}


async def mark_windows(tx: Transaction, board: str, names: Sequence[str], seq: int) -> None:
    """Note in these windows that event `seq`, or a later change without an event, changed what counts."""
    for name in await among_archived(tx, board, names):
        await tx.run(_MARK, at_board=board, at_window=name, seq=seq)


async def among_archived(tx: Transaction, board: str, names: Sequence[str]) -> set[str]:
    """Return those of these windows that are archived or being archived."""
    return {row[0] for row in await fetch_listed(tx, _NAMED, names, at_board=board)}


def _first(board: str, window: Window, policy: FrozenPolicy) -> ArchivedWindow:
    return ArchivedWindow(
        board, window.name, window.begin_ms, window.end_ms, window.expires_at_ms or window.end_ms, *policy,
        ArchiveStage.FOLDING, revision=0, building=1, is_thin=0, changed_seq=0, frozen_at_ms=0, upto_seq=0,
        entries=0, groups=0,
    )  # fmt: skip


def _window(row: Row) -> ArchivedWindow:
    archived = ArchivedWindow(*row)
    return archived._replace(stage=ArchiveStage(archived.stage))
