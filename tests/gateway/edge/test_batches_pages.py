"""The pages of batches without a browser: select, preview, apply, reverse, and what is refused."""

from __future__ import annotations

import re

from policies.vocabulary import State
from tests.gateway.edge.test_console_pages import ask
from tests.support.desk import session_of, staff
from tests.support.harness import Harness
from tests.support.ledger import new_submission

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
