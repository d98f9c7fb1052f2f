"""The methods of the package `leaderboard` 3.x, over a gateway instead of a sorted set of Redis.

See https://github.com/agoragames/leaderboard-python.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from .errors import ScoregateError
from .models import Entry
from .sync_clients import SyncScoregateClient, SyncServerClient

PAGE: Final = 100
"""Most entries that one request reads."""

LEADERS: Final = 10_000
"""Most members that `all_leaders` and `total_scores` read, unless told otherwise."""

WRITES: Final = 1_000
"""Most operations of one request."""

WIDEST_AROUND: Final = 51
"""Most members that `around_me` returns."""

Ranked = dict[str, Any]

_DATA: Final = "keep data of members in your own database, or send `details` with ServerClient.write_entry"
_WHOLE: Final = "an operator closes or deletes boards: `scoregate board close`, `scoregate board delete`"
_EXPIRY: Final = "give the board windows or seasons in its policy, which end by themselves"
_RANGE: Final = "read pages by `leaders` or `members_from_rank_range`, and choose among them"
_REMOVAL: Final = "call `remove_member` for each member; what leaves a board is recorded with its reason"
_MERGE: Final = "give a family a rollup in its policy, which adds boards up as they change"
_CONDITION: Final = "the board's policy says which score counts: `operator: best`, `latest` or `sum`"

INSTEAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rank_member_if": _CONDITION,
        "rank_member_if_in": _CONDITION,
        "member_data_for": _DATA,
        "member_data_for_in": _DATA,
        "members_data_for": _DATA,
        "members_data_for_in": _DATA,
        "update_member_data": _DATA,
        "update_member_data_in": _DATA,
        "remove_member_data": _DATA,
        "remove_member_data_in": _DATA,
        "delete_leaderboard": _WHOLE,
        "delete_leaderboard_named": _WHOLE,
        "expire_leaderboard": _EXPIRY,
        "expire_leaderboard_for": _EXPIRY,
        "expire_leaderboard_at": _EXPIRY,
        "expire_leaderboard_at_for": _EXPIRY,
        "members_from_score_range": _RANGE,
        "members_from_score_range_in": _RANGE,
        "total_members_in_score_range": _RANGE,
        "total_members_in_score_range_in": _RANGE,
        "remove_members_in_score_range": _REMOVAL,
        "remove_members_in_score_range_in": _REMOVAL,
        "remove_members_outside_rank": _REMOVAL,
        "remove_members_outside_rank_in": _REMOVAL,
        "merge_leaderboards": _MERGE,
        "intersect_leaderboards": _MERGE,
    }
)
"""The methods of the package that a gateway cannot offer, and what to use instead."""

_OF_NAMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "remove_member_from": "remove_member",
        "all_leaders_from": "all_leaders",
        "change_score_for_member_in": "change_score_for",
    }
    | {
        f"{name}_in": name
        for name in (
            "rank_member",
            "rank_members",
            "total_members",
            "total_pages",
            "total_scores",
            "check_member",
            "rank_for",
            "score_for",
            "score_and_rank_for",
            "page_for",
            "percentile_for",
            "score_for_percentile",
            "leaders",
            "members_from_rank_range",
            "top",
            "member_at",
            "around_me",
            "ranked_in_list",
        )
    }
)
"""The methods whose first argument is the name of a board, and those that do the same on this one."""


class NotOffered(NotImplementedError):
    """A method of the package `leaderboard` that a gateway cannot offer. It says what to use instead."""


class Leaderboard:
    """A board by the methods of the package `leaderboard`: it reads as anybody, and writes as a server.

    Members are players, whose ids have 1 to 64 characters of `A-Z a-z 0-9 _ -`; scores are whole numbers.
    Which of a member's scores counts, the order and the ranks of equal scores are the board's. `operation` of
    a write is your own id for it: pass the same one again whenever in doubt, and nothing happens twice.
    Without it, each call is an operation of its own, which only the client's own repetitions share.
    """

    def __init__(
        self,
        leaderboard_name: str,
        reader: SyncScoregateClient,
        server: SyncServerClient | None = None,
        *,
        page_size: int = 25,
        window: str | None = None,
    ) -> None:
        self.leaderboard_name = leaderboard_name
        self.page_size = max(1, page_size)
        self._reader = reader
        self._server = server
        self._window = window
        self._operator: str | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in INSTEAD:
            return partial(_refuse, name)
        if name in _OF_NAMED:
            return lambda board, *args, **options: getattr(self.named(board), _OF_NAMED[name])(
                *args, **options
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def named(self, leaderboard_name: str) -> Leaderboard:
        """Return another board of the same gateway, with the same clients."""
        return Leaderboard(
            leaderboard_name, self._reader, self._server, page_size=self.page_size, window=self._window
        )

    def rank_member(
        self, member: str, score: float, member_data: object = None, *, operation: str | None = None
    ) -> None:
        """Write a score of a member. Raises NotOffered on a board that adds scores up."""
        _refuse_data(member_data)
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

        Raises ScoregateError for the first that is refused; the others of its thousand are written.
        """
        self._refuse_sums("rank_members")
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
        _refuse_data(member_data)
        if self._operator_of_board() != "sum":
            raise NotOffered("change_score_for needs a board with `operator: sum` in its policy")
        self._writer().increment(self.leaderboard_name, operation or _new(), member, whole(delta))

    def remove_member(self, member: str, *, operation: str | None = None) -> None:
        """Take everything of a member off the board."""
        self._writer().remove(self.leaderboard_name, operation or _new(), member)

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
        return math.ceil((self.rank_for(member) or 0) / (page_size or self.page_size))

    def percentile_for(self, member: str) -> int | None:
        """Return the share (%) of members that a member is ahead of, rounded as the package does.

        None without a rank, see `rank_for`.
        """
        entry = self._entry(member)
        if entry is None or entry.rank is None or not entry.total:
            return None
        if self._reader.board(self.leaderboard_name).order == "ascending":
            return 100 - math.ceil((entry.rank - 1) / entry.total * 100)
        return math.ceil((entry.total - entry.rank) / entry.total * 100)

    def score_for_percentile(self, percentile: float) -> float | None:
        """Return the score at a percentile, between those of two members if need be."""
        total = self.total_members()
        if not 0 <= percentile / 100 <= 1 or not total:
            return None
        place = (total - 1) * (1 - percentile / 100)  # from the best on
        near = self._from(math.floor(place), 2)
        if not near:
            return None
        return float(near[0].score + (near[-1].score - near[0].score) * (place - math.floor(place)))

    def leaders(self, current_page: int, *, page_size: int | None = None, **options: Any) -> list[Ranked]:
        """Return a page, the first one being 1."""
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
        """Return up to 51 members with the given one in the middle, and nobody if it is not on the board."""
        _refuse_options(options)
        size = page_size or self.page_size
        if size > WIDEST_AROUND:
            raise ValueError(f"page_size: around_me returns up to {WIDEST_AROUND} members")
        try:
            near = self._reader.around(self.leaderboard_name, member, radius=size // 2, window=self._window)
        except ScoregateError as error:
            if error.name != "not-found":
                raise
            return []
        above = [entry.player for entry in near].index(member)
        return (
            self.leaders(1, page_size=size) if above < size // 2 else [_ranked(each) for each in near[:size]]
        )

    def ranked_in_list(
        self,
        members: Sequence[str],
        *,
        include_missing: bool = True,
        sort_by: str | None = None,
        **options: Any,
    ) -> list[Ranked]:
        """Return members with their ranks among all, in the order given, or by `rank` or `score`."""
        _refuse_options(options)
        found: dict[str, Ranked] = {}
        for first in range(0, len(members), PAGE):
            asked = list(members[first : first + PAGE])
            page = self._reader.entries(self.leaderboard_name, window=self._window, players=asked, limit=PAGE)
            found |= {entry.player: _ranked(entry, entry.global_rank) for entry in page.entries}
        listed = [found.get(member) or _missing(member) for member in members]
        if not include_missing:
            listed = [each for each in listed if each["member"] in found]
        if sort_by in {"rank", "score"}:
            listed.sort(key=lambda each: math.inf if each[sort_by] is None else each[sort_by])
        return listed

    def _members(self, offset: int, count: int, options: Mapping[str, Any]) -> list[Ranked]:
        _refuse_options(options)
        return [_ranked(entry) for entry in self._from(offset, count)]

    def _from(self, offset: int, count: int) -> list[Entry]:
        """Return up to `count` entries from a place on, read page after page without gaps."""
        found: list[Entry] = []
        cursor: str | None = None
        while len(found) < count:
            limit = min(PAGE, count - len(found))
            place: dict[str, Any] = {"cursor": cursor} if cursor else {"offset": offset}
            page = self._reader.entries(self.leaderboard_name, window=self._window, limit=limit, **place)
            found += page.entries
            cursor = page.next
            if cursor is None or not page.entries:
                break
        return found

    def _entry(self, member: str) -> Entry | None:
        try:
            return self._reader.entry(self.leaderboard_name, member, window=self._window)
        except ScoregateError as error:
            if error.name != "not-found" or error.problem.get("ranked") is not False:
                raise
            return None

    def _operator_of_board(self) -> str:
        if self._operator is None:
            self._operator = self._reader.board(self.leaderboard_name).operator
        return self._operator

    def _refuse_sums(self, method: str) -> None:
        if self._operator_of_board() == "sum":
            raise NotOffered(f"{method}: the board adds scores up; use `change_score_for`")

    def _writer(self) -> SyncServerClient:
        if self._server is None:
            raise NotOffered("writing needs a SyncServerClient with a registered key: pass it as `server`")
        return self._server


def whole(score: float) -> int:
    """Return a score as the whole number that it is. Raises ValueError for any other."""
    if score != int(score):
        raise ValueError(f"{score}: scores are whole numbers; a policy's `decimals` says how they are shown")
    return int(score)


def _new() -> str:
    return secrets.token_urlsafe(18)


def _ranked(entry: Entry, rank: int | None = None) -> Ranked:
    return {"member": entry.player, "score": entry.score, "rank": entry.rank if rank is None else rank}


def _missing(member: str) -> Ranked:
    return {"member": member, "score": None, "rank": None}


def _refuse(method: str, *_: object, **__: object) -> None:
    raise NotOffered(f"{method}: {INSTEAD[method]}")


def _refuse_data(member_data: object) -> None:
    if member_data is not None:
        raise NotOffered(f"member_data: {_DATA}")


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Raise NotOffered for member data, and TypeError for an option that nobody knows."""
    if options.get("with_member_data"):
        raise NotOffered(f"with_member_data: {_DATA}")
    if unknown := sorted(set(options) - {"with_member_data", "members_only"}):
        raise TypeError(f"unknown options: {', '.join(unknown)}")
