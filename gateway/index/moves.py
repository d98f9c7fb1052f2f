"""The latest moves of entries on a board, by which a page that was read before them can be carried on.

Between two versions of a board's pages that a projected change names, nothing happened but its moves:
entries that left a place and took another. Those that stay ahead of a page or behind it leave its entries as
they are, and those from one side of it to the other shift all its ranks by one.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from policies.ranking import BoardPlace

MOST_STEPS: Final = 256
"""Most versions that a board remembers. Reading a page anew costs less than looking at more moves."""

MOST_OF_BOARD: Final = 1_024
"""Most moves that a board remembers."""

MOST_MOVES: Final = 16_384
"""Most moves that a process remembers, of all its boards."""

BEGINNING: Final = BoardPlace(-(2**60), "")
"""A place ahead of all entries."""

END: Final = BoardPlace(2**60, "")
"""A place behind all entries."""

NOWHERE: Final = BoardPlace(2**61, "")
"""The place of an entry that there is not, which is on no page."""


class Move(NamedTuple):
    """A move of an entry of a window, from a place to a place, and the number of the version that has it."""

    number: int
    was: BoardPlace
    now: BoardPlace


class Shift(NamedTuple):
    """By how much a page's ranks and its window's number of entries changed."""

    ranks: int
    total: int


UNMOVED: Final = Shift(0, 0)


class Moves:
    """The moves of one board between the latest versions of its pages."""

    def __init__(self, budget: MovesBudget | None = None) -> None:
        self.newest = ""
        self._budget = budget or BUDGET
        self._numbers: dict[str, int] = {}
        self._of_window: defaultdict[str, deque[Move]] = defaultdict(deque)
        self._renames: deque[tuple[int, str]] = deque()

    @property
    def size(self) -> int:
        """Return the number of moves that it remembers."""
        return sum(map(len, self._of_window.values()))

    def note(self, version: str, steps: Sequence[str] | None) -> None:
        """Note the current version, with the answer of `read_version.lua` on how it came from `newest`.

        Without one, and if it cannot be read, nothing is known of the versions before.
        """
        if version == self.newest:
            return
        try:
            for name, lines in _oldest_first(steps or ()):
                self._add(name, lines)
        except ValueError:  # nothing that Scoregate wrote
            self.forget()
        if version != self.newest:
            self.forget()
            self._numbers[version] = 0
            self.newest = version
            return
        self._trim()
        self._budget.count(self)

    def forget(self) -> None:
        """Forget all versions and moves."""
        self.newest = ""
        for content in (self._numbers, self._of_window, self._renames):
            content.clear()

    def shift(self, window: str, since: str, until: str, low: BoardPlace, high: BoardPlace) -> Shift | None:
        """Return what the moves between two versions did to the entries from `low` to `high`.

        None if one of them left or joined these entries, or if not all moves are known.
        """
        moves = self._between(window, since, until)
        if moves is None:
            return None
        ranks = total = 0
        for was, now in moves:
            if low <= now <= high or low <= was <= high:
                return None
            ranks += (now < low) - (was < low)
            total += (was is NOWHERE) - (now is NOWHERE)
        return Shift(ranks, total)

    def renamed(self, since: str, until: str) -> list[str]:
        """Return the players whose names changed between two versions that are known."""
        first, last = self._numbers.get(since, 0), self._numbers.get(until, 0)
        return [player for number, player in self._renames if first < number <= last]

    def _between(self, window: str, since: str, until: str) -> list[tuple[BoardPlace, BoardPlace]] | None:
        """Return the moves of a window between two versions, None if not all are known."""
        first, last = self._numbers.get(since), self._numbers.get(until)
        if first is None or last is None or first > last:
            return None
        newest_first = takewhile(lambda move: move.number > first, reversed(self._of_window.get(window, ())))
        return [(was, now) for number, was, now in newest_first if number <= last]

    def _add(self, version: str, lines: str) -> None:
        """Add a version with the moves to it from the newest."""
        number = self._numbers[version] = self._numbers[self.newest] + 1
        self.newest = version
        for line in lines.split("\n"):
            window, player, is_renamed, was_order, was_member, order, member = line.split(" ")
            move = Move(number, _place(was_order, was_member), _place(order, member))
            self._of_window[window].append(move)
            if is_renamed == "1":
                self._renames.append((number, player))

    def _trim(self) -> None:
        while len(self._numbers) > MOST_STEPS or self.size > MOST_OF_BOARD:
            del self._numbers[next(iter(self._numbers))]
            self._forget_moves_to(next(iter(self._numbers.values())))

    def _forget_moves_to(self, oldest: int) -> None:
        """Forget the moves that lead to a version, and those before them."""
        for moves in self._of_window.values():
            while moves and moves[0].number <= oldest:
                moves.popleft()
        while self._renames and self._renames[0][0] <= oldest:
            self._renames.popleft()


class MovesBudget:
    """The bound on the moves of all boards together. The board that moved longest ago forgets first."""

    def __init__(self, limit: int = MOST_MOVES) -> None:
        self._limit = limit
        self._total = 0
        self._sizes: OrderedDict[Moves, int] = OrderedDict()

    def count(self, moves: Moves) -> None:
        """Count the moves of a board that has new ones."""
        self._total += moves.size - self._sizes.pop(moves, 0)
        self._sizes[moves] = moves.size
        while self._total > self._limit:
            longest_ago, size = self._sizes.popitem(last=False)
            longest_ago.forget()
            self._total -= size


BUDGET: Final = MovesBudget()


def _place(order: str, member: str) -> BoardPlace:
    return NOWHERE if order == "-" or member == "-" else BoardPlace(int(order), member)


def _oldest_first(steps: Sequence[str]) -> list[tuple[str, str]]:
    """Return the versions of an answer, each with the moves to it."""
    return list(zip(steps[::2], steps[1::2], strict=True))[::-1]
