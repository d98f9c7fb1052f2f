"""What an operator is told of requests: each answer is timed once, each refusal counted once, by names from closed sets."""

from __future__ import annotations

from contextlib import ExitStack

from tests.support.harness import Harness
from tests.support.metrics import counts, metric

TIMED = "scoregate_request_seconds_count"


async def test_answers_and_refusals_are_counted_by_route_and_problem(harness: Harness):
    """By the route's pattern and the class of the status; what is no route has one name for all."""
    with ExitStack() as counted:
        for times, route, status in (
            (1, "/livez", "2xx"),
            (2, "/v1/boards/{board}/entries/{player}", "4xx"),
            (1, "none", "4xx"),
        ):
            counted.enter_context(counts(times, TIMED, route=route, status=status))
        counted.enter_context(counts(3, "scoregate_problems_total", type="not-found"))
        for path in (
            "/livez",
            "/v1/boards/vault/entries/nobody",
            "/v1/boards/nope/entries/x",
            "/v1/nothing",
        ):
            await harness.get(path)


async def test_an_answer_is_timed_by_what_it_took(harness: Harness):
    """In seconds: what a dashboard shows as latency."""
    labels = {"route": "/livez", "status": "2xx"}
    before = metric("scoregate_request_seconds_sum", **labels)
    for _ in range(3):
        await harness.get("/livez")
    assert 0 < metric("scoregate_request_seconds_sum", **labels) - before < 30
