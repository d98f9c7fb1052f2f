"""Takes back what a stolen server key has written, all of it that still counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final

from gateway.catalogue.catalogue import Catalogue
from gateway.index.board_index import Index
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.records import SERVER_CREDENTIAL, StoredSubmission
from gateway.runtime.clock import Clock
from gateway.settlement.settle import Decision, settle
from gateway.shared_records import Change
from policies.vocabulary import Reason, State
from scoregate.commands.common import OPERATOR

SPAN: Final = 10_000
"""Sequence numbers that one read passes at most, however few of them match."""

SLICE: Final = 100
"""Submissions per transaction: the ledger takes other writes in between."""


@dataclass(slots=True)
class Quarantine:
    """Submissions of a stolen key, by what became of them.

    `left` are those whose boards have no policy here; `taken_back` are those that the key itself revoked.
    """

    revoked: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    taken_back: list[str] = field(default_factory=list)

    def by_outcome(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each outcome with its submissions."""
        yield "quarantined", self.revoked
        yield "taken-back-by-the-key", self.taken_back
        yield "left", self.left


async def quarantine(
    ledger: Ledger, index: Index, catalogue: Catalogue, key_id: str, *, since_ms: int, clock: Clock
) -> Quarantine:
    """Revoke what the key has written since `since_ms` and what still counts. Safe to repeat."""
    result = Quarantine()
    credential = SERVER_CREDENTIAL + key_id
    async for page in _written(ledger, credential, since_ms):
        for name, group in groupby(sorted(page, key=attrgetter("board")), key=attrgetter("board")):
            ids = [submission.submission_id for submission in group]
            board = await catalogue.board(name)
            if board:
                decisions = [_revocation(submission_id, key_id, clock()) for submission_id in ids]
                outcomes = await settle(ledger, index, board, decisions)
                result.revoked += [change.submission_id for change in outcomes if isinstance(change, Change)]
            else:
                result.left += ids
    async for taken_back in _taken_back(ledger, credential, since_ms):
        result.taken_back += taken_back
    return result


def _revocation(submission_id: str, key_id: str, at_ms: int) -> Decision:
    counting = frozenset({State.PROMOTED})
    reason = Reason.KEY_COMPROMISED
    return Decision(submission_id, State.REVOKED, OPERATOR, reason, at_ms, counting, detail={"key": key_id})


async def _written(
    ledger: Ledger, credential: str, since_ms: int
) -> AsyncIterator[Sequence[StoredSubmission]]:
    """Yield slices of the key's submissions that count."""
    for begin in range(0, await ledger.read(queries.newest_seq()), SPAN):
        after, upto = begin, begin + SPAN
        while page := await ledger.read(
            queries.counting_submissions(credential, since_ms=since_ms, after=after, upto=upto, count=SLICE)
        ):
            yield page
            after = page[-1].seq


async def _taken_back(ledger: Ledger, credential: str, since_ms: int) -> AsyncIterator[list[str]]:
    """Yield slices of the submissions that the key revoked."""
    for begin in range(0, await ledger.read(queries.newest_seq()), SPAN):
        after, upto = begin, begin + SPAN
        while page := await ledger.read(
            queries.revocations_by(credential, since_ms=since_ms, after=after, upto=upto, count=SLICE)
        ):
            yield [submission_id for _, submission_id in page]
            after = page[-1][0]
