"""The page of figures: what waits, how decisions went, and how right validators were on them."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.console.page_drawing import draw
from gateway.edge.console.visits import visit_of
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_of
from gateway.edge.moderation.figures import label_filter, read_figures
from gateway.runtime.clock import parse_rfc3339
from validators.label_figures import LEAST

FIGURES: Final = "/console/figures"


async def show_figures_page(request: web.Request) -> web.Response:
    """Draw the figures of a board or a family, or of all that the moderator reaches."""
    board = request.query.get("board") or None
    moderator = await moderator_of(request, Ability.READ, board)
    wanted = label_filter(request, moderator)._replace(board=board)
    shown = await read_figures(request.app[EDGE], moderator, wanted)
    return draw(
        request,
        "figures.html",
        visit=await visit_of(request),
        current=FIGURES,
        figures=shown,
        board=board or "",
        least=LEAST,
        days=[(day, (parse_rfc3339(f"{day.day}T00:00:00Z") or 0) // 1000) for day in shown.decisions.days],
    )
