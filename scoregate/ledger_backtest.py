"""Backtests a policy over its board, or over all boards of a family in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

from gateway.ledger.boards.lookups import boards_named
from gateway.ledger.judgement.board_history import history_of_board, history_of_family
from gateway.ledger.ledger import Ledger
from policies.board import Board
from policies.family import Family
from validators.backtest import Backtest, HistoricalEvent
from validators.backtest_summary import BacktestSummary

EVENTS_HELD: Final = 200_000
"""Events of boards that are judged together. With more, some boards wait for another walk over the log."""


async def backtest_family(
    ledger: Ledger, family: Family, *, since_ms: int, advance: Callable[[int], None]
) -> BacktestSummary:
    """Judge the history of every board of a family by its policy, and return the sums.

    Each board is judged by its own history, under its own narrower bounds. Raises LedgerUnavailable.
    """
    summary, shares = BacktestSummary(), [_Share(0, 0)]
    while shares:
        share = shares.pop()
        walk = _LogWalk(ledger, family, since_ms, share)
        async for events in history_of_family(ledger, family.name):
            await walk.take(events)
            shares += walk.split()
            advance(len(events))
        for test in walk.tests.values():
            summary.take(test.report)
    return summary


async def backtest_board(
    ledger: Ledger, board: Board, *, since_ms: int, advance: Callable[[int], None]
) -> BacktestSummary:
    """Judge the history of one board by a policy, and return the sums. Raises LedgerUnavailable."""
    test, summary = Backtest(board.policy, digest=board.digest, since_ms=since_ms), BacktestSummary()
    async for event in history_of_board(ledger, board.name):
        test.take(event)
        advance(1)
    summary.take(test.report)
    return summary


class _Share:
    """The boards whose names have a hash that ends in these bits."""

    def __init__(self, bits: int, ending: int) -> None:
        self.bits = bits
        self._ending = ending

    def __contains__(self, board: object) -> bool:
        return crc32(str(board).encode()) & ((1 << self.bits) - 1) == self._ending

    def halves(self) -> tuple[_Share, _Share]:
        """Return the two shares of half the boards each."""
        return _Share(self.bits + 1, self._ending), _Share(self.bits + 1, self._ending | 1 << self.bits)


class _LogWalk:
    """One walk over the log, which judges the boards of a share."""

    def __init__(self, ledger: Ledger, family: Family, since_ms: int, share: _Share) -> None:
        self.tests: dict[str, Backtest] = {}
        self._ledger = ledger
        self._family = family
        self._since_ms = since_ms
        self._share = share
        self._held: dict[str, int] = {}

    async def take(self, events: Sequence[HistoricalEvent]) -> None:
        """Judge the next events, of boards of the share."""
        ours = [event for event in events if event.submission.board in self._share]
        await self._meet({event.submission.board for event in ours} - self.tests.keys())
        for event in ours:
            board = event.submission.board
            self.tests[board].take(event)
            self._held[board] += 1

    def split(self) -> list[_Share]:
        """Let go of half the boards while too many events are held; return the shares for later walks."""
        later = []
        while sum(self._held.values()) > EVENTS_HELD and len(self.tests) > 1:
            self._share, other = self._share.halves()
            later.append(other)
            for board in [board for board in self.tests if board in other]:
                del self.tests[board], self._held[board]
        return later

    async def _meet(self, names: set[str]) -> None:
        if not names:
            return
        opened = await self._ledger.read(boards_named(sorted(names)))
        for name in names:
            board = self._family.board(opened[name])
            self.tests[name] = Backtest(board.policy, digest=board.digest, since_ms=self._since_ms)
            self._held[name] = 0
