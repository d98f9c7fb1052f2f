"""Shows moderators the audit trail: who did what, as JSON and as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.context import EDGE
from gateway.edge.http.request import moderator_of, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.moderation.hidden_checks import first_hidden, hidden_checks
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_trail import TrailEvent, TrailPageShown
from gateway.ledger.moderation import trail_file
from gateway.ledger.moderation.trail import ACTOR, TrailFilter, TrailPage, TrailRow, trail_page
from gateway.ledger.reads import ReadKind
from gateway.ledger.submission_rows import detail_from
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339, rfc3339
from policies.vocabulary import LATEST_MS, Reason

PAGE_LIMIT: Final = 100
ROWS_LIMIT: Final = 1_000
"""Most rows of one file; the next file goes on where it ended."""

FILTERS: Final = ("moderator", "reason", "board", "player", "since", "until")
"""The parameters by which the trail is filtered."""

_NEWEST: Final = 2**63 - 1
_MEANINGS: Final = {reason.value: reason.meaning for reason in Reason}
_CSV: Final = "text/csv; charset=utf-8; header=present"


async def list_trail(request: web.Request) -> web.Response:
    """Return a page of what moderators did, newest first."""
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    return json_response(await trail_shown(request, count=count))


async def trail_shown(request: web.Request, *, count: int) -> TrailPageShown:
    """Return the page of the trail that a query asks for.

    Raises `schema-violation`, and as `moderator_of`.
    """
    moderator = await moderator_of(request, Ability.READ, _board_asked(request))
    hidden = first_hidden(await hidden_checks(request.app[EDGE], moderator))
    page, following = await _page(request, moderator.scopes(Ability.READ), count, hidden)
    events = [_shown(event) for event in page.events]
    return TrailPageShown(events=events, next=following)


async def export_trail(request: web.Request) -> web.Response:
    """Return what moderators did as CSV, newest first.

    A `Link` to the next file follows if there is more. Each row can be compared with the seals.
    """
    moderator = await moderator_of(request, Ability.OVERRULE, _board_asked(request))
    count = whole_number(request, "limit", 1_000, 1, ROWS_LIMIT)
    page, following = await _page(request, moderator.scopes(Ability.OVERRULE), count, {})
    headers = {"Content-Type": _CSV, "Content-Disposition": 'attachment; filename="audit-trail.csv"'}
    if following:
        url = request.rel_url.update_query(cursor=following)
        headers["Link"] = f'<{url}>; rel="next"'
    return web.Response(text=trail_file.written(page.events, has_header=True), headers=headers)


def _board_asked(request: web.Request) -> str | None:
    return request.query.get("board")


async def _page(
    request: web.Request, scopes: frozenset[str], count: int, hidden: Mapping[str, int]
) -> tuple[TrailPage, str | None]:
    """Return the page of the query, and the cursor of the one behind it."""
    edge, query = request.app[EDGE], request.query
    wanted = TrailFilter(
        scopes=scopes,
        moderator=query.get("moderator"),
        reason=_reason_of(request),
        board=query.get("board"),
        player=query.get("player"),
        since_ms=instant_of(request, "since", 0),
        until_ms=instant_of(request, "until", LATEST_MS + 1),
    )
    listed = ("trail", sorted(wanted.scopes), *astuple(wanted)[1:])
    place = edge.cursors.place_in(request, listed)
    before = place[0] if place else _NEWEST
    reading = trail_page(wanted, before=before, count=count, hidden=hidden)
    page = await edge.ledger.read(reading, ReadKind.MODERATION)
    following = None if page.before is None else (page.before,)
    return page, edge.cursors.next_of(listed, following)


def _reason_of(request: web.Request) -> str | None:
    reason = request.query.get("reason")
    if reason is not None and reason not in _MEANINGS:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "reason: there is no such reason; see /docs/reasons")
    return reason


def instant_of(request: web.Request, name: str, default: int) -> int:
    """Return a moment (Unix ms) that the query names. Raises `schema-violation`."""
    text = request.query.get(name)
    if text is None:
        return default
    at_ms = parse_rfc3339(text)
    if at_ms is None or at_ms < 0:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"{name}: {fault_of_rfc3339(text)}")
    return at_ms


def _shown(event: TrailRow) -> TrailEvent:
    return TrailEvent(
        seq=event["seq"],
        at=rfc3339(event["at_ms"]),
        moderator=event["actor"].removeprefix(ACTOR),
        reason=event["reason"],
        meaning=_MEANINGS.get(event["reason"], ""),
        from_state=event["from_state"],
        to_state=event["to_state"],
        board=event["board"] or None,
        player=event["player"] or None,
        submission=event["submission_id"] or None,
        detail=dict(detail_from(event["detail"])),
    )
