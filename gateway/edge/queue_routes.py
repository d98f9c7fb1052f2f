"""The routes of the moderators' queue: what waits, and who is in which case."""

from __future__ import annotations

from gateway.edge.auth.moderators import Ability
from gateway.edge.live import queue_feed
from gateway.edge.moderation import claims, queue, views
from gateway.edge.problems import ProblemType as P
from gateway.edge.route import DURABLE, POST, TOKEN, Caller, Route
from gateway.edge.wire.moderation_queue import (
    CaseHolding,
    NewView,
    NextCase,
    QueueCounts,
    QueueShown,
    SavedView,
    SavedViewList,
)

_QUEUE = (*TOKEN, *DURABLE, P.NOT_FOUND, P.SCHEMA_VIOLATION)
_VIEW = (*POST, *TOKEN, P.CSRF, P.NOT_FOUND, P.STATE_CONFLICT)
_NEXT = (*_QUEUE, P.TOO_EARLY, P.CSRF)
_CLAIM = (
    *TOKEN,
    *DURABLE,
    P.TOO_EARLY,
    P.CSRF,
    P.NOT_FOUND,
    P.STATE_CONFLICT,
    P.CASE_CLAIMED,
    P.SELF_APPROVAL,
)

QUEUE_ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/moderation/queue", queue.list_queue, Caller.MODERATOR,
          "List the cases that wait for a moderator", QueueShown, problems=_QUEUE,
          query=(*queue.FILTERS, "cursor", "limit"), ability=Ability.READ),
    Route("GET", "/v1/moderation/queue/counts", queue.count_cases, Caller.MODERATOR,
          "Count the cases that wait, by reason and board", QueueCounts, problems=(*TOKEN, *DURABLE),
          ability=Ability.READ),
    Route("GET", "/v1/moderation/queue/live", queue_feed.follow_queue, Caller.MODERATOR,
          "Hear of changes of the queue (Server-Sent Events)",
          problems=(*TOKEN, *DURABLE, P.QUOTA_EXCEEDED), is_stream=True, ability=Ability.READ),
    Route("GET", "/v1/moderation/views", views.list_views, Caller.ACCOUNT,
          "List your saved views of the queue", SavedViewList, problems=(*TOKEN, *DURABLE)),
    Route("GET", "/v1/moderation/views/{view}", views.show_view, Caller.ACCOUNT, "Read a saved view",
          SavedView, problems=(*TOKEN, *DURABLE, P.NOT_FOUND)),
    Route("PUT", "/v1/moderation/views/{view}", views.put_view, Caller.ACCOUNT,
          "Save filters of the queue under a name", SavedViewList, NewView, problems=_VIEW),
    Route("DELETE", "/v1/moderation/views/{view}", views.delete_view, Caller.ACCOUNT, "Remove a saved view",
          SavedViewList, problems=(*TOKEN, *DURABLE, P.TOO_EARLY, P.CSRF)),
    Route("POST", "/v1/moderation/queue/next", queue.claim_next, Caller.MODERATOR,
          "Claim the next case of the queue", NextCase, problems=_NEXT, query=queue.FILTERS,
          ability=Ability.DECIDE),
    Route("POST", "/v1/moderation/cases/{submission}/claim", claims.claim, Caller.MODERATOR,
          "Claim a case, or have more time for it", CaseHolding, problems=_CLAIM, ability=Ability.DECIDE),
    Route("POST", "/v1/moderation/cases/{submission}/release", claims.release, Caller.MODERATOR,
          "Leave a case", CaseHolding, problems=_CLAIM, ability=Ability.DECIDE),
    Route("POST", "/v1/moderation/cases/{submission}/skip", claims.skip, Caller.MODERATOR,
          "Leave a case to others for a while", CaseHolding, problems=_CLAIM, ability=Ability.DECIDE),
    Route("POST", "/v1/moderation/cases/{submission}/cannot-tell", claims.cannot_tell, Caller.MODERATOR,
          "Leave a case to others for good", CaseHolding, problems=_CLAIM, ability=Ability.DECIDE),
)  # fmt: skip
