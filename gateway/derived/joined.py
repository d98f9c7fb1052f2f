"""Who was on a board at each moment, where a board has to be joined, for folding the log anew."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Sequence

from gateway.ledger.ledger import Ledger
from gateway.ledger.players.joins import JoinChange, changes_of

PAGE = 1_000


class Joined:
    """The changes of a board in the order of time. Before the oldest that is kept a player was as that change found them."""

    def __init__(self, changes: Sequence[JoinChange]) -> None:
        ordered = sorted(changes, key=lambda each: (each.at_ms, each.revision))
        self._times = [each.at_ms for each in ordered]
        self._players = [each.player for each in ordered]
        self._of: dict[str, list[JoinChange]] = defaultdict(list)
        for each in ordered:
            self._of[each.player].append(each)

    def was(self, player: str, at_ms: int) -> bool:
        """Tell whether a player was on the board at a moment (Unix ms)."""
        changes = self._of.get(player, [])
        before = bisect_right(changes, at_ms, key=lambda each: each.at_ms)
        if before:
            return bool(changes[before - 1].is_joined)
        return bool(changes) and not changes[0].is_joined

    def has_turned(self, players: Container[str], after_ms: int, upto_ms: int) -> bool:
        """Tell whether one of the players joined or left after a moment, and not after another one."""
        begin, end = bisect_right(self._times, after_ms), bisect_right(self._times, upto_ms)
        return any(each in players for each in self._players[begin:end])


async def joined_of(ledger: Ledger, board: str) -> Joined:
    """Return who was on a board when, read a page at a time."""
    changes: list[JoinChange] = []
    after = "", 0
    while page := await ledger.read(changes_of(board, after=after, count=PAGE)):
        changes += page
        after = page[-1].player, page[-1].revision
    return Joined(changes)
