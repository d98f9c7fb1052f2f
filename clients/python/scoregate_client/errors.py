"""The error that stands for the gateway's refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

UNREACHED = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)
"""What aiohttp raises if no whole answer of the gateway arrives."""


class DamagedAsset(Exception):
    """A downloaded file that is not the one whose digest was asked for."""


class ScoregateError(Exception):
    """A refusal of the gateway: HTTP status, stable name, and the whole problem document (RFC 9457).

    The status is 0 if the gateway could not be reached, or its answer did not arrive. `retry_after_s` is the
    time (s) after which the gateway takes the request again, if it says so.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float | None = None) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        self.problem = dict(problem)
        refused = f"{status} {self.name}: " if status else ""  # nobody who gave no answer refused anything
        super().__init__(f"{refused}{problem.get('detail') or problem.get('title') or 'no detail'}")

    @property
    def name(self) -> str:
        """Return the last segment of the problem's type, such as `run-expired`, or `about:blank`."""
        return str(self.problem.get("type", "about:blank")).rpartition("/")[2]

    @property
    def server_time(self) -> int | None:
        """Return the gateway's clock in Unix seconds, if it refused a signature for its time."""
        value = self.problem.get("server_time")
        return value if type(value) is int else None


def no_answer(error: Exception) -> ScoregateError:
    """Return the error, of status 0, for a gateway that gave no answer."""
    detail = f"The gateway cannot be reached ({error or type(error).__name__})."
    return ScoregateError(0, {"title": "no answer", "detail": detail})
