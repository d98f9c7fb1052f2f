"""The first submission on the page `/docs`: it names the edge that is asked, and a board that is there."""

from __future__ import annotations

from html import escape
from typing import Final

from gateway.edge.context import Edge
from policies.choices import Writes
from policies.replaying import BuildStatus

AUTHORITY: Final = "%AUTHORITY%"
BOARD: Final = "%BOARD%"
BUILD: Final = "%BUILD%"
"""What the drawn page has in place of the names, which differ between edges."""

_UNKNOWN: Final = ("<board>", "<build>")

_ANY_BUILD: Final = "1.0"
"""The build of a board that declares none and so takes all."""


def fill_in(page: bytes, authority: str, board: str, build: str) -> bytes:
    """Return the drawn page with this edge's names, escaped: `authority` is the client's text."""
    for place, name in ((AUTHORITY, authority), (BOARD, board), (BUILD, build)):
        page = page.replace(place.encode(), escape(name).encode())
    return page


def board_and_build(edge: Edge) -> tuple[str, str]:
    """Return the first board of a file that players write, and its first build that opens runs."""
    for name, board in sorted(edge.catalogue.of_files.items()):
        if board.policy.writes in {Writes.VERIFIED, Writes.OPEN}:
            for build in board.policy.builds or [_ANY_BUILD]:
                if edge.builds.status_of(board, build) is not BuildStatus.BLOCKED:
                    return name, build
    return _UNKNOWN
