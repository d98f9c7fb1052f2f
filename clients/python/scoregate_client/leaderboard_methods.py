"""The methods of the package `leaderboard`: those of named boards, and those that a gateway cannot offer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MEMBER_DATA: Final = (
    "keep data of members in your own database, or send `details` with ServerClient.write_entry"
)
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
        "member_data_for": MEMBER_DATA,
        "member_data_for_in": MEMBER_DATA,
        "members_data_for": MEMBER_DATA,
        "members_data_for_in": MEMBER_DATA,
        "update_member_data": MEMBER_DATA,
        "update_member_data_in": MEMBER_DATA,
        "remove_member_data": MEMBER_DATA,
        "remove_member_data_in": MEMBER_DATA,
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

OF_NAMED: Final[Mapping[str, str]] = MappingProxyType(
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


def refuse(method: str, *_: object, **__: object) -> None:
    """Raise NotOffered with what to use instead of a method."""
    raise NotOffered(f"{method}: {INSTEAD[method]}")


def refuse_data(member_data: object) -> None:
    """Raise NotOffered for data of a member."""
    if member_data is not None:
        raise NotOffered(f"member_data: {MEMBER_DATA}")
