"""The short way of usual submissions: those of a moment are verified, judged and stored as one group.

A request in the usual form is taken before aiohttp parses it. As soon as anything about it is not usual, it
goes on in aiohttp's way, which has every answer: then nothing has been done, or what has been done goes along
as `Begun`. So only one answer is written here: the 202 of a submission that is new and not rejected. A group
costs one task, one wait for Redis and one for the ledger.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.edge.admission.rate_limits import rate_limit_headers
from gateway.edge.admission.shedding import Visit
from gateway.edge.admission.turnstile import Handfuls
from gateway.edge.auth import signatures
from gateway.edge.auth.signed_request import SignedRequest, authority_of
from gateway.edge.context import Edge
from gateway.edge.http.body import is_json
from gateway.edge.http.request import parse_body
from gateway.edge.http.responses import JSON, count_receipt
from gateway.edge.problems import COMMON_HEADERS, Problem
from gateway.edge.submissions import submit
from gateway.edge.submissions.signed_runs import RunHead, SignedRun, is_signed_by_run, valid_ticket
from gateway.edge.submissions.submit import Begun
from gateway.edge.submissions.submitted_recording import body_limit
from gateway.edge.submissions.usual_requests import (
    UsualRequest,
    UsualScore,
    read_usual_request,
    read_usual_score,
)
from gateway.edge.wire import bodies
from gateway.index.limits.admission import Admission, AdmissionRequest, AdmissionResult
from gateway.ledger.records import NewSubmission, Receipt
from gateway.runtime.failpoints import Point, reach
from gateway.runtime.telemetry import request_seconds
from policies.loader import Board
from policies.vocabulary import Reason, State

if TYPE_CHECKING:
    from gateway.edge.connections import Connection

ROUTE: Final = "/v1/boards/{board}/scores"

_USUAL_STATES: Final = frozenset({State.PENDING, State.HELD})


@dataclass(slots=True, eq=False)
class UsualSubmission:
    """A submission that is authenticated and read, with its connection and its visit of the edge.

    `lines` are those that its answer has for the page that sent it. It is open until it is answered or given
    back.
    """

    connection: Connection
    data: bytes
    visit: Visit
    board: Board
    run: SignedRun
    claim: UsualScore | bodies.NewScore
    admission: AdmissionRequest
    lines: str
    is_open: bool = True


class Judged(NamedTuple):
    """A submission on its way into the ledger."""

    usual: UsualSubmission
    admitted: AdmissionResult
    new: NewSubmission


class UsualSubmissions:
    """The submissions that wait for the next turn of the event loop, and the groups that are under way.

    Each turn begins a handful: Redis and the disk work on the first while others are checked.
    """

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._hosts = edge.settings.allowed_hosts
        self._waiting = Handfuls(self._begin)
        self._groups: set[asyncio.Task[None]] = set()

    def take(self, connection: Connection, data: bytes) -> None:
        """Take the bytes of a whole write that was admitted unparsed, until they are answered or given back.

        The connection gets `answer` or `go_on`, unless it is lost before its turn.
        """
        self._waiting.put((connection, data))

    def _begin(self, handful: Sequence[tuple[Connection, bytes]]) -> None:
        groups: dict[str, list[UsualSubmission]] = defaultdict(list)
        for connection, data in handful:
            usual = self._read(connection, data)
            if usual is not None:
                groups[usual.board.name].append(usual)
            elif connection.transport is not None:
                connection.go_on(data)
        loop = asyncio.get_running_loop()
        for group in groups.values():
            task = loop.create_task(self._submit(group[0].board, group))
            self._groups.add(task)
            task.add_done_callback(self._groups.discard)

    def _read(self, connection: Connection, data: bytes) -> UsualSubmission | None:
        """Return the submission, None if it is not usual, be it in its form or in what is to be answered."""
        try:
            return self._authenticated(connection, data)
        except (Problem, ValueError):
            return None  # the plain way finds the same, and answers it

    def _authenticated(self, connection: Connection, data: bytes) -> UsualSubmission | None:
        request = read_usual_request(data)
        if request is None or request.fields["host"].lower() not in self._hosts:
            return None
        board = self._edge.catalogue.at_hand(request.board)
        if board is None or not is_json(request.fields["content-type"]):
            return None
        if len(request.body) > body_limit(board):
            return None
        run = self._run(request, board)
        if run is None:
            return None
        claim = read_usual_score(request.body) or parse_body(request.body, bodies.NewScore)
        if claim.recording_digest is not None:
            return None
        return self._entered(connection, data, request, board, run, claim)

    def _run(self, request: UsualRequest, board: Board) -> SignedRun | None:
        """Return the authenticated run, None for a signature that no run made. Raises Problem, ValueError."""
        fields = request.fields
        parsed = signatures.parse(fields["signature-input"], fields["signature"])
        base = signatures.signature_base(
            parsed,
            method="POST",
            authority=authority_of(fields["host"], "http"),
            path=request.path,
            query="?",
            content_type=fields["content-type"],
            content_digest=fields["content-digest"],
        )
        signed = SignedRequest(parsed, base, fields["content-digest"])
        if not is_signed_by_run(self._edge, signed):
            return None
        return RunHead(valid_ticket(self._edge, signed, board), signed).with_body(request.body)

    def _entered(
        self,
        connection: Connection,
        data: bytes,
        request: UsualRequest,
        board: Board,
        run: SignedRun,
        claim: UsualScore | bodies.NewScore,
    ) -> UsualSubmission:
        """Return the submission, which counts as under way from here on."""
        edge, fields, ticket = self._edge, request.fields, run.ticket
        forwarded = fields.get("x-forwarded-for")
        names = edge.addresses.names(connection.peer, () if forwarded is None else (forwarded,))
        origin = edge.origins.fields_of(request.path, fields.get("origin", ""))
        lines = "".join(f"{name}: {value}\r\n" for name, value in origin.items())
        admission = submit.admission_request_of(ticket, names, len(request.body))
        visit = Visit(edge.entrance, connection.take_wait_s() or 0.0)
        visit.begin()
        return UsualSubmission(connection, data, visit, board, run, claim, admission, lines)

    async def _submit(self, board: Board, group: Sequence[UsualSubmission]) -> None:
        """Take submissions of one board to their answers."""
        began_s = time.perf_counter()
        try:
            judged = await self._judged(board, group)
            outcomes = await self._edge.ledger.append_all(
                [(each.new, each.usual.visit.until_s) for each in judged]
            )
            stored = [
                (each.new, outcome)
                for each, outcome in zip(judged, outcomes, strict=True)
                if isinstance(outcome, Receipt) and outcome.is_new
            ]
            if stored:
                submit.close_runs(self._edge, board, stored)
            answers = _Answers(board)
            for each, outcome in zip(judged, outcomes, strict=True):
                self._end(each, outcome, answers)
                _seconds.observe(time.perf_counter() - began_s)
        except Exception as error:  # noqa: BLE001 - given to the middleware, which reports every bug
            for usual in group:
                _give_back(usual, Begun(error=error))

    async def _judged(self, board: Board, group: Sequence[UsualSubmission]) -> Sequence[Judged]:
        """Return the submissions that are to be stored. The others are given back, with their admission."""
        for _ in group:
            reach(Point.BEFORE_ADMIT)
        results = await self._edge.of(board).submission_limits.admit_all([usual.admission for usual in group])
        judged = []
        for usual, admitted in zip(group, results, strict=True):
            try:
                new = self._new(usual, admitted)
            except Exception:  # noqa: BLE001 - the plain way finds the same, and refuses or reports it
                new = None
            if new is None:
                _give_back(usual, Begun(admitted))
            else:
                judged.append(Judged(usual, admitted, new))
        return judged

    def _new(self, usual: UsualSubmission, admitted: AdmissionResult) -> NewSubmission | None:
        """Return the judged submission, None if it is to be rejected, or stored in another way.

        Raises Problem if it is to be refused.
        """
        edge, ticket = self._edge, usual.run.ticket
        if admitted.admission is not Admission.ADMITTED or admitted.history is None:
            return None
        if edge.banned.open_ban(ticket.player, ticket.board, now_ms=edge.clock()) is not None:
            return None
        claimed = submit.claimed_run(usual.board, usual.claim)
        if claimed.recording_bytes > min(edge.recordings.inline_bytes, edge.settings.disk_small_bytes):
            return None
        new = submit.judged(edge, usual.board, usual.run, claimed, submit.known_history(admitted))
        if new.judgement.state not in _USUAL_STATES or _has_failures(new):
            return None
        return submit.from_address(edge, new, usual.admission.address)

    def _end(self, judged: Judged, outcome: Receipt | BaseException, answers: _Answers) -> None:
        """Answer a stored submission; give back one that is not, or that was stored before."""
        usual, admitted, _ = judged
        if isinstance(outcome, BaseException):
            _give_back(usual, Begun(admitted, error=outcome))
        elif not outcome.is_new:
            _give_back(usual, Begun(admitted, receipt=outcome))
        else:
            reach(Point.BEFORE_ANSWER)
            count_receipt(outcome, outcome.state)
            usual.is_open = False
            usual.visit.leave()
            is_last = self._edge.shutdown.has_begun
            usual.connection.answer(
                answers.accepted(outcome, admitted.left, usual.lines, is_last=is_last), is_last=is_last
            )


class _Answers:
    """The answers to new submissions of one board."""

    def __init__(self, board: Board) -> None:
        headers = {**JSON, **rate_limit_headers(board.policy.limits.player, 0), **COMMON_HEADERS}
        headers |= {"Cache-Control": "no-store", "Date": formatdate(usegmt=True)}
        del headers["RateLimit"]  # it differs between players
        self._head = "HTTP/1.1 202 Accepted\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in headers.items()
        )

    def accepted(self, receipt: Receipt, left: int, lines: str, *, is_last: bool) -> bytes:
        """Return what `responses.score_accepted` says of a new submission, as bytes."""
        # None of these texts needs an escape: they are ids, names of boards and states.
        body = (
            f'{{"submission":"{receipt.submission_id}","board":"{receipt.board}","player":"{receipt.player}"'
            f',"score":{receipt.score},"state":"{receipt.state}"}}'
        )
        if is_last:
            lines += "Connection: close\r\n"
        limit = f'RateLimit: "player";r={left}\r\n'
        return f"{self._head}{limit}{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii")


def _has_failures(new: NewSubmission) -> bool:
    return any(finding.reason is Reason.PLUGIN_FAILED for finding in new.judgement.findings)


def _give_back(usual: UsualSubmission, begun: Begun) -> None:
    """Let a submission that is still open go on in aiohttp's way, with what was done for it."""
    if not usual.is_open:
        return
    usual.is_open = False
    if usual.connection.transport is None:
        usual.visit.leave()
    else:
        usual.connection.go_on(usual.data, begun, usual.visit.hand_over())


_seconds: Final = request_seconds(ROUTE, 2)
