"""Which windows are archived or on the way there, under which policy, and what the readable revision of each lacks.

A window goes `folding` → `copying` → `sweeping` → `frozen` → `kept`. Whatever changes what counts in it is noted in the
transaction that changes it, so that a revision can never be put in place that lacks it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import bindparam, desc, insert, select, tuple_, update

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import Int64, archived_windows, is_in, submissions
from gateway.ledger.transaction import Operation, Query, Row, Transaction
from policies.model import WindowKind
from policies.vocabulary import State
from policies.windows import Window


class ArchiveStage(StrEnum):
    """How far a window is.

    `folding`: its standings are made what its policy says; `copying`: they get their ranks; `sweeping`: the revisions
    before are removed; `kept`: its standings have gone; `forgotten`: its entries too.
    """

    FOLDING = "folding"
    COPYING = "copying"
    SWEEPING = "sweeping"
    FROZEN = "frozen"
    KEPT = "kept"
    FORGETTING = "forgetting"
    FORGOTTEN = "forgotten"

    @property
    def is_building(self) -> bool:
        """True while a revision is being built."""
        return self in {ArchiveStage.FOLDING, ArchiveStage.COPYING}

    @property
    def is_gone(self) -> bool:
        """True once the window is not kept any more."""
        return self in {ArchiveStage.FORGETTING, ArchiveStage.FORGOTTEN}


class ArchivedWindow(NamedTuple):
    """A row of the archive. `revision` is the one that is read, 0 for none; `policy` is JSON of what decided its ranks.

    `changed_seq` is an event that the readable revision lacks, 0 if there is none. `entries` and `groups` count its
    entries and the distinct ties among them. Times are Unix milliseconds.
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
        """True if readers are answered from it."""
        return self.revision > 0 and not self.stage.is_gone

    @property
    def span(self) -> Window:
        """The window that it is, whatever the board's calendar says today."""
        kind = WindowKind(self.window.partition(":")[0])
        return Window(kind, self.window, self.begin_ms, self.end_ms)


class FrozenPolicy(NamedTuple):
    """What a window is frozen under: JSON of all in a policy that decides ranks, the policy's digest, and its rule."""

    policy: str
    policy_digest: str
    rule: str


_w, _s = archived_windows.c, submissions.c
_IS_IT: Final = (_w.board == bindparam("at_board"), _w.window == bindparam("at_window"))

_LOAD = Query(select(archived_windows).where(*_IS_IT))
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
        _w.board == bindparam("at_board"), _w.end_ms > bindparam("oldest")
    )
)
_NAMED = Query(select(_w.window).where(_w.board == bindparam("at_board"), is_listed(_w.window)))
_MARK = Query(update(archived_windows).where(*_IS_IT).values(changed_seq=bindparam("seq", type_=Int64)))
_READABLE = Query(
    select(archived_windows)
    .where(
        _w.board == bindparam("at_board"),
        _w.revision > 0,
        _w.stage != ArchiveStage.FORGETTING.value,
        _w.stage != ArchiveStage.FORGOTTEN.value,
        _w.window >= bindparam("least"),
        _w.window < bindparam("beyond"),
        tuple_(_w.end_ms, _w.window)
        < tuple_(bindparam("before_ms", type_=Int64), bindparam("before", type_=_w.window.type)),
    )
    .order_by(desc(_w.end_ms), desc(_w.window))
    .limit(bindparam("count"))
)


async def load(tx: Transaction, board: str, window: str) -> ArchivedWindow | None:
    """The window as it is in the archive now, or None, inside a transaction."""
    rows = await tx.rows(_LOAD, at_board=board, at_window=window)
    return _window(rows[0]) if rows else None


def archived_window(board: str, window: str) -> Operation[ArchivedWindow | None]:
    """The window as it is in the archive now, or None."""

    async def work(tx: Transaction) -> ArchivedWindow | None:
        return await load(tx, board, window)

    return work


def archived_windows_of(board: str) -> Operation[list[ArchivedWindow]]:
    """Every window of a board that is archived, on the way there, or was, the one that ended first at the head."""

    async def work(tx: Transaction) -> list[ArchivedWindow]:
        return [_window(row) for row in await tx.rows(_ALL, at_board=board)]

    return work


def readable_before(
    board: str, before: tuple[int, str], kind: WindowKind | None, *, count: int
) -> Operation[list[ArchivedWindow]]:
    """Windows that can be read, of one kind or all, the last one first, that come before an end (Unix ms) and a name."""

    async def work(tx: Transaction) -> list[ArchivedWindow]:
        end_ms, name = before
        names = (
            {"least": f"{kind.value}:", "beyond": f"{kind.value};"} if kind else {"least": "", "beyond": "~"}
        )
        rows = await tx.rows(_READABLE, at_board=board, before_ms=end_ms, before=name, count=count, **names)
        return [_window(row) for row in rows]

    return work


def is_waiting(board: str, window: Window) -> Operation[bool]:
    """True if something that was achieved in the window is still pending."""

    async def work(tx: Transaction) -> bool:
        return bool(await tx.rows(_PENDING_IN, board=board, begin=window.begin_ms, end=window.end_ms))

    return work


def begin(board: str, window: Window, frozen: FrozenPolicy) -> Operation[ArchivedWindow]:
    """The window as it now is: with a build under way, new or as it was left, or frozen with nothing that it lacks.

    A window that was never read is built under `frozen`; one that was stays under what it was first frozen under.
    """

    async def work(tx: Transaction) -> ArchivedWindow:
        found = await load(tx, board, window.name)
        if found is None:
            await tx.run(_ADD, **_first(board, window, frozen)._asdict())
        elif found.changed_seq and not found.stage.is_gone:
            kept = FrozenPolicy(found.policy, found.policy_digest, found.rule) if found.revision else frozen
            await tx.run(
                _BEGIN,
                at_board=board,
                at_window=window.name,
                new_policy=kept.policy,
                new_digest=kept.policy_digest,
                new_rule=kept.rule,
            )
        else:
            return found
        return await load(tx, board, window.name) or _first(board, window, frozen)

    return work


async def mark_changed(tx: Transaction, board: str, achieved_at_ms: Collection[int], seq: int) -> None:
    """Notes that event `seq` changed what counts of what was achieved at these moments, in windows of the archive."""
    for window, begin_ms, end_ms in await tx.rows(_ENDED_AFTER, at_board=board, oldest=min(achieved_at_ms)):
        if any(begin_ms <= at_ms < end_ms for at_ms in achieved_at_ms):
            await tx.run(_MARK, at_board=board, at_window=window, seq=seq)


async def mark_windows(tx: Transaction, board: str, names: Sequence[str], seq: int) -> None:
    """Notes that event `seq`, or something after it that is no event, changed what counts in these windows."""
    for name in await among_archived(tx, board, names):
        await tx.run(_MARK, at_board=board, at_window=name, seq=seq)


async def among_archived(tx: Transaction, board: str, names: Sequence[str]) -> set[str]:
    """Those of these windows that are archived, or on the way there."""
    return {row[0] for row in await fetch_listed(tx, _NAMED, names, at_board=board)}


def _first(board: str, window: Window, frozen: FrozenPolicy) -> ArchivedWindow:
    return ArchivedWindow(
        board, window.name, window.begin_ms, window.end_ms, window.expires_at_ms or window.end_ms, *frozen,
        ArchiveStage.FOLDING, revision=0, building=1, is_thin=0, changed_seq=0, frozen_at_ms=0, upto_seq=0, entries=0, groups=0,
    )  # fmt: skip


def _window(row: Row) -> ArchivedWindow:
    found = ArchivedWindow(*row)
    return found._replace(stage=ArchiveStage(found.stage))
