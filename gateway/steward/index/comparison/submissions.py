"""The pending and the settled set: submissions that wait, and submissions that were just decided."""

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
        """Return the walks through the ledger's pending submissions, and through the pending set."""
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
        """Return the submissions that are missing from the set, already decided, or unknown."""
        actual = dict(zip(subjects, await self._view.inspection.scores(self._key, subjects), strict=True))
        summaries = await known_submissions(self._view, list(actual))
        compared = [self._difference(subject, actual[subject], summaries.get(subject)) for subject in actual]
        return [difference for difference in compared if difference]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Remove wrong submissions from the set and add missing ones."""
        subjects = [difference.subject for difference in differences]
        await self._view.inspection.remove(self._key, subjects)
        summaries = await known_submissions(self._view, subjects)
        waiting = {
            subject: summary for subject, summary in summaries.items() if summary.state is State.PENDING
        }
        if waiting:
            # Pending skips what the settled set names, so a forged entry there would keep a submission out.
            await self._view.inspection.remove(keys.settled(self._view.board), list(waiting))
            await self._view.index.close_runs(
                [
                    CommittedRun(subject.decode(), summary.player, summary.received_at_ms)
                    for subject, summary in waiting.items()
                ]
            )

    def _difference(
        self, subject: bytes, actual: float | None, summary: SubmissionSummary | None
    ) -> Difference | None:
        is_pending = summary is not None and summary.state is State.PENDING
        is_right = actual == summary.received_at_ms if summary and is_pending else actual is None
        if is_right:
            return None
        kind = Kind.FORGED_PENDING
        if actual is None:
            kind = Kind.MISSING_PENDING
        elif summary is not None and not is_pending:
            kind = Kind.STALE_PENDING
        return Difference(
            self._view.board,
            kind,
            player=summary.player if summary else "",
            submission=printable(subject),
            ledger=f"{summary.state.value} {summary.received_at_ms}" if summary else "",
            index="" if actual is None else f"pending {actual:.0f}",
            subject=subject,
        )


class Settled:
    """The submissions that were decided a moment ago. A missing one does no harm."""

    def __init__(self, view: BoardView) -> None:
        self._view = view
        self._key = keys.settled(view.board)

    def walks(self) -> Sequence[Walk]:
        """Return the walk through the settled set."""
        return (self._from_index,)

    def _from_index(self, count: int) -> Subjects:
        return self._view.inspection.members(self._key, count)

    async def compare(self, subjects: Sequence[bytes]) -> list[Difference]:
        """Return the submissions that are unknown, undecided, or settled in the future."""
        actual = dict(zip(subjects, await self._view.inspection.scores(self._key, subjects), strict=True))
        summaries = await known_submissions(self._view, list(actual))
        latest_ms = self._view.clock() + AHEAD_MS
        return [
            Difference(
                self._view.board,
                Kind.FORGED_SETTLED,
                player=summaries[subject].player if subject in summaries else "",
                submission=printable(subject),
                ledger=summaries[subject].state.value if subject in summaries else "",
                index=f"settled {at_ms:.0f}",
                subject=subject,
            )
            for subject, at_ms in actual.items()
            if at_ms is not None and (at_ms > latest_ms or not _is_decided(summaries.get(subject)))
        ]

    async def repair(self, differences: Sequence[Difference]) -> None:
        """Remove the submissions from the set."""
        await self._view.inspection.remove(self._key, [difference.subject for difference in differences])


async def known_submissions(view: BoardView, subjects: Sequence[bytes]) -> dict[bytes, SubmissionSummary]:
    """Return the ledger's summaries of those of these submissions that are on the board."""
    ids = [text for text in map(text_of, subjects) if text is not None]
    summaries = await view.ledger.read(index_pages.summaries_of(ids))
    return {
        submission_id.encode(): summary
        for submission_id, summary in summaries.items()
        if summary.board == view.board
    }


def _is_decided(summary: SubmissionSummary | None) -> bool:
    return summary is not None and summary.state is not State.PENDING
