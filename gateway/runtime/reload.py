"""Reloads of policies while a part runs: either all files of a folder come into force, or none."""

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
    """The boards in force, by name. Look one up once per request or run, so that one policy judges it.

    `is_stale` means that the files have changed since, and that the change was refused.
    """

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self._boards = boards
        self._names = sorted(boards)
        self.is_stale = False

    def __getitem__(self, name: str) -> Board:
        """Return the board with its current policy."""
        return self._boards[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names; a reload may add some."""
        return iter(self._boards)

    def __len__(self) -> int:
        """Return the number of boards."""
        return len(self._boards)

    def names_after(self, name: str, count: int) -> list[str]:
        """Return up to `count` names that sort after this one."""
        begin = bisect_right(self._names, name)
        return self._names[begin : begin + count]

    def replace(self, boards: Mapping[str, Board]) -> None:
        """Put other policies in force, for the same boards and for new ones, and log which changed."""
        before, self._boards = self._boards, boards
        self._names = sorted(boards)
        same = {name for name, board in before.items() if boards[name].digest == board.digest}
        changed = {name: board.digest for name, board in boards.items() if name not in same}
        _log.info(Event.POLICY_RELOADED, changed=changed)


def read_again(settings: Settings, in_force: BoardsInForce) -> Mapping[str, Board] | None:
    """Load the policy files. If they are wrong or need a restart, log it, count it, and return None."""
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
    requested: asyncio.Event,
    settings: Settings,
    in_force: BoardsInForce,
    put: Callable[[Mapping[str, Board]], None],
) -> None:
    """Load the files, on a thread, whenever `requested` is set, and call `put` in the loop. Never returns."""
    while True:
        await requested.wait()
        requested.clear()
        try:
            boards = await asyncio.to_thread(read_again, settings, in_force)
        except Exception as error:  # noqa: BLE001 - a bug in reading must not end a part that serves
            report(FaultPlace.POLICIES, error)
            continue
        if boards is not None:
            put(boards)


def is_terminal_gone() -> bool:
    """Return whether the terminal that started this process is closed: SIGHUP then means exit, not reload."""
    return _had_terminal and not os.isatty(0)
