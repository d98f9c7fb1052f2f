"""Rate limits as HTTP tells them: 429 with `Retry-After`, and the `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from gateway.boards.admission import Admission, Admitted
from gateway.edge.problems import Problem, ProblemType
from policies.model import Limits, Rate


def refuse_limited(admitted: Admitted, limits: Limits) -> None:
    """Raises `quota-exceeded` if a limit refused the submission."""
    if admitted.admission is Admission.PLAYER_LIMITED:
        raise quota_exceeded("player", limits.player, admitted.wait_ms)
    if admitted.admission is Admission.ADDRESS_LIMITED:
        raise quota_exceeded("address", limits.address, admitted.wait_ms)


def quota_exceeded(name: str, rate: Rate, wait_ms: int) -> Problem:
    """The refusal by a limit, with when to come again (whole seconds, rounded up)."""
    wait_s = max(1, math.ceil(wait_ms / 1000))
    headers = {
        "Retry-After": str(wait_s),
        "RateLimit": f'"{name}";r=0;t={wait_s}',
        "RateLimit-Policy": _policy_field(name, rate),
    }
    return Problem(ProblemType.QUOTA_EXCEEDED, f"the {name} limit is used up", headers=headers)


def rate_limit_headers(rate: Rate, left: int) -> Mapping[str, str]:
    """The `RateLimit` fields of a submission that passed: what is left of the player's limit."""
    return {"RateLimit": f'"player";r={left}', "RateLimit-Policy": _policy_field("player", rate)}


@lru_cache(maxsize=256)
def _policy_field(name: str, rate: Rate) -> str:
    """A quota of `burst`, refilled over the seconds that the steady rate takes to give it back."""
    return f'"{name}";q={rate.burst};w={math.ceil(rate.burst * 60 / rate.per_minute)}'
