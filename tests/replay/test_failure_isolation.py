"""One run that makes us fail: the others have what they would have had, and somebody is told which one it was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from policies.errors import LedgerUnavailable
from replay.worker.failure_isolation import isolate_failures
from tests.support.metrics import counts


class Work:
    """Work that fails on some of its runs."""

    def __init__(self, *failing: str, error: Exception | None = None) -> None:
        self.failing = set(failing)
        self.error = error or ZeroDivisionError()
        self.done: list[tuple[str, ...]] = []

    async def __call__(self, runs: Sequence[str]) -> str:
        if self.failing & set(runs):
            raise self.error
        self.done.append(tuple(runs))
        return "".join(runs)


async def test_F13_what_does_not_fail_is_done_together():
    """One commit for all of them, and none told of."""
    work = Work()
    assert ["abc"] == await isolate_failures(work, ["a", "b", "c"], str)


async def test_F13_a_run_that_fails_alone_is_told_of_by_its_id():
    """Once, as unexpected, with what went wrong; the others are done each by itself, none twice."""
    work = Work("b")
    with capture_logs() as logs, counts(1, "scoregate_unexpected_total", place="worker"):
        assert ["a", "c"] == await isolate_failures(work, ["a", "b", "c"], str)
    assert [("a",), ("c",)] == work.done
    [event] = logs
    assert ("unexpected", "error", "worker", "b", work.error) == (
        event["event"],
        event["log_level"],
        event["place"],
        event["submission"],
        event["exc_info"],
    )


async def test_F13_a_ledger_that_is_away_is_no_runs_fault():
    """All of them come again: none is tried alone, none is told of."""
    work = Work("b", error=LedgerUnavailable())
    with capture_logs() as logs, pytest.raises(LedgerUnavailable):
        await isolate_failures(work, ["a", "b", "c"], str)
    assert ([], []) == (work.done, logs)
