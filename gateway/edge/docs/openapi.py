"""The OpenAPI 3.1 document, generated from the routes and the wire models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pydantic import RootModel
from pydantic.json_schema import models_json_schema

from gateway.edge.problems import PROBLEM_BASE, ProblemType

if TYPE_CHECKING:
    from gateway.edge.routes import Route

COMMON: Final = (
    ProblemType.MALFORMED_REQUEST,
    ProblemType.MISDIRECTED,
    ProblemType.EXPECTATION_FAILED,
    ProblemType.HEADERS_TOO_LARGE,
    ProblemType.INTERNAL,
)
"""The refusals of all routes."""

OF_READS: Final = (ProblemType.SCHEMA_VIOLATION, ProblemType.QUOTA_EXCEEDED)
"""The refusals of all reads besides: for the query, and for a caller whose reads cost too much."""

_REF: Final = "#/components/schemas/{model}"

_PARAMETERS: Final = {
    "board": "The board's name.",
    "family": "The family's name.",
    "digest": "The SHA-256 of an asset: 64 lower-case hexadecimal digits.",
    "order": "`name`, `newest` or `played` (most played of late).",
    "metadata.{field}": "Only boards with this value in a metadata field that the family declares.",
    "player": "A player id.",
    "name": "The beginning of a player's name. Case, spaces and look-alikes make no difference.",
    "ban": "The id of a ban.",
    "merge": "The id of a merge.",
    "identity": "The id of an identity, as the list of them has it.",
    "batch": "The id of a batch.",
    "moderator": "The name of a moderator's account.",
    "reason": "The reason of an event or a case, such as `approved`.",
    "since": "An instant (RFC 3339): events of then and later.",
    "until": "An instant (RFC 3339): events before it.",
    "invitation": "The token of an invitation: the end of its page's address.",
    "session": "The id of a session, as lists of sessions have it.",
    "token": "The id of a token, as lists of tokens have it; not its text.",
    "submission": "A submission id; for a client's submission it is the id of its run.",
    "window": (
        "`alltime`, `daily`, `weekly`, `monthly`, `season` for the current window, "
        "or the name of one, such as `daily:20261120`."
    ),
    "boards": "Up to 100 names of boards, separated by commas.",
    "submissions": "Up to 100 submission ids, separated by commas.",
    "ranks": (
        "How equal entries are ranked, if the board keeps these ranks: "
        "`unique` (1 2 3 4), `sparse` (1 2 2 4), `dense` (1 2 2 3)."
    ),
    "friends": "`true`: only the bearer and the players that the bearer follows.",
    "segment": "A group of the board, such as `country:de`: only its players. In a path, the segment alone.",
    "players": "Up to 100 player ids, separated by commas: only these players.",
    "at": "Up to 20 percentiles from 0 to 100, with up to two decimals, such as `50,99.9`.",
    "bins": "The maximum number of bins, up to 100, of equal width from the lowest score to the highest.",
    "edges": "Up to 99 scores in ascending order at which bins begin, such as `0,100,1000`.",
    "offset": "How many entries to skip.",
    "cursor": "`next` or `previous` of a page: continue from there, whatever has moved since.",
    "as_of": "An instant (RFC 3339): the board as it stood then, for its moderators.",
    "limit": "The maximum number of entries, up to 100, or of rows of a file, up to 1,000.",
    "radius": "Neighbours on each side, up to 25.",
    "after": ("`next` of the page before; for a feed, the id of the last event."),
    "events": "For a feed: some of `standing`, `rank`, `overtaken`, separated by commas.",
    "kind": (
        "For windows, their kind, such as `daily`. For trends, `played` for runs submitted, "
        "or `improved` for points gained on a player's best. For cases, `held`, `appeal` or `check`."
    ),
    "span": "`hour` or `day`.",
    "build": "A build of the game.",
    "min_age_s": "Only cases that have waited for so many seconds.",
    "max_age_s": "Only cases that have waited for less than so many seconds.",
    "view": "The name of a saved view.",
    "mode": "For a feed: `all` for every event, or `newest` for a listener that cannot keep up.",
}

_SECURITY: Final[dict[str, list[dict[str, list[str]]]]] = {
    "player": [{"playerToken": []}],
    "moderator": [{"moderatorToken": []}, {"moderatorSession": []}],
    "moderator's account": [{"moderatorToken": []}, {"moderatorSession": []}],
    "run signature": [{"runSignature": []}],
    "server signature": [{"serverSignature": []}],
}

_SCHEMES: Final = {
    "playerToken": {"type": "http", "scheme": "bearer", "description": "The token of `POST /v1/players`."},
    "moderatorToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "A personal token: of `POST /v1/moderation/tokens`, or `scoregate token moderator`.",
    },
    "moderatorSession": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-scoregate",
        "description": "A session of `POST /v1/moderation/session`. A write also carries the session's "
        "`csrf` in `X-Scoregate-Csrf`, and comes from a page of the deployment.",
    },
    "runSignature": {
        "type": "apiKey",
        "in": "header",
        "name": "Signature",
        "description": "RFC 9421: tag `scoregate-run`, hmac-sha256 with the run's key, keyid = its ticket.",
    },
    "serverSignature": {
        "type": "apiKey",
        "in": "header",
        "name": "Signature",
        "description": "RFC 9421: tag `scoregate-server`, ed25519 with a registered key.",
    },
}


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of the routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Scoregate",
            "version": version("scoregate"),
            "description": (
                "An anti-cheat score ingestion gateway. A 2xx means durable; a retry is always safe."
            ),
        },
        "paths": paths,
        "components": {"schemas": _schemas(routes), "securitySchemes": _SCHEMES},
    }


def common_refusals(method: str) -> tuple[ProblemType, ...]:
    """Return the refusals of all routes of a method."""
    return (*COMMON, *OF_READS) if method == "GET" else COMMON


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "parameters": [*_path_parameters(route.path), *_query_parameters(route.query), *_conditions(route)],
        "responses": {str(route.status): _success(route)}
        | _refusals((*route.problems, *common_refusals(route.method))),
    }
    if route.caller in _SECURITY:
        operation["security"] = _SECURITY[route.caller]
    if route.body:
        schema = {"$ref": _REF.format(model=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": _content(route, schema)}
    if route.takes_octets:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    return operation


def _content(route: Route, schema: dict[str, str]) -> dict[str, Any]:
    """Return the media types of a body: JSON, and for a list newline-delimited JSON, which has no schema."""
    assert route.body is not None
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    return content | ({"application/x-ndjson": {}} if issubclass(route.body, RootModel) else {})


def _success(route: Route) -> dict[str, Any]:
    description = (route.handler.__doc__ or route.summary).strip().splitlines()[0]
    if route.gives_octets:
        return {"description": description, "content": {"application/octet-stream": {}}}
    if route.answer is None:
        return {"description": description}
    schema = {"$ref": _REF.format(model=route.answer.__name__)}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusals(problems: Iterable[ProblemType]) -> dict[str, Any]:
    by_status = groupby(
        sorted(set(problems), key=lambda kind: (kind.status, kind.slug)), key=lambda kind: kind.status
    )
    return {
        str(status): {
            "description": "; ".join(f"`{kind.slug}`: {kind.title}" for kind in kinds),
            "content": {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}},
        }
        for status, kinds in by_status
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [_parameter(name, "path") for name in re.findall(r"{(\w+)}", path)]


def _query_parameters(names: Sequence[str]) -> list[dict[str, Any]]:
    return [_parameter(name, "query") for name in names]


def _conditions(route: Route) -> list[dict[str, Any]]:
    return [_IF_MATCH] if route.is_conditional else []


_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The ETag of the case as it was read.",
    "schema": {"type": "string"},
}


def _parameter(name: str, where: str) -> dict[str, Any]:
    kind = "integer" if name in {"offset", "limit", "radius", "bins", "min_age_s", "max_age_s"} else "string"
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": _PARAMETERS[name],
        "schema": {"type": kind},
    }


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    bodies = {(route.body, "validation") for route in routes if route.body}
    answers = {(route.answer, "serialization") for route in routes if route.answer}
    models: Any = sorted(bodies | answers, key=lambda pair: pair[0].__name__)
    _, document = models_json_schema(models, ref_template=_REF)
    return dict(sorted((document["$defs"] | {"Problem": _PROBLEM}).items()))


_PROBLEM: Final = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457 problem details; `type` is stable.",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "enum": [PROBLEM_BASE + kind.slug for kind in ProblemType]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
