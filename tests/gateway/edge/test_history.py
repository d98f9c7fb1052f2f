"""Reading a board as it stood: for moderators alone, ranked as it was, and never more than one look at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote

import pytest

from gateway.edge.reads import history
from gateway.runtime.clock import rfc3339
from tests.support.attack import as_server, registered
from tests.support.harness import Answer, Harness

VAULT = "/v1/boards/vault/entries"


async def past(harness: Harness, at: str, query: str = "", token: str | None = None) -> Answer:
    return await harness.get(f"{VAULT}?as_of={quote(at)}{query}", token or harness.moderator())


async def an_hour_each(harness: Harness) -> list[str]:
    """p1 to p3 write, an hour apart, each better than the one before; the instants right after each write."""
    private, instants = await registered(harness), []
    for number in (1, 2, 3):
        entry = {"operation": f"op-{number}", "player": f"p{number}", "score": 10 * number}
        assert 202 == (await as_server(harness, private, entry)).status
        instants.append(rfc3339(harness.clock() + 1000))
        harness.clock.shift(3600)
    return instants


async def test_a_board_is_shown_as_it_stood(harness: Harness):
    """After each write the entries of then, with the ranks of then; now, those of the live board to the byte."""
    instants = await an_hour_each(harness)
    before = rfc3339(harness.clock() - 86_400_000)
    assert [[], ["p1"], ["p2", "p1"], ["p3", "p2", "p1"]] == [
        [entry["player"] for entry in (await past(harness, at)).body["entries"]] for at in (before, *instants)
    ]
    live = await harness.get(VAULT)
    assert live.raw == (await past(harness, rfc3339(harness.clock()))).raw

    page = (await past(harness, instants[2], "&offset=1&limit=1")).body
    assert (3, [(2, "p2")]) == (page["total"], [(e["rank"], e["player"]) for e in page["entries"]])
    east = datetime.fromisoformat(instants[1]).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert (await past(harness, instants[1])).raw == (await past(harness, east.isoformat())).raw


async def test_a_kind_of_window_is_the_one_of_that_instant(harness: Harness):
    """The day that it was then, not today; and any window by its name."""
    instants = await an_hour_each(harness)
    day = datetime.fromisoformat(instants[0]).astimezone(UTC)
    harness.clock.shift(3 * 86_400)
    shown = (await past(harness, instants[0], "&window=daily")).body
    assert (f"daily:{day:%Y%m%d}", 1) == (shown["window"], shown["total"])
    named = await past(harness, rfc3339(harness.clock()), f"&window=daily:{day:%Y%m%d}")
    assert named.body["total"] >= 1
    for window in ("daily:20261399", "weekly:2026W99", "hourly", "monthly:999912"):
        assert 404 == (await past(harness, instants[0], f"&window={window}")).status


@pytest.mark.parametrize(
    "at",
    [
        "",
        "now",
        "2026-11-20",
        "2026-11-20T12:00:00",
        "20261120T120000Z",
        "2026-02-30T00:00:00Z",
        "٢026-11-20T12:00:00Z",
    ],
)
async def test_an_instant_is_written_by_rfc_3339(harness: Harness, at: str):
    """Anything else is told what is meant; and so is an instant that has not been."""
    answer = await past(harness, at)
    assert (422, "schema-violation") == (answer.status, answer.problem)
    assert "as_of" in answer.body["detail"]
    future = await past(harness, rfc3339(harness.clock() + 60_000))
    assert (422, "as_of: is in the future") == (future.status, future.body["detail"])


async def test_M01_the_past_is_for_the_boards_moderators(harness: Harness):
    """It costs a look through the log, so not everybody may ask."""
    at = rfc3339(harness.clock())
    answers = [
        await harness.get(f"{VAULT}?as_of={at}"),
        await past(harness, at, token=await harness.new_player()),
        await past(harness, at, token=harness.moderator("arcade")),
    ]
    assert [401, 403, 404] == [answer.status for answer in answers]
    assert 200 == (await past(harness, at, token=harness.moderator("vault"))).status


async def test_one_looks_at_a_time_and_not_for_ever(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    """Whoever asks meanwhile is told to come again; a log that takes too long, or too much memory, is refused."""
    await an_hour_each(harness)
    at = rfc3339(harness.clock())
    began, go_on, fold = asyncio.Event(), asyncio.Event(), history.board_as_of

    async def slow(*arguments, **options):
        began.set()
        await go_on.wait()
        return await fold(*arguments, **options)

    monkeypatch.setattr(history, "board_as_of", slow)
    first = asyncio.create_task(past(harness, at))
    await began.wait()
    second = await past(harness, at)
    assert (429, "5") == (second.status, second.headers["Retry-After"])
    go_on.set()
    assert 200 == (await first).status

    go_on.clear()
    monkeypatch.setattr(history, "TIMEOUT_S", 0.01)
    slow_ledger = await past(harness, at)
    assert (503, "30") == (slow_ledger.status, slow_ledger.headers["Retry-After"])
    monkeypatch.setattr(history, "board_as_of", fold)
    monkeypatch.setattr(history, "TIMEOUT_S", 20)
    monkeypatch.setattr(history, "COUNTING_LIMIT", 2)
    refused = await past(harness, at)
    assert (503, "temporary-reduced-capacity") == (refused.status, refused.problem)
    assert "3600" == refused.headers["Retry-After"]
