"""Policies that change while a part runs: all of a folder are put in force in one step, or none is."""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gateway.runtime.settings import Settings
from gateway.runtime.telemetry import POLICY_RELOADS, POLICY_STALE, Event, logger
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError
from policies.loader import Board, load_boards
from policies.policy_changes import refuse_restart

_had_terminal: Final = os.isatty(0)
_log = logger()


class BoardsInForce(Mapping[str, Board]):
    """The boards by name. Who looks one up keeps it to the end of the request or run, so that one policy judges it.

    `is_stale`: the files say something else by now, which was refused.
    """

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self._boards = boards
        self._names = sorted(boards)
        self.is_stale = False

    def __getitem__(self, name: str) -> Board:
        """The board as its policy is now."""
        return self._boards[name]

    def __iter__(self) -> Iterator[str]:
        """The names; a change of policies may add some."""
        return iter(self._boards)

    def __len__(self) -> int:
        """How many boards there are."""
        return len(self._boards)

    def names_after(self, name: str, count: int) -> list[str]:
        """Up to so many names behind this one, in the order of the alphabet."""
        begin = bisect_right(self._names, name)
        return self._names[begin : begin + count]

    def replace(self, boards: Mapping[str, Board]) -> None:
        """Has other policies in force from now on, for the same boards and for new ones; logs which."""
        before, self._boards = self._boards, boards
        self._names = sorted(boards)
        same = {name for name, each in before.items() if boards[name].digest == each.digest}
        changed = {name: each.digest for name, each in boards.items() if name not in same}
        _log.info(Event.POLICY_RELOADED, changed=changed)


def read_again(settings: Settings, in_force: BoardsInForce) -> Mapping[str, Board] | None:
    """The boards as the files say now; None, counted and logged, if that is wrong or needs a restart."""
    try:
        boards = load_boards(settings.policies_dir)
        refuse_restart(in_force, boards)
    except ScoregateError as error:
        POLICY_RELOADS.labels("refused").inc()
        POLICY_STALE.set(1)
        in_force.is_stale = True
        _log.error(Event.POLICY_REFUSED, error=str(error))
        return None
    POLICY_RELOADS.labels("in_force").inc()
    POLICY_STALE.set(0)
    in_force.is_stale = False
    return boards


async def reload_when_asked(
    asked: asyncio.Event,
    settings: Settings,
    in_force: BoardsInForce,
    put: Callable[[Mapping[str, Board]], None],
) -> None:
    """Reads the files again each time it is asked to, on a thread, and calls `put` in the loop; until cancelled."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            boards = await asyncio.to_thread(read_again, settings, in_force)
        except Exception as error:  # noqa: BLE001 - a bug in reading must not end a part that serves
            report(FaultPlace.POLICIES, error)
            continue
        if boards is not None:
            put(boards)


def is_terminal_gone() -> bool:
    """True if this process was started in a terminal that was closed since: SIGHUP then means to end, not to reload."""
    return _had_terminal and not os.isatty(0)
