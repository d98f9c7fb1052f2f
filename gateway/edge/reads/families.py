"""Lists the families, and the boards of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson
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

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,47}")


async def list_families(request: web.Request) -> web.Response:
    """Return a page of the families, by name. A cursor is the name of the last family of a page."""
    edge, after = request.app[EDGE], request.query.get("cursor", "")
    limit = whole_number(request, "limit", PAGE_LIMIT, 1, PAGE_LIMIT)
    if after and not _NAME.fullmatch(after):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "cursor: expected the `next` of a page of families")
    names = sorted(name for name in edge.catalogue.families if name > after)
    shown = [_family_shown(edge.catalogue.families[name]) for name in names[:limit]]
    following = names[limit - 1] if len(names) > limit else None
    return revalidated(request, json_response(board_answers.FamilyList(families=shown, next=following)))


async def list_family_boards(request: web.Request) -> web.Response:
    """Return a page of a family's boards: by name, by newest, or by most played of late."""
    edge, family = request.app[EDGE], family_of(request)
    order, filters = _order_of(request), list(_filters_of(request, family))
    listed = orjson.dumps(("boards", family.name, order, sorted(filters)))
    page = await edge.ledger.read(
        boards_of_family(
            family.name,
            order=order,
            after=_cursor_of(request, listed),
            filters=filters,
            count=whole_number(request, "limit", 25, 1, PAGE_LIMIT),
        ),
        ReadKind.PAGES,
    )
    shown = board_answers.FamilyBoards(
        family=family.name,
        boards=[opened_board_shown(board) for board in page.boards],
        next=edge.cursors.signed(orjson.dumps((*page.next,)), listed) if page.next else None,
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


def _cursor_of(request: web.Request, listed: bytes) -> BoardCursor | None:
    """Return the cursor of the query. Raises `schema-violation` for one that no page of this list gave."""
    text = request.query.get("cursor")
    if text is None:
        return None
    try:
        return BoardCursor(*orjson.loads(request.app[EDGE].cursors.content_of(text, listed)))
    except ValueError:
        detail = "cursor: expected the `next` of a page of this family, in this order and with these filters"
        raise Problem(ProblemType.SCHEMA_VIOLATION, detail) from None
