"""The first submission on the page `/docs`: it names the edge that is asked, and a board that is there."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from policies.board import Board
from policies.choices import Writes
from policies.replaying import BuildStatus

AUTHORITY: Final = "%AUTHORITY%"
BOARD: Final = "%BOARD%"
BUILD: Final = "%BUILD%"
"""What the drawn page has in place of the names, which differ between edges."""

_UNKNOWN: Final = ("<board>", "<build>")


def fill_in(page: bytes, authority: str, boards: Mapping[str, Board]) -> bytes:
    """Return the drawn page with this edge's names, escaped: `authority` is the client's text."""
    names = dict(zip((AUTHORITY, BOARD, BUILD), (authority, *_board_and_build(boards)), strict=True))
    for place, name in names.items():
        page = page.replace(place.encode(), escape(name).encode())
    return page


def _board_and_build(boards: Mapping[str, Board]) -> tuple[str, str]:
    """Return the first board of a file that players write, and its first build that opens runs."""
    for name, board in sorted(boards.items()):
        builds = [
            build for build, each in board.policy.builds.items() if each.status is not BuildStatus.BLOCKED
        ]
        if board.policy.writes in {Writes.VERIFIED, Writes.OPEN} and (builds or not board.policy.builds):
            return name, builds[0] if builds else "1.0"
    return _UNKNOWN
