"""Lists the families, and the boards of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aiohttp import web

from gateway.edge.context import EDGE
from gateway.edge.http.request import family_of, whole_number
from gateway.edge.http.responses import json_response, opened_board_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.wire import board_answers
from gateway.ledger.boards.listing import FILTERS, PAGE_LIMIT, BoardCursor, BoardOrder, boards_of_family
from gateway.ledger.reads import ReadKind
from policies.family import Family

FILTER_PREFIX: Final = "metadata."
"""The beginning of a query parameter that filters by a metadata field."""

_LISTED: Final = ("families",)


async def list_families(request: web.Request) -> web.Response:
    """Return a page of the families, by name."""
    edge = request.app[EDGE]
    [after] = edge.cursors.place_in(request, _LISTED) or [""]
    limit = whole_number(request, "limit", PAGE_LIMIT, 1, PAGE_LIMIT)
    names = sorted(name for name in edge.catalogue.families if name > after)
    shown = [_family_shown(edge.catalogue.families[name]) for name in names[:limit]]
    following = edge.cursors.next_of(_LISTED, names[limit - 1 : limit] if len(names) > limit else None)
    return revalidated(request, json_response(board_answers.FamilyList(families=shown, next=following)))


async def list_family_boards(request: web.Request) -> web.Response:
    """Return a page of a family's boards: by name, by newest, or by most played of late."""
    edge, family = request.app[EDGE], family_of(request)
    order, filters = _order_of(request), list(_filters_of(request, family))
    listed = ("boards", family.name, order, sorted(filters))
    place = edge.cursors.place_in(request, listed)
    page = await edge.ledger.read(
        boards_of_family(
            family.name,
            order=order,
            after=BoardCursor(*place) if place else None,
            filters=filters,
            count=whole_number(request, "limit", 25, 1, PAGE_LIMIT),
        ),
        ReadKind.PAGES,
    )
    shown = board_answers.FamilyBoards(
        family=family.name,
        boards=[opened_board_shown(board) for board in page.boards],
        next=edge.cursors.next_of(listed, page.next and (*page.next,)),
    )
    return revalidated(request, json_response(shown))


def _family_shown(family: Family) -> board_answers.FamilyShown:
    policy = family.policy
    return board_answers.FamilyShown(
        family=family.name,
        title=policy.title,
        opened_by=policy.opened_by.value,
        filters={name: kind.value for name, kind in policy.metadata_filters.items()},
        rollups=[rollup.name for rollup in family.rollups],
    )


def _order_of(request: web.Request) -> BoardOrder:
    name = request.query.get("order", BoardOrder.NAME.value)
    try:
        return BoardOrder(name)
    except ValueError:
        kinds = ", ".join(order.value for order in BoardOrder)
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"order: expected one of {kinds}") from None


def _filters_of(request: web.Request, family: Family) -> Iterator[tuple[str, str]]:
    """Yield the metadata fields and values of the query. Raises `schema-violation`."""
    names = [name for name in request.query if name.startswith(FILTER_PREFIX)]
    if len(names) > FILTERS:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"expected at most {FILTERS} filters")
    for name in names:
        field = name.removeprefix(FILTER_PREFIX)
        kind = family.policy.metadata_filters.get(field)
        if kind is None:
            raise Problem(ProblemType.SCHEMA_VIOLATION, f"{name}: the family is not filtered by this field")
        if fault := kind.fault_of(request.query[name]):
            raise Problem(ProblemType.SCHEMA_VIOLATION, f"{name}: {fault}")
        yield field, request.query[name]
