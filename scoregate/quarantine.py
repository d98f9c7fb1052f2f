"""Takes back what a stolen server key has written, all of it that still counts, as one batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.moderation.batch_items import BatchItem, ItemOutcome
from gateway.ledger.moderation.batches import Batch
from gateway.ledger.records import SERVER_CREDENTIAL
from gateway.ledger.transaction import Operation, Transaction
from gateway.settlement.batches import begin, end_filling, filling, put_items
from policies.vocabulary import Reason
from scoregate.commands.common import EVERY_BOARD
from scoregate.operator_batches import BatchOperator

SPAN: Final = 10_000
"""Sequence numbers that one read passes at most, however few of them match."""

SLICE: Final = 500
"""Submissions per transaction: the ledger takes other writes in between."""

_WORDS: Final = {ItemOutcome.WAITING: "to-be-quarantined", ItemOutcome.DECIDED: "quarantined"}


@dataclass(slots=True)
class Quarantine:
    """The batch of a stolen key's submissions, None if nothing counts, and what the key itself took back."""

    batch: Batch | None = None
    items: list[BatchItem] = field(default_factory=list)
    taken_back: list[str] = field(default_factory=list)

    def rows(self) -> list[tuple[str, str]]:
        """Return each submission and what became of it, or would."""
        outcomes = [(item.submission_id, ItemOutcome(item.outcome)) for item in self.items]
        own = [(submission_id, "taken-back-by-the-key") for submission_id in self.taken_back]
        return [(submission_id, _WORDS.get(outcome, "left")) for submission_id, outcome in outcomes] + own


async def quarantine(operator: BatchOperator, key_id: str, *, since_ms: int, is_applied: bool) -> Quarantine:
    """Preview the revocation of what the key has written since `since_ms` and what counts; apply it if so.

    Safe to repeat.
    """
    ledger, credential = operator.ledger, SERVER_CREDENTIAL + key_id
    selection = {"key": key_id, "received_since_ms": since_ms}
    new = filling((EVERY_BOARD,), Reason.KEY_COMPROMISED, selection, {"key": key_id}, now_ms=operator.clock())
    await ledger.write(begin(new))
    async for page in _written(ledger, credential, since_ms):
        await ledger.write(put_items(new.batch_id, page, now_ms=operator.clock()))
    await ledger.write(end_filling(new.batch_id, now_ms=operator.clock()))
    result = Quarantine(await operator.follow(new.batch_id))
    assert result.batch is not None
    if not result.batch.items:
        await operator.abandon(new.batch_id)
        result.batch = None
    elif is_applied:
        result.batch = await operator.apply(new.batch_id)
    result.items += [item async for item in operator.items(new.batch_id)]
    async for taken_back in _taken_back(ledger, credential, since_ms):
        result.taken_back += taken_back
    return result


async def _written(ledger: Ledger, credential: str, since_ms: int) -> AsyncIterator[Sequence[BatchItem]]:
    """Yield slices of the key's submissions that count."""
    for begin_seq in range(0, await ledger.read(queries.newest_seq()), SPAN):
        after, upto = begin_seq, begin_seq + SPAN
        while page := await ledger.read(_page(credential, since_ms, after, upto)):
            yield page
            after = page[-1].seq


def _page(credential: str, since_ms: int, after: int, upto: int) -> Operation[list[BatchItem]]:
    counting = queries.counting_submissions(
        credential, since_ms=since_ms, after=after, upto=upto, count=SLICE
    )

    async def work(tx: Transaction) -> list[BatchItem]:
        submissions = await counting(tx)
        newest = await queries.newest_events(tx, [each.submission_id for each in submissions])
        return [
            BatchItem(each.board, each.seq, each.submission_id, each.player, newest[each.submission_id])
            for each in submissions
        ]

    return work


async def _taken_back(ledger: Ledger, credential: str, since_ms: int) -> AsyncIterator[list[str]]:
    """Yield slices of the submissions that the key revoked."""
    for begin_seq in range(0, await ledger.read(queries.newest_seq()), SPAN):
        after, upto = begin_seq, begin_seq + SPAN
        while page := await ledger.read(
            queries.revocations_by(credential, since_ms=since_ms, after=after, upto=upto, count=SLICE)
        ):
            yield [submission_id for _, submission_id in page]
            after = page[-1][0]
