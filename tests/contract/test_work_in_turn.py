"""Work that waits is handed out in turn on every ledger, so that nothing starves behind what comes back again and again."""

from __future__ import annotations

from gateway.ledger.submissions import work
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in


async def test_M15_what_waits_longest_is_handed_out_first(store: Store):
    """Also where there is more than a slice, by whatever way the database finds it."""
    async with open_in(store) as ledger:
        for number in range(6):
            await ledger.append(new_submission(f"run-{number}"))
        waiting = await ledger.read(work.due_to_assess(now_ms=NOON_MS, count=9))
        for number, row in enumerate(waiting):
            await ledger.write(work.postpone([row], until_ms=NOON_MS + 100 - number))
        await store.sql("DROP INDEX outbox_due")
        slices = []
        for at_ms in range(NOON_MS + 100, NOON_MS + 103):
            due = await ledger.read(work.due_to_assess(now_ms=at_ms, count=2))
            await ledger.write(work.hand_out(due, until_ms=at_ms + 1))
            slices.append([each.submission_id for each in due])
    assert [["run-5", "run-4"], ["run-3", "run-2"], ["run-1", "run-0"]] == slices
