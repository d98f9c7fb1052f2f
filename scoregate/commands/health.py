"""`scoregate health`: ask the edge on this machine whether it is ready."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from scoregate.commands.common import Bind, fail, settings_of
from scoregate.commands.tables import AsJson, show_json

if TYPE_CHECKING:
    from gateway.runtime.settings import Settings

TIMEOUT_S: Final = 3.0
READY: Final = 200
BODY_BYTES: Final = 65_536
SHOWN_BYTES: Final = 200
WHERE: Final = "; --bind or SCOREGATE_BIND says where to ask"

FAULTS: Final = MappingProxyType(
    {
        "index": "Redis does not answer, or takes no writes",
        "disk": "space is short",
        "clock": "the clock is off, or cannot be compared",
    }
)
"""What a false value of the edge's answer means."""

_LOOPBACKS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - who listens everywhere answers there
"""Addresses to connect to, by wildcard addresses to listen on."""


class Health(NamedTuple):
    """Why the edge is not ready, or None; and its own answer, empty if the answer was not an edge's."""

    problem: str | None
    answer: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_stale(self) -> bool:
        """Return whether the edge refused the policy files and uses older policies."""
        return self.answer.get("policies") is False

    @property
    def faults(self) -> list[str]:
        """Return what is wrong while the edge is degraded, as sentences."""
        if self.answer.get("status") != "degraded":
            return []
        listed = [(name, self.answer.get(name) or ()) for name in ("missing", "failing")]
        return [
            *(fault for name, fault in FAULTS.items() if self.answer.get(name) is False),
            *(f"{name}: {', '.join(each)}" for name, each in listed if each),
        ]

    def facts(self) -> dict[str, object]:
        """Return the health for programs."""
        return {
            "is_ready": self.problem is None,
            "problem": self.problem,
            "said": dict(self.answer) or None,
        }


def health(as_json: AsJson = False, bind: Bind = None) -> None:
    """Exit with 0 if the edge here is ready, as a container's health check. Says why it is degraded."""
    edge = _health_of(settings_of(None, bind))
    if as_json:
        show_json([edge.facts()])
    if edge.problem:
        fail(f"not ready: {edge.problem}")
    if edge.faults:
        typer.echo(f"degraded: {'; '.join(edge.faults)}", err=True)
    if edge.is_stale:
        typer.echo("ready; but the policy files were refused, and older ones are in force", err=True)


def _health_of(settings: Settings) -> Health:
    """Ask the edge how it is."""
    from http.client import HTTPConnection, HTTPException

    host, port = settings.bind_address
    connection = HTTPConnection(_LOOPBACKS.get(host, host), port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": min(settings.allowed_hosts)})
        response = connection.getresponse()
        return _read(response.status, response.read(BODY_BYTES))
    except (OSError, HTTPException) as error:
        return Health(f"{settings.bind}: {error}{WHERE}")
    finally:
        connection.close()


def _read(status: int, body: bytes) -> Health:
    import orjson

    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or "status" not in answer:
        return Health(
            f"what answers there is no edge: {status} {body[:SHOWN_BYTES].decode(errors='replace')}"
        )
    return Health(None if status == READY else body.decode(), answer)
