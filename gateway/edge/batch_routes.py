"""The routes of moderators' batches."""

from __future__ import annotations

from gateway.edge.auth.moderators import Ability
from gateway.edge.moderation import batches
from gateway.edge.problems import ProblemType as P
from gateway.edge.route import DURABLE, POST, TOKEN, Caller, Route
from gateway.edge.wire import moderation_batches as wire

_READ = (*TOKEN, *DURABLE, P.NOT_FOUND, P.SCHEMA_VIOLATION)
_TURN = (*TOKEN, *DURABLE, P.NOT_FOUND, P.TOO_EARLY, P.CSRF, P.STATE_CONFLICT)
_MATCHING = (P.PRECONDITION_REQUIRED, P.PRECONDITION_FAILED)

BATCH_ROUTES = (
    Route("POST", "/v1/moderation/batches", batches.make_batch, Caller.MODERATOR,
          "Select submissions for one decision, and preview it", wire.BatchShown, wire.NewDecisionBatch, 201,
          (*POST, *TOKEN, P.CSRF, P.NOT_FOUND, P.IDEMPOTENCY_MISMATCH,
           P.STATE_CONFLICT), ability=Ability.OVERRULE),
    Route("GET", "/v1/moderation/batches", batches.list_batches, Caller.MODERATOR, "List batches",
          wire.BatchList, problems=_READ, query=("limit", "cursor"), ability=Ability.READ),
    Route("GET", "/v1/moderation/batches/{batch}", batches.show_batch, Caller.MODERATOR,
          "Read a batch with its submissions", wire.BatchPage, problems=_READ, query=("limit", "cursor"),
          ability=Ability.READ),
    Route("POST", "/v1/moderation/batches/{batch}/apply", batches.apply_batch, Caller.MODERATOR,
          "Decide on what a batch previewed", wire.BatchShown, problems=(*_TURN, *_MATCHING),
          is_conditional=True, ability=Ability.OVERRULE),
    Route("POST", "/v1/moderation/batches/{batch}/reverse", batches.reverse_batch, Caller.MODERATOR,
          "Undo what a batch decided", wire.BatchShown, problems=_TURN, ability=Ability.OVERRULE),
    Route("POST", "/v1/moderation/batches/{batch}/abandon", batches.abandon_batch, Caller.MODERATOR,
          "Let a batch go that was not applied", wire.BatchShown, problems=_TURN, ability=Ability.OVERRULE),
)  # fmt: skip
