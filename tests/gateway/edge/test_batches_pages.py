"""The pages of batches without a browser: select, preview, apply, reverse, and what is refused."""

from __future__ import annotations

import re

from gateway.runtime.clock import rfc3339
from policies.vocabulary import State
from tests.gateway.edge.test_console_pages import ask
from tests.support.desk import session_of, staff
from tests.support.harness import Harness
from tests.support.ledger import NOON_MS, new_submission

FORM = {
    "operation": "batch-1",
    "decision": "reject:other",
    "board": "sprint",
    "note": "one <farm>",
    "received_since": "2020-01-01T00:00",
}


async def test_a_batch_is_previewed_applied_and_reversed_on_its_page(harness: Harness):
    """Each form does what the API does, by the version that was seen; the page says what became of what."""
    await staff(harness, {"sam": {"sprint": "senior"}, "jo": {"*": "moderator"}})
    session = await session_of(harness, "sam")
    for name in ("one", "two"):
        run = new_submission(name, board="sprint", player="ada", state=State.HELD, recording=None)
        await harness.edge.ledger.append(run)
    empty = await ask(harness, "GET", "/console/batches", session)
    assert (200, True) == (empty.status, "No batches yet" in empty.text)
    refused = await ask(harness, "POST", "/console/batches", session, FORM | {"received_since": "x"})
    assert (422, True) == (refused.status, "one &lt;farm&gt;" in refused.text)
    made = await ask(harness, "POST", "/console/batches", session, FORM)
    path = made.headers["Location"]
    preview = await ask(harness, "GET", path, session)
    assert (303, True) == (made.status, "Reject 2 submissions" in preview.text)
    assert {"No podium changes", "one &lt;farm&gt;", "Apply to exactly these"} <= {
        words
        for words in ("No podium changes", "one &lt;farm&gt;", "Apply to exactly these")
        if words in preview.text
    }
    [etag] = re.findall(r'name="etag" value="&#34;(\d+)&#34;"', preview.text)
    stale = await ask(harness, "POST", f"{path}/apply", session, {"etag": '"1"'})
    assert (412, True) == (stale.status, "has changed since you read it" in stale.text)
    viewer = await session_of(harness, "jo")
    seen = await ask(harness, "GET", path, viewer)
    assert (200, False) == (seen.status, '<button class="primary">Apply' in seen.text)
    applied = await ask(harness, "POST", f"{path}/apply", session, {"etag": f'"{etag}"'})
    shown = await ask(harness, "GET", path, session)
    assert (303, path, True) == (
        applied.status,
        applied.headers["Location"],
        "Reverse all of it" in shown.text,
    )
    assert 2 == shown.text.count('data-tone="good">Decided')
    await ask(harness, "POST", f"{path}/reverse", session)
    assert 2 == (await ask(harness, "GET", path, session)).text.count(">Reversed</span>") - 1
    listed = await ask(harness, "GET", "/console/batches", session)
    assert path in listed.text
    done = await ask(harness, "GET", path, session, **{"HX-Request": "true"})
    assert path == done.headers["HX-Redirect"]


async def test_a_batch_takes_what_its_form_selects(harness: Harness):
    """A build, and the times between which runs were achieved, bound it as its board does."""
    await staff(harness, {"sam": {"sprint": "senior"}})
    session = await session_of(harness, "sam")
    for name, build, late_ms in (("one", "b-1", 0), ("two", "b-2", 0), ("six", "b-1", 3_600_000)):
        run = new_submission(
            name, board="sprint", build=build, at_ms=NOON_MS + late_ms, state=State.HELD, recording=None
        )
        await harness.edge.ledger.append(run)
    until = rfc3339(NOON_MS + 60_000)[:16]
    form = FORM | {"build": "b-1", "achieved_until": until}
    made = await ask(harness, "POST", "/console/batches", session, form)
    page = await ask(harness, "GET", made.headers["Location"], session)
    assert (200, True) == (page.status, "Reject 1 submission<" in page.text)


async def test_a_batch_is_let_go_by_who_may_decide_so_on_all_of_its_boards(harness: Harness):
    """Who may on one of them alone reads it."""
    both = {"sprint": "senior", "arcade": "senior"}
    await staff(harness, {"sam": both, "kim": both | {"arcade": "viewer"}})
    session = await session_of(harness, "sam")
    made = await ask(harness, "POST", "/console/batches", session, FORM | {"board": ""})
    for name, may_turn in (("sam", True), ("kim", False)):
        page = await ask(harness, "GET", made.headers["Location"], await session_of(harness, name))
        assert (name, 200, may_turn) == (name, page.status, "Let it go" in page.text)
