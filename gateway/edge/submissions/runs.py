"""Opens runs, with the tickets under which they are played."""

from __future__ import annotations

import base64
import secrets

from aiohttp import web

from gateway.edge.admission.rate_limits import quota_exceeded
from gateway.edge.auth.tickets import Ticket, new_run_id
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.body import SMALL_BODY, read_body
from gateway.edge.http.request import parse_body, player_of
from gateway.edge.http.responses import asset_url, json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.submissions.banned import refuse_banned
from gateway.edge.submissions.first_runs import board_to_play, is_unopened, open_first
from gateway.edge.wire import bodies, fields, outcomes
from gateway.index.limits.open_runs import RunOpening
from gateway.runtime.clock import rfc3339
from gateway.runtime.failpoints import Point, reach
from policies.choices import Writes
from policies.loader import Board
from policies.opened_board import BoardState
from policies.replaying import BuildStatus
from policies.seeds import SEED_BITS

_NO_SIMULATOR = bytes(32)


async def open_run(request: web.Request) -> web.Response:
    """Answer 201 with a ticket, seed and signing key for one run of the bearer."""
    edge, board, bearer = request.app[EDGE], await board_to_play(request), await player_of(request)
    body = parse_body(await read_body(request, SMALL_BODY), bodies.NewRun)
    refuse_banned(edge, bearer.subject, board.name)
    simulator = _simulator_for(edge, board, body.build)
    if is_unopened(board):  # last of all checks, so that no run that is refused opens a board
        board = await open_first(request, board, bearer.subject, body.name_signature)
        simulator = _simulator_for(edge, board, body.build)
    wait_ms = await edge.of(board).run_limit.wait_ms(bearer.subject)
    if wait_ms:
        raise quota_exceeded("player", board.policy.limits.player, wait_ms)
    ticket = _ticket(edge, board, bearer.subject, body.build, simulator)
    noted = await _note_open(edge, board, ticket)
    ticket = ticket._replace(runs_opened=noted.opened, runs_submitted=noted.submitted)
    reach(Point.AFTER_OPEN)
    text, key = edge.tickets.issue(ticket)
    return _secret(_opened(board, ticket, text, key))


def _secret(answer: fields.Answer) -> web.Response:
    return json_response(answer, status=201, headers={"Cache-Control": "no-store"})


def refuse_runs(board: Board) -> None:
    """Refuse runs on a board that takes none. Raises `scope-forbidden`."""
    if board.policy.writes is Writes.TRUSTED:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "only registered servers write to this board")
    if board.policy.writes is Writes.DERIVED:
        raise Problem(ProblemType.SCOPE_FORBIDDEN, "the board is a rollup: play on the boards of its family")


def _refuse_closed(board: Board, now_ms: int) -> None:
    """Refuse new runs on a family's board that is closed or not open yet. Raises `board-closed`."""
    opened = board.opened
    if opened is None or opened.takes_runs_at(now_ms):
        return
    if opened.state is BoardState.OPEN and opened.opens_at_ms is not None and now_ms < opened.opens_at_ms:
        raise Problem(ProblemType.BOARD_CLOSED, f"it opens at {rfc3339(opened.opens_at_ms)}")
    raise Problem(ProblemType.BOARD_CLOSED, "it is closed; runs that were opened before still count")


def _simulator_for(edge: Edge, board: Board, build: str) -> bytes:
    """Return the SHA-256 of the simulator of a new run.

    Raises `board-closed`, `scope-forbidden`, `build-unknown`, `build-blocked`.
    """
    _refuse_closed(board, edge.clock())
    simulator = _simulator_of(board, build)
    if edge.builds.status_of(board, build) is BuildStatus.BLOCKED:
        raise Problem(ProblemType.BUILD_BLOCKED, f"build {build} is blocked; update the game")
    return simulator


def _simulator_of(board: Board, build: str) -> bytes:
    """Return the SHA-256 of the build's simulator, or zeros on a board without replay.

    Raises `build-unknown`.
    """
    refuse_runs(board)
    if board.policy.builds and build not in board.policy.builds:
        raise Problem(ProblemType.BUILD_UNKNOWN, f"known builds: {', '.join(sorted(board.policy.builds))}")
    simulator = board.simulators.get(build)
    if simulator is None:
        return _NO_SIMULATOR
    return bytes.fromhex(simulator.digest.removeprefix("sha256:"))


def _ticket(edge: Edge, board: Board, player: str, build: str, simulator: bytes) -> Ticket:
    now_ms = edge.clock()
    return Ticket(
        run=new_run_id(now_ms),
        board=board.name,
        player=player,
        build=build,
        simulator=simulator,
        seed=secrets.randbits(SEED_BITS) if board.seed is None else board.seed,
        issued_at_ms=now_ms,
        expires_at_ms=now_ms + board.policy.run_lifetime_s * 1000,
        clock_error_ms=edge.clock_error_ms,
        board_content=board.content_digest,
    )


async def _note_open(edge: Edge, board: Board, ticket: Ticket) -> RunOpening:
    noted = await edge.of(board).open_runs.note(
        ticket.player, ticket.run, now_ms=ticket.issued_at_ms, expires_at_ms=ticket.expires_at_ms
    )
    if not noted.may_open:
        limit = board.policy.limits.open_runs
        raise Problem(
            ProblemType.QUOTA_EXCEEDED,
            f"{limit} runs are open: submit one, or wait until one expires",
            headers={"Retry-After": str(board.policy.run_lifetime_s)},
        )
    return noted


def _opened(board: Board, ticket: Ticket, text: str, key: bytes) -> outcomes.RunOpened:
    replay, opened = board.policy.replay, board.opened
    return outcomes.RunOpened(
        run=ticket.run,
        ticket=text,
        key=base64.b64encode(key).decode(),
        seed=str(ticket.seed),
        board=ticket.board,
        player=ticket.player,
        build=ticket.build,
        simulator=f"sha256:{ticket.simulator.hex()}",
        ticks_per_second=board.policy.ticks_per_second,
        checkpoint_ticks=replay.checkpoint_ticks if replay else 0,
        parameters=opened.parameters.decode() if opened and opened.parameters else None,
        asset=f"sha256:{opened.asset.hex()}" if opened and opened.asset else None,
        asset_url=asset_url(opened) if opened else None,
        issued_at=rfc3339(ticket.issued_at_ms),
        expires_at=rfc3339(ticket.expires_at_ms),
    )
