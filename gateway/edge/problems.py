"""The refusals of an edge, as RFC 9457 problem details with stable types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.runtime.clock import duration_text
from gateway.runtime.telemetry import PROBLEMS

PROBLEM_BASE = "https://scoregate.dev/problems/"
"""Prefix of every `type` URI, which identifies a problem and need not resolve (RFC 9457, §3.1.1)."""

LOGGED = "the log of the edge says more, under the same `instance`"
"""The detail of an `internal-error`."""

TOO_MANY: Final = 429
"""The status of a refusal by a limit."""

_STEPS_S: Final = ((86_400, 3_600), (3_600, 60))
"""What a wait is rounded to, from a day on and from an hour on."""

COMMON_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}
"""Headers of every response."""

RETRY_SOON: Final = {"Retry-After": "1"}
"""The header of a 429 or 503 for which nobody knows a better time."""

_PASSING: Final = frozenset({TOO_MANY, 503})
"""The statuses of refusals after which the same request may succeed."""


async def remove_server_header(_request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Remove the `Server` header, in which aiohttp tells its version and Python's."""
    response.headers.pop("Server", None)


class _ProblemResponse(web.Response):
    """A refusal. Signals of the application do not run for bytes that never became one of its requests."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.pop("Server", None)


class ProblemType(Enum):
    """One member per refusal: (name, status, title). Names and statuses are part of the public interface."""

    MALFORMED_REQUEST = ("malformed-request", 400, "The request cannot be read")
    SIGNATURE_MISSING = ("signature-missing", 401, "The request is not signed")
    SIGNATURE_MALFORMED = ("signature-malformed", 400, "The signature headers cannot be read")
    SIGNATURE_INVALID = ("signature-invalid", 401, "The signature does not verify")
    SIGNATURE_EXPIRED = ("signature-expired", 401, "The signature is outside its time")
    SIGNATURE_COVERAGE = ("signature-coverage", 401, "The signature does not cover what it must")
    TOKEN_INVALID = ("token-invalid", 401, "The bearer token is missing or does not verify")
    LOGIN_FAILED = ("login-failed", 401, "The name, the password or the code is wrong")
    SIGN_IN_FAILED = ("sign-in-failed", 401, "The credential shows no player")
    SECOND_FACTOR_REQUIRED = ("second-factor-required", 401, "Logging in takes a code")
    INSECURE_ORIGIN = ("insecure-origin", 403, "Logging in takes HTTPS")
    RUN_EXPIRED = ("run-expired", 403, "The run's ticket has expired")
    BOARD_REPLACED = ("board-replaced", 403, "The board has been opened anew since the run was opened")
    RUN_ALREADY_SUBMITTED = ("run-already-submitted", 409, "The run was already submitted with other content")
    NONCE_REUSED = ("nonce-reused", 401, "The nonce was already used with other content")
    MISDIRECTED = ("misdirected", 421, "This deployment does not serve that host")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415, "The media type is not supported")
    CONTENT_ENCODING_NOT_ALLOWED = ("content-encoding-not-allowed", 415, "Content encodings are not accepted")
    PAYLOAD_TOO_LARGE = ("payload-too-large", 413, "The body is too large")
    EXPECTATION_FAILED = ("expectation-failed", 417, "The expectation is not met")
    HEADERS_TOO_LARGE = ("headers-too-large", 431, "The headers are too large")
    REQUEST_TIMEOUT = ("request-timeout", 408, "The body did not arrive in time")
    SCHEMA_VIOLATION = ("schema-violation", 422, "The request does not have the required form")
    BOUNDS_VIOLATION = ("bounds-violation", 422, "The run is not possible on this board")
    BUILD_UNKNOWN = ("build-unknown", 422, "The board does not know that game build")
    BOARD_CLOSED = ("board-closed", 403, "The board takes no runs now")
    NAME_UNSIGNED = ("name-unsigned", 403, "The board is not open, and its name is not signed")
    FAMILY_FULL = ("family-full", 409, "Players have opened as many boards as the family allows")
    BUILD_BLOCKED = ("build-blocked", 403, "The game build may not play on the board any more")
    RECORDING_MISMATCH = (
        "recording-mismatch",
        422,
        "The recording is not the one whose digest was submitted",
    )
    IDEMPOTENCY_MISMATCH = (
        "idempotency-mismatch",
        422,
        "The operation id was already used with other content",
    )
    ASSET_MISMATCH = ("asset-mismatch", 422, "The file does not have the digest that it is stored under")
    ASSET_MISSING = ("asset-missing", 422, "No file with the digest of the board's asset is stored")
    OPERATOR_MISMATCH = ("operator-mismatch", 422, "The board does not add scores up")
    STALE_VERSION = ("stale-version", 409, "A later version has settled it")
    BATCH_REFUSED = ("batch-refused", 422, "Operations of the batch cannot be done")
    LIST_FULL = ("list-full", 409, "There is no room for more")
    NAME_TAKEN = ("name-taken", 409, "Another player has a name that looks like it")
    IDENTITY_TAKEN = ("identity-taken", 409, "The identity is another player's")
    STATE_CONFLICT = ("state-conflict", 409, "The state no longer allows this")
    CASE_CLAIMED = ("case-claimed", 409, "Another moderator is in the case")
    PRECONDITION_FAILED = ("precondition-failed", 412, "The case has changed since it was read")
    PRECONDITION_REQUIRED = ("precondition-required", 428, "The decision does not say what it rests on")
    SCOPE_FORBIDDEN = ("scope-forbidden", 403, "The credential does not reach this")
    NOT_FOUND = ("not-found", 404, "Not found")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "The method is not available here")
    TOO_EARLY = ("too-early", 425, "Early data is not accepted")
    CSRF = ("csrf", 403, "The request comes from another site")
    PLAYER_BANNED = ("player-banned", 403, "The player is banned")
    SELF_APPROVAL = ("self-approval", 403, "Somebody else has to decide on this")
    QUOTA_EXCEEDED = ("quota-exceeded", 429, "Too many requests, or too many bytes")
    ABNORMAL_USAGE = ("abnormal-usage-detected", 429, "Too many claims were refused")
    REDUCED_CAPACITY = ("temporary-reduced-capacity", 503, "The service cannot take this now")
    BOARD_REBUILDING = ("board-rebuilding", 503, "The board is being brought to its new order")
    DEPENDENCY_UNAVAILABLE = ("dependency-unavailable", 503, "A part this needs is not available")
    INTERNAL = ("internal-error", 500, "The service failed; this is a bug")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title


class Problem(Exception):
    """A refusal on its way to the client; the middleware of `edge.app` turns it into a response."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **extensions: Any,
    ) -> None:
        super().__init__(detail or kind.title)
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.extensions = extensions


def problem_response(problem: Problem) -> web.Response:
    """Count a refusal and return its `application/problem+json` response."""
    kind, detail = problem.kind, problem.detail
    PROBLEMS.labels(kind.slug).inc()
    retry = RETRY_SOON if kind.status in _PASSING else {}
    headers = {**retry, **problem.headers}
    body = {"type": PROBLEM_BASE + kind.slug, "title": kind.title, "status": kind.status}
    if kind.status == TOO_MANY:
        # Here, so that the words of every limit agree with the header.
        detail = f"{detail or kind.title}; try again in {_wait_text(int(headers['Retry-After']))}"
    if detail:
        body["detail"] = detail
    return _ProblemResponse(
        body=orjson.dumps(body | problem.extensions),
        status=kind.status,
        headers=COMMON_HEADERS | headers | {"Cache-Control": "no-store"},
        content_type="application/problem+json",
    )


def _wait_text(seconds: int) -> str:
    """Return a wait in words. What they leave out is rounded up, so that nobody comes too early."""
    step_s = next((step for least, step in _STEPS_S if seconds >= least), 1)
    return duration_text(math.ceil(seconds / step_s) * step_s)
