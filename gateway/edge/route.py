"""A route, and the refusals that many routes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from aiohttp import web
from pydantic import BaseModel

from gateway.edge.auth.moderators import Ability
from gateway.edge.problems import ProblemType as P

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Caller(StrEnum):
    """The callers of a route, told apart by their credential."""

    ANYONE = "anyone"
    PLAYER = "player"
    RUN = "run signature"
    SERVER = "server signature"
    MODERATOR = "moderator"
    ACCOUNT = "moderator's account"


@dataclass(frozen=True, slots=True)
class Route:
    """A route: its handler, caller, body and answer, and its refusals besides those that all routes share.

    A moderator's route names the ability that it asks for; one of an `ACCOUNT` asks only who is there. With
    `takes_octets` the body is bytes instead of JSON, with `gives_octets` the answer is. `is_conditional`
    routes need `If-Match`.
    """

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
    is_stream: bool = False
    takes_octets: bool = False
    gives_octets: bool = False
    is_conditional: bool = False
    ability: Ability | None = None


BODY = (P.MALFORMED_REQUEST, P.SCHEMA_VIOLATION, P.UNSUPPORTED_MEDIA_TYPE, P.CONTENT_ENCODING_NOT_ALLOWED)
CAPPED = (P.PAYLOAD_TOO_LARGE, P.REQUEST_TIMEOUT)
TOKEN = (P.TOKEN_INVALID, P.SCOPE_FORBIDDEN)
DURABLE = (P.REDUCED_CAPACITY,)
POST = (*BODY, *CAPPED, *DURABLE, P.TOO_EARLY)
