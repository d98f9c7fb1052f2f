"""Figures for moderators over HTTP: how decisions went, as far as a moderator's boards reach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.ledger.moderation import labels, late_queues, waiting_cases
from tests.attacks.test_moderation import a_held_run, decide
from tests.support.harness import Harness


async def figures(harness: Harness, query: str = "", *boards: str) -> dict[str, Any]:
    answer = await harness.get(f"/v1/moderation/figures{query}", harness.moderator(*boards))
    assert 200 == answer.status, answer.raw
    return json.loads(answer.raw)


async def test_the_figures_say_what_was_decided_and_what_waits(harness: Harness):
    """Counts always; shares and times not below ten cases."""
    runs = [await a_held_run(harness) for _ in range(12)]
    for run in runs[:10]:
        assert 200 == (await decide(harness, run, "approve", harness.moderator(name="mara"))).status
    shown = await figures(harness)
    assert {"approved": 10} == shown["decisions"]["made"]
    assert (10, 2) == (shown["decisions"]["time_to_decision"]["of"], shown["queue"]["waiting"])
    assert shown["decisions"]["time_to_decision"]["median_s"] is not None
    assert (0, 10, 0.0) == tuple(shown["decisions"]["overturned"][each] for each in ("hits", "of", "share"))
    low, high = shown["decisions"]["overturned"]["interval"]
    assert (low, round(high, 3)) == (0, 0.278)
    assert (0, None, None) == tuple(
        shown["decisions"]["agreement"][each] for each in ("of", "share", "interval")
    )
    assert [10] == [day["decisions"] for day in shown["decisions"]["days"]]
    assert shown["queue"]["oldest_s"] is not None
    assert shown["queue"]["median_s"] is None


async def test_a_read_takes_so_many_labels_and_no_more(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """The newest; the answer says since when."""
    for _ in range(3):
        await decide(harness, await a_held_run(harness), "approve", harness.moderator(name="mara"))
        harness.clock.shift(1)
    monkeypatch.setattr(labels, "NEWEST", 2)
    shown = await figures(harness)
    assert shown["is_cut"]
    assert shown["since"] is not None
    assert {"approved": 1} == shown["decisions"]["made"]


@pytest.mark.parametrize(("most", "is_cut"), [(10, True), (11, False)])
async def test_a_queue_that_is_not_counted_whole_has_no_median(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, most: int, is_cut: bool
):
    """It would be that of the part that was counted; the age of the oldest case is still known."""
    for _ in range(11):
        await a_held_run(harness)
    monkeypatch.setattr(waiting_cases, "MOST", most)
    queue = (await figures(harness))["queue"]
    assert (most, is_cut, is_cut) == (queue["waiting"], queue["is_cut"], queue["median_s"] is None)
    assert queue["oldest_s"] is not None


@pytest.mark.parametrize("query", ["?since=yesterday", "?until=1", "?who=mara"])
async def test_what_figures_cannot_be_asked_is_refused(harness: Harness, query: str):
    answer = await harness.get(f"/v1/moderation/figures{query}", harness.moderator())
    assert (422, "schema-violation") == (answer.status, answer.problem)


async def test_M02_figures_end_where_the_moderators_boards_do(harness: Harness):
    """What waits and what was decided elsewhere is in no number."""
    await decide(harness, await a_held_run(harness), "approve", harness.moderator(name="mara"))
    await a_held_run(harness)
    mine, other = await figures(harness, "", "sprint"), await figures(harness, "", "vault")
    assert ({"approved": 1}, 1) == (mine["decisions"]["made"], mine["queue"]["waiting"])
    assert ({}, 0) == (other["decisions"]["made"], other["queue"]["waiting"])
    assert (
        404 == (await harness.get("/v1/moderation/figures?board=sprint", harness.moderator("vault"))).status
    )


async def test_figures_of_a_board_are_of_its_queue_too(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """What waits elsewhere is in neither number, though the moderator may see it."""
    await a_held_run(harness)
    asked: list[str | None] = []
    late = late_queues.late_queues_of

    def noted(scopes: frozenset[str], board: str | None) -> Any:
        asked.append(board)
        return late(scopes, board)

    monkeypatch.setattr(late_queues, "late_queues_of", noted)
    of_vault, of_sprint = await figures(harness, "?board=vault"), await figures(harness, "?board=sprint")
    assert (0, 1) == (of_vault["queue"]["waiting"], of_sprint["queue"]["waiting"])
    assert (["vault", "sprint"], None) == (asked, of_vault["until"])


async def test_M01_figures_are_for_moderators(harness: Harness):
    stranger = await harness.new_player("Eve")
    assert 401 == (await harness.get("/v1/moderation/figures")).status
    assert 403 == (await harness.get("/v1/moderation/figures", stranger)).status
