"""A window as the ZSETs that it is in: one, or on a board with `ranges` one for each range of scores, the best first.

The ranges of a window share the hash tag of its board, so that a standing goes from one to another within the script
that shows it, and a rank is the sizes of the ranges ahead, which Redis knows, and the rank in the range, at one moment.
`lua/_ranges.lua` shows them to a script as the one ZSET that they make; this file says which those are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from gateway.index import keys
from policies.ranking import Ranking


class RangedWindow(str):
    """The key that a window would have without ranges; nothing is there.

    `zsets` are the keys of the ranges in the order of the board, `borders` are as `Ranking.borders` has them.
    """

    __slots__ = ("borders", "zsets")

    zsets: tuple[str, ...]
    borders: tuple[int, ...]

    @classmethod
    def of(cls, key: str, zsets: Iterable[str], borders: tuple[int, ...]) -> RangedWindow:
        """The window with this key in these ZSETs."""
        window = cls(key)
        window.zsets, window.borders = tuple(zsets), borders
        return window


def window_key(ranking: Ranking, name: str) -> str:
    """The key of a board's window, as scripts are given it."""
    board, borders = ranking.policy.board, ranking.borders(name)
    key = keys.window(board, name)
    if not borders:
        return key
    ranges = range(len(borders) + 1)
    return RangedWindow.of(key, (keys.window_range(board, name, number) for number in ranges), borders)


def renamed(window: str, name: Callable[[str], str]) -> str:
    """The window at other keys: what `name` gives for each of its own."""
    if not isinstance(window, RangedWindow):
        return name(window)
    return RangedWindow.of(name(window), map(name, window.zsets), window.borders)


def zsets_of(window: str) -> list[str]:
    """The keys of the ZSETs that a window is in."""
    return list(window.zsets) if isinstance(window, RangedWindow) else [window]


def zset_at(window: str, order: float) -> str:
    """The key of the ZSET that a standing of this order belongs in."""
    if not isinstance(window, RangedWindow):
        return window
    return window.zsets[bisect_right(window.borders, order)]
