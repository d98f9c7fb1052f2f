"""The methods of the package `leaderboard` 3.x, over a gateway instead of a sorted set of Redis.

See https://github.com/agoragames/leaderboard-python. The README of this package lists where they differ.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

from .errors import ScoregateError
from .leaderboard_methods import INSTEAD, MEMBER_DATA, OF_NAMED, NotOffered, refuse, refuse_data
from .models import Board, Entry
from .sync_clients import SyncScoregateClient, SyncServerClient

PAGE: Final = 100
"""Most entries that one request reads."""

LEADERS: Final = 10_000
"""Most members that `all_leaders` and `total_scores` read, unless told otherwise."""

WRITES: Final = 1_000
"""Most operations of one request."""

WIDEST_AROUND: Final = 51
"""Most neighbours that one request reads."""

FARTHEST: Final = 10**9
"""Most entries that a request skips."""

Ranked = dict[str, Any]

_PLAYER: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OPTIONS: Final = {"with_member_data", "members_only", "sort_by", "include_missing", "page_size"}


class Leaderboard:
    """A board by the methods of the package `leaderboard`: it reads as anybody, and writes as a server.

    Members are players, whose ids have 1 to 64 characters of `A-Z a-z 0-9 _ -`; scores are whole numbers.
    Which of a member's scores counts and the order of equal scores are the board's, and so are the ranks of
    equal scores, unless a class has other `ranks`. `operation` of a write is your own id for it: pass the
    same one again whenever in doubt, and nothing happens twice. Without it, each call is an operation of its
    own, which only the client's own repetitions share.
    """

    DEFAULT_PAGE_SIZE: ClassVar[int] = 25
    MEMBER_KEY: ClassVar[str] = "member"
    SCORE_KEY: ClassVar[str] = "score"
    RANK_KEY: ClassVar[str] = "rank"
    ranks: ClassVar[str | None] = None

    def __init__(
        self,
        leaderboard_name: str,
        reader: SyncScoregateClient,
        server: SyncServerClient | None = None,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        window: str | None = None,
    ) -> None:
        self.leaderboard_name = leaderboard_name
        self.page_size = page_size if page_size >= 1 else self.DEFAULT_PAGE_SIZE
        self._reader = reader
        self._server = server
        self._window = window
        self._known: Board | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in INSTEAD:
            return partial(refuse, name)
        if name in OF_NAMED:
            return lambda board, *args, **options: getattr(self.named(board), OF_NAMED[name])(
                *args, **options
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def named(self, leaderboard_name: str) -> Leaderboard:
        """Return another board of the same gateway, with the same clients."""
        return type(self)(
            leaderboard_name, self._reader, self._server, page_size=self.page_size, window=self._window
        )

    def rank_member(
        self, member: str, score: float, member_data: object = None, *, operation: str | None = None
    ) -> None:
        """Write a score of a member. Raises NotOffered on a board that adds scores up."""
        refuse_data(member_data)
        self._refuse_sums("rank_member")
        self._writer().write_entry(self.leaderboard_name, operation or _new(), member, whole(score))

    def rank_member_across(
        self, leaderboards: Sequence[str], member: str, score: float, member_data: object = None
    ) -> None:
        """Write a score of a member on several boards, one after the other."""
        for name in leaderboards:
            self.named(name).rank_member(member, score, member_data)

    def rank_members(self, members_and_scores: Sequence[Any]) -> None:
        """Write scores, given as member, score, member, score and so on, 1,000 at once.

        Raises ScoregateError for the first that is refused, of which the others of its thousand are written,
        and ValueError before anything is written if a member has no score, or one that is not whole.
        """
        self._refuse_sums("rank_members")
        if len(members_and_scores) % 2:
            raise ValueError(f"{members_and_scores[-1]}: has no score")
        for score in members_and_scores[1::2]:
            whole(score)
        each = iter(members_and_scores)
        pairs = iter(zip(each, each, strict=False))
        while chunk := list(islice(pairs, WRITES)):
            operations = [
                {"action": "write", "operation": _new(), "player": member, "score": whole(score)}
                for member, score in chunk
            ]
            for outcome in self._writer().write_each(self.leaderboard_name, operations):
                if outcome["status"] == "refused":
                    problem = outcome["problem"]
                    raise ScoregateError(int(problem.get("status", 0)), problem, is_of_gateway=True)

    def change_score_for(
        self, member: str, delta: float, member_data: object = None, *, operation: str | None = None
    ) -> None:
        """Add to a member's score. Raises NotOffered unless the board adds scores up."""
        refuse_data(member_data)
        if self._board().operator != "sum":
            raise NotOffered("change_score_for needs a board with `operator: sum` in its policy")
        self._writer().increment(self.leaderboard_name, operation or _new(), member, whole(delta))

    def remove_member(self, member: str, *, operation: str | None = None) -> None:
        """Take everything of a member off the board, if there is any."""
        writer = self._writer()
        if not _PLAYER.fullmatch(member):
            return
        writer.remove(self.leaderboard_name, operation or _new(), member)

    def total_members(self) -> int:
        """Return the number of members."""
        return self._reader.entries(self.leaderboard_name, window=self._window, limit=1).total

    def total_pages(self, page_size: int | None = None) -> int:
        """Return the number of pages."""
        return math.ceil(self.total_members() / (page_size or self.page_size))

    def total_scores(self, most: int = LEADERS) -> int:
        """Return the sum of all scores. Raises ValueError if there are more than `most` members."""
        return sum(leader["score"] for leader in self.all_leaders(most=most))

    def check_member(self, member: str) -> bool:
        """Return whether a member is on the board."""
        return self._entry(member) is not None

    def rank_for(self, member: str) -> int | None:
        """Return a member's rank; None without one, and below the ranks that the board keeps exactly."""
        entry = self._entry(member)
        return None if entry is None else entry.rank

    def score_for(self, member: str) -> int | None:
        """Return a member's score, None without one."""
        entry = self._entry(member)
        return None if entry is None else entry.score

    def score_and_rank_for(self, member: str) -> Ranked:
        """Return a member's score and rank, of one moment."""
        entry = self._entry(member)
        return _missing(member) if entry is None else _ranked(entry)

    def page_for(self, member: str, page_size: int | None = None) -> int:
        """Return the page with a member, 0 without one."""
        position, _ = self._position(member) or (0, 0)
        return math.ceil((position or 0) / (page_size or self.page_size))

    def percentile_for(self, member: str) -> int | None:
        """Return the share (%) of members that a member is ahead of, rounded as the package does.

        None without a place, see `rank_for`.
        """
        position, total = self._position(member) or (None, 0)
        if position is None:
            return None
        if self._board().order == "ascending":
            return 100 - math.ceil((position - 1) / total * 100)
        return math.ceil((total - position) / total * 100)

    def score_for_percentile(self, percentile: float) -> float | None:
        """Return the score at a percentile, between those of two members if need be."""
        total = self.total_members()
        if not 0 <= percentile / 100 <= 1 or not total:
            return None
        is_ascending = self._board().order == "ascending"
        place = (total - 1) * ((100 - percentile if is_ascending else percentile) / 100)  # from the lowest on
        low, high = math.floor(place), math.ceil(place)
        near = [
            entry.score for entry in self._from(low if is_ascending else total - 1 - high, high - low + 1)
        ]
        if not near:
            return None
        lowest, highest = min(near), max(near)
        return float(lowest + (place - low) * (highest - lowest))

    def leaders(self, current_page: int, *, page_size: int | None = None, **options: Any) -> list[Ranked]:
        """Return a page, the first one being 1.

        Of all lists, `members_only` leaves out scores and ranks, and `sort_by` sorts by `rank` or `score`.
        """
        size = page_size or self.page_size
        return self._members((max(1, current_page) - 1) * size, size, options)

    members = leaders

    def all_leaders(self, *, most: int = LEADERS, **options: Any) -> list[Ranked]:
        """Return all members. Raises ValueError if there are more than `most`."""
        total = self.total_members()
        if total > most:
            raise ValueError(f"{total} members are more than {most}: read them by pages, or raise `most`")
        return self._members(0, most, options)

    def members_from_rank_range(self, starting_rank: int, ending_rank: int, **options: Any) -> list[Ranked]:
        """Return the members from one place of the board to another, both included."""
        first = max(1, starting_rank)
        return self._members(first - 1, ending_rank - first + 1, options)

    def top(self, number: int, **options: Any) -> list[Ranked]:
        """Return the best members."""
        return self._members(0, number, options)

    def member_at(self, position: int, **options: Any) -> Ranked | None:
        """Return the member at a place of the board, from 1 on, None if there is nobody."""
        found = self._members(position - 1, 1, options) if position > 0 else []
        return found[0] if found else None

    def around_me(self, member: str, *, page_size: int | None = None, **options: Any) -> list[Ranked]:
        """Return members with the given one in the middle, and nobody if it is not on the board.

        A page of up to 51 members is of one moment. Raises ValueError for a larger one around a member
        without an exact rank.
        """
        _refuse_options(options)
        size = page_size or self.page_size
        if size > WIDEST_AROUND:
            return self._widely_around(member, size, options)
        if not _PLAYER.fullmatch(member):
            return []
        where: dict[str, Any] = {"window": self._window, "ranks": self.ranks}
        try:
            near = self._reader.around(self.leaderboard_name, member, radius=size // 2, **where)
        except ScoregateError as error:
            if not _is_missing(error):
                raise
            return []
        above = [entry.player for entry in near].index(member)
        if above < size // 2:
            return self.leaders(1, page_size=size, **options)
        return self._shown([_ranked(each) for each in near[:size]], options)

    def _widely_around(self, member: str, size: int, options: Mapping[str, Any]) -> list[Ranked]:
        place = self._position(member)
        if place is None:
            return []
        if place[0] is None:
            raise ValueError(f"page_size: up to {WIDEST_AROUND} members around one without an exact rank")
        return self._members(max(0, place[0] - 1 - size // 2), size, options)

    def ranked_in_list(
        self, members: Sequence[str], *, include_missing: bool = True, **options: Any
    ) -> list[Ranked]:
        """Return members with their ranks among all, in the order given, or by `rank` or `score`.

        Ranks that equal scores share take a request for each member, others one for a hundred.
        """
        _refuse_options(options)
        asked = [member for member in dict.fromkeys(members) if _PLAYER.fullmatch(member)]
        found = self._found(asked) if self._kind() == "unique" else self._found_one_by_one(asked)
        listed = [found.get(member) or _missing(member) for member in members]
        if not include_missing:
            listed = [each for each in listed if each["member"] in found]
        return self._shown(listed, options)

    def _found(self, members: Sequence[str]) -> dict[str, Ranked]:
        found: dict[str, Ranked] = {}
        for first in range(0, len(members), PAGE):
            asked = members[first : first + PAGE]
            page = self._reader.entries(self.leaderboard_name, window=self._window, players=asked, limit=PAGE)
            found |= {entry.player: _ranked(entry, entry.global_rank) for entry in page.entries}
        return found

    def _found_one_by_one(self, members: Sequence[str]) -> dict[str, Ranked]:
        entries = ((member, self._entry(member)) for member in members)
        return {member: _ranked(entry) for member, entry in entries if entry is not None}

    def _members(self, offset: int, count: int, options: Mapping[str, Any]) -> list[Ranked]:
        _refuse_options(options)
        return self._shown([_ranked(entry) for entry in self._from(offset, count)], options)

    def _shown(self, listed: list[Ranked], options: Mapping[str, Any]) -> list[Ranked]:
        """Return a list as the options have it; who is missing is last, on ascending boards first."""
        if options.get("members_only"):
            return [{"member": each["member"]} for each in listed]
        key = options.get("sort_by")
        if key not in {"rank", "score"}:
            return listed
        if any(each[key] is None for each in listed) and self._board().order == "ascending":
            return sorted(listed, key=lambda each: -math.inf if each[key] is None else each[key])
        return sorted(listed, key=lambda each: math.inf if each[key] is None else each[key])

    def _from(self, offset: int, count: int) -> list[Entry]:
        """Return up to `count` entries from a place on, read page after page without gaps."""
        found: list[Entry] = []
        cursor: str | None = None
        while len(found) < count and offset <= FARTHEST:
            limit = min(PAGE, count - len(found))
            place: dict[str, Any] = {"cursor": cursor} if cursor else {"offset": offset}
            where: dict[str, Any] = {"window": self._window, "ranks": self.ranks}
            page = self._reader.entries(self.leaderboard_name, limit=limit, **where, **place)
            found += page.entries
            cursor = page.next
            if cursor is None or not page.entries:
                break
        return found

    def _entry(self, member: str) -> Entry | None:
        if not _PLAYER.fullmatch(member):
            return None
        where: dict[str, Any] = {"window": self._window, "ranks": self.ranks}
        try:
            return self._reader.entry(self.leaderboard_name, member, **where)
        except ScoregateError as error:
            if not _is_missing(error):
                raise
            return None

    def _position(self, member: str) -> tuple[int | None, int] | None:
        """Return a member's place among so many, which equal scores do not share; None if it has none."""
        if not _PLAYER.fullmatch(member):
            return None
        if self._kind() == "unique":
            entry = self._entry(member)
            return None if entry is None else (entry.rank, entry.total or 0)
        page = self._reader.entries(self.leaderboard_name, window=self._window, players=[member], limit=1)
        return (page.entries[0].global_rank, self.total_members()) if page.entries else None

    def _kind(self) -> str:
        """Return the kind of the ranks that are shown."""
        return self.ranks or self._board().ranks[0]

    def _board(self) -> Board:
        """Return the board as it was described first."""
        if self._known is None:
            self._known = self._reader.board(self.leaderboard_name)
        return self._known

    def _refuse_sums(self, method: str) -> None:
        if self._board().operator == "sum":
            raise NotOffered(f"{method}: the board adds scores up; use `change_score_for`")

    def _writer(self) -> SyncServerClient:
        if self._server is None:
            raise NotOffered("writing needs a SyncServerClient with a registered key: pass it as `server`")
        return self._server


class CompetitionRankingLeaderboard(Leaderboard):
    """A board on which equal scores share a rank, and the next one is as many lower (1 2 2 4)."""

    ranks = "sparse"


class TieRankingLeaderboard(Leaderboard):
    """A board with `dense` ranks: equal scores share a rank, and the next one is one lower (1 2 2 3)."""

    ranks = "dense"


def whole(score: float) -> int:
    """Return a score as the whole number that it is. Raises ValueError for any other."""
    if not math.isfinite(score) or score != int(score):
        raise ValueError(f"{score}: scores are whole numbers; a policy's `decimals` says how they are shown")
    return int(score)


def _new() -> str:
    return secrets.token_urlsafe(18)


def _ranked(entry: Entry, rank: int | None = None) -> Ranked:
    return {"member": entry.player, "score": entry.score, "rank": entry.rank if rank is None else rank}


def _is_missing(error: ScoregateError) -> bool:
    """Return whether a board is there, and a member is not on it."""
    return error.name == "not-found" and error.problem.get("ranked") is False


def _missing(member: str) -> Ranked:
    return {"member": member, "score": None, "rank": None}


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Raise NotOffered for member data, and TypeError for an option that nobody knows."""
    if options.get("with_member_data"):
        raise NotOffered(f"with_member_data: {MEMBER_DATA}")
    if unknown := sorted(set(options) - _OPTIONS):
        raise TypeError(f"unknown options: {', '.join(unknown)}")
