"""Work on several runs at once, of which one that makes us fail takes no other with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gateway.ledger.records import Lease
from gateway.runtime.unexpected import FaultPlace, report
from policies.errors import ScoregateError

T = TypeVar("T")
R = TypeVar("R")


async def isolate_failures(
    work: Callable[[Sequence[T]], Awaitable[R]], runs: Sequence[T], id_of: Callable[[T], str]
) -> list[R]:
    """Return what `work` gives for all runs, or, if it fails on them together, for each on which it does not fail alone.

    What fails alone is reported. Raises ScoregateError as `work` does: the ledger is away, and that is the whole job's
    matter.
    """
    try:
        return [await work(runs)]
    except ScoregateError:
        raise
    except Exception as error:  # noqa: BLE001 - the other runs have done nothing
        if len(runs) > 1:
            return [done for each in runs for done in await isolate_failures(work, [each], id_of)]
        report(FaultPlace.WORKER, error, submission=id_of(runs[0]))
        return []


def submission_id_of(lease: Lease) -> str:
    """Return the id of the submission that a lease is of."""
    return lease.submission.submission_id
