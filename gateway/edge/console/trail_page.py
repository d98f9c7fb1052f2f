"""The page of the audit trail: who did what, with the filters of the API."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.console.page_drawing import draw, go_to
from gateway.edge.console.visits import visit_of
from gateway.edge.http.request import moderator_anywhere
from gateway.edge.moderation.trail import FILTERS, trail_shown
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_trail import TrailPageShown
from gateway.runtime.clock import parse_rfc3339
from policies.vocabulary import Reason

TRAIL: Final = "/console/trail"

ROWS: Final = 50
"""Events of a page."""

_TIMES: Final = ("since", "until")

KINDS: Final = (
    Reason.APPROVED,
    Reason.APPROVED_ONCE,
    Reason.REJECTED_BY_MODERATOR,
    Reason.REVOKED_BY_MODERATOR,
    Reason.REINSTATED,
    Reason.HELD_BY_MODERATOR,
    Reason.QUESTION_ASKED,
    Reason.APPEAL_GRANTED,
    Reason.APPEAL_DENIED,
    Reason.BANNED,
    Reason.UNBANNED,
    Reason.RENAMED,
    Reason.RENAME_UNDONE,
    Reason.TOKENS_ENDED,
    Reason.MODERATOR_ADDED,
    Reason.MODERATOR_CHANGED,
    Reason.MODERATOR_DISABLED,
    Reason.MODERATOR_ENABLED,
    Reason.MODERATOR_INVITED,
    Reason.PASSWORD_SET,
    Reason.SECOND_FACTOR_ADDED,
    Reason.SECOND_FACTOR_REMOVED,
    Reason.SESSIONS_ENDED,
    Reason.TOKEN_ISSUED,
    Reason.TOKEN_REVOKED,
)
"""What moderators do, as the filter offers it."""


async def show_trail_page(request: web.Request) -> web.Response:
    """Draw a page of the trail. What a form leaves empty leaves the address too, and times get their zone."""
    wanted = {name: _instant(text) if name in _TIMES else text for name, text in request.query.items()}
    filled = {name: text for name, text in wanted.items() if text}
    if filled != dict(request.query):
        return go_to(request, f"{TRAIL}?{urlencode(filled)}" if filled else TRAIL)
    moderator = await moderator_anywhere(request, Ability.READ)
    fault = ""
    try:
        shown = await trail_shown(request, count=ROWS)
    except Problem as problem:
        if problem.kind not in {ProblemType.SCHEMA_VIOLATION, ProblemType.NOT_FOUND}:
            raise
        shown, fault = TrailPageShown(events=[], next=None), problem.detail or problem.kind.title
    filters = {name: text for name, text in filled.items() if name in FILTERS}
    return draw(
        request,
        "trail.html",
        status=200 if not fault else 422,
        visit=await visit_of(request),
        current=TRAIL,
        events=shown.events,
        next_query=urlencode({**filters, "cursor": shown.next}) if shown.next else "",
        is_first="cursor" not in filled,
        filters=filters,
        times={name: filters.get(name, "")[:16] for name in _TIMES},
        query=urlencode(filters),
        kinds=KINDS,
        may_export=moderator.may(Ability.OVERRULE, filters.get("board")),
        fault=fault,
    )


def _instant(entered: str) -> str:
    """Return what a field for a time in UTC was given as RFC 3339; what is that already, as it is."""
    text = f"{entered}:00Z" if len(entered) == len("2026-11-23T12:00") else entered
    return entered if parse_rfc3339(text) is None else text
