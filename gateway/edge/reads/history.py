"""Shows a board as it stood at an instant, to its moderators, one request at a time and with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.edge.auth.moderators import Ability
from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import moderator_of
from gateway.edge.http.responses import json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.wire import read_models
from gateway.ledger.index_pages import names_of
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.history import Counting, board_as_of, ranks_of
from gateway.ledger.standings.rollup_history import rollup_as_of
from gateway.runtime.clock import fault_of_rfc3339, parse_rfc3339, rfc3339
from policies.choices import RankKind
from policies.errors import HistoryTooLong
from policies.loader import Board
from policies.windows import Window, window_named

TIMEOUT_S: Final = 20.0
COUNTING_LIMIT: Final = 500_000
"""Submissions that may count at once; each takes some 400 bytes while the log is read."""

TOO_LONG_RETRY_S: Final = 3_600
"""The `Retry-After` when the log is too long: it gets no shorter, so nobody should ask again soon."""

SLOW_RETRY_S: Final = 30
"""The `Retry-After` when the ledger was too slow, which passes."""

_one_at_a_time: Final = asyncio.Lock()


def instant_of(edge: Edge, text: str) -> int:
    """Return an RFC 3339 instant in Unix milliseconds. Raises `schema-violation`, also for the future."""
    at_ms = parse_rfc3339(text)
    if at_ms is None or at_ms < 0:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"as_of: {fault_of_rfc3339(text)}")
    if at_ms > edge.clock():
        raise Problem(ProblemType.SCHEMA_VIOLATION, "as_of: is in the future")
    return at_ms


async def past_page(
    request: web.Request,
    board: Board,
    window_name: str,
    at_ms: int,
    kind: RankKind,
    *,
    offset: int,
    limit: int,
) -> web.Response:
    """Return a page of a window as it stood, for the board's moderators."""
    await moderator_of(request, Ability.READ, board.name)
    edge, window = request.app[EDGE], _window(board, window_name)
    standings = await _standings(edge, board, window, at_ms)
    page = standings[offset : offset + limit]
    ranks = await asyncio.to_thread(
        ranks_of, standings[: offset + limit], board.ranking, window, kind, begin=offset
    )
    names = await edge.ledger.read(names_of([standing.player for standing in page]), ReadKind.HEAVY)
    entries = [_entry_shown(rank, standing, names) for rank, standing in zip(ranks, page, strict=True)]
    return json_response(
        read_models.EntryPage(board=board.name, window=window.name, total=len(standings), entries=entries)
    )


def _entry_shown(rank: int, standing: Counting, names: Mapping[str, str]) -> read_models.EntryShown:
    return read_models.EntryShown(
        rank=rank,
        player=standing.player,
        name=names.get(standing.player, standing.player),
        score=standing.score,
        achieved_at=rfc3339(standing.achieved_at_ms),
        submission=standing.submission_id,
    )


def _window(board: Board, name: str) -> Window:
    try:
        return window_named(board.policy, name)
    except ValueError:
        raise Problem(ProblemType.NOT_FOUND, "no such window") from None


async def _standings(edge: Edge, board: Board, window: Window, at_ms: int) -> list[Counting]:
    if _one_at_a_time.locked():
        raise Problem(
            ProblemType.QUOTA_EXCEEDED,
            "another moderator is reading the past right now",
            headers={"Retry-After": "5"},
        )
    try:
        async with _one_at_a_time, asyncio.timeout(TIMEOUT_S):
            limits: Any = {"most": COUNTING_LIMIT, "kind": ReadKind.HEAVY}
            if rollup := board.policy.rollup:
                family = edge.catalogue.families[rollup.family]
                return await rollup_as_of(edge.ledger, board.ranking, family, window, at_ms, **limits)
            return await board_as_of(edge.ledger, board.policy, window, at_ms, **limits)
    except HistoryTooLong:
        raise _refusal("the log is too long to read here", TOO_LONG_RETRY_S) from None
    except TimeoutError:
        raise _refusal("the ledger does not answer in time", SLOW_RETRY_S) from None


def _refusal(why: str, retry_s: int) -> Problem:
    detail, headers = f"{why}; use `scoregate ledger as-of`", {"Retry-After": str(retry_s)}
    return Problem(ProblemType.REDUCED_CAPACITY, detail, headers=headers)
