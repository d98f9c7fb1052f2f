"""Statistics and details of promoted submissions, which never change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import select

from gateway.ledger.index_pages import fetch_listed, is_listed
from gateway.ledger.schema import submissions
from gateway.ledger.submission_rows import detail_from, stats_from
from gateway.ledger.transaction import Operation, Query, Transaction
from policies.vocabulary import Reason, State

_s = submissions.c

_LISTED: Final = Query(
    select(_s.board, _s.state, _s.reason, _s.submission_id, _s.player, _s.stats, _s.details).where(
        is_listed(_s.submission_id)
    )
)
"""Board and state are compared in Python: a planner that could choose would take the index of a whole board.
"""


class SubmissionDetails(NamedTuple):
    """The statistics and details of a submission.

    `integers` and `content` are its details, empty for none.
    """

    submission_id: str
    player: str
    stats: Mapping[str, int]
    integers: Sequence[int]
    content: Mapping[str, Any]


def details_of(
    board: str, submission_ids: Sequence[str], *, own: str | None = None
) -> Operation[list[SubmissionDetails]]:
    """Return the details of those of these submissions that count on the board.

    Those of one player, `own`, are returned also if only a ban revokes them.
    """

    async def work(tx: Transaction) -> list[SubmissionDetails]:
        banned = (own, State.REVOKED, Reason.BANNED)
        rows = await fetch_listed(tx, _LISTED, list(dict.fromkeys(submission_ids)))
        return [
            _details(submission_id, player, *rest)
            for of_board, state, reason, submission_id, player, *rest in rows
            if of_board == board and (state == State.PROMOTED or (player, state, reason) == banned)
        ]

    return work


def _details(submission_id: str, player: str, stats: str, stored: str | None) -> SubmissionDetails:
    details = detail_from(stored) if stored else {}
    integers, content = details.get("integers", ()), details.get("object", {})
    return SubmissionDetails(submission_id, player, stats_from(stats), integers, content)
