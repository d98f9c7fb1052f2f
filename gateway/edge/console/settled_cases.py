"""What was decided a moment ago, with the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.edge.console.wording import number
from gateway.edge.context import EDGE
from gateway.edge.http.preconditions import etag
from gateway.edge.http.request import moderator_credential
from gateway.edge.moderation.check_answers import check_shown, read_given
from gateway.edge.wire.moderation_decisions import AnsweredCheckShown
from gateway.ledger import queries
from gateway.ledger.index_pages import names_of
from gateway.ledger.moderation.cases import waiting_case
from gateway.ledger.reads import ReadKind
from gateway.settlement.known_answers import as_checked
from policies.vocabulary import Reason

_MODERATOR = "moderator:"

_REMARKS: Final = {
    Reason.APPROVED_ONCE: "Your approval is noted. It counts once a senior has approved it too.",
    Reason.QUESTION_ASKED: "The player is asked. The case comes back with the answer, or when time is up.",
}


@dataclass(frozen=True, slots=True)
class SettledCase:
    """A case that this moderator decided last; without an ETag, somebody has been there since.

    If it was a check, `check` has what was known. `remark` says what a decision that changed no state did.
    """

    submission: str
    name: str
    score: str
    state: str
    etag: str
    check: AnsweredCheckShown | None
    remark: str


async def settled_case(request: web.Request) -> SettledCase | None:
    """Return the case that the query says was decided, if it is one of the moderator's boards."""
    submission_id = request.query.get("settled", "")
    if not submission_id:
        return None
    edge, moderator = request.app[EDGE], (await moderator_credential(request)).moderator
    submission = await edge.ledger.read(queries.submission(submission_id), ReadKind.MODERATION)
    if submission is None or not moderator.reaches(submission.board):
        return None
    board = await edge.catalogue.board(submission.board)
    if board is None:
        return None
    names = await edge.ledger.read(names_of([submission.player]), ReadKind.MODERATION)
    waiting = await edge.ledger.read(waiting_case(submission_id), ReadKind.MODERATION)
    if waiting is not None and waiting.hides_from(moderator.name):
        submission = as_checked(submission, waiting)
    newest = (await edge.ledger.read(queries.history_of(submission_id), ReadKind.MODERATION))[-1]
    is_own = newest["actor"] == _MODERATOR + moderator.name
    is_undoable = is_own and newest["from"] != newest["to"]
    given = None if is_undoable else await read_given(edge, submission, moderator)
    return SettledCase(
        submission_id,
        names.get(submission.player) or submission.player,
        number(submission.claim.score, board.policy.decimals),
        submission.state.value,
        etag(newest["seq"]) if is_undoable else "",
        await check_shown(edge, given) if given else None,
        _REMARKS.get(newest["reason"], "") if is_own else "",
    )
