"""The page at `/`: the boards with their links, and the bundled game if it has a board."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from gateway.edge.context import Edge

if TYPE_CHECKING:
    from jinja2 import Template

MOST_BOARDS: Final = 200
"""The maximum number of boards on the page; it links to `GET /v1/boards` for the rest."""

GAME_BOARD: Final = "arcade"
"""The board of the bundled game."""


@cache
def home_template() -> Template:
    """Return the template of the page. The first call loads the engine, which no other part needs."""
    from gateway.edge.docs.drawing import environment  # noqa: PLC0415

    return environment().get_template("home.html")


def draw_home(edge: Edge) -> bytes:
    """Return the HTML of the page for the boards and families in force."""
    boards = edge.catalogue.of_files
    names = sorted(boards)
    return (
        home_template()
        .render(
            boards=[boards[name].policy for name in names[:MOST_BOARDS]],
            families=[each.policy for _, each in sorted(edge.catalogue.families.items())][:MOST_BOARDS],
            left_out=max(0, len(names) - MOST_BOARDS),
            has_game=GAME_BOARD in boards and (edge.settings.arcade_dir / "index.html").is_file(),
        )
        .encode()
    )
