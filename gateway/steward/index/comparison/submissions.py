"""Which submissions wait, and which are decided: the pending and the settled set."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.index import keys
from gateway.index.board_index import CommittedRun
from gateway.ledger import index_pages, queries
from gateway.ledger.index_pages import SubmissionSummary
from gateway.steward.index.comparison.difference import (
    AHEAD_MS,
    BoardView,
    Difference,
    Kind,
    Subjects,
    Walk,
    printable,
    text_of,
)
from policies.vocabulary import State


class Pending:
    """The submissions that wait for a verdict."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._key = keys.pending(view.board)

    def walks(self) -> Sequence[Walk]:
        """Through what the ledger has pending, and through the pending set."""
        return (self._from_ledger, self._from_index)

    async def _from_ledger(self, count: int) -> Subjects:
        after = 0
        while page := await self._view.ledger.read(
            queries.pending_submissions(self._view.board, after=after, count=count)
        ):
            yield [submission_id.encode() for _, submission_id, *_ in page]
            after = page[-1][0]

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.members(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Submissions that are missing from the set, were decided, or are unknown."""
        held = dict(zip(subjects, await self._view.inspection.scores(self._key, subjects), strict=True))
        known = await known_submissions(self._view, list(held))
        found = [self._difference(each, held[each], known.get(each)) for each in held]
        return [each for each in found if each]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Puts the set right. What is forged on the settled set would keep a submission from it, and goes first."""
        subjects = [each.subject for each in found]
        await self._view.inspection.remove(self._key, subjects)
        known = await known_submissions(self._view, subjects)
        waiting = {each: facts for each, facts in known.items() if facts.state is State.PENDING}
        if waiting:
            await self._view.inspection.remove(keys.settled(self._view.board), list(waiting))
            await self._view.index.close_runs(
                [
                    CommittedRun(each.decode(), facts.player, facts.received_at_ms)
                    for each, facts in waiting.items()
                ]
            )

    def _difference(
        self, subject: bytes, held: float | None, known: SubmissionSummary | None
    ) -> Difference | None:
        is_due = known is not None and known.state is State.PENDING
        is_right = held == known.received_at_ms if known and is_due else held is None
        if is_right:
            return None
        kind = Kind.FORGED_PENDING
        if held is None:
            kind = Kind.MISSING_PENDING
        elif known is not None and not is_due:
            kind = Kind.STALE_PENDING
        return Difference(
            self._view.board,
            kind,
            player=known.player if known else "",
            submission=printable(subject),
            ledger=f"{known.state.value} {known.received_at_ms}" if known else "",
            index="" if held is None else f"pending {held:.0f}",
            subject=subject,
        )


class Settled:
    """The submissions that were decided a moment ago. Those that are not there do no harm."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._key = keys.settled(view.board)

    def walks(self) -> Sequence[Walk]:
        """Through the settled set."""
        return (self._from_index,)

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.members(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Submissions that are unknown or not decided, and those whose time has not come."""
        held = dict(zip(subjects, await self._view.inspection.scores(self._key, subjects), strict=True))
        known = await known_submissions(self._view, list(held))
        latest_ms = self._view.clock() + AHEAD_MS
        return [
            Difference(
                self._view.board,
                Kind.FORGED_SETTLED,
                player=known[subject].player if subject in known else "",
                submission=printable(subject),
                ledger=known[subject].state.value if subject in known else "",
                index=f"settled {at_ms:.0f}",
                subject=subject,
            )
            for subject, at_ms in held.items()
            if at_ms is not None and (at_ms > latest_ms or not _is_decided(known.get(subject)))
        ]

    async def repair(self, found: Sequence[Difference]) -> None:
        """Takes them off."""
        await self._view.inspection.remove(self._key, [each.subject for each in found])


async def known_submissions(view: BoardView, subjects: Sequence[bytes]) -> dict[bytes, SubmissionSummary]:
    """What the ledger has of these submissions, if they are the board's."""
    ids = [text for text in map(text_of, subjects) if text is not None]
    found = await view.ledger.read(index_pages.summaries_of(ids))
    return {each.encode(): known for each, known in found.items() if known.board == view.board}


def _is_decided(known: SubmissionSummary | None) -> bool:
    return known is not None and known.state is not State.PENDING
