"""When a request is sent again, and after which pause."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

ATTEMPTS: Final = 6
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
MOST_DOUBLINGS: Final = 30
"""Far more than the longest pause takes, and far less than a float holds: some clients never give up."""
LONGEST_ASKED_S: Final = 60.0
"""If the gateway asks for a longer pause than this, its refusal is raised instead."""

_REFUSED_UNDONE: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Whoever answers so has not done what was asked."""
_PASSING: Final = _REFUSED_UNDONE | {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.GATEWAY_TIMEOUT,
}


def is_worth_repeating(status: int, asked_s: float | None, *, repeatable: bool) -> bool:
    """Tell whether to send a request again that got this status and was asked to wait so long."""
    return status in (_PASSING if repeatable else _REFUSED_UNDONE) and (asked_s or 0.0) <= LONGEST_ASKED_S


def pause_s(attempt: int, jitter: float) -> float:
    """Return the pause after an attempt, from 1 on: doubled each time, and of it the half to the whole.

    `jitter` is 0 to 1. Clients that lost one gateway at one moment come back at different ones.
    """
    whole_s = min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, MOST_DOUBLINGS), LONGEST_PAUSE_S)
    return whole_s * (0.5 + 0.5 * jitter)


def asked_pause_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the pause that an answer asks for: seconds, or an HTTP date against the answer's own time."""
    asked = headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        return float(asked[:9])
    until_s = _seconds_of(asked)
    answered_s = _seconds_of(headers.get("date", ""))
    return None if until_s is None else max(0.0, until_s - (now_s if answered_s is None else answered_s))


def _seconds_of(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):  # whatever a stranger calls a date
        return None
