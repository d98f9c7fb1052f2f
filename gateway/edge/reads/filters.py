"""Boards as some players see them: among whom they follow, and of players by their ids."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import player_of
from gateway.edge.http.responses import entry_shown, json_response
from gateway.edge.players.friends import friends_of
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import archived, is_out_of_index, revision_field
from gateway.edge.wire import fields, read_models
from gateway.index.windows.subsets import SubsetPage, neighbours_in
from policies.loader import Board

PLAYERS_LIMIT: Final = 100
"""Most players that are looked up at once."""

_PLAYER: Final[TypeAdapter[str]] = TypeAdapter(fields.PlayerId)
_VALUE: Final[TypeAdapter[str]] = TypeAdapter(fields.SegmentValue)
_PRIVATE: Final = {"Cache-Control": "private, no-store"}


class Filter(Enum):
    """Of whom entries are asked for, where it is not all."""

    FRIENDS = auto()
    GROUP = auto()
    LISTED = auto()


def filter_of(request: web.Request) -> Filter | None:
    """The filter of the query, or None. Raises `schema-violation` for two of them."""
    given = [name for name in ("friends", "players", "segment", "as_of", "ranks") if name in request.query]
    if len(given) > 1 and given != ["as_of", "ranks"]:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"{' and '.join(given)} do not go together")
    if "players" in given:
        return Filter.LISTED
    if "segment" in given:
        return Filter.GROUP
    return Filter.FRIENDS if _is_true(request.query.get("friends")) else None


async def filtered_page(
    request: web.Request, board: Board, window: str, which: Filter, *, offset: int, limit: int
) -> web.Response:
    """The entries of a window that the filter leaves: friends by page, listed players all at once."""
    if which is Filter.LISTED:
        return await _listed_page(request, board, window)
    edge = request.app[EDGE]
    if which is Filter.GROUP:
        group = _group_of(request, board)
        _refuse_past_groups(edge, board, window)
        asked = edge.segments[board.name].page(window, *group, offset, limit)
        page = await edge.readers[board.name].indexed(asked)
        return json_response(_filtered(board, window, page))
    friends, headers = await friends_of(edge, player_of(request).subject), _PRIVATE
    if (past := await archived(edge, board, window)) is not None:
        found, revision = await past.subset([friends.player, *friends.friends])
        headers = _PRIVATE | revision_field(revision)
        page = SubsetPage(found.total, found.entries[offset : offset + limit])
    else:
        asked = edge.circles[board.name].page(window, friends, offset, limit)
        page = await edge.readers[board.name].indexed(asked)
    return json_response(_filtered(board, window, page), headers=headers)


async def filtered_around(
    request: web.Request, board: Board, window: str, which: Filter, radius: int
) -> web.Response:
    """A player with neighbours of those that the filter leaves: friends, or a group. The route takes no list."""
    around = _around_among_friends if which is Filter.FRIENDS else _around_in_group
    return await around(request, board, window, radius)


async def _around_among_friends(request: web.Request, board: Board, window: str, radius: int) -> web.Response:
    """The bearer, or a friend of theirs, with neighbours among them."""
    edge = request.app[EDGE]
    friends = await friends_of(edge, player_of(request).subject)
    player, past = request.match_info["player"], await archived(edge, board, window)
    headers = _PRIVATE
    if past is not None:
        found, revision = await past.subset([friends.player, *friends.friends])
        page, headers = neighbours_in(found, player, radius), _PRIVATE | revision_field(revision)
    else:
        asked = edge.circles[board.name].around(window, friends, player, radius)
        page = await edge.readers[board.name].indexed(asked)
    if page is None:
        raise Problem(ProblemType.NOT_FOUND, "no friend of yours stands there by this id", ranked=False)
    return json_response(_filtered(board, window, page), headers=headers)


async def _listed_page(request: web.Request, board: Board, window: str) -> web.Response:
    asked = _players_of(request.query["players"])
    edge = request.app[EDGE]
    headers: dict[str, str] = {}
    if (past := await archived(edge, board, window)) is not None:
        page, revision = await past.subset(asked)
        headers = revision_field(revision)
    else:
        page = await edge.readers[board.name].indexed(edge.player_lookups[board.name].entries(window, asked))
    standing = {each.entry.player for each in page.entries}
    return json_response(
        read_models.ListedPage(
            board=board.name,
            window=window,
            total=page.total,
            entries=_entries(page),
            unranked=[player for player in asked if player not in standing],
        ),
        headers=headers,
    )


async def _around_in_group(request: web.Request, board: Board, window: str, radius: int) -> web.Response:
    """A player with neighbours of a group that the player is in."""
    group, player = _group_of(request, board), request.match_info["player"]
    _refuse_past_groups(request.app[EDGE], board, window)
    edge = request.app[EDGE]
    asked = edge.segments[board.name].around(window, *group, player, radius)
    page = await edge.readers[board.name].indexed(asked)
    if page is None:
        raise Problem(ProblemType.NOT_FOUND, "the player has no entry in this group", ranked=False)
    return json_response(_filtered(board, window, page))


def _refuse_past_groups(edge: Edge, board: Board, window: str) -> None:
    """Raises `schema-violation` for a window that the index has forgotten: the archive does not keep who was in a group."""
    if is_out_of_index(edge, board, window):
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"segment: {window} is archived, and not by group")


def _group_of(request: web.Request, board: Board) -> tuple[str, str]:
    """Segment and value of the group that the query asks for. Raises `schema-violation`."""
    declared = board.policy.segments
    if not declared:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "segment: the board has none")
    segment, _, value = request.query["segment"].partition(":")
    try:
        _VALUE.validate_python(value)
    except ValidationError:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "segment: expected a group, as country:de") from None
    if segment not in declared:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"segment: the board has {', '.join(declared)}")
    return segment, value


def _players_of(text: str) -> list[str]:
    """Each player of the list once, in the order of the list."""
    found = list(dict.fromkeys(text.split(",")))
    try:
        players = [_PLAYER.validate_python(each) for each in found]
    except ValidationError:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, "players: expected player ids with commas between them"
        ) from None
    if len(players) > PLAYERS_LIMIT:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"players: expected at most {PLAYERS_LIMIT}")
    return players


def _filtered(board: Board, window: str, page: SubsetPage) -> read_models.FilteredPage:
    return read_models.FilteredPage(board=board.name, window=window, total=page.total, entries=_entries(page))


def _entries(page: SubsetPage) -> list[read_models.FilteredEntry]:
    return [
        read_models.FilteredEntry(**entry_shown(each.entry).model_dump(), global_rank=each.global_rank)
        for each in page.entries
    ]


def _is_true(text: str | None) -> bool:
    if text is None or text in ("true", "false"):
        return text == "true"
    raise Problem(ProblemType.SCHEMA_VIOLATION, "friends: expected true or false")
