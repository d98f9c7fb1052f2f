"""Statistics, trends and achievements over HTTP."""

from __future__ import annotations

import pytest

from gateway.derived.derivations import Derivations
from gateway.ledger import queries
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.vocabulary import Reason, State
from tests.support.derived import catch_up
from tests.support.harness import Harness
from tests.support.ledger import new_submission


async def scored(harness: Harness, *scores: tuple[str, int]) -> Derivations:
    """What a steward derives of promoted submissions."""
    edge = harness.edge
    derivations = Derivations(
        edge.settings, edge.catalogue, edge.ledger, edge.index.client, clock=harness.clock
    )
    await catch_up(derivations)
    for number, (player, score) in enumerate(scores):
        facts = {"board": "arcade", "player": player, "score": score, "at_ms": harness.clock()}
        await edge.ledger.append(new_submission(f"run-{number}", **facts))
        decision = Decision(
            f"run-{number}",
            State.PROMOTED,
            "replay",
            Reason.VERIFIED,
            harness.clock(),
            frozenset({State.PENDING}),
        )
        await settle(edge.ledger, edge.index, edge.catalogue.of_files["arcade"], [decision])
    await catch_up(derivations)
    return derivations


async def test_statistics_are_read(harness: Harness):
    """With the error of the estimate; without Redis there is no estimate, and the counts are as they were."""
    await scored(harness, ("ada", 5), ("bob", 6), ("ada", 7))
    answer = await harness.get("/v1/boards/arcade/statistics")
    facts = {"board": "arcade", "attempts": 3, "promoted": 3, "players_ever_standard_error": 0.0081}
    assert facts | {"players_ever": 2} == answer.body
    await harness.edge.index.client.flushall()
    assert None is (await harness.get("/v1/boards/arcade/statistics")).body["players_ever"]
    assert "not-found" == (await harness.get("/v1/boards/nothing/statistics")).problem


async def test_trends_are_read_with_names_and_error(harness: Harness):
    """Who played and who improved, by the hour and by the day."""
    await harness.edge.ledger.write(queries.add_player("ada", "Ada", now_ms=harness.clock()))
    await scored(harness, ("ada", 5), ("bob", 6), ("ada", 9))
    played = (await harness.get("/v1/boards/arcade/trending")).body
    assert ("played", "hour", 3, 0) == tuple(played[each] for each in ("kind", "span", "total", "error"))
    assert [("Ada", 2, 2), ("bob", 1, 1)] == [
        (each["name"], each["at_least"], each["at_most"]) for each in played["players"]
    ]
    improved = (await harness.get("/v1/boards/arcade/trending?kind=improved&span=day&limit=1")).body
    assert [("ada", 4)] == [(each["player"], each["at_most"]) for each in improved["players"]]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/boards/arcade/trending?kind=best",
        "/v1/boards/arcade/trending?span=year",
        "/v1/boards/arcade/trending?limit=0",
        "/v1/players/ada/achievements?after=12",
        "/v1/players/ada/achievements?limit=101",
    ],
)
async def test_questions_that_make_no_sense_are_refused(harness: Harness, path: str):
    """Each by the field that is wrong."""
    answer = await harness.get(path)
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert answer.body["detail"].split(":")[0] in path


async def test_achievements_are_paged_newest_first(harness: Harness):
    """Several windows are reached by one event, and a page may end between them; whoever has none has an empty list."""
    await scored(harness, ("ada", 5), ("bob", 6))
    whole = (await harness.get("/v1/players/ada/achievements")).body
    assert None is whole["next"]
    windows = [each["window"] for each in whole["achievements"]]
    assert len(windows) == len(harness.edge.catalogue.of_files["arcade"].policy.windows) > 1

    paged, cursor = [], ""
    while cursor is not None:
        page = (
            await harness.get(f"/v1/players/ada/achievements?limit=1{cursor and '&after=' + cursor}")
        ).body
        paged += page["achievements"]
        cursor = page["next"]
    assert whole["achievements"] == paged
    assert [] == (await harness.get("/v1/players/nobody/achievements")).body["achievements"]
    assert 404 == (await harness.get("/v1/players/no.body/achievements")).status
