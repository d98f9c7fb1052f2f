"""Asking the edge on this machine whether it is ready."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from gateway.runtime.settings import Settings

TIMEOUT_S: Final = 3.0
READY: Final = 200
BODY_BYTES: Final = 65_536
SHOWN_BYTES: Final = 200

_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what one listens on is not what one asks


class Health(NamedTuple):
    """Why the edge is not ready, or None; and what it said of itself, which is empty if it was not an edge that answered."""

    problem: str | None
    said: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_stale(self) -> bool:
        """Whether it goes by older policies than the files have, which it refused."""
        return self.said.get("policies") is False

    def facts(self) -> dict[str, object]:
        """The same for programs."""
        return {"is_ready": self.problem is None, "problem": self.problem, "said": dict(self.said) or None}


def health_of(settings: Settings) -> Health:
    """How the edge is, in its own words."""
    host, port = settings.bind_address
    connection = HTTPConnection(_WILDCARDS.get(host, host), port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": min(settings.allowed_hosts)})
        response = connection.getresponse()
        return _read(response.status, response.read(BODY_BYTES))
    except (OSError, HTTPException) as error:
        return Health(str(error))
    finally:
        connection.close()


def _read(status: int, body: bytes) -> Health:
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict) or "status" not in said:
        return Health(
            f"what answers there is no edge: {status} {body[:SHOWN_BYTES].decode(errors='replace')}"
        )
    return Health(None if status == READY else body.decode(), said)
