"""Submissions read from their rows, including rows that are no longer as we wrote them.

A bad disk, a database tool or a newer version may leave a value that cannot be read. Only that value is lost:
readers of a page, a job or a player's history get all other rows, and this one marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import orjson

from gateway.ledger.records import StoredSubmission, finding_from
from gateway.ledger.transaction import Row
from policies.vocabulary import Claim, Finding, Reason, State

T = TypeVar("T")

UNREADABLE: Final = "unreadable"
"""The key under which an unreadable detail is shown as it is."""


def submission_from(row: Row) -> StoredSubmission:
    """Return the submission of a row. Columns that cannot be read are empty, and named by `unreadable`."""
    *facts, score, ticks, stats, recording_digest, simulator, findings, state, reason, attempt = row[:-4]
    unreadable: list[str] = []
    no_findings: tuple[Finding, ...] = ()

    def read(name: str, reader: Callable[[Any], T], value: Any, otherwise: T) -> T:
        try:
            return reader(value)
        except (ValueError, TypeError, KeyError, AttributeError):
            unreadable.append(name)
            return otherwise

    claim = Claim(
        read("score", _whole, score, 0), read("ticks", _whole, ticks, 0), read("stats", _stats, stats, {})
    )
    fields: Any = (
        *facts,
        claim,
        recording_digest,
        simulator,
        read("findings", _findings, findings, no_findings),
        State(state),
        read("reason", Reason, reason, Reason.RECORD_UNREADABLE),
        attempt,
        *row[-4:],
        tuple(unreadable),
    )
    return StoredSubmission(*fields)


def stats_from(stored: Any) -> Mapping[str, int]:
    """Return the statistics of a row, or none where they cannot be read."""
    try:
        return _stats(stored)
    except (ValueError, TypeError):
        return {}


def detail_from(stored: Any) -> dict[str, Any]:
    """Return the detail of an event, or its text where that cannot be read."""
    try:
        detail = orjson.loads(stored)
    except ValueError:
        detail = None
    return detail if isinstance(detail, dict) else {UNREADABLE: str(stored)}


def findings_in(stored: Any) -> tuple[Finding, ...]:
    """Return the findings of a row, or none where they cannot be read."""
    try:
        return _findings(stored)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()


def findings_from(stored: Any) -> tuple[Finding, ...] | None:
    """Return the findings in an event's detail, or None where they cannot be read."""
    try:
        return tuple(finding_from(finding) for finding in stored)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _stats(stored: Any) -> Mapping[str, int]:
    stats = orjson.loads(stored)
    if not isinstance(stats, dict) or not all(isinstance(value, int) for value in stats.values()):
        raise ValueError(stored)
    return stats


def _findings(stored: Any) -> tuple[Finding, ...]:
    return tuple(finding_from(finding) for finding in orjson.loads(stored))
