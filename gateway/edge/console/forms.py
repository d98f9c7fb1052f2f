"""Forms that pages send, handed to the API's handlers as the bodies and preconditions of programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from gateway.edge.auth.moderator_credentials import CSRF_FIELD, CSRF_SENT
from gateway.edge.http.body import STAND_IN, read_form_body
from gateway.edge.http.preconditions import VERSION_SEEN
from gateway.edge.problems import Problem, ProblemType

Form = Mapping[str, str]

FORM_LIMIT: Final = 32_768
"""The maximum size of a form (bytes): a note of 2,000 characters, each of which may take twelve bytes."""

_FIELDS: Final = 160


async def read_form(request: web.Request) -> Form:
    """Return the fields of a form, of which each comes once; its line breaks are single characters.

    What it carries against forgery is left in the request, where sessions look for it. Raises the refusals of
    a body, `malformed-request`, and `schema-violation` for a repeated field.
    """
    body = await read_form_body(request, FORM_LIMIT)
    try:
        pairs = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            strict_parsing=bool(body),
            max_num_fields=_FIELDS,
            errors="strict",
        )
    except ValueError:
        raise Problem(ProblemType.MALFORMED_REQUEST, "the form cannot be read") from None
    if any("\0" in text for text in chain.from_iterable(pairs)):
        raise Problem(ProblemType.MALFORMED_REQUEST, "a field has the character NUL")
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Problem(ProblemType.SCHEMA_VIOLATION, "a field is given more than once")
    request[CSRF_SENT] = fields.get(CSRF_FIELD, "")
    return {name: text.replace("\r\n", "\n") for name, text in fields.items()}


async def send_as_api(
    request: web.Request,
    handler: Callable[[web.Request], Awaitable[web.Response]],
    body: Mapping[str, Any] | None = None,
    *,
    version: str | None = None,
) -> Any:
    """Return the answer of a handler of the API to a body and an ETag that a form carried.

    So the page does what the API does, by the same checks. Raises what the handler raises.
    """
    if body is not None:
        request[STAND_IN] = orjson.dumps(body)
    if version is not None:
        request[VERSION_SEEN] = version
    answer = await handler(request)
    assert isinstance(answer.body, bytes)
    return orjson.loads(answer.body)
