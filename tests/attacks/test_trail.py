"""The audit trail: who did what, as far as a moderator's boards reach."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from gateway.edge.auth.moderator_credentials import COOKIE
from gateway.ledger.moderation import trail
from gateway.ledger.moderation.trail_file import read_rows
from tests.attacks.test_moderation import a_held_run, decide
from tests.support.desk import session_of, staff
from tests.support.harness import Harness, Request, Run


async def page(harness: Harness, query: str = "", *boards: str) -> dict[str, Any]:
    answer = await harness.get(f"/v1/moderation/trail{query}", harness.moderator(*boards))
    assert 200 == answer.status, answer.raw
    return json.loads(answer.raw)


async def decided(harness: Harness, *decisions: tuple[str, str]) -> list[Run]:
    """A run for each moderator and verb, oldest first."""
    runs = []
    for name, verb in decisions:
        runs.append(await a_held_run(harness))
        assert 200 == (await decide(harness, runs[-1], verb, harness.moderator(name=name))).status
    return runs


async def test_the_trail_says_who_did_what_newest_first(harness: Harness):
    first, second = await decided(harness, ("mara", "approve"), ("noor", "reject"))
    shown = await page(harness)
    assert [("noor", second.id, "rejected"), ("mara", first.id, "promoted")] == [
        (event["moderator"], event["submission"], event["to_state"]) for event in shown["events"]
    ]
    assert [second.player, first.player] == [event["player"] for event in shown["events"]]
    assert {"held"} == {event["from_state"] for event in shown["events"]}
    assert "A moderator rejected it." == shown["events"][0]["meaning"]
    assert shown["next"] is None


async def test_the_trail_is_filtered_and_paged(harness: Harness):
    """Each filter alone; `since` is included and `until` is not."""
    await decided(harness, ("mara", "approve"), ("noor", "reject"), ("mara", "reject"))
    third, second, first = (await page(harness))["events"]
    for query, wanted in {
        "?moderator=mara": [third, first],
        "?moderator=mar": [],
        "?reason=rejected-by-moderator": [third, second],
        "?board=sprint": [third, second, first],
        "?board=spri": [],
        f"?player={second['player']}": [second],
        f"?since={second['at']}": [third, second],
        f"?until={second['at']}": [first],
        f"?moderator=mara&until={third['at']}": [first],
    }.items():
        assert (query, wanted) == (query, (await page(harness, query))["events"])
    found, cursor = [], ""
    while cursor is not None:
        shown = await page(harness, f"?limit=1&cursor={cursor}" if cursor else "?limit=1")
        found += shown["events"]
        cursor = shown["next"]
    assert [third, second, first] == found


async def test_a_walk_over_many_events_is_cut_into_bounded_pages(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    """What does not match costs as much as what does: a page passes over a fixed number of events."""
    monkeypatch.setattr(trail, "SCANNED", 2)
    await decided(harness, ("mara", "approve"), ("noor", "reject"), ("noor", "reject"))
    shown = await page(harness, "?reason=approved")
    assert [] == shown["events"]
    shown = await page(harness, f"?reason=approved&cursor={shown['next']}")
    assert ["mara"] == [event["moderator"] for event in shown["events"]]
    assert shown["next"] is None


@pytest.mark.parametrize(
    "query", ["?reason=nothing", "?since=yesterday", "?until=1", "?limit=0", "?cursor=AAAA", "?who=mara"]
)
async def test_what_the_trail_cannot_be_asked_is_refused(harness: Harness, query: str):
    answer = await harness.get(f"/v1/moderation/trail{query}", harness.moderator())
    assert (422, "schema-violation") == (answer.status, answer.problem)


async def test_M02_the_trail_ends_where_the_moderators_boards_do(harness: Harness):
    """And a cursor of somebody who sees more is of no use."""
    await decided(harness, ("mara", "approve"), ("mara", "reject"))
    assert [] == (await page(harness, "", "vault"))["events"]
    assert 2 == len((await page(harness, "", "sprint"))["events"])
    assert 404 == (await harness.get("/v1/moderation/trail?board=sprint", harness.moderator("vault"))).status
    cursor = (await page(harness, "?limit=1"))["next"]
    foreign = await harness.get(f"/v1/moderation/trail?limit=1&cursor={cursor}", harness.moderator("vault"))
    assert (422, "schema-violation") == (foreign.status, foreign.problem)


async def test_M02_the_export_ends_where_somebody_is_no_senior(harness: Harness):
    """It hides no check, so that who only reads a board, or decides on it, exports nothing of it."""
    await decided(harness, ("mara", "approve"))
    for on_sprint, exported in (("moderator", 0), ("senior", 1)):
        await staff(harness, {f"a.{on_sprint}": {"sprint": on_sprint, "vault": "senior"}})
        cookie = {"Cookie": f"{COOKIE}={(await session_of(harness, f'a.{on_sprint}')).token}"}
        answer = await harness.send(Request("GET", "/v1/moderation/trail.csv", b"", cookie))
        assert (200, exported) == (answer.status, len(answer.raw.splitlines()) - 1)


async def test_M01_the_trail_is_for_moderators(harness: Harness):
    stranger = await harness.new_player("Eve")
    for path in ("/v1/moderation/trail", "/v1/moderation/trail.csv"):
        assert 401 == (await harness.get(path)).status
        assert 403 == (await harness.get(path, stranger)).status


async def test_the_trail_is_exported_in_parts(harness: Harness):
    """The same events as the page, each file with a link to the next, for a spreadsheet to keep."""
    await decided(harness, ("mara", "approve"), ("noor", "reject"), ("mara", "reject"))
    target, rows = "/v1/moderation/trail.csv?limit=2&board=sprint", []
    while target:
        answer = await harness.get(target, harness.moderator())
        assert (200, "text/csv") == (answer.status, answer.headers["Content-Type"].partition(";")[0])
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        rows += read_rows(io.StringIO(answer.raw.decode(), newline=""))
        link = answer.headers.get("Link")
        target = re.fullmatch(r'<(/[^>]+)>; rel="next"', link)[1] if link else ""
    events = (await page(harness))["events"]
    assert [event["seq"] for event in events] == [row["seq"] for row in rows]
    assert [f"moderator:{event['moderator']}" for event in events] == [row["actor"] for row in rows]
