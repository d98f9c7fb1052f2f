"""Shows the entries of some players: friends, a group, or a list of ids."""

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
from gateway.edge.reads.archive import is_out_of_index, revision_field
from gateway.edge.reads.group_reader import group_reader_for
from gateway.edge.reads.own_archive import archive_for
from gateway.edge.reads.own_reader import OwnReader
from gateway.edge.reads.own_view import reader_for
from gateway.edge.wire import fields, read_models
from gateway.index.windows.subsets import SubsetPage, neighbours_in
from gateway.shared_records import FriendList
from policies.loader import Board

PLAYERS_LIMIT: Final = 100
"""Most players in one list."""

_PLAYER: Final[TypeAdapter[str]] = TypeAdapter(fields.PlayerId)
_VALUE: Final[TypeAdapter[str]] = TypeAdapter(fields.SegmentValue)
_NOBODY: Final = SubsetPage(0, ())
_PRIVATE: Final = {"Cache-Control": "private, no-store"}


class Filter(Enum):
    """The players whose entries the query asks for."""

    FRIENDS = auto()
    GROUP = auto()
    LISTED = auto()


def filter_of(request: web.Request) -> Filter | None:
    """Return the filter of the query, or None. Raises `schema-violation` for two filters."""
    given = [name for name in ("friends", "players", "segment", "as_of", "ranks") if name in request.query]
    if len(given) > 1 and given != ["as_of", "ranks"]:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"{' and '.join(given)} cannot be combined")
    if "players" in given:
        return Filter.LISTED
    if "segment" in given:
        return Filter.GROUP
    return Filter.FRIENDS if _is_true(request.query.get("friends")) else None


async def filtered_page(
    request: web.Request, board: Board, window: str, entry_filter: Filter, *, offset: int, limit: int
) -> web.Response:
    """Return a page of the filtered entries of a window; a list of players comes all at once."""
    if entry_filter is Filter.LISTED:
        return await _listed_page(request, board, window)
    edge = request.app[EDGE]
    if entry_filter is Filter.GROUP:
        group = _group_of(request, board)
        _refuse_past_groups(edge, board, window)
        reader = await group_reader_for(request, board, window, *group)
        page = await edge.of(board).reader.indexed(reader.page(offset, limit), if_unplayed=_NOBODY)
        return json_response(_filtered(board, window, page))
    friends, headers = await friends_of(edge, (await player_of(request)).subject), _PRIVATE
    if (archive := await archive_for(request, board, window)) is not None:
        everybody, revision = await archive.subset([friends.player, *friends.friends])
        headers = _PRIVATE | revision_field(revision)
        page = SubsetPage(everybody.total, everybody.entries[offset : offset + limit])
    elif (circle := await _own_circle(request, board, window, friends)) is not None:
        page = SubsetPage(circle.total, circle.entries[offset : offset + limit])
    else:
        read = edge.of(board).circles.page(window, friends, offset, limit)
        page = await edge.of(board).reader.indexed(read, if_unplayed=_NOBODY)
    return json_response(_filtered(board, window, page), headers=headers)


async def filtered_around(
    request: web.Request, board: Board, window: str, entry_filter: Filter, radius: int
) -> web.Response:
    """Return a player with neighbours among friends, or in a group. The route takes no list."""
    around = _around_among_friends if entry_filter is Filter.FRIENDS else _around_in_group
    return await around(request, board, window, radius)


async def _around_among_friends(request: web.Request, board: Board, window: str, radius: int) -> web.Response:
    """Return the bearer or a friend, with neighbours among the bearer and friends."""
    edge = request.app[EDGE]
    friends = await friends_of(edge, (await player_of(request)).subject)
    player, archive = request.match_info["player"], await archive_for(request, board, window)
    headers = _PRIVATE
    if archive is not None:
        everybody, revision = await archive.subset([friends.player, *friends.friends])
        page, headers = neighbours_in(everybody, player, radius), _PRIVATE | revision_field(revision)
    elif (circle := await _own_circle(request, board, window, friends)) is not None:
        page = neighbours_in(circle, player, radius)
    else:
        read = edge.of(board).circles.around(window, friends, player, radius)
        page = await edge.of(board).reader.indexed(read, if_unplayed=None)
    if page is None:
        raise Problem(
            ProblemType.NOT_FOUND,
            "neither you nor a friend of yours has an entry there under this id",
            ranked=False,
        )
    return json_response(_filtered(board, window, page), headers=headers)


async def _own_circle(
    request: web.Request, board: Board, window: str, friends: FriendList
) -> SubsetPage | None:
    """Return all that a shadow-banned player sees of themselves and their friends; None for others."""
    reader = await reader_for(request, board, window)
    if not isinstance(reader, OwnReader):
        return None
    parts = request.app[EDGE].of(board)
    read = parts.circles.page(window, friends, 0, 1 + len(friends.friends))
    circle = await parts.reader.indexed(read, if_unplayed=_NOBODY)
    return await reader.in_subset(window, circle, is_in=True)


async def _listed_page(request: web.Request, board: Board, window: str) -> web.Response:
    players = _players_of(request.query["players"])
    edge = request.app[EDGE]
    headers: dict[str, str] = {}
    if (archive := await archive_for(request, board, window)) is not None:
        page, revision = await archive.subset(players)
        headers = revision_field(revision)
    else:
        read = edge.of(board).player_lookup.entries(window, players)
        page = await edge.of(board).reader.indexed(read, if_unplayed=_NOBODY)
        reader = await reader_for(request, board, window)
        if isinstance(reader, OwnReader):
            page = await reader.in_subset(window, page, is_in=reader.own.player in players)
    ranked = {entry.entry.player for entry in page.entries}
    return json_response(
        read_models.ListedPage(
            board=board.name,
            window=window,
            total=page.total,
            entries=_entries(page),
            unranked=[player for player in players if player not in ranked],
        ),
        headers=headers,
    )


async def _around_in_group(request: web.Request, board: Board, window: str, radius: int) -> web.Response:
    """Return a player with neighbours in a group of the player."""
    group, player = _group_of(request, board), request.match_info["player"]
    _refuse_past_groups(request.app[EDGE], board, window)
    edge = request.app[EDGE]
    reader = await group_reader_for(request, board, window, *group)
    page = await edge.of(board).reader.indexed(reader.around(player, radius), if_unplayed=None)
    if page is None:
        raise Problem(ProblemType.NOT_FOUND, "the player has no entry in this group", ranked=False)
    return json_response(_filtered(board, window, page))


def _refuse_past_groups(edge: Edge, board: Board, window: str) -> None:
    """Raise `schema-violation` for a window that the index has forgotten."""
    # The archive does not keep who was in a group.
    if is_out_of_index(edge, board, window):
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, f"segment: {window} is archived, and archives have no groups"
        )


def _group_of(request: web.Request, board: Board) -> tuple[str, str]:
    """Return segment and value of the queried group. Raises `schema-violation`."""
    declared = board.policy.segments
    if not declared:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "segment: the board has no segments")
    segment, _, value = request.query["segment"].partition(":")
    try:
        _VALUE.validate_python(value)
    except ValidationError:
        raise Problem(ProblemType.SCHEMA_VIOLATION, "segment: expected a group, such as country:de") from None
    if segment not in declared:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"segment: the board has {', '.join(declared)}")
    return segment, value


def _players_of(text: str) -> list[str]:
    """Return each player of the list once, in its order. Raises `schema-violation`."""
    texts = list(dict.fromkeys(text.split(",")))
    try:
        players = [_PLAYER.validate_python(text) for text in texts]
    except ValidationError:
        raise Problem(
            ProblemType.SCHEMA_VIOLATION, "players: expected player ids, separated by commas"
        ) from None
    if len(players) > PLAYERS_LIMIT:
        raise Problem(ProblemType.SCHEMA_VIOLATION, f"players: expected at most {PLAYERS_LIMIT}")
    return players


def _filtered(board: Board, window: str, page: SubsetPage) -> read_models.FilteredPage:
    return read_models.FilteredPage(board=board.name, window=window, total=page.total, entries=_entries(page))


def _entries(page: SubsetPage) -> list[read_models.FilteredEntry]:
    return [
        read_models.FilteredEntry(**entry_shown(entry.entry).model_dump(), global_rank=entry.global_rank)
        for entry in page.entries
    ]


def _is_true(text: str | None) -> bool:
    if text is None or text in ("true", "false"):
        return text == "true"
    raise Problem(ProblemType.SCHEMA_VIOLATION, "friends: expected true or false")
