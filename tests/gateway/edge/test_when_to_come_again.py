"""A client that is refused for now is told when to come again, whatever refused it."""

from __future__ import annotations

import pytest

from gateway.edge.admission.early_refusals import refusal
from gateway.edge.problems import Problem, ProblemType, problem_response
from tests.support.harness import Harness


@pytest.mark.parametrize("kind", ProblemType)
def test_a_refusal_for_now_says_when_to_come_again(kind: ProblemType):
    """Each problem with status 429 or 503 does, also where its cause gives no time; a time that is given stays."""
    fields = problem_response(Problem(kind)).headers
    assert ("1" if kind.status in {429, 503} else None) == fields.get("Retry-After")
    told = problem_response(Problem(kind, headers={"Retry-After": "60"})).headers
    assert "60" == told["Retry-After"]


def test_a_refusal_before_parsing_says_it_too():
    assert b"\r\nRetry-After: " in refusal()


async def test_an_edge_that_is_not_ready_says_when_to_ask_again(harness: Harness):
    """A ready one does not."""
    assert "Retry-After" not in (await harness.ready()).headers
    harness.edge.shutdown.has_begun = True
    unready = await harness.ready()
    assert (503, "1") == (unready.status, unready.headers["Retry-After"])
