"""Every route of the interface, as one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web
from pydantic import BaseModel

from gateway.edge import health, moderation, readers, runs, server_operations, streaming, submit, wire
from gateway.edge.problems import ProblemType as P

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Caller(StrEnum):
    """Who may call a route, and how they show it."""

    ANYONE = "anyone"
    PLAYER = "player"
    RUN = "run signature"
    SERVER = "server signature"
    MODERATOR = "moderator"


@dataclass(frozen=True, slots=True)
class Route:
    """One row: what is called, by whom, with what body, and which refusals to expect besides the common ones."""

    method: str
    path: str
    handler: Handler
    caller: Caller
    summary: str
    answer: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    status: int = 200
    problems: tuple[P, ...] = ()
    query: tuple[str, ...] = ()


_BODY = (P.MALFORMED_REQUEST, P.SCHEMA_VIOLATION, P.UNSUPPORTED_MEDIA_TYPE, P.CONTENT_ENCODING_NOT_ALLOWED)
_CAPPED = (P.PAYLOAD_TOO_LARGE, P.REQUEST_TIMEOUT)
_SIGNED = (
    P.SIGNATURE_MISSING,
    P.SIGNATURE_MALFORMED,
    P.SIGNATURE_INVALID,
    P.SIGNATURE_EXPIRED,
    P.SIGNATURE_COVERAGE,
)
_TOKEN = (P.TOKEN_INVALID, P.SCOPE_FORBIDDEN)
_DURABLE = (P.REDUCED_CAPACITY,)
_INDEXED = (P.NOT_FOUND, P.DEPENDENCY_UNAVAILABLE)
_POST = (*_BODY, *_CAPPED, *_DURABLE, P.TOO_EARLY)
_SUBMIT = (
    *_POST,
    *_SIGNED,
    P.TOKEN_INVALID,
    P.RUN_EXPIRED,
    P.RUN_ALREADY_SUBMITTED,
    P.NONCE_REUSED,
    P.BOUNDS_VIOLATION,
    P.SCOPE_FORBIDDEN,
    P.QUOTA_EXCEEDED,
    P.NOT_FOUND,
)
_SERVER = (*_POST, *_SIGNED, P.SCOPE_FORBIDDEN, P.NONCE_REUSED, P.NOT_FOUND)
_SETTLED = (P.IDEMPOTENCY_MISMATCH, P.STALE_VERSION, P.STATE_CONFLICT)
_DECIDE = (*_POST, *_TOKEN, P.NOT_FOUND, P.STATE_CONFLICT, P.SELF_APPROVAL)
_HELD = (*_TOKEN, *_DURABLE, P.NOT_FOUND)

ROUTES: tuple[Route, ...] = (
    Route("POST", "/v1/players", runs.create_player, Caller.ANYONE, "Create an anonymous player",
          wire.PlayerCreated, wire.NewPlayer, 201, (*_POST, P.QUOTA_EXCEEDED)),
    Route("POST", "/v1/boards/{board}/runs", runs.open_run, Caller.PLAYER, "Open a run",
          wire.RunOpened, wire.NewRun, 201, (*_POST, *_TOKEN, P.BUILD_UNKNOWN, P.QUOTA_EXCEEDED, P.NOT_FOUND)),
    Route("POST", "/v1/boards/{board}/scores", submit.submit_score, Caller.RUN, "Submit the score of a run",
          wire.ScoreAccepted, wire.NewScore, 202, _SUBMIT),
    Route("GET", "/v1/submissions/{submission}", readers.show_submission, Caller.PLAYER, "See where a submission stands",
          wire.SubmissionStatus, problems=_HELD),
    Route("GET", "/v1/boards", readers.list_boards, Caller.ANYONE, "List the boards", wire.BoardList),
    Route("GET", "/v1/boards/{board}", readers.show_board, Caller.ANYONE, "Describe a board",
          wire.BoardInfo, problems=(P.NOT_FOUND,)),
    Route("GET", "/v1/boards/{board}/entries", readers.list_entries, Caller.ANYONE, "Read a page of a board",
          wire.EntryPage, problems=(*_INDEXED, *_TOKEN, P.SCHEMA_VIOLATION, P.QUOTA_EXCEEDED, P.REDUCED_CAPACITY),
          query=("window", "offset", "limit", "as_of")),
    Route("POST", "/v1/boards/{board}/entries", server_operations.write_entry, Caller.SERVER,
          "Write or correct a score as a trusted server", wire.ScoreAccepted, wire.NewEntry, 202,
          (*_SERVER, *_SETTLED, P.BOUNDS_VIOLATION)),
    Route("POST", "/v1/boards/{board}/entries/batch", server_operations.write_batch, Caller.SERVER,
          "Do up to 500 operations as a trusted server, all or none", wire.BatchDone, wire.NewBatch, 200,
          (*_SERVER, P.BATCH_REFUSED)),
    Route("POST", "/v1/boards/{board}/removals", server_operations.remove_entries, Caller.SERVER,
          "Take scores back as a trusted server", wire.Removed, wire.NewRemoval, 200, (*_SERVER, *_SETTLED)),
    Route("GET", "/v1/boards/{board}/entries/{player}", readers.show_entry, Caller.ANYONE, "Read one player's entry",
          wire.EntryShown, problems=_INDEXED, query=("window",)),
    Route("GET", "/v1/boards/{board}/entries/{player}/around", readers.list_around, Caller.ANYONE,
          "Read the entries around a player", wire.EntryPage, problems=(*_INDEXED, P.SCHEMA_VIOLATION),
          query=("window", "radius")),
    Route("GET", "/v1/boards/{board}/live", streaming.stream_standings, Caller.ANYONE,
          "Follow a board live (Server-Sent Events)", problems=(P.NOT_FOUND, P.MALFORMED_REQUEST)),
    Route("GET", "/v1/boards/{board}/held", moderation.list_held, Caller.MODERATOR, "List held submissions",
          wire.HeldPage, problems=(*_HELD, P.SCHEMA_VIOLATION), query=("after", "limit")),
    Route("GET", "/v1/moderation/{submission}", moderation.show_case, Caller.MODERATOR,
          "Read a submission with its findings and history", wire.CaseFile, problems=_HELD),
    Route("POST", "/v1/moderation/{submission}/approve", moderation.approve, Caller.MODERATOR,
          "Approve a held submission", wire.Decided, wire.NewDecision, problems=_DECIDE),
    Route("POST", "/v1/moderation/{submission}/reject", moderation.reject, Caller.MODERATOR,
          "Reject a held submission", wire.Decided, wire.NewDecision, problems=_DECIDE),
    Route("POST", "/v1/moderation/{submission}/revoke", moderation.revoke, Caller.MODERATOR,
          "Take a promoted submission off the board", wire.Decided, wire.NewDecision, problems=_DECIDE),
    Route("POST", "/v1/moderation/{submission}/reinstate", moderation.reinstate, Caller.MODERATOR,
          "Let a revoked submission count again", wire.Decided, wire.NewDecision, problems=_DECIDE),
    Route("GET", "/livez", health.livez, Caller.ANYONE, "Whether the process answers", wire.Liveness),
    Route("GET", "/readyz", health.readyz, Caller.ANYONE, "Whether submissions can be taken", wire.Readiness),
    Route("GET", "/metrics", health.metrics, Caller.ANYONE, "Metrics in Prometheus' text format"),
)  # fmt: skip
