"""The history of who was on a board that has to be joined, for replaying the log."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Sequence

from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import JoinChange, changes_of

PAGE = 1_000


class JoinHistory:
    """When players joined and left a board."""

    def __init__(self, changes: Sequence[JoinChange]) -> None:
        ordered = sorted(changes, key=lambda change: (change.at_ms, change.revision))
        self._times_ms = [change.at_ms for change in ordered]
        self._players = [change.player for change in ordered]
        self._of_player: dict[str, list[JoinChange]] = defaultdict(list)
        for change in ordered:
            self._of_player[change.player].append(change)

    def was_on_board(self, player: str, at_ms: int) -> bool:
        """Return whether a player was on the board at a moment (Unix ms)."""
        changes = self._of_player.get(player, [])
        before = bisect_right(changes, at_ms, key=lambda change: change.at_ms)
        if before:
            return bool(changes[before - 1].is_joined)
        # Old changes are pruned. Joining and leaving alternate, so the oldest change left tells what was
        # before it.
        return bool(changes) and not changes[0].is_joined

    def has_changed(self, players: Container[str], after_ms: int, until_ms: int) -> bool:
        """Return whether one of the players joined or left after `after_ms`, at `until_ms` at the latest."""
        begin, end = bisect_right(self._times_ms, after_ms), bisect_right(self._times_ms, until_ms)
        return any(player in players for player in self._players[begin:end])


async def join_history_of(ledger: Ledger, board: str) -> JoinHistory:
    """Read the history of a board, a page at a time."""
    changes: list[JoinChange] = []
    after = "", 0
    while page := await ledger.read(changes_of(board, after=after, count=PAGE)):
        changes += page
        after = page[-1].player, page[-1].revision
    return JoinHistory(changes)
