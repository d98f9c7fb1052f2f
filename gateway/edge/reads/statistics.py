"""Shows derived data: a board's statistics and trends, and a player's achievements."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, TypeVar

from aiohttp import web

from gateway.derived.trends import Span, TrendKind, trend_of
from gateway.edge.context import EDGE
from gateway.edge.http.request import board_of, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.board_reader import note_away
from gateway.edge.wire import read_models
from gateway.index.windows.distinct_players import STANDARD_ERROR, DistinctPlayers
from gateway.ledger import index_pages
from gateway.ledger.derived.achievements import Achievement, achievements_of
from gateway.ledger.derived.counts import counts_of
from gateway.ledger.reads import ReadKind
from gateway.runtime.clock import rfc3339
from policies.errors import IndexUnavailable

PAGE_LIMIT: Final = 100

_PLAYER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FROM_THE_NEWEST: Final = (2**53, "")

Choice = TypeVar("Choice", bound=StrEnum)


async def show_statistics(request: web.Request) -> web.Response:
    """Return the counts of a board."""
    edge, board = request.app[EDGE], await board_of(request)
    counts = await edge.ledger.read(counts_of(board.name), ReadKind.PAGES)
    try:
        players = await DistinctPlayers(edge.index.client, board.name).count()
    except IndexUnavailable as error:
        note_away(error)
        players = None
    return json_response(
        read_models.BoardStatistics(
            board=board.name,
            attempts=counts.attempts,
            promoted=counts.promoted,
            players_ever=players,
            players_ever_standard_error=STANDARD_ERROR,
        )
    )


async def list_trending(request: web.Request) -> web.Response:
    """Return the players who lately played or improved most."""
    edge, board = request.app[EDGE], await board_of(request)
    kind, span = _choice(request, "kind", TrendKind.PLAYED), _choice(request, "span", Span.HOUR)
    count = whole_number(request, "limit", 10, 1, PAGE_LIMIT)
    trend = await trend_of(edge.ledger, board.name, kind, span, now_ms=edge.clock(), count=count)
    names = await edge.ledger.read(
        index_pages.names_of([leader.item for leader in trend.leaders]), ReadKind.PAGES
    )
    leaders = [
        read_models.TrendingPlayer(
            player=leader.item,
            name=names.get(leader.item, leader.item),
            at_least=leader.at_least,
            at_most=leader.at_most,
        )
        for leader in trend.leaders
    ]
    return json_response(
        read_models.Trending(
            board=board.name,
            kind=kind.value,
            span=span.value,
            since=rfc3339(trend.since_ms),
            total=trend.total,
            error=trend.error,
            players=leaders,
        )
    )


async def list_achievements(request: web.Request) -> web.Response:
    """Return a page of a player's achievements, newest first."""
    edge, player = request.app[EDGE], request.match_info["player"]
    if not _PLAYER.fullmatch(player):
        raise Problem(ProblemType.NOT_FOUND, "no player can have this id")
    listed = ("achievements", player)
    before, after = edge.cursors.place_in(request, listed, "after") or _FROM_THE_NEWEST
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    achievements = await edge.ledger.read(
        achievements_of(player, before=before, after=after, count=count + 1), ReadKind.PAGES
    )
    page = achievements[:count]
    last = page[-1] if len(achievements) > count else None
    following = edge.cursors.next_of(listed, last and (last.seq, last.window))
    return json_response(
        read_models.AchievementPage(
            player=player, achievements=[_shown(achievement) for achievement in page], next=following
        )
    )


def _shown(reached: Achievement) -> read_models.AchievementShown:
    return read_models.AchievementShown(
        board=reached.board,
        window=reached.window,
        rank=reached.rank,
        submission=reached.submission_id,
        at=rfc3339(reached.at_ms),
    )


def _choice(request: web.Request, name: str, default: Choice) -> Choice:
    choices = type(default)
    try:
        return choices(request.query.get(name, default.value))
    except ValueError:
        expected = " or ".join(choice.value for choice in choices)
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"{name}: expected {expected}") from None
