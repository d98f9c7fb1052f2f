"""The page of the queue, and the way to the next case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.console.forms import read_form
from gateway.edge.console.page_drawing import draw, go_to, is_fragment
from gateway.edge.console.settled_cases import settled_case
from gateway.edge.console.visits import visit_of
from gateway.edge.console.wording import without_field
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_anywhere
from gateway.edge.moderation.queue import FILTERS, next_case, queue_counts, queue_request_of, queue_shown
from gateway.edge.moderation.views import remove_view, save_view, views_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_queue import QueuedCase, QueueShown
from gateway.ledger.index_pages import names_of
from gateway.ledger.reads import ReadKind

AGE_WORDS: Final = ("Under an hour", "Under a day", "Under a week", "Older")
"""What the ages are called by which the cases are counted."""

QUEUE: Final = "/console/queue"

ROWS: Final = 50
"""Cases of a page of the queue."""

AGES: Final = ((0, "Any"), (3_600, "1 hour"), (21_600, "6 hours"), (86_400, "1 day"), (604_800, "1 week"))
"""Choices of the least age (s), in words."""

_EMPTY: Final = {"min_age_s": ("", "0")}
"""What fields of the filter say if they are left alone, where that is not nothing."""

LARGEST_HARM: Final = 16

NO_SUCH_BOARD: Final = "No board or family of yours has this name."


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A case with what its page says beside it: the player's name and the board's title and decimals.

    `is_claimed_by_opening` says that the moderator decides on the board and nobody else is in the case.
    """

    case: QueuedCase
    name: str
    title: str
    decimals: int
    is_claimed_by_opening: bool

    @property
    def harm(self) -> str:
        """Return the expected harm in words, since its number says little by itself."""
        if self.case.harm is None:
            return "unknown"
        part = self.case.harm / LARGEST_HARM
        return "high" if part >= 0.6 else "medium" if part >= 0.25 else "low"  # noqa: PLR2004


async def show_queue_page(request: web.Request) -> web.Response:
    """Draw the queue, or for htmx its rows. What a form leaves empty leaves the address too."""
    filled = {name: text for name, text in request.query.items() if text not in _EMPTY.get(name, ("",))}
    if len(filled) != len(request.query):
        return go_to(request, f"{QUEUE}?{urlencode(filled)}" if filled else QUEUE)
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.READ)
    cursor, fault, status = request.query.get("cursor"), "", 200
    try:
        asked = queue_request_of(request, moderator)
        shown = await queue_shown(edge, moderator, asked, cursor, count=ROWS)
    except Problem as problem:
        if problem.kind not in {ProblemType.NOT_FOUND, ProblemType.SCHEMA_VIOLATION} or is_fragment(request):
            raise
        shown, status = QueueShown(cases=[], next=None), problem.kind.status
        fault = NO_SUCH_BOARD if problem.kind is ProblemType.NOT_FOUND else without_field(problem)
    filters, views = filters_of(request), await views_of(edge, moderator)
    if not (shown.cases or fault) and _names_nothing(edge, filters):
        fault = NO_SUCH_BOARD
    counts = await queue_counts(edge, moderator)
    return draw(
        request,
        "queue_rows.html" if is_fragment(request) else "queue.html",
        status=status,
        fault=fault,
        visit=await visit_of(request),
        current=QUEUE,
        rows=await _rows(edge, shown.cases, moderator),
        filters=filters,
        query=urlencode(filters),
        own_query=urlencode({**filters, **({"cursor": cursor} if cursor else {})}),
        counts=counts,
        ages_counted=list(zip(counts.ages, AGE_WORDS, strict=True)),
        views={name: urlencode(saved) for name, saved in views.items()},
        this_view=next((name for name, saved in views.items() if saved == filters), ""),
        next_query=urlencode({**filters, "cursor": shown.next}) if shown.next else "",
        is_first=not cursor,
        ages=AGES,
        may_decide=bool(moderator.scopes(Ability.DECIDE)),
        is_nothing_next="none" in request.query,
        settled=await settled_case(request),
    )


def _names_nothing(edge: Edge, filters: Mapping[str, str]) -> bool:
    """Return whether the filters name a board or a family that no policy knows."""
    board, family = filters.get("board"), filters.get("family")
    known = edge.catalogue.policies.by_name
    return bool((board and board not in edge.catalogue) or (family and family not in known))


async def save_this_view(request: web.Request) -> web.Response:
    """Save the filters of the address under the name that the form has, with `-` for its spaces."""
    form = await read_form(request)
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.READ)
    filters = queue_request_of(request, moderator).filters
    name = "-".join(form.get("name", "").lower().split())
    await save_view(edge, moderator, name, filters)
    return go_to(request, f"{QUEUE}?{urlencode(filters)}")


async def remove_this_view(request: web.Request) -> web.Response:
    """Remove the saved view that the form names."""
    form = await read_form(request)
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.READ)
    await remove_view(edge, moderator, form.get("name", ""))
    return go_to(request, QUEUE)


async def take_next(request: web.Request) -> web.Response:
    """Claim the next case of the queue and open it; the queue says so if there is none."""
    await read_form(request)
    return go_to(request, await path_of_next(request))


async def path_of_next(request: web.Request, settled: str = "") -> str:
    """Claim the next case and return the path of its page, or of the queue if none can be offered."""
    edge, moderator = request.app[EDGE], await moderator_anywhere(request, Ability.DECIDE)
    case = await next_case(edge, moderator, queue_request_of(request, moderator))
    told = filters_of(request) | ({"settled": settled} if settled else {})
    if case is None:
        return f"{QUEUE}?{urlencode({**told, 'none': 'true'})}"
    return f"/console/cases/{case.submission}?{urlencode({'flow': 'true', **told})}"


def filters_of(request: web.Request) -> dict[str, str]:
    """Return the filters of the queue that the address of a case or of its forms keeps."""
    return {name: request.query[name] for name in FILTERS if name in request.query}


async def _rows(edge: Edge, cases: Sequence[QueuedCase], moderator: Moderator) -> list[QueueRow]:
    names = await edge.ledger.read(names_of([case.player for case in cases]), ReadKind.MODERATION)
    boards = await edge.catalogue.boards({case.board for case in cases})
    return [
        QueueRow(
            case,
            names.get(case.player) or case.player,
            boards[case.board].policy.title,
            boards[case.board].policy.decimals,
            moderator.may(Ability.DECIDE, case.board)
            and (case.claim is None or case.claim.by == moderator.name),
        )
        for case in cases
        if case.board in boards
    ]
