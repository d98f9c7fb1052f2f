"""The ZSETs of a window: one, or on a board with `ranges` one for each range of scores, the best first.

The ranges of a window share the hash tag of its board. So one script can move a standing from one range to
another, and a rank is the sizes of the ranges ahead plus the rank in its range, read at one moment.
`lua/_ranges.lua` shows them to a script as one ZSET; this file names them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from gateway.index import keys
from policies.ranking import Ranking


class RangedWindow(str):
    """The key that a window would have without ranges, which does not exist in Redis.

    `zsets` are the keys of the ranges in the order of the board; `borders` come from `Ranking.borders`.
    """

    __slots__ = ("borders", "zsets")

    zsets: tuple[str, ...]
    borders: tuple[int, ...]

    @classmethod
    def of(cls, key: str, zsets: Iterable[str], borders: tuple[int, ...]) -> RangedWindow:
        """Return the window with this key and these ZSETs."""
        window = cls(key)
        window.zsets, window.borders = tuple(zsets), borders
        return window


def window_key(ranking: Ranking, name: str) -> str:
    """Return the key of a board's window, as scripts take it."""
    board, borders = ranking.policy.board, ranking.borders(name)
    key = keys.window(board, name)
    if not borders:
        return key
    ranges = range(len(borders) + 1)
    return RangedWindow.of(key, (keys.window_range(board, name, number) for number in ranges), borders)


def renamed(window: str, name: Callable[[str], str]) -> str:
    """Return the window with every key replaced by `name` of it."""
    if not isinstance(window, RangedWindow):
        return name(window)
    return RangedWindow.of(name(window), map(name, window.zsets), window.borders)


def zsets_of(window: str) -> list[str]:
    """Return the keys of a window's ZSETs."""
    return list(window.zsets) if isinstance(window, RangedWindow) else [window]


def zset_at(window: str, order: float) -> str:
    """Return the key of the ZSET for a standing with this order."""
    if not isinstance(window, RangedWindow):
        return window
    return window.zsets[bisect_right(window.borders, order)]
