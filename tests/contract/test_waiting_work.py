"""What waits in the outbox, counted in one bounded read, on every ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.ledger.ledger import Ledger
from gateway.ledger.submissions import waiting, work
from gateway.ledger.submissions.waiting import OutboxContents, WaitingWork, outbox_contents
from tests.support.ledger import NOON_MS, new_submission
from tests.support.stores import Store, open_in
from validators.verification_priority import URGENT

MINUTE_MS = 60_000


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


async def test_PT_work_that_waits_is_told_by_kind_with_its_oldest(ledger: Ledger, store: Store):
    """Urgent verifications apart; how long the oldest has waited is the time of its event, not when it is due next."""
    assert OutboxContents([], False) == await ledger.read(outbox_contents)
    for number in range(4):
        await ledger.append(new_submission(f"s{number}", at_ms=NOON_MS + number * MINUTE_MS))
    times = dict(await store.sql("SELECT seq, at_ms FROM events"))
    seqs = sorted(times)
    await ledger.write(work.prioritise({seqs[2]: URGENT}))
    rows = await ledger.read(work.due("verify", now_ms=NOON_MS * 2, count=9, harms=(-1, 0, 1, URGENT)))
    await ledger.write(work.postpone(rows, until_ms=NOON_MS * 3))
    await ledger.write(work.hand_out(rows, until_ms=NOON_MS * 3))

    contents = await ledger.read(outbox_contents)
    assert not contents.is_cut
    assert {
        ("verify", False): (3, times[seqs[0]]),
        ("verify", True): (1, times[seqs[2]]),
    } == {(row.kind, row.is_urgent): (row.count, row.since_ms) for row in contents.work}


async def test_PT_no_more_rows_are_counted_than_the_bound(ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    """The oldest are, so the age is right however much waits; that there may be more is said."""
    monkeypatch.setattr(waiting, "ROWS_LIMIT", 3)
    for number in range(5):
        await ledger.append(new_submission(f"s{number}", at_ms=NOON_MS + number))
    [row], is_cut = await ledger.read(outbox_contents)
    assert (WaitingWork("verify", False, 3, NOON_MS), True) == (row, is_cut)
