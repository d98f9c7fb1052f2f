"""The boards of a deployment, by name, under the policies in force."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from gateway.index.batcher import Batcher
from gateway.runtime.bounded_cache import BOARDS_LIMIT, BoundedCache
from gateway.runtime.telemetry import Event, logger
from policies.errors import IndexUnavailable, LedgerOverloaded, LedgerUnavailable
from policies.loader import Board, Family, Policies
from policies.model import Policy
from policies.opened_board import BoardState, OpenedBoard, family_named_by
from policies.policy_changes import changed_digests

REREAD_S: Final = 1.0
"""Age from which a board is read again when it is used, and meanwhile served as it was."""

TRUSTED_S: Final = 2.0
"""Age from which the use of a board waits until it is read again: a closed board takes no runs after it."""

PATIENCE_S: Final = 0.25
"""Time that the use of a board waits for a slow ledger before it goes on with what it knows."""

READ_TOGETHER: Final = 256
"""Most boards in one query. One runs at a time, so that names which nobody has cannot crowd the ledger."""

WAITING: Final = 4_096
"""Most lookups that wait. Further ones are refused unless the board is known."""

_log = logger()


Lookup = Callable[[Sequence[str]], Awaitable[Mapping[str, OpenedBoard]]]
"""Reads those of the named boards that were ever opened. It raises LedgerUnavailable."""


class _KnownBoard(NamedTuple):
    """A board of a family as it was read, under the policy that made it."""

    board: Board
    opened: OpenedBoard
    family: Family
    read_s: float


class Catalogue:
    """The boards of a deployment. Look one up once per request or run, so that one policy judges it.

    Boards of files are in memory. Those of families are read from the ledger when they are asked for, and of
    these the catalogue keeps the ones used last. Without a `lookup` there are only boards of files.

    A deleted board is none, unless the catalogue `serves_deleted`: what was received before is still settled.
    `is_stale` means that the files were read since, and that they were refused or that this failed.
    """

    def __init__(
        self,
        policies: Policies,
        lookup: Lookup | None = None,
        *,
        limit: int = BOARDS_LIMIT,
        serves_deleted: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.policies = policies
        self.cache: BoundedCache[_KnownBoard] = BoundedCache("catalogue", limit=limit, clock=clock)
        self.is_stale = False
        self._names = sorted(policies.boards)
        self._lookup = lookup
        self._serves_deleted = serves_deleted
        self._clock = clock
        self._lookups: Batcher[str, Board | None] = Batcher(self._read, limit=READ_TOGETHER, waiting=WAITING)
        self._under_way: set[str] = set()
        self._queued: dict[str, asyncio.Future[Board | None]] = {}

    @property
    def of_files(self) -> Mapping[str, Board]:
        """The boards that have a file of their own."""
        return self.policies.boards

    @property
    def families(self) -> Mapping[str, Family]:
        """The families of boards."""
        return self.policies.families

    def __contains__(self, name: object) -> bool:
        """Return whether a policy is in force for boards of this name. Such a board may not exist."""
        return isinstance(name, str) and self.policy_of(name) is not None

    def policy_of(self, name: str) -> Policy | None:
        """Return the policy for boards of this name, without what a board narrows; None if there is none."""
        if board := self.of_files.get(name):
            return board.policy
        family = self._family_of(name)
        return family.policy if family else None

    async def board(self, name: str) -> Board | None:
        """Return a board, None if there is none of this name.

        A board of a family is at most `TRUSTED_S` old, or older while the ledger does not answer. Raises
        LedgerUnavailable if it does not and the board is not known.
        """
        board, known, is_due = self._at_hand(name)
        if not is_due:
            return board
        if known is None:
            return await asyncio.shield(self._asked(name))  # who gives up must not take it from the others
        return (await self._read_again({name: known}))[name]

    def at_hand(self, name: str) -> Board | None:
        """Return a board if `board` would without waiting, else None."""
        board, _, is_due = self._at_hand(name)
        return None if is_due else board

    def _at_hand(self, name: str) -> tuple[Board | None, _KnownBoard | None, bool]:
        """Return a board, what is known of it, and whether its use waits until it is read."""
        if board := self.of_files.get(name):
            return board, None, False
        if self._family_of(name) is None or self._lookup is None:
            return None, None, False
        known = self._known(name)
        if known is None:
            return None, None, True
        age_s = self._clock() - known.read_s
        if age_s >= TRUSTED_S:
            return None, known, True
        if age_s >= REREAD_S:
            self._read_beside(name)
        return self._served(known.board), known, False

    def was_opened(self, name: str) -> bool:
        """Return whether this catalogue remembers a board of a family, be it deleted. It reads nothing."""
        return self._known(name) is not None

    async def boards(self, names: Iterable[str]) -> Mapping[str, Board]:
        """Return those of the named boards that exist, however many. Raises LedgerUnavailable."""
        distinct = list(dict.fromkeys(names))
        found: dict[str, Board | None] = {}
        for begin in range(0, len(distinct), READ_TOGETHER):  # or a long list would fill all places that wait
            part = distinct[begin : begin + READ_TOGETHER]
            found |= await self._boards(part)  # their lookups share a query
        return {name: board for name, board in found.items() if board}

    async def _boards(self, names: Sequence[str]) -> dict[str, Board | None]:
        """Return each of the named boards as `board` does, with one wait for all."""
        found: dict[str, Board | None] = {}
        stale: dict[str, _KnownBoard] = {}
        unread: dict[str, asyncio.Future[Board | None]] = {}
        for name in names:
            found[name], known, is_due = self._at_hand(name)
            if is_due and known:
                stale[name] = known
            elif is_due:
                unread[name] = self._asked(name)
        if stale:
            found |= await self._read_again(stale)
        if unread:
            await asyncio.wait(unread.values())
            found |= {name: lookup.result() for name, lookup in unread.items()}
        return found

    def forget(self, names: Iterable[str]) -> None:
        """Have boards that were just changed read again when they are next used."""
        for name in names:
            self.cache.drop(name)

    def names_after(self, name: str, count: int) -> list[str]:
        """Return the first names of boards of files that sort after this one."""
        begin = bisect_right(self._names, name)
        return self._names[begin : begin + count]

    def replace(self, policies: Policies) -> None:
        """Put other policies in force, for the same boards and for new ones, and log which changed."""
        changed = changed_digests(self.policies.by_name, policies.by_name)
        self.policies = policies
        self._names = sorted(policies.boards)
        _log.info(Event.POLICY_RELOADED, changed=changed)

    def _family_of(self, name: str) -> Family | None:
        family = family_named_by(name)
        return self.families.get(family) if family else None

    def _served(self, board: Board | None) -> Board | None:
        if board and board.opened and board.opened.state is BoardState.DELETED and not self._serves_deleted:
            return None
        return board

    def _known(self, name: str) -> _KnownBoard | None:
        """Return what is known of a board, under the policy in force."""
        known, family = self.cache.get(name), self._family_of(name)
        if known is None or family is None or known.family is family:
            return known
        known = known._replace(board=family.board(known.opened), family=family)
        self.cache.put(name, known)
        return known

    def _read_beside(self, name: str) -> None:
        if name not in self._under_way:
            try:
                self._lookups.tell_all([name])
            except IndexUnavailable:  # too many wait, so a later use asks again
                return
            self._under_way.add(name)

    def _asked(self, name: str) -> asyncio.Future[Board | None]:
        """Return the lookup that all share who ask before it begins. It must not be cancelled."""
        lookup = self._queued.get(name)
        if lookup is None:
            try:
                lookup = self._queued[name] = self._lookups.ask(name)
            except IndexUnavailable:
                raise LedgerOverloaded("too many lookups of boards wait") from None
            lookup.add_done_callback(_heard)
        return lookup

    async def _read_again(self, known: Mapping[str, _KnownBoard]) -> dict[str, Board | None]:
        """Return these boards as they are now, or as they are known if the ledger takes too long."""
        lookups: dict[str, asyncio.Future[Board | None]] = {}
        for name in known:
            with suppress(LedgerOverloaded):
                lookups[name] = self._asked(name)
        if lookups:
            await asyncio.wait(lookups.values(), timeout=PATIENCE_S)
        return {name: self._answer(name, known[name], lookups.get(name)) for name in known}

    def _answer(
        self, name: str, known: _KnownBoard, lookup: asyncio.Future[Board | None] | None
    ) -> Board | None:
        if lookup and lookup.done():
            with suppress(LedgerUnavailable):
                return lookup.result()
        # For a second nobody waits again.
        self.cache.put(name, known._replace(read_s=self._clock() - TRUSTED_S + REREAD_S))
        return self._served(known.board)

    async def _read(self, names: Sequence[str]) -> Sequence[Board | None]:
        distinct = list(dict.fromkeys(names))
        for name in distinct:  # whoever asks from now on may know of a later change than this query sees
            self._queued.pop(name, None)
        assert self._lookup is not None, "board() asks for nothing without it"
        try:
            read_s = self._clock()
            opened = await self._lookup(distinct)
        finally:
            self._under_way.difference_update(distinct)
        boards = {name: self._noted(name, opened.get(name), read_s) for name in distinct}
        return [self._served(boards[name]) for name in names]

    def _noted(self, name: str, opened: OpenedBoard | None, read_s: float) -> Board | None:
        """Keep a board as it was read, the same object as long as nothing of it changed."""
        known, family = self._known(name), self._family_of(name)
        if opened is None or family is None:
            self.cache.drop(name)
            return None
        board = known.board if known and known.opened == opened else family.board(opened)
        self.cache.put(name, _KnownBoard(board, opened, family, read_s))
        return board


def _heard(lookup: asyncio.Future[Board | None]) -> None:
    """Take note of an error that nobody may be waiting for any more."""
    if not lookup.cancelled():
        lookup.exception()
