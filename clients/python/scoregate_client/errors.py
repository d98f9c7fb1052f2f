"""The error that stands for the gateway's refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class DamagedAsset(Exception):
    """A downloaded file that is not the one whose digest was asked for."""


class ScoregateError(Exception):
    """A refusal of the gateway: HTTP status, stable name, and the whole problem document (RFC 9457).

    The status is 0 if the gateway could not be reached, its answer did not arrive, or the client itself
    refused. `retry_after_s` is the time (s) after which the gateway takes the request again, if it says so.
    `is_of_gateway` tells a problem of the gateway from what a proxy or a portal in front of it says.
    """

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        retry_after_s: float | None = None,
        *,
        is_of_gateway: bool = False,
    ) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        self.problem = dict(problem)
        self.is_of_gateway = is_of_gateway
        refused = f"{status} {self.name}: " if status else ""  # nobody who gave no answer refused anything
        super().__init__(f"{refused}{self.detail or 'no detail'}")

    @property
    def name(self) -> str:
        """Return the `reason`, or `about:blank` if there is none."""
        return self.reason or "about:blank"

    @property
    def reason(self) -> str:
        """Return the last segment of the problem's type, such as `run-expired`, or an empty text."""
        kind = str(self.problem.get("type", "about:blank"))
        return "" if kind == "about:blank" else re.split("[/#:]", kind)[-1]

    @property
    def detail(self) -> str:
        """Return what the problem says to people."""
        return str(self.problem.get("detail") or self.problem.get("title") or "")

    @property
    def server_time(self) -> int | None:
        """Return the gateway's clock in Unix seconds, if it refused a signature for its time."""
        value = self.problem.get("server_time")
        return value if type(value) is int and 0 <= value < 1 << 40 else None


def no_answer(error: Exception) -> ScoregateError:
    """Return the error, of status 0, for a gateway that gave no answer."""
    detail = f"The gateway cannot be reached ({str(error) or type(error).__name__})."
    return ScoregateError(0, {"title": "no answer", "detail": detail})


def own_refusal(reason: str, detail: str) -> ScoregateError:
    """Return the error, of status 0, for what the client itself refuses."""
    return ScoregateError(0, {"type": f"urn:scoregate:client:{reason}", "detail": detail})
