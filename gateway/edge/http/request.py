"""Reading of requests: JSON, board, bearer, client and query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ValidationError

from gateway.edge.admission.address import ClientName
from gateway.edge.auth.moderator_credentials import (
    Credential,
    credential_of,
    has_credential,
    token_in,
)
from gateway.edge.auth.moderator_secrets import TOKEN_PREFIX
from gateway.edge.auth.moderators import Ability, Moderator
from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE, Edge
from gateway.edge.http import strict_json
from gateway.edge.http.validation_messages import UNKNOWN_FIELD, first_fault
from gateway.edge.problems import Problem, ProblemType
from gateway.index.limits.charging import LocalLimiter
from gateway.ledger.players.token_endings import ending_of
from gateway.ledger.reads import READER
from gateway.ledger.transaction import Operation, Transaction
from gateway.runtime.telemetry import Event, logger
from policies.limits import Rate
from policies.loader import Board, Family

Model = TypeVar("Model", bound=BaseModel)
T = TypeVar("T")
Fields = Sequence[str] | Mapping[str, Sequence[str]]

LOGGED_ATTEMPTS: Final = Rate(per_minute=60, burst=60)
"""Forbidden attempts to moderate that a process logs. Anybody can get a token and make more of them."""

_OVER: Final = "it is over: all tokens of the player were ended; sign in again"

_attempts: Final = LocalLimiter()
_log = logger()

_WHOLE_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,14}")

FIELDS_SHOWN: Final = 16
"""Most expected fields that a refusal names."""

SHOWN_CHARS: Final = 128
"""Most characters of a name that a refusal repeats; no board has a longer one."""

ANY_FIELD: Final = ".{field}"
"""The end of a query parameter that stands for one parameter for each field."""


def parse_body(body: bytes, model: type[Model]) -> Model:
    """Parse a body. Raises `malformed-request`, or `schema-violation` that names the field."""
    try:
        return model.model_validate(strict_json.parse(body))
    except ValidationError as error:
        raise schema_violation(error, fields=list(model.model_fields)) from None


def schema_violation(error: ValidationError, *, skip: int = 0, fields: Fields = ()) -> Problem:
    """Return the refusal of a body, which names the first wrong field without the `skip` outermost parts.

    For an unknown field of the body itself it names the expected `fields`, and no more than FIELDS_SHOWN.
    They may be a mapping for a union: by its tag, the first of the parts that are skipped.
    """
    if isinstance(fields, Mapping):
        tag = next(iter(error.errors(include_url=False, include_input=False)[0]["loc"]), None)
        fields = fields.get(str(tag), ())
    location, message = first_fault(error, skip=skip)
    if fields and message == UNKNOWN_FIELD and len(location) == 1:
        more = " or others" if len(fields) > FIELDS_SHOWN else ""
        message = f"{message}; expected {', '.join(fields[:FIELDS_SHOWN])}{more}"
    field = ".".join(str(part) for part in location) or "body"
    return Problem(ProblemType.SCHEMA_VIOLATION, f"{field}: {message}")


async def board_of(request: web.Request) -> Board:
    """Return the board in the path. Raises `not-found`, LedgerUnavailable."""
    edge, name = request.app[EDGE], request.match_info["board"]
    board = await edge.catalogue.board(name)
    if board is None:
        raise no_such_board(edge, name)
    return board


def no_such_board(edge: Edge, name: str) -> Problem:
    """Return the refusal of a board that is not there; it tells the name of a family from others."""
    if name in edge.catalogue.families:
        return Problem(ProblemType.NOT_FOUND, f"`{name}` is a family: its boards are `{name}.<name>`")
    return Problem(ProblemType.NOT_FOUND, f"no such board: `{name[:SHOWN_CHARS]}`")


def family_of(request: web.Request) -> Family:
    """Return the family in the path. Raises `not-found`."""
    name = request.match_info["family"]
    family = request.app[EDGE].catalogue.families.get(name)
    if family is None:
        raise Problem(ProblemType.NOT_FOUND, f"no such family: `{name[:SHOWN_CHARS]}`")
    return family


async def player_of(request: web.Request) -> Bearer:
    """Return the player who sent the request. Raises as `player_by_token`."""
    return await player_by_token(request, token_in(request))


async def player_by_token(request: web.Request, token: str) -> Bearer:
    """Return the player of a token that is not over.

    Raises `token-invalid`, `scope-forbidden` for that of a moderator, and LedgerUnavailable.
    """
    bearer = bearer_of_token(request, token)
    if await request.app[EDGE].ended_tokens.has_ended(bearer):
        raise _token_invalid(_OVER)
    return bearer


def while_good(bearer: Bearer, work: Operation[T]) -> Operation[T]:
    """Do what a player asks for, unless their tokens were ended since, which an edge may not know yet.

    Raises `token-invalid`.
    """

    async def checked(tx: Transaction) -> T:
        ending = await ending_of(bearer.subject)(tx)
        if ending is not None and ending.ends(bearer.generation, bearer.issued_at_s):
            raise _token_invalid(_OVER)
        return await work(tx)

    return checked


def bearer_of_token(request: web.Request, token: str) -> Bearer:
    """Return the player whom a token names, even if it has been ended since. Raises as `player_by_token`."""
    edge = request.app[EDGE]
    if token.startswith(TOKEN_PREFIX):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "a player's token is needed")
    # The earliest time that it may be now, so that an uncertain clock ends no token too soon.
    bearer = edge.tokens.check(token, now_s=(edge.clock() - edge.clock_error_ms) / 1000)
    if bearer is None:
        raise _token_invalid(
            "it does not verify, or has expired: get a new one"
            if token
            else "send Authorization: Bearer <token>"
        )
    return bearer


def _token_invalid(detail: str) -> Problem:
    challenge = {"WWW-Authenticate": 'Bearer realm="scoregate"'}
    return Problem(ProblemType.TOKEN_INVALID, detail, headers=challenge)


async def moderator_of(request: web.Request, ability: Ability, board: str | None) -> Moderator:
    """Return the moderator who sent the request, with the ability on the board.

    `*` asks for every board, and None for any: lists across boards show what `scopes` has.

    Raises `token-invalid`, `scope-forbidden` if their role there is too small, and `not-found` if they have
    none there.
    """
    credential = await moderator_credential(request)
    moderator = credential.moderator
    if moderator.may(ability, board):
        return moderator
    _note_attempt(request, moderator.name, "moderator")
    if moderator.reaches(board):
        raise Problem(ProblemType.SCOPE_FORBIDDEN, f"this needs the role `{ability.role}` there")
    # Not `scope-forbidden`, which would tell a moderator that the submission exists on another board.
    raise Problem(ProblemType.NOT_FOUND, "there is nothing here that this credential may moderate")


async def moderator_anywhere(request: web.Request, ability: Ability) -> Moderator:
    """Return the moderator who sent the request, with the ability on some board.

    Raises `token-invalid`, `csrf`, and `scope-forbidden` if they have it nowhere.
    """
    moderator = (await moderator_credential(request)).moderator
    if moderator.scopes(ability):
        return moderator
    _note_attempt(request, moderator.name, "moderator")
    raise Problem(ProblemType.SCOPE_FORBIDDEN, f"this needs the role `{ability.role}` on some board")


async def moderator_credential(request: web.Request) -> Credential:
    """Return the credential of the moderator who sent the request.

    Raises `token-invalid`, `csrf`, and `scope-forbidden` for the token of a player.
    """
    if has_credential(request):
        credential = await credential_of(request)
        READER.set(f"moderator {credential.moderator.name}")  # colleagues may share an address
        return credential
    bearer = await player_of(request)
    _note_attempt(request, bearer.subject, bearer.role.value)
    raise Problem(ProblemType.SCOPE_FORBIDDEN, "a moderator's token is needed")


def _note_attempt(request: web.Request, subject: str, role: str) -> None:
    if not any(_attempts.charge(("moderation", LOGGED_ATTEMPTS))):
        _log.warning(Event.REFUSED, subject=subject, role=role, method=request.method)


def client_name(edge: Edge, request: web.Request) -> str:
    """Return the hashed name of the client's address."""
    return client_names(edge, request).address


def client_names(edge: Edge, request: web.Request) -> ClientName:
    """Return the hashed names of the client's address and network."""
    return edge.addresses.names(request.remote, request.headers.getall("X-Forwarded-For", ()))


def strict_query(handler: Handler, parameters: tuple[str, ...]) -> Handler:
    """Wrap a handler so that it raises `schema-violation` for other parameters, and for repeated ones."""

    async def strict_handler(request: web.Request) -> web.StreamResponse:
        query = request.raw_path.partition("?")[2]
        if query and (detail := _fault_of_query(query, parameters)) is not None:
            raise Problem(ProblemType.SCHEMA_VIOLATION, detail)
        return await handler(request)

    return strict_handler


@lru_cache(maxsize=1024)
def _fault_of_query(query: str, parameters: tuple[str, ...]) -> str | None:
    counts = Counter(name for name, _ in parse_qsl(query, keep_blank_values=True))
    for name, count in counts.items():
        prefix, dot, _ = name.partition(".")
        if name not in parameters and not (dot and f"{prefix}{ANY_FIELD}" in parameters):
            expected = f"expected {', '.join(parameters)}" if parameters else "there are none"
            return f"{name[:64]}: no such parameter; {expected}"
        if count > 1:
            return f"{name}: is given more than once"
    return None


def whole_number(request: web.Request, name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number of the query. Raises `schema-violation` if it is out of range."""
    return whole_number_in(request.query, name, default, minimum, maximum)


def whole_number_in(fields: Mapping[str, str], name: str, default: int, minimum: int, maximum: int) -> int:
    """Return a whole number of a query, or of what stands for one. Raises as `whole_number`."""
    text = fields.get(name)
    if text is None:
        return default
    if not _WHOLE_NUMBER.fullmatch(text) or not minimum <= int(text) <= maximum:
        detail = f"{name}: expected a whole number from {minimum} to {maximum}"
        raise Problem(ProblemType.SCHEMA_VIOLATION, detail)
    return int(text)
