"""Shows one player across boards: where the player stands in a family, and the entries on named boards.

The ledger says on which boards the player stands. The rank is from the index, unless the index lacks the
board, is known to be behind, or has another submission of the player: then the ledger counts it. So both give
the same answer. An archived window is read from the archive, as in the board's own reads. These reads do not
count as a use of a board, and bring none back into Redis: one page names up to a hundred boards, of which
nobody may look at any.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiohttp import web

from gateway.edge.context import EDGE, Edge
from gateway.edge.http.request import family_of, whole_number
from gateway.edge.http.responses import json_response
from gateway.edge.problems import Problem, ProblemType
from gateway.edge.reads.archive import Archive, may_be_archived
from gateway.edge.reads.board_reader import SOURCE, log_fault, note_away
from gateway.edge.reads.entries import WINDOW_NAME
from gateway.edge.reads.own_archive import OwnArchive, archive_for
from gateway.edge.reads.own_reader import OwnReader
from gateway.edge.reads.own_view import (
    own_boards,
    own_standings,
    player_to_overlay,
    reader_for,
    shadow_banned,
)
from gateway.edge.reads.page_cache import revalidated
from gateway.edge.reads.rule_gate import refuse_outdated
from gateway.edge.wire import board_answers
from gateway.index.across_boards import StandingsReader
from gateway.index.board_index import Page
from gateway.ledger.archive.reading import archived_entries_of
from gateway.ledger.reads import ReadKind
from gateway.ledger.standings.across_boards import (
    ENTRIES_LIMIT,
    PlayerStanding,
    ranks_in_small_windows,
    ranks_of,
    standings_in_family,
    standings_on,
)
from gateway.runtime.clock import rfc3339
from gateway.runtime.concurrency import in_turns
from gateway.runtime.telemetry import LEDGER_PAGES, label_of
from gateway.shared_records import RankedStanding, RankRequest
from policies.choices import RankKind, WindowKind
from policies.errors import IndexNotWhole, IndexUnavailable
from policies.loader import Board, Family
from policies.model import Policy
from policies.opened_board import BOARD_NAME_LENGTH
from policies.windows import FOREVER_MS, calendar_of, window_at, window_named

PAGE_LIMIT: Final = 100
BOARDS_LIMIT: Final = 100
"""Most boards in one list."""

INDEXED_AT_ONCE: Final = 16
"""Boards in shards whose index is asked at once."""

_PLAYER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{BOARD_NAME_LENGTH}}}")


class _Place(NamedTuple):
    """A window of a board, and how its entries are ranked."""

    board: Board
    window: str
    kind: RankKind

    @property
    def request(self) -> RankRequest:
        """The same for the index and the ledger, which know no boards."""
        return RankRequest(self.board.ranking, self.window, self.kind)


async def list_family_standings(request: web.Request) -> web.Response:
    """Return a page of the boards of a family on which a player stands, with the player's ranks."""
    edge, family, player = request.app[EDGE], family_of(request), _player_of(request)
    listed = ("standings", family.name, player)
    window, after = _begin_of(request, family, edge.cursors.place_in(request, listed))
    kind = _rank_kind(family.template, request)
    count = whole_number(request, "limit", 25, 1, PAGE_LIMIT)
    await refuse_outdated(edge.outdated, family.name)
    work = standings_in_family(family.name, window, player, after=after, count=count)
    page = await edge.ledger.read(work, ReadKind.PAGES)
    page = await own_boards(request, player, family.name, page, after=after, count=count)
    boards = await edge.catalogue.boards(standing.board for standing in page.standings)
    places = {name: _Place(board, window, kind) for name, board in boards.items()}
    standings = {standing.board: standing for standing in page.standings if standing.submission_id}
    reader = _PlayerReader(edge, player)
    shown = await reader.shown(places, standings) | await _own(request, player, places)
    answer = board_answers.FamilyStandings(
        family=family.name,
        player=player,
        window=window,
        standings=[shown[name] for name in places if name in shown],
        next=edge.cursors.next_of(listed, page.next and (window, page.next)),
    )
    return revalidated(request, json_response(answer, headers=reader.headers))


async def list_player_entries(request: web.Request) -> web.Response:
    """Return the entries of a player on a list of boards, with an outcome for each of them."""
    edge, player, names = request.app[EDGE], _player_of(request), _names_of(request)
    text, now_ms = request.query.get("window", WindowKind.ALLTIME.value), edge.clock()
    entries, headers = await entries_on(
        edge, player, names, lambda policy: readable_window(policy, text, now_ms), asked=request
    )
    answer = board_answers.PlayerEntries(player=player, entries=entries)
    return revalidated(request, json_response(answer, headers=headers))


async def entries_on(
    edge: Edge,
    player: str,
    names: Sequence[str],
    window_of: Callable[[Policy], str | None],
    *,
    asked: web.Request | None = None,
) -> tuple[list[board_answers.PlayerEntry], dict[str, str]]:
    """Return a player's entry on each of up to BOARDS_LIMIT boards, and the headers that say where from.

    `window_of` names the window of a board, None if that is not kept. With the request that `asked`, players
    see what only they may see of themselves. Raises LedgerUnavailable.
    """
    boards = await edge.catalogue.boards(names)
    outdated = {name for name in boards if await edge.outdated.has(name)}
    places = {
        name: _Place(board, window, board.policy.ranks[0])
        for name, board in boards.items()
        if name not in outdated and (window := window_of(board.policy))
    }
    wanted: dict[str, list[str]] = defaultdict(list)
    for name, place in places.items():
        wanted[place.window].append(name)
    standings = await edge.ledger.read(standings_on(player, wanted), ReadKind.PAGES)
    reader = _PlayerReader(edge, player)
    shown = await reader.shown(places, standings)
    if asked is not None:
        shown |= await _own(asked, player, places)
    entries = [
        board_answers.PlayerEntry(board=name, status="rebuilding")
        if name in outdated
        else _outcome(name, boards.get(name), places.get(name), shown.get(name))
        for name in names
    ]
    return entries, reader.headers


async def _own(
    request: web.Request, player: str, places: Mapping[str, _Place]
) -> dict[str, board_answers.StandingShown]:
    """Return the standings that only who sent a request sees so, as answers.

    Players see their own where a shadow ban hides it, and those of others beside it, as the boards show them.
    """
    edge = request.app[EDGE]
    hidden = {name: place for name, place in places.items() if player_to_overlay(request, place.board)}
    own = {
        name: place.request
        for name, place in hidden.items()
        if not place.board.policy.rollup
        and shadow_banned(request, name) == player
        and not may_be_archived(edge, place.board, place.window)
    }
    found = await own_standings(request, player, own.values())
    others = [place for name, place in hidden.items() if name not in own]
    found |= await _as_own_reader(request, player, others)
    return {name: _shown(places[name], standing) for name, standing in found.items()}


async def _as_own_reader(
    request: web.Request, player: str, places: Sequence[_Place]
) -> dict[str, RankedStanding]:
    """Return, by name, where a player stands for who sent a request, and alone sees their own standing."""

    async def seen(place: _Place) -> RankedStanding | None:
        archive = await archive_for(request, place.board, place.window)
        if isinstance(archive, OwnArchive):
            return _of_page(await archive.page_around(player, 0, place.kind))
        if archive is not None:
            return None
        reader = await reader_for(request, place.board, place.window)
        if not isinstance(reader, OwnReader):
            return None
        return _of_page((await reader.around(place.window, player, 0, place.kind)).page)

    found = await in_turns(map(seen, places), at_once=INDEXED_AT_ONCE)
    return {place.board.name: each for place, each in zip(places, found, strict=True) if each}


def longest_window(policy: Policy, now_ms: int) -> str:
    """Return the name of a board's longest window at a time."""
    kind = WindowKind.ALLTIME if WindowKind.ALLTIME in policy.windows else policy.windows[0]
    return calendar_of(policy).at(kind, now_ms).name


def readable_window(policy: Policy, name: str, now_ms: int) -> str | None:
    """Return the name of a board's window: the current one of a kind, or one by its name.

    None for a window that the board does not have, or that has left its standings for the archive.
    """
    kinds = {kind.value: kind for kind in policy.windows}
    if name in kinds:
        return window_at(policy, kinds[name], now_ms).name
    if name.partition(":")[0] in kinds and WINDOW_NAME.fullmatch(name):
        with suppress(ValueError):
            window = window_named(policy, name)
            return name if (window.expires_at_ms or FOREVER_MS) > now_ms else None
    return None


@dataclass(slots=True)
class _PlayerReader:
    """Reads one player's entries on any boards. Every method raises LedgerUnavailable."""

    edge: Edge
    player: str
    headers: dict[str, str] = field(default_factory=dict)
    is_away: bool = False

    async def shown(
        self, places: Mapping[str, _Place], standings: Mapping[str, PlayerStanding]
    ) -> dict[str, board_answers.StandingShown]:
        """Return the standings with their ranks as answers, by name of the board, in the order of `places`.

        A standing that is gone by now, or that the archive of its window lacks, is left out.
        """
        found = await self._from_archive(list(places.values()))
        asked = [place for name, place in places.items() if name in standings and name not in found]
        found |= await self._from_index(asked, standings)
        found |= await self._from_ledger([place for place in asked if place.board.name not in found])
        return {
            name: _shown(place, standing)
            for name, place in places.items()
            if (standing := found.get(name)) is not None
        }

    async def _from_archive(self, places: Sequence[_Place]) -> dict[str, RankedStanding | None]:
        """Return the standing, or None, in each window that is archived, by name of its board.

        Its standings may be of another rule than today's, and nobody folds them anew.
        """
        over = [place for place in places if may_be_archived(self.edge, place.board, place.window)]
        if not over:
            return {}
        windows: dict[str, list[str]] = defaultdict(list)
        for place in over:
            windows[place.window].append(place.board.name)
        work = archived_entries_of(self.player, windows)
        archived = await self.edge.ledger.read(work, ReadKind.PAGES)
        found: dict[str, RankedStanding | None] = {}
        for place in over:
            if entries := archived.get(place.board.name):
                archive = Archive(self.edge, place.board, place.window)
                found[place.board.name] = _of_page(archive.index_page(entries, place.kind))
        return found

    async def _from_index(
        self, places: Sequence[_Place], standings: Mapping[str, PlayerStanding]
    ) -> dict[str, RankedStanding | None]:
        """Return the standings that are the same in the index; the ledger must be asked for the others."""
        asked = [place for place in places if not self.edge.lag.behind_s(place.board.name)]
        whole = [place.request for place in asked if place.board.policy.shards == 1]
        in_shards = [place for place in asked if place.board.policy.shards > 1]
        found: dict[str, RankedStanding | None] = {}
        try:
            read = await StandingsReader(self.edge.index.client).standings(self.player, whole)
        except IndexUnavailable as error:
            self._note_away(error)
        else:
            found |= read.by_board
            for fault in read.faults[:1]:
                log_fault(fault)
        of_shards = await in_turns(map(self._in_shards, in_shards), at_once=INDEXED_AT_ONCE)
        found |= {place.board.name: each for place, each in zip(in_shards, of_shards, strict=True)}
        return {name: each for name, each in found.items() if each and _is_same(each, standings[name])}

    async def _in_shards(self, place: _Place) -> RankedStanding | None:
        """Return the standing as the shards of a board have it; None if the ledger must be asked."""
        if self.is_away:
            return None
        try:
            page = await self.edge.index.of(place.board).around(place.window, self.player, 0, place.kind)
        except IndexNotWhole:
            return None
        except IndexUnavailable as error:
            self._note_away(error)
            return None
        return _of_page(page) if page else None

    def _note_away(self, error: IndexUnavailable) -> None:
        if not self.is_away:
            note_away(error)
        self.is_away = True

    async def _from_ledger(self, places: Sequence[_Place]) -> dict[str, RankedStanding | None]:
        if not places:
            return {}
        wanted = {place.board.name: place.request for place in places}
        work = ranks_in_small_windows(self.player, list(wanted.values()))
        found = dict(await self.edge.ledger.read(work, ReadKind.PAGES))
        large = [wanted[name] for name, standing in found.items() if standing is None]
        for at in range(0, len(large), ENTRIES_LIMIT):
            work_on_large = ranks_of(self.player, large[at : at + ENTRIES_LIMIT])
            found |= await self.edge.ledger.read(work_on_large, ReadKind.PAGES)
        for name in wanted:
            LEDGER_PAGES.labels(label_of(name)).inc()
        self.headers |= SOURCE
        return found


def _is_same(ranked: RankedStanding, standing: PlayerStanding) -> bool:
    # A removal may leave a sum with the same last submission, and another score.
    return (ranked.submission_id, ranked.score) == (standing.submission_id, standing.score)


def _of_page(page: Page) -> RankedStanding | None:
    """Return the only entry of a page."""
    for entry in page.entries:
        return RankedStanding(page.total, entry.rank, entry.score, entry.achieved_at_ms, entry.submission_id)
    return None


def _shown(place: _Place, standing: RankedStanding) -> board_answers.StandingShown:
    return board_answers.StandingShown(
        board=place.board.name,
        title=place.board.policy.title,
        rank=standing.rank,
        score=standing.score,
        achieved_at=rfc3339(standing.achieved_at_ms),
        submission=standing.submission_id,
        total=standing.total,
    )


def _outcome(
    name: str, board: Board | None, place: _Place | None, standing: board_answers.StandingShown | None
) -> board_answers.PlayerEntry:
    if board is None:
        return board_answers.PlayerEntry(board=name, status="no-board")
    if place is None:
        return board_answers.PlayerEntry(board=name, status="no-window")
    return board_answers.PlayerEntry(
        board=name, status="ranked" if standing else "unranked", window=place.window, standing=standing
    )


def _begin_of(request: web.Request, family: Family, place: Sequence[str] | None) -> tuple[str, str]:
    """Return the window of the query, and the board after which the page begins. `place` is the cursor's."""
    now_ms, policy = request.app[EDGE].clock(), family.template
    queried = request.query.get("window")
    if place is None:
        window = readable_window(policy, queried or WindowKind.ALLTIME.value, now_ms)
        if window is None:
            kinds = ", ".join(kind.value for kind in policy.windows)
            detail = f"window: expected one of {kinds}, or a window that is not archived yet"
            raise Problem(ProblemType.NOT_FOUND, detail)
        return window, ""
    begun, after = place
    if queried not in (None, begun, begun.partition(":")[0]):
        raise _violation(f"cursor: belongs to the window {begun}")
    if window := readable_window(policy, begun, now_ms):
        return window, after
    raise _violation("cursor: its window is no longer kept")


def _rank_kind(policy: Policy, request: web.Request) -> RankKind:
    """Return the kind of rank that the query asks for, or else the family's own."""
    kinds = {kind.value: kind for kind in policy.ranks}
    name = request.query.get("ranks", policy.ranks[0].value)
    if name not in kinds:
        raise _violation(f"ranks: the family's boards keep {', '.join(kinds)}")
    return kinds[name]


def _player_of(request: web.Request) -> str:
    player = request.match_info["player"]
    if not _PLAYER.fullmatch(player):
        raise Problem(ProblemType.NOT_FOUND, "no player can have this id")
    return player


def _names_of(request: web.Request) -> list[str]:
    """Return each board of the list once, in its order. Raises `schema-violation`."""
    names = list(dict.fromkeys(request.query.get("boards", "").split(",")))
    if not all(map(_NAME.fullmatch, names)) or len(names) > BOARDS_LIMIT:
        raise _violation(f"boards: expected 1 to {BOARDS_LIMIT} names of boards, separated by commas")
    return names


def _violation(detail: str) -> Problem:
    return Problem(ProblemType.SCHEMA_VIOLATION, detail)
