"""The boards of a deployment, by name, under the policies in force."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from gateway.runtime.telemetry import Event, logger
from policies.loader import Board

_log = logger()


class Catalogue:
    """The boards of a deployment. Look one up once per request or run, so that one policy judges it.

    `is_stale` means that the files have changed since, and that the change was refused.
    """

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self._of_files = boards
        self._names = sorted(boards)
        self.is_stale = False

    @property
    def of_files(self) -> Mapping[str, Board]:
        """The boards that have a file of their own, which are always in memory."""
        return self._of_files

    def __contains__(self, name: object) -> bool:
        """Return whether a policy is in force for a board of this name."""
        return name in self._of_files

    async def board(self, name: str) -> Board | None:
        """Return a board, None if there is none of this name. Raises LedgerUnavailable."""
        return self._of_files.get(name)

    async def boards(self, names: Iterable[str]) -> Mapping[str, Board]:
        """Return those of the named boards that exist. Raises LedgerUnavailable."""
        boards = {name: await self.board(name) for name in names}
        return {name: board for name, board in boards.items() if board}

    def names_after(self, name: str, count: int) -> list[str]:
        """Return the first names of boards of files that sort after this one."""
        begin = bisect_right(self._names, name)
        return self._names[begin : begin + count]

    def replace(self, boards: Mapping[str, Board]) -> None:
        """Put other policies in force, for the same boards and for new ones, and log which changed."""
        before, self._of_files = self._of_files, boards
        self._names = sorted(boards)
        same = {name for name, board in before.items() if boards[name].digest == board.digest}
        changed = {name: board.digest for name, board in boards.items() if name not in same}
        _log.info(Event.POLICY_RELOADED, changed=changed)
