"""Recordings of which only the digest has come, on every ledger: asked for once, in nobody's hands, revealed once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.catalogue.catalogue import Catalogue
from gateway.ledger import queries
from gateway.ledger.judgement import reveals
from gateway.ledger.judgement.bands import BandedRecording, put_and_find
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import NewSubmission, OutboxRow, StoredRecording, VerificationLease
from gateway.ledger.submissions import work
from gateway.runtime.telemetry import Event
from gateway.shared_records import Change
from gateway.steward.recordings.reveals import OUTAGE_MS, Deadlines
from policies.loader import Policies
from policies.vocabulary import State
from tests.support import boards
from tests.support.ledger import NOON_MS, new_submission
from tests.support.metrics import counts
from tests.support.stores import Store, open_in
from validators.verification_priority import UNASSESSED

REVEAL_MS = 3_600_000
BODY = b"a recording"
RECORDING = StoredRecording(hashlib.sha256(BODY).digest(), len(BODY), BODY)


class Shown:
    """An index that remembers what it was shown."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    async def project(self, board, changes: Sequence[Change]) -> None:
        self.changes += changes


@pytest.fixture
async def ledger(store: Store) -> AsyncIterator[Ledger]:
    async with open_in(store) as running:
        yield running


def committed(submission_id: str, *, player: str = "ada") -> NewSubmission:
    """A submission that came with the digest alone."""
    whole = new_submission(submission_id, player=player, recording=BODY)
    return whole._replace(recording=None, reveal_ms=REVEAL_MS)


async def leased(ledger: Ledger, *submission_ids: str, at_ms: int = NOON_MS) -> list[VerificationLease]:
    return await ledger.write(work.lease_all(submission_ids, now_ms=at_ms, lease_ms=1000))


async def asked(ledger: Ledger, *submission_ids: str, at_ms: int = NOON_MS) -> list[VerificationLease]:
    leases = await leased(ledger, *submission_ids, at_ms=at_ms)
    await ledger.write(reveals.ask(leases, now_ms=at_ms))
    return leases


async def due(ledger: Ledger, kind: str, at_ms: int) -> list[OutboxRow]:
    return await ledger.read(work.due(kind, now_ms=at_ms, count=10, harms=(UNASSESSED,)))


async def test_a_commitment_is_stored_with_its_submission_and_no_recording(ledger: Ledger, store: Store):
    """Its digest is a fact of the submission, its size and terms stand beside it; a lease says what is missing."""
    await ledger.append(committed("one"))
    await ledger.append(new_submission("other", recording=b"another"))
    assert [(1, len(BODY), REVEAL_MS)] == await store.sql(
        "SELECT seq, size_bytes, reveal_ms FROM commitments"
    )
    assert [(2,)] == await store.sql("SELECT first_seq FROM recordings")
    await ledger.append(new_submission("none", recording=None))
    leases = await leased(ledger, "one", "other", "none")
    assert [True, False, False] == [each.is_unrevealed for each in leases]
    assert None is await ledger.read(reveals.commitment(leases[1].submission.seq))


async def test_what_is_asked_for_is_in_nobodys_hands(ledger: Ledger):
    """The lease is given back, no worker gets another, no verification is due and none is in the backlog."""
    await ledger.append(committed("one"))
    assert 1 == len(await asked(ledger, "one"))
    later = NOON_MS + 10 * REVEAL_MS
    assert [] == await leased(ledger, "one", at_ms=later)
    assert [] == await due(ledger, "verify", later)
    assert [0, 0] == [each.count for each in (await ledger.read(work.backlog())).values()]
    assert [] == await due(ledger, reveals.KIND, NOON_MS + REVEAL_MS - 1)
    [row] = await due(ledger, reveals.KIND, NOON_MS + REVEAL_MS)
    assert ("one", NOON_MS + REVEAL_MS) == (row.submission_id, row.due_at_ms)


async def test_a_lease_that_was_lost_asks_for_nothing(ledger: Ledger):
    """Another worker has the submission: what it does about it is its own."""
    await ledger.append(committed("one"))
    [stale] = await leased(ledger, "one")
    assert 1 == len(await leased(ledger, "one", at_ms=NOON_MS + 2000))
    await ledger.write(reveals.ask([stale], now_ms=NOON_MS + 2000))
    assert [] == await due(ledger, reveals.KIND, NOON_MS + 2 * REVEAL_MS)


async def test_handing_out_does_not_move_a_deadline(ledger: Ledger):
    """A worker may ask before the steward has noted that it handed the submission out."""
    await ledger.append(committed("one"))
    handed = await due(ledger, "verify", NOON_MS)
    await asked(ledger, "one")
    await ledger.write(work.postpone(handed, until_ms=NOON_MS + 30_000))
    assert [] == await due(ledger, reveals.KIND, NOON_MS + 30_000)


async def test_a_recording_is_revealed_once(ledger: Ledger):
    """Of several at once one is the first; from then on a worker gets the submission with its recording."""
    await ledger.append(committed("one"))
    [lease] = await asked(ledger, "one")
    one = reveals.reveal(lease.submission.seq, RECORDING, State.PENDING, now_ms=NOON_MS + 5)
    assert [False, False, True] == sorted(await asyncio.gather(*(ledger.write(one) for _ in range(3))))
    assert ["one"] == [row.submission_id for row in await due(ledger, "verify", NOON_MS + 5)]
    [again] = await leased(ledger, "one", at_ms=NOON_MS + 5)
    assert (RECORDING, 2) == (again.recording, again.attempt)
    now = await ledger.read(reveals.commitment(lease.submission.seq))
    assert now
    assert (NOON_MS, NOON_MS + 5, None) == (now.asked_at_ms, now.revealed_at_ms, now.due_at_ms)
    await ledger.write(reveals.ask([again], now_ms=NOON_MS + 9))  # as if it had been lost since
    now = await ledger.read(reveals.commitment(lease.submission.seq))
    assert now
    assert (NOON_MS, NOON_MS + 9 + REVEAL_MS) == (now.asked_at_ms, now.due_at_ms)


async def test_what_came_is_handed_out_as_if_it_had_never_been(ledger: Ledger):
    """A worker had it before it was asked for: that was no job lost, so it is as urgent as its harm says."""
    await ledger.append(committed("one"))
    await ledger.write(work.hand_out(await due(ledger, "verify", NOON_MS), until_ms=NOON_MS + 30_000))
    [returned] = await due(ledger, "verify", NOON_MS + 30_000)
    [lease] = await asked(ledger, "one")
    await ledger.write(reveals.reveal(lease.submission.seq, RECORDING, State.PENDING, now_ms=NOON_MS + 5))
    [came] = await due(ledger, "verify", NOON_MS + 5)
    assert (True, False) == (returned.is_returned, came.is_returned)


async def test_what_counts_already_is_checked_again_with_what_came(ledger: Ledger):
    """It waits for no verdict: it is no backlog, and settling it is no first verification."""
    await ledger.append(committed("one"))
    [lease] = await asked(ledger, "one")
    assert await ledger.write(reveals.reveal(lease.submission.seq, RECORDING, State.PROMOTED, now_ms=NOON_MS))
    told = [[row.submission_id for row in await due(ledger, kind, NOON_MS)] for kind in ("recheck", "verify")]
    assert [["one"], []] == told
    assert [0, 0] == [each.count for each in (await ledger.read(work.backlog())).values()]


async def test_what_was_not_asked_for_is_not_kept(ledger: Ledger, store: Store):
    """Nothing is stored, and no work changes."""
    await ledger.append(committed("one"))
    found = await ledger.read(queries.submission("one"))
    assert found
    assert not await ledger.write(reveals.reveal(found.seq, RECORDING, State.PENDING, now_ms=NOON_MS))
    assert [] == await store.sql("SELECT digest FROM recordings")
    assert [("verify",)] == await store.sql("SELECT kind FROM outbox")


async def test_a_deadline_is_put_off_once(ledger: Ledger):
    """Two stewards that saw the same deadline give one new one; what was revealed meanwhile has none."""
    await ledger.append(committed("one"))
    await ledger.append(committed("two"))
    leases = await asked(ledger, "one", "two")
    late = NOON_MS + 2 * REVEAL_MS
    rows = await due(ledger, reveals.KIND, late)
    await ledger.write(reveals.reveal(leases[1].submission.seq, RECORDING, State.PENDING, now_ms=late))
    assert [1, 0] == [await ledger.write(reveals.put_off(rows, now_ms=late + each)) for each in (0, 7)]
    assert ["one"] == [row.submission_id for row in await due(ledger, reveals.KIND, late + REVEAL_MS)]


async def test_a_steward_ends_what_was_missed_and_puts_off_what_it_slept_through(
    ledger: Ledger, tmp_path: Path
):
    """Who sent it since the look is not silent; from five minutes after a deadline on it is we who were away."""
    board, shown = boards.board(tmp_path), Shown()
    for name in ("missed", "sent", "slept"):
        await ledger.append(committed(name, player=name))
    await asked(ledger, "missed", "sent")
    await asked(ledger, "slept", at_ms=NOON_MS - 1)
    now_ms = NOON_MS + REVEAL_MS + OUTAGE_MS
    rows = await due(ledger, reveals.KIND, now_ms)
    [sent] = [row for row in rows if row.submission_id == "sent"]
    assert await ledger.write(reveals.reveal(sent.seq, RECORDING, State.PENDING, now_ms=now_ms))
    deadlines = Deadlines(ledger, shown, Catalogue(Policies({"tiny": board})), clock=lambda: now_ms)
    said = {"event": Event.REVEALS_PUT_OFF, "count": 1, "log_level": "warning"}
    with counts(1, "scoregate_reveals_total", board="tiny", outcome="silent"), capture_logs() as logs:
        await deadlines.end(rows)
    assert [said] == logs
    assert [("missed", State.REJECTED)] == [(each.submission_id, each.state) for each in shown.changes]
    [*_, event] = await ledger.read(queries.history_of("missed"))
    assert ("budget", "recording-not-revealed", now_ms) == (event["actor"], event["reason"], event["at_ms"])
    assert {"asked_at_ms": NOON_MS, "due_at_ms": NOON_MS + REVEAL_MS} == event["detail"]
    assert ["slept"] == [row.submission_id for row in await due(ledger, reveals.KIND, now_ms + REVEAL_MS)]
    assert [] == await due(ledger, reveals.KIND, now_ms + REVEAL_MS - 1)


async def test_a_player_is_told_of_their_own(ledger: Ledger):
    """The next deadline first, and as many as are asked for."""
    for number, (name, player) in enumerate(
        [("one", "ada"), ("two", "ada"), ("three", "bob"), ("four", "ada")]
    ):
        await ledger.append(committed(name, player=player))
        if name != "four":
            await asked(ledger, name, at_ms=NOON_MS + 1000 - number)
    found = await ledger.read(reveals.recording_requests("ada", count=10))
    assert ["two", "one"] == [each.submission_id for each in found]
    assert (RECORDING.digest, len(BODY)) == (found[0].digest, found[0].size_bytes)
    assert ["two"] == [
        each.submission_id for each in await ledger.read(reveals.recording_requests("ada", count=1))
    ]


async def test_equal_digests_are_found_before_anybody_has_seen_the_bytes(ledger: Ledger):
    """The neighbour has a digest and no recording."""
    await ledger.append(committed("one"))
    await ledger.append(committed("two", player="bob"))
    banded = [BandedRecording("tiny", seq, [7], player) for seq, player in ((1, "ada"), (2, "bob"))]
    [_, [near]] = await ledger.write(put_and_find(banded))
    assert ("one", RECORDING.digest, None) == (near.submission_id, near.digest, near.recording)


@pytest.mark.parametrize("change", ["size_bytes = 1", "reveal_ms = 1", "seq = 9"])
async def test_what_was_committed_never_changes(ledger: Ledger, store: Store, change: str):
    """By trigger, whoever asks."""
    await ledger.append(committed("one"))
    with pytest.raises(store.refusals):
        await store.sql(f"UPDATE commitments SET {change}")
    with pytest.raises(store.refusals):
        await store.sql("DELETE FROM commitments")
