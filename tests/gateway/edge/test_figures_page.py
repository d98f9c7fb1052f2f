"""The console's page of figures: the same numbers as over the API, and none where there are too few cases."""

from __future__ import annotations

import re

from tests.gateway.edge.test_console_pages import ROLES, ask
from tests.support.desk import player_of, session_of, staff, submitted
from tests.support.harness import Harness


async def test_the_page_of_figures_shows_each_with_its_number_of_cases(harness: Harness):
    """Empty at first; then with what was decided, on all boards or on one, and nothing of foreign ones."""
    await staff(harness, ROLES)
    session, ada = await session_of(harness, "jo"), await player_of(harness, "Ada")
    empty = await ask(harness, "GET", "/console/figures", session)
    assert (200, True, True) == (
        empty.status, "No decisions yet" in empty.text, "No labels yet" in empty.text
    )  # fmt: skip
    for score in range(900, 910):
        case = await submitted(harness, ada, score)
        page = await ask(harness, "GET", f"/console/cases/{case}", session)
        etag = re.search(r'name="etag" value="&#34;(\d+)&#34;"', page.text)[1]  # type: ignore[index]
        form = {"etag": f'"{etag}"', "code": "tool-assisted"}
        assert 303 == (await ask(harness, "POST", f"/console/cases/{case}/reject", session, form)).status
    for path in ("/console/figures", "/console/figures?board=arcade", "/console/figures?board="):
        shown = await ask(harness, "GET", path, session)
        assert 200 == shown.status
        assert "10 cheats and 0 honest runs" in shown.text
        assert "100.0 %" in shown.text
        assert "10 of 10" in shown.text
        assert "too few" in shown.text
    other = await ask(harness, "GET", "/console/figures?board=sprint", session)
    assert "10 cheats" not in other.text
