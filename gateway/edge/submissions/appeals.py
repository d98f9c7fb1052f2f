"""Handles what players say of their submissions: answers to moderators' questions, and appeals."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeVar

from aiohttp import web

from gateway.edge.auth.tokens import Bearer
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import TEXT_BODY, read_body
from gateway.edge.http.request import parse_body, player_of, while_good
from gateway.edge.http.responses import json_response, replay_header
from gateway.edge.players.friends import charge_profile
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire.moderation_decisions import PlayerStatement, StatementKept
from gateway.ledger import queries
from gateway.ledger.ledger import Ledger
from gateway.ledger.reads import ReadKind
from gateway.ledger.records import StoredSubmission
from gateway.ledger.transaction import Operation
from gateway.settlement.case_history import (
    CaseEvent,
    CaseHistory,
    appeal_until_ms,
    newest_answer,
    newest_appeal,
    open_question,
)
from gateway.settlement.decision_records import Decision
from gateway.settlement.settle import settle
from policies.errors import StateConflict
from policies.loader import Board
from policies.vocabulary import Reason

T = TypeVar("T")

PLAYER: Final = "player"
"""The actor of what a player says. The event names the player."""

_SAID: Final = {Reason.QUESTION_ANSWERED: newest_answer, Reason.APPEALED: newest_appeal}
"""What a player said last of a kind, by the reason of its event."""


async def answer_question(request: web.Request) -> web.Response:
    """Answer a moderator's question about a held submission, once."""
    own = await _own_case(request)
    submission, history = own.submission, own.history
    text = await _statement(request, submission)
    question = open_question(history)
    if question is None:
        if _says(newest_answer(history), text):
            return _kept(submission, is_replay=True)
        raise Problem(ProblemType.STATE_CONFLICT, "nobody asks you anything about this submission")
    detail = {"text": text, "question": question["seq"]}
    return await _remark(own, Reason.QUESTION_ANSWERED, detail)


async def appeal(request: web.Request) -> web.Response:
    """Appeal against a decision, once."""
    own = await _own_case(request)
    edge, board, submission, history, _ = own
    text = await _statement(request, submission)
    if made := newest_appeal(history):
        if _says(made, text):
            return _kept(submission, is_replay=True)
        raise Problem(ProblemType.STATE_CONFLICT, "you have appealed against this decision before")
    until_ms = appeal_until_ms(history, board.policy.moderation.appeal_days)
    if until_ms is None or edge.clock() > until_ms:
        raise Problem(ProblemType.STATE_CONFLICT, "there is no decision that you can appeal against now")
    return await _remark(own, Reason.APPEALED, {"text": text})


class _OwnCase(NamedTuple):
    """A submission of a bearer, with its board and events."""

    edge: Edge
    board: Board
    submission: StoredSubmission
    history: CaseHistory
    bearer: Bearer


class _WritesOfBearer:
    """The ledger, as long as a bearer's token is not over, which an edge may not know yet."""

    def __init__(self, ledger: Ledger, bearer: Bearer) -> None:
        self._ledger = ledger
        self._bearer = bearer

    async def write(self, work: Operation[T]) -> T:
        """Return the result of `work` once it is durable. Raises `token-invalid`, and LedgerUnavailable."""
        return await self._ledger.write(while_good(self._bearer, work))


async def _own_case(request: web.Request) -> _OwnCase:
    """Return the bearer's submission. Raises `not-found`."""
    edge, bearer = request.app[EDGE], await player_of(request)
    query = queries.submission(request.match_info["submission"])
    submission = await edge.ledger.read(query, ReadKind.PLAYERS)
    board = await edge.catalogue.board(submission.board) if submission else None
    if submission is None or board is None or bearer.subject not in submission.players:
        raise Problem(ProblemType.NOT_FOUND, "you have no such submission")
    return _OwnCase(edge, board, submission, await _history(edge, submission), bearer)


async def _history(edge: Edge, submission: StoredSubmission) -> CaseHistory:
    return await edge.ledger.read(queries.history_of(submission.submission_id), ReadKind.PLAYERS)


def _says(made: CaseEvent | None, text: str) -> bool:
    """Return whether a player has said just this before."""
    return made is not None and made["detail"]["text"] == text


async def _statement(request: web.Request, submission: StoredSubmission) -> str:
    await charge_profile(request, submission.player)
    return parse_body(await read_body(request, TEXT_BODY), PlayerStatement).text


async def _remark(own: _OwnCase, reason: Reason, detail: dict[str, Any]) -> web.Response:
    edge, board, submission, history, bearer = own
    states = frozenset({submission.state})
    decision = Decision(
        submission.submission_id,
        submission.state,
        PLAYER,
        reason,
        edge.clock(),
        states,
        detail=detail,
        newest_event=history[-1]["seq"],
    )
    [settled] = await settle(_WritesOfBearer(edge.ledger, bearer), edge.index, board, [decision])
    if isinstance(settled, StateConflict):
        if _says(_SAID[reason](await _history(edge, submission)), detail["text"]):
            return _kept(submission, is_replay=True)
        raise Problem(ProblemType.STATE_CONFLICT, "it has just changed; read the submission again")
    return _kept(submission)


def _kept(submission: StoredSubmission, *, is_replay: bool = False) -> web.Response:
    kept = StatementKept(submission=submission.submission_id, state=submission.state.value)
    return json_response(kept, headers=replay_header(is_replay=is_replay))
