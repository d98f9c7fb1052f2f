"""Runs work on several runs at once, so that one run that makes us fail does not fail the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gateway.ledger.records import VerificationLease
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError

T = TypeVar("T")
R = TypeVar("R")


async def isolate_failures(
    work: Callable[[Sequence[T]], Awaitable[R]], runs: Sequence[T], id_of: Callable[[T], str]
) -> list[R]:
    """Return the results of `work`: one for all runs, or, if that fails, one per run that succeeds alone.

    A run that fails alone is reported. Raises ScoregateError as `work` does: the ledger is unavailable, which
    ends the job.
    """
    try:
        return [await work(runs)]
    except ScoregateError:
        raise
    except Exception as error:  # noqa: BLE001 - the other runs have done nothing
        if len(runs) > 1:
            return [result for run in runs for result in await isolate_failures(work, [run], id_of)]
        report(FaultPlace.WORKER, error, submission=id_of(runs[0]))
        return []


def submission_id_of(lease: VerificationLease) -> str:
    """Return the id of a lease's submission."""
    return lease.submission.submission_id
