"""Asking the edge on this machine whether it is ready."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from typing import Final

from gateway.settings import Settings

TIMEOUT_S: Final = 3.0
READY: Final = 200

_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what one listens on is not what one asks


def problem_with(settings: Settings) -> str | None:
    """Why the edge is not ready, or None."""
    host, port = settings.bind_address
    connection = HTTPConnection(_WILDCARDS.get(host, host), port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": min(settings.allowed_hosts)})
        response = connection.getresponse()
        return None if response.status == READY else response.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        return str(error)
    finally:
        connection.close()
