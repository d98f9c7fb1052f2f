"""Notes in the ledger what events and changes of policies make due on boards (`board_duties`).

The agenda follows the log: its position and what it notes are one transaction, so nothing becomes due without
a row, however long no steward ran. A row that is noted twice stays one row.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final, NamedTuple
from zlib import crc32

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger import index_pages, queries
from gateway.ledger.derived import board_duties, log
from gateway.ledger.derived.board_duties import WHOLE_BOARD, BoardDuty, DueDuty
from gateway.ledger.derived.log import LoggedEvent
from gateway.ledger.ledger import Ledger
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.clock import Clock
from gateway.steward.audits.auditing import next_audit_ms
from policies.choices import WindowKind
from policies.loader import Board
from policies.model import Policy
from policies.opened_board import names_of_family
from policies.vocabulary import Reason, State
from policies.windows import FOREVER_MS, Window, calendar_of, window_named

CONSUMER: Final = "agenda"
"""Consumer whose progress is the event up to which everything due is noted."""

POLICIES: Final = "agenda-policy"
"""Consumer whose progress is a hash of each policy file's digest when its boards were last noted."""

SLICE: Final = 256
"""Events in one step. What they make due is noted in one transaction, for which other writes wait."""

SLICES: Final = 16
"""Most slices in one step, so that a long backlog does not keep the duties from what is due already."""

BOARDS: Final = 64
"""Boards whose duties are noted in one step after a change of their policy."""

SAMPLED_EVENTS: Final = 64
"""One of so many events makes the anchors of its windows due, which need work after a thousand moves."""

REMEMBERED: Final = 10_000
"""Windows known to have a row. Each saves a write for every slice of events on it."""

ALLTIME: Final = WindowKind.ALLTIME.value

_Key = tuple[BoardDuty, str, str]


class _PolicyFile(NamedTuple):
    """A policy file: the name of its board or family, its digest as a number, and which of both it is."""

    name: str
    fingerprint: int
    is_family: bool


class Agenda:
    """Notes what becomes due, for all stewards."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, *, clock: Clock) -> None:
        self._ledger = ledger
        self._catalogue = catalogue
        self._clock = clock
        self._turn = asyncio.Lock()
        self._windows: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._changed: list[_PolicyFile] | None = None
        self._after = ""

    async def follow(self) -> int:
        """Note what has become due since the last step and return how many events and boards were read.

        Raises LedgerUnavailable.
        """
        async with self._turn:
            done = 0
            for _ in range(SLICES):
                count = await self._follow_log()
                done += count
                if count < SLICE:
                    break
            return done + await self._follow_policies()

    async def _follow_log(self) -> int:
        position = await self._ledger.read(log.position(CONSUMER))
        if position is None:
            return await self._begin()
        events, upto, is_newest = await self._ledger.read(log.events_after(position, count=SLICE))
        if upto == position:
            return 0
        boards = await self._catalogue.boards({event.board for event in events})
        duties = list(self._unknown(merged(_duties_of(events, boards))))
        if not await self._ledger.write(_note_and_move(position, upto, duties)):
            return 0  # another steward was faster
        for row in duties:
            if row.duty is BoardDuty.ARCHIVE:
                self._remember(row.board, row.window)
        return len(events) if is_newest else SLICE

    async def _begin(self) -> int:
        """Follow the log from its newest event on. Earlier events are noted with the policies, as all new."""
        newest = await self._ledger.read(queries.newest_seq())
        await self._ledger.write(log.move(CONSUMER, newest))
        return 0

    def _unknown(self, duties: Iterable[DueDuty]) -> Iterator[DueDuty]:
        """Yield the duties that may lack a row: that of a window's end stays until the window is over."""
        now_ms = self._clock()
        for row in duties:
            is_known = row.duty is BoardDuty.ARCHIVE and (row.board, row.window) in self._windows
            if not is_known or row.due_at_ms <= now_ms:
                yield row

    def _remember(self, board: str, window: str) -> None:
        self._windows[board, window] = None
        self._windows.move_to_end((board, window))
        if len(self._windows) > REMEMBERED:
            self._windows.popitem(last=False)

    async def _follow_policies(self) -> int:
        """Note a slice of the boards whose policies are others than when they were last noted."""
        if self._changed is None:
            positions = await self._ledger.read(log.positions(POLICIES))
            files = policy_files(self._catalogue)
            self._changed = [file for file in files if positions.get(file.name) != file.fingerprint]
        if not self._changed:
            return 0
        files = self._changed[:1] if self._changed[0].is_family else self._files_of_boards(self._changed)
        names = await self._boards_of(files)
        newest = await self._ledger.read(queries.newest_seq())
        for board in (await self._catalogue.boards(names)).values():
            await self._note_board(board, newest)
        if files[0].is_family and len(names) == BOARDS:
            self._after = names[-1]
            return len(names)
        await self._ledger.write(_seen(files))
        self._changed, self._after = self._changed[len(files) :], ""
        return len(files)

    def _files_of_boards(self, changed: Sequence[_PolicyFile]) -> list[_PolicyFile]:
        return list(takewhile(lambda file: not file.is_family, changed[:BOARDS]))

    async def _boards_of(self, files: Sequence[_PolicyFile]) -> list[str]:
        if not files[0].is_family:
            return [file.name for file in files]
        first, beyond = names_of_family(files[0].name)
        after = max(self._after, first)
        return await self._ledger.read(board_duties.boards_with_standings(after, beyond, count=BOARDS))

    async def _note_board(self, board: Board, newest: int) -> None:
        """Note every duty of a board that has standings."""
        names = await self._ledger.read(index_pages.live_windows(board.name, now_ms=0))
        if not names:
            return
        now_ms = self._clock()
        audit_ms = next_audit_ms(board.policy, now_ms)
        windows = list(_windows_named(board.policy, names))
        closed = [] if board.final_from_ms is None else [ALLTIME]
        duties = [
            *(DueDuty(BoardDuty.ARCHIVE, board.name, name, now_ms, newest, newest) for name in closed),
            *duties_of_windows(board.name, windows, seq=newest, now_ms=now_ms),
            # The first draw of a board draws from what comes after its first event here: nothing yet.
            DueDuty(BoardDuty.AUDIT, board.name, WHOLE_BOARD, audit_ms, newest + 1, newest),
            DueDuty(BoardDuty.TOP, board.name, WHOLE_BOARD, now_ms, newest, newest),
        ]
        await self._ledger.write(board_duties.noted(duties))


def policy_files(catalogue: Catalogue) -> list[_PolicyFile]:
    """Return the policy files in force."""
    of_boards = [
        _PolicyFile(name, _fingerprint(board.digest), is_family=False)
        for name, board in catalogue.of_files.items()
    ]
    of_families = [
        _PolicyFile(name, _fingerprint(family.digest), is_family=True)
        for name, family in catalogue.families.items()
    ]
    return sorted(of_boards) + sorted(of_families)


def duties_of_windows(board: str, windows: Sequence[Window], *, seq: int, now_ms: int) -> list[DueDuty]:
    """Return what is due on windows that have standings: their end, and a look at their anchors."""
    rows = [DueDuty(BoardDuty.ANCHOR, board, window.name, now_ms, seq, seq) for window in windows]
    ends = [DueDuty(BoardDuty.ARCHIVE, board, *_end_of(window), seq, seq) for window in windows]
    return rows + [row for row in ends if row.due_at_ms < FOREVER_MS]


def merged(duties: Iterable[DueDuty]) -> list[DueDuty]:
    """Return one row for each duty of a board or window: the earliest time, the first and the last event."""
    rows: dict[_Key, DueDuty] = {}
    for row in duties:
        before = rows.get(row[:3], row)
        rows[row[:3]] = row._replace(
            due_at_ms=min(before.due_at_ms, row.due_at_ms),
            first_seq=min(before.first_seq, row.first_seq),
            last_seq=max(before.last_seq, row.last_seq),
        )
    return list(rows.values())


def _duties_of(events: Sequence[LoggedEvent], boards: Mapping[str, Board]) -> Iterator[DueDuty]:
    """Yield what each event makes due. Those of boards without a policy wait for it to come back."""
    for event in events:
        board = boards.get(event.board)
        if board is None:
            continue
        for counting in (board, *board.rollups):
            yield from _duties_of_windows(event, counting.policy)
        if event.difference and board.final_from_ms is not None:
            yield DueDuty(BoardDuty.ARCHIVE, event.board, ALLTIME, event.at_ms, event.seq, event.seq)
        if event.to_state is State.PROMOTED and event.reason is Reason.VERIFIED:
            yield _due(BoardDuty.AUDIT, event, next_audit_ms(board.policy, event.at_ms))
        is_unverified = event.to_state is State.PROMOTED and event.reason is Reason.SAMPLED
        if board.policy.replay is not None and (is_unverified or event.difference < 0):
            yield _due(BoardDuty.TOP, event, event.at_ms)


def _duties_of_windows(event: LoggedEvent, policy: Policy) -> Iterator[DueDuty]:
    if not event.difference:
        return
    # Hashed: numbers of promotions may all be odd, when each run is two events.
    is_sampled = crc32(event.seq.to_bytes(8)) % SAMPLED_EVENTS == 0
    for kind in policy.windows:
        window = calendar_of(policy).at(kind, event.achieved_at_ms)
        if window.end_ms < FOREVER_MS:
            yield DueDuty(BoardDuty.ARCHIVE, policy.board, window.name, window.end_ms, event.seq, event.seq)
        if is_sampled:
            yield DueDuty(BoardDuty.ANCHOR, policy.board, window.name, event.at_ms, event.seq, event.seq)


def _due(duty: BoardDuty, event: LoggedEvent, due_at_ms: int) -> DueDuty:
    return DueDuty(duty, event.board, WHOLE_BOARD, due_at_ms, event.seq, event.seq)


def _end_of(window: Window) -> tuple[str, int]:
    return window.name, window.end_ms


def _windows_named(policy: Policy, names: Iterable[str]) -> Iterator[Window]:
    """Yield the windows that have these names by today's calendar."""
    for name in names:
        with suppress(ValueError):
            yield window_named(policy, name)


def _fingerprint(digest: str) -> int:
    return int.from_bytes(hashlib.sha256(digest.encode()).digest()[:7])


def _seen(files: Sequence[_PolicyFile]) -> Operation[None]:
    async def work(tx: Transaction) -> None:
        for file in files:
            await log.move(POLICIES, file.fingerprint, file.name)(tx)

    return work


def _note_and_move(position: int, upto: int, duties: Sequence[DueDuty]) -> Operation[bool]:
    async def work(tx: Transaction) -> bool:
        if await log.position(CONSUMER)(tx) != position:
            return False
        await board_duties.note(tx, duties)
        await log.move(CONSUMER, upto)(tx)
        return True

    return work
