"""Asking the edge on this machine whether it is ready."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from typing import Final, NamedTuple

import orjson

from gateway.settings import Settings

TIMEOUT_S: Final = 3.0
READY: Final = 200

_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what one listens on is not what one asks


class Health(NamedTuple):
    """Why the edge is not ready, or None; and whether it goes by older policies than the files have, which it refused."""

    problem: str | None
    is_stale: bool = False


def health_of(settings: Settings) -> Health:
    """How the edge is, in its own words."""
    host, port = settings.bind_address
    connection = HTTPConnection(_WILDCARDS.get(host, host), port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": min(settings.allowed_hosts)})
        response = connection.getresponse()
        body = response.read()
        if response.status != READY:
            return Health(body.decode(errors="replace"))
        return Health(None, is_stale=not orjson.loads(body)["policies"])
    except (OSError, HTTPException) as error:
        return Health(str(error))
    finally:
        connection.close()
