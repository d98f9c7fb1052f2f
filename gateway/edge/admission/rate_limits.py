"""Rate limits over HTTP: 429, `Retry-After`, `RateLimit` fields (draft-ietf-httpapi-ratelimit-headers)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from gateway.edge.context import Edge
from gateway.edge.problems import Problem, ProblemType
from gateway.index.limits.admission import Admission, AdmissionResult
from policies.limits import HourlyRate, Limits, Rate

FULL_RETRY_S: Final = 60
"""The `Retry-After` while the disk is nearly full."""

BYTES: Final = "content-bytes"
"""The unit of a quota that counts bytes (draft-ietf-httpapi-ratelimit-headers, `qu`)."""

REQUEST_LIMITS: Final[Mapping[Admission, tuple[str, Callable[[Limits], Rate]]]] = {
    Admission.PLAYER_LIMITED: ("player", lambda limits: limits.player),
    Admission.ADDRESS_LIMITED: ("address", lambda limits: limits.address),
    Admission.NETWORK_LIMITED: ("network", lambda limits: limits.of_network),
}
"""The name and rate of each limit of requests, by the refusal that it causes."""

BYTE_LIMITS: Final[Mapping[Admission, tuple[str, Callable[[Limits], Rate]]]] = {
    Admission.PLAYER_BYTES_LIMITED: ("player-bytes", lambda limits: limits.player_kib),
    Admission.ADDRESS_BYTES_LIMITED: ("address-bytes", lambda limits: limits.address_kib),
    Admission.NETWORK_BYTES_LIMITED: ("network-bytes", lambda limits: limits.of_network_kib),
}
"""The name and rate (KiB) of each limit of bytes, by the refusal that it causes."""


def refuse_limited(admitted: AdmissionResult, limits: Limits) -> None:
    """Raise `quota-exceeded` for a submission over a limit, `abnormal-usage-detected` after many refusals."""
    if admitted.admission is Admission.ABNORMAL:
        raise Problem(
            ProblemType.ABNORMAL_USAGE,
            "too many claims were refused; nothing is taken from here for a while",
            headers={"Retry-After": str(_seconds(admitted.wait_ms))},
        )
    if admitted.admission in REQUEST_LIMITS:
        name, rate_of = REQUEST_LIMITS[admitted.admission]
        raise quota_exceeded(name, rate_of(limits), admitted.wait_ms)
    if admitted.admission in BYTE_LIMITS:
        name, rate_of = BYTE_LIMITS[admitted.admission]
        raise quota_exceeded(name, rate_of(limits), admitted.wait_ms, unit=BYTES)


def refuse_large(edge: Edge, size_bytes: int) -> None:
    """Raise `temporary-reduced-capacity` for a file that is not small, while disk space is short."""
    if size_bytes > edge.settings.disk_small_bytes and edge.disk.is_low:
        raise Problem(
            ProblemType.REDUCED_CAPACITY,
            f"disk space is low: files may have at most {edge.settings.disk_small_bytes} bytes",
            headers={"Retry-After": str(FULL_RETRY_S)},
        )


def quota_exceeded(name: str, rate: Rate | HourlyRate, wait_ms: int, *, unit: str = "") -> Problem:
    """Return the refusal by a limit, with its `Retry-After` (whole seconds, rounded up)."""
    wait_s = _seconds(wait_ms)
    headers = {
        "Retry-After": str(wait_s),
        "RateLimit": f'"{name}";r=0;t={wait_s}',
        "RateLimit-Policy": _policy_field(name, rate, unit),
    }
    return Problem(ProblemType.QUOTA_EXCEEDED, f"the {name} limit is used up", headers=headers)


def rate_limit_headers(rate: Rate, left: int) -> Mapping[str, str]:
    """Return the `RateLimit` fields of an accepted submission: the rest of the player's limit."""
    return {"RateLimit": f'"player";r={left}', "RateLimit-Policy": _policy_field("player", rate)}


@lru_cache(maxsize=256)
def _policy_field(name: str, rate: Rate | HourlyRate, unit: str = "") -> str:
    """Return a quota of `burst`, and as its window the time (s) in which the steady rate refills it."""
    if unit == BYTES:
        return f'"{name}";q={rate.burst * 1024};qu="{BYTES}";w={rate.window_s}'
    return f'"{name}";q={rate.burst};w={rate.window_s}'


def _seconds(wait_ms: int) -> int:
    return max(1, math.ceil(wait_ms / 1000))
